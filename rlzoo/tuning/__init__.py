"""Hyperparameter optimisation: search spaces, a queue of trials, and the processes that work it off."""
