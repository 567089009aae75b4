"""The texts that word vectors are trained on, and their tokenizer."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset, concatenate_datasets
from tqdm import tqdm
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from data_scripts.errors import InputError
from data_scripts.read.hub_datasets import load_columns
from data_scripts.tools.leakage import load_evaluation_texts, remove_leaked, text_columns
from data_scripts.tools.tokenizer import train_tokenizer
from trainer.data.token_cache import TokenColumn


def read_texts(
    sources: list[str], against: list[str], sentences: int | None
) -> tuple[Dataset, dict[str, dict[str, int]]]:
    """Read the train splits' texts without evaluation sentences, as one column `text`.

    Args:
        sources: folders or Hub ids.
        against: NAME=SOURCE of evaluation datasets, as for `data_scripts leakage`.
        sentences: the largest number of texts, which are evenly spaced; None for all.

    Returns:
        The texts, and the rows that were removed, as in results.json: "texts/NAME" of a source -> evaluation dataset ->
        rows with one of its sentences, and `removed` in all.
    """
    evaluation = load_evaluation_texts(against)
    parts: list[Dataset] = []
    leakage = {}
    for source in sources:
        name = f"texts/{source.rstrip('/').rpartition('/')[2]}"
        if name in leakage:
            raise InputError(f"two sources have the name {name.partition('/')[2]}: rename one of the folders")
        splits = load_columns(source, ())
        if "train" not in splits:
            raise InputError(f"{source}: has no train split; it has {', '.join(splits)}")
        columns = text_columns(splits["train"].column_names, source)
        rows, leakage[name] = remove_leaked(splits["train"], columns, evaluation)
        parts += _texts_of_columns(rows, columns)
    texts = concatenate_datasets(parts)
    if sentences is not None and sentences < len(texts):
        texts = texts.select(np.arange(sentences) * len(texts) // sentences)
    return texts, leakage


def _texts_of_columns(rows: Dataset, columns: list[str]) -> Iterator[Dataset]:
    """The texts of each column, or of the lists in it, as a column `text`."""
    table = rows.select_columns(columns).with_format("arrow")[:]
    for name in columns:
        column = table[name]
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            column = pc.list_flatten(column)
        yield Dataset(pa.table({"text": column.drop_null().cast(pa.string())}))


def load_tokenizer(source: str | Path) -> PreTrainedTokenizerFast:
    """Load a tokenizer from a folder or the Hub.

    Raises:
        InputError: there is none.
    """
    try:
        return cast(PreTrainedTokenizerFast, AutoTokenizer.from_pretrained(source, trust_remote_code=False))
    except (OSError, ValueError) as error:
        raise InputError(f"{source}: no tokenizer can be loaded: {str(error).splitlines()[0]}") from None


def train_word_tokenizer(texts: Dataset, vocab_size: int, min_count: int) -> PreTrainedTokenizerFast:
    """Train a tokenizer of whole words on the texts, with a progress bar."""
    flat = (text for batch in texts.iter(batch_size=1000) for text in batch["text"])
    progress = tqdm(flat, total=len(texts), delay=1, unit=" texts", unit_scale=True, desc="tokenizer")
    return train_tokenizer(progress, "word", vocab_size, min_count)


def drop_token(column: TokenColumn, token: int) -> TokenColumn:
    """The texts of a column without one token."""
    is_other = column.ids != token  # (tokens,)
    others_before = np.zeros(len(is_other) + 1, dtype=np.int64)
    np.cumsum(is_other, out=others_before[1:])
    return TokenColumn(column.ids[is_other], others_before[column.offsets], column.keys)
