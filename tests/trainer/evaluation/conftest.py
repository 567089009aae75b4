"""Fixtures of the metrics' tests."""

from pathlib import Path

import pytest


@pytest.fixture
def from_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The working folder of the README's examples."""
    monkeypatch.chdir(Path(__file__).resolve().parents[3])
