"""A published card: the Hub's validator accepts it, its examples run, it names licenses."""

import re
import shlex
from pathlib import Path

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import close_session

from tests.loopback_hub import LoopbackHub
from tests.modeling_convsim.tiny_models import build
from tests.trainer.publish.test_model_card import RESULTS, SETTINGS, card_of
from trainer.export import __main__ as export
from trainer.publish import provenance
from trainer.publish.folder import build_folder
from trainer.publish.provenance import find_licenses

RUN = RESULTS["run"]
# The tasks in the Hub's list that suit a sentence encoder.
TASKS = {"sentence-similarity", "feature-extraction", "text-ranking", "text-classification"}


# -- metadata ---------------------------------------------------------------------------------------------------------


def test_the_hubs_validator_receives_the_card_and_accepts_it(tmp_path, monkeypatch):
    with LoopbackHub() as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        close_session()
        card_of(tmp_path).validate()
        assert hub.requests == ["POST /api/validate-yaml"]


# -- licenses ---------------------------------------------------------------------------------------------------------


def test_licenses_of_the_data_come_from_their_cards(tmp_path, monkeypatch):
    cards = {
        "stated": "---\nlicense: cc-by-4.0\n---\n",
        "two": "---\nlicense: [mit, cc0-1.0]\n---\n",
        "unknown": "---\nlicense: unknown\n---\n",
        "broken": "---\nlicense: [\n---\n",
        "plain": "# No metadata\n",
        "downloaded": "---\nlicense: odbl\n---\n",
    }
    for name, text in cards.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "README.md").write_text(text)
    cached = {"someone/talk": str(tmp_path / "downloaded" / "README.md")}
    monkeypatch.setattr(provenance, "try_to_load_from_cache", lambda name, *_, **__: cached.get(name))
    folders = [str(tmp_path / name) for name in cards if name != "downloaded"]
    settings = {"pairs": [*folders, "someone/talk:all@main", "someone/else"], "snli": str(tmp_path / "nowhere")}
    found = {Path(source).name: license for source, license in find_licenses(settings).items()}
    assert found == {"stated": "cc-by-4.0", "two": "mit and cc0-1.0", "talk:all@main": "odbl"}


# -- examples ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dan", "bilstm"])  # exported to ONNX, and not at all
def test_every_example_runs(kind, tiny_tokenizer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = SETTINGS | {"hub_model_id": "someone/talker"}
    folder = build_folder(build(kind), tiny_tokenizer, Path("someone/talker"), results=RESULTS, settings=settings)
    text = (folder / "README.md").read_text(encoding="utf-8")
    names: dict = {}
    cosines = []
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(block, "README.md", "exec"), names)
        cosines.append(float(names["u"] @ names["v"]))
    assert len(cosines) == 3 and cosines == pytest.approx([cosines[0]] * 3, abs=1e-4)
    commands = re.findall(r"^python -m trainer\.export (.*)$", text, flags=re.MULTILINE)
    assert len(commands) == (kind != "bilstm")
    for command in commands:
        assert export.main(shlex.split(command)) == 0
