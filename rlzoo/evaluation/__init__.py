"""Evaluation of policies over episodes."""
