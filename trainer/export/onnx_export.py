"""The ONNX format: a folder that onnxruntime runs without torch, with the model as a float32 graph."""

import contextlib
import json
import logging
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from modeling_convsim import ConvSimEncoder, ConvSimForMultitask
from modeling_convsim.encoding.batch_tokenizer import token_limit
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.extras import import_extra
from trainer.encoders.protocol import Side

LARGEST_FILE = 2**31  # bytes; protobuf, and thus one ONNX file, cannot hold more

# Side of a text -> the name of its vectors in an exported file.
OUTPUTS = {"input": "sentence_embedding", "query": "query_embedding", "response": "response_embedding"}


class OnnxEncoder:
    """An exported folder in onnxruntime as a `SentenceEncoder`; needs no torch model."""

    def __init__(self, folder: Path) -> None:
        onnxruntime = import_extra("onnxruntime", "export", "exporting")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = torch.get_num_threads(), 3
        file = str(folder / "model.onnx")
        self.session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self.sizes = {output.name: output.shape[1] for output in self.session.get_outputs()}
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.prompts = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("prompts", {})

    def encode(self, texts: Iterable[str], side: Side = "input") -> np.ndarray:
        """Vectors (texts, embedding_size), float32, of one batch of texts."""
        prompt = self.prompts.get(side, "")
        output = OUTPUTS[side] if OUTPUTS[side] in self.sizes else OUTPUTS["input"]
        batch = self.tokenizer.encode_batch_fast([prompt + text for text in texts])
        feed = {
            "input_ids": np.array([encoding.ids for encoding in batch], dtype=np.int64),
            "attention_mask": np.array([encoding.attention_mask for encoding in batch], dtype=np.int64),
        }
        return self.session.run([output], feed)[0]


def write_onnx(model: ConvSimEncoder | ConvSimForMultitask, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write model.onnx, config.json, and a tokenizer.json that pads and truncates by itself.

    Raises:
        InputError: the encoder cannot be stored as ONNX.
    """
    import_extra("onnx", "export", "exporting").save(build_graph(OnnxForm(model)), folder / "model.onnx")
    tokenizer.save_pretrained(folder)
    parts = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    if tokenizer.split_special_tokens:  # treat special tokens in a text as text, as transformers does
        parts["added_tokens"] = [token for token in parts["added_tokens"] if not token["special"]]
    backend = Tokenizer.from_str(json.dumps(parts))
    backend.no_truncation()
    if (limit := token_limit(tokenizer.model_max_length)) is not None:
        backend.enable_truncation(limit, direction=tokenizer.truncation_side)
    padding = {"pad_id": tokenizer.pad_token_id, "pad_token": tokenizer.pad_token}
    backend.enable_padding(**padding, direction=tokenizer.padding_side)
    backend.save(str(folder / "tokenizer.json"))
    config = model.config.to_dict()
    config.pop("auto_map", None)  # the folder holds no code
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


class OnnxForm(nn.Module):
    """The module that the ONNX graph computes: from padded token ids to the vectors of each side."""

    def __init__(self, model: ConvSimEncoder | ConvSimForMultitask) -> None:
        super().__init__()
        self.multitask = model if isinstance(model, ConvSimForMultitask) else None
        self.encoder = cast(ConvSimEncoder, model.encoder if isinstance(model, ConvSimForMultitask) else model)
        # For a pretrained encoder: its number of positions; its tokenizer adds tokens to every text.
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


def build_graph(form: OnnxForm) -> Any:
    """The ONNX graph (`onnx.ModelProto`), float32, for any number of texts and tokens.

    Raises:
        InputError: the encoder does not support ONNX, or is larger than an ONNX file can be.
    """
    if not form.encoder.exports_to_onnx:
        raise InputError(
            f"{form.encoder.config.model_type}: this encoder does not support ONNX (PyTorch exports an LSTM only for a "
            "fixed number of texts and tokens); expected a DAN, a CBOW or a Transformer encoder"
        )
    size = sum(4 * weight.numel() for name, weight in form.named_parameters() if "nli_head." not in name)
    if size >= LARGEST_FILE:
        raise InputError(f"the model has {size / 1e9:.1f} GB of float32 weights; an ONNX file holds at most 2 GB")
    import_extra("onnxscript", "export", "exporting")
    # Two tensors: the exporter treats the same tensor, passed twice, as one input.
    ids, mask = torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 3, dtype=torch.int64)
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens", max=form.max_tokens)}
    with warnings.catch_warnings(), contextlib.ExitStack() as exit_stack, torch.no_grad():
        # The exporters' warnings concern their own code.
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        exit_stack.callback(logging.disable, logging.NOTSET)
        program: Any = torch.onnx.export(
            form,
            (ids, mask),
            dynamo=True,
            dynamic_shapes=(axes, axes),
            input_names=["input_ids", "attention_mask"],
            output_names=form.output_names(),
            verbose=False,
        )
    model = program.model_proto
    model.graph.ClearField("value_info")  # shapes can be inferred
    for node in model.graph.node:  # the source lines of each node, with paths of this machine
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    return model
