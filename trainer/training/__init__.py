"""Training: setup, batches, optimizers, loop and checkpoints of a run."""
