"""Where configuration, environments and algorithms meet."""
