"""The metrics, each a self-contained `evaluate` module: usable by class, by `evaluate.load`, or as a Hub Space."""
