"""Speed-ups that change no result."""
