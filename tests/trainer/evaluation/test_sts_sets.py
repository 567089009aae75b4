"""The SemEval datasets: correlations against SciPy on brute-force cosines, one encoding, and the real sizes."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset
from scipy import stats

from data_scripts.errors import InputError
from data_scripts.sources.sts import load_sts_sets
from tests.trainer.evaluation.fake_encoder import FakeEncoder
from tests.trainer.evaluation.invented_data import pairs, sts, write_data_folder
from trainer.command_line import build_arguments
from trainer.data.datasets import load_run_data
from trainer.evaluation.sts_sets import evaluate_sts_sets, sts_set_scores


def brute_force_cosines(rows: Dataset) -> list[float]:
    encoder, cosines = FakeEncoder(), []
    for row in rows:
        u, v = (encoder.encode([row[name]])[0].astype(float) for name in ("sentence1", "sentence2"))
        cosines.append(sum(u * v) / (sum(u * u) * sum(v * v)) ** 0.5)
    return cosines


def test_each_dataset_equals_scipy_on_brute_force_cosines() -> None:
    sets = sts()
    results = evaluate_sts_sets(FakeEncoder(), sets)
    scores = sts_set_scores(FakeEncoder(), sets)
    assert {year: list(names) for year, names in results.items()} == {"2012": ["MSRpar", "OnWN"], "2014": ["OnWN"]}
    assert list(scores) == [("2012", "MSRpar"), ("2012", "OnWN"), ("2014", "OnWN")]
    for (year, name), found in scores.items():
        expected, gold = brute_force_cosines(sets[year][name]), sets[year][name]["score"]
        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert results[year][name] == {
            "pearson": pytest.approx(stats.pearsonr(expected, gold)[0], abs=1e-6),
            "spearman": pytest.approx(stats.spearmanr(expected, gold)[0], abs=1e-6),
            "pairs": len(gold),
        }


def test_all_datasets_are_encoded_in_one_call_and_each_sentence_once() -> None:
    encoder = FakeEncoder()
    sets = sts()
    evaluate_sts_sets(encoder, {**sets, "2015": {"images": sets["2014"]["OnWN"]}})
    assert [side for side, _ in encoder.calls] == ["input"]
    (texts,) = (texts for _, texts in encoder.calls)
    distinct = {
        text for names in sets.values() for rows in names.values() for row in rows for text in list(row.values())[:2]
    }
    assert len(texts) == len(distinct) and set(texts) == distinct


class OfKnownWords(FakeEncoder):
    """A zero vector for a text without a known word."""

    def encode(self, texts: Iterable[str], side: str = "input") -> np.ndarray:
        texts = list(texts)
        return super().encode(texts, side) * np.array([["zzz" not in text] for text in texts])


def test_a_sentence_without_a_known_word_has_cosine_0() -> None:
    rows = Dataset.from_dict({"sentence1": ["a", "zzz", "zzz"], "sentence2": ["a", "b", "zzz"], "score": [5.0, 1, 0]})
    scores = sts_set_scores(OfKnownWords(), {"2013": {"FNWN": rows}})["2013", "FNWN"]
    assert scores.tolist() == [pytest.approx(1), 0, 0]


@pytest.mark.filterwarnings("ignore::scipy.stats.ConstantInputWarning")
def test_constant_scores_have_no_correlation() -> None:
    rows = Dataset.from_dict({"sentence1": ["zzz"] * 3, "sentence2": ["a", "b", "c"], "score": [5.0, 1, 0]})
    result = evaluate_sts_sets(OfKnownWords(), {"2013": {"FNWN": rows}})["2013"]["FNWN"]
    assert np.isnan([result["pearson"], result["spearman"]]).all() and result["pairs"] == 3


def test_an_interval_contains_its_correlation() -> None:
    results = evaluate_sts_sets(FakeEncoder(), sts(), intervals=True)
    for names in results.values():
        for part in names.values():
            assert part["pearson_interval"][0] < part["pearson"] < part["pearson_interval"][1]
            assert list(part) == ["pearson", "pearson_interval", "spearman", "pairs"]


def test_a_dataset_of_one_pair_is_refused() -> None:
    with pytest.raises(InputError, match="STS 2012 MSRpar: has only one pair; a correlation needs two"):
        evaluate_sts_sets(FakeEncoder(), {"2012": {"MSRpar": sts()["2012"]["MSRpar"].select([0])}})
    two = evaluate_sts_sets(FakeEncoder(), {"2012": {"MSRpar": sts()["2012"]["MSRpar"].select([0, 1])}})
    assert abs(two["2012"]["MSRpar"]["pearson"]) == pytest.approx(1)


def test_training_rows_with_an_evaluation_sentence_are_removed_and_counted(tmp_path: Path) -> None:
    folder = write_data_folder(tmp_path)
    rows = pairs("train").to_list()
    rows[4]["input"], rows[7]["response"] = "SemEval: a red CAR!", "dictionary - the house is big"
    Dataset.from_list(rows).to_parquet(folder / "pairs" / "train-00000-of-00001.parquet")
    sources = {"pairs": [str(folder / "pairs")], "sts": str(folder / "sts")}
    arguments = build_arguments(**sources, tasks={"response_prediction": 1})
    data = load_run_data(arguments)
    assert data.training["pairs"].to_list() == [row for number, row in enumerate(rows) if number not in (4, 7)]
    assert data.leakage["pairs"] == {"sts 2012 MSRpar": 1, "sts 2012 OnWN": 0, "sts 2014 OnWN": 1, "removed": 2}
    assert {(year, name) for year, names in data.evaluation["sts"].items() for name in names} == set(
        sts_set_scores(FakeEncoder(), sts())
    )


def test_real_datasets_are_evaluated_on_every_scored_pair(data_dir: Path) -> None:
    sets = load_sts_sets(str(data_dir / "sts"))
    results = evaluate_sts_sets(FakeEncoder(), sets)
    assert sum(len(names) for names in results.values()) == 19
    assert sum(part["pairs"] for names in results.values() for part in names.values()) == 11_358
    # With random vectors, equal sentences have cosine 1 and others about 0.
    rows = sets["2012"]["SMTeuroparl"]
    equal = np.array(rows["sentence1"]) == np.array(rows["sentence2"])
    assert 0 < equal.sum() < len(rows)
    np.testing.assert_allclose(sts_set_scores(FakeEncoder(), sets)["2012", "SMTeuroparl"][equal], 1, atol=1e-6)
