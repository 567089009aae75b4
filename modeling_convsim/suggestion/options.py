"""The values and defaults of options, in a module that imports nothing, as `modeling_convsim.encoding.options` does."""

from typing import Literal

IndexSide = Literal["response", "input"]
DIVERSITY = 0.0  # see `suggestion.deduplication.select_diverse`
DUPLICATE_COSINE = 0.9  # of sentence embeddings; "It is on its way" and "It's on the way" have .88 in best_dan
