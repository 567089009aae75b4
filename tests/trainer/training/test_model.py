"""The model that a run starts from, its tokenizer, its word vectors and token weights; building the tasks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from datasets import Dataset
from transformers import PreTrainedTokenizerFast

from modeling_convsim import ConvSimTransformerForMultitask
from modeling_convsim.encoding.batch_tokenizer import UNLIMITED
from modeling_convsim.files.errors import InputError
from tests.modeling_convsim.tiny_models import SENTENCES, build, pack, save
from trainer.data.datasets import RunData
from trainer.data.tokenizer import train_tokenizer
from trainer.settings import Settings, build_settings
from trainer.training import model as model_module
from trainer.training.inputs import build_tasks, build_tokenizer
from trainer.training.model import build_model, initialize_embeddings, max_tokens
from trainer.training.model_evaluator import ModelEvaluator
from trainer.training.trainable_model import TrainableModel


@pytest.fixture(scope="module")
def saved(tmp_path_factory, tiny_tokenizer) -> Path:
    """The folder of a tiny Transformer, which is not the default encoder, and its tokenizer."""
    model = build("transformer", hidden_size=8, vocab_size=len(tiny_tokenizer))
    return save(model, tiny_tokenizer, tmp_path_factory.mktemp("model"))


def load(saved: Path, tokenizer: PreTrainedTokenizerFast, **options: Any) -> Any:
    return build_model(
        build_settings(initialize_from=str(saved), tasks={"response_prediction": 1}, pairs=["p"], **options), tokenizer
    )


def test_the_config_and_the_tokenizer_need_not_be_repeated(saved, tiny_tokenizer, tmp_path):
    settings = build_settings(initialize_from=str(saved), tasks={"response_prediction": 1}, pairs=["p"])
    tokenizer = build_tokenizer(settings, RunData())
    assert tokenizer.get_vocab() == tiny_tokenizer.get_vocab()
    tokenizer.save_pretrained(tmp_path)  # says nothing of how it was loaded here
    assert not {"is_local", "local_files_only"} & json.loads((tmp_path / "tokenizer_config.json").read_text()).keys()
    assert type(build_model(settings, tokenizer)) is ConvSimTransformerForMultitask


def test_averages_read_whole_texts_and_sequence_encoders_64_tokens(saved):
    options: dict[str, Any] = {"tasks": {"response_prediction": 1}, "pairs": ["p"]}
    for model_type, limit in {"dan": None, "cbow": None, "bilstm": 64, "transformer": 64}.items():
        assert max_tokens(build_settings(model_type=model_type, **options)) == limit
    options["initialize_from"] = str(saved)
    assert max_tokens(build_settings(**options)) == 64 and max_tokens(build_settings(max_tokens=9, **options)) == 9
    for limit, expected in ((None, UNLIMITED), (9, 9)):
        tokenizer = build_tokenizer(build_settings(max_tokens=limit, **options), RunData())
        assert tokenizer.model_max_length == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model_type": "dan"}, "model_type is dan, but transformer in .*: leave out model_type"),
        (
            {"model_config": {"hidden_size": 16}},
            "model_config.hidden_size is 16, but 8 in .*: leave out model_config .*--model_config none",
        ),
        ({"model_config": {"hiden_size": 8}}, "model_config.hiden_size is 8, but None in "),
    ],
)
def test_a_conflict_names_both_values_and_the_fix(saved, tiny_tokenizer, options, message):
    with pytest.raises(InputError, match=message):
        load(saved, tiny_tokenizer, **options)


def test_another_tokenizer_is_refused_but_not_that_of_a_model_without_one(saved, tiny_tokenizer, tmp_path):
    other = PreTrainedTokenizerFast(
        tokenizer_object=tiny_tokenizer.backend_tokenizer, pad_token="[PAD]", unk_token="[UNK]"
    )
    other.add_tokens(["parcel"])
    other.save_pretrained(tmp_path / "other")
    (tmp_path / "bare").mkdir()
    size = len(tiny_tokenizer)
    with pytest.raises(
        InputError, match=rf"other \({size + 1} entries\), which differs from that of .* \({size} entries\)"
    ):
        build_tokenizer(Settings(initialize_from=str(saved), tokenizer=str(tmp_path / "other")), RunData())
    settings = Settings(initialize_from=str(tmp_path / "bare"), tokenizer=str(tmp_path / "other"))
    assert len(build_tokenizer(settings, RunData())) == size + 1


def test_a_model_without_heads_is_refused(saved, tiny_tokenizer, tmp_path):
    load(saved, tiny_tokenizer).encoder.save_pretrained(tmp_path)
    with pytest.raises(
        InputError, match=r"contains a ConvSimTransformerModel, expected a multitask model; .*runs/NAME/model"
    ):
        load(tmp_path, tiny_tokenizer)


INPUTS = ["the cat", "the dog", "the the the cat", "a cat"]
RESPONSES = ["the mat", "the bone", "a mat", "the cat"]

OPTIONS = {
    "dan": {"word_embedding_size": 4, "learned_token_weights": True},
    "cbow": {},
    "transformer": {"hidden_size": 8, "residual": True, "learned_token_weights": True},
}


def initialized(model_type: str, tmp_path, monkeypatch, **options):
    """Return a new model whose skip-gram vectors are (0.5, 0.5, 0.5, 0.5), and its vocabulary."""
    monkeypatch.setattr(
        model_module, "cached_word_vectors", lambda columns, rows, size, *_: np.full((rows, size), 0.5, np.float32)
    )
    sizes = {"embedding_size": 4} | OPTIONS[model_type]
    settings = build_settings(
        model_type=model_type,
        model_config=sizes,
        pairs=["pairs"],
        tasks={"response_prediction": 1},
        cache_dir=str(tmp_path),
        **options,
    )
    pairs = Dataset.from_dict({"input": INPUTS, "response": RESPONSES})
    data = RunData(training={"pairs": pairs})
    tokenizer = train_tokenizer(INPUTS + RESPONSES, "word", 30, min_count=1)
    model = build_model(settings, tokenizer)
    tasks = build_tasks(settings, data, tokenizer, show_progress=False)
    initialize_embeddings(settings, model, tasks, data, tokenizer)
    return model, tokenizer.get_vocab()


def sif(word: str) -> float:
    words = " ".join(INPUTS + RESPONSES).split()
    return 0.001 / (0.001 + words.count(word) / len(words))


@pytest.mark.parametrize("model_type", ["dan", "transformer"])
def test_token_weights_are_initialized_with_sif(model_type, tmp_path, monkeypatch):
    model, vocabulary = initialized(model_type, tmp_path, monkeypatch, token_weights="sif")
    weights = model.get_parameter("encoder.token_weights.weight")
    for word in ("the", "cat", "bone"):
        assert weights[vocabulary[word]].item() == pytest.approx(sif(word), rel=1e-6)
    assert weights[0].item() == 1  # padding, which is in no text


def test_word_vectors_of_a_file_are_scaled_to_unit_length_on_average(tmp_path, monkeypatch):
    path = tmp_path / "glove.txt"
    path.write_text("Cat 3 0 0 0\nthe 0 1 0 0\nzebra 9 9 9 9\n")
    model, vocabulary = initialized("dan", tmp_path, monkeypatch, word_vectors=str(path))
    table = model.get_parameter("encoder.embed_tokens.weight").detach()
    expected = torch.tensor([[1.5, 0, 0, 0], [0, 0.5, 0, 0]])
    torch.testing.assert_close(table[[vocabulary["cat"], vocabulary["the"]]], expected)
    assert table[vocabulary["dog"]].any()  # not in the file: random


@pytest.mark.parametrize(
    ("model_type", "option"),
    [("dan", "word_embedding_size"), ("cbow", "embedding_size"), ("transformer", "embedding_size")],
)
def test_word_vectors_of_another_size_are_refused(model_type, option, tmp_path, monkeypatch):
    path = tmp_path / "glove.txt"
    path.write_text("cat 3 0 0\n")
    with pytest.raises(InputError, match=rf"vectors of 3 dimensions, but .* have 4: set {option} to 3 in model_config"):
        initialized(model_type, tmp_path, monkeypatch, word_vectors=str(path))


def test_a_model_to_start_from_trains_with_dropout_also_after_an_evaluation(tiny_tokenizer, tmp_path):
    build("dan", vocab_size=len(tiny_tokenizer), token_dropout=0.5).save_pretrained(tmp_path)
    settings = Settings(initialize_from=str(tmp_path))
    trainable = TrainableModel(build_model(settings, tiny_tokenizer), settings, Accelerator(cpu=True))

    def varies() -> bool:
        torch.manual_seed(0)
        return len({trainable.wrapped(**pack(SENTENCES)).pooler_output.sum().item() for _ in range(10)}) > 1

    assert varies()
    evaluator = ModelEvaluator(trainable.full, tiny_tokenizer, {}, skip=())
    evaluator.evaluate("dev")
    assert varies()


def test_a_model_to_start_from_must_be_whole(tiny_tokenizer, tmp_path):
    model = build("dan", vocab_size=len(tiny_tokenizer))
    model.get_parameter("encoder.embed_tokens.weight").data[3, 1] = torch.nan
    model.save_pretrained(tmp_path)
    settings = Settings(initialize_from=str(tmp_path))
    with pytest.raises(InputError, match=r"initialize_from: the weights encoder\.embed_tokens\.weight .* not finite"):
        build_model(settings, tiny_tokenizer)
