"""The tokenizer of a run."""

import os
from pathlib import Path
from typing import cast

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from data_scripts.errors import InputError
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

    Raises:
        InputError: it cannot be loaded, or `tokenizer` differs from that of the model in `initialize_from`.
    """
    option = "initialize_from" if arguments.initialize_from and not arguments.tokenizer else "tokenizer"
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
    tokenizer = load_pretrained(AutoTokenizer, source, option)
    if arguments.tokenizer and arguments.initialize_from:
        _require_same(tokenizer, arguments.tokenizer, arguments.initialize_from)
    tokenizer.model_max_length = arguments.max_tokens
    return tokenizer


def _require_same(tokenizer: PreTrainedTokenizerFast, source: str, model: str) -> None:
    if Path(model).is_dir() and not Path(model, "tokenizer.json").is_file():
        return  # the weights of a model whose tokenizer is elsewhere
    own = load_pretrained(AutoTokenizer, model, "initialize_from")
    if own.get_vocab() != tokenizer.get_vocab():
        raise InputError(
            f"tokenizer is {source} ({len(tokenizer):,} entries), but that of the model in initialize_from, {model} "
            f"({len(own):,} entries), is another one: use the tokenizer that the model was trained with (leave "
            "tokenizer out, or --tokenizer none)"
        )
