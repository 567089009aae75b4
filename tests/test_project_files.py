"""Continuous integration, templates, hooks and metadata agree with pyproject.toml, constraints.txt and the Makefile."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PINS = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE))
YAML_FILES = [*(ROOT / ".github").rglob("*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"]


def load(path: str) -> dict[Any, Any]:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def lower_bound(requirements: list[str], name: str) -> str:
    """The version after >= of a requirement."""
    (requirement,) = [one for one in map(Requirement, requirements) if one.name == name]
    (version,) = [one.version for one in requirement.specifier if one.operator == ">="]
    return version


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    return load(".github/workflows/ci.yml")["jobs"]


def commands(job: dict[str, Any]) -> str:
    return "\n".join(step.get("run", "") for step in job["steps"])


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_yaml_is_a_mapping(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


def test_ci_runs_on_the_python_versions_of_the_classifiers(jobs: dict[str, Any]) -> None:
    matrix = jobs["test"]["strategy"]["matrix"]
    pattern = re.compile(r"Programming Language :: Python :: (3\.\d+)")
    supported = [match[1] for match in map(pattern.fullmatch, PROJECT["classifiers"]) if match]
    assert matrix["python"] == supported
    assert PROJECT["requires-python"] == f">={supported[0]}"
    assert matrix["command"] == ["test"]
    assert {(row["python"], row["command"]) for row in matrix["include"]} == {
        (supported[0], "test-min"),
        (supported[-1], "test-new"),
    }


def test_ci_calls_the_makefile(jobs: dict[str, Any]) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"lint", "test", "test-min", "test-new", "audit"} <= set(targets)
    assert "make lint" in commands(jobs["lint"]) and "make audit" in commands(jobs["audit"])
    assert "make ${{ matrix.command }}" in commands(jobs["test"])


def test_ci_tests_the_oldest_versions_that_the_wheel_supports(jobs: dict[str, Any]) -> None:
    assert PINS["torch"] == f"{lower_bound(PROJECT['optional-dependencies']['train'], 'torch')}.0"
    for package in ("torch", "transformers"):
        assert f"{package}=={lower_bound(PROJECT['dependencies'], package)}.0" in commands(jobs["wheel"])


def test_ci_is_restricted(jobs: dict[str, Any]) -> None:
    workflow = load(".github/workflows/ci.yml")
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["group"]
    for job in jobs.values():
        assert job["timeout-minutes"] <= 90
        for action in [step["uses"] for step in job["steps"] if "uses" in step]:
            assert re.fullmatch(r"actions/[\w-]+@v\d+", action)


@pytest.mark.parametrize("name", ["bug_report", "feature_request"])
def test_issue_forms_have_what_the_hosting_platform_requires(name: str) -> None:
    form = load(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert form["name"] and form["description"]
    ids = [field["id"] for field in form["body"]]
    assert len(set(ids)) == len(ids)
    assert all(field["type"] == "textarea" and field["attributes"]["label"] for field in form["body"])
    assert any(field.get("validations", {}).get("required") for field in form["body"])


def test_hooks_are_valid_and_pin_the_tested_versions() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pre_commit", "validate-config", ROOT / ".pre-commit-config.yaml"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for hook in load(".pre-commit-config.yaml")["repos"][0]["hooks"]:
        assert hook["language"] == "python" and ".venv" not in hook["entry"]
        for name, version in (pin.split("==") for pin in hook["additional_dependencies"]):
            assert PINS[name] == version, f"{hook['id']}: constraints.txt pins {name}=={PINS[name]}"


def test_the_citation_agrees_with_the_package() -> None:
    citation = load("CITATION.cff")
    assert citation["cff-version"] == "1.2.0" and citation["message"]
    assert citation["title"] == PROJECT["name"]
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == PROJECT["authors"]
    assert {paper["url"] for paper in citation["references"]} == set(PROJECT["urls"].values())
    assert all(paper["type"] == "conference-paper" and paper["authors"] for paper in citation["references"])


def test_the_makefile_lists_its_commands() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    done = subprocess.run(["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True)
    assert {line.split()[0] for line in done.stdout.splitlines()} == {*phony.split()}


def recipe(*words: str) -> list[str]:
    """The last two commands that a target would run, without what it prints; building the environment comes before."""
    # Within `make test`, make would also print the folder that it works in.
    command = ["make", "--dry-run", "--no-print-directory", *words]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if not line.startswith("echo")][-2:]


def test_the_report_builds_its_datasets_by_name() -> None:
    download, report = recipe("report", "PLAN=my.yaml", "ORIGINALS=local copies")
    assert download.endswith("download reddit books snli stsb sts cqa my.yaml --originals 'local copies'")
    assert report.endswith("trainer.report --plan my.yaml --jobs 2 -o report")


def test_the_best_model_is_trained_on_the_datasets_of_its_preset() -> None:
    download, train = recipe("best", "OPTIONS=--resume true")
    assert download.rstrip().endswith("download trainer/presets/best_dan.yaml sts")
    assert train.endswith("trainer/run.py trainer/presets/best_dan.yaml --sts data/sts --resume true")
