"""Exports a saved model: writes it, and compares its vectors with those of the model."""

from pathlib import Path
from typing import get_args

import numpy as np
from transformers import PreTrainedTokenizerFast

from modeling_convsim.encoding import Encoder, JointEncoder
from modeling_convsim.encoding.loading import find_folder
from modeling_convsim.encoding.torch_model import load_model
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.extras import import_extra
from modeling_convsim.files.folders import new_folder
from modeling_convsim.modeling_base import ConvSimEncoder
from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.encoders.protocol import Side
from trainer.export.onnx_export import OUTPUTS, OnnxEncoder, write_onnx
from trainer.publish.folder import CHECK_TEXTS

TOLERANCE = 1e-4  # the largest difference of a value, for L2-normalized vectors
PACKAGES = ("onnx", "onnxscript", "onnxruntime")
LONG_TEXT = " ".join(CHECK_TEXTS[:2] * 40)
# Batches of one text and of several, of similar and of different lengths, with unknown words and without any words.
CHECK_BATCHES = (CHECK_TEXTS, *((text,) for text in CHECK_TEXTS), ("", ""), (*CHECK_TEXTS[:2], LONG_TEXT) * 3)


def export(model: str, output: Path) -> float:
    """Export a model to ONNX.

    Args:
        model: folder of a saved model or of a run, or a Hub id.
        output: the new folder.

    Returns:
        The largest difference of a value between an exported vector and that of the model.

    Raises:
        InputError: the model or the output folder is not usable, or the exported vectors are not the model's.
    """
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise InputError(f"--output {output}: exists already; name another folder, or delete this one")
    for package in PACKAGES:
        import_extra(package, "export", "exporting")
    encoder, module, tokenizer = load(model)
    with new_folder(output, overwrite=False, kind="export") as (folder, _):
        write_onnx(module, tokenizer, folder)
        difference = largest_difference(OnnxEncoder(folder), encoder)
        if not difference <= TOLERANCE:  # negated, so that NaN is refused too
            raise InputError(
                f"not exported: the vectors differ from the model's by up to {difference:.3g}; expected at most "
                f"{TOLERANCE:g}"
            )
    return difference


def load(name: str) -> tuple[Encoder, ConvSimEncoder | ConvSimForMultitask, PreTrainedTokenizerFast]:
    """Load a model folder, a run's folder or a Hub id: the encoder, its float32 torch model and its tokenizer.

    Raises:
        InputError: there is no such model.
    """
    inside = Path(name, "model")
    try:
        folder = find_folder(str(inside) if (inside / "config.json").is_file() else name)
        encoder = Encoder.from_pretrained(folder, device="cpu")
        model, tokenizer = load_model(str(folder))
    except ValueError as error:
        raise InputError(str(error)) from error
    if isinstance(encoder, JointEncoder):
        raise InputError(f"{name} has two models, but only a single one can be exported: choose another model")
    return encoder, model.eval(), tokenizer


def largest_difference(exported: OnnxEncoder, encoder: Encoder) -> float:
    """The largest difference of a value, divided by the norm of the model's vector if that is above one.

    Each of `CHECK_BATCHES` is encoded by itself, on every exported side.
    """
    largest = 0.0
    for side in (side for side in get_args(Side) if OUTPUTS[side] in exported.sizes):
        for batch in CHECK_BATCHES:
            vectors, expected = (source.encode(batch, side).astype(np.float64) for source in (exported, encoder))
            scale = np.maximum(1, np.linalg.norm(expected, axis=1, keepdims=True))
            largest = float(np.maximum(largest, np.abs((vectors - expected) / scale).max()))  # propagates NaN
    return largest
