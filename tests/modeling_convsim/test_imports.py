"""Importing the package registers its models; no import of the project uses the network or gensim."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STATEMENTS = [
    "import modeling_convsim",
    "from modeling_convsim.modeling_base import ConvSimConfig",
    "from modeling_convsim.encoding import Encoder",
    "from modeling_convsim import ConvSimDanConfig, Encoder; assert ConvSimDanConfig.label == 'DAN'",
]
# Imports the libraries once, then runs each statement in a fork, and at last imports every module of the project.
PROGRAM = """
import json, os, pkgutil, sys
from importlib import import_module

connections = []

def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        connections.append(f"{event} {arguments[1:]}")

sys.addaudithook(watch)
import torch
from transformers import AutoConfig, AutoModel, AutoModelForPreTraining, PreTrainedModel
assert "modeling_convsim" not in sys.modules
registered = []
for statement in json.loads(sys.argv[1]):
    if not (child := os.fork()):
        exec(statement)
        os._exit(0 if AutoConfig.for_model("convsim_dan").label == "DAN" else 1)
    registered.append(os.waitpid(child, 0)[1] == 0)
modules = [
    module.name
    for package in map(import_module, ("modeling_convsim", "data_scripts", "trainer"))
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    if module.name.rpartition(".")[2] not in ("__main__", "app")
]
for module in modules:
    import_module(module)
has_gensim = "gensim" in sys.modules
print(json.dumps({"registered": registered, "has_gensim": has_gensim, "connections": connections}))
"""


@pytest.fixture(scope="module")
def imports() -> dict:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "0"}
    command = [sys.executable, "-c", PROGRAM, json.dumps(STATEMENTS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_import_registers_the_models(imports):
    assert imports["registered"] == [True] * len(STATEMENTS)


def test_no_import_needs_gensim(imports):
    assert not imports["has_gensim"]


def test_no_import_uses_the_network(imports):
    assert imports["connections"] == []
