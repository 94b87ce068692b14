"""Trainings as tasks: of a benchmark list, or one for each seed."""
