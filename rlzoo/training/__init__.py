"""Loops, callbacks, evaluation and checkpoints: everything that advances the counters."""
