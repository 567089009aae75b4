"""`Encoder`: vectors of every side against the model's, for any batches, threads and precision."""

import copy
import importlib
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tqdm import tqdm
from transformers import AutoModelForPreTraining, AutoTokenizer, PreTrainedTokenizerFast
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from data_scripts.public.stsb import load_stsb
from modeling_convsim.encoding import Encoder
from modeling_convsim.encoding.__main__ import main
from modeling_convsim.encoding.batch_tokenizer import UNLIMITED
from modeling_convsim.encoding.torch_model import TorchModel
from modeling_convsim.modeling_averaging import AveragingModel
from modeling_convsim.suggestion import ReplyIndex
from tests.modeling_convsim.tiny_models import KINDS, VARIANTS, build, save

BASE = Path(__file__).parents[3] / "model_cards" / "base"
TEXTS = [
    "How old are you?",
    "",
    "hello",
    "the small cat likes the big house , and the dog",
    "Yes, please!",
    "zebra",
    "  ",
]


PADDED = [kind for kind in KINDS if not kind.startswith(("cbow", "dan"))]
LONG = " ".join(["the cat", "sees dogs !"] * 750)
AVERAGES = ["cbow", "dan", *(kind for kind in VARIANTS if kind.startswith("dan_"))]
SIDES = ["input", "query", "response"]
ODD_TEXTS = [*TEXTS, "猫は犬が好き", "[PAD] the [UNK] cat [CLS]", LONG, "ﬁne naïve İ \u0130 \x00"]


@pytest.fixture(scope="module")
def module():
    return build("dan_best")


@pytest.fixture(scope="module")
def folder(module, tiny_tokenizer, tmp_path_factory):
    return save(module, tiny_tokenizer, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def encoder(folder):
    return Encoder.from_pretrained(folder, device="cpu")


@pytest.fixture
def set_threads(monkeypatch):
    """Sets the number of threads of both kinds of models."""

    def set_to(count: int) -> None:
        torch.set_num_threads(count)
        monkeypatch.setenv("OMP_NUM_THREADS", str(count))

    return set_to


@torch.no_grad()
def references(
    module: torch.nn.Module, tokenizer: PreTrainedTokenizerFast, texts: list[str], side: str = "input", size: int = 1
) -> np.ndarray:
    """The vectors of texts by the classes that train, in evaluation mode, `size` texts at a time."""
    vectors = []
    for start in range(0, len(texts), size):
        batch = tokenizer(texts[start : start + size], padding=True, return_tensors="pt")
        ids, mask = batch["input_ids"].long(), batch["attention_mask"].long()
        found = module.encoder(ids, mask).pooler_output
        heads = {"response": module.response_vectors, "query": module.query_vectors}
        vectors.append((heads[side](found, ids, mask) if side in heads else found).numpy())
    return np.concatenate(vectors)


def assert_close(vectors: np.ndarray, expected: np.ndarray) -> None:
    """Asserts that vectors are equal to 1e-6, or to 1e-6 of their length if they are longer than 1."""
    scale = np.maximum(1, np.linalg.norm(expected, axis=1, keepdims=True))
    np.testing.assert_allclose(vectors / scale, expected / scale, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", AVERAGES)
def test_numpy_gives_the_vectors_of_torch(kind, tiny_tokenizer, tmp_path):
    module, tokenizer = build(kind), copy.deepcopy(tiny_tokenizer)
    tokenizer.model_max_length = UNLIMITED
    opened = Encoder.from_pretrained(save(module, tokenizer, tmp_path))
    assert opened.digest() == Encoder(TorchModel(module), tokenizer).digest()
    for side in SIDES:
        expected = references(module, tokenizer, ODD_TEXTS, side)
        expected = np.concatenate([expected, np.tile(expected[: len(TEXTS)], (40, 1))])
        for encoder in (opened, Encoder(module, tokenizer)):
            for batch_size, texts in ((1, ODD_TEXTS), (4, ODD_TEXTS), (1000, ODD_TEXTS + TEXTS * 40)):
                vectors = encoder.encode(iter(texts), side, batch_size)
                assert vectors.dtype == np.float32
                assert_close(vectors, expected[: len(texts)])


@pytest.fixture(scope="module")
def sts_texts(data_dir):
    """Sentences of STS-B."""
    split = load_stsb(str(data_dir / "stsb"))["validation"]
    return list(dict.fromkeys([*split["sentence1"][::8], *split["sentence2"][::8]]))


@pytest.mark.parametrize("kind", [*AVERAGES, "base"])
def test_numpy_gives_the_vectors_of_torch_for_real_texts_and_a_real_vocabulary(kind, sts_texts):
    """Of random models that are nearly as large as the base, and of the base itself."""
    tokenizer = AutoTokenizer.from_pretrained(BASE, model_max_length=UNLIMITED)
    if kind == "base":
        module = AutoModelForPreTraining.from_pretrained(BASE).eval()
    else:
        sizes = {"vocab_size": len(tokenizer), "word_embedding_size": 256, "embedding_size": 256}
        module = build(kind, **{name: size for name, size in sizes.items() if hasattr(build(kind).config, name)})
    encoder = Encoder(module, tokenizer)
    assert isinstance(encoder.model, AveragingModel)
    for side in SIDES:
        expected = [references(module, tokenizer, sts_texts, side, 100), references(module, tokenizer, ODD_TEXTS, side)]
        assert_close(encoder.encode([*sts_texts, *ODD_TEXTS], side), np.concatenate(expected))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 3])
