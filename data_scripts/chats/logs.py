"""Opens and reads chat logs in any format; declares the options for it.

A log is an export of a chat program, which a module in `formats` recognizes, a table, or a dataset on the Hub.
"""

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from data_scripts.chats.dates import ORDERS
from data_scripts.chats.formats import Format, formats, streamed_lists, suffixes
from data_scripts.chats.messages import ChatLog, Items
from data_scripts.chats.nested import open_inner
from data_scripts.chats.sample import DELIMITERS, Sample
from data_scripts.chats.tables import COLUMN_NAMES, read_table
from data_scripts.pairs.options import add_context_argument
from modeling_convsim.files.command_line import disk_path
from modeling_convsim.files.errors import InputError, refuse_options
from modeling_convsim.files.hub import HUB_HELP, is_hub_name
from modeling_convsim.files.records import DELIMITED, FORMS, check_records
from modeling_convsim.files.texts import UNPACK, UTF8, check_encoding

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SPREADSHEET = "spreadsheets are not supported; export it as CSV, and use that file"
_PAGE = "web pages are not supported; export the chat as JSON or text, and use that file"
_DOCUMENT = "documents are not supported; save it as plain text (.txt), and use that file"
_MAIL = "this mail format is not supported; export the mail folder as .mbox, and use that file"
_LOG = "not a chat; expected most lines to look like 'Ann: hello' or, in IRC, '<ann> hello'"
_REMEDIES = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), _SPREADSHEET),
    **dict.fromkeys((".html", ".htm"), _PAGE),
    **dict.fromkeys((".docx", ".odt", ".pdf"), _DOCUMENT),
    **dict.fromkeys((".eml", ".msg", ".pst"), _MAIL),
    ".log": _LOG,
}


