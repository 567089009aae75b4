"""Writes names that come from outside into Markdown, where they must be no markup."""

import re
from typing import Any

_LINE_BREAKS = re.compile(r"[\s\x00-\x1f\x7f\x85\u2028\u2029]+")
_MARKUP = re.compile(r"[\\`*\[\]|~#$!]|(?<![^\W_])_|_(?![^\W_])|^[-+](?=\s|$)")
_LIST_NUMBER = re.compile(r"^(\d{1,9})([.)])(?=\s|$)")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"}


def escape_text(value: Any) -> str:
    """A value as one line of Markdown that is shown as it is: without HTML, links, emphasis or new cells of a table."""
    line = _MARKUP.sub(lambda match: f"\\{match[0]}", _LINE_BREAKS.sub(" ", str(value)).strip())
    line = re.sub(r"[&<>]|(?<=\w)@(?=[\w-]+\.)", lambda match: _ENTITIES[match[0]], _LIST_NUMBER.sub(r"\1\\\2", line))
    return line.replace("://", "&#58;//").replace("www.", "www&#46;")  # no links of bare addresses


def code_span(value: Any) -> str:
    """A value as code in a line of text; its backticks do not end the code."""
    line = _LINE_BREAKS.sub(" ", str(value)).strip()
    fence = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    padding = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{padding}{line}{padding}{fence}"
