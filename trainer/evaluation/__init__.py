"""Judges a model: metrics, the tasks they are measured on, and baselines to stand beside."""
