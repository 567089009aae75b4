"""Reads chat logs of any format into messages or ready pairs, which the command `conversations` joins.

A log is an export of a chat program, which a module in `chat_exports` recognizes, or a table, or a dataset on the Hub.
"""

from pathlib import Path

from data_scripts.errors import refuse_options
from data_scripts.read.chat_exports import path_export, record_export, streamed_lists
from data_scripts.read.files import UNPACK
from data_scripts.read.hub_names import is_hub_name
from data_scripts.read.messages import ChatLog, Items
from data_scripts.read.records import FORMS, check_records, read_records
from data_scripts.read.rows import hub_records
from data_scripts.read.tables import read_table


def is_on_hub(path: Path) -> bool:
    """Whether a log is a dataset on the Hub, and not a file or a folder."""
    return is_hub_name(str(path), (*FORMS, ".tar", ".zip", *UNPACK))


def check_log(path: Path) -> None:
    """Reject an invalid input before anything is read.

    Raises:
        InputError: the file is missing, empty or has an unknown suffix, or an export lacks its files.
    """
    if is_on_hub(path):
        return
    export = path_export(path)
    if export:
        export.check(path)
    else:
        check_records(path)


def read_log(log: ChatLog) -> Items:
    """Each message or pair of a file, with its location; the path and the first record determine the format.

    Raises:
        InputError: the file cannot be read to its end, its columns are not known, or `log` has an option that this
            format does not use.
    """
    is_dataset = is_on_hub(log.path)
    export = None if is_dataset else path_export(log.path)
    if export:
        refuse_options(
            {"--columns": log.columns}, f"{log.path} is an export with fixed columns; read it without this option"
        )
        yield from export.read(log)
        return
    records = hub_records(str(log.path)) if is_dataset else read_records(log.path, log.broken, streamed_lists())
    records_format = None if log.columns else record_export(set(records.columns))
    if not records_format:
        yield from read_table(log, records)
        return
    if not records_format.has_pauses:
        refuse_options(
            {"--gap": log.gap is not None}, f"no pause ends a conversation in the format of {log.path}; leave it out"
        )
    yield from records_format.read(log, records)
