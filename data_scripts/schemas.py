"""The columns of every file that the commands write, and the values of their labels and scores.

This module imports only pyarrow, because each process that reads a dump imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from datasets import Features

SPLITS = ("train", "validation", "test")
NLI_LABELS = ["entailment", "neutral", "contradiction"]  # their order is their numbers
MAX_SCORE = 5.0  # of the STS tasks; the lowest score is 0


def text_fields(*names: str) -> list[pa.Field]:
    """A string column for each name."""
    return [pa.field(name, pa.string()) for name in names]


def _measure_fields(prefix: str = "") -> list[pa.Field]:
    """The columns that `clean.filters` computes of a text: counts for the rules, and the language (ISO 639-1)."""
    counts = [pa.field(f"{prefix}{name}", pa.int32()) for name in ("characters", "alphabetic")]
    return [*counts, pa.field(f"{prefix}language", pa.string())]


# The datasets that the trainer reads
PAIR_TEXTS = ("input", "response", "thread", "source")
# `context` holds the earlier turns of the thread, the newest first. Datasets may lack this column.
PAIR_SCHEMA = pa.schema([*text_fields(*PAIR_TEXTS), ("context", pa.list_(pa.string()))])
NLI_SCHEMA = pa.schema([*text_fields("premise", "hypothesis"), ("label", pa.int64())])
CAPTION_SCHEMA = pa.schema([("group", pa.string()), ("captions", pa.list_(pa.string()))])
PARAPHRASE_SCHEMA = pa.schema([*text_fields("sentence1", "sentence2"), ("score", pa.float32())])
STS_SCHEMA = PARAPHRASE_SCHEMA
STSB_SCHEMA = STS_SCHEMA.append(pa.field("genre", pa.string()))
CQA_SCHEMA = pa.schema(
    [
        *text_fields("query_id", "query", "candidate_id", "candidate"),
        ("relevant", pa.bool_()),
        ("label", pa.string()),
        ("rank", pa.int32()),
    ]
)
BOOK_SCHEMA = pa.schema(
    [("book", pa.string()), ("paragraph", pa.int32()), ("position", pa.int32()), ("sentence", pa.string())]
)

# The files of comments into which dumps of Reddit are converted
COMMENT_TEXTS = ("id", "parent_id", "link_id", "author", "body", "subreddit")
COMMENT_SCHEMA = pa.schema(
    [*text_fields(*COMMENT_TEXTS), ("created_utc", pa.int64()), ("characters", pa.int32()), ("alphabetic", pa.int32())]
)
LANGUAGE_FIELD = pa.field("language", pa.string())  # follows COMMENT_SCHEMA if texts are filtered by language

# The intermediate files of chat logs
MESSAGE_SCHEMA = pa.schema(
    [
        *text_fields("id", "parent", "thread", "speaker"),
        ("time", pa.float64()),
        *text_fields("text", "source"),
        ("gap", pa.float64()),
        ("is_answer", pa.bool_()),
        ("row", pa.int64()),
        *_measure_fields(),
    ]
)
READY_PAIR_SCHEMA = pa.schema(
    [
        *text_fields(*PAIR_TEXTS),
        *_measure_fields("input_"),
        *_measure_fields("response_"),
        *(pa.field(name, pa.int64()) for name in ("chain", "row", "followed")),  # in its chain
    ]
)


def features(schema: pa.Schema) -> Features:
    """The columns of a schema as `datasets` describes them; the label of `NLI_SCHEMA` is a `ClassLabel`."""
    from datasets import ClassLabel, Features

    columns = Features.from_arrow_schema(schema)
    return Features(columns | {"label": ClassLabel(names=NLI_LABELS)}) if schema is NLI_SCHEMA else columns
