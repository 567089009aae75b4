"""Speed and memory against named peers: `make bench`."""
