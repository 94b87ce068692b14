"""Files: atomic writes, the safe container and its readers, and what a file may name."""
