"""A model as an ONNX graph, and the graph's weights in fewer bits: what `trainer.export` writes to a file."""

import contextlib
import importlib
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from data_scripts.errors import InputError
from modeling_convsim import ConvSimEncoder, ConvSimForMultitask

OUTPUTS = {"input": "sentence_embedding", "query": "query_embedding", "response": "response_embedding"}
LARGEST_FILE = 2**31  # bytes that protobuf, and so one ONNX file, holds


def import_extra(name: str) -> Any:
    """A module of the extra `export`.

    Raises:
        InputError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(
            f"exporting needs {name.partition('.')[0]} ({error}): pip install -c constraints.txt -e '.[export]'"
        ) from error


class OnnxForm(nn.Module):
    """What the ONNX graph computes: padded token ids to vectors of each side."""

    def __init__(self, model: ConvSimEncoder | ConvSimForMultitask) -> None:
        super().__init__()
        # A fresh copy: on a CPU, `Encoder` may have given the linear layers to oneDNN, which has no ONNX.
        copied = type(model)(model.config)
        copied.load_state_dict(model.state_dict())
        heads = copied if isinstance(copied, ConvSimForMultitask) else None
        self.encoder = cast(ConvSimEncoder, heads.encoder if heads else copied)
        self.input_head = heads.input_head if heads else None
        self.response_head = heads.response_head if heads else None
        self.eval()

    def output_names(self) -> list[str]:
        """Names of what `forward` returns."""
        heads = {"input": True, "query": self.input_head, "response": self.response_head}
        return [OUTPUTS[side] for side, there in heads.items() if there is not None]

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        """Ids and mask (batch, tokens), int64, to one (batch, embedding_size) of each of `output_names`.

        tokens may be 0, as the tokenizer has it of an empty text alone.
        """
        if self.encoder.pads_batches:  # these have no shapes for no tokens at all: a place of padding more
            input_ids, attention_mask = F.pad(input_ids, (0, 1)), F.pad(attention_mask, (0, 1))
        pooled = self.encoder(input_ids, attention_mask).pooler_output
        heads = [head for head in (self.input_head, self.response_head) if head is not None]
        return (pooled, *(head(pooled) for head in heads))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporters' warnings, which are about themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


def make_graph(form: OnnxForm) -> Any:
    """The ONNX graph (`onnx.ModelProto`), float32, of any number of texts and of tokens.

    Raises:
        InputError: the encoder cannot be exported, or is larger than an ONNX file.
    """
    kind = form.encoder.config.model_type
    if kind == "convsim_bilstm":
        raise InputError(
            f"{kind}: PyTorch exports an LSTM for one number of texts and of tokens only, so this encoder has no ONNX; "
            "expected a DAN, a CBOW or a Transformer encoder"
        )
    if (size := size_in_float32(form)) >= LARGEST_FILE:
        raise InputError(f"the model has {size / 1e9:.1f} GB of float32; an ONNX file holds at most 2 GB")
    import_extra("onnxscript")
    # Two tensors: the exporter takes one that is given twice for one input.
    ids, mask = torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 3, dtype=torch.int64)
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}
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
        raise RuntimeError("torch.onnx.export gave no program")
    model = program.model_proto
    model.graph.ClearField("value_info")  # shapes that anyone can infer, and that quantising would have to correct
    for node in model.graph.node:  # where in the code each comes from, with this machine's paths
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    return model


def size_in_float32(module: nn.Module) -> int:
    """Bytes of a module's parameters in float32."""
    return sum(4 * parameter.numel() for parameter in module.parameters())


def compress_tables(model: Any, precision: str) -> None:
    """Store the tables of an `onnx.ModelProto` in 16 or 8 bits; the rows looked up become float32 in the graph.

    In 8 bits a row is whole numbers from -127 to 127 times a scale of its own, the largest of its absolute values over
    127, so that no row loses to another's large numbers. `precision` is "float16" or "int8".
    """
    onnx = import_extra("onnx")
    graph, make = model.graph, onnx.helper.make_node
    tables = {weight.name: weight for weight in graph.initializer if weight.name in _table_names(graph)}
    nodes, done = [], {}
    for node in graph.node:
        name = node.input[0] if node.op_type == "Gather" else ""
        if name not in tables:
            nodes.append(node)
            continue
        ids, rows, output = node.input[1], f"{node.output[0]}_stored", node.output[0]
        table = onnx.numpy_helper.to_array(tables[name])
        if precision == "float16":
            done[name] = {name: table.astype(np.float16)}
            nodes += [make("Gather", [name, ids], [rows]), make("Cast", [rows], [output], to=onnx.TensorProto.FLOAT)]
            continue
        largest = np.abs(table).max(axis=1, keepdims=True)
        scales = np.where(largest > 0, largest / 127, 1).astype(np.float32)  # (rows, 1)
        done[name] = {name: np.rint(table / scales).astype(np.int8), f"{name}_scales": scales}
        nodes += [
            make("Gather", [name, ids], [rows]),
            make("Cast", [rows], [f"{rows}_float"], to=onnx.TensorProto.FLOAT),
            make("Gather", [f"{name}_scales", ids], [f"{rows}_scales"]),
            make("Mul", [f"{rows}_float", f"{rows}_scales"], [output]),
        ]
    _replace(graph, nodes, done)


def halve_matrices(model: Any) -> None:
    """Store the matrices, but for tables, of an `onnx.ModelProto` as float16; they are computed with in float32."""
    onnx = import_extra("onnx")
    tables = _table_names(model.graph)
    nodes, done = [], {}
    for weight in model.graph.initializer:
        if weight.name in tables or not _is_matrix(weight):
            continue
        half = f"{weight.name}_float16"
        done[weight.name] = {half: onnx.numpy_helper.to_array(weight).astype(np.float16)}
        nodes.append(onnx.helper.make_node("Cast", [half], [weight.name], to=onnx.TensorProto.FLOAT))
    _replace(model.graph, [*nodes, *model.graph.node], done)


def quantise_products(model: Any, file: Path) -> None:
    """Write an `onnx.ModelProto` to a file with its products of weights in int8, a scale for each column of them."""
    quantization = import_extra("onnxruntime.quantization")
    with _quiet():
        quantization.quantize_dynamic(model, file, op_types_to_quantize=["MatMul"], per_channel=True)


def _table_names(graph: Any) -> set[str]:
    """The float32 matrices that rows are looked up in; learned token weights, of one column, are none of them."""
    looked_up = {node.input[0] for node in graph.node if node.op_type == "Gather"}
    wide = {weight.name for weight in graph.initializer if _is_matrix(weight) and weight.dims[1] > 1}
    return looked_up & wide


def _is_matrix(weight: Any) -> bool:
    return len(weight.dims) == 2 and weight.data_type == import_extra("onnx").TensorProto.FLOAT


def _replace(graph: Any, nodes: list[Any], weights: dict[str, dict[str, np.ndarray]]) -> None:
    """Gives a graph other nodes, and each named weight's place to others."""
    from_array = import_extra("onnx").numpy_helper.from_array
    kept = [weight for weight in graph.initializer if weight.name not in weights]
    new = [from_array(array, name) for arrays in weights.values() for name, array in arrays.items()]
    for field, content in (("node", nodes), ("initializer", [*kept, *new])):
        copies = [type(item).FromString(item.SerializeToString()) for item in content]
        graph.ClearField(field)
        getattr(graph, field).extend(copies)
