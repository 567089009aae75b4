"""The import contracts in pyproject.toml hold, and `lint-imports` fails if one of them is broken."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
# Violation -> the contract's id, the file that breaks it, the code added to the file, the expected report.
VIOLATIONS = {
    "data_scripts imports trainer": (
        "packages",
        "data_scripts/errors.py",
        "import trainer.arguments",
        "data_scripts.errors -> trainer.arguments",
    ),
    "modeling_convsim imports data_scripts": (
        "packages",
        "modeling_convsim/encoding/hardware.py",
        "from data_scripts.errors import InputError",
        "modeling_convsim.encoding.hardware -> data_scripts.errors",
    ),
    "data_scripts imports modeling_convsim in a function": (
        "packages",
        "data_scripts/join/engines.py",
        "def late():\n    from modeling_convsim import Encoder",
        "data_scripts.join.engines -> modeling_convsim",
    ),
    "read imports sources": (
        "data_scripts",
        "data_scripts/read/files.py",
        "import data_scripts.sources.books",
        "data_scripts.read.files -> data_scripts.sources.books",
    ),
    "a module without a layer": ("data_scripts", "data_scripts/helpers.py", "", "data_scripts.helpers"),
    "data imports training": (
        "trainer",
        "trainer/data/token_cache.py",
        "from trainer.training.batching import BatchPlan",
        "trainer.data.token_cache -> trainer.training.batching",
    ),
    "training imports sweep in a function": (
        "trainer",
        "trainer/training/optimizers.py",
        "def late():\n    import trainer.sweep.planned_runs",
        "trainer.training.optimizers -> trainer.sweep.planned_runs",
    ),
    "modeling_base imports encoding": (
        "modeling_convsim",
        "modeling_convsim/modeling_base.py",
        "from .encoding.hardware import use_onednn",
        "modeling_convsim.modeling_base -> modeling_convsim.encoding.hardware",
    ),
    "a new modeling file imports suggestion": (
        "modeling_files",
        "modeling_convsim/modeling_new.py",
        "from .suggestion import ReplyIndex",
        "modeling_convsim.modeling_new -> modeling_convsim.suggestion",
    ),
    "two modules import each other": (
        "cycles",
        "data_scripts/read/files.py",
        "import data_scripts.read.dumps",
        ".files -> .dumps",
    ),
}


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command of `make lint` on the packages in `folder`."""
    # PYTHONPATH may name other copies of the packages.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache"],
        cwd=folder, env=environment | {"COLUMNS": "200"}, capture_output=True, text=True,
    )  # fmt: skip


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the packages' Python files and of pyproject.toml."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for package in ("data_scripts", "modeling_convsim", "trainer"):
        for file in (ROOT / package).rglob("*.py"):
            (tmp_path / file.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, tmp_path / file.relative_to(ROOT))
    return tmp_path


def test_the_contracts_hold() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Contracts: {len(CONTRACTS)} kept, 0 broken." in done.stdout


@pytest.mark.parametrize(("contract", "file", "added", "reported"), VIOLATIONS.values(), ids=VIOLATIONS)
def test_a_contract_broken_on_purpose_fails(contract: str, file: str, added: str, reported: str, copied: Path) -> None:
    (name,) = [declared["name"] for declared in CONTRACTS if declared["id"] == contract]
    with (copied / file).open("a", encoding="utf-8") as stream:
        stream.write(f"\n{added}\n")
    done = lint_imports(copied)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"\n{name} BROKEN" in done.stdout
    assert reported in done.stdout
