"""Texts to vectors with a saved model: in Python, `Encoder`; as a command, from one file to another.

python -m modeling_convsim.encoding MODEL FILE -o OUT.npy
"""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sized
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from tqdm import tqdm
from transformers import AutoConfig, AutoModel, AutoModelForPreTraining, AutoTokenizer, PreTrainedTokenizerBase

from modeling_convsim import ConvSimConfig, ConvSimEncoder, ConvSimForMultitask

Side = Literal["input", "response"]
# Texts are read, tokenised and sorted by length this many batches at a time: memory stays small, padding does too.
WINDOW = 64


class Encoder:
    """A saved model with its tokenizer: texts in, vectors out."""

    def __init__(self, model: ConvSimEncoder | ConvSimForMultitask, tokenizer: PreTrainedTokenizerBase) -> None:
        """Takes a model and its tokenizer.

        Raises:
            ValueError: The tokenizer gives ids that the model has no embedding for.
        """
        largest = max(tokenizer.get_vocab().values())
        if largest >= model.config.vocab_size:
            raise ValueError(
                f"the tokenizer's ids go up to {largest}, but the model has embeddings for {model.config.vocab_size} "
                "tokens: give the tokenizer the model was trained with"
            )
        self.model = model.eval()
        self.tokenizer = tokenizer

    @classmethod
    def from_pretrained(cls, folder_or_id: str | os.PathLike, device: str | torch.device | None = None) -> "Encoder":
        """Opens a saved folder, or a repository of the Hub, on a device ("cpu", "cuda"; by default a GPU if present).

        Raises:
            ValueError: It is not a ConvSim model, a part of it is missing or broken, or its tokenizer does not match.
        """
        name = os.fspath(folder_or_id)
        if Path(name).is_dir():
            for needed in ("config.json", "model.safetensors", "tokenizer.json"):
                if not Path(name, needed).is_file():
                    raise ValueError(
                        f"{name} holds no {needed}: expected the folder of a saved model and its tokenizer"
                    )
        try:
            model, tokenizer = cls._load(name)
            model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))  # type: ignore[arg-type]
            return cls(model, tokenizer)
        # What a broken file raises depends on the library that reads it; tokenizers raises bare Exceptions.
        except Exception as error:
            source = "" if Path(name).is_dir() else "there is no such folder, and on the Hub: "
            raise ValueError(f"cannot open the model {name}: {source}{' '.join(str(error).split())}") from error

    @staticmethod
    def _load(name: str) -> tuple[ConvSimEncoder | ConvSimForMultitask, PreTrainedTokenizerBase]:
        config = AutoConfig.from_pretrained(name)
        if not isinstance(config, ConvSimConfig):
            raise ValueError(f"its type is {config.model_type!r}, expected one that starts with convsim_")
        is_multitask = any(architecture.endswith("ForMultitask") for architecture in config.architectures or [])
        auto_class = AutoModelForPreTraining if is_multitask else AutoModel
        model, loading = auto_class.from_pretrained(name, config=config, output_loading_info=True)
        if loading["missing_keys"]:
            raise ValueError(f"its weights lack {', '.join(sorted(loading['missing_keys']))}")
        return model, AutoTokenizer.from_pretrained(name)

    def encode(
        self,
        texts: Iterable[str],
        side: Side = "input",
        batch_size: int = 128,
        show_progress: bool = False,
    ) -> np.ndarray:
        """Vectors (n, embedding_size), float32, in the order of the texts.

        Args:
            texts: Any number of texts, each cut to the tokenizer's `model_max_length` tokens.
            side: "input" gives sentence embeddings of length one; "response" the vectors v' of replies. The score of a
                reply is the dot product of the two.
            batch_size: Texts encoded together; no effect on the result but for rounding.
            show_progress: Shows texts per second and the time left.

        Raises:
            ValueError: `side` is neither, or is "response" where the model has no response head.
            TypeError: `texts` is one string.
        """
        if side not in ("input", "response"):
            raise ValueError(f"side is {side!r}, expected 'input' or 'response'")
        if side == "response" and not isinstance(self.model, ConvSimForMultitask):
            raise ValueError("this model is a bare encoder, without the response head that side='response' needs")
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, expected 1 or more")
        if isinstance(texts, str):
            raise TypeError("texts is one string, expected several: encode([text])")
        total = len(texts) if isinstance(texts, Sized) else None
        parts = [np.empty((0, self.model.config.embedding_size), dtype=np.float32)]
        remaining = iter(texts)
        with tqdm(total=total, delay=1, unit="text", unit_scale=True, disable=not show_progress) as progress:
            while window := list(islice(remaining, WINDOW * batch_size)):
                vectors = np.empty((len(window), self.model.config.embedding_size), dtype=np.float32)
                for order, batch in self._sorted_batches(window, batch_size):
                    vectors[order] = self._embed(batch, side)
                    progress.update(len(order))
                parts.append(vectors)
        return np.concatenate(parts)

    @torch.inference_mode()
    def nli_logits(self, premises: Iterable[str], hypotheses: Iterable[str], batch_size: int = 128) -> np.ndarray:
        """Logits (n, 3), float32, of each pair: entailment, neutral, contradiction.

        Raises:
            ValueError: The model has no inference head, or there are more of one than of the other.
        """
        if not isinstance(self.model, ConvSimForMultitask):
            raise ValueError("this model is a bare encoder, without the inference head that nli_logits needs")
        first, second = (
            torch.from_numpy(self.encode(texts, batch_size=batch_size)).to(self.model.device, self.model.dtype)
            for texts in (premises, hypotheses)
        )
        if len(first) != len(second):
            raise ValueError(f"{len(first)} premises and {len(second)} hypotheses, expected as many of both")
        return self.model.nli_head(first, second).float().cpu().numpy()

    def _sorted_batches(self, texts: list[str], batch_size: int) -> Iterator[tuple[np.ndarray, list[list[int]]]]:
        """Token ids in batches of similar length, each with the places of its texts."""
        encoded = self.tokenizer(texts, truncation=True, return_attention_mask=False, return_token_type_ids=False)
        token_ids = encoded["input_ids"]
        by_length = np.argsort([len(ids) for ids in token_ids], kind="stable")
        for start in range(0, len(texts), batch_size):
            order = by_length[start : start + batch_size]
            yield order, [token_ids[index] for index in order]

    @torch.inference_mode()
    def _embed(self, batch: list[list[int]], side: Side) -> np.ndarray:
        """One packed batch of token ids to vectors (batch, embedding_size)."""
        device = self.model.device
        input_ids = torch.tensor(list(chain.from_iterable(batch)), dtype=torch.int64).to(device)
        cu_seqlens = torch.tensor([0, *(len(ids) for ids in batch)], dtype=torch.int64).cumsum(0).to(device)
        vectors = self.model(input_ids, cu_seqlens=cu_seqlens).pooler_output
        if side == "response":
            vectors = self.model.response_head(vectors)
        return vectors.float().cpu().numpy()


