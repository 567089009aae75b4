"""What must not happen in silence: other code, precision, threads, kernels and texts than the user asked for."""

import importlib
import io
import itertools
import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet
from safetensors.torch import load_file, save_file
from tqdm import tqdm

from modeling_convsim.encoding import Encoder, hardware
from modeling_convsim.encoding.__main__ import main
from modeling_convsim.encoding.parallel import single_threaded_pool, split_windows
from modeling_convsim.encoding.text_errors import TextError
from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.search import Int8Vectors, quantize
from tests.modeling_convsim.tiny_models import KINDS, build

TEXTS = ["How old are you?", "", "hello", "the small cat likes the big house , and the dog", "Yes, please!", "  "]


def save(model, tokenizer, path: Path) -> Path:
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def folder(tiny_tokenizer, tmp_path_factory):
    return save(build("dan_best"), tiny_tokenizer, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def encoder(folder):
    return Encoder.from_pretrained(folder, "cpu")


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


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
        np.testing.assert_array_equal(trusted.encode(TEXTS, side), encoder.encode(TEXTS, side))
    np.testing.assert_array_equal(trusted.nli_logits(TEXTS, TEXTS), encoder.nli_logits(TEXTS, TEXTS))


def test_index_of_a_model_with_code_of_its_own_needs_trust(own_code, tmp_path):
    path, _ = own_code
    index = ReplyIndex.build(Encoder.from_pretrained(path, "cpu", trust_remote_code=True), ["hello", "no"])
    index.save(tmp_path / "index")
    with pytest.raises(ValueError, match="pass trust_remote_code=True"):
        ReplyIndex.load(tmp_path / "index", device="cpu")
    opened = ReplyIndex.load(tmp_path / "index", device="cpu", trust_remote_code=True)
    assert opened.suggest("hello") == index.suggest("hello")


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16, torch.float64])
def test_float32_is_honored_for_a_folder_of_any_precision(stored, tiny_tokenizer, tmp_path):
    model = build("dan_best").to(stored)
    save(model, tiny_tokenizer, tmp_path)
    encoder = Encoder.from_pretrained(tmp_path, "cpu")
    assert {parameter.dtype for parameter in encoder.model.parameters()} == {torch.float32}
    np.testing.assert_array_equal(encoder.encode(TEXTS), Encoder(model.float(), tiny_tokenizer).encode(TEXTS))
    assert Encoder.from_pretrained(tmp_path, "cpu", "bfloat16").model.dtype == torch.bfloat16


def test_unknown_dtype_is_refused(folder):
    with pytest.raises(ValueError, match="dtype is 'float16', expected 'float32', 'bfloat16' or 'auto'"):
        Encoder.from_pretrained(folder, "cpu", "float16")


def threads_of_a_new_thread() -> int:
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(torch.get_num_threads).result()


def test_encoding_keeps_the_number_of_threads_of_the_process(encoder, two_threads, monkeypatch):
    seen = []
    encode_window = Encoder._encode_window

    def observe(*arguments: Any, **options: Any) -> np.ndarray:
        seen.append(torch.get_num_threads())
        return encode_window(*arguments, **options)

    monkeypatch.setattr(Encoder, "_encode_window", observe)
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    parts = encoder.stream(TEXTS * 800)
    next(parts)
    assert threads_of_a_new_thread() == torch.get_num_threads() == 2  # also while it runs
    list(parts)
    assert threads_of_a_new_thread() == torch.get_num_threads() == 2 and set(seen) == {1}
    assert "TOKENIZERS_PARALLELISM" not in os.environ


def test_a_thread_that_cannot_be_started_is_an_error(monkeypatch):
    """And those that have started do not wait for it forever."""
    start, started = threading.Thread.start, []

    def start_all_but_the_second(thread: threading.Thread) -> None:
        if thread.name.endswith("_1"):
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_all_but_the_second)
    with pytest.raises(RuntimeError, match="can't start new thread"), single_threaded_pool(3):
        pass
    assert not any(thread.is_alive() for thread in started)


def test_int8_search_keeps_the_number_of_threads_of_the_process(two_threads):
    vectors = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    Int8Vectors(quantize(vectors)).search(vectors, vectors[:3], 2)
    assert threads_of_a_new_thread() == torch.get_num_threads() == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_amd", [True, False])
