"""Gradient steps with backward passes that are written out, for plain networks on the CPU."""
