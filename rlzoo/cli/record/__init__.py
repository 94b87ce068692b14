"""Commands that record videos and expert data."""
