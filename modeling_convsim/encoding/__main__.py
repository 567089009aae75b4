"""Texts to vectors with a saved model, as a command, from one file to another; in Python, `Encoder`.

python -m modeling_convsim.encoding MODEL FILE -o OUT.npy
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

import numpy as np
from tqdm import tqdm

from modeling_convsim.encoding.encoder import Dtype, Encoder, Side
from modeling_convsim.encoding.files import count_texts, read_texts, write_vectors
from modeling_convsim.encoding.hardware import has_fast_bfloat16


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """The command line, checked."""
    parser = argparse.ArgumentParser(
        prog="python -m modeling_convsim.encoding",
        description="Encode texts, one a line, with a saved model.",
        epilog="example: python -m modeling_convsim.encoding runs/quickstart/model questions.txt -o questions.npy",
    )
    parser.add_argument("model", help="folder of a saved model and its tokenizer, or its name on the Hub")
    parser.add_argument("file", help="texts: one a line, UTF-8; - for standard input; or a .parquet file")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        help="OUT.npy (float32, one row a text) or OUT.parquet (text, embedding)",
    )
    parser.add_argument(
        "--side",
        choices=get_args(Side),
        default="input",
        help="input: sentence embeddings; response: vectors of replies, whose dot product with those is the score; "
        "query: what scores replies where the model has an input network, else as input (default: input)",
    )
    parser.add_argument(
        "--truncate-dim",
        type=int,
        metavar="N",
        help="keep the first N numbers of each vector, for a model trained with matryoshka_dims (default: all)",
    )
    parser.add_argument("--batch-size", type=int, help="texts encoded together (default: what suits the encoder)")
    parser.add_argument("--processes", type=int, default=1, help="processes that share the work (default: 1)")
    parser.add_argument("--device", help="cpu, cuda, cuda:1 … (default: a GPU if there is one)")
    parser.add_argument(
        "--dtype",
        choices=get_args(Dtype),
        default="float32",
        help="what the model computes in; auto: bfloat16 where it is faster; the file holds float32 (default: float32)",
    )
    parser.add_argument(
        "--column", default="text", help="column of a .parquet file that holds the texts (default: text)"
    )
    options = parser.parse_args(arguments)
    if options.output.suffix not in (".npy", ".parquet"):
        parser.error(f"--output {options.output}: expected a name that ends in .npy or .parquet")
    if not options.output.parent.is_dir():
        parser.error(f"--output {options.output}: there is no folder {options.output.parent}")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit code: 0, or 2 for a mistake that a message explains."""
    options = parse_arguments(arguments)
    try:
        total = count_texts(options.file)
        encoder = Encoder.from_pretrained(options.model, options.device, options.dtype, options.truncate_dim)
        if options.dtype == "auto":
            chosen = str(encoder.model.dtype).removeprefix("torch.")
            print(f"computing in {chosen}: {has_fast_bfloat16(encoder.model.device)[1]}")

        def encode(texts: Iterable[str]) -> Iterator[np.ndarray]:
            with tqdm(total=total, delay=1, unit="text", unit_scale=True) as progress:
                for vectors in encoder.stream(texts, options.side, options.batch_size, processes=options.processes):
                    progress.update(len(vectors))
                    yield vectors

        count = write_vectors(options.output, read_texts(options.file, options.column), encode)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{count} vectors of {encoder.embedding_size} numbers in {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
