"""What the fork server of `tests/forking.py` imports, so that its forks need not."""

import gc
from importlib import import_module

gc.disable()  # of what is imported, nothing is garbage
for name in (
    "evaluate", "matplotlib.backends.backend_agg", "sentence_transformers", "tensorboardX", "transformers.pipelines",
    "trainer.run", "trainer.training.train",
):  # fmt: skip
    import_module(name)
gc.freeze()  # a garbage collection in a fork would copy the memory of all that was imported
gc.enable()
