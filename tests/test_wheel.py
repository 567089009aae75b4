"""The wheel: its files and dependencies, and encoding where only the wheel and its dependencies are installed."""

import ast
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import numpy as np
import pytest
import torch
from packaging.requirements import Requirement
from transformers import PreTrainedTokenizerFast

from modeling_convsim import ConvSimDanConfig, ConvSimDanForMultitask
from modeling_convsim.encoding import Encoder
from trainer.publish.folder import build_folder, embed_all_sides

ROOT = Path(__file__).resolve().parents[1]
TEXTS = ["How old is the cat?", "we walk", "zzz", ""]
# Encodes in the three ways that need no other package; `modules` are those that must not be installed.
READER = """
import importlib.util, json, sys

folder, library, texts, modules, *paths = json.loads(sys.argv[1])
sys.path += paths
import modeling_convsim
import torch
from modeling_convsim import ConvSimDanConfig, ConvSimDanForMultitask
from modeling_convsim.encoding import Encoder
from transformers import AutoModel, AutoTokenizer

assert modeling_convsim.__file__.startswith(library), modeling_convsim.__file__
unexpected = [name for name in modules if importlib.util.find_spec(name)]
assert not unexpected, f"not required, but installed: {unexpected}"
batch = AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
with torch.inference_mode():
    pooled = AutoModel.from_pretrained(folder).eval()(batch["input_ids"], batch["attention_mask"]).pooler_output
encoder = Encoder.from_pretrained(folder)
vectors = {"AutoModel": pooled, "input": encoder.encode(texts), "response": encoder.encode(texts, side="response")}
print(json.dumps({name: rows.tolist() for name, rows in vectors.items()}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the repository's files, without a network."""
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("modeling_convsim", "trainer", "data_scripts", "tests"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    pip("wheel", str(source), "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder))
    (file,) = folder.iterdir()
    return file


def pip(command: str, *words: str) -> None:
    """Runs pip; it must succeed."""
    options = ["--quiet", "--disable-pip-version-check", "--no-index"]
    done = subprocess.run([sys.executable, "-m", "pip", command, *options, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def required(wheel: Path, extra: str = "") -> set[str]:
    """The names of the distributions that the wheel requires, with those of an extra."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return applicable(Parser().parsestr(archive.read(name).decode()).get_all("Requires-Dist", []), extra)


def applicable(requirements: list[str], extra: str = "") -> set[str]:
    """The names of the requirements that apply to this Python without extras, or with one extra."""
    parsed = map(Requirement, requirements)
    return {one.name for one in parsed if one.marker is None or one.marker.evaluate({"extra": extra})}


def imported_packages(folder: Path) -> set[str]:
    """The top-level packages that a package's modules import, without the standard library and the package itself."""
    modules: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                modules.add(node.module)
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_extra":
                modules |= {word.value for word in node.args[:1] if isinstance(word, ast.Constant)}
    return {module.partition(".")[0] for module in modules} - sys.stdlib_module_names - {folder.name}


def link_installed(names: set[str], folder: Path) -> None:
    """Links in `folder` to the installed distributions and to everything that they require."""
    todo, done = set(names), set()
    while todo:
        name = todo.pop()
        done.add(name)
        distribution = importlib.metadata.distribution(name)
        for top in {path.parts[0] for path in distribution.files or []} - {"..", "__pycache__"}:
            if not (folder / top).exists():
                (folder / top).symlink_to(Path(str(distribution.locate_file(top))).resolve())
        todo |= applicable(distribution.requires or []) - done


def test_wheel_contains_two_packages_with_their_data(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
    paths = (path for package in ("modeling_convsim", "data_scripts") for path in (ROOT / package).rglob("*.*"))
    assert files == {str(path.relative_to(ROOT)) for path in paths if path.suffix != ".pyc"}


def test_wheel_declares_the_packages_that_it_imports(wheel: Path) -> None:
    optional = required(wheel, "suggest") - required(wheel)
    assert optional == {"faiss-cpu", "pyarrow"}
    declared = {name.removesuffix("-cpu").replace("-", "_") for name in required(wheel) | optional}
    of_files = {"backports_zstd", "filelock", "huggingface_hub", "data_scripts"}  # what data_scripts.files imports
    assert declared | of_files == imported_packages(ROOT / "modeling_convsim") | of_files


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

    absent = ["trainer", "tests", "sentence_transformers", "datasets", "scipy", "pyarrow", "upath", "faiss"]
    argument = json.dumps([str(folder), str(library), TEXTS, absent, str(library), str(links)])
    # -I and -S: neither the clone, nor PYTHONPATH, nor the environment's packages and .pth files are on sys.path.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", READER, argument], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]

    vectors = json.loads(done.stdout)
    encoder = Encoder.from_pretrained(folder)
    assert np.allclose(
        vectors["AutoModel"], embed_all_sides(model.eval(), tiny_tokenizer, TEXTS).inputs, rtol=0, atol=1e-6
    )
    assert np.allclose(vectors["input"], encoder.encode(TEXTS), rtol=0, atol=1e-6)
    assert np.allclose(vectors["response"], encoder.encode(TEXTS, side="response"), rtol=0, atol=1e-6)
