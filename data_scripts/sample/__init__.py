"""The sample dataset that ships with the project."""
