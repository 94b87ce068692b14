"""Learning curves and tables."""
