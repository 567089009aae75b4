"""Columns that say which records are left out: internal notes, messages of bots, events, and wrong answers."""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from data_scripts.chats.column_roles import FALSE, TRUE, is_named, look_up, plain_name
from modeling_convsim.files.records import Record

BOT, NOTE = "bot", "internal note"
_MISSING = {"none", "nan", ""}
_NOTE_KINDS = {"note", "internal note", "private note"}
_BOT_FLAG = re.compile(r"(?:\w+ )*(?:chat)?bot|(?:is )?(?:automated|ai)")
_BOT = re.compile(r"(?:\w+[ _-])?(?:chat ?)?bot(?:[ _-]message)?|(?:ai|virtual)[ _-](?:agent|assistant)")
# The types of Skype have a slash; those of texts are Text, RichText and RichText/Html.
_EVENT = re.compile(
    r"system(?:[ _-]?message)?|notice|poll|popcard|richtext/(?!html|sms).*|"
    r"(?:event|threadactivity|endtoendencryption|\w+changed)/.*"
)

Rule = Callable[[str], str | None]  # a value in lower case -> why its record is left out


@dataclass(frozen=True)
class Marks:
    """The columns that say which records are left out.

    Attributes:
        rules: column -> what its values say.
        keeps_bots: whether the messages of bots stay, because nobody else answers.
    """

    rules: dict[str, Rule]
    keeps_bots: bool = False

    def reason(self, record: Record) -> str | None:
        """Why a record is left out; None if it is not."""
        for name, rule in self.rules.items():
            value = str(look_up(record, name)).strip().lower()
            kind = rule(value) if value not in _MISSING else None
            if kind and not (kind == BOT and self.keeps_bots):
                return kind
        return None


def find_marks(columns: Sequence[str], rows: Sequence[Record], names: dict[str, str]) -> Marks:
    """What says which messages are left out.

    A column that marks all of `rows` is not used. Those of bots stay if no two other authors write in a conversation.

    Args:
        columns: of the records.
        rows: the first records.
        names: role -> column.
    """
    rules = {name: rule for name in columns if (rule := rule_of(name))}
    rules = {name: rule for name, rule in rules.items() if any(not Marks({name: rule}).reason(row) for row in rows)}
    found = Marks(rules)
    reasons = [found.reason(row) for row in rows]
    speakers = defaultdict[str, set[str]](set)
    for row, reason in zip(rows, reasons, strict=True):
        if not reason:
            roles = ("thread",) if "thread" in names else ("parent", "id") if "parent" in names else ()
            place = next((str(value) for role in roles if (value := look_up(row, names[role]))), "")
            speakers[place].add(str(look_up(row, names.get("speaker", ""))))
    return Marks(rules, BOT in reasons and all(len(each) < 2 for each in speakers.values()))


def find_verdicts(columns: Sequence[str], rows: Sequence[Record], names: dict[str, str]) -> Marks:
    """The columns of ready pairs that say which answers are wrong: they have no other values than 0 and 1, or the like.

    A column `label` says something else if it is never 1. The arguments are those of `find_marks`.
    """
    found: dict[str, Rule] = {}
    for name in columns:
        values = {str(look_up(row, name)).strip().lower() for row in rows} - _MISSING
        is_verdict = is_named(name, "verdicts") or (is_named(name, "labels") and values & TRUE)
        if is_verdict and values <= TRUE | FALSE and name not in names.values():
            found[name] = _rule(FALSE, f"wrong answer ({name})")
    return Marks(found)


def _rule(marked: frozenset[str], kind: str) -> Rule:
    """The rule of a column some of whose values mark a record as one of this kind."""
    return lambda value: kind if value in marked else None


def rule_of(name: str) -> Rule | None:
    """What a column says of messages that are left out; None if it is not named like one that does."""
    field = plain_name(name.rpartition(".")[2])
    if is_named(name, "notes"):
        return _rule(TRUE, NOTE)
    if is_named(name, "public"):
        return _rule(FALSE, NOTE)
    if _BOT_FLAG.fullmatch(field):
        return _rule(TRUE, BOT)
    if field == "bot id":
        return lambda value: None if value in FALSE else BOT
    return _kind if is_named(field, "types") else None


def _kind(value: str) -> str | None:
    if _BOT.fullmatch(value):
        return BOT
    return NOTE if value in _NOTE_KINDS else f"type {value}" if _EVENT.fullmatch(value) else None
