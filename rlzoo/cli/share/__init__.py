"""Commands that exchange agents: push, pull, import, export."""
