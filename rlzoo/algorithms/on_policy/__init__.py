"""On-policy algorithms: rollouts are discarded after each update."""
