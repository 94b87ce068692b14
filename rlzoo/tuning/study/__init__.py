"""Running a study: trials, workers, samplers and pruners."""
