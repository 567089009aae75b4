"""The papers' statistics of the STS datasets: by hand on invented sentences, and as published on the real ones."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset
from scipy import stats

from data_scripts.public.sts import load_sts_sets
from trainer.evaluation.sts_statistics import lexical_overlap, snli_overlap, sts_set_statistics, wilcoxon


@pytest.mark.parametrize(
    ("first", "second", "overlap"),
    [
        ("The dog runs.", "A dog, the dog!", 2 / 4),  # the, dog of the, dog, runs, a
        ("It's  raining", "raining it's", 1),
        ("Rain - again", "again", 1 / 2),  # a dash is not a word
        ("no", "yes", 0),
        ("...", "!", 0),
    ],
)
def test_overlap_by_hand(first: str, second: str, overlap: float) -> None:
    assert lexical_overlap(first, second) == lexical_overlap(second, first) == overlap


def test_statistics_by_hand() -> None:
    pairs = Dataset.from_dict({"sentence1": ["a b c", "a"], "sentence2": ["a b", "b c"], "score": [1.0, 2.0]})
    assert sts_set_statistics({"2012": {"OnWN": pairs}})["2012 OnWN"] == {
        "pairs": 2,
        "length": 2.0,  # of 3, 1, 2, 2
        "length_deviation": pytest.approx(0.5**0.5),
        "overlap": pytest.approx((2 / 3 + 0) / 2),
    }


def test_real_datasets_have_the_lengths_and_overlaps_of_the_paper(data_dir: Path) -> None:
    """Kenter et al. 2016, sections 4.1 and 4.2.1."""
    sets = sts_set_statistics(load_sts_sets(str(data_dir / "sts")))
    assert sum(part["pairs"] for part in sets.values()) == 11_358
    shortest = min(sets, key=lambda key: sets[key]["length"])
    assert shortest == "2012 MSRvid"
    assert (round(sets[shortest]["length"], 2), round(sets[shortest]["length_deviation"], 3)) == (6.63, 1.812)
    assert round(100 * sets["2012 MSRpar"]["overlap"], 1) == 44.3
    least = sorted(sets, key=lambda key: sets[key]["overlap"])[:3]
    assert least == ["2013 FNWN", "2015 answ-forums", "2015 belief"]
    assert [round(100 * sets[key]["overlap"], 1) for key in least] == [7.0, 9.7, 19.6]


def test_with_the_pairs_without_a_score_the_overlaps_of_2015_are_nearly_the_papers(data_dir: Path) -> None:
    """Kenter et al. 2016, section 4.1: 7 % and 11 %."""
    overlaps = {}
    for name in ("answers-forums", "belief"):
        lines = (data_dir / "sts" / "2015-test" / f"STS.input.{name}.txt").read_text(encoding="utf-8").split("\n")
        rows = [line.split("\t") for line in lines if line]
        pairs = Dataset.from_dict({f"sentence{number + 1}": [row[number] for row in rows] for number in (0, 1)})
        overlaps[name] = sts_set_statistics({"2015": {name: pairs}})[f"2015 {name}"]["overlap"]
    assert {name: round(100 * overlap, 1) for name, overlap in overlaps.items()} == {
        "answers-forums": 7.1,
        "belief": 12.0,
    }


def test_wilcoxon_equals_the_normal_approximation_by_hand() -> None:
    random = np.random.default_rng(0)
    scores, others = random.normal(size=(2, 400)) + np.array([[0.2], [0.0]])
    difference = scores - others
    ranks = stats.rankdata(abs(difference))
    n = len(difference)
    z = (ranks[difference > 0].sum() - n * (n + 1) / 4) / np.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    assert wilcoxon(scores, others) == pytest.approx(2 * stats.norm.sf(abs(z)), rel=1e-6)
    assert wilcoxon(scores, others) == wilcoxon(others, scores)
    assert wilcoxon(scores, scores - 0.01 * (1 + random.random(n))) < 0.0001


def test_wilcoxon_of_equal_scores_is_1_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert wilcoxon(np.full(5, 0.3), np.full(5, 0.3)) == 1.0


def test_overlap_with_snli_by_hand() -> None:
    train = Dataset.from_dict(
        {
            "premise": ["A man sleeps.", "A dog runs", "It's late"],
            "hypothesis": ["A man is awake.", "The dog runs!", "Go home."],
            "label": [2, 0, 1],
        }
    )
    dev = [
        ("a man sleeps", "A man is awake"),  # a row
        ("the dog runs", "a dog runs."),  # a row in the other order
        ("A man sleeps.", "A dog runs."),  # sentences of two rows, but not the pair of any row
        ("A dog runs.", "Fish swim."),
        ("Fish swim.", "Birds fly."),
    ]
    split = Dataset.from_dict({"sentence1": [one for one, _ in dev], "sentence2": [other for _, other in dev]})
    assert snli_overlap({"validation": split, "train": split}, train) == {"dev": {"pairs": 2, "sentences": 4, "of": 5}}
    assert snli_overlap({"test": split.select([4])}, train) == {"test": {"pairs": 0, "sentences": 0, "of": 1}}
