"""A tiny encoder with random weights and its tokenizer, as transformers or sentence-transformers saves them."""

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import CONFIG_MAPPING, AutoModel, PreTrainedTokenizerFast

from tests.conftest import WORDS
from tests.modeling_convsim.tiny_models import BERT
from tests.trainer.tiny_datasets import COLORS, OWNERS, THINGS

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
ROUTE = "sentence_transformers.models"


VOCABULARY = [*WORDS, *THINGS, *COLORS, *OWNERS, "color", "of", "there", "stands", "room"]


def save_backbone(
    folder: Path, config: dict[str, Any] | None = None, vocabulary: list[str] = VOCABULARY, **files: Any
) -> Path:
    """Save an encoder of a config, by default BERT's, and JSON files, by their path without the suffix."""
    words = [*SPECIAL, *dict.fromkeys(vocabulary)]
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=special
    )
    tokenizer.enable_padding(length=12)  # as in the files of some models; transformers does not read it
    torch.manual_seed(3)
    values = (config or BERT) | {"vocab_size": len(words), "max_position_embeddings": 160}
    AutoModel.from_config(CONFIG_MAPPING[values["model_type"]].from_dict(values)).save_pretrained(folder)
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names, model_max_length=150).save_pretrained(folder)
    for name, content in files.items():
        (folder / f"{name}.json").parent.mkdir(exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def sentence_transformer(pooling: str, *further: str) -> dict[str, Any]:
    """The files that make an encoder a SentenceTransformer with a pooling, and then further modules."""
    types = ["Transformer", "Pooling", *further]
    paths = ["", *(f"{index}_{name}" for index, name in enumerate(types[1:], start=1))]
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"{ROUTE}.{name}"}
        for index, (name, path) in enumerate(zip(types, paths, strict=True))
    ]
    flag = {"mean": "mean_tokens", "cls": "cls_token", "last": "lasttoken", "max": "max_tokens"}[pooling]
    return {
        "modules": modules,
        "1_Pooling/config": {"word_embedding_dimension": 16, f"pooling_mode_{flag}": True},
        "sentence_bert_config": {"max_seq_length": 20, "do_lower_case": False},
    }
