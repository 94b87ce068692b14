"""Speed-ups that a user turns on: captured and compiled gradient steps, precision of matrix products."""
