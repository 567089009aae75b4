"""Public datasets: a module for each kind, which is the command of its name and has the function that loads it.

A kind that is used for evaluation has `load_evaluation(source)`, which returns the splits; `leakage --against` uses it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from typing import TYPE_CHECKING

from data_scripts.files.errors import InputError

if TYPE_CHECKING:
    from datasets import DatasetDict

ALIASES = {"snli": "nli"}  # another name of a command


def _load_evaluation(name: str, source: str) -> DatasetDict:
    """Load a source with the command of this name, if that command reads evaluation datasets."""
    from data_scripts.files.datasets import load_columns

    name = ALIASES.get(name, name)
    if name not in {module.name for module in pkgutil.iter_modules(__path__)}:
        return load_columns(source, ())
    load = getattr(importlib.import_module(f"{__name__}.{name}"), "load_evaluation", None)
    return load(source) if load else load_columns(source, ())


def load_evaluation_texts(against: Iterable[str]) -> dict[str, list[str]]:
    """The sentences of each evaluation split of some datasets: "NAME split" -> sentences.

    Args:
        against: NAME=SOURCE, as the command's help describes them.

    Raises:
        InputError: not NAME=SOURCE, a source that cannot be read, or one without an evaluation split.
    """
    from data_scripts.clean.leakage import text_columns

    sentences: dict[str, list[str]] = {}
    for each in against:
        name, equals, source = each.partition("=")
        if not (name and equals and source):
            raise InputError(f"--against {each}: expected NAME=SOURCE, such as stsb=mteb/stsbenchmark-sts")
        splits = _load_evaluation(name, source)
        evaluation = {split: rows for split, rows in splits.items() if not split.startswith("train")}
        if not evaluation:
            raise InputError(f"--against {each}: has no split for evaluation; found {', '.join(splits)}")
        for split, rows in evaluation.items():
            key = f"{name} {'dev' if split == 'validation' else split}"
            if key in sentences:
                raise InputError(f"--against {each}: the name {name} is used twice; choose another name")
            columns = text_columns(rows.column_names, f"{source}, split {split}")
            sentences[key] = [
                text
                for column in columns
                for value in rows[column]
                for text in (value if isinstance(value, list) else [value])
                if isinstance(text, str)
            ]
    return sentences
