"""Torch modules: extractors, multi-layer perceptrons and policies. No losses here."""
