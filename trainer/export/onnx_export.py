"""The format onnx: a folder that onnxruntime runs without torch; the model as a graph, in float32 or fewer bits."""

import contextlib
import json
import logging
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn

from data_scripts.files.errors import InputError
from modeling_convsim import ConvSimEncoder, ConvSimForMultitask
from modeling_convsim.encoding import Encoder
from trainer.encoders.protocol import Side
from trainer.export.formats import OUTPUTS, import_extra, save_tokenizer, size_in_float32

BATCH_SIZE = 64
LARGEST_FILE = 2**31  # bytes; protobuf, and thus one ONNX file, cannot hold more

USAGE = """import numpy as np
import onnxruntime
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("tokenizer.json")
session = onnxruntime.InferenceSession("model.onnx")
batch = tokenizer.encode_batch(["How old are you?", "What is your age?"])
embeddings, *_ = session.run(None, {
    "input_ids": np.array([text.ids for text in batch], dtype=np.int64),
    "attention_mask": np.array([text.attention_mask for text in batch], dtype=np.int64),
})
print(embeddings @ embeddings.T)
"""


class OnnxEncoder:
    """An exported folder in onnxruntime as a `SentenceEncoder`; needs no torch model."""

    def __init__(self, folder: Path, threads: int = 1) -> None:
        onnxruntime = import_extra("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        file = str(folder / "model.onnx")
        self.session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self.sizes = {output.name: output.shape[1] for output in self.session.get_outputs()}
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.prompts = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("prompts", {})

    def encode(self, texts: Iterable[str], side: Side = "input") -> np.ndarray:
        """Vectors (texts, embedding_size), float32; batches hold texts of similar lengths."""
        prompt = self.prompts.get(side, "")
        texts = [prompt + text for text in texts]
        output = OUTPUTS[side] if OUTPUTS[side] in self.sizes else OUTPUTS["input"]
        vectors = np.empty((len(texts), self.sizes[output]), dtype=np.float32)
        by_length = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        for start in range(0, len(texts), BATCH_SIZE):
            rows = by_length[start : start + BATCH_SIZE]
            batch = self.tokenizer.encode_batch_fast([texts[row] for row in rows])
            feed = {
                "input_ids": np.array([encoding.ids for encoding in batch], dtype=np.int64),
                "attention_mask": np.array([encoding.attention_mask for encoding in batch], dtype=np.int64),
            }
            vectors[rows] = self.session.run([output], feed)[0]
        return vectors


def write_onnx(encoder: Encoder, folder: Path, precision: str, embeddings: str) -> None:
    """Write model.onnx, config.json, and a tokenizer.json that pads and truncates by itself.

    Raises:
        InputError: ONNX cannot hold the encoder.
    """
    graph, file = build_graph(OnnxForm(encoder.model)), folder / "model.onnx"
    if embeddings != "float32":
        compress_embeddings(graph, embeddings)
    if precision == "float16":
        halve_matrices(graph)
    if precision == "int8":
        quantize_products(graph, file)
    else:
        import_extra("onnx").save(graph, file)
    tokenizer = save_tokenizer(encoder.tokenizer, folder)
    padding = {"pad_id": encoder.tokenizer.pad_token_id, "pad_token": encoder.tokenizer.pad_token}
    tokenizer.enable_padding(**padding, direction=encoder.tokenizer.padding_side)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = encoder.model.config.to_dict()
    config.pop("auto_map", None)  # the folder holds no code
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


# Described in export.py.
FORMAT: dict[str, Any] = {
    "engine": "onnxruntime",
    "packages": ("onnx", "onnxscript", "onnxruntime"),
    "weights_file": "model.onnx",
    "write": write_onnx,
    "load": OnnxEncoder,
    "held_by": lambda encoder: encoder.model,
    "usage": USAGE,
}


class OnnxForm(nn.Module):
    """The module that the ONNX graph computes: from padded token ids to the vectors of each side."""

    def __init__(self, model: ConvSimEncoder | ConvSimForMultitask) -> None:
        super().__init__()
        self.multitask = model if isinstance(model, ConvSimForMultitask) else None
        self.encoder = cast(ConvSimEncoder, model.encoder if isinstance(model, ConvSimForMultitask) else model)
        # Of a pretrained encoder, which has no more positions, and whose tokenizer adds tokens to every text.
        self.max_tokens: int | None = getattr(self.encoder.config, "max_tokens", None)

    def output_names(self) -> list[str]:
        """The names of the outputs of `forward`."""
        sides = ["input"]
        if self.multitask is not None:
            sides += ["query", "response"] if self.multitask.has_query_vectors else ["response"]
        return [OUTPUTS[side] for side in sides]

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        """Map ids and mask (batch, tokens), int64, to the vectors (batch, dimensions) of each of `output_names`.

        The number of tokens may be 0, as for a batch of empty texts, unless there are `max_tokens`.
        """
        if self.max_tokens is None and (self.encoder.pads_batches or self.encoder.config.lexical_share):
            # These cannot handle zero tokens, so add a padding token.
            input_ids, attention_mask = F.pad(input_ids, (0, 1)), F.pad(attention_mask, (0, 1))
        pooled = self.encoder(input_ids, attention_mask).pooler_output
        if self.multitask is None:
            return (pooled,)
        sides = [self.multitask.query_vectors] if self.multitask.has_query_vectors else []
        return (
            pooled,
            *(side(pooled, input_ids, attention_mask) for side in [*sides, self.multitask.response_vectors]),
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the warnings of the exporters, which concern their own code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


def build_graph(form: OnnxForm) -> Any:
    """The ONNX graph (`onnx.ModelProto`), float32, for any number of texts and tokens.

    Raises:
        InputError: the encoder does not support ONNX, or is larger than an ONNX file can be.
    """
    if "onnx" not in form.encoder.export_formats:
        raise InputError(
            f"{form.encoder.config.model_type}: this encoder does not support ONNX (PyTorch exports an LSTM only for a "
            "fixed number of texts and tokens); expected a DAN, a CBOW or a Transformer encoder"
        )
    if (size := size_in_float32(form)) >= LARGEST_FILE:
        raise InputError(f"the model has {size / 1e9:.1f} GB of float32; an ONNX file holds at most 2 GB")
    import_extra("onnxscript")
    # Two tensors: the exporter treats the same tensor, passed twice, as one input.
    ids, mask = torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 3, dtype=torch.int64)
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens", max=form.max_tokens)}
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            form,
            (ids, mask),
            dynamo=True,
            dynamic_shapes=(axes, axes),
            input_names=["input_ids", "attention_mask"],
            output_names=form.output_names(),
            verbose=False,
        )
    if program is None:
        raise RuntimeError("torch.onnx.export returned no program")
    model = program.model_proto
    model.graph.ClearField("value_info")  # shapes can be inferred, and quantization would have to correct them
    for node in model.graph.node:  # the source lines of each node, with paths of this machine
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    return model


