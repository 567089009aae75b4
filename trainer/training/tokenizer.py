"""The tokenizer of a run."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from data_scripts.files.errors import InputError
from data_scripts.tokenizer import Kind, train_tokenizer
from trainer.arguments import Arguments
from trainer.data.datasets import RunData, training_texts
from trainer.training.model import load_pretrained
from trainer.training.run_folder import TOKENIZER


def build_tokenizer(arguments: Arguments, data: RunData) -> PreTrainedTokenizerFast:
    """Load the tokenizer of `tokenizer`, `initialize_from` or a resumed run, or train one on the training texts.

    Raises:
        InputError: it cannot be loaded, or `tokenizer` differs from that of the model in `initialize_from`.
    """
    if arguments.tokenizer:
        tokenizer = load_pretrained(AutoTokenizer, arguments.tokenizer, "tokenizer")
        if arguments.initialize_from:
            _require_same(tokenizer, arguments.tokenizer, arguments.initialize_from)
    elif arguments.initialize_from:
        tokenizer = load_pretrained(AutoTokenizer, arguments.initialize_from, "initialize_from")
    elif arguments.resume:
        tokenizer = load_pretrained(AutoTokenizer, str(Path(arguments.output_dir, TOKENIZER)), "resume")
    else:
        trained = train_tokenizer(
            training_texts(data), cast(Kind, arguments.tokenizer_kind), arguments.vocab_size, arguments.min_count
        )
        with TemporaryDirectory(prefix="convsim-") as folder:  # read back, so that a resumed run has the same object
            trained.save_pretrained(folder)
            tokenizer = load_pretrained(AutoTokenizer, folder, "tokenizer")
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
