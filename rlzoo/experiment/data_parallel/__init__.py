"""Trainings that several processes share."""
