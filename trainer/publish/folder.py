"""The folder that is published: assembled, verified, uploaded in one commit."""

import copy
import json
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import yaml
from sentence_transformers import SentenceTransformer
from sentence_transformers import __version__ as sentence_transformers_version
from sentence_transformers.base.modules import Dense, Module, Normalize, Router, Transformer
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForPreTraining, AutoTokenizer, PreTrainedTokenizerBase
from transformers import __version__ as transformers_version

from data_scripts.errors import InputError
from data_scripts.write.hub import check_repository_id, upload
from modeling_convsim.encoding import Encoder
from modeling_convsim.modeling_base import ConvSimForMultitask
from trainer.publish.model_card import published_settings, write_card

RUN_FILES = ("config.yaml", "results.json", "model/config.json")  # without these, a run is not finished
# Short, long, with unknown words, and empty: a folder is right when all readers agree on these.
CHECK_TEXTS = (
    "How are you?",
    "Is there a train to the city tomorrow morning, or do I have to take the bus again?",
    "Qwxzv, 42!",
    "",
)
TOLERANCE = 1e-6  # of vectors of length one


class Vectors(NamedTuple):
    """Every side's vectors of the same texts, float32 (texts, embedding_size); see `Encoder.encode`."""

    inputs: np.ndarray
    queries: np.ndarray
    responses: np.ndarray


def embed(
    model: ConvSimForMultitask, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str] = CHECK_TEXTS
) -> Vectors:
    """The vectors of some texts on every side, in one padded batch."""
    batch = tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        inputs = model.encoder(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).pooler_output
        queries = inputs if model.input_head is None else model.input_head(inputs)
        return Vectors(inputs.numpy(), queries.numpy(), model.response_head(inputs).numpy())


