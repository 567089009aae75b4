"""A dev split that is too small gets whole threads of the training split."""

import numpy as np
import pytest
from datasets import Dataset, DatasetDict

from trainer.data.datasets import RunData, complete_dev_split, thread_numbers


def make_data(train_threads: list[int], dev: int = 0) -> RunData:
    """Threads of these sizes to train on, and `dev` pairs of one thread in the dev split."""
    rows = [
        {"input": f"{thread} {pair}", "response": "yes", "thread": f"t{thread}", "source": "s"}
        for thread, size in enumerate(train_threads)
        for pair in range(size)
    ]
    held = [{"input": f"d {pair}", "response": "no", "thread": "d", "source": "s"} for pair in range(dev)]
    test = Dataset.from_dict({"input": ["a"], "response": ["b"], "thread": ["c"], "source": ["s"]})
    splits = {"test": test} | ({"validation": Dataset.from_list(held)} if dev else {})
    return RunData({"pairs": Dataset.from_list(rows)}, {"pairs": DatasetDict(splits)})


def parts(data: RunData) -> tuple[Dataset, Dataset]:
    return data.training["pairs"], data.evaluation["pairs"]["validation"]


@pytest.mark.parametrize(
    ("pairs", "dev", "expected"),
    [(90, 0, 18), (400, 0, 80), (1200, 0, 200), (2698, 16, 271), (20_000, 99, 2009), (400, 100, 100), (2000, 100, 100)],
)
def test_dev_has_a_tenth_of_the_pairs_at_least_200_and_at_most_a_fifth(pairs, dev, expected):
    data = make_data([1] * pairs, dev)
    complete_dev_split(data)
    assert [len(rows) for rows in parts(data)] == [pairs + dev - expected, expected]
    assert data.evaluation["pairs"]["test"]["input"][:] == ["a"]


def test_threads_stay_whole_and_their_choice_depends_on_their_names_alone():
    sizes = [40, 3, 1, 77, 200, 5, 60, 9, 30, 25] * 3
    data, shuffled = make_data(sizes, 4), make_data(sizes, 4)
    before = [text for rows in parts(data) for text in rows["input"]]
    shuffled.training["pairs"] = shuffled.training["pairs"].shuffle(seed=1)
    complete_dev_split(data)
    complete_dev_split(shuffled)
    train, dev = (set(rows["thread"]) for rows in parts(data))
    assert not train & dev and "d" in dev and len(dev) > 1
    assert sorted(text for rows in parts(data) for text in rows["input"]) == sorted(before)
    assert set(parts(shuffled)[1]["thread"]) == dev


def test_several_datasets_are_split_together():
    first, second = make_data([2] * 60).training["pairs"], make_data([3] * 40, 7)
    others = second.training["pairs"].map(lambda row: {"input": f"other {row['input']}"})
    data = RunData({"pairs/a": first, "pairs/b": others}, second.evaluation)
    complete_dev_split(data)
    a, b, dev = data.training["pairs/a"], data.training["pairs/b"], data.evaluation["pairs"]["validation"]
    assert len(dev) == pytest.approx((120 + 120 + 7) // 5, abs=5) and len(a) + len(b) + len(dev) == 247
    assert not (set(a["thread"]) | set(b["thread"])) & set(dev["thread"])
    assert not any(text.startswith("other") for text in a["input"]) and len(a) < 120
    assert all(text.startswith("other") for text in b["input"]) and len(b) < 120


def test_a_single_thread_is_not_divided_and_a_limit_may_be_given():
    data = make_data([500])
    complete_dev_split(data)
    assert "validation" not in data.evaluation["pairs"] and len(data.training["pairs"]) == 500
    data = make_data([1] * 2000, 120)
    complete_dev_split(data, 200)
    assert len(parts(data)[1]) == 212


def test_pairs_without_a_thread_are_threads_of_their_own():
    """Also beside a thread whose name is the number of such a row."""
    rows = Dataset.from_dict({"thread": ["3", None, "3", None]})
    numbers = thread_numbers(rows)
    assert numbers[0] == numbers[2] and len(set(numbers)) == 3
    assert np.bincount(thread_numbers(rows.select([]))).tolist() == []


@pytest.mark.parametrize("position", [0, 4, 9])
def test_long_threads_are_not_moved_and_the_split_is_little_more_than_a_tenth(position):
    sizes = [1 + number % 5 for number in range(900)]  # 2,700 pairs
    sizes.insert(position, 2000)
    data = make_data(sizes)
    complete_dev_split(data)
    assert 470 <= len(parts(data)[1]) <= 474 and f"t{position}" not in parts(data)[1]["thread"]


@pytest.mark.parametrize(("size", "moved"), [(300, 300), (301, 0)])
def test_a_thread_may_exceed_the_wanted_number_by_100_pairs(size, moved):
    data = make_data([size] * 5)  # 200 are wanted
    complete_dev_split(data)
    assert len(data.evaluation["pairs"].get("validation", [])) == moved
