"""The command that encodes a file of texts with a saved model; in Python, use `Encoder`.

convsim encode MODEL FILE -o OUT.npy
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, get_args

from modeling_convsim.encoding.loading import MODEL_HELP, Side, add_hardware_arguments
from modeling_convsim.encoding.text_files import TABLE_SUFFIXES, is_table, read_texts, write_vectors
from modeling_convsim.files.command_line import (
    ArgumentParser,
    add_output_argument,
    check_output_file,
    run_stoppable,
)
from modeling_convsim.files.errors import InputError

if TYPE_CHECKING:
    import numpy as np


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Parses and validates the command line."""
    parser = ArgumentParser(
        prog="convsim encode",
        description="Encode texts with a saved model.",
        epilog="example: convsim encode runs/quickstart/model questions.txt -o questions.npy",
    )
    parser.add_argument("model", help=MODEL_HELP)
    parser.add_argument("file", help=f"UTF-8 texts, one per line; - for standard input; or a table ({TABLE_SUFFIXES})")
    group = parser.add_argument_group("input and output")
    group.add_argument("--column", help="column of a table with the texts (default: text)")
    output_help = "OUT.npy (float32, one row per text) or OUT.parquet (columns text and embedding)"
    add_output_argument(group, output_help, metavar="OUTPUT")
    group.add_argument("--overwrite", action="store_true", help="replace an existing OUTPUT")
    group.add_argument(
        "--side",
        choices=get_args(Side),
        default="input",
        help="input: sentence embeddings; query and response: vectors whose dot product is the score of a response; "
        "query is the same as input unless the model has an input network (default: input)",
    )
    add_hardware_arguments(parser)
    options = parser.parse_args(arguments)
    if options.column and not is_table(options.file):
        parser.error(
            f"--column {options.column}: {options.file} has no columns; omit --column or use a table ({TABLE_SUFFIXES})"
        )
    if options.output.suffix not in (".npy", ".parquet"):
        parser.error(f"--output {options.output}: expected a name that ends in .npy or .parquet")
    try:
        check_output_file(options.output, options.overwrite, [options.file])
    except InputError as error:
        parser.error(str(error))
    return options


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit code: 0, 2 after an error message, or 128 + signal."""
    return run_stoppable(lambda: _run(parse_arguments(arguments)))


def _run(options: argparse.Namespace) -> int:
    import numpy as np

    from modeling_convsim.encoding import Encoder

    try:
        encoder = Encoder.from_pretrained(options.model, options.device, options.dtype)

        def encode(texts: Iterable[str]) -> Iterator[np.ndarray]:
            for vectors in encoder.stream(texts, options.side, show_progress=True):
                if not np.isfinite(vectors).all():
                    raise ValueError(f"{options.model} gives vectors that are not finite: its weights are damaged")
                yield vectors

        texts = read_texts(options.file, options.column or "text", ": choose one with --column")
        count = write_vectors(options.output, texts, encode)
    except (ValueError, OSError) as error:
        raise InputError(str(error)) from error
    print(f"wrote {count} vectors of {encoder.vector_size(options.side)} dimensions to {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
