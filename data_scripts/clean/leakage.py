"""Finds the rows of a training dataset in which a text equals, or nearly equals, an evaluation sentence."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tqdm import tqdm

from data_scripts.clean.text import normalize_text
from data_scripts.files.errors import InputError

if TYPE_CHECKING:
    from datasets import Dataset

    from data_scripts.clean.near_duplicates import NearDuplicates

BATCH = 2_000  # rows that are looked up together
# Columns of text in our datasets and public ones; each row holds a text or a list of texts.
TEXT_COLUMNS = (
    *("input", "response", "context", "premise", "hypothesis", "sentence1", "sentence2", "query", "candidate"),
    *("captions", "caption", "sentence", "sentences", "text", "text1", "text2", "question", "question1", "question2"),
    "related",
    *("anchor", "positive", "negative", "answer", "caption1", "caption2", "title1", "title2", "body1", "body2"),
    *("post1", "post2", "simplified", "english", "non_english"),
)


def text_columns(columns: Iterable[str], location: str) -> list[str]:
    """The columns of a table that hold texts, or lists of them, recognized by their names.

    Raises:
        InputError: there is none; the message begins with `location`.
    """
    available = list(columns)
    texts = [name for name in TEXT_COLUMNS if name in available]
    if not texts:
        raise InputError(
            f"{location}: no column of text; expected some of {', '.join(TEXT_COLUMNS)}; found {', '.join(available)}"
        )
    return texts


def text_arrays(table: pa.Table, columns: list[str]) -> Iterator[tuple[pa.Array, pa.Array]]:
    """(row of each text, texts) of each column, whose values are a text or a list of texts."""
    for name in columns:
        column = table[name].combine_chunks()
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            yield pc.list_parent_indices(column), pc.list_flatten(column)
        else:
            yield pa.array(range(len(column))), column


def _letter_codes() -> np.ndarray:
    codes = np.zeros(256, np.uint64)
    samples = np.random.default_rng(0).integers(2**64, size=256, dtype=np.uint64)
    for letter in range(128):
        if chr(letter).isalnum():
            codes[letter] = samples[ord(chr(letter).lower())]
    return codes


_LETTER_CODES = _letter_codes()  # byte -> a random number for letters and digits, the same for a and A; else 0


def _letter_sums(texts: pa.LargeStringArray) -> np.ndarray:
    """The sum of the codes of each text's ASCII letters and digits, modulo 2^64: (texts,) uint64."""
    if not len(texts):
        return np.zeros(0, np.uint64)
    _, offset_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64, len(texts) + 1, 8 * texts.offset)
    data = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
    sums = np.zeros(len(data) + 1, np.uint64)
    np.cumsum(_LETTER_CODES[data], out=sums[1:])
    ends = offsets - offsets[0]
    return sums[ends[1:]] - sums[ends[:-1]]


class EvaluationTexts:
    """Finds the texts that equal evaluation sentences when both are normalized; memory holds the sentences.

    Args:
        evaluation: name of an evaluation dataset -> its sentences. One that is empty when normalized matches nothing.

    Attributes:
        names_of: normalized sentence -> names of the evaluation datasets.
    """

    def __init__(self, evaluation: Mapping[str, Iterable[str]]) -> None:
        self.names_of: defaultdict[str, set[str]] = defaultdict(set)
        for name, sentences in evaluation.items():
            for sentence in sentences:
                self.names_of[normalize_text(sentence)].add(name)
        self.names_of.pop("", None)
        ascii_forms = pa.array([form for form in self.names_of if form.isascii()], pa.large_string())
        self.letter_sums = np.unique(np.append(_letter_sums(ascii_forms), np.uint64(0)))

    def find(self, texts: pa.Array) -> Iterator[tuple[int, Iterable[str]]]:
        """(index, normalized evaluation sentences) of each text, which may be null, that equals some."""
        texts = texts.cast(pa.large_string())
        # Normalizing is slow. ASCII texts that are equal after it have the same letters, and few others do.
        sums = _letter_sums(texts)
        positions = np.searchsorted(self.letter_sums, sums)
        suspects = self.letter_sums[np.minimum(positions, len(self.letter_sums) - 1)] == sums
        suspects |= ~pc.fill_null(pc.string_is_ascii(texts), True).to_numpy(zero_copy_only=False)
        for index in np.flatnonzero(suspects).tolist():
            form = normalize_text(texts[index].as_py() or "")
            if form in self.names_of:
                yield index, [form]


class Leak(NamedTuple):
    """A training text that occurs in evaluation datasets.

    Attributes:
        row: its row in the table.
        text: the text.
        sentences: name of an evaluation dataset -> the normalized sentences that it equals or nearly equals.
        near: whether these sentences are near-duplicates.
    """

    row: int
    text: str
    sentences: dict[str, set[str]]
    near: bool


