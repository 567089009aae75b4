"""Presets, results and word vectors with any content: a value, or a refusal in one line that names the file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from modeling_convsim.files.errors import InputError
from tests.fuzzing.strategies import json_values, texts
from trainer.data.word_vectors import read_word_vectors
from trainer.evaluation.results import flatten, merge_results
from trainer.runs import Run
from trainer.settings import parse_settings

QUICKSTART = yaml.safe_load(Path("trainer/presets/quickstart.yaml").read_text(encoding="utf-8"))
# fmt: off
YAML = [
    "a: 2020-99-99", "a: 0b_", "a: !!int x", "? [1]\n: 2", "a: &a [*a]", "a: .nan", "<<: 3", "[" * 1_200, "a: \ud800",
    "a: \x00", "a: !!python/object:os.system x", "a:\n\tb", "- a", "3", "", "tasks: 3", "extends: [1]", "extends: ../x",
    "a: " + "9" * 5_000, "tasks: {snli: 2020-01-01}", "tasks: {[1]: 2}", "extensions: x.py", "pairs: {a: 1}",
    "max_steps: [1, 2]", "learning_rate: .inf", "seed: -1", "model_config: {2020-01-01: 1}",
]
# fmt: on


def accepts(read: Callable[[], object], path: Path) -> bool:
    """Whether `read` accepts a file; if it refuses it, the message must be one line that names the file."""
    try:
        read()
    except InputError as error:
        str(error).encode()
        assert len(str(error).splitlines()) == 1 and path.name in str(error), error
        return False
    return True


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


@pytest.mark.parametrize("content", YAML, ids=lambda content: content[:20].encode("unicode_escape").decode())
def test_strange_yaml(tmp_path: Path, content: str) -> None:
    path = write(tmp_path / "preset.yaml", content)
    accepts(lambda: parse_settings([str(path)]), path)


@given(changes=st.dictionaries(st.sampled_from(sorted(QUICKSTART)), json_values(), max_size=2))
def test_a_preset_with_values_of_any_type_is_refused_or_can_be_written_and_read_again(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    path = write(tmp_path / "preset.yaml", json.dumps({**QUICKSTART, **changes}))
    if accepts(lambda: parse_settings([str(path)]), path):
        arguments = parse_settings([str(path)])
        path.write_text(yaml.safe_dump(vars(arguments), allow_unicode=True), encoding="utf-8")
        assert parse_settings([str(path)]) == arguments or "nan" in path.read_text(encoding="utf-8").lower()


PARTS = st.sampled_from(["stsb", "snli", "response_prediction", "run", "sts", "cqa", "leakage", "export", "seeds", "x"])
NUMBERS = st.dictionaries(
    st.sampled_from(["p_at_1", "split", "dev", "test", "all", "pearson", "accuracy"]), json_values()
)


@given(results=st.dictionaries(PARTS, NUMBERS | json_values(), max_size=3) | json_values())
def test_results(tmp_path: Path, results: Any) -> None:
    path = write(tmp_path / "results.json", json.dumps(results))
    if accepts(lambda: Run(tmp_path).results, path):
        read = Run(tmp_path).results
        assert flatten(merge_results(read, read)) == flatten(read) or "nan" in json.dumps(results).lower()


VECTOR = st.lists(st.sampled_from(["1", "0.5", "-2e-3", "nan", "1e999", "x", ""]), min_size=1, max_size=4).map(" ".join)


@given(data=st.data(), header=st.sampled_from(["", "2 2\n", "9999999999999 2\n", "2 99999999999999\n", "-1 2\n"]))
def test_word_vectors(
    tmp_path: Path, tiny_tokenizer: PreTrainedTokenizerFast, data: st.DataObject, header: str
) -> None:
    words = st.sampled_from(["cat", "Cat", "dog", "the", "[PAD]", ". .", "\u2028"]) | texts()
    lines = data.draw(st.lists(st.builds("{} {}".format, words, VECTOR), max_size=4))
    path = write(tmp_path / "vectors.txt", header + "\n".join(lines))
    if accepts(lambda: read_word_vectors(path, tiny_tokenizer, 60), path):
        vectors = read_word_vectors(path, tiny_tokenizer, 60)
        assert vectors.shape[0] == 60 and np.isfinite(vectors).all()
        assert np.isclose(np.linalg.norm(vectors[vectors.any(1)], axis=1).mean(), 1, atol=1e-3)
