"""The language of a log, and whether the base was trained on it."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from datasets import Dataset

from data_scripts.clean.text import detect_language

PAIRS, PARTS = 500, 20  # a part is long enough for the detector, which single messages are not
MULTILINGUAL = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"


def find_language(pairs: Dataset) -> str | None:
    """The language that most parts of a random sample of pairs are in, as an ISO 639-1 code; None if there is none."""
    sample = pairs.select(np.random.default_rng(0).choice(len(pairs), min(PAIRS, len(pairs)), replace=False))
    texts = [f"{message} {reply}" for message, reply in zip(sample["input"], sample["response"], strict=True)]
    parts = [" ".join(part) for part in np.array_split(np.array(texts, dtype=object), min(PARTS, len(texts)))]
    language, count = Counter(map(detect_language, parts)).most_common(1)[0]
    return language if language and count * 2 > len(parts) else None


def describe_mismatch(language: str | None, known: Sequence[str], base: str) -> str | None:
    """What to do if the messages are in another language than those that a base knows; None if nothing is to be done.

    Args:
        language: that of the messages.
        known: those of the base; if there are none, it is not known.
        base: its name.
    """
    if language is None or not known or language in known:
        return None
    return (
        f"the messages seem to be in another language ({language}) than the base ({', '.join(known)}: {base}); adapt "
        f"an encoder of that language, or a multilingual one: --base {MULTILINGUAL}"
    )
