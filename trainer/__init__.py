"""Trains, judges and publishes sentence encoders."""
