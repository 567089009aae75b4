"""Suggestions that users of the page accepted, which are trained on and suggested beside the pairs of the logs."""

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from datasets import Dataset, Features, concatenate_datasets

from data_scripts.chats.conversations import ConversationOptions
from data_scripts.clean.filters import phone_regions, read_filters
from data_scripts.clean.letters import strip_letter
from data_scripts.clean.masking import mask_text
from data_scripts.clean.measures import measure
from data_scripts.clean.names import Names
from data_scripts.files.errors import InputError
from data_scripts.files.json_files import from_json
from data_scripts.files.records import check_records, read_records
from data_scripts.files.texts import BrokenLines
from data_scripts.schemas import PAIR_SCHEMA, features


@dataclass(frozen=True)
class Feedback:
    """A line of a file of feedback.

    Attributes:
        message: what was answered.
        reply: what was suggested.
        accepted: whether the user accepted it; of the same suggestion, the last line counts.
        context: the earlier turns, the newest first.
    """

    message: str
    reply: str
    accepted: bool
    context: list[str] = field(default_factory=list)


def read_feedback(path: Path, options: ConversationOptions) -> Dataset:
    """Read a file of JSON lines that the page wrote, and print what it has.

    Args:
        path: the file.
        options: those of the logs; texts are cleaned and masked alike, except that no names are known.

    Returns:
        The accepted replies as pairs. A rejected one is no evidence against the reply: often it would do as well.

    Raises:
        InputError: it cannot be read, or a line is not a `Feedback`; the message names the line.
    """
    check_records(path, (".jsonl",))
    filters, nobody, broken = read_filters(options), Names([]), BrokenLines()
    verdicts: dict[tuple[str, str, tuple[str, ...]], bool] = {}

    def clean(text: str) -> str:
        text = measure(text, filters)[0]
        text = strip_letter(text, nobody, Counter()) if filters.strip_letters else text
        return mask_text(text, phone_regions(options)) if options.mask else text

    for location, record in read_records(path).rows([], broken):
        try:
            one = from_json(Feedback, record)
        except ValueError as error:
            raise InputError(f"{location}: {error}; correct the line, or delete it") from error
        if not (one.message.strip() and one.reply.strip()):
            raise InputError(f"{location}: an empty text, expected a message and a reply; delete the line")
        verdicts[clean(one.message), clean(one.reply), tuple(map(clean, one.context))] = one.accepted
    accepted = [texts for texts, is_accepted in verdicts.items() if is_accepted]
    rejected = len(verdicts) - len(accepted)
    print(f"feedback: {len(accepted):,} accepted replies of {path}; {rejected:,} rejected ones are not used")
    if broken.counts:
        print(f"warning: left out {broken.counts.total():,} lines: {'; '.join(broken.examples)}", file=sys.stderr)
    rows = [
        {"input": message, "response": reply, "thread": None, "source": "feedback", "context": list(context)}
        for message, reply, context in accepted
    ]
    return Dataset.from_list(rows, Features(features(PAIR_SCHEMA)))


def add_feedback(splits: dict[str, Dataset], feedback: Dataset) -> Dataset:
    """The pairs to train on, and after them the feedback on messages that are not in the logs.

    Those in the logs have the replies that were really sent, and may be held out. Their number is printed.
    """
    train = splits["train"]
    logged = {message.casefold() for part in splits.values() for message in part["input"][:]}
    new = [row for row, message in enumerate(feedback["input"][:]) if message.casefold() not in logged]
    if len(new) < len(feedback):
        print(f"feedback: {len(feedback) - len(new):,} replies left out, because the logs have their messages")
    rows = feedback.select(new).select_columns(train.column_names).cast(train.features)
    return concatenate_datasets([train, rows])
