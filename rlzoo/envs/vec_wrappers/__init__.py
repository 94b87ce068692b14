"""Wrappers of vectorised environments."""
