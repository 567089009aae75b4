"""A run: its setup, batches, optimizers, loop and checkpoints."""
