"""Agents as files that other programs run: ONNX, TorchScript, JSON and web pages."""
