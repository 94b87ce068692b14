"""Optimisers and target averaging."""
