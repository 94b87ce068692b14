"""Speed-ups that change no result; README.md in this folder describes and measures them."""
