"""Evaluation of a model: metrics, evaluators, and baselines to compare with."""
