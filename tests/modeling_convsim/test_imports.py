"""Importing the package, or a module of it, registers its models."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Imports the libraries once, then runs each statement in a fork. In the first fork, before transformers is imported, a
# file of the models imports it while it is itself being imported.
PROGRAM = """
import os, sys
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
without_pyarrow = "sys.modules['pyarrow'] = None; import modeling_convsim.encoding.__main__"  # an optional package
for statement in ("import modeling_convsim", without_pyarrow):
    if not (child := os.fork()):
        exec(statement)
        assert AutoConfig.for_model("convsim_dan").label == "DAN"
        from modeling_convsim import ConvSimDanConfig, Encoder
        os._exit(0 if ConvSimDanConfig.label == "DAN" else 1)
    assert os.waitpid(child, 0)[1] == 0, statement
"""


def test_import_registers_the_models() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


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
