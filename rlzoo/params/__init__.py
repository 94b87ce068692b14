"""Declarations of hyperparameters: descriptions for readers, and ranges for `rlzoo optimize`.

Below the algorithms, so that the file of an algorithm declares both beside its equations.
"""
