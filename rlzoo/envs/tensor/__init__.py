"""Vectorised environments whose states, actions and observations are PyTorch tensors on one device."""
