"""Assembles the folder that is published, and verifies it: every way to load it must give the same vectors."""

import copy
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import yaml
from sentence_transformers import SentenceTransformer
from sentence_transformers import __version__ as sentence_transformers_version
from sentence_transformers.base.modules import Dense, Module, Normalize, Router, Transformer
from torch import Tensor, nn
from transformers import AutoModelForPreTraining, AutoTokenizer, PreTrainedTokenizerBase
from transformers import __version__ as transformers_version

from modeling_convsim.files.errors import InputError
from modeling_convsim.files.folders import staged_folder
from modeling_convsim.files.storage import write_text
from modeling_convsim.modeling_heads import ConvSimForMultitask, ResponseHead
from trainer.encoders.protocol import Side
from trainer.publish import modeling_lexical_route
from trainer.publish.model_card import published_settings, render_card
from trainer.publish.provenance import example_id, hub_sources
from trainer.runs import CARD

# A short text, a long one, one with unknown words, and an empty one.
CHECK_TEXTS = (
    "How are you?",
    "Is there a train to the city tomorrow morning, or do I have to take the bus again?",
    "Qwxzv, 42!",
    "",
)
TOLERANCE = 1e-6  # for L2-normalized vectors
ROUTER = "1_Router"


def build_folder(
    model: ConvSimForMultitask,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    *,
    results: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> Path:
    """Write the folder that is published, verify it, and replace an earlier one.

    Args:
        model: the trained multitask model, on any device; it is not changed.
        tokenizer: its tokenizer.
        folder: its path, `RUN/model`.
        results: the content of results.json (see `render_card`).
        settings: the run's settings, as in config.yaml; with `half_precision` the weights are stored as float16.

    Returns:
        The folder.

    Raises:
        InputError: a reader of the folder returns different vectors, or the folder cannot be written; an existing
            folder is then kept.
    """
    model = copy.deepcopy(model).cpu().float().eval()
    with staged_folder(folder) as (new, _):
        half = {name: value.half() for name, value in model.state_dict().items()}
        # The config still says float32, which is the dtype that the weights are loaded as.
        is_half = bool(settings.get("half_precision"))
        model.save_pretrained(new, state_dict=half if is_half else None)
        tokenizer.save_pretrained(new)
        _write_sentence_transformers_files(model, new, torch.float16 if is_half else torch.float32)
        (new / "config.yaml").write_text(
            yaml.safe_dump(published_settings(settings, hub_sources(results)), sort_keys=False, allow_unicode=True),
            "utf-8",
        )
        model_id = settings.get("hub_model_id") or example_id(folder.resolve().parent)
        write_text(new / CARD, str(render_card(new, results, settings, model.config, model_id)))
        share_weights(new)
        verify_folder(new, embed_all_sides(model, tokenizer))
    return folder


def share_weights(folder: Path) -> None:
    """Give weights, which safetensors makes readable only by their owner, the permissions of new files."""
    umask = os.umask(0)
    os.umask(umask)
    for path in folder.rglob("*.safetensors"):
        path.chmod(0o666 & ~umask)


def _write_sentence_transformers_files(model: ConvSimForMultitask, folder: Path, dtype: torch.dtype) -> None:
    """Write the modules of sentence-transformers: a Transformer, and a Router with a route each for inputs and replies.

    The route of inputs has no modules: the embeddings are L2-normalized already. The settings of the Transformer
    (sentence_bert_config.json) are those of `save_pretrained`.

    Replies go through the response network. Queries are sentence embeddings, to compare with one another, unless the
    model has other vectors that score replies: with an `input_network`, queries go through it; with a `lexical_share`,
    both have the lexical channel. Sentence embeddings are then the default route. The weights of the networks are
    stored in `dtype`, and loaded as float32.
    """
    routes: dict[str, list[Module]] = {"query": [], "document": _head_modules(model.response_head, dtype)}
    default_route = "query"
    if model.has_query_vectors:
        default_route = "sentence"
        routes[default_route] = []
    if model.input_head is not None:
        routes["query"] = _head_modules(model.input_head, dtype)
    if (channel := model.lexical_channel) is not None and model.config.lexical_share:
        sizes = (model.config.vocab_size, model.config.lexical_size)
        lexical = modeling_lexical_route.LexicalRoute(*sizes, model.config.lexical_share, channel.pad_token_id)
        lexical.channel.weights.copy_(channel.weights)
        routes |= {side: [*routes[side], lexical] for side in ("query", "document")}
    (folder / ROUTER).mkdir()
    Router(routes, default_route=default_route).save(str(folder / ROUTER))
    if model.config.lexical_share:
        # The folder holds the code of the lexical channel's module, which the Router's config names as its own.
        code = Path(modeling_lexical_route.__file__).read_text("utf-8").replace("from modeling_convsim.", "from .")
        (folder / "modeling_lexical_route.py").write_text(code, "utf-8")
        config = folder / ROUTER / "router_config.json"
        config.write_text(
            config.read_text("utf-8").replace(f'"{modeling_lexical_route.__name__}.', '"modeling_lexical_route.')
        )
    files = {
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": f"{Transformer.__module__}.{Transformer.__name__}"},
            {"idx": 1, "name": "1", "path": ROUTER, "type": f"{Router.__module__}.{Router.__name__}"},
        ],
        "config_sentence_transformers.json": {
            "model_type": "SentenceTransformer",
            "__version__": {
                "sentence_transformers": sentence_transformers_version,
                "transformers": transformers_version,
                "pytorch": torch.__version__,
            },
            "similarity_fn_name": "dot",
            **model.config.sentence_transformers_prompts(),
        },
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _head_modules(head: ResponseHead, dtype: torch.dtype) -> list[Module]:
    activations = {"tanh": nn.Tanh(), "relu": nn.ReLU(), "identity": nn.Identity()}
    modules: list[Module] = [
        Dense(weight.shape[1], weight.shape[0], True, activations[activation], weight.contiguous(), bias)
        for weight, bias, activation in head.as_dense_layers()
    ]
    modules = [module.to(dtype) for module in modules]
    return [*modules, Normalize()] if head.normalized else modules


# -- verification -----------------------------------------------------------------------------------------------------


class Vectors(NamedTuple):
    """Vectors of the same texts on every side, float32 (texts, embedding_size); see `Encoder.encode`."""

    inputs: np.ndarray
    queries: np.ndarray
    responses: np.ndarray


def embed_all_sides(
    model: ConvSimForMultitask, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str] = CHECK_TEXTS
) -> Vectors:
    """The vectors of some texts on every side, in one padded batch for each."""

    def encode(side: Side, head: Callable[..., Tensor]) -> np.ndarray:
        prompted = [model.config.prompt(side) + text for text in texts]
        padded = tokenizer(prompted, padding=True, truncation=True, return_tensors="pt")
        batch = {name: padded[name] for name in ("input_ids", "attention_mask")}
        return head(model.encoder(**batch).pooler_output, **batch).numpy()

    with torch.inference_mode():
        return Vectors(
            encode("input", lambda vectors, **batch: vectors),
            encode("query", model.query_vectors),
            encode("response", model.response_vectors),
        )


