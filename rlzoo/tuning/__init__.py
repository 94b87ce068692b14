"""Hyperparameter optimisation: search spaces, studies and their storage, trials and reports."""
