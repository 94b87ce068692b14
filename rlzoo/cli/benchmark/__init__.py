"""Commands `rlzoo benchmark ...`."""