def test_threads_share_the_texts_and_keep_their_order(kind, count, set_threads, tiny_tokenizer):
    module = build(kind)
    encoder, expected = Encoder(module, tiny_tokenizer), references(module, tiny_tokenizer, TEXTS)
    set_threads(count)
    vectors = encoder.encode(TEXTS * 60, batch_size=7)
    np.testing.assert_allclose(vectors, np.tile(expected, (60, 1)), atol=1e-6)


def test_stream_yields_vectors_before_it_has_read_all_texts(set_threads, encoder):
    set_threads(2)
    read = 0

    def endless():
        nonlocal read
        while True:
            read += 1
            yield TEXTS[read % len(TEXTS)]

    parts = encoder.stream(endless(), batch_size=10)
    vectors = next(parts)
    assert len(vectors) == 10 and read <= 100
    np.testing.assert_allclose(vectors, encoder.encode([TEXTS[(row + 1) % len(TEXTS)] for row in range(10)]), atol=1e-6)
    parts.close()


@pytest.mark.parametrize("kind", PADDED)
def test_bfloat16_vectors_are_close_to_float32(kind, tiny_tokenizer, tmp_path):
    exact = Encoder.from_pretrained(save(build(kind), tiny_tokenizer, tmp_path), "cpu").encode(TEXTS)
    encoder = Encoder.from_pretrained(tmp_path, "cpu", "bfloat16")
    rounded = encoder.encode(TEXTS)
    assert encoder.model.module.dtype == torch.bfloat16 and rounded.dtype == np.float32
    known = np.linalg.norm(exact, axis=1) > 0  # a pretrained encoder gives zeros for an empty text
    cosines = (exact * rounded).sum(1)[known] / np.linalg.norm(rounded[known], axis=1)
    assert known.sum() >= 5 and cosines.min() > 0.999


@pytest.mark.parametrize(
    ("avx512", "amx", "is_fast"), [(True, False, True), (False, True, True), (False, False, False)]
)
def test_automatic_dtype_is_bfloat16_if_the_processor_has_instructions(
    avx512, amx, is_fast, tiny_tokenizer, tmp_path, monkeypatch
):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": avx512, "amx_bf16": amx})
    encoder = Encoder.from_pretrained(save(build("transformer"), tiny_tokenizer, tmp_path), "cpu", "auto")
    assert encoder.model.module.dtype == (torch.bfloat16 if is_fast else torch.float32)


@pytest.mark.parametrize("kind", ["dan_best", "transformer"])
def test_nli_logits_are_those_of_the_head(kind, tiny_tokenizer):
    module = build(kind)
    encoder = Encoder(module, tiny_tokenizer)
    first, second = (torch.from_numpy(references(module, tiny_tokenizer, texts)) for texts in (TEXTS, TEXTS[::-1]))
    expected = module.nli_head(first, second).detach().numpy()
    np.testing.assert_allclose(encoder.nli_logits(TEXTS, TEXTS[::-1]), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="7 premises and 1 hypotheses"):
        encoder.nli_logits(TEXTS, ["hello"])


def test_long_text_is_truncated_to_the_tokenizers_maximum_length(encoder):
    np.testing.assert_array_equal(encoder.encode(["cat " * 500]), encoder.encode(["cat " * 64]))


@pytest.mark.parametrize("limit", [UNLIMITED, VERY_LARGE_INTEGER])
def test_text_is_not_truncated_if_the_tokenizer_has_no_maximum_length(limit, module, encoder, tiny_tokenizer):
    unlimited = copy.deepcopy(tiny_tokenizer)
    unlimited.model_max_length = limit
    text = "cat " * 9000 + "dog " * 9000
    expected = references(module, unlimited, [text])
    np.testing.assert_allclose(Encoder(module, unlimited).encode([text]), expected, atol=1e-3)
    assert np.abs(expected - encoder.encode([text])).max() > 1e-2


