"""Names of the Hub, its errors, uploads and cards."""

import html

import datasets
import pytest
from datasets import Dataset, DatasetDict

from data_scripts.__main__ import main
from data_scripts.loading import assign_splits, load_columns, rename_splits
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.hub import escape_text, is_hub_name


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("me/chats", True),
        ("me/chats:data/*.tsv@main", True),
        ("me/chats.v2", True),
        ("me/chats.tsv", False),  # a file that is not there
        ("chats", False),
        ("./me/chats", False),
        ("a/b/chats", False),
        ("here/chats", False),
    ],
)
def test_an_input_of_a_command_that_reads_files_is_a_hub_id_only_if_it_cannot_be_a_file(
    source, expected, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    assert is_hub_name(source, (".tsv",)) is expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["train", "dev", "test"], ["train", "validation", "test"]),
        (["val_matched", "devices"], ["validation_matched", "devices"]),
        (["dev", "validation"], ["dev", "validation"]),
    ],
)
def test_splits_for_development_are_validation(names, expected):
    assert list(rename_splits(dict.fromkeys(names))) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["train", "restval", "val", "test"], {"train": [0, 1], "validation": [2], "test": [3]}),
        (["DEV", "train"], {"validation": [0], "train": [1]}),
        (["train", "3"], {"all": [0, 1]}),
        (["train", None], {"all": [0, 1]}),
    ],
)
def test_a_column_assigns_rows_to_splits_if_all_its_values_name_one(values, expected):
    rows = Dataset.from_dict({"split": values, "row": range(len(values))})
    assigned = assign_splits(DatasetDict({"all": rows}))
    assert {name: split["row"][:] for name, split in assigned.items()} == expected


def test_a_dataset_that_was_not_loaded_before_is_an_error_offline(monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=r"me/chats: no such file or folder here, and: .*me/chats"):
        load_columns("me/chats", ("text",))


@pytest.mark.parametrize(
    "words",
    [
        "conversations s3://bucket/chat.csv -o {folder}",
        "captions s3://bucket/images -o {folder}/out",
        "sts {folder} -o s3://bucket/out",
        "download snli -o s3://bucket/data",
    ],
)
def test_a_url_where_only_paths_are_read_is_one_line(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train-00000-of-00001.parquet").write_bytes(b"")
    try:
        code = main(words.format(folder=tmp_path).split())
    except SystemExit as ended:
        code = ended.code
    error = capsys.readouterr().err
    assert code == 2 and error.count("\n") == 1 and ": a URL, expected a local path" in error
    assert [path.name for path in tmp_path.iterdir()] == ["train-00000-of-00001.parquet"]


markdown_it = pytest.importorskip("markdown_it")

NAMES = ["reddit_cmv_threads", "<b>x</b>", "a | b", "# x", "1. x", "12) x", "- x", "+ x", "> x", "*a* _b_ __c__ ~~d~~"]
NAMES += [
    "[a](http://b.org)",
    "![a](b)",
    "`a` ``b``",
    "\\",
    "a\\|b",
    "&lt;",
    "0.7100",
    "+0.42",
    "www.a.org",
    "$x$",
    "`",
]
NAMES += ["jane@a.org", "http://a.org", "C#", "a_b_c", "--- x"]


def rendered(text: str) -> str:
    return markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_shown_as_it_is(name):
    assert rendered(escape_text(name)) == f"<p>{html.escape(name)}</p>\n"
    assert rendered(f"- {escape_text(name)}") == f"<ul>\n<li>{html.escape(name)}</li>\n</ul>\n"
    assert f"<td>{html.escape(name)}</td>\n<td>x</td>" in rendered(f"| a | b |\n|---|---|\n| {escape_text(name)} | x |")


def test_a_name_is_one_line():
    assert escape_text("a\n\n# b\r\u2028c") == "a \\# b c"
