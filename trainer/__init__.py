"""Trains, evaluates and publishes sentence encoders."""