def test_the_base_has_a_maximum_length_that_other_libraries_can_pad_to():
    """`tokenizer(texts, truncation=True, max_length=model.max_seq_length)` raises OverflowError above 32 bits."""
    tokenizer = AutoTokenizer.from_pretrained(BASE)
    assert tokenizer.model_max_length == UNLIMITED
    assert len(tokenizer(["hello"], truncation=True, max_length=tokenizer.model_max_length)["input_ids"][0]) == 1


def test_what_cannot_be_encoded_is_refused(encoder):
    with pytest.raises(ValueError, match="side is 'both'"):
        encoder.encode(TEXTS, side="both")
    with pytest.raises(ValueError, match="batch_size is 0"):
        encoder.encode(TEXTS, batch_size=0)
    with pytest.raises(TypeError, match=r"encode\(\[text\]\)"):
        encoder.encode("hello")


def test_bare_encoder_encodes_inputs_but_has_no_heads(module, encoder, tiny_tokenizer, tmp_path):
    bare = Encoder.from_pretrained(save(module.encoder, tiny_tokenizer, tmp_path))
    np.testing.assert_allclose(bare.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)
    with pytest.raises(ValueError, match="bare encoder, without the response head"):
        bare.encode(TEXTS, side="response")
    with pytest.raises(ValueError, match="bare encoder, without the NLI head"):
        bare.nli_logits(TEXTS, TEXTS)
    with pytest.raises(ValueError, match="bare encoder, without the input network or lexical channel that side='query"):
        Encoder(build("dan_input_network").encoder, tiny_tokenizer).encode(TEXTS, side="query")


@pytest.mark.parametrize("missing", [1, 9])
def test_tokenizer_with_a_larger_vocabulary_is_refused(tiny_tokenizer, missing):
    model = build("dan")
    model.resize_token_embeddings(len(tiny_tokenizer))
    Encoder(model, tiny_tokenizer)
    model.resize_token_embeddings(len(tiny_tokenizer) - missing)
    with pytest.raises(ValueError, match="use the tokenizer that the model was trained with"):
        Encoder(model, tiny_tokenizer)


# -- code, precision and texts that are not as expected ---------------------------------------------------------------


@pytest.fixture
def own_code(tiny_tokenizer, tmp_path, monkeypatch):
    """A folder whose encoder is defined by code of its own, which leaves a file when it runs."""
    path, ran = tmp_path / "own_code", tmp_path / "ran"
    save(build("dan_best"), tiny_tokenizer, path)
    code = (path / "modeling_dan.py").read_text().replace('"convsim_dan"', '"convsim_elsewhere"')
    (path / "modeling_dan.py").write_text(f"open({str(ran)!r}, 'w').close()\n{code}")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"model_type": "convsim_elsewhere"}))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    # Without the code of other tests.
    monkeypatch.setattr(sys, "path", [path for path in sys.path if not Path(path, "transformers_modules").exists()])
    forget_code()
    yield path, ran
    forget_code()


def forget_code() -> None:
    for name in [name for name in sys.modules if name.startswith("transformers_modules")]:
        del sys.modules[name]
    importlib.invalidate_caches()


def test_piped_text_does_not_permit_code_to_run(own_code, tmp_path, monkeypatch, capsys):
    path, ran = own_code
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"y\ny\ny\n")))
    assert main([str(path), "-", "-o", str(tmp_path / "out.npy")]) == 2
    [error] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert "import the file that registers this encoder" in error and "pass trust_remote_code=True" in error
    assert sys.stdin.readline() == "y\n" and not ran.exists()


def test_trusted_code_encodes_all_sides(own_code, encoder):
    path, ran = own_code
    trusted = Encoder.from_pretrained(path, "cpu", trust_remote_code=True)
    assert ran.exists()
    for side in ("input", "response"):
        np.testing.assert_allclose(trusted.encode(TEXTS, side), encoder.encode(TEXTS, side), atol=1e-6)
    np.testing.assert_allclose(trusted.nli_logits(TEXTS, TEXTS), encoder.nli_logits(TEXTS, TEXTS), rtol=1e-5)


