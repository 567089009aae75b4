"""Files that the trainer reads: a value, or a refusal in one line that names the file."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from data_scripts.errors import InputError
from tests.fuzzing.invariants import accepts
from tests.fuzzing.strategies import damaged, json_values, records, texts
from trainer.command_line import parse_arguments
from trainer.data.cached_arrays import read_array, write_array
from trainer.data.word_vectors import read_word_vectors
from trainer.evaluation.results import flatten, format_table, merge_results, read_results
from trainer.evaluation.run_files import read_run_results, read_settings
from trainer.publish.scores import read_scores, score_row
from trainer.publish.sources import find_hub_sources
from trainer.report.plan import read_plan
from trainer.sweep.comparison import read_metrics

QUICKSTART = yaml.safe_load(Path("trainer/presets/quickstart.yaml").read_text(encoding="utf-8"))
YAML = [
    *(
        "a: 2020-99-99",
        "a: 0b_",
        "a: !!int x",
        "a: !!float ''",
        "? [1]\n: 2",
        "a: &a [*a]",
        "a: 2020-01-01",
        "a: .nan",
        "<<: 3",
        "a: !!binary x",
    ),
    *(
        "[" * 1_200,
        "a: \ud800",
        "a: \x00",
        "a: !!python/object:os.system x",
        "a:\n\tb",
        "- a",
        "3",
        "",
        "tasks: 3",
        "extends: [1]",
        "extends: ../x",
    ),
    *(
        "a: 1_0:99:99",
        "a: " + "9" * 5_000,
        "a: !!timestamp 3",
        "a: !!set {b}",
        "tasks: {snli: 2020-01-01}",
        "tasks: {[1]: 2}",
        "extensions: 3",
    ),
    *(
        "extensions: x.py",
        "pairs: {a: 1}",
        "max_steps: [1, 2]",
        "learning_rate: .inf",
        "seed: -1",
        "tasks: {1: 1}",
        "model_config: {2020-01-01: 1}",
    ),
]


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


@pytest.mark.parametrize("content", YAML, ids=lambda content: content[:20].encode("unicode_escape").decode())
def test_strange_yaml(tmp_path: Path, content: str) -> None:
    path = write(tmp_path / "preset.yaml", content)
    accepts(lambda: parse_arguments([str(path)]), path)
    accepts(lambda: read_plan(path), path)
    if accepts(lambda: read_settings(path), path):
        find_hub_sources(read_settings(path))


@given(changes=st.dictionaries(st.sampled_from(sorted(QUICKSTART)), json_values(), max_size=2))
def test_presets_with_values_of_any_type(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = write(tmp_path / "preset.yaml", json.dumps({**QUICKSTART, **changes}))
    accepts(lambda: parse_arguments([str(path)]), path)
    if accepts(lambda: read_settings(path), path):
        find_hub_sources(read_settings(path))


@given(
    runs=st.dictionaries(
        texts(), records(train=st.just("quickstart"), options=json_values(), needs=json_values()), max_size=2
    )
)
def test_plans(tmp_path: Path, runs: dict[str, Any]) -> None:
    path = write(tmp_path / "plan.yaml", json.dumps({"folder": "runs", "runs": runs}))
    accepts(lambda: read_plan(path), path)


PARTS = st.sampled_from(["stsb", "snli", "response_prediction", "run", "sts", "cqa", "leakage", "export", "seeds", "x"])
NUMBERS = st.dictionaries(
    st.sampled_from(["p_at_1", "split", "dev", "test", "all", "pearson", "accuracy"]), json_values()
)


@given(
    results=st.dictionaries(PARTS, NUMBERS | st.dictionaries(texts(), NUMBERS) | json_values(), max_size=3)
    | json_values()
)
def test_results(tmp_path: Path, results: Any) -> None:
    path = write(tmp_path / "results.json", json.dumps(results))
    accepts(lambda: read_results(path), path)
    if not accepts(lambda: read_run_results(path), path):
        return
    read = read_run_results(path)
    assert flatten(merge_results(read, read)) == flatten(read) or "nan" in json.dumps(results).lower()
    format_table(read)
    read_metrics(read)
    for score in read_scores(read, {}):
        score_row(score)


@given(data=st.data(), shape=st.lists(st.integers(0, 4), max_size=3))
def test_cached_arrays_are_whole_or_missing(tmp_path: Path, data: st.DataObject, shape: list[int]) -> None:
    array, path = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape), tmp_path / "0.npz"
    write_array(path, array)
    content = path.read_bytes()
    path.write_bytes(data.draw(damaged(content)))
    read = read_array(path)
    assert read is None or np.array_equal(read, array)
    header = data.draw(
        st.sampled_from(["(9999999999999,)", "(-1,)", "(2**70,)", "3", "(1,", "(9999999999, 9999999999)", "[1]"])
    )
    with zipfile.ZipFile(path, "w") as archive:
        described = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {header}, }}".encode().ljust(117) + b"\n"
        archive.writestr("0.npy", b"\x93NUMPY\x01\x00" + len(described).to_bytes(2, "little") + described)
    assert read_array(path) is None


VECTOR = st.lists(st.sampled_from(["1", "0.5", "-2e-3", "nan", "1e999", "x", ""]), min_size=1, max_size=4).map(" ".join)


@given(
    data=st.data(), header=st.sampled_from(["", "2 2\n", "9999999999999 2\n", "2 99999999999999\n", "-1 2\n", "0 0\n"])
)
def test_word_vectors(
    tmp_path: Path, tiny_tokenizer: PreTrainedTokenizerFast, data: st.DataObject, header: str
) -> None:
    words = st.sampled_from(["cat", "Cat", "dog", "the", "[PAD]", ". .", "\u2028"]) | texts()
    lines = data.draw(st.lists(st.builds("{} {}".format, words, VECTOR), max_size=4))
    text = write(tmp_path / "vectors.txt", header + "\n".join(lines))
    binary = tmp_path / "vectors.bin"
    content = b"2 2\ncat " + np.float32([1, 2]).tobytes() + b"\ndog " + np.float32([3, 4]).tobytes() + b"\n"
    binary.write_bytes(data.draw(damaged(content)) if not header else header.encode() + content[4:])
    for path in (text, binary):
        if accepts(lambda path=path: read_word_vectors(path, tiny_tokenizer, 60), path):
            vectors = read_word_vectors(path, tiny_tokenizer, 60)
            assert vectors.shape[0] == 60 and np.isfinite(vectors).all()
            assert np.isclose(np.linalg.norm(vectors[vectors.any(1)], axis=1).mean(), 1, atol=1e-3)


@given(key=st.sampled_from(sorted(QUICKSTART)), value=json_values())
def test_a_preset_that_is_read_can_be_written_and_read_again(tmp_path: Path, key: str, value: Any) -> None:
    path = write(tmp_path / "preset.yaml", json.dumps({**QUICKSTART, key: value}))
    try:
        arguments = parse_arguments([str(path)])
    except InputError:
        return
    path.write_text(yaml.safe_dump(vars(arguments), allow_unicode=True), encoding="utf-8")
    assert parse_arguments([str(path)]) == arguments or "nan" in path.read_text(encoding="utf-8").lower()
