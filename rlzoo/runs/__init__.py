"""Run folders and the agents stored in them."""