def compress_embeddings(model: Any, precision: str) -> None:
    """Store the embedding tables of an `onnx.ModelProto` in 16 or 8 bits; the graph converts looked-up rows to float32.

    In 8 bits, a row consists of integers from -127 to 127 and its own scale: its largest absolute value divided by 127,
    so that large values in one row do not cost another precision. `precision` is "float16" or "int8".
    """
    onnx = import_extra("onnx")
    graph, make = model.graph, onnx.helper.make_node
    tables = {weight.name: weight for weight in graph.initializer if weight.name in _table_names(graph)}
    nodes, compressed = [], {}
    for node in graph.node:
        name = node.input[0] if node.op_type == "Gather" else ""
        if name not in tables:
            nodes.append(node)
            continue
        ids, rows, output = node.input[1], f"{node.output[0]}_stored", node.output[0]
        table = onnx.numpy_helper.to_array(tables[name])
        if precision == "float16":
            compressed[name] = {name: table.astype(np.float16)}
            nodes += [make("Gather", [name, ids], [rows]), make("Cast", [rows], [output], to=onnx.TensorProto.FLOAT)]
            continue
        largest = np.abs(table).max(axis=1, keepdims=True)
        scales = np.where(largest > 0, largest / 127, 1).astype(np.float32)  # (rows, 1)
        compressed[name] = {name: np.rint(table / scales).astype(np.int8), f"{name}_scales": scales}
        nodes += [
            make("Gather", [name, ids], [rows]),
            make("Cast", [rows], [f"{rows}_float"], to=onnx.TensorProto.FLOAT),
            make("Gather", [f"{name}_scales", ids], [f"{rows}_scales"]),
            make("Mul", [f"{rows}_float", f"{rows}_scales"], [output]),
        ]
    _replace(graph, nodes, compressed)


def halve_matrices(model: Any) -> None:
    """Store the matrices of an `onnx.ModelProto`, except embedding tables, as float16; computation stays float32."""
    onnx = import_extra("onnx")
    tables = _table_names(model.graph)
    nodes, compressed = [], {}
    for weight in model.graph.initializer:
        if weight.name in tables or not _is_matrix(weight):
            continue
        half = f"{weight.name}_float16"
        compressed[weight.name] = {half: onnx.numpy_helper.to_array(weight).astype(np.float16)}
        nodes.append(onnx.helper.make_node("Cast", [half], [weight.name], to=onnx.TensorProto.FLOAT))
    _replace(model.graph, [*nodes, *model.graph.node], compressed)


def quantize_products(model: Any, file: Path) -> None:
    """Write an `onnx.ModelProto` to a file, with matrix products in 8 bits and one scale for each column of weights.

    Weights are unsigned: products of unsigned activations and signed weights overflow on processors with AVX2 alone.
    """
    quantization = import_extra("onnxruntime.quantization")
    with _quiet():
        quantization.quantize_dynamic(
            model, file, ["MatMul"], per_channel=True, weight_type=quantization.QuantType.QUInt8
        )


def _table_names(graph: Any) -> set[str]:
    """The float32 matrices that rows are looked up in, except learned token weights, which have one column."""
    looked_up = {node.input[0] for node in graph.node if node.op_type == "Gather"}
    wide = {weight.name for weight in graph.initializer if _is_matrix(weight) and weight.dims[1] > 1}
    return looked_up & wide


def _is_matrix(weight: Any) -> bool:
    return len(weight.dims) == 2 and weight.data_type == import_extra("onnx").TensorProto.FLOAT


def _replace(graph: Any, nodes: list[Any], weights: dict[str, dict[str, np.ndarray]]) -> None:
    """Replace the nodes of a graph, and each named weight by others."""
    from_array = import_extra("onnx").numpy_helper.from_array
    unchanged = [weight for weight in graph.initializer if weight.name not in weights]
    new = [from_array(array, name) for arrays in weights.values() for name, array in arrays.items()]
    for field, content in (("node", nodes), ("initializer", [*unchanged, *new])):
        copies = [type(item).FromString(item.SerializeToString()) for item in content]
        graph.ClearField(field)
        getattr(graph, field).extend(copies)
