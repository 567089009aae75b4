"""Importing the package, or a module of it, registers its models."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STATEMENTS = [
    "import modeling_convsim",
    "from modeling_convsim.modeling_base import ConvSimConfig",
    "from modeling_convsim.encoding import Encoder",
    "import sys; sys.modules['pyarrow'] = None; import modeling_convsim.encoding.__main__",  # it is an optional package
    "from modeling_convsim import ConvSimDanConfig, Encoder; assert ConvSimDanConfig.label == 'DAN'",
]
# Imports the libraries once, then runs each statement in a fork. In the first fork, before transformers is imported, a
# file of the models imports it while it is itself being imported.
PROGRAM = """
import json, os, sys
import torch
if not (child := os.fork()):
    import modeling_convsim
    assert "transformers" not in sys.modules
    from modeling_convsim.modeling_heads import ConvSimForMultitask
    from transformers import AutoConfig
    assert AutoConfig.for_model("convsim_dan").label == "DAN"
    assert issubclass(modeling_convsim.ENCODERS["dan"], ConvSimForMultitask)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
from transformers import AutoConfig, AutoModel, AutoModelForPreTraining, PreTrainedModel
assert "modeling_convsim" not in sys.modules
registered = []
for statement in json.loads(sys.argv[1]):
    if not (child := os.fork()):
        exec(statement)
        os._exit(0 if AutoConfig.for_model("convsim_dan").label == "DAN" else 1)
    registered.append(os.waitpid(child, 0)[1] == 0)
print(registered)
"""


def test_import_registers_the_models() -> None:
    command = [sys.executable, "-c", PROGRAM, json.dumps(STATEMENTS)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == f"{[True] * len(STATEMENTS)}\n"


def test_finding_transformers_and_its_errors_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "transformers.py").write_text("raise ImportError('broken')")
    program = """
import sys, modeling_convsim
assert not {"torch", "transformers"} & sys.modules.keys()
from importlib.util import find_spec
for _ in range(2):
    assert find_spec("transformers").loader.get_source("transformers").startswith("raise")
    try:
        import transformers
    except ImportError as error:
        assert str(error) == "broken"
    assert "transformers" not in sys.modules
"""
    path = os.pathsep.join(map(str, (tmp_path, ROOT)))
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, capture_output=True)
    assert not done.returncode, done.stderr[-2000:]
