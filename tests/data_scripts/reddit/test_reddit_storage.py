"""Dumps, files of comments and pairs at URLs of S3, on a server that the tests start."""

from pathlib import Path

import pytest

from data_scripts.__main__ import main
from tests.data_scripts.reddit.test_reddit import comment, write_dump
from tests.loopback_s3 import LoopbackS3


def dumps(folder: Path) -> list[Path]:
    folder.mkdir()
    lines = [comment("a"), comment("b", "t1_a"), {"oops": 1}, comment("c", "t1_b"), comment("d", "t1_c")]
    return [write_dump(folder / f"RC_{number}.bz2", *lines[number::2]) for number in (0, 1)]


def run(*arguments: object) -> int:
    return main(["reddit", *map(str, arguments)])


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def uploaded(s3_server: LoopbackS3, prefix: str) -> dict[str, bytes]:
    found = {key[len(prefix) :]: value for key, value in s3_server.objects.items() if key.startswith(prefix)}
    return {key: value for key, value in found.items() if not key.endswith("/") and key}


def test_urls_give_the_files_that_folders_give(s3_server, tmp_path, capsys):
    files = dumps(tmp_path / "dumps")
    assert run(tmp_path / "dumps", "--comments", tmp_path / "comments", "--output", tmp_path / "pairs") == 0
    for file in files:
        s3_server.objects[f"dumps/{file.name}"] = file.read_bytes()
    urls = "s3://bucket/dumps", "--comments", "s3://bucket/comments", "--output", "s3://bucket/pairs"
    assert run(*urls) == 0
    assert uploaded(s3_server, "pairs/") == contents(tmp_path / "pairs")
    assert uploaded(s3_server, "comments/").keys() == contents(tmp_path / "comments").keys()
    written = [key for method, key in s3_server.requests if method in ("PUT", "POST") and key.startswith("pairs/")]
    assert written[0] == written[-1] == "pairs/.written-by-convsim"  # the record of a complete output is the last
    # A second run uses the files of comments, and replaces the pairs only on request.
    capsys.readouterr()
    assert run(*urls) == 2
    assert "s3://bucket/pairs: exists already; name another folder, or replace it with --overwrite" in (
        capsys.readouterr().err
    )
    assert run(*urls, "--overwrite") == 0
    assert "2 of 2 dumps were converted by an earlier run" in capsys.readouterr().out
    assert uploaded(s3_server, "pairs/") == contents(tmp_path / "pairs")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("s3://bucket/RC_1.bz2 -o out", "s3://bucket/RC_1.bz2: cannot be read"),
        ("az://bucket/RC_1.bz2 -o out", "az://bucket/RC_1.bz2: Install adlfs"),
        ("zz://bucket/RC_1.bz2 -o out", "zz://bucket/RC_1.bz2: no access to zz://"),
        ("{dump} -o s3://bucket/out --push_to_hub me/pairs --license mit", "--push_to_hub: --output must be a local"),
    ],
)
def test_a_mistake_in_a_url_is_one_line(s3_server, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    files = dumps(tmp_path / "dumps")
    assert run(*arguments.format(dump=files[0]).split()) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {message}") and error.count("\n") == 1
