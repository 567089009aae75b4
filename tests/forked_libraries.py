"""What the fork server of `tests/forking.py` imports, so that its forks need not."""

import gc

import evaluate
import matplotlib.backends.backend_agg
import sentence_transformers
import tensorboardX
import transformers.pipelines

import trainer.run
import trainer.training.train

__all__ = ["evaluate", "matplotlib", "sentence_transformers", "tensorboardX", "trainer", "transformers"]
gc.freeze()  # a garbage collection in a fork would copy the memory of all that was imported
