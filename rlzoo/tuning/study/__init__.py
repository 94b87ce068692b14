"""Studies: trials, workers, samplers, pruners and storage."""
