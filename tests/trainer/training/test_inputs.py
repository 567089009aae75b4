"""Fingerprints of what a run reads."""

import pyarrow as pa
import pytest
from datasets import Dataset, DatasetDict, Value, concatenate_datasets

from trainer.data.datasets import RunData
from trainer.settings import Settings
from trainer.training import inputs
from trainer.training.inputs import find_changes, fingerprint_inputs

ROWS = [{"input": f"text {index}" * (index % 7), "label": index % 3, "score": None} for index in range(50)]


def changes(tokenizer, rows: Dataset, evaluation: dict | None = None) -> list[str]:
    before = RunData({"pairs": Dataset.from_list(ROWS)}, {"sts": {"2012": {"MSR": Dataset.from_list(ROWS)}}})
    now = RunData({"pairs": rows}, evaluation or before.evaluation)
    return find_changes(
        fingerprint_inputs(before, tokenizer, Settings()), fingerprint_inputs(now, tokenizer, Settings())
    )


@pytest.mark.parametrize(
    "store",
    [
        lambda rows, folder: Dataset.from_list(rows),
        lambda rows, folder: Dataset.from_list(rows[::-1]).select(range(49, -1, -1)),
        lambda rows, folder: Dataset.from_list([*rows[:3], *rows]).select(range(3, 53)),
        lambda rows, folder: Dataset(pa.concat_tables(pa.Table.from_pylist(rows[i : i + 9]) for i in range(0, 50, 9))),
        lambda rows, folder: concatenate_datasets([Dataset.from_list(rows[:20]), Dataset.from_list(rows[20:])]),
        lambda rows, folder: _saved(Dataset.from_list(rows), folder),
    ],
)
def test_the_same_rows_have_the_same_fingerprint_in_every_form(tiny_tokenizer, store, tmp_path):
    assert changes(tiny_tokenizer, store(ROWS, tmp_path)) == []


def _saved(rows: Dataset, folder) -> Dataset:
    rows.save_to_disk(folder / "saved")
    return Dataset.load_from_disk(folder / "saved")


@pytest.mark.parametrize(
    "changed",
    [
        [*ROWS[:-1], ROWS[-1] | {"input": "another"}],
        [*ROWS[:-1], ROWS[-1] | {"label": 5}],
        [ROWS[0] | {"score": "0"}, *ROWS[1:]],
        ROWS[:-1],
        ROWS[::-1],
        Dataset.from_list(ROWS).rename_column("label", "labels"),
        Dataset.from_list(ROWS).cast_column("label", Value("uint64")),  # the same bytes
    ],
)
def test_a_changed_row_or_column_changes_the_fingerprint(tiny_tokenizer, changed):
    rows = Dataset.from_list(changed) if isinstance(changed, list) else changed
    assert changes(tiny_tokenizer, rows) == ["training data of pairs"]


def test_another_tokenizer_or_teacher_is_named(tiny_tokenizer, monkeypatch):
    monkeypatch.setattr(inputs, "teacher_content", lambda name: f"content of {name}")
    other = tiny_tokenizer.train_new_from_iterator(["other words"], vocab_size=20)

    def prints(tokenizer, teacher=None, score_teachers=()):
        settings = Settings(teacher=teacher, score_teachers=list(score_teachers))
        return fingerprint_inputs(RunData(), tokenizer, settings)

    before = prints(tiny_tokenizer, "a", ["b", "c"])
    assert before["teacher"] == "content of a" and find_changes(before, before) == []
    assert find_changes(before, prints(other, "a", ["b", "c"])) == ["tokenizer"]
    assert find_changes(before, prints(tiny_tokenizer, "b", ["b", "d"])) == ["score teacher 2", "teacher"]
    assert find_changes(before, prints(tiny_tokenizer, None, ["b"])) == ["score teacher 2", "teacher"]


def test_changed_evaluation_data_are_named_by_split(tiny_tokenizer):
    other = Dataset.from_list(ROWS[:-1])
    evaluation = {"sts": {"2012": {"MSR": other}}, "snli": DatasetDict({"validation": other})}
    assert changes(tiny_tokenizer, Dataset.from_list(ROWS), evaluation) == ["snli (validation)", "sts (2012 MSR)"]
