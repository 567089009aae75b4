"""`download` builds the folders of public datasets: the catalog of these tests names files of a local server."""

import functools
import json
import shutil
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from data_scripts.__main__ import main
from data_scripts.commands import download
from data_scripts.loading import load_columns, load_pairs
from data_scripts.public_datasets import PublicDataset, PublicFile, public_datasets

NLI = "premise\thypothesis\tlabel\nA cat naps.\tAn animal naps.\tentailment\n"
UTTERANCES = [
    {"id": "1", "speaker": "Ann", "conversation_id": "1", "reply-to": None, "text": "Where is the tea in this house?"},
    {"id": "2", "speaker": "Ben", "conversation_id": "1", "reply-to": "1", "text": "It is in the cupboard over there."},
]


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """The files of the server: a table, and archives."""
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "train.tsv").write_text(NLI)
    with zipfile.ZipFile(folder / "films.zip", "w") as archive:
        archive.writestr("films/utterances.jsonl", "".join(f"{json.dumps(row)}\n" for row in UTTERANCES))
        archive.writestr("films/speakers.json", "{}")
    with zipfile.ZipFile(folder / "sts.zip", "w") as archive:
        archive.writestr("gold/STS.input.MSRpar.txt", "A cat.\tA kitten.\n")
        archive.writestr("gold/STS.gs.MSRpar.txt", "4.5\n")
        archive.writestr("__MACOSX/gold/._STS.gs.MSRpar.txt", "")
    return folder


@pytest.fixture
def requests(served: Path) -> Iterator[list[str]]:
    """The paths that the server was asked for; the last is its own address."""
    paths: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/hang.tsv":
                time.sleep(1)
            elif self.path == "/cut.tsv":
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b"premise")
            else:
                super().do_GET()

        def log_message(self, format: str, *args: object) -> None:
            paths.append(self.path)

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(served)))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    paths.append(f"http://127.0.0.1:{server.server_port}")
    yield paths
    server.shutdown()
    server.server_close()


@pytest.fixture
def catalog(requests: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, PublicDataset]]:
    """The catalog of a test; the working directory is an empty folder."""
    (address,) = requests
    datasets = [
        PublicDataset(
            "nli/toy",
            "nli",
            files=(PublicFile(f"{address}/train.tsv", "toy-train.tsv"),),
            license="cc0-1.0",
            megabytes=2,
        ),
        PublicDataset(
            "talk",
            "conversations",
            files=(PublicFile(f"{address}/films.zip", "films.jsonl", members=("*utterances*",)),),
        ),
        PublicDataset("sts", "sts", files=(PublicFile(f"{address}/sts.zip", members=("*STS.*",), folder="2012-test"),)),
    ]
    public_datasets.cache_clear()
    entries = {dataset.name: dataset for dataset in datasets}
    for module in ("commands.download", "public_datasets"):
        monkeypatch.setattr(f"data_scripts.{module}.public_datasets", lambda: entries)
    monkeypatch.chdir(tmp_path)
    yield entries
    public_datasets.cache_clear()


def test_datasets_are_downloaded_and_built(catalog: dict, requests: list[str], capsys: pytest.CaptureFixture) -> None:
    assert main(["download", "nli/toy", "data/talk", "sts"]) == 0
    printed = capsys.readouterr().out
    assert "0 of 3 datasets already exist in data" in printed
    assert load_columns("data/nli/toy", ("premise", "label"))["train"]["premise"] == ["A cat naps."]
    assert "license: cc0-1.0" in Path("data/nli/toy/README.md").read_text()
    assert load_pairs("data/talk")["train"]["response"] == [UTTERANCES[1]["text"]]
    assert load_columns("data/sts", ("year", "set"))["test"]["set"] == ["MSRpar"]
    assert sorted(requests[1:]) == ["/films.zip", "/sts.zip", "/train.tsv"]
    assert {file.relative_to("data/downloads").as_posix() for file in Path("data/downloads").rglob("*.*")} == {
        "nli/toy/toy-train.tsv",
        *("talk/films.zip", "talk/films.jsonl"),
        *(f"sts/2012-test/{name}" for name in ("sts.zip", "STS.input.MSRpar.txt", "STS.gs.MSRpar.txt")),
    }


