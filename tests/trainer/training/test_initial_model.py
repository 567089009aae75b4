"""`initialize_from`: the config and the tokenizer are those of the named model, and conflicts name both values."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from data_scripts.errors import InputError
from modeling_convsim import ConvSimTransformerConfig, ConvSimTransformerForMultitask
from trainer.arguments import Arguments
from trainer.command_line import build_arguments, parse_arguments
from trainer.data.datasets import RunData
from trainer.training.model import build_model
from trainer.training.tokenizer import build_tokenizer

SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}


@pytest.fixture(scope="module")
def saved(tmp_path_factory, tiny_tokenizer) -> Path:
    """The folder of a tiny Transformer, which is not the default encoder, and its tokenizer."""
    folder = tmp_path_factory.mktemp("model")
    heads = {"embedding_size": 8, "response_hidden_sizes": [8], "nli_hidden_size": 8}
    torch.manual_seed(1)
    ConvSimTransformerForMultitask(
        ConvSimTransformerConfig(vocab_size=len(tiny_tokenizer), **SIZES, **heads)
    ).save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


def build(saved: Path, tokenizer: PreTrainedTokenizerFast, **options: Any) -> Any:
    return build_model(
        build_arguments(initialize_from=str(saved), tasks={"response_prediction": 1}, pairs=["p"], **options), tokenizer
    )


def test_the_config_and_the_tokenizer_need_not_be_repeated(saved, tiny_tokenizer, tmp_path):
    arguments = build_arguments(initialize_from=str(saved), tasks={"response_prediction": 1}, pairs=["p"])
    tokenizer = build_tokenizer(arguments, RunData(), tmp_path / "unused")
    assert tokenizer.get_vocab() == tiny_tokenizer.get_vocab()
    assert type(build_model(arguments, tokenizer)) is ConvSimTransformerForMultitask


def test_values_that_are_repeated_are_accepted(saved, tiny_tokenizer):
    model = build(saved, tiny_tokenizer, model_type="transformer", model_config=SIZES)
    assert model.config.hidden_size == 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model_type": "dan"}, "model_type is dan, but that of .*, is transformer: leave model_type out"),
        (
            {"model_config": {"hidden_size": 16}},
            "model_config.hidden_size is 16, but that of .*, is 8: leave model_config out .*--model_config none",
        ),
        ({"model_config": {"hiden_size": 8}}, "model_config.hiden_size is 8, but that of .*, is None"),
    ],
)
def test_a_conflict_names_both_values_and_the_fix(saved, tiny_tokenizer, options, message):
    with pytest.raises(InputError, match=message):
        build(saved, tiny_tokenizer, **options)


def test_another_tokenizer_is_refused_but_not_that_of_a_model_without_one(saved, tiny_tokenizer, tmp_path):
    other = PreTrainedTokenizerFast(
        tokenizer_object=tiny_tokenizer.backend_tokenizer, pad_token="[PAD]", unk_token="[UNK]"
    )
    other.add_tokens(["parcel"])
    other.save_pretrained(tmp_path / "other")
    (tmp_path / "bare").mkdir()
    size = len(tiny_tokenizer)
    with pytest.raises(
        InputError, match=rf"other \({size + 1} entries\), but that of .* \({size} entries\), is another one"
    ):
        build_tokenizer(Arguments(initialize_from=str(saved), tokenizer=str(tmp_path / "other")), RunData(), tmp_path)
    arguments = Arguments(initialize_from=str(tmp_path / "bare"), tokenizer=str(tmp_path / "other"))
    assert len(build_tokenizer(arguments, RunData(), tmp_path)) == size + 1


def test_a_model_without_heads_is_refused(saved, tiny_tokenizer, tmp_path):
    build(saved, tiny_tokenizer).encoder.save_pretrained(tmp_path)
    with pytest.raises(
        InputError, match=r"holds ConvSimTransformerModel, expected a multitask model; .*runs/NAME/model"
    ):
        build(tmp_path, tiny_tokenizer)


def test_on_the_command_line_it_replaces_what_a_preset_says_of_a_new_model(saved, tmp_path):
    preset = tmp_path / "preset.yaml"
    new_model = "tokenizer_kind: wordpiece\nvocab_size: 300\nword_vectors: skip_gram\ntexts: [t]\n"
    preset.write_text(f"pairs: [p]\ntasks: {{response_prediction: 1}}\n{new_model}")
    arguments = parse_arguments([str(preset), "--initialize_from", str(saved)])
    assert (arguments.word_vectors, arguments.tokenizer_kind, arguments.texts) == ("random", "word", [])
    with pytest.raises(InputError, match="word_vectors has no effect with initialize_from"):
        parse_arguments([str(preset), "--initialize_from", str(saved), "--word_vectors", "skip_gram"])
    assert parse_arguments([str(preset)]).model_type == "dan"
