"""Logging of training metrics."""
