"""Models for other engines: ONNX."""
