"""A residual Transformer that starts from a trained DAN, and the further texts of word vectors."""

from types import SimpleNamespace

import pytest
import torch
from datasets import Dataset

from data_scripts.errors import InputError
from modeling_convsim import ConvSimDanConfig, ConvSimDanForMultitask
from tests.modeling_convsim.tiny_models import SENTENCES, pack
from trainer.command_line import build_arguments
from trainer.data.datasets import RunData
from trainer.training.initialization import _further_texts
from trainer.training.model import build_model

LAYERS = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 8}
HEADS = {"response_hidden_sizes": [5], "nli_hidden_size": 7, "response_residual": True, "normalize_response": True}


def save_dan(folder, tokenizer, **options) -> ConvSimDanForMultitask:
    """Save a DAN with random weights, and return it."""
    sizes = {"vocab_size": len(tokenizer) + 40, "word_embedding_size": 6, "embedding_size": 6, "hidden_sizes": [4]}
    averages = {"residual": True, "learned_token_weights": True, "bigram_buckets": 0}
    dan = ConvSimDanForMultitask(ConvSimDanConfig(**sizes | HEADS | averages | options)).eval()
    with torch.no_grad():
        for parameter in dan.parameters():
            parameter.normal_()
    dan.save_pretrained(folder)
    return dan


def start(folder, tokenizer, **model_config):
    arguments = build_arguments(
        model_type="transformer",
        model_config=LAYERS | model_config,
        initialize_from=str(folder),
        pairs=["pairs"],
        tasks={"response_prediction": 1},
    )
    return build_model(arguments, tokenizer)


@torch.no_grad()
def test_a_transformer_starts_at_the_embeddings_and_heads_of_a_dan(tiny_tokenizer, tmp_path):
    dan = save_dan(tmp_path, tiny_tokenizer)
    model = start(tmp_path, tiny_tokenizer, hidden_dropout=0.25).eval()
    assert (model.config.model_type, model.config.hidden_dropout) == ("convsim_transformer", 0.25)
    assert dan.encoder.layers[-1].weight.any()
    batch = pack(SENTENCES)
    pairs = batch | {f"response_{name}": value for name, value in batch.items()}
    pairs |= {f"hypothesis_{name}": value for name, value in pack(SENTENCES[::-1]).items()}
    output, expected = model(**pairs), dan(**pairs)
    for name in ("pooler_output", "response_embeds", "response_scale", "nli_logits"):
        torch.testing.assert_close(output[name], expected[name])


@pytest.mark.parametrize(
    ("dan", "model_config", "message"),
    [
        (
            {"bigram_buckets": 4},
            {},
            "has bigrams, has another activation than tanh or is not residual; a Transformer starts from a DAN with",
        ),
        ({"residual": False}, {}, "or is not residual"),
        ({"activation": "relu"}, {}, "has another activation than tanh"),
        (
            {},
            {"embedding_size": 12},
            r"^model_config\.embedding_size is 12, but that of the DAN in .* is 6: leave it out",
        ),
        ({}, {"hidden_size": 9}, "model_config: .*hidden_size is 9, expected an even multiple"),
    ],
)
def test_what_does_not_fit_the_dan_is_refused(dan, model_config, message, tiny_tokenizer, tmp_path):
    save_dan(tmp_path, tiny_tokenizer, **dan)
    with pytest.raises(InputError, match=message):
        start(tmp_path, tiny_tokenizer, **model_config)


def test_a_damaged_dan_is_refused(tiny_tokenizer, tmp_path):
    dan = save_dan(tmp_path, tiny_tokenizer)
    dan.get_parameter("encoder.token_weights.weight").data[3] = torch.nan
    dan.save_pretrained(tmp_path)
    with pytest.raises(
        InputError, match=r"initialize_from: the weights encoder\.token_weights\.weight of .* not finite"
    ):
        start(tmp_path, tiny_tokenizer)


def test_further_texts_are_tokenized_as_the_run_s_texts_are(tiny_tokenizer, tmp_path):
    texts = {name: Dataset.from_dict({"text": ["the cat sat on the mat", name]}) for name in ("cat", "dog")}
    pairs = Dataset.from_dict({"input": ["house"], "response": ["house"]})
    data = RunData({"pairs": pairs} | {f"texts/{name}": rows for name, rows in texts.items()})
    columns = _further_texts(SimpleNamespace(cache_dir=tmp_path, max_tokens=3), data, tiny_tokenizer, False)
    expected = [[*tiny_tokenizer("the cat sat")["input_ids"], *tiny_tokenizer(name)["input_ids"]] for name in texts]
    assert [column.ids.tolist() for column in columns] == expected
