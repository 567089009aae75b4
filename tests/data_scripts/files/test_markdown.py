import html

import pytest

from data_scripts.files.markdown import code_span, escape_text

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


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_shown_as_code(name):
    assert rendered(f"a {code_span(name)} b") == f"<p>a <code>{html.escape(name)}</code> b</p>\n"


def test_a_name_is_one_line():
    assert escape_text("a\n\n# b\r\u2028c") == "a \\# b c" and code_span(" a\n\n b ") == "`a b`"
