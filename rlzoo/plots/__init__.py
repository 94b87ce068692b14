"""Figures of trainings: runs, evaluations, aggregates."""
