"""Replay buffers: uniform, prioritised and hindsight experience replay."""
