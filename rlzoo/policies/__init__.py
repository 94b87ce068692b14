"""Policies: networks that map observations to actions, values and log-probabilities."""
