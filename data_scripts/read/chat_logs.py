"""Reads chat logs of any format into messages or ready pairs, which the command `conversations` joins.

A log is an export of a chat program, which a module in `chat_exports` recognizes, or a table, or a dataset on the Hub.
"""

from collections.abc import Callable
from pathlib import Path

from data_scripts.errors import InputError, refuse_options
from data_scripts.read.chat_exports import RecordExport, path_export, path_suffixes, record_export, streamed_lists
from data_scripts.read.conversation_cells import conversation_rows, find_conversation_cells
from data_scripts.read.files import UNPACK, BrokenLines
from data_scripts.read.hub_names import is_hub_name
from data_scripts.read.layouts import is_text
from data_scripts.read.list_pairs import find_list_pairs, list_pair_rows
from data_scripts.read.messages import ChatLog, Items
from data_scripts.read.nested import (
    find_messages,
    find_only_list,
    find_only_mapping,
    list_elements,
    mapping_values,
    message_rows,
)
from data_scripts.read.records import DELIMITED, FORMS, Records, check_records, form_of, read_records
from data_scripts.read.roles import flat_columns, guess_roles, sample_rows, shape_of
from data_scripts.read.rows import hub_records
from data_scripts.read.tables import default_columns, has_columns, read_table

_SPREADSHEET = "a spreadsheet; save it as CSV in the program that wrote it, and name that file"
_PAGE = "a page; export the chat as JSON or text instead, and name that file"
_DOCUMENT = "a document; save it as plain text (.txt) in the program that wrote it, and name that file"
_MAIL = "not .mbox, in which a folder of mails is one file; export the folder as .mbox, and name that file"
_LOG = "not a chat, of which most lines should be such as 'Ann: hello' or, in IRC, '<ann> hello'"
_REMEDIES = {
    ".xlsx": _SPREADSHEET,
    ".xls": _SPREADSHEET,
    ".ods": _SPREADSHEET,
    ".html": _PAGE,
    ".htm": _PAGE,
    ".docx": _DOCUMENT,
    ".odt": _DOCUMENT,
    ".pdf": _DOCUMENT,
    ".eml": _MAIL,
    ".msg": _MAIL,
    ".pst": _MAIL,
    ".log": _LOG,
}


def is_on_hub(path: Path) -> bool:
    """Whether a log is a dataset on the Hub, and not a file or a folder."""
    return is_hub_name(str(path), (*FORMS, *path_suffixes(), ".tar", ".zip", *UNPACK, *_REMEDIES))


def check_log(path: Path) -> None:
    """Reject an invalid input before anything is read.

    Raises:
        InputError: the file is missing, empty or has an unknown suffix, or an export lacks its files.
    """
    if is_on_hub(path) or path_export(path):
        return
    if path.is_dir() or path.suffix == ".zip":
        raise InputError(
            f"{path}: neither a Slack export, which contains users.json or channels.json, nor WhatsApp's .zip, which "
            "contains one .txt; name the files in it instead"
        )
    if remedy := _REMEDIES.get(path.suffix.lower()):
        raise InputError(f"{path}: {remedy}")
    check_records(path, (*FORMS, *path_suffixes()))


def read_log(log: ChatLog) -> Items:
    """Each message or pair of a file, with its location; the path and the first record determine the format.

    Raises:
        InputError: the file cannot be read to its end, its columns are not known, or `log` has an option that this
            format does not use.
    """
    export = None if is_on_hub(log.path) else path_export(log.path)
    if export:
        refuse_options(
            {"--columns": log.columns}, f"{log.path} is an export with fixed columns; read it without this option"
        )
        log.detected["format"] = export.name
        yield from export.read(log)
        return
    open_records = record_opener(log)
    records = open_records(log.broken)
    records_format = None if log.columns else find_export(records, lambda: open_records(BrokenLines()))
    if not records_format:
        yield from read_table(log, records, lambda: open_records(BrokenLines()))
        return
    if not records_format.has_pauses:
        refuse_options(
            {"--gap": log.gap is not None}, f"no pause ends a conversation in the format of {log.path}; leave it out"
        )
    log.detected["format"] = records_format.name
    yield from records_format.read(log, records)


def record_opener(log: ChatLog) -> Callable[[BrokenLines], Records]:
    """A function that begins to read the records of a file or of a dataset on the Hub, each time it is called."""
    if is_on_hub(log.path):
        return lambda broken: hub_records(str(log.path))
    layout = log.detect_layout(form_of(log.path) in DELIMITED) if is_text(log.path) else None

    def open_records(broken: BrokenLines) -> Records:
        return read_records(log.path, broken, streamed_lists(), layout)

    opener = open_records if form_of(log.path) in DELIMITED else _nested_opener(log, open_records)
    return _conversation_opener(log, opener)


def find_export(records: Records, reopen: Callable[[], Records]) -> RecordExport | None:
    """The format of records, which `reopen` begins to read again; None if they are a table."""
    export = record_export(set(records.columns))
    if export and export.message_fields:
        name = export.fields[-1]
        messages = next((record[name] for record in sample_rows(reopen()) if record.get(name)), None)
        if isinstance(messages, list) and not any(
            isinstance(message, dict) and message.keys() >= set(export.message_fields) for message in messages
        ):
            return None
    return export


def _conversation_opener(
    log: ChatLog, open_records: Callable[[BrokenLines], Records]
) -> Callable[[BrokenLines], Records]:
    """A function that opens the conversations or lists in the records, if these have some and are no export."""
    records = open_records(BrokenLines())
    if log.columns or find_export(records, lambda: open_records(BrokenLines())):
        return open_records
    rows = sample_rows(records)
    if conversations := find_conversation_cells(records.columns, rows):
        log.detected["format"] = conversations.describe()
        return lambda broken: conversation_rows(open_records(broken), broken, conversations)
    if pairs := find_list_pairs(records.columns, rows):
        log.detected["format"] = pairs.describe()
        return lambda broken: list_pair_rows(open_records(broken), broken, pairs)
    return open_records


def _nested_opener(log: ChatLog, open_records: Callable[[BrokenLines], Records]) -> Callable[[BrokenLines], Records]:
    """A function that opens the records within the records, if these are neither an export nor a table themselves."""
    records = open_records(BrokenLines())
    if find_export(records, lambda: open_records(BrokenLines())):
        return open_records
    if log.columns and has_columns(log, records):
        return open_records
    rows = sample_rows(records)
    roles = guess_roles(flat_columns(records.columns, rows), rows).columns
    defaults = default_columns(records.columns)
    if shape_of(defaults) or {"input", "response"} & (defaults | roles).keys():
        return open_records
    messages = None if log.columns else find_messages(rows)
    if not messages and find_only_mapping(rows):
        values = mapping_values(open_records(BrokenLines()))
        return _nested_opener(log, lambda _: values)
    if not messages:
        only = None if shape_of(roles) else find_only_list(rows)
        if not only:
            return open_records
        elements = list_elements(open_records(BrokenLines()), only)
        return _nested_opener(log, lambda _: elements)
    log.detected["format"] = messages.describe()
    return lambda broken: message_rows(open_records(broken), broken, messages)