def build_folder(
    model: ConvSimForMultitask,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    *,
    results: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> Path:
    """Write the folder that is published, check it, and put it in the place of an earlier one.

    Args:
        model: the trained multitask model, on any device; it is left as it is.
        tokenizer: its tokenizer.
        folder: where to, `RUN/model`.
        results: what results.json holds (`write_card` says what the card takes of it).
        settings: the run's settings, as in config.yaml; with `half_precision` the weights are stored as float16.

    Returns:
        The folder.

    Raises:
        InputError: if a reader of the folder gives other vectors than the model; an earlier folder then stays.
    """
    model = copy.deepcopy(model).cpu().float().eval()
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        new.chmod(0o755)
        half = {name: value.half() for name, value in model.state_dict().items()}
        # The config keeps saying float32, which is what the weights are loaded as.
        model.save_pretrained(new, state_dict=half if settings.get("half_precision") else None)
        tokenizer.save_pretrained(new)
        _write_sentence_transformers_files(model, new)
        (new / "config.yaml").write_text(
            yaml.safe_dump(published_settings(settings), sort_keys=False, allow_unicode=True), "utf-8"
        )
        model_id = settings.get("hub_model_id") or f"ORG/{folder.resolve().parent.name}"
        write_card(new, results, settings, model.config, model_id)
        check_folder(new, CHECK_TEXTS, embed(model, tokenizer))
        shutil.rmtree(folder, ignore_errors=True)
        new.replace(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return folder


def _write_sentence_transformers_files(model: ConvSimForMultitask, folder: Path) -> None:
    """Its Transformer on the folder itself, then a Router: inputs as they are, replies through the response network.

    The queries are sentence embeddings, to compare with one another: an `input_network`, which only scores replies, is
    not carried into sentence-transformers, so that there its model's dot products of the two routes are no scores.
    """
    layers, scale = model.response_head.as_dense_layers()
    activations = {"tanh": nn.Tanh(), "relu": nn.ReLU(), "identity": nn.Identity()}
    document: list[Module] = [
        Dense(weight.shape[1], weight.shape[0], True, activations[activation], weight.contiguous(), bias)
        for weight, bias, activation in layers
    ]
    if scale is not None:
        document.append(Normalize())
    router = Router({"query": [Normalize()], "document": document}, default_route="query")
    (folder / "1_Router").mkdir()
    router.save(str(folder / "1_Router"))
    files = {
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": f"{Transformer.__module__}.{Transformer.__name__}"},
            {"idx": 1, "name": "1", "path": "1_Router", "type": f"{Router.__module__}.{Router.__name__}"},
        ],
        "sentence_bert_config.json": {
            "transformer_task": "feature-extraction",
            "modality_config": {"text": {"method": "forward", "method_output_name": "pooler_output"}},
            "module_output_name": "sentence_embedding",
        },
        "config_sentence_transformers.json": {
            "model_type": "SentenceTransformer",
            "__version__": {
                "sentence_transformers": sentence_transformers_version,
                "transformers": transformers_version,
                "pytorch": torch.__version__,
            },
            "prompts": {"query": "", "document": ""},
            "default_prompt_name": None,
            "similarity_fn_name": "dot",
        },
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def check_folder(folder: Path, texts: Sequence[str] = CHECK_TEXTS, expected: Vectors | None = None) -> None:
    """Load a model folder in each way its card names, and compare the vectors of some texts.

    Args:
        folder: a model folder.
        texts: what to encode.
        expected: the vectors of the model in memory; by default those of the folder's multitask model.

    Raises:
        InputError: if the folder does not load, or a vector differs by more than 1e-6 of its length.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        multitask = AutoModelForPreTraining.from_pretrained(folder).eval()
        encoder = AutoModel.from_pretrained(folder).eval()
        sentence_transformer = SentenceTransformer(str(folder), device="cpu")
        own = Encoder.from_pretrained(folder, device="cpu")
    except Exception as error:
        raise InputError(f"{folder} is not a model that can be published, it does not load: {error}") from error
    read = embed(multitask, tokenizer, texts)
    expected = read if expected is None else expected
    batch = tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        pooled = encoder(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).pooler_output.numpy()
    # sentence-transformers has no module for a learned scale, so its response vectors keep the direction only.
    document = expected.responses
    if multitask.config.normalize_response:
        document = document / np.maximum(np.linalg.norm(document, axis=1, keepdims=True), TOLERANCE)
    found = {
        "AutoModelForPreTraining, inputs": (read.inputs, expected.inputs),
        "AutoModelForPreTraining, queries": (read.queries, expected.queries),
        "AutoModelForPreTraining, responses": (read.responses, expected.responses),
        "AutoModel": (pooled, expected.inputs),
        "SentenceTransformer.encode": (
            sentence_transformer.encode(list(texts), show_progress_bar=False),
            expected.inputs,
        ),
        "SentenceTransformer.encode_query": (
            sentence_transformer.encode_query(list(texts), show_progress_bar=False),
            expected.inputs,
        ),
        "SentenceTransformer.encode_document": (
            sentence_transformer.encode_document(list(texts), show_progress_bar=False),
            document,
        ),
        "Encoder, inputs": (own.encode(texts), expected.inputs),
        "Encoder, queries": (own.encode(texts, side="query"), expected.queries),
        "Encoder, responses": (own.encode(texts, side="response"), expected.responses),
    }
    for reader, (vectors, wanted) in found.items():
        difference = float(np.abs(vectors - wanted).max()) if vectors.shape == wanted.shape else float("inf")
        # Written so that a difference that is not a number is refused too.
        if not difference <= TOLERANCE * max(1.0, float(np.linalg.norm(wanted, axis=1).max())):
            raise InputError(
                f"{folder} was not published: {reader} gives other vectors than the trained model, by up to"
                f" {difference:.3g} (at most {TOLERANCE:g} of a vector's length was expected)"
            )


def write_run_card(run: Path, hub_model_id: str | None = None) -> Path:
    """Write the card of a finished run anew from its results.json and config.yaml; returns the model's folder.

    Args:
        run: the run's folder, with config.yaml, results.json and model/.
        hub_model_id: what the card's examples load; by default the one of config.yaml, or else ORG/ and the run's name.

    Raises:
        InputError: if the run is not complete or not readable.
    """
    for name in RUN_FILES:
        if not (run / name).is_file():
            raise InputError(f"{run} is not the folder of a finished run: {name} is missing in it")
    try:
        results = json.loads((run / "results.json").read_text(encoding="utf-8"))
        settings = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    except (ValueError, yaml.YAMLError) as error:
        raise InputError(f"{run}: results.json or config.yaml is not readable: {error}") from error
    model_id = hub_model_id or settings.get("hub_model_id") or f"ORG/{run.resolve().name}"
    write_card(run / "model", results, settings, AutoConfig.from_pretrained(run / "model"), model_id)
    return run / "model"


def publish(run: Path, hub_model_id: str, *, private: bool = False, dry_run: bool = False) -> str:
    """Write the card of a finished run anew from its results.json, check its model folder, and upload it.

    Args:
        run: the run's folder, with config.yaml, results.json and model/.
        hub_model_id: repository to publish to, `ORG/NAME`; made if it is not there.
        private: make it a private one.
        dry_run: do all but the upload.

    Returns:
        The commit's address; with `dry_run`, the folder that would be uploaded.

    Raises:
        InputError: if the run is not complete, its folder not right, or the upload failed.
    """
    check_repository_id(hub_model_id)
    folder = write_run_card(run, hub_model_id)
    check_folder(folder)
    if dry_run:
        return str(folder)
    command = shlex.join(["python", "-m", "trainer.publish", str(run), "--hub_model_id", hub_model_id])
    command += " --private" if private else ""
    return upload(
        folder,
        hub_model_id,
        failed=f"The trained model is in {folder}; push it later with: {command}",
        private=private,
        commit_message=f"Publish {run.resolve().name}",
        delete_patterns=".eval_results/*",
    )
