"""Who answers in chat logs: checks the authors that the user names, and finds those who answer the others."""

import shlex
from collections import Counter
from collections.abc import Sequence

import ibis
import ibis.expr.types as ir

from data_scripts.chats.roles import answering_roles
from data_scripts.files.errors import InputError

SHOWN = 10  # authors, in a message
MOST_REPLIERS = 10  # that are found; more are named by a column of roles
FEWEST_REPLIES = 5  # of each
FEWEST_ASKERS = 3  # for each of them; two people who chat with each other have no roles
BETWEEN = 0.95  # of the pairs have one of them on exactly one side


def check_repliers(messages: ir.Table, repliers: Sequence[str]) -> None:
    """Check that each of the names is that of an author.

    Args:
        messages: with the column `speaker`.
        repliers: the names; empty: nothing is checked.

    Raises:
        InputError: one is not; the message has the most frequent authors.
    """
    if not repliers:
        return
    counts = messages.filter(messages.speaker.notnull()).group_by("speaker").agg(messages=ibis._.count())
    known = counts.filter(counts.speaker.isin(repliers)).to_pyarrow()["speaker"].to_pylist()
    missing = [name for name in repliers if name not in known]
    if not missing:
        return
    frequent = counts.order_by(counts.messages.desc(), "speaker").limit(SHOWN).to_pyarrow().to_pylist()
    names = ", ".join(f"{shlex.quote(each['speaker'])} ({each['messages']:,})" for each in frequent)
    remedy = f"the authors with the most messages are {names}" if names else "name their column: --columns speaker=NAME"
    raise InputError(f"--repliers {shlex.quote(missing[0])}: no message is by this author; {remedy}")


def find_repliers(pairs: Sequence[tuple[str | None, str | None]]) -> list[str]:
    """The few authors who answer many others, such as the agents of a support log; none if there are no such roles.

    Args:
        pairs: the authors of input and response of each pair.
    """
    replies = Counter(replier for _, replier in pairs if replier)
    authors = {author for pair in pairs for author in pair if author}
    if roles := answering_roles(authors):
        return roles
    partners: dict[str, set[str]] = {}
    for asker, replier in pairs:
        if asker and replier:
            partners.setdefault(replier, set()).add(asker)
    ranked = sorted(partners, key=lambda name: (-len(partners[name]), -replies[name], name))
    for count in range(1, min(MOST_REPLIERS, len(ranked)) + 1):
        found = set(ranked[:count])
        if replies[ranked[count - 1]] < FEWEST_REPLIES or len(authors) < count * (FEWEST_ASKERS + 1):
            break
        between = sum((asker in found) != (replier in found) for asker, replier in pairs)
        if between >= BETWEEN * len(pairs):
            return ranked[:count]
    return []
