"""Processes and threads: signals, workers, locks, thread counts."""
