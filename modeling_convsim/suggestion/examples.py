"""Messages that the page of model_cards/space offers to try."""

from collections.abc import Iterable

import numpy as np

MAX_EXAMPLES = 5
LONGEST_EXAMPLE = 60  # characters: one or two lines on a phone


def choose_examples(messages: Iterable[str]) -> list[str]:
    """Samples up to five distinct short messages of one line, with seed 0."""
    short = [text for text in dict.fromkeys(messages) if text.isprintable() and 0 < len(text) <= LONGEST_EXAMPLE]
    return [short[row] for row in np.random.default_rng(0).permutation(len(short))[:MAX_EXAMPLES]]
