"""Text in, frozen dataclasses out: the catalogue, hyperparameter files, safe values, run folders."""
