"""Read pairs of paraphrases, or sentence pairs with labels or scores, and write them as Parquet.

SOURCE is a file, a folder or a dataset on the Hub. Columns: sentence1 and sentence2, or anchor and positive, text and
simplified, english and non_english, a and b, or one of question, text, caption, title, body and post, followed by 1
and 2. A numeric column score, label or is_duplicate is optional; it becomes the score, which is None without it. SICK's
column names work too. With a column negative, each row gives two pairs: the paraphrases, with the score 1, and the
first sentence with the negative, with the score 0. Pairs with an empty sentence are left out and counted.

Examples: convsim data paraphrases tatoeba.tsv.xz -o data/tatoeba
          convsim data paraphrases sentence-transformers/quora-duplicates:pair -o data/quora
          convsim data paraphrases sentence-transformers/all-nli:triplet -o data/all_nli_triplets
"""

from collections.abc import Iterator
from typing import Any

from data_scripts.public import Kind, Part
from data_scripts.rows import ColumnNames
from data_scripts.schemas import PARAPHRASE_SCHEMA
from modeling_convsim.files.errors import InputError

_NUMBERED = ("question", "text", "caption", "title", "body", "post")
COLUMN_NAMES: ColumnNames = {
    "sentence1": (
        "sentence1",
        "anchor",
        *(f"{name}1" for name in _NUMBERED),
        "english",
        "text",
        "a",
        "sentence_A",
        "#1 String",
    ),
    "sentence2": (
        "sentence2",
        "positive",
        *(f"{name}2" for name in _NUMBERED),
        "non_english",
        "simplified",
        "b",
        "sentence_B",
        "#2 String",  # of the Microsoft Research Paraphrase Corpus
    ),
    "negative": ("negative",),
    "score": ("score", "label", "is_duplicate", "relatedness_score", "Quality"),
}
LARGEST = 3.4028234663852886e38  # of float32, the type of the scores
EMPTY, SCORED = "with an empty sentence, left out", "with a score"


def _pairs(part: Part) -> Iterator[tuple[str, str, float | None]]:
    part.counts.update({SCORED: 0, EMPTY: 0})
    for location, row in part.rows:
        score = _score(row["score"], location) if row["negative"] is None else 1.0
        seconds = [(row["sentence2"], score)] + [(row["negative"], 0.0)] * (row["negative"] is not None)
        for second, score in seconds:
            sentences = [row["sentence1"] or "", second or ""]
            if not all(isinstance(sentence, str) for sentence in sentences):
                raise InputError(
                    f"{location}: the sentences must be texts; found {sentences[0]!r} and {sentences[1]!r}"
                )
            if all(sentence.strip() for sentence in sentences):
                part.counts[SCORED] += score is not None
                yield sentences[0], sentences[1], score
            else:
                part.counts[EMPTY] += 1


def _score(value: Any, location: str) -> float | None:
    if value is None or value == "":
        return None
    try:
        score = float(value)
        if abs(score) <= LARGEST:
            return score
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(f"{location}: score {value!r}; expected a number, or nothing if the pair is not rated")


KIND = Kind(
    schema=PARAPHRASE_SCHEMA,
    columns=COLUMN_NAMES,
    convert=_pairs,
    content="pair of sentences",
    rows="pairs",
    optional=("negative", "score"),
)
add_arguments, run = KIND.add_arguments, KIND.run
load_paraphrases = KIND.load
