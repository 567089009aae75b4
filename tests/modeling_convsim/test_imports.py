"""When torch and transformers are imported and the models registered, in new processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"torch", "transformers", "numpy", "gradio"}
REGISTERED = "from transformers import AutoConfig; print(AutoConfig.for_model('convsim_dan').label)"
# A script whose child process does nothing but unpickle its task's function and look up a model type.
SPAWN = """
import multiprocessing

import modeling_convsim


def label(name):
    from transformers import AutoConfig

    return AutoConfig.for_model(name).label


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(label, ["convsim_dan"]))
"""


def python(*words: str | Path, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess:
    """Runs Python with the clone's packages; it must succeed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", **variables}
    done = subprocess.run([sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done


def imported(*words: str | Path) -> set[str]:
    """The top-level packages that a command imports."""
    lines = python("-X", "importtime", *words).stderr.splitlines()
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines if line.startswith("import time:")}


@pytest.mark.parametrize(
    "command",
    [
        ("-m", "modeling_convsim.encoding"),
        ("-m", "modeling_convsim.suggestion"),
        ("-m", "modeling_convsim.suggestion", "build"),
        (ROOT / "model_cards" / "space" / "app.py",),
    ],
)
def test_help_imports_no_heavy_package(command):
    packages = imported(*command, "--help")
    assert "argparse" in packages and not packages & HEAVY


# Each runs in a process of its own; what it prints is the test's result.
PROGRAMS = {
    statement: f"{statement}; {REGISTERED}"
    for statement in (
        "import modeling_convsim",
        "from modeling_convsim.modeling_base import ConvSimConfig",
        "from modeling_convsim.encoding import Encoder",
    )
}
# `python -m tool modeling_convsim`, as the interpreter runs it.
PROGRAMS["dash_m"] = """
import runpy, sys
sys.orig_argv, sys.argv = ["python", "-m", "tool", "modeling_convsim"], ["-m", "modeling_convsim"]
sys.path.insert(0, "")
runpy._run_module_as_main("tool")
"""
PROGRAMS["spawn"] = """
import runpy, sys
sys.argv = ["script.py"]
runpy.run_path("script.py", run_name="__main__")
"""
# What `python -m modeling_convsim.encoding` sees: nothing is registered until a name is used.
PROGRAMS["command"] = """
import sys
sys.orig_argv, sys.argv = ["python", "-m", "modeling_convsim.encoding"], ["-m"]
import modeling_convsim
sys.argv = ["encoding/__main__.py"]
assert "modeling_convsim.registry" not in sys.modules
assert "Encoder" in dir(modeling_convsim) and "modeling_convsim.registry" not in sys.modules
from modeling_convsim import ENCODERS, ConvSimDanConfig, Encoder
assert ConvSimDanConfig is ENCODERS["dan"].config_class and "ConvSimDanConfig" in modeling_convsim.__all__
try:
    modeling_convsim.missing
except AttributeError as error:
    print(error)
"""
# Imports the libraries once, then runs each program in a fork, and at last imports every module of the project.
IMPORTS = """
import atexit, json, os, pkgutil, sys, tempfile, traceback
from importlib import import_module

connections = []

def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        connections.append(f"{event} {arguments[1:]}")

sys.addaudithook(watch)
import torch
from transformers import AutoConfig, AutoModel, AutoModelForPreTraining, PreTrainedModel
assert "modeling_convsim" not in sys.modules

def run(program):
    with tempfile.TemporaryFile("w+") as output:
        if os.fork() == 0:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            try:
                exec(program, {"__name__": "__main__"})
            except BaseException:
                traceback.print_exc()
            atexit._run_exitfuncs()  # or the semaphores of a pool are reported as leaked
            sys.stdout.flush()
            os._exit(0)
        os.wait()
        output.seek(0)
        return output.read()

printed = {name: run(program) for name, program in json.loads(sys.argv[1]).items()}
import trainer.evaluation.__main__, trainer.data.teacher
has_gensim = "gensim" in sys.modules
modules = [
    module.name
    for package in map(import_module, ("modeling_convsim", "data_scripts", "trainer"))
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    if module.name.rpartition(".")[2] not in ("__main__", "app")
]
for module in modules:
    import_module(module)
print(json.dumps({"printed": printed, "modules": len(modules), "has_gensim": has_gensim, "connections": connections}))
"""


@pytest.fixture(scope="module")
def imports(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = tmp_path_factory.mktemp("imports")
    (folder / "script.py").write_text(SPAWN)
    # Python imports the package `tool` while sys.argv[0] is "-m", like the package of our own commands.
    (folder / "tool").mkdir()
    (folder / "tool" / "__init__.py").write_text("import modeling_convsim")
    (folder / "tool" / "__main__.py").write_text(REGISTERED)
    printed = python("-c", IMPORTS, json.dumps(PROGRAMS), cwd=folder, HF_HUB_OFFLINE="0").stdout
    return json.loads(printed.splitlines()[-1])


@pytest.mark.parametrize("program", [name for name in PROGRAMS if name != "command"])
def test_import_registers_the_models(imports, program):
    assert imports["printed"][program] == "DAN\n"


def test_only_encoders_of_gensim_import_it(imports):
    assert not imports["has_gensim"]


def test_no_import_uses_the_network(imports):
    assert imports["modules"] > 150 and imports["connections"] == []


def test_public_names_are_imported_while_python_starts_one_of_our_commands(imports):
    assert imports["printed"]["command"] == "module 'modeling_convsim' has no attribute 'missing'\n"