def verify_folder(folder: Path, expected: Vectors | None = None) -> None:
    """Load a model folder with transformers and with sentence-transformers, and compare the vectors of `CHECK_TEXTS`.

    Args:
        folder: a model folder.
        expected: the vectors of the model in memory; by default those of the folder's multitask model.

    Raises:
        InputError: the folder does not load, or a vector differs by more than 1e-6 of its norm.
    """
    for reader, vectors, correct in _read_in_every_way(folder, expected):
        difference = float(np.abs(vectors - correct).max()) if vectors.shape == correct.shape else float("inf")
        # The comparison is negated so that NaN is refused too.
        if not difference <= TOLERANCE * max(1.0, float(np.linalg.norm(correct, axis=1).max())):
            raise InputError(
                f"{folder} was not published: the vectors of {reader} differ from those of the trained model by up to "
                f"{difference:.3g}; expected at most {TOLERANCE:.3g} of a vector's norm"
            )


def _read_in_every_way(folder: Path, expected: Vectors | None) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """The name of each reader, its vectors, and the expected ones."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        multitask = AutoModelForPreTraining.from_pretrained(folder, trust_remote_code=False).eval()
        # The code of the lexical channel's module is the folder's, whose checksum was verified.
        trust = multitask.config.lexical_share > 0
        sentence_transformer = SentenceTransformer(str(folder), device="cpu", trust_remote_code=trust)
    except Exception as error:
        raise InputError(f"{folder} cannot be published because it does not load: {error}") from error
    loaded = embed_all_sides(multitask, tokenizer)
    expected = expected or loaded
    methods = ("encode", "encode_query", "encode_document")
    for field, method, correct in zip(Vectors._fields, methods, expected, strict=True):
        yield f"AutoModelForPreTraining, {field}", getattr(loaded, field), correct
        vectors = getattr(sentence_transformer, method)(list(CHECK_TEXTS), show_progress_bar=False)
        yield f"SentenceTransformer.{method}", vectors, correct
