"""Search spaces of hyperparameter optimisation."""
