"""Chat exports as people have them, written from examples/support.csv, give the same pairs in every format."""

import csv
import io
import mailbox
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from data_scripts.chats.conversations import store_logs
from data_scripts.chats.formats.mail import SOURCE as MAIL
from data_scripts.chats.joining import join_logs
from data_scripts.chats.logs import check_log, read_log
from data_scripts.chats.messages import ChatLog
from data_scripts.clean.filters import Filters
from data_scripts.pairs.engines import connect

SUPPORT = Path(__file__).parents[2] / "examples" / "support.csv"
MESSAGES, PAIRS = 500, 329  # of the threads of the log; the pairs are different ones
PLAIN, MESSY = "thread|time|speaker|text", "Ticket #|Sent at|From|Message"


@dataclass
class Row:
    """A message of the support log."""

    thread: str
    time: datetime
    speaker: str
    text: str


def support_rows(number: int) -> list[Row]:
    """The first messages of the support log, thread by thread."""
    with SUPPORT.open(encoding="utf-8", newline="") as file:
        records = sorted(csv.DictReader(file), key=lambda record: int(record["Ticket #"]))
    return [
        Row(each["Ticket #"], datetime.strptime(each["Sent at"], "%d/%m/%Y %H:%M"), each["From"], each["Message"])
        for each in records[:number]
    ]


def table(
    columns: str, delimiter: str = ",", encoding: str = "utf-8", dates: str = "%Y-%m-%dT%H:%M:%S", ending: str = "\n"
) -> Callable[[Path, list[Row]], None]:
    """Write the columns thread, time, speaker and text."""

    def write(path: Path, rows: list[Row]) -> None:
        file = io.StringIO(newline="")
        writer = csv.writer(file, delimiter=delimiter, lineterminator=ending)
        writer.writerow(columns.split("|"))
        writer.writerows((row.thread, row.time.strftime(dates), row.speaker, row.text) for row in rows)
        path.write_bytes(file.getvalue().encode(encoding))

    return write


def reply_links(path: Path, rows: list[Row]) -> None:
    lines, last = ["Post ID,In reply to,Author,Body"], {}
    for number, row in enumerate(rows, start=1):
        lines.append(f'{number},{last.get(row.thread, "")},{row.speaker},"{row.text.replace(chr(34), chr(34) * 2)}"')
        last[row.thread] = number
    path.write_text("\n".join(lines), encoding="utf-8-sig")


def ready_pairs(rows: list[Row]) -> list[dict[str, str]]:
    return [
        {"Question": a.text, "Answer": b.text}
        for a, b in pairwise(rows)
        if a.thread == b.thread and a.speaker != b.speaker
    ]


def mails(path: Path, rows: list[Row]) -> None:
    """A mail per message, which quotes what it answers and has a signature."""
    box, last = mailbox.mbox(path), dict[str, tuple[str, Row]]()
    for number, row in enumerate(rows):
        mail = EmailMessage()
        mail["From"], mail["Message-ID"] = f"{row.speaker.replace(' ', '.')}@example.org", f"<{number}@example.org>"
        mail["Subject"], mail["Date"] = f"Ticket {row.thread}", row.time.replace(tzinfo=UTC)
        content = row.text.replace(". ", ".\n")
        if row.thread in last:
            answered, before = last[row.thread]
            mail["In-Reply-To"] = answered
            quoted = "\n> ".join(before.text.splitlines())
            content += f"\n\nOn {before.time:%d %b %Y at %H:%M}, {before.speaker}\n<a@example.org> wrote:\n> {quoted}"
        mail.set_content(f"{content}\n-- \n{row.speaker}\nThe Shop\n")
        box.add(mail)
        last[row.thread] = mail["Message-ID"], row
    box.close()


EXPORTS = {
    "plain.csv": table(PLAIN),
    "support.csv": table(MESSY, dates="%d/%m/%Y %H:%M"),
    "german.csv": table(MESSY, ";", "cp1252", "%d.%m.%Y %H:%M", "\r\n"),
    "excel.txt": table(MESSY, "\t", "utf-16", ending="\r\n"),
    "forum.csv": reply_links,
    "faq.parquet": lambda path, rows: pq.write_table(pa.Table.from_pylist(ready_pairs(rows)), path),
    "support.mbox": mails,
}


def test_the_same_threads_give_the_same_pairs_in_every_format(tmp_path):
    rows = support_rows(MESSAGES)
    logs, read = [], {}
    for number, (name, write) in enumerate(EXPORTS.items()):
        write(tmp_path / name, rows)
        log = ChatLog(tmp_path / name, MAIL if name.endswith(".mbox") else f"export {number}")
        check_log(log)
        read[name] = sum(1 for _ in read_log(log))
        logs.append(log)
    assert read == dict.fromkeys(EXPORTS, MESSAGES) | {"faq.parquet": PAIRS}
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    stored = store_logs(logs, Filters(), scratch)
    with connect(scratch) as database:  # all logs in one join
        pairs = join_logs(stored, database, scratch, Filters("chat"), {}).distinct()
        sources = Counter(source.partition("/")[0] for source in pairs.source.to_pyarrow().to_pylist())
    assert sources == {log.name: PAIRS for log in logs}