def test_index_of_a_model_with_code_of_its_own_needs_trust(own_code, tmp_path):
    path, _ = own_code
    index = ReplyIndex.build(Encoder.from_pretrained(path, "cpu", trust_remote_code=True), ["hello", "no"])
    index.save(tmp_path / "index")
    with pytest.raises(ValueError, match="pass trust_remote_code=True"):
        ReplyIndex.load(tmp_path / "index", device="cpu")
    opened = ReplyIndex.load(tmp_path / "index", device="cpu", trust_remote_code=True)
    assert opened.suggest("hello") == index.suggest("hello")


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("kind", ["dan_best", "transformer"])
def test_float32_is_honored_for_a_folder_of_any_precision(kind, stored, tiny_tokenizer, tmp_path):
    model = build(kind).to(stored)
    encoder = Encoder.from_pretrained(save(model, tiny_tokenizer, tmp_path), "cpu")
    np.testing.assert_array_equal(encoder.encode(TEXTS), Encoder(model.float(), tiny_tokenizer).encode(TEXTS))
    with pytest.raises(ValueError, match="dtype is 'float16', expected 'float32', 'bfloat16' or 'auto'"):
        Encoder.from_pretrained(tmp_path, "cpu", "float16")


@pytest.mark.parametrize("kind", ["transformer_residual", "transformer"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_vectors_have_the_norms_of_float32(kind, dtype, tiny_tokenizer):
    model = build(kind)
    learned = np.linalg.norm(Encoder(model, tiny_tokenizer).encode(TEXTS, "response"), axis=1)
    encoder = Encoder(model.to(dtype), tiny_tokenizer)
    np.testing.assert_allclose(np.linalg.norm(encoder.encode(TEXTS), axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(encoder.encode(TEXTS, "response"), axis=1), learned, rtol=0.03)
    assert model.config.normalize_response or (abs(learned - 1) > 0.1).all()
    if model.config.normalize_response:
        for side in ("response", "query"):
            np.testing.assert_allclose(np.linalg.norm(encoder.encode(TEXTS, side), axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"texts\[{}\] is None, a NoneType, expected a string"),
        (3.5, r"texts\[{}\] is 3.5, a float, expected a string"),
        (("two", "texts"), r"texts\[{}\] is \('two', 'texts'\), a tuple, expected a string"),
        ("sad \ud83d face", r"texts\[{}\] has the lone surrogate '\\ud83d' at character 4, .* replace it"),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_text_that_cannot_be_encoded_is_named_by_its_position(text, message, threads, set_threads, encoder):
    set_threads(threads)
    for source in ([*TEXTS * 40, text, *TEXTS], iter([*TEXTS * 40, text, *TEXTS])):
        with pytest.raises(ValueError, match=message.format(280)):
            encoder.encode(source, batch_size=20)


def test_texts_may_come_in_any_iterable(encoder):
    expected = encoder.encode(TEXTS)
    strings = np.array(TEXTS)
    for texts in (strings, strings.astype(object), tuple(TEXTS), iter(TEXTS), dict.fromkeys(TEXTS), tqdm(iter(TEXTS))):
        np.testing.assert_allclose(encoder.encode(texts), expected, rtol=0, atol=1e-6)
    for nothing in ([], iter([]), np.array([], dtype=str)):
        assert encoder.encode(nothing).shape == (0, 8)
    np.testing.assert_allclose(expected[1], expected[6], rtol=0, atol=1e-6)  # a text of spaces is an empty one


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"])
@pytest.mark.parametrize("content", ["", "[]", "half"])
def test_damaged_model_folder_gives_one_message(name, content, folder, tiny_tokenizer, tmp_path):
    save(build("dan_best"), tiny_tokenizer, tmp_path)
    raw = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(raw[: len(raw) // 2] if content == "half" else content.encode())
    with pytest.raises(ValueError, match="cannot open the model") as caught:
        Encoder.from_pretrained(tmp_path, "cpu").encode(TEXTS)
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


def test_an_unknown_activation_is_refused(tiny_tokenizer, tmp_path):
    values = json.loads((save(build("dan"), tiny_tokenizer, tmp_path) / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(values | {"activation": "gelu"}))
    with pytest.raises(ValueError, match="activation is 'gelu', expected 'tanh' or 'relu'"):
        Encoder.from_pretrained(tmp_path)


def test_tokenizer_that_fails_on_a_text_gives_a_value_error(tiny_tokenizer, tmp_path):
    save(build("dan_best"), tiny_tokenizer, tmp_path)
    values = json.loads((tmp_path / "tokenizer.json").read_text())
    values["model"]["unk_token"] = "[GONE]"
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match=r"cannot open the model|the tokenizer cannot encode the texts \("):
        Encoder.from_pretrained(tmp_path, "cpu").encode(["zzz unheard"])