class LeakedRows:
    """Finds the rows to remove, table by table.

    A row leaks if one of its texts does. If rows have groups, such as the captions of an image, a group with a row that
    leaks is removed as a whole.

    Args:
        texts: the evaluation sentences.
        columns: the columns of text to check.
        group_column: the column of the groups, if any.
        near: finds near-duplicates, which then leak, too.
        held_out: names of evaluation datasets whose texts are counted, but do not leak.

    Attributes:
        read: the number of rows.
        rows: (name of an evaluation dataset, False) -> rows with a text that equals one of its sentences; (name, True)
            -> the other rows with a near-duplicate.
        sentences: (name, whether near) -> its normalized sentences that occur in rows, or that have near-duplicates.
    """

    def __init__(
        self,
        texts: EvaluationTexts,
        columns: list[str],
        group_column: str = "",
        near: NearDuplicates | None = None,
        held_out: Iterable[str] = (),
    ) -> None:
        self.texts, self.columns, self.group_column, self.near = texts, columns, group_column, near
        self.held_out = set(held_out)
        self.read = 0
        self.rows = Counter[tuple[str, bool]]()
        self.sentences: defaultdict[tuple[str, bool], set[str]] = defaultdict(set)
        self._remaining: list[pa.Array] = []
        self._groups: list[pa.Array] = []

    def add(self, table: pa.Table) -> list[Leak]:
        """Look up the texts of the next rows; returns those that occur in an evaluation dataset."""
        leaks = [*self._find(table, self.texts), *(self._find(table, self.near) if self.near else ())]
        names: defaultdict[int, dict[str, bool]] = defaultdict(dict)  # row -> name -> whether all of its leaks are near
        for leak in leaks:
            for name, sentences in leak.sentences.items():
                names[leak.row][name] = names[leak.row].get(name, True) and leak.near
                self.sentences[name, leak.near].update(sentences)
        remaining = np.ones(len(table), bool)
        for row, near_of in names.items():
            self.rows.update(near_of.items())
            remaining[row] = near_of.keys() <= self.held_out
        self.read += len(table)
        self._remaining.append(pa.array(remaining))
        if self.group_column:
            self._groups.append(table[self.group_column].combine_chunks().filter(pa.array(~remaining)))
        return leaks

    def _find(self, table: pa.Table, finder: EvaluationTexts | NearDuplicates) -> Iterator[Leak]:
        for rows, texts in text_arrays(table, self.columns):
            for index, forms in finder.find(texts):
                sentences: defaultdict[str, set[str]] = defaultdict(set)
                for form in forms:
                    for name in self.texts.names_of[form]:
                        sentences[name].add(form)
                yield Leak(rows[index].as_py(), texts[index].as_py(), dict(sentences), finder is self.near)

    def remaining(self) -> pa.ChunkedArray:
        """Whether each row remains, in order, without regard to groups: bool."""
        return pa.chunked_array(self._remaining, pa.bool_())

    def is_remaining(self, groups: pa.ChunkedArray) -> pa.ChunkedArray:
        """Whether each of these groups has no row that leaks: bool."""
        leaked = pa.chunked_array(self._groups, groups.type).combine_chunks().unique()
        return pc.invert(pc.is_in(groups, leaked))


def remove_leaked(
    dataset: Dataset, columns: list[str], evaluation: Mapping[str, Iterable[str]], group_column: str = ""
) -> tuple[Dataset, dict[str, int]]:
    """Remove the rows in which a text of a column equals an evaluation sentence, both normalized.

    Args:
        dataset: the rows to train on.
        columns: the columns of text to check.
        evaluation: as for `EvaluationTexts`.
        group_column: a column; the rows that share its value with a removed row are removed too, such as the other
            captions of an image.

    Returns:
        The remaining rows in their order, and the number of rows that leak from each evaluation dataset (a row may leak
        from more than one), with the number of rows removed as "removed".
    """
    leaked = LeakedRows(EvaluationTexts(evaluation), columns, group_column)
    tables = dataset.select_columns([*columns, group_column] if group_column else columns).with_format("arrow")
    with tqdm(total=len(dataset), delay=1, unit="row", unit_scale=True, desc="leakage") as bar:
        for start in range(0, len(dataset), BATCH):
            table = tables[start : start + BATCH]
            leaked.add(table)
            bar.update(len(table))
    groups = dataset.with_format("arrow")[:][group_column] if group_column else None
    remaining = (leaked.remaining() if groups is None else leaked.is_remaining(groups)).to_numpy()
    counts = {name: leaked.rows[name, False] for name in evaluation} | {
        "removed": int(len(remaining) - remaining.sum())
    }
    return dataset.select(np.flatnonzero(remaining)), counts
