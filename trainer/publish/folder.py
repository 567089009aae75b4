"""Assembles the folder that is published: for transformers, convsim and sentence-transformers."""

import copy
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from sentence_transformers import __version__ as sentence_transformers_version
from sentence_transformers.base.modules import Dense, Module, Normalize, Router, Transformer
from torch import nn
from transformers import PreTrainedTokenizerBase
from transformers import __version__ as transformers_version

from data_scripts.files.folders import staged_folder
from modeling_convsim.modeling_heads import ConvSimForMultitask, ResponseHead
from trainer.evaluation.sts_tuning import ROUTE, ROUTER, build_route
from trainer.publish import modeling_lexical_route
from trainer.publish.model_card import published_settings, write_card
from trainer.publish.model_files import find_other_files, record_model_files, share_weights
from trainer.publish.training_data import example_id, hub_sources
from trainer.publish.verify import CHECK_TEXTS, embed_all_sides, verify_folder


def build_folder(
    model: ConvSimForMultitask,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    *,
    results: Mapping[str, Any],
    settings: Mapping[str, Any],
    sts_matrix: np.ndarray | None = None,
) -> Path:
    """Write the folder that is published, verify it, and replace an earlier one.

    Args:
        model: the trained multitask model, on any device; it is not changed.
        tokenizer: its tokenizer.
        folder: its path, `RUN/model`.
        results: the content of results.json (see `write_card`).
        settings: the run's settings, as in config.yaml; with `half_precision` the weights are stored as float16.
        sts_matrix: the matrix W (dimensions, dimensions) that gives the scores `stsb_tuned`; the route `sts`.

    Files of an earlier folder that no run writes stay.

    Returns:
        The folder.

    Raises:
        InputError: a reader of the folder gives other vectors than the model, or it cannot be written; an earlier
            folder then stays.
    """
    model = copy.deepcopy(model).cpu().float().eval()
    with staged_folder(folder) as (new, _):
        half = {name: value.half() for name, value in model.state_dict().items()}
        # The config still says float32, which is the dtype that the weights are loaded as.
        is_half = bool(settings.get("half_precision"))
        model.save_pretrained(new, state_dict=half if is_half else None)
        tokenizer.save_pretrained(new)
        _write_sentence_transformers_files(model, new, sts_matrix, torch.float16 if is_half else torch.float32)
        (new / "config.yaml").write_text(
            yaml.safe_dump(published_settings(settings, hub_sources(results)), sort_keys=False, allow_unicode=True),
            "utf-8",
        )
        model_id = settings.get("hub_model_id") or example_id(folder.resolve().parent)
        write_card(new, results, settings, model.config, model_id)
        share_weights(new)
        record_model_files(new)
        verify_folder(new, CHECK_TEXTS, embed_all_sides(model, tokenizer), sts_matrix)
        for name in find_other_files(folder):
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(folder / name, new / name, follow_symlinks=False)
    return folder


def _write_sentence_transformers_files(
    model: ConvSimForMultitask, folder: Path, sts_matrix: np.ndarray | None, dtype: torch.dtype
) -> None:
    """Write the modules of sentence-transformers: a Transformer, and a Router with a route each for inputs and replies.

    A tuned matrix is a third route. The route of inputs has no modules: the embeddings are L2-normalized already. The
    settings of the Transformer (sentence_bert_config.json) are those of `save_pretrained`.

    Replies go through the response network. Queries are sentence embeddings, to compare with one another, unless the
    model has other vectors that score replies: with an `input_network`, queries go through it; with a `lexical_share`,
    both have the lexical channel. Sentence embeddings are then the default route. The weights of the networks are
    stored in `dtype`, and loaded as float32.
    """
    routes: dict[str, list[Module]] = {"query": [], "document": _head_modules(model.response_head, dtype)}
    if sts_matrix is not None:
        routes[ROUTE] = build_route(sts_matrix)
    default_route = "query"
    if model.has_query_vectors:
        default_route = "sentence"
        routes[default_route] = []
    if model.input_head is not None:
        routes["query"] = _head_modules(model.input_head, dtype)
    if model.config.lexical_share:
        lexical = _lexical_route(model)
        routes |= {side: [*routes[side], lexical] for side in ("query", "document")}
    (folder / ROUTER).mkdir()
    Router(routes, default_route=default_route).save(str(folder / ROUTER))
    if model.config.lexical_share:
        _copy_code_of_route(folder)
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
            "prompts": {"query": "", "document": ""},
            "default_prompt_name": None,
            "similarity_fn_name": "dot",
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


def _lexical_route(model: ConvSimForMultitask) -> Module:
    config, channel = model.config, model.lexical_channel
    assert channel is not None
    sizes = (config.vocab_size, config.embedding_size, config.lexical_size)
    route = modeling_lexical_route.LexicalRoute(*sizes, config.lexical_share, channel.pad_token_id)
    route.channel.weights.copy_(channel.weights)
    return route


def _copy_code_of_route(folder: Path) -> None:
    """Copy the code of the lexical channel's module, and name it in the Router's config as the folder's own code."""
    code = Path(modeling_lexical_route.__file__).read_text("utf-8").replace("from modeling_convsim.", "from .")
    (folder / "modeling_lexical_route.py").write_text(code, "utf-8")
    config = folder / ROUTER / "router_config.json"
    config.write_text(
        config.read_text("utf-8").replace(f'"{modeling_lexical_route.__name__}.', '"modeling_lexical_route.')
    )
