"""The tokenizer of a run."""

import os
from pathlib import Path
from typing import cast

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from data_scripts.tools.tokenizer import Kind, train_tokenizer
from trainer.arguments import Arguments
from trainer.data.datasets import RunData, training_texts
from trainer.training.loading import load_pretrained


def build_tokenizer(arguments: Arguments, data: RunData, folder: Path) -> PreTrainedTokenizerFast:
    """Load the tokenizer of `tokenizer` or `initialize_from`, or train one on the training texts.

    Args:
        arguments: the settings.
        data: the datasets of the run.
        folder: the run's folder, where a new tokenizer is saved.
    """
    source = arguments.tokenizer or arguments.initialize_from
    trained = folder / "tokenizer"
    if source is None and trained.is_dir():
        source = str(trained)  # another process or the interrupted run trained it
    if source is None:
        tokenizer = train_tokenizer(
            training_texts(data), cast(Kind, arguments.tokenizer_kind), arguments.vocab_size, arguments.min_count
        )
        temporary = folder / ".tokenizer"
        tokenizer.save_pretrained(temporary)
        os.replace(temporary, trained)
        source = str(trained)  # loaded below, so that a resumed run has the same tokenizer
    tokenizer = load_pretrained(AutoTokenizer, source, "tokenizer")
    tokenizer.model_max_length = arguments.max_tokens
    return tokenizer
