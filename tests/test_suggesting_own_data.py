"""The arithmetic of tests.benchmarks.suggesting_own_data, on scores of which the result is known."""

import numpy as np
import pytest

from tests.benchmarks.suggesting_own_data import DIVERSITIES, _coverages, _is_cheap, format_coverage, format_diversity

SCORES, ARE_RIGHT = np.linspace(1, 0, 100), np.arange(100) < 60  # the best 60 are right


def test_coverage_and_precision_are_those_on_test_at_a_threshold_of_the_calibration_pairs() -> None:
    test = (SCORES, np.arange(100) < 40)
    entries = _coverages((SCORES, ARE_RIGHT), test, 100)
    assert entries["0.8"]["coverage"] == pytest.approx(0.75) and entries["0.8"]["precision"] == pytest.approx(40 / 75)
    assert _coverages((SCORES, np.zeros(100, bool)), test, 100) == {}  # no threshold has any of the precisions
    assert _coverages((SCORES, ARE_RIGHT), test, 19) == {}  # too few pairs


def test_a_domain_without_a_threshold_counts_as_no_coverage() -> None:
    parts = [{"0.5": {"coverage": 0.2, "precision": 0.5}}, {}]
    results = {(f"domain {n}", 300): {"coverage": {"tenth": part}} for n, part in enumerate(parts)}
    assert "| 300 | 10.0% (1 of 2, precision 0.50) | 0.0% (0 of 2) |" in format_coverage(results, "tenth")


def test_both_recalls_decide_what_diversity_costs() -> None:
    without = {"recall_100": 0.5, "recall_all": 0.1, "cosine": 0.4, "distinct": 0.5}
    assert _is_cheap(without | {"recall_100": 0.495}, without)
    assert not _is_cheap(without | {"recall_100": 0.494}, without)
    assert not _is_cheap(without | {"recall_all": 0.098}, without)
    part = {f"{diversity:g}": without for diversity in DIVERSITIES} | {"0.5": without | {"recall_all": 0.05}}
    lines = format_diversity({("a", 300): {"diversity": {"test": part}}}, "test").splitlines()
    assert lines[-2].endswith("| 1 of 1 |") and lines[-1].endswith("| 0.0500 | 0 of 1 |")
