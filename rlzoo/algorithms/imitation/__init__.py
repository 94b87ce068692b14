"""Imitation learning from expert demonstrations."""
