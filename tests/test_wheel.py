"""The distributions: their files and dependencies, and encoding with only the wheel and its dependencies."""

import ast
import importlib.metadata
import json
import os
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import numpy as np
import pytest
import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from transformers import PreTrainedTokenizerFast

from modeling_convsim import ConvSimDanConfig, ConvSimDanForMultitask
from trainer.publish.folder import build_folder, embed_all_sides

ROOT = Path(__file__).resolve().parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
TEXTS = ["How old is the cat?", "we walk", "zzz", ""]
# Encodes, and answers from an index, without other packages; `modules` are those that must not be installed.
READER = """
import importlib.util, json, sys

folder, library, texts, modules, *paths = json.loads(sys.argv[1])
sys.path += paths
import modeling_convsim
from modeling_convsim import Encoder, ReplyIndex

assert modeling_convsim.__file__.startswith(library), modeling_convsim.__file__
unexpected = [name for name in modules if importlib.util.find_spec(name)]
assert not unexpected, f"not required, but installed: {unexpected}"
encoder = Encoder.from_pretrained(folder)
vectors = {side: encoder.encode(texts, side=side).tolist() for side in ("input", "response")}
ReplyIndex.build(encoder, texts[:2]).save(folder + "-replies")
replies = [each.text for each in ReplyIndex.load(folder + "-replies").suggest("the big house", 2)]
try:
    modeling_convsim.ConvSimDanConfig
except ValueError as error:
    print(json.dumps(vectors | {"replies": replies, "error": str(error)}))
"""


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of the repository."""
    folder = tmp_path_factory.mktemp("sdist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)], cwd=ROOT, check=True)
    (file,) = folder.iterdir()
    return file


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution, without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", str(sdist), "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder))
    (file,) = folder.iterdir()
    return file


def pip(command: str, *words: str) -> None:
    """Runs pip; it must succeed."""
    options = ["--quiet", "--disable-pip-version-check", "--no-index"]
    done = subprocess.run([sys.executable, "-m", "pip", command, *options, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def required(wheel: Path, extra: str = "") -> set[str]:
    """The names of the distributions that the wheel requires, with those of an extra and its own extras."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        requirements = Parser().parsestr(archive.read(name).decode()).get_all("Requires-Dist", [])
    names: set[str] = set()
    extras = {extra}
    while extras:
        extra = extras.pop()
        applied = [one for one in map(Requirement, requirements) if applies(one, extra)]
        names |= {one.name for one in applied}
        extras |= {each for one in applied if one.name == "convsim" for each in one.extras}
    return names - {"convsim"}


def applies(requirement: Requirement, extra: str = "") -> bool:
    """Whether a requirement applies to this Python without extras, or with one extra."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def imported_packages(folder: Path, when_imported: bool = False) -> set[str]:
    """The top-level packages that a package's modules import, without the standard library and the package itself.

    With `when_imported`, those that a module imports when it is imported, and not when a function is called.
    """
    modules: set[str] = set()
    for path in folder.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body if when_imported else ast.walk(tree):
            if isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                modules.add(node.module)
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_extra":
                modules |= {word.value for word in node.args[:1] if isinstance(word, ast.Constant)}
    return {module.partition(".")[0] for module in modules} - sys.stdlib_module_names - {folder.name}


def with_requirements(names: set[str]) -> set[str]:
    """The names of installed distributions and of everything that they require."""
    todo, done = set(names), set()
    while todo:
        name = todo.pop()
        done.add(name)
        requirements = map(Requirement, importlib.metadata.requires(name) or [])
        todo |= {one.name for one in requirements if applies(one)} - done
    return done


def link_installed(names: set[str], folder: Path) -> None:
    """Links in `folder` to the installed distributions and to everything that they require."""
    for distribution in map(importlib.metadata.distribution, with_requirements(names)):
        for top in {path.parts[0] for path in distribution.files or []} - {"..", "__pycache__"}:
            if not (folder / top).exists():
                (folder / top).symlink_to(Path(str(distribution.locate_file(top))).resolve())


def test_the_wheel_has_the_packages_the_base_and_the_page(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
        scripts = archive.read(f"convsim-{VERSION}.dist-info/entry_points.txt").decode()
    folders = {name: ROOT / name for name in ("modeling_convsim", "data_scripts", "trainer")}
    folders |= {f"modeling_convsim/model_cards/{name}": ROOT / "model_cards" / name for name in ("base", "space")}
    expected = {
        f"{name}/{path.relative_to(folder).as_posix()}"
        for name, folder in folders.items()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert files == expected | {"modeling_convsim/model_cards/template.md"}
    assert scripts.split() == ["[console_scripts]", "convsim", "=", "trainer.console:main"]


def test_adapt_installs_what_all_modules_import(wheel: Path) -> None:
    """All but the page, whose package is in the extra `demo`."""
    installed = {canonicalize_name(name) for name in with_requirements(required(wheel, "adapt") | {"duckdb"})}
    ours = ("modeling_convsim", "data_scripts", "trainer")
    imported = set().union(*(imported_packages(ROOT / name, when_imported=True) for name in ours)) - set(ours)
    assert {"torch", "ibis", "pyarrow"} < imported
    providers = importlib.metadata.packages_distributions()
    missing = {name for name in imported if not installed & set(map(canonicalize_name, providers[name]))}
    assert missing == {"gradio"} <= required(wheel, "demo")


def test_wheel_encodes_where_only_its_dependencies_are_installed(
    wheel: Path, tiny_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    sizes = {"vocab_size": len(tiny_tokenizer), "word_embedding_size": 8, "bigram_buckets": 32, "hidden_sizes": [9]}
    model = ConvSimDanForMultitask(ConvSimDanConfig(**sizes, embedding_size=12, response_hidden_sizes=[10]))
    folder = tmp_path / "run" / "model"
    build_folder(model, tiny_tokenizer, folder, results={}, settings={})
    library, links = tmp_path / "library", tmp_path / "links"
    pip("install", str(wheel), "--no-deps", "--target", str(library))
    links.mkdir()
    link_installed(required(wheel), links)

    absent = ["tests", "torch", "transformers", "sentence_transformers", "datasets", "scipy", "pyarrow", "faiss"]
    argument = json.dumps([str(folder), str(library), TEXTS, absent, str(library), str(links)])
    # -I and -S: neither the clone, nor PYTHONPATH, nor the environment's packages and .pth files are on sys.path.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", READER, argument], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]

    vectors = json.loads(done.stdout)
    expected = embed_all_sides(model.eval(), tiny_tokenizer, TEXTS)
    assert np.allclose(vectors["input"], expected.inputs, rtol=0, atol=1e-6)
    assert np.allclose(vectors["response"], expected.responses, rtol=0, atol=1e-6)
    assert sorted(vectors["replies"]) == sorted(TEXTS[:2])
    assert vectors["error"] == "modeling_convsim.ConvSimDanConfig needs transformers: pip install 'convsim[adapt]'"