def test_constructor_and_from_pretrained_choose_the_same_kernels(kind, is_amd, tiny_tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(hardware, "is_amd_processor", lambda: is_amd)
    opened = Encoder.from_pretrained(save(build(kind), tiny_tokenizer, tmp_path), "cpu")
    built = Encoder(build(kind), tiny_tokenizer)
    classes = [[type(module) for module in encoder.model.modules()] for encoder in (opened, built)]
    assert classes[0] == classes[1] and (hardware.OneDnnLinear in classes[0]) == is_amd
    for side in ("input", "response"):
        np.testing.assert_array_equal(opened.encode(TEXTS, side), built.encode(TEXTS, side))


def test_kernels_of_the_encoder_do_not_change_training(tiny_tokenizer, monkeypatch):
    """GradCache computes without gradients, but not in inference mode; autocast chooses its own kernels."""
    monkeypatch.setattr(hardware, "is_amd_processor", lambda: True)
    calls = []
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", lambda *args: calls.append(args), raising=False)
    model = build("dan_best")
    Encoder(model, tiny_tokenizer)
    with torch.no_grad():
        model.response_head(torch.ones(20, 8))
    with torch.inference_mode(), torch.autocast("cpu"):
        model.response_head(torch.ones(20, 8))
    assert not calls


def test_other_kinds_of_linear_layers_keep_their_class(monkeypatch):
    class Quantized(torch.nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return input

    monkeypatch.setattr(hardware, "is_amd_processor", lambda: True)
    layers = torch.nn.Sequential(torch.nn.Linear(2, 2), Quantized(2, 2))
    hardware.use_onednn(layers)
    assert [type(layer) for layer in layers] == [hardware.OneDnnLinear, Quantized]


@pytest.mark.parametrize("kind", ["dan_input_network", "transformer", "dan"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_vectors_have_the_norms_of_float32(kind, dtype, tiny_tokenizer):
    model = build(kind).to(dtype)
    encoder = Encoder(model, tiny_tokenizer)
    np.testing.assert_allclose(np.linalg.norm(encoder.encode(TEXTS), axis=1), 1, atol=1e-6)
    if model.config.normalize_response:
        for side in ("response", "query"):
            np.testing.assert_allclose(np.linalg.norm(encoder.encode(TEXTS, side), axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("count", "size", "workers", "lengths"),
    [
        (0, 100, 4, []),
        (10, 100, 4, [10]),
        (200, 100, 4, [64, 64, 64, 8]),
        (300, 100, 4, [75, 75, 75, 75]),
        (399, 100, 4, [100, 100, 100, 99]),
        (450, 100, 4, [100, 100, 100, 100, 50]),
        (10, 4, 2, [4, 4, 2]),
    ],
)
def test_few_texts_are_divided_among_all_workers(count, size, workers, lengths):
    texts = [str(number) for number in range(count)]
    for source in (texts, iter(texts)):
        windows = list(split_windows(source, size, workers))
        assert [len(window) for window in windows] == lengths and [*chain(*windows)] == texts


def test_processes_get_equal_shares_of_few_texts(encoder, monkeypatch):
    shares = []

    def in_this_process(make_encoder, model, windows, options, processes):
        for window in windows:
            shares.append(len(window))
            yield np.concatenate(list(make_encoder(model).stream(window, *options)))

    monkeypatch.setattr("modeling_convsim.encoding.encoder.encode_in_processes", in_this_process)
    vectors = encoder.encode(TEXTS * 100, processes=3)
    assert shares == [200, 200, 200]
    np.testing.assert_allclose(vectors, encoder.encode(TEXTS * 100), atol=1e-6)
    with pytest.raises(TextError, match=r"^texts\[450\] is None"):  # counted from the first text, not from the share's
        encoder.encode([*TEXTS * 75, None, *TEXTS * 25], processes=3)


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
def test_text_that_cannot_be_encoded_is_named_by_its_position(text, message, threads, encoder):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for source in ([*TEXTS * 40, text, *TEXTS], iter([*TEXTS * 40, text, *TEXTS])):
            with pytest.raises(ValueError, match=message.format(240)):
                encoder.encode(source, batch_size=20)
    finally:
        torch.set_num_threads(before)


def test_the_next_window_is_started_before_a_gpu_is_waited_for(encoder):
    windows = [TEXTS * 7, TEXTS[:3], [], TEXTS * 2]
    read = []
    parts = encoder._encode_ahead((read.append(window) or window for window in windows), "input", batch_size=4)
    first = next(parts)
    assert read == windows[:2]
    vectors = np.concatenate([first, *parts])
    np.testing.assert_allclose(vectors, encoder.encode(list(itertools.chain(*windows))), rtol=0, atol=1e-6)
    parts = encoder._encode_ahead(iter([TEXTS, TEXTS, [*TEXTS, None]]), "input", batch_size=4)
    assert [len(next(parts)), len(next(parts))] == [len(TEXTS), len(TEXTS)]
    with pytest.raises(TextError) as raised:
        next(parts)
    assert raised.value.position == len(TEXTS)


def test_text_error_survives_the_way_back_from_a_process():
    import pickle

    error = pickle.loads(pickle.dumps(TextError(3, "is wrong")))
    assert (error.position, error.reason, str(error)) == (3, "is wrong", "texts[3] is wrong")


def test_texts_may_come_in_any_iterable(encoder):
    expected = encoder.encode(TEXTS)
    strings = np.array(TEXTS)
    for texts in (strings, strings.astype(object), tuple(TEXTS), iter(TEXTS), dict.fromkeys(TEXTS), tqdm(iter(TEXTS))):
        np.testing.assert_array_equal(encoder.encode(texts), expected)
    for nothing in ([], iter([]), np.array([], dtype=str)):
        assert encoder.encode(nothing).shape == (0, 8)
    np.testing.assert_array_equal(expected[1], expected[5])  # a text of spaces is an empty one


@pytest.mark.parametrize("claimed", [5, 9])
def test_iterable_whose_length_is_wrong_is_refused(claimed, encoder):
    class Texts(list):
        def __len__(self) -> int:
            return claimed

    with pytest.raises(ValueError, match=rf"len\(texts\) is {claimed}, but it yields 6 texts"):
        encoder.encode(Texts(TEXTS))


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_byte_order_mark_is_not_a_part_of_the_first_text(folder, encoder, tmp_path):
    (tmp_path / "texts.txt").write_bytes(b"\xef\xbb\xbfhello\r\n\xef\xbb\xbfhello\n")
    assert run(folder, tmp_path / "texts.txt", "-o", tmp_path / "out.npy") == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), encoder.encode(["hello", "\ufeffhello"]))


def test_output_leaves_other_files_alone(folder, tmp_path):
    (tmp_path / "texts.txt").write_text("hello\n")
    (tmp_path / ".out.npy.partial").write_text("a file of the user's")
    assert run(folder, tmp_path / "texts.txt", "-o", tmp_path / "out.npy") == 0
    assert (tmp_path / ".out.npy.partial").read_text() == "a file of the user's"


def damage(kind: str, path: Path) -> None:
    if kind == "no rows":
        parquet.write_table(pyarrow.table({"text": pyarrow.array([], pyarrow.string())}), path)
        return
    values = {"null": ["hello", None], "bytes": [b"hello"], "not UTF-8": ["hello"] * 2}.get(kind, TEXTS * 1000)
    parquet.write_table(pyarrow.table({"text": values}), path, compression="none", use_dictionary=False)
    content = path.read_bytes()
    if kind == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif kind == "garbage":
        path.write_bytes(b"{ not what it should be")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "page":
        path.write_bytes(content[:4] + b"\xff" * 40 + content[44:])
    elif kind == "not UTF-8":
        path.write_bytes(content.replace(b"hello", b"h\xffllo"))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("truncated", " cannot be read as a Parquet file ("),
        ("garbage", " cannot be read as a Parquet file ("),
        ("empty", " cannot be read as a Parquet file ("),
        ("page", ": row group 1, column text: a header cannot be read; download the file again"),
        ("not UTF-8", " cannot be read as a Parquet file ("),
        ("null", ", row 2: column 'text' holds None, which is not text: choose another column, or remove the row"),
        ("bytes", ", row 1: column 'text' holds b'hello', which is not text"),
        ("no rows", " contains no text, expected at least one"),
    ],
)
@pytest.mark.parametrize("command", ["encoding", "suggestion"])
def test_damaged_parquet_file_gives_one_line_and_exit_code_2(command, kind, message, folder, tmp_path, capsys):
    from modeling_convsim.suggestion.__main__ import main as suggestion

    source = tmp_path / "texts.parquet"
    damage(kind, source)
    capsys.readouterr()
    if command == "encoding":
        assert run(folder, source, "-o", tmp_path / "out.npy") == 2
    else:
        assert suggestion(["build", str(folder), str(source), "--column", "text", "-o", str(tmp_path / "out")]) == 2
    [error] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert error.startswith(f"error: {source}{message}")
    assert [path.name for path in tmp_path.iterdir()] == ["texts.parquet"]


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"])
@pytest.mark.parametrize("content", ["", "[]", "null", "3", "[" * 5000, "half", "\x00", "nan"])
def test_damaged_model_folder_gives_one_message(name, content, folder, tiny_tokenizer, tmp_path):
    save(build("dan_best"), tiny_tokenizer, tmp_path)
    raw = (tmp_path / name).read_bytes()
    if content == "nan":
        weights = load_file(tmp_path / "model.safetensors")
        weights["encoder.embed_tokens.weight"][3, 2] = float("nan")
        save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    else:
        (tmp_path / name).write_bytes(raw[: len(raw) // 2] if content == "half" else content.encode())
    with pytest.raises(ValueError, match="cannot open the model") as caught:
        Encoder.from_pretrained(tmp_path, "cpu").encode(TEXTS)
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


def test_tokenizer_that_fails_on_a_text_gives_a_value_error(tiny_tokenizer, tmp_path):
    save(build("dan_best"), tiny_tokenizer, tmp_path)
    values = json.loads((tmp_path / "tokenizer.json").read_text())
    values["model"]["unk_token"] = "[GONE]"
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match=r"cannot open the model|the tokenizer cannot encode the texts \("):
        Encoder.from_pretrained(tmp_path, "cpu").encode(["zzz unheard"])
