"""Judges a model: response prediction, SNLI, STS-B (untuned and tuned), CQA, and the shipped sample."""