def add_log_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that reads chat logs; `open_logs` uses them."""
    group = parser.add_argument_group("input")
    group.add_argument(
        "files",
        nargs="+",
        type=disk_path,
        metavar="FILE",
        help=f"tables, chat exports, or the folder of a Slack export; or {HUB_HELP}",
    )
    group.add_argument(
        "--columns",
        nargs="+",
        default=[],
        metavar="ROLE=NAME",
        help=f"assign roles to the columns of a table; the roles are {', '.join(COLUMN_NAMES)}; in JSON, NAME can be a "
        "path, such as author.name; time=DATE+TIME joins two columns (default: columns named after their roles; other "
        "roles are guessed from names and values, and printed)",
    )
    add_context_argument(group)
    group.add_argument(
        "--gap",
        metavar="TIME",
        help="start a new conversation after a longer pause, such as 30m, 2h or 1d, in channels and in ordered threads "
        "with times (default: no limit in the threads of tables; 1h in chats, in channels, and in tables without "
        "threads)",
    )
    group.add_argument(
        "--repliers",
        nargs="*",
        metavar="NAME",
        help="use only replies by these authors, spelled as in the log, such as the agents of a support log or "
        "yourself; without names, use replies by the side that answers, if a column such as inbound or is_staff, or "
        "author names such as Agent and Customer, identify it (default: all authors; in `convsim adapt`, same as "
        "without names)",
    )
    group.add_argument(
        "--encoding",
        metavar="NAME",
        help="encoding of all text files, such as cp1252 (default: detected in each file)",
    )
    group.add_argument(
        "--date_order",
        choices=tuple(ORDERS),
        help="order of day, month and year in numeric dates such as 01/03/2026, if no date in a file shows it "
        "(default: detected in each file)",
    )
    group.add_argument(
        "--keep_salutations",
        action="store_true",
        help="keep salutations, closings, signatures, device footers, addressees, speakers' names (instead of [name]) "
        "and automatic messages that are sent in many threads (default: remove them, unless --filters is paper or "
        "none)",
    )


def open_logs(
    files: Sequence[Path],
    columns: Sequence[str] = (),
    gap: str | None = None,
    encoding: str | None = None,
    date_order: str | None = None,
) -> list[ChatLog]:
    """Open logs with the options of `add_log_arguments`, without reading them; they share `left_out`.

    Raises:
        InputError: an option is invalid, or a file cannot be read.
    """
    roles, pause = _parse_columns(columns), _parse_gap(gap)
    encoding = check_encoding("--encoding", encoding) if encoding else None
    left_out = Counter[str]()
    logs = [
        ChatLog(path, name, roles, pause, left_out=left_out, encoding=encoding, date_order=date_order)
        for path, name in zip(files, _source_names(files), strict=True)
    ]
    for log in logs:
        check_log(log)
    return logs


def _parse_columns(given: Sequence[str]) -> dict[str, str]:
    columns: dict[str, str] = {}
    for item in given:
        role, _, name = item.partition("=")
        if role not in COLUMN_NAMES or not name or role in columns:
            raise InputError(
                f"--columns {item}: expected ROLE=NAME, each role once; the roles are {', '.join(COLUMN_NAMES)}"
            )
        columns[role] = name
    return columns


def _parse_gap(given: str | None) -> float | None:
    if given is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", given)
    if not match:
        raise InputError(f"--gap {given}: expected a number and a unit (s, m, h or d), such as 30m")
    return float(match[1]) * SECONDS[match[2]]


def _source_names(files: Sequence[Path]) -> list[str]:
    """A name for each source: that of the file, after that of its folder if several files have the same; or Hub id."""

    def stem(file: Path) -> str:
        if is_on_hub(file):
            return str(file).partition("@")[0]
        return (file.with_suffix("") if file.suffix in UNPACK else file).stem

    stems = list(map(stem, files))
    names = [
        f"{file.absolute().parent.name}/{name}" if stems.count(name) > 1 and not is_on_hub(file) else name
        for file, name in zip(files, stems, strict=True)
    ]
    for file, name in zip(files, names, strict=True):
        if names.count(name) > 1:
            raise InputError(f"{file}: another input has the same file and folder name; rename one of them")
    return names


def is_on_hub(path: Path) -> bool:
    """Whether a log is a dataset on the Hub, and not a file or a folder."""
    return is_hub_name(str(path), (*FORMS, *suffixes(), ".zip", *UNPACK, *_REMEDIES))


def take_sample(log: ChatLog) -> Sample:
    """The beginning of a log, which is read when it is needed, once."""
    log.sample = log.sample or Sample(log.path, log.encoding, is_on_hub(log.path), streamed_lists())
    return log.sample


def check_log(log: ChatLog) -> None:
    """Reject an invalid input before anything is read.

    Raises:
        InputError: the file is missing, empty or has an unknown suffix, or an export lacks its files.
    """
    sample, path = take_sample(log), log.path
    if sample.is_on_hub:
        return
    if path.is_dir() or sample.form in (".zip", ".log"):  # these are read as exports only
        if find_format(sample, has_records=False):
            return
        if sample.form != ".log":
            raise InputError(
                f"{path}: neither a Slack export (with users.json, channels.json or files such as "
                "general/2024-01-31.json) nor a .zip from WhatsApp (with one chat as .txt); pass the files in it "
                "instead"
            )
    if path.is_file() and (remedy := _REMEDIES.get(path.suffix.lower())):
        raise InputError(f"{path}: {remedy}")
    check_records(path, (*FORMS, *suffixes(), ".zip"))


def find_format(sample: Sample, has_records: bool) -> Format | None:
    """The first format that a log has, of those that are recognized by their records or of the others."""
    candidates = (each for each in formats() if bool(each.fields) == has_records)
    return next((each for each in candidates if each.matches(sample)), None)


def read_log(log: ChatLog) -> Items:
    """Each message or pair of a file, with its location.

    Raises:
        InputError: the file cannot be read to its end, its columns are not known, or `log` has an option that this
            format does not use.
    """
    try:
        found = recognize(log)
        if found and not found.fields:
            refuse_options({"--columns": log.columns}, f"{log.path} is a chat export with fixed columns; leave it out")
        elif found and not found.has_pauses:
            refuse_options(
                {"--gap": log.gap is not None},
                f"pauses do not end conversations in the format of {log.path}; leave it out",
            )
        if found:
            log.detected["format"] = found.name
        yield from found.read(log) if found else read_table(log)
    finally:
        log.sample = None


def recognize(log: ChatLog) -> Format | None:
    """The format of a log; None for a table, as which conversations within its records are read, too."""
    from data_scripts.chats.cells import open_cells  # whose patterns --help does not need

    sample = take_sample(log)
    if found := find_format(sample, has_records=False):
        return found
    _note_layout(log, sample)
    found = find_format(sample, has_records=True)
    if sample.is_open or sample.is_on_hub:
        return None if log.columns else found
    sample.is_open, is_table = True, sample.form in DELIMITED
    while not (is_table or found) and (inner := open_inner(log, sample.records)):
        sample.records = inner
        found = find_format(sample, has_records=True)
    if not (log.columns or found) and (in_cells := open_cells(sample.records)):
        log.detected["format"], sample.records = in_cells
    return None if log.columns else found


def _note_layout(log: ChatLog, sample: Sample) -> None:
    """Note the encoding and the delimiter as detected, if they are not the usual ones."""
    if sample.form in FORMS and sample.form != ".parquet" and sample.text.encoding != UTF8:
        log.detected["encoding"] = sample.text.encoding
    if sample.form in DELIMITED and sample.dialect.delimiter != ("\t" if sample.form == ".tsv" else ","):
        log.detected["delimiter"] = DELIMITERS[sample.dialect.delimiter]
