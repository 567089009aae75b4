"""Says why most reply links of a log name messages that are not there, such as ids with a prefix."""

from collections.abc import Callable

import ibis.expr.types as ir
import numpy as np

from data_scripts.clean.filters import PAIR
from data_scripts.dataset_folders import Report
from data_scripts.pairs.engines import materialize

LOST = "message answered is not there"
BASE_36 = 1_000  # numbers that are looked up in base 36
_PREFIX = r"^[^\s_:/#<>-]{1,20}[_:/#-]"

Form = Callable[[ir.StringValue], ir.StringValue]
_FORMS: dict[str, tuple[Form, Form]] = {  # how they differ -> the forms of a link and of an id that are equal
    "a prefix that the ids do not have; remove it": (lambda text: text.re_replace(_PREFIX, ""), lambda text: text),
    "no prefix, as the ids have; add it": (lambda text: text, lambda text: text.re_replace(_PREFIX, "")),
    "another prefix than the ids; let both have the same": (lambda text: text.re_replace(_PREFIX, ""),) * 2,
    "other zeros before a number, decimals, spaces, brackets or capitals than the ids; write both in the same way": (
        lambda text: (
            text.lower().re_replace(r"[\s<>\"',]", "").re_replace(r"^0+([^.])", r"\1").re_replace(r"\.0+$", "")
        ),
    )
    * 2,
}


def explain_lost_links(messages: ir.Table, report: Report) -> str | None:
    """Why replies name messages that are not there, and what to do; None if there are fewer of them than of pairs.

    Args:
        messages: the columns of `schemas.MESSAGE_SCHEMA`.
        report: with the counts of the kept turns.
    """
    counts = report.get("kept turns", {})
    if counts.get(LOST, 0) <= counts.get(PAIR, 0):
        return None
    links = messages.filter(messages.parent.notnull() & (messages.parent != "")).select("source", link="parent")
    lost = materialize(links.anti_join(messages.select("source", link="id"), ["source", "link"]), "lost links")
    total, missing = (table.count().to_pyarrow().as_py() for table in (links, lost))
    link, name = lost.link.min().to_pyarrow().as_py(), messages.id.min().to_pyarrow().as_py()
    return (
        f"{missing:,} of {total:,} replies name messages that are not there, such as {link!r}, where the ids are such "
        f"as {name!r}: {_reason(lost, messages, missing)}"
    )


def _reason(lost: ir.Table, messages: ir.Table, missing: int) -> str:
    ids = messages.select("source", id="id")
    for difference, (of_link, of_id) in _FORMS.items():
        forms = lost.select("source", key=of_link(lost.link)), ids.select("source", key=of_id(ids.id))
        if _is_most(forms[0].semi_join(forms[1], ["source", "key"]), missing):
            return f"they have {difference}"
    numbers = lost.filter(lost.link.re_search(r"^[0-9]{2,18}$")).link.to_pyarrow().unique()[:BASE_36].to_pylist()
    names = [np.base_repr(int(number), 36).lower() for number in numbers]
    if numbers and _is_most(
        ids.filter(ids.id.re_replace(_PREFIX, "").isin(names)).select("id").distinct(), len(numbers)
    ):
        return f"they are numbers, and the ids the same in base 36 ({numbers[0]} is {names[0]!r}); convert them"
    if _is_most(lost.semi_join(ids.select(link="id"), "link"), missing):
        return (
            "those are in another file or source; write the files as one, or give them a column with the same value "
            "(--columns source=NAME)"
        )
    return "name the file that has those, too; in a table, name the right columns (--columns id=NAME parent=NAME)"


def _is_most(found: ir.Table, missing: int) -> bool:
    return found.count().to_pyarrow().as_py() * 2 > missing
