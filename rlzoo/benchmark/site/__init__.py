"""The static results page of a benchmark."""
