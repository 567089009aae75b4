"""Models for other engines: ONNX and static files."""
