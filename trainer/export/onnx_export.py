"""The format onnx: a folder that onnxruntime runs without torch."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from modeling_convsim.encoding import Encoder
from trainer.encoders.protocol import Side
from trainer.export import onnx_graph
from trainer.export.comparison import CHECK_BATCHES
from trainer.export.formats import OUTPUTS, ExportFormat, Precision, import_extra, save_tokenizer
from trainer.export.onnx_graph import OnnxForm

BATCH_SIZE = 64

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

    def encode(self, texts: Iterable[str], side: Side = "input") -> np.ndarray:
        """Vectors (texts, embedding_size), float32; batches hold texts of similar lengths."""
        texts = list(texts)
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


def write_onnx(encoder: Encoder, folder: Path, precision: Precision) -> None:
    """Write model.onnx, config.json, and a tokenizer.json that pads and truncates by itself.

    Raises:
        InputError: ONNX cannot hold the encoder.
    """
    _write_graph(encoder, folder / "model.onnx", precision)
    tokenizer = save_tokenizer(encoder.tokenizer, folder)
    padding = {"pad_id": encoder.tokenizer.pad_token_id, "pad_token": encoder.tokenizer.pad_token}
    tokenizer.enable_padding(**padding, direction=encoder.tokenizer.padding_side)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = encoder.model.config.to_dict()
    config.pop("auto_map", None)  # the folder holds no code
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _write_graph(encoder: Encoder, file: Path, precision: Precision) -> None:
    graph = onnx_graph.build_graph(OnnxForm(encoder.model))
    if precision.embeddings != "float32":
        onnx_graph.compress_embeddings(graph, precision.embeddings)
    if precision.matrices == "float16":
        onnx_graph.halve_matrices(graph)
    if precision.matrices == "int8":
        onnx_graph.quantize_products(graph, file)
    else:
        import_extra("onnx").save(graph, file)


FORMAT = ExportFormat(
    name="onnx",
    engine="onnxruntime",
    packages=("onnx", "onnxscript", "onnxruntime"),
    weights_file="model.onnx",
    stores_embeddings_apart=True,
    write=write_onnx,
    load=OnnxEncoder,
    held_by=lambda encoder: encoder.model,
    check_batches=CHECK_BATCHES,
    usage=USAGE,
)
