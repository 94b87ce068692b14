"""Commands `rlzoo plot ...`."""
