"""Studies in their storage: settings, the queue of trials, the workers that run them, and checks."""
