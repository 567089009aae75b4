"""Models of the Hub: options of downloads, and the causes of errors."""

import os
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants
import numpy as np
import pytest

from modeling_convsim import Encoder
from modeling_convsim.suggestion import ReplyIndex
from tests.loopback_hub import READ_TOKEN, LoopbackHub, Repository
from tests.modeling_convsim.tiny_models import build, save

TEXTS = ["hello you", "how old are you?"]
FIRST, SECOND = "a" * 40, "b" * 40


@pytest.fixture(scope="module")
def files(tiny_tokenizer, tmp_path_factory) -> dict[str, dict[str, bytes]]:
    """The files of two versions of a model."""
    versions = {}
    for commit, kind in ((FIRST, "dan"), (SECOND, "dan_best")):
        folder = tmp_path_factory.mktemp(kind)
        save(build(kind), tiny_tokenizer, folder)
        versions[commit] = {path.name: path.read_bytes() for path in folder.iterdir()}
    return versions


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackHub]:
    with LoopbackHub() as server:
        yield server


@pytest.fixture
def hub(server, files, tmp_path, monkeypatch) -> LoopbackHub:
    """A Hub with the model; requests of this process, and its cache, go there."""
    constants = huggingface_hub.constants
    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    commits = [(commit, "", contents) for commit, contents in files.items()]
    server.repositories = {
        ("models", "me/model"): Repository({}, commits),
        ("models", "me/private"): Repository({"visibility": "private"}, commits),
    }
    server.requests.clear()
    server.script = lambda number: None
    return server


def test_a_revision_is_a_version_of_the_model(hub, tmp_path):
    newest, named, passed = (
        Encoder.from_pretrained("me/model"),
        Encoder.from_pretrained(f"me/model@{FIRST}"),
        Encoder.from_pretrained("me/model", revision=FIRST),
    )
    assert newest.model.config.normalize_response and not named.model.config.normalize_response
    np.testing.assert_array_equal(named.encode(TEXTS), passed.encode(TEXTS))
    ReplyIndex.build(passed, TEXTS).save(tmp_path / "index")
    opened = ReplyIndex.load(tmp_path / "index", local_files_only=True)  # the index names the revision
    np.testing.assert_array_equal(opened.encoder.encode(TEXTS), passed.encode(TEXTS))


def test_a_private_model_needs_a_token(hub):
    with pytest.raises(
        ValueError,
        match=r"^cannot open the model me/private: no such folder here, and the Hub says: .*Repository Not Found",
    ):
        Encoder.from_pretrained("me/private")
    assert Encoder.from_pretrained("me/private", token=READ_TOKEN).encode(TEXTS).shape[0] == 2


def test_a_cache_serves_without_a_connection(hub, tmp_path):
    with pytest.raises(ValueError, match=r"me/model: no such folder here, and the Hub says: .*local_files_only=False"):
        Encoder.from_pretrained("me/model", local_files_only=True)
    Encoder.from_pretrained("me/model", cache_dir=tmp_path / "other")
    requests = len(hub.requests)
    Encoder.from_pretrained("me/model", cache_dir=tmp_path / "other", local_files_only=True)
    assert len(hub.requests) == requests


def test_only_the_files_that_are_read_are_downloaded(hub, files):
    files = files[SECOND] | {"model.onnx": b"large", "pictures/plot.png": b"picture"}
    hub.repositories["models", "me/model"] = Repository({}, [(FIRST, "", files)])
    Encoder.from_pretrained("me/model")
    downloaded = {request.rpartition("/")[2] for request in hub.requests if "/resolve/" in request}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= downloaded
    assert not downloaded & {"model.onnx", "plot.png"}


def test_an_incomplete_download_is_named(hub, files):
    contents = {name: content for name, content in files[SECOND].items() if name != "tokenizer.json"}
    hub.repositories["models", "me/model"] = Repository({}, [(FIRST, "", contents)])
    with pytest.raises(ValueError, match=r"^me/model holds no tokenizer.json: expected"):
        Encoder.from_pretrained("me/model")


@pytest.mark.parametrize(
    ("name", "answer", "message"),
    [
        ("me/none", None, "no such folder here, and the Hub says: .*Repository Not Found"),
        ("runs/none/model", None, r"no such folder, and not a Hub id \(OWNER/NAME or OWNER/NAME@REVISION\)"),
        ("me/model@v9", None, "no such folder here, and the Hub says: .*Revision Not Found"),
        ("me/model", 403, "no such folder here, and the Hub says: .*403"),
        ("me/model", "refuse", "no such folder here, and the Hub says: "),
    ],
)
def test_an_error_names_its_cause(hub, name, answer, message):
    hub.script = lambda number: answer
    with pytest.raises(ValueError, match=f"^cannot open the model {name}: {message}"):
        Encoder.from_pretrained(name)


def test_an_error_of_offline_mode_names_the_variable(hub, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match=r"no such folder here, and the Hub says: .*HF_HUB_OFFLINE=0"):
        Encoder.from_pretrained("me/model")


def test_a_folder_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    def refuse(folder: Path) -> None:
        raise PermissionError(13, os.strerror(13), str(folder))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(ValueError, match=rf"^cannot open the model {tmp_path}: {tmp_path} cannot be read \(Permission"):
        Encoder.from_pretrained(tmp_path)