def read_texts(file: str, column: str) -> list[str]:
    """The texts of a file: one a line, from standard input if it is "-", or a column of a Parquet file.

    Raises:
        ValueError: There is no such file, it holds no text, is not UTF-8 (naming the line), or has no such column.
    """
    if file != "-" and not Path(file).is_file():
        raise ValueError(f"{file}: there is no such file")
    if file.endswith(".parquet"):
        parquet = import_parquet()
        names = parquet.read_schema(file).names
        if column not in names:
            raise ValueError(f"{file} has no column {column!r}, only {', '.join(names)}: name one with --column")
        texts = parquet.read_table(file, columns=[column]).column(column).to_pylist()
        if not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{file}: column {column!r} holds values that are not text")
    else:
        lines = (sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()).splitlines()
        texts = []
        for number, line in enumerate(lines, start=1):
            try:
                texts.append(line.decode("utf-8"))
            except UnicodeDecodeError as error:
                raise ValueError(f"{file}, line {number}: not UTF-8 ({error.reason}); convert the file") from error
    if not texts:
        raise ValueError(f"{file} holds no text, expected at least one")
    return texts


def write_vectors(output: Path, texts: list[str], vectors: np.ndarray) -> None:
    """Writes vectors (n, embedding_size): alone as .npy, beside their texts as .parquet (`text`, `embedding`)."""
    # Under another name first, so that a file of the final name is always whole.
    temporary = output.with_name(f".{output.name}.partial")
    try:
        if output.suffix == ".parquet":
            parquet = import_parquet()
            import pyarrow

            flat = pyarrow.array(vectors.ravel())
            embedding = pyarrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
            parquet.write_table(pyarrow.table({"text": texts, "embedding": embedding}), temporary)
        else:
            with temporary.open("wb") as stream:
                np.save(stream, vectors)
        temporary.replace(output)
    finally:
        temporary.unlink(missing_ok=True)


def import_parquet() -> Any:
    """pyarrow's Parquet module, which only Parquet files need.

    Raises:
        ValueError: It is not installed.
    """
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ValueError("Parquet files need pyarrow: pip install pyarrow, or use .txt and .npy") from error
    return parquet


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
        choices=("input", "response"),
        default="input",
        help="input: sentence embeddings; response: vectors of replies, whose dot product with those is the score "
        "(default: input)",
    )
    parser.add_argument("--batch-size", type=int, default=128, help="texts encoded together (default: 128)")
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
        texts = read_texts(options.file, options.column)
        encoder = Encoder.from_pretrained(options.model)
        vectors = encoder.encode(texts, side=options.side, batch_size=options.batch_size, show_progress=True)
        write_vectors(options.output, texts, vectors)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{len(vectors)} vectors of {vectors.shape[1]} numbers in {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
