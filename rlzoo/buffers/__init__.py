"""Storage of experience for the training loops."""
