"""One file a command: each reads one kind of source and writes a dataset."""
