"""Outputs of commands that write to a disk: a URL is refused, and does not become a folder with its scheme's name."""

import importlib

import pytest

# Words that a command needs before it looks at its output.
WRITERS = {
    "modeling_convsim.encoding.__main__": ["MODEL", "texts.txt"],
    "modeling_convsim.suggestion.__main__:index": ["texts.txt"],
    "trainer.evaluation.__main__": ["MODEL"],
    "trainer.export.__main__": ["MODEL"],
    "trainer.report.__main__": ["--plan", "PLAN"],
}


@pytest.mark.parametrize("command", WRITERS)
def test_a_url_where_a_path_is_expected_is_no_new_folder(tmp_path, capsys, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    module, _, function = command.partition(":")
    main = getattr(importlib.import_module(module), function or "main")
    try:
        code = main([*WRITERS[command], "--output", "s3://bucket/folder"])
    except SystemExit as exited:
        code = exited.code
    assert code == 2 and "s3://bucket/folder: a URL, expected a local path" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())
