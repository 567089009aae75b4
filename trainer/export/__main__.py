"""Export a saved model: ONNX, which onnxruntime reads without torch, or the static files of model2vec.

python -m trainer.export MODEL -o FOLDER [--precision int8] [--embeddings int8] [--stsb data/stsb]
python -m trainer.export MODEL --format static -o FOLDER

MODEL is the folder of a saved model, a run's folder, or a name on the Hub. FOLDER gets the model, its tokenizer and
config, export.json with what was measured (size, speed and, with --stsb, Pearson's r, each beside the model in torch),
and the same for people in README.md. Of a run's folder, results.json and the model's card get it too, and an export to
RUN/model/onnx is published with the model. What does not give the model's vectors is not written.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast
from transformers.tokenization_utils_base import LARGE_INTEGER
from transformers.utils.logging import disable_progress_bar

from data_scripts.errors import InputError
from data_scripts.sample.content import read_premises
from data_scripts.sample.generate import make_nli
from data_scripts.sources.stsb import load_stsb
from modeling_convsim.encoding import Encoder
from trainer.data.datasets import Corpora
from trainer.evaluation.encoders import SentenceEncoder, Side
from trainer.evaluation.evaluators import splits_of
from trainer.evaluation.stsb import evaluate_stsb
from trainer.export import onnx_graph
from trainer.export.onnx_graph import OUTPUTS, OnnxForm, import_extra, size_in_float32
from trainer.export.report import describe, format_table, record, run_of
from trainer.publish.folder import CHECK_TEXTS

NEEDED = {"onnx": ("onnx", "onnxscript", "onnxruntime"), "static": ("model2vec",)}
PRECISIONS = ("float32", "float16", "int8")
TOLERANCE = 1e-4  # of float32: the largest difference of a number, vectors of length one
LOWEST_COSINE = {"float16": 0.9999, "int8": 0.99}  # between a vector and the model's own
LONG_TEXT = " ".join(CHECK_TEXTS[:2] * 40)
# Batches of one text and of several, of like and of unlike lengths, with unknown words and with none at all.
CHECK_BATCHES = (CHECK_TEXTS, *((text,) for text in CHECK_TEXTS), ("", ""), (*CHECK_TEXTS[:2], LONG_TEXT) * 3)
BATCH = 64  # texts that onnxruntime gets together
PASSES = 3  # over the texts whose speed is taken: the fastest counts


class OnnxEncoder:
    """An exported folder in onnxruntime, behind the protocol of the evaluation: needs no torch model."""

    def __init__(self, folder: Path, threads: int = 1) -> None:
        onnxruntime = import_extra("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        file = str(folder / "model.onnx")
        self.session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self.sizes = {output.name: output.shape[1] for output in self.session.get_outputs()}
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def encode(self, texts: Iterable[str], side: Side = "input") -> np.ndarray:
        """Vectors (texts, embedding_size), float32; texts of like length go through the model together."""
        texts = list(texts)
        output = OUTPUTS[side] if OUTPUTS[side] in self.sizes else OUTPUTS["input"]
        vectors = np.empty((len(texts), self.sizes[output]), dtype=np.float32)
        by_length = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        for start in range(0, len(texts), BATCH):
            rows = by_length[start : start + BATCH]
            batch = self.tokenizer.encode_batch_fast([texts[row] for row in rows])
            feed = {
                "input_ids": np.array([encoding.ids for encoding in batch], dtype=np.int64),
                "attention_mask": np.array([encoding.attention_mask for encoding in batch], dtype=np.int64),
            }
            vectors[rows] = self.session.run([output], feed)[0]
        return vectors


class StaticEncoder:
    """An exported folder in model2vec, behind the protocol of the evaluation; the same vectors on every side."""

    def __init__(self, folder: Path) -> None:
        self.model = import_extra("model2vec").StaticModel.from_pretrained(folder)
        self.sizes = {OUTPUTS["input"]: self.model.dim}

    def encode(self, texts: Iterable[str], side: Side = "input") -> np.ndarray:
        """Vectors (texts, embedding_size), float32."""
        return self.model.encode(list(texts)).astype(np.float32)


def write_onnx(encoder: Encoder, folder: Path, precision: str, embeddings: str) -> None:
    """Write model.onnx, matrices and tables as precise as named, and a tokenizer.json that pads and cuts by itself."""
    model = onnx_graph.make_graph(OnnxForm(encoder.model))
    if embeddings != "float32":
        onnx_graph.compress_tables(model, embeddings)
    file = folder / "model.onnx"
    if precision == "float16":
        onnx_graph.halve_matrices(model)
    if precision == "int8":
        onnx_graph.quantise_products(model, file)
    else:
        import_extra("onnx").save(model, file)
    tokenizer = _copy_tokenizer(encoder.tokenizer, folder)
    padding = {"pad_id": encoder.tokenizer.pad_token_id, "pad_token": encoder.tokenizer.pad_token}
    tokenizer.enable_padding(**padding, direction=encoder.tokenizer.padding_side)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = encoder.model.config.to_dict()
    config.pop("auto_map", None)  # there is no code beside it
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _copy_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> Tokenizer:
    """Saves the tokenizer's files, and returns the fast one without padding, with the model's limit of tokens."""
    tokenizer.save_pretrained(folder)
    backend = Tokenizer.from_file(str(folder / "tokenizer.json"))
    backend.no_padding()
    if tokenizer.model_max_length < LARGE_INTEGER:
        backend.enable_truncation(tokenizer.model_max_length, direction=tokenizer.truncation_side)
    else:
        backend.no_truncation()
    return backend


def write_static(encoder: Encoder, folder: Path, precision: str) -> None:
    """Write the files of a `model2vec.StaticModel`.

    model2vec leaves unknown tokens out and normalises, as the CBOW encoder does; sentence-transformers, which reads the
    folder too, counts them: their row is zero, which changes no vector's direction.

    Raises:
        InputError: the encoder is not a table alone, or there are no such files of this precision.
    """
    config = encoder.model.config
    if config.model_type != "convsim_cbow":
        raise InputError(
            f"--format static: a static file holds a vector a token and averages them; a {config.model_type} model has "
            "layers on top, which it cannot hold: only a CBOW encoder can be static, use --format onnx"
        )
    if precision == "int8":
        raise InputError(
            "--precision int8: --format static has none; export float32, and model2vec's "
            'StaticModel.from_pretrained(FOLDER, quantize_to="int8") makes it'
        )
    table = encoder.model.embedding_tables()[0].detach().numpy().copy()  # (vocab_size, embedding_size)
    table[config.unk_token_id] = 0
    tokenizer = _copy_tokenizer(encoder.tokenizer, folder)
    limit = encoder.tokenizer.model_max_length
    static = import_extra("model2vec").StaticModel(
        table[: len(encoder.tokenizer)].astype(precision),
        tokenizer,
        config={"model_type": "model2vec", "architectures": ["StaticModel"], "hidden_dim": config.embedding_size},
        normalize=True,
        max_length=limit if limit < LARGE_INTEGER else None,
    )
    static.save_pretrained(folder)


class Difference(NamedTuple):
    """How far exported vectors are from the model's.

    Args:
        texts: how many were compared, on every side that both have.
        largest: the largest difference of a number, over the length of the model's vector where that is above one.
        lowest_cosine: of a vector and the model's; 1 where both are zero.
    """

    texts: int
    largest: float
    lowest_cosine: float


def measure_difference(
    exported: OnnxEncoder | StaticEncoder, encoder: Encoder, batches: Sequence[Sequence[str]]
) -> Difference:
    """Compare the vectors of some batches of texts, each encoded by itself, on every side that was exported."""
    largest, lowest = 0.0, 1.0
    for side in (side for side in get_args(Side) if OUTPUTS[side] in exported.sizes):
        for batch in batches:
            found, wanted = (source.encode(batch, side).astype(np.float64) for source in (exported, encoder))
            lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(wanted, axis=1)
            same = (np.abs(found).max(1) == 0) & (np.abs(wanted).max(1) == 0)
            cosines = np.where(same, 1.0, (found * wanted).sum(1) / np.where(lengths > 0, lengths, 1.0))
            scale = np.maximum(1, np.linalg.norm(wanted, axis=1, keepdims=True))
            # `np.maximum` keeps what is not a number, and `check` refuses it.
            largest = float(np.maximum(largest, np.abs((found - wanted) / scale).max()))
            lowest = float(np.minimum(lowest, cosines.min()))
    return Difference(sum(map(len, batches)), largest, lowest)


def check(difference: Difference, precision: str) -> None:
    """Refuse vectors that are not the model's.

    Raises:
        InputError: float32 is off by more than 1e-4, or a vector of fewer bits turned further than `LOWEST_COSINE`.
    """
    # Written so that a difference that is not a number is refused too.
    if precision == "float32" and not difference.largest <= TOLERANCE:
        raise InputError(
            f"not exported: the vectors differ from the model's by up to {difference.largest:.3g} (expected: at most "
            f"{TOLERANCE:g})"
        )
    if precision != "float32" and not difference.lowest_cosine >= LOWEST_COSINE[precision]:
        raise InputError(
            f"not exported: in {precision}, a vector has a cosine of {difference.lowest_cosine:.4f} to the model's (at "
            f"least {LOWEST_COSINE[precision]} was expected); try --precision float32 --embeddings int8, or float16"
        )


def measure_speed(exported: SentenceEncoder, encoder: Encoder, texts: Sequence[str]) -> dict[str, float]:
    """Sentences a second of both, tokenising included, in turns: the fastest of a few passes counts."""
    sources: dict[str, SentenceEncoder] = {"exported": exported, "torch": encoder}
    seconds = dict.fromkeys(sources, float("inf"))
    for _ in range(PASSES):
        for name, source in sources.items():
            started = time.perf_counter()
            source.encode(texts)
            seconds[name] = min(seconds[name], time.perf_counter() - started)
    return {name: len(texts) / least for name, least in seconds.items()}


def sample_texts() -> list[str]:
    """Different sentences of the sample corpus that ships with the project."""
    rows = make_nli(*read_premises())["train"]
    return list(dict.fromkeys([*rows["premise"][:], *rows["hypothesis"][:]]))


def open_model(name: str) -> Encoder:
    """The float32 model of a saved folder, of a run's, or of the Hub, on the CPU.

    Raises:
        InputError: there is none.
    """
    inside = Path(name, "model")
    try:
        return Encoder.from_pretrained(inside if (inside / "config.json").is_file() else name, device="cpu")
    except ValueError as error:
        raise InputError(str(error)) from error


def export(options: argparse.Namespace) -> dict[str, Any]:
    """Export as the command line says; returns the contents of export.json.

    Raises:
        InputError: the model, the set or the folder does not do, or the exported vectors are not the model's.
    """
    output: Path = options.output
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise InputError(f"--output {output}: there already; name another folder, or delete this one")
    if options.embeddings and options.format == "static":
        raise InputError("--embeddings: a static file is a table and nothing else; give its --precision")
    embeddings = options.embeddings or ("float16" if options.precision == "float16" else "float32")
    run = run_of(options.model)
    for needed in NEEDED[options.format]:
        import_extra(needed)
    stsb = splits_of(Corpora(stsb=load_stsb(options.stsb)), "stsb", options.split) if options.stsb else {}
    if options.stsb and not stsb:
        raise InputError(f"--stsb {options.stsb}: has no {options.split} split; name another with --split")
    encoder = open_model(options.model)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=f".{output.name}-", dir=output.parent))
    except OSError as error:
        raise InputError(f"--output {output}: cannot be written ({error})") from error
    try:
        new.chmod(0o755)
        exported: OnnxEncoder | StaticEncoder
        if options.format == "onnx":
            write_onnx(encoder, new, options.precision, embeddings)
            exported, batches = OnnxEncoder(new, torch.get_num_threads()), CHECK_BATCHES
        else:
            write_static(encoder, new, options.precision)
            # model2vec cuts a long text by its letters, too, so that it may keep fewer tokens than the model.
            exported, batches = StaticEncoder(new), CHECK_BATCHES[:-1]
        difference = measure_difference(exported, encoder, batches)
        check(difference, max(options.precision, embeddings, key=PRECISIONS.index))
        # What the export holds, too: no inference head, and in static files no head at all.
        same_weights = OnnxForm(encoder.model) if options.format == "onnx" else OnnxForm(encoder.model).encoder
        texts = sorted({text for rows in stsb.values() for text in rows["sentence1"][:]}) or sample_texts()
        file = new / ("model.onnx" if options.format == "onnx" else "model.safetensors")
        report: dict[str, Any] = {
            "model": options.model,
            "format": options.format,
            "precision": options.precision,
            **({"embeddings": embeddings} if options.format == "onnx" else {}),
            "outputs": exported.sizes,
            "difference": difference._asdict(),
            "size_mb": {"exported": file.stat().st_size / 1e6, "torch": size_in_float32(same_weights) / 1e6},
            "sentences_per_second": measure_speed(exported, encoder, texts),
            "speed_of": {"texts": len(texts), "threads": torch.get_num_threads()},
        }
        if stsb:
            scores, own = evaluate_stsb(exported, stsb), evaluate_stsb(encoder, stsb)
            report["stsb"] = {
                split: {
                    "exported": scores[split]["all"]["pearson"],
                    "torch": own[split]["all"]["pearson"],
                    "pairs": len(rows),
                }
                for split, rows in stsb.items()
            }
        (new / "export.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        (new / "README.md").write_text(describe(report, encoder), encoding="utf-8")
        if output.exists():
            output.rmdir()
        new.replace(output)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    if run:
        record(report, run, output)
    return report


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, or 2 for a mistake that a message explains."""
    parser = argparse.ArgumentParser(prog="python -m trainer.export", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("model", metavar="MODEL", help="folder of a saved model, or of a run, or a name on the Hub")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="where to; a new folder")
    parser.add_argument(
        "--format",
        choices=("onnx", "static"),
        default="onnx",
        help="static: files of model2vec's StaticModel, of a CBOW encoder (default: %(default)s)",
    )
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="float32",
        help="of the matrices; int8: onnxruntime's dynamic quantisation (default: %(default)s)",
    )
    parser.add_argument(
        "--embeddings",
        choices=PRECISIONS,
        help="of the tables of words and bigrams; int8: with a scale for each row (default: float16 with --precision "
        "float16, else float32)",
    )
    parser.add_argument("--stsb", metavar="SOURCE", help="folder or Hub id of STS-B, on which both are judged")
    parser.add_argument("--split", choices=("dev", "test", "both"), default="dev", help="of it (default: %(default)s)")
    options = parser.parse_args(arguments)
    disable_progress_bar()  # of weights that are loaded at once
    try:
        run, report = run_of(options.model), export(options)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(format_table(report), end="")
    print(f"saved in {options.output}" + (f", told in {run / 'results.json'} and its card" if run else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
