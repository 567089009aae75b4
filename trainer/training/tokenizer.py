"""The tokenizer of a run."""

import os
from pathlib import Path
from typing import cast

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from data_scripts.tools.tokenizer import Kind, train_tokenizer
from data_scripts.write.files import report_write_errors
from trainer.arguments import Arguments
from trainer.data.datasets import RunData, training_texts
from trainer.publish.model_files import record_model_files
from trainer.training.loading import load_pretrained


def build_tokenizer(arguments: Arguments, data: RunData, folder: Path) -> PreTrainedTokenizerFast:
    """Load the tokenizer of `tokenizer` or `initialize_from`, or train one on the training texts.

    Args:
        arguments: the settings.
        data: the datasets of the run.
        folder: where a trained tokenizer is saved.
    """
    source = arguments.tokenizer or arguments.initialize_from
    if source is None and folder.is_dir():
        source = str(folder)  # by another process, or before the run was resumed
    if source is None:
        tokenizer = train_tokenizer(
            training_texts(data), cast(Kind, arguments.tokenizer_kind), arguments.vocab_size, arguments.min_count
        )
        temporary = folder.with_name(f".{folder.name}")
        with report_write_errors(folder, temporary):
            tokenizer.save_pretrained(temporary)
            record_model_files(temporary)
            os.replace(temporary, folder)
        source = str(folder)  # read back, so that a resumed run has the very same object
    tokenizer = load_pretrained(AutoTokenizer, source, "tokenizer")
    tokenizer.model_max_length = arguments.max_tokens
    return tokenizer
