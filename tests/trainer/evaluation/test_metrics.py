"""Each metric's folder can be pushed as a Space: its card, its app and its requirements."""

import ast
import sys
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

METRICS = Path(__file__).resolve().parents[3] / "trainer" / "evaluation" / "metrics"
NAMES = ["mean_average_precision", "precision_at_n", "sts_correlation"]


def imported(file: Path) -> set[str]:
    """Top-level names that a file imports, without the standard library."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module).partition(".")[0])
    return names - sys.stdlib_module_names


def test_every_folder_is_a_metric() -> None:
    assert sorted(path.name for path in METRICS.iterdir() if path.is_dir() and path.name != "__pycache__") == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_card_has_the_front_matter_of_a_space(name: str) -> None:
    card = ModelCard.load(METRICS / name / "README.md", ignore_metadata_errors=False)
    front_matter = card.data.to_dict()
    assert front_matter["sdk"] == "gradio" and front_matter["app_file"] == "app.py"
    assert front_matter["title"] and front_matter["tags"] == ["evaluate", "metric"]
    assert f'evaluate.load("trainer/evaluation/metrics/{name}")' in card.text


@pytest.mark.parametrize("name", NAMES)
def test_module_and_app_import_only_what_the_space_installs(name: str) -> None:
    lines = (METRICS / name / "requirements.txt").read_text().splitlines()
    installed = {line.partition(">")[0] for line in lines}
    assert imported(METRICS / name / f"{name}.py") == installed
    assert imported(METRICS / name / "app.py") == {"gradio", name}  # gradio is there by the sdk


@pytest.mark.parametrize("name", NAMES)
def test_values_shown_in_the_card_are_true(name: str, from_root: None) -> None:
    text = (METRICS / name / "README.md").read_text(encoding="utf-8")
    code = text.partition("```python\n")[2].partition("```")[0]
    setup, _, call = code.partition("metric.compute")
    call, _, shown = call.partition("\n# ")
    scope: dict = {}
    exec(setup, scope)
    result = eval(f"metric.compute{call}", scope)
    for key, value in ast.literal_eval(shown.replace("...", "")).items():
        assert result[key] == pytest.approx(value, abs=0.001)
