"""Loops, callbacks, evaluation and checkpoints: everything that owns the clock."""
