"""The language of a log, and whether the base was trained on it."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from datasets import Dataset

from data_scripts.clean.text import detect_language

PAIRS, PARTS = 500, 20  # a part is long enough for the detector, which single messages are not
MULTILINGUAL = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"


def find_language(pairs: Dataset) -> str | None:
    """The ISO 639-1 code of the language of most parts of a random sample of pairs; None if there is none."""
    sample = pairs.select(np.random.default_rng(0).choice(len(pairs), min(PAIRS, len(pairs)), replace=False))
    texts = [f"{message} {reply}" for message, reply in zip(sample["input"], sample["response"], strict=True)]
    parts = [" ".join(part) for part in np.array_split(np.array(texts, dtype=object), min(PARTS, len(texts)))]
    language, count = Counter(map(detect_language, parts)).most_common(1)[0]
    return language if language and count * 2 > len(parts) else None


def describe_mismatch(language: str | None, known: Sequence[str], base: str) -> str | None:
    """A warning if the messages are in a language that the base does not know; else None.

    Args:
        language: the language of the messages.
        known: the languages of the base; empty if they are not known.
        base: the name of the base.
    """
    if language is None or not known or language in known:
        return None
    return (
        f"the messages seem to be in a language ({language}) that the base ({base}: {', '.join(known)}) does not know; "
        f"adapt an encoder for this language, or a multilingual one: --base {MULTILINGUAL}"
    )
