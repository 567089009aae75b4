"""Each metric's folder can be pushed as a Space: its card, its app and its requirements."""

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from huggingface_hub import ModelCard

from trainer.evaluation.results import flatten

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
    assert imported(METRICS / name / "app.py") == {"gradio", name}  # the Space's SDK installs gradio


@pytest.mark.parametrize("name", NAMES)
def test_values_in_the_card_are_correct(name: str, from_root: None) -> None:
    text = (METRICS / name / "README.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))
    scope: dict = {}
    exec(code.partition("metric.compute")[0], scope)
    examples = re.findall(r"^(metric\.compute\(.*\))\n# (\{.*\})$", code, flags=re.MULTILINE)
    assert len(examples) == code.count("metric.compute") >= 3
    for call, shown in examples:
        assert flatten(eval(call, scope)) == pytest.approx(
            flatten(ast.literal_eval(shown.replace("...", ""))), abs=0.001
        )


@pytest.mark.parametrize("name", NAMES)
def test_the_card_has_the_sections_of_evaluates_own_template(name: str) -> None:
    text = (METRICS / name / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^##+ (.*)$", text, flags=re.MULTILINE) == [
        "Metric description",
        "How to use",
        "Inputs",
        "Output values",
        "Values from papers",
        "Examples",
        "Limitations and bias",
        "Citation",
        "Further references",
    ]


# -- the app ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def app(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A metric's app.py, imported as in its Space: from its own folder."""
    pytest.importorskip("gradio", reason="needs gradio, of the extra `demo`")
    monkeypatch.syspath_prepend(METRICS / request.param)
    spec = importlib.util.spec_from_file_location("app", METRICS / request.param / "app.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[request.param]


# Of the form's own values: one of two true responses is first, the other ties with one candidate below another; the
# relevant candidates are second and third; Pearson by NumPy, Spearman by its formula without ties.
EXPECTED = {
    "precision_at_n": {"p_at_1": 1 / 2, "p_at_3": 2 / 2},
    "mean_average_precision": {"map": (1 / 2 + 2 / 3) / 2},
    "sts_correlation": {
        "pearson": np.corrcoef([0.9, 0.1, 0.5, 0.4], [5.0, 0.0, 2.5, 3.0])[0, 1],
        "spearman": 1 - 6 * (0 + 0 + 1 + 1) / (4 * (4**2 - 1)),
    },
}


@pytest.mark.parametrize(("app", "expected"), EXPECTED.items(), indirect=["app"])
def test_the_app_computes_the_initial_values_of_its_form(app: ModuleType, expected: dict[str, float]) -> None:
    shown = [component.value for component in app.demo.input_components]
    assert app.demo.fn(*shown) == pytest.approx(expected)


@pytest.mark.parametrize("app", NAMES, indirect=True)
def test_a_field_that_is_not_json_is_named(app: ModuleType) -> None:
    shown = [component.value for component in app.demo.input_components]
    with pytest.raises(ValueError, match=r"references: not JSON .* expected a list"):
        app.demo.fn(shown[0], "one, two", shown[2])


@pytest.mark.parametrize("app", ["sts_correlation"], indirect=True)
def test_the_app_takes_groups_too(app: ModuleType) -> None:
    result = app.compute("[0.9, 0.1, 0.5, 0.4]", "[5.0, 0.0, 2.5, 3.0]", '["news", "news", "forums", "forums"]')
    assert (result["news"]["pearson"], result["forums"]["pearson"]) == pytest.approx((1, -1))
