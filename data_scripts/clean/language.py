"""Detects the language of a text with py3langid, whose model takes a while to load."""

import functools

from py3langid.langid import MODEL_FILE, LanguageIdentifier

MIN_PROBABILITY = 0.5  # answers with a lower probability, frequent for short texts, are not used


@functools.cache
def _detector() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def languages() -> list[str]:
    """The ISO 639-1 codes of the languages that the detector knows."""
    return sorted(set(_detector().labels))


def detect_language(text: str) -> str:
    """The text's language as an ISO 639-1 code, or "" if the detector is not sure."""
    code, probability = _detector().classify(text)
    return code if probability >= MIN_PROBABILITY else ""
