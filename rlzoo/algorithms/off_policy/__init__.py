"""Off-policy algorithms: they learn from a replay buffer."""
