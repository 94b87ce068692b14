"""Benchmarks: lists of trainings, their scores and tables."""
