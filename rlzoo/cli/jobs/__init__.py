"""Command `rlzoo jobs`."""
