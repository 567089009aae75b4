"""The metrics, each a self-contained `evaluate` module: usable by class or by `evaluate.load`."""
