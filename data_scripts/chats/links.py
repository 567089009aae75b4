"""Handles reply links with another prefix than the message ids (t1_abc and abc), and links to missing messages."""

import ibis
import ibis.expr.types as ir

from data_scripts.clean.filters import PAIR
from data_scripts.dataset_folders import Report
from data_scripts.pairs.engines import materialize

LOST, READ_WITHOUT_PREFIX = "original message missing", "replies read without a prefix"
_PREFIX = r"^[^\s_:/#<>-]{0,20}[_:/#-]"


def read_without_prefixes(messages: ir.Table) -> tuple[ir.Table, int]:
    """The messages with links as the ids are written, in sources where no link names a message as it is written.

    Args:
        messages: the columns of `schemas.MESSAGE_SCHEMA`.

    Returns:
        The messages, and how many links are read without their prefix, or that of the id.
    """
    links = messages.filter(messages.parent.notnull() & (messages.parent != "")).select("row", "source", "parent")
    if not links.count().to_pyarrow().as_py():
        return messages, 0
    read = links.semi_join(messages.select("source", parent="id"), ["source", "parent"]).select("source")
    lost = links.anti_join(read, "source").mutate(bare=links.parent.re_replace(_PREFIX, ""))
    ids = messages.group_by("source", bare=messages.id.re_replace(_PREFIX, ""))
    ids = ids.agg(id=ibis._.id.min(), number=ibis._.id.nunique()).filter(ibis._.number == 1)
    found = materialize(lost.inner_join(ids, ["source", "bare"]).select(key="row", found="id"), "links")
    count = found.count().to_pyarrow().as_py()
    if count:
        joined = messages.left_join(found, messages.row == found.key)
        messages = joined.mutate(parent=ibis.coalesce(joined.found, joined.parent)).select(messages.columns)
    return messages, count


def explain_lost_links(report: Report) -> str | None:
    """What the user can do if more replies refer to missing messages than become pairs; else None."""
    counts = report.get("kept turns", {})
    lost = counts.get(LOST, 0)
    if lost <= counts.get(PAIR, 0):
        return None
    return (
        f"{lost:,} replies refer to missing messages; add the file that contains them, and give all files of a log the "
        "same source (--columns source=NAME); in a table, check the columns of ids and reply links (--columns id=NAME "
        "parent=NAME): their values must be spelled alike"
    )
