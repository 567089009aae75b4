"""The recall of masking by kind, measured on generated texts by `tests/data_scripts/clean/personal_data.py`."""

import json
from pathlib import Path
from typing import TypedDict

RECORDED = Path(__file__).with_suffix(".json")


class Recall(TypedDict):
    """How many generated forms of a kind there are, and how many are masked whole."""

    forms: int
    masked: int


def read_recall() -> dict[str, Recall]:
    """Kind -> its recall."""
    return json.loads(RECORDED.read_text(encoding="utf-8"))["recall"]
