"""A few hundred inputs for each harness, without atheris: a harness that no longer fits its reader is noticed."""

import random
import shutil
from pathlib import Path

import pytest

from tests.fuzzing.mutations import mutate
from tests.fuzzing.registry import load_harnesses

HARNESSES = load_harnesses()
INPUTS = 150


@pytest.mark.parametrize("name", HARNESSES)
def test_valid_documents_are_accepted(name: str, tmp_path: Path) -> None:
    for number, seed in enumerate(HARNESSES[name].seeds()):
        (tmp_path / str(number)).mkdir()
        assert len(seed) <= HARNESSES[name].max_bytes
        assert HARNESSES[name].check(seed, tmp_path / str(number))


@pytest.mark.parametrize("name", HARNESSES)
def test_mutated_documents_do_not_crash(name: str, tmp_path: Path) -> None:
    random_, seeds, folder = random.Random(0), HARNESSES[name].seeds(), tmp_path / "inputs"
    results = set()
    for _ in range(INPUTS):
        data = mutate(random_.choice(seeds), random_)
        folder.mkdir()
        results.add(HARNESSES[name].check(data, folder))
        shutil.rmtree(folder)
    assert results == {True, False}  # one alone would mean that the inputs are not near the border
