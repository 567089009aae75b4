"""Benchmarks of speed and memory against named peers: `make bench`."""
