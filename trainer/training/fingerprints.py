"""Fingerprints of what a run reads, so that a run is not resumed with other data."""

from collections.abc import Iterator, Mapping
from typing import Any

import xxhash
from datasets import Dataset
from transformers import PreTrainedTokenizerFast

from trainer.arguments import Arguments
from trainer.data.datasets import RunData
from trainer.data.teacher import teacher_content

BATCH = 10_000


def fingerprint_inputs(data: RunData, tokenizer: PreTrainedTokenizerFast, arguments: Arguments) -> dict[str, str]:
    """Return the fingerprint of each dataset, split by split, of the tokenizer, and of each teacher of a task.

    It depends on the rows that the run reads, not on names, dates or formats of files. Reading them takes a fraction of
    the time in which the token cache looks them up.
    """
    score_teachers, teacher = getattr(arguments, "score_teachers", []), getattr(arguments, "teacher", None)
    teachers = {f"score teacher {number}": source for number, source in enumerate(score_teachers, start=1)}
    teachers |= {"teacher": teacher} if teacher else {}
    prints = {f"training data of {name}": _fingerprint_rows(rows) for name, rows in data.training.items()}
    for name, splits in data.evaluation.items():
        prints |= {f"{name} ({split})": _fingerprint_rows(rows) for split, rows in _leaves(splits)}
    prints["tokenizer"] = xxhash.xxh3_128_hexdigest(tokenizer.backend_tokenizer.to_str().encode())
    return prints | {name: teacher_content(source) for name, source in teachers.items()}


def find_changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names whose fingerprints differ, or that only one of both has."""
    return sorted(name for name in {**before, **now} if before.get(name) != now.get(name))


def _leaves(splits: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Dataset]]:
    """Yield the name of each split and its rows; `sts` has a further level of names."""
    for name, rows in splits.items():
        if isinstance(rows, Mapping):
            yield from _leaves(rows, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", rows


def _fingerprint_rows(rows: Dataset) -> str:
    digest = xxhash.xxh3_128(f"{len(rows)} {rows.features}".encode())
    for table in rows.with_format("arrow").iter(batch_size=BATCH):
        # The format of streams leaves out what a slice does not show, so that equal rows have equal bytes.
        for batch in table.combine_chunks().to_batches():
            digest.update(batch.serialize())
    return digest.hexdigest()