@pytest.mark.parametrize("name", ["quickstart", "mine", "mine.yaml"])
def test_what_a_preset_needs_is_built(catalog: dict, name: str) -> None:
    catalog["sample"] = PublicDataset("sample", "sample")
    Path("mine.yaml").write_text("extends: quickstart\nsnli: null  # not data/sts\n")
    assert main(["download", name]) == 0
    assert {path.name for path in Path("data").iterdir()} == {"sample"}
    assert len(load_pairs("data/sample")["train"]) > 1000


def test_what_exists_is_left_and_what_was_downloaded_is_used(
    catalog: dict, requests: list[str], capsys: pytest.CaptureFixture
) -> None:
    assert main(["download", "nli/toy", "-o", "mine"]) == 0
    assert main(["download", "nli/toy", "nli/toy", "-o", "mine"]) == 0
    assert "1 of 1 datasets already exist in mine" in capsys.readouterr().out
    shutil.rmtree("mine/nli/toy")
    assert main(["download", "nli/toy", "-o", "mine"]) == 0
    assert requests[1:] == ["/train.tsv"]


def test_the_catalog_is_printed_without_names(catalog: dict, capsys: pytest.CaptureFixture) -> None:
    assert main(["download"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["name", "command", "MB", "license", "source"]
    assert rows[0].split() == ["nli/toy", "nli", "2", "cc0-1.0", rows[1].split()[-1]]
    assert rows[1].split()[:5] == ["talk", "conversations", "?", "not", "stated"]
    assert list(Path().iterdir()) == [Path("served")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["nli/tov"],
            "'nli/tov': no such public dataset or preset; did you mean 'nli/toy'?; `convsim data download` lists them",
        ),
        (["absent.yaml"], "'absent.yaml': no such public dataset or preset"),
        (["damaged.yaml"], "damaged.yaml: not readable as YAML: "),
        (["adapt"], "adapt: uses no public dataset, so there is nothing to download"),
    ],
)
def test_a_mistake_is_one_line(catalog: dict, capsys: pytest.CaptureFixture, words: list[str], message: str) -> None:
    Path("damaged.yaml").write_text("pairs: [")
    assert main(["download", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {message}")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("nli/toy", {"address": "gone.tsv"}, "gone.tsv: cannot be downloaded (the file does not exist)"),
        ("nli/toy", {"address": "cut.tsv"}, "cut.tsv: cannot be downloaded (Response payload is not completed"),
        ("nli/toy", {"address": "hang.tsv"}, "hang.tsv: cannot be downloaded ("),
        ("nli/toy", {"sha256": "0" * 64}, "train.tsv: the SHA-256 is"),
        ("sts", {"members": ["*.xml"]}, "sts.zip: contains no file *.xml; the archive may have changed"),
        ("sts", {"address": "train.tsv", "name": ""}, "train.tsv: not a readable .zip"),
    ],
)
def test_a_failed_download_is_named_and_leaves_no_file(
    catalog: dict[str, PublicDataset],
    requests: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    change: dict[str, Any],
    message: str,
) -> None:
    monkeypatch.setattr(download, "TIMEOUT_SECONDS", 0.2)
    if "address" in change:
        change = change | {"address": f"{requests[0]}/{change['address']}"}
    catalog[name] = replace(catalog[name], files=(replace(catalog[name].files[0], **change),))
    assert main(["download", name]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert [path for path in Path("data").rglob("*") if path.is_file() and path.suffix not in (".zip", ".tsv")] == []
    assert not Path("data", name).exists()
