"""Small environments for tests and experiments."""
