import copy
import os
import re
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet
from safetensors.torch import load_file, save_file
from tokenizers.processors import TemplateProcessing
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from modeling_convsim.encoding import Encoder, hardware
from modeling_convsim.encoding import encoder as encoder_module
from modeling_convsim.encoding.__main__ import main
from tests.forking import run_python
from tests.modeling_convsim.tiny_models import KINDS, build, pack

TEXTS = ["How old are you?", "", "hello", "the small cat likes the big house , and the dog", "Yes, please!", "zebra"]


@pytest.fixture(scope="module")
def folder(tiny_tokenizer, tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    build("dan_best").save_pretrained(path)
    tiny_tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def encoder(folder):
    return Encoder.from_pretrained(folder, device="cpu")


def reference(encoder: Encoder, text: str) -> torch.Tensor:
    ids = encoder.tokenizer([text], return_tensors="pt")["input_ids"]
    with torch.no_grad():
        return encoder.model.encoder(ids, torch.ones_like(ids)).pooler_output


def test_vectors_are_in_the_order_of_the_texts_for_any_batch_size(encoder):
    expected = torch.cat([reference(encoder, text) for text in TEXTS * 50]).numpy()
    for batch_size in (1, 4, 1000):
        vectors = encoder.encode(iter(TEXTS * 50), batch_size=batch_size)
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_special_tokens_in_a_text_are_encoded_as_the_tokenizer_says(encoder):
    """In a message, `[PAD]` is text."""
    expected = reference(encoder, "[PAD] the [UNK] cat").numpy()
    np.testing.assert_allclose(encoder.encode(["[PAD] the [UNK] cat"]), expected, atol=1e-6)


@pytest.fixture
def threads():
    """Sets the number of threads that torch may use, for one test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 3])
def test_threads_share_the_texts_and_keep_their_order(kind, count, threads, tiny_tokenizer, monkeypatch):
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    encoder = Encoder(build(kind), tiny_tokenizer)
    expected = torch.cat([reference(encoder, text) for text in TEXTS]).numpy()
    threads(count)
    vectors = encoder.encode(TEXTS * 60, batch_size=7)
    np.testing.assert_allclose(vectors, np.tile(expected, (60, 1)), atol=1e-6)
    assert "TOKENIZERS_PARALLELISM" not in os.environ


def test_stream_yields_vectors_before_it_has_read_all_texts(encoder, threads):
    threads(2)
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


def test_two_processes_give_the_vectors_of_one(tiny_tokenizer):
    encoder = Encoder(build("transformer"), tiny_tokenizer)
    vectors = encoder.encode(TEXTS * 20, side="response", batch_size=2, processes=2)
    np.testing.assert_allclose(vectors, encoder.encode(TEXTS * 20, side="response"), rtol=1e-5, atol=1e-5)


def test_convert_to_tensor_returns_a_tensor(encoder):
    vectors = encoder.encode(TEXTS, convert_to_tensor=True)
    assert isinstance(vectors, torch.Tensor) and vectors.dtype == torch.float32
    np.testing.assert_array_equal(vectors.numpy(), encoder.encode(TEXTS))


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_vectors_are_close_to_float32(kind, tiny_tokenizer, tmp_path):
    build(kind).save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    exact = Encoder.from_pretrained(tmp_path, "cpu").encode(TEXTS)
    encoder = Encoder.from_pretrained(tmp_path, "cpu", "bfloat16")
    rounded = encoder.encode(TEXTS)
    assert encoder.model.dtype == torch.bfloat16 and rounded.dtype == np.float32
    known = np.linalg.norm(exact, axis=1) > 0  # a text without a known word has a CBOW vector of zeros
    cosines = (exact * rounded).sum(1)[known] / np.linalg.norm(rounded[known], axis=1)
    assert known.sum() >= 4 and cosines.min() > 0.999 and (rounded[~known] == 0).all()


@pytest.mark.parametrize("is_fast", [True, False])
def test_automatic_dtype_is_bfloat16_if_the_device_has_instructions_for_it(is_fast, folder, monkeypatch):
    monkeypatch.setattr(encoder_module, "has_fast_bfloat16", lambda device: (is_fast, "for this test"))
    encoder = Encoder.from_pretrained(folder, "cpu", "auto")
    assert encoder.model.dtype == (torch.bfloat16 if is_fast else torch.float32)


@pytest.mark.parametrize(
    ("avx512", "amx", "allowed", "is_fast"),
    [(True, False, True, True), (False, True, True, True), (False, False, True, False), (True, True, False, False)],
)
def test_bfloat16_is_fast_if_the_processor_has_instructions_that_onednn_may_use(
    avx512, amx, allowed, is_fast, monkeypatch
):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: allowed)
    result, reason = hardware.has_fast_bfloat16(torch.device("cpu"))
    assert result == is_fast and ("no bfloat16" in reason) != is_fast


@pytest.mark.parametrize(
    ("has_vnni", "has_onednn", "highest", "expected"),
    [
        (True, True, 2**31 - 1, True),
        (False, True, 2**31 - 1, False),
        (True, False, 2**31 - 1, False),
        (True, True, 2**15 - 1, False),  # instructions that add in 16 bits
    ],
)
def test_torch_multiplies_int8_if_it_has_exact_instructions_for_it(
    has_vnni, has_onednn, highest, expected, monkeypatch
):
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: has_vnni)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: has_onednn)
    monkeypatch.setattr(torch, "_int_mm", lambda left, right: (left.double() @ right.double()).clamp(max=highest).int())
    assert hardware.has_int8_products.__wrapped__() == expected


def test_hardware_choices_do_not_depend_on_timings(folder, monkeypatch):
    def refuse() -> float:
        raise AssertionError("this choice depends on a timing")

    hardware.is_amd_processor.cache_clear()
    hardware.has_int8_products.cache_clear()
    for clock in ("perf_counter", "monotonic", "time", "process_time"):
        monkeypatch.setattr(time, clock, refuse)
    hardware.has_fast_bfloat16(torch.device("cpu"))
    hardware.has_int8_products()
    hardware.use_onednn(build("dan"))


@pytest.mark.parametrize("kind", ["dan_best", "transformer"])
def test_onednn_computes_equal_outputs_and_torch_the_gradients(kind, monkeypatch):
    monkeypatch.setattr(hardware, "is_amd_processor", lambda: True)
    plain, faster = build(kind), build(kind)
    hardware.use_onednn(faster)
    assert sum(isinstance(module, hardware.OneDnnLinear) for module in faster.modules()) > 5
    batch = pack([[5, 6, 7], [], [8, 9]] * 6)
    with torch.inference_mode():
        for ours, expected in zip(
            faster(**batch, response_input_ids=batch["input_ids"], response_cu_seqlens=batch["cu_seqlens"]).values(),
            plain(**batch, response_input_ids=batch["input_ids"], response_cu_seqlens=batch["cu_seqlens"]).values(),
            strict=True,
        ):
            torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)
    for model in (plain, faster):
        model(**batch).pooler_output.sum().backward()
    for ours, expected in zip(faster.encoder.parameters(), plain.encoder.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, expected.grad)


@pytest.mark.parametrize(("rows", "calls"), [((16,), 0), ((17,), 1), ((2, 8), 0), ((2, 9), 1)])
def test_few_rows_are_multiplied_by_torch(rows, calls, monkeypatch):
    made = []
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", lambda *args: made.append(args), raising=False)
    with torch.inference_mode():
        hardware.OneDnnLinear(4, 3)(torch.ones(*rows, 4))
    assert len(made) == calls


def test_linear_layers_are_computed_by_torch_on_other_processors(monkeypatch):
    monkeypatch.setattr(hardware, "is_amd_processor", lambda: False)
    model = build("dan")
    hardware.use_onednn(model)
    assert not any(isinstance(module, hardware.OneDnnLinear) for module in model.modules())


def test_response_side_is_the_response_head_of_the_embedding(encoder):
    expected = torch.cat([encoder.model.response_head(reference(encoder, text)) for text in TEXTS]).detach().numpy()
    np.testing.assert_allclose(encoder.encode(TEXTS, side="response"), expected, rtol=1e-5, atol=1e-5)


def test_query_side_is_the_input_side_of_a_model_without_input_network(encoder):
    np.testing.assert_array_equal(encoder.encode(TEXTS, side="query"), encoder.encode(TEXTS))


def test_query_side_is_the_input_network_of_the_embedding(tiny_tokenizer):
    encoder = Encoder(build("dan_input_network"), tiny_tokenizer)
    embeddings = torch.cat([reference(encoder, text) for text in TEXTS])
    np.testing.assert_allclose(encoder.encode(TEXTS), embeddings.numpy(), atol=1e-6)
    expected = encoder.model.input_head(embeddings).detach().numpy()
    np.testing.assert_allclose(encoder.encode(TEXTS, side="query"), expected, atol=1e-6)
    bare = Encoder(encoder.model.encoder, tiny_tokenizer)
    with pytest.raises(
        ValueError, match="bare encoder, without the input network or lexical channel that side='query' needs"
    ):
        bare.encode(TEXTS, side="query")


def test_nli_logits_are_those_of_the_head(encoder):
    first, second = (torch.cat([reference(encoder, text) for text in texts]) for texts in (TEXTS, TEXTS[::-1]))
    expected = encoder.model.nli_head(first, second).detach().numpy()
    np.testing.assert_allclose(encoder.nli_logits(TEXTS, TEXTS[::-1]), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="6 premises and 1 hypotheses"):
        encoder.nli_logits(TEXTS, ["hello"])


def test_no_texts_give_no_vectors(encoder):
    assert encoder.encode([]).shape == (0, 8)


def test_long_text_is_truncated_to_the_tokenizers_maximum_length(encoder):
    np.testing.assert_array_equal(encoder.encode(["cat " * 500]), encoder.encode(["cat " * 64]))


def test_text_is_not_truncated_if_the_tokenizer_has_no_maximum_length(encoder, tiny_tokenizer):
    unlimited = copy.deepcopy(tiny_tokenizer)
    unlimited.model_max_length = VERY_LARGE_INTEGER
    vectors = Encoder(encoder.model, unlimited).encode(["cat " * 500 + "dog"])
    assert np.abs(vectors - encoder.encode(["cat " * 500 + "dog"])).max() > 1e-4


def test_long_text_is_truncated_on_the_tokenizers_side(encoder, tiny_tokenizer):
    left = copy.deepcopy(tiny_tokenizer)
    left.truncation_side = "left"
    vectors = Encoder(encoder.model, left).encode(["dog " * 10 + "cat " * 60 + "house"])
    np.testing.assert_array_equal(vectors, encoder.encode(["dog " * 3 + "cat " * 60 + "house"]))


def test_padding_and_truncation_of_a_saved_tokenizer_are_not_applied(encoder, tiny_tokenizer):
    padding, truncating = copy.deepcopy(tiny_tokenizer), copy.deepcopy(tiny_tokenizer)
    padding.backend_tokenizer.enable_padding(length=12)
    truncating.backend_tokenizer.enable_truncation(2)
    truncating.model_max_length = VERY_LARGE_INTEGER
    for tokenizer in (padding, truncating):
        np.testing.assert_array_equal(Encoder(encoder.model, tokenizer).encode(TEXTS), encoder.encode(TEXTS))


def test_special_tokens_are_added_as_by_the_tokenizer(encoder, tiny_tokenizer):
    marked = copy.deepcopy(tiny_tokenizer)
    marked.backend_tokenizer.post_processor = TemplateProcessing(single="[UNK] $A", special_tokens=[("[UNK]", 1)])
    ids = [marked(text)["input_ids"] for text in TEXTS]
    assert all(sentence[0] == 1 for sentence in ids)
    with torch.no_grad():
        expected = encoder.model(**pack(ids)).pooler_output.numpy()
    np.testing.assert_allclose(Encoder(encoder.model, marked).encode(TEXTS), expected, atol=1e-6)


def test_a_model_in_training_is_set_to_evaluation(tiny_tokenizer):
    assert not Encoder(build("dan_best").train(), tiny_tokenizer).model.training


def test_single_string_is_refused(encoder):
    with pytest.raises(TypeError, match=r"encode\(\[text\]\)"):
        encoder.encode("hello")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"side": "both"}, "side is 'both'"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"processes": 0}, "processes is 0"),
    ],
)
def test_option_out_of_range_is_refused(encoder, options, message):
    with pytest.raises(ValueError, match=message):
        encoder.encode(TEXTS, **options)


def test_bare_encoder_encodes_inputs_but_has_no_heads(encoder, tiny_tokenizer, tmp_path):
    encoder.model.encoder.save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    bare = Encoder.from_pretrained(tmp_path)
    np.testing.assert_allclose(bare.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)
    with pytest.raises(ValueError, match="bare encoder, without the response head"):
        bare.encode(TEXTS, side="response")
    with pytest.raises(ValueError, match="bare encoder, without the NLI head"):
        bare.nli_logits(TEXTS, TEXTS)


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_command_writes_an_array_with_a_row_for_every_line(folder, encoder, tmp_path):
    source, output = tmp_path / "texts.txt", tmp_path / "out.npy"
    source.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    (done,) = run_python([["-m", "modeling_convsim.encoding", folder, source, "-o", output]])
    assert done.returncode == 0, done.stdout
    assert "wrote 6 vectors of 8 dimensions" in done.stdout
    np.testing.assert_allclose(np.load(output), encoder.encode(TEXTS), atol=1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.npy", "texts.txt"]


def test_command_reads_and_writes_parquet(folder, encoder, tmp_path):
    source, output = tmp_path / "texts.parquet", tmp_path / "out.parquet"
    parquet.write_table(pyarrow.table({"response": TEXTS}), source)
    assert run(folder, source, "--column", "response", "--side", "response", "-o", output) == 0
    table = parquet.read_table(output)
    assert table.column("text").to_pylist() == TEXTS
    np.testing.assert_array_equal(
        np.stack(table.column("embedding").to_pylist()).astype(np.float32), encoder.encode(TEXTS, side="response")
    )


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_command_writes_many_parts_into_one_file(suffix, folder, encoder, tmp_path):
    texts = [f"{text} {index}" for index in range(300) for text in TEXTS]
    source, output = tmp_path / "texts.txt", tmp_path / f"out{suffix}"
    source.write_bytes("\r\n".join(texts).encode() + b"\r\n")
    assert run(folder, source, "--dtype", "float32", "--device", "cpu", "-o", output) == 0
    if suffix == ".parquet":
        table = parquet.read_table(output)
        assert table.column("text").to_pylist() == texts
        vectors = np.stack(table.column("embedding").to_pylist()).astype(np.float32)
    else:
        vectors = np.load(output)
        assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, encoder.encode(texts), atol=1e-6)


def test_command_prints_the_automatic_dtype_and_the_reason(folder, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("hello\n")
    assert run(folder, tmp_path / "texts.txt", "--dtype", "auto", "-o", tmp_path / "out.npy") == 0
    printed = capsys.readouterr().out
    assert re.search(r"computing in (float32|bfloat16): this processor has (no )?bfloat16 instructions", printed)


def test_error_late_in_a_file_leaves_no_output_file(folder, tmp_path, capsys):
    (tmp_path / "texts.txt").write_bytes(b"hello\n" * 9000 + b"na\xefve\n")
    assert run(folder, tmp_path / "texts.txt", "-o", tmp_path / "out.npy") == 2
    assert "texts.txt, line 9001: not UTF-8" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]


def broken_folder(kind: str, folder: Path, tokenizer, path: Path) -> Path:
    """A saved folder with one error."""
    build("dan_best").save_pretrained(path)
    tokenizer.save_pretrained(path)
    if kind == "vocabulary":
        model = build("dan_best")
        model.resize_token_embeddings(20)
        model.save_pretrained(path)
    elif kind == "weights":
        weights = load_file(path / "model.safetensors")
        del weights["encoder.embed_tokens.weight"]
        save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    elif kind == "type":
        (path / "config.json").write_text('{"model_type": "bert"}')
    elif kind.endswith("!"):
        (path / kind[:-1]).write_text("{ not what it should be")
    else:
        (path / kind).unlink()
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("vocabulary", "ids go up to 56, but the model has embeddings for 20 tokens"),
        ("weights", "its weights lack encoder.embed_tokens.weight"),
        ("type", "its type is 'bert', expected one that starts with convsim_"),
        ("tokenizer.json", "holds no tokenizer.json"),
        ("model.safetensors", "holds no model.safetensors"),
        ("config.json", "holds no config.json"),
        ("tokenizer.json!", "cannot open the model"),
        ("model.safetensors!", "cannot open the model"),
        ("config.json!", "cannot open the model"),
    ],
)
def test_broken_folder_gives_one_message_and_exit_code_2(kind, message, folder, tiny_tokenizer, tmp_path, capsys):
    source = tmp_path / "texts.txt"
    source.write_text("hello\n")
    path = broken_folder(kind, folder, tiny_tokenizer, tmp_path / "model")
    capsys.readouterr()
    assert run(path, source, "-o", tmp_path / "out.npy") == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and message in errors[0] and str(path) in errors[0]
    assert not (tmp_path / "out.npy").exists()


def test_missing_folder_gives_exit_code_2(tmp_path, capsys):
    source = tmp_path / "texts.txt"
    source.write_text("hello\n")
    assert run(tmp_path / "nowhere", source, "-o", tmp_path / "out.npy") == 2
    assert "no such folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("latin.txt", b"hello\nna\xefve\n", "latin.txt, line 2: not UTF-8"),
        ("empty.txt", b"", "empty.txt contains no text"),
        ("missing.txt", None, "missing.txt: file not found"),
    ],
)
def test_wrong_text_file_gives_exit_code_2(name, content, message, folder, tmp_path, capsys):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert run(folder, tmp_path / name, "-o", tmp_path / "out.npy") == 2
    assert message in capsys.readouterr().err


def test_wrong_column_gives_exit_code_2_and_the_names_of_the_columns(folder, tmp_path, capsys):
    source = tmp_path / "texts.parquet"
    parquet.write_table(pyarrow.table({"response": TEXTS, "score": list(range(6))}), source)
    assert run(folder, source, "-o", tmp_path / "out.npy") == 2
    assert "no column 'text', only response, score: choose one with --column" in capsys.readouterr().err
    assert run(folder, source, "--column", "score", "-o", tmp_path / "out.npy") == 2
    assert "row 1: column 'score' holds 0, which is not text: choose another column" in capsys.readouterr().err


def test_parquet_without_pyarrow_names_the_package_to_install(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "texts.parquet").touch()
    assert run(folder, tmp_path / "texts.parquet", "-o", tmp_path / "out.npy") == 2
    assert "pip install pyarrow" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "out.csv"], "--output out.csv: expected a name that ends in .npy or .parquet"),
        (["-o", "no/out.npy"], "--output no/out.npy: there is no folder no"),
        (
            ["-o", "out.npy", "--column", "body"],
            "--column body: texts.txt has no columns; omit --column or use a table",
        ),
        (
            ["-o", "out.npy", "--truncate-dims", "8"],
            "unknown argument '--truncate_dims'; did you mean '--truncate_dim'",
        ),
    ],
)
def test_wrong_option_gives_one_line_and_exit_code_2(options, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        run("model", "texts.txt", *options)
    error = capsys.readouterr().err
    assert error.startswith(f"error: {message}") and error.count("\n") == 1


@pytest.mark.parametrize("missing", [1, 9])
def test_tokenizer_with_a_larger_vocabulary_is_refused(tiny_tokenizer, missing):
    model = build("dan")
    model.resize_token_embeddings(len(tiny_tokenizer))
    Encoder(model, tiny_tokenizer)
    model.resize_token_embeddings(len(tiny_tokenizer) - missing)
    with pytest.raises(ValueError, match="use the tokenizer that the model was trained with"):
        Encoder(model, tiny_tokenizer)
