"""Chat exports as people have them, written from examples/support.csv: what is read of each, or why it is refused."""

import csv
import gzip
import html
import io
import json
import mailbox
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from itertools import count, cycle, islice, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from data_scripts.chats.conversations import store_logs
from data_scripts.chats.formats.mail import SOURCE as MAIL
from data_scripts.chats.joining import join_logs
from data_scripts.chats.logs import check_log, read_log
from data_scripts.chats.messages import ChatLog
from data_scripts.clean.filters import Filters
from data_scripts.files.errors import InputError
from data_scripts.pairs.engines import connect

SUPPORT = Path(__file__).parents[2] / "examples" / "support.csv"
POLISH = ("Gdzie jest moja paczka?", "Będzie jutro, przepraszamy za opóźnienie.", "1420-D", "Dziękuję bardzo!")
JUNE = datetime(2026, 6, 1, 8)


@dataclass
class Row:
    """A message of the support log."""

    thread: str
    time: datetime
    speaker: str
    text: str


@dataclass
class Export:
    """An export.

    Attributes:
        name: of the file.
        title: what is special about it.
        write: writes it.
        options: of `ChatLog`, which a user gives.
        refused: a part of the message with which it is refused; empty if it is read.
    """

    name: str
    title: str
    write: Callable[[Path, list[Row]], object]
    messages: int = 500
    options: dict[str, Any] = field(default_factory=dict)
    refused: str = ""


def support_rows(number: int) -> list[Row]:
    """The first messages of the support log, thread by thread; then the same again a year later in other threads."""
    with SUPPORT.open(encoding="utf-8", newline="") as file:
        records = sorted(csv.DictReader(file), key=lambda record: int(record["Ticket #"]))
    rows = []
    for repeat, record in islice(((repeat, record) for repeat in count() for record in records), number):
        time = datetime.strptime(record["Sent at"], "%d/%m/%Y %H:%M") + timedelta(days=364 * repeat)
        rows.append(Row(f"{record['Ticket #']}{repeat or ''}", time, record["From"], record["Message"]))
    return rows


def table(
    columns: str, delimiter: str = ",", encoding: str = "utf-8", dates: str = "%Y-%m-%dT%H:%M:%S", ending: str = "\n"
) -> Callable[[Path, list[Row]], None]:
    """Write the columns thread, time, speaker and text; a role in `columns` may be empty to leave it out."""

    def write(path: Path, rows: list[Row]) -> None:
        file = io.StringIO(newline="")
        names = columns.split("|")
        writer = csv.writer(file, delimiter=delimiter, lineterminator=ending)
        writer.writerow(filter(None, names))
        for row in rows:
            values = (row.thread, row.time.strftime(dates), row.speaker, row.text)
            writer.writerow(value for name, value in zip(names, values, strict=True) if name)
        content = file.getvalue().encode(encoding)
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)

    return write


def in_days_to_12(write: Callable[[Path, list[Row]], None]) -> Callable[[Path, list[Row]], None]:
    """Write the messages as if they were sent on the first days of June."""

    def write_in_june(path: Path, rows: list[Row]) -> None:
        write(
            path, [Row(row.thread, JUNE + timedelta(hours=2 * n), row.speaker, row.text) for n, row in enumerate(rows)]
        )

    return write_in_june


def polish(path: Path, rows: list[Row]) -> None:
    texts = cycle(POLISH)
    table("ticket|created|sender|body", ";", "cp1250")(
        path, [Row(r.thread, r.time, r.speaker, next(texts)) for r in rows]
    )


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


def json_lines(path: Path, rows: list[Row]) -> None:
    records = [
        {
            "conversationId": row.thread,
            "createdAt": int(row.time.replace(tzinfo=UTC).timestamp() * 1000),
            "author": {"id": len(row.speaker), "name": row.speaker},
            "content": row.text,
        }
        for row in rows
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def json_array(path: Path, rows: list[Row]) -> None:
    dates = "%a, %d %b %Y %H:%M:%S +0000"
    records = [{"chat_id": r.thread, "sent": r.time.strftime(dates), "from": r.speaker, "msg": r.text} for r in rows]
    path.write_bytes(json.dumps(records, indent=1, ensure_ascii=False).encode("utf-16"))


def whatsapp(dates: str, iphone: bool = False) -> Callable[[Path, list[Row]], None]:
    def write(path: Path, rows: list[Row]) -> None:
        lines = []
        for number, row in enumerate(rows):
            text = "<Media omitted>" if number % 20 == 19 else row.text.replace(". ", ".\n")
            time = row.time.strftime(dates)
            lines.append(f"[{time}] {row.speaker}: {text}" if iphone else f"{time} - {row.speaker}: {text}")
        notice = "Messages and calls are end-to-end encrypted."
        first = rows[0].time.strftime(dates)
        content = "\n".join([f"[{first}] Support: \u200e{notice}" if iphone else f"{first} - {notice}", *lines])
        if path.suffix != ".zip":
            path.write_text(content, encoding="utf-8")
            return
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("_chat.txt", content)

    return write


def telegram_chat(rows: list[Row], number: int) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"id": 1, "type": "service", "action": "create_group", "text": ""}]
    for position, row in enumerate(rows, start=2):
        text = [row.text, {"type": "bold", "text": "!"}] if position % 9 == 0 else row.text
        fields = {"date": row.time.isoformat(), "from": row.speaker, "text": text}
        messages.append({"id": position, "type": "message", **fields})
    return {"name": "Support", "type": "private_group", "id": number, "messages": messages}


def telegram(path: Path, rows: list[Row]) -> None:
    path.write_text(json.dumps(telegram_chat(rows, 7), indent=1, ensure_ascii=False), encoding="utf-8")


def all_telegram(path: Path, rows: list[Row]) -> None:
    half = len(rows) // 2
    chats = [telegram_chat(rows[:half], 7), telegram_chat(rows[half:], 8)]
    path.write_text(json.dumps({"about": "", "chats": {"about": "", "list": chats}}, indent=1), encoding="utf-8")


def slack(path: Path, rows: list[Row]) -> None:
    days: dict[str, list[dict[str, Any]]] = {}
    for number, row in enumerate(rows):
        ts = f"{row.time.replace(tzinfo=UTC).timestamp():.0f}.{number:06}"
        message = {"type": "message", "user": row.speaker, "ts": ts, "text": row.text, "thread_ts": row.thread}
        days.setdefault(f"support/{row.time:%Y-%m-%d}.json", []).append(message)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("channels.json", "[]")
        for name, messages in days.items():
            archive.writestr(name, json.dumps(messages))


def discord(path: Path, rows: list[Row]) -> None:
    messages = [
        {
            "id": str(number),
            "type": "Default",
            "timestamp": row.time.isoformat() + "+00:00",
            "content": row.text,
            "author": {"name": row.speaker, "discriminator": "0000"},
        }
        for number, row in enumerate(rows)
    ]
    channel = {"guild": {}, "channel": {"id": "1", "name": "help"}, "messages": messages}
    path.write_text(json.dumps(channel, indent=1), encoding="utf-8")


def roles(path: Path, rows: list[Row]) -> None:
    threads: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        role = "assistant" if " " not in row.speaker else "user"
        threads.setdefault(row.thread, []).append({"role": role, "content": row.text})
    path.write_text("".join(json.dumps({"messages": each}) + "\n" for each in threads.values()), encoding="utf-8")


def two_columns(path: Path, rows: list[Row]) -> None:
    lines = ["Chat;Date;Time;Name;Message"]
    lines += [
        f'{r.thread};{r.time:%d/%m/%Y};{r.time:%H:%M};{r.speaker};"{r.text.replace(chr(34), chr(34) * 2)}"'
        for r in rows
    ]
    path.write_text("\n".join(lines), encoding="utf-8")


def messenger(path: Path, rows: list[Row]) -> None:
    def in_bytes(text: str) -> str:
        return text.encode("utf-8").decode("latin-1")

    messages = [
        {
            "sender_name": in_bytes(row.speaker),
            "timestamp_ms": int(row.time.replace(tzinfo=UTC).timestamp() * 1000),
            "content": in_bytes(row.text),
            "is_geoblocked_for_viewer": False,
        }
        for row in reversed(rows)
    ]
    chat = {"participants": [], "messages": messages, "title": "Support", "thread_path": "inbox/support_1"}
    path.write_text(json.dumps(chat, indent=2), encoding="utf-8")


def google_chat(path: Path, rows: list[Row]) -> None:
    messages = [
        {
            "creator": {"name": row.speaker, "email": "a@example.com", "user_type": "Human"},
            "created_date": row.time.strftime("%A, %B %-d, %Y at %-I:%M:%S\u202f%p UTC"),
            "text": row.text,
            "topic_id": row.thread,
            "message_id": f"space/{row.thread}/{number}",
        }
        for number, row in enumerate(rows)
    ]
    path.write_text(json.dumps({"messages": messages}, indent=2), encoding="utf-8")


def transcript(path: Path, rows: list[Row]) -> None:
    threads: dict[str, list[str]] = {}
    for row in rows:
        threads.setdefault(row.thread, []).append(f"{row.speaker}: " + row.text.replace(". ", ".\n"))
    path.write_text("\n\n".join(map("\n".join, threads.values())), encoding="utf-8")


def irc(path: Path, rows: list[Row]) -> None:
    lines = ["--- Log opened Fri Mar 13 10:00:00 2026"]
    for number, row in enumerate(rows):
        nick = row.speaker.replace(" ", "_")
        lines += [f"{row.time:%H:%M} -!- {nick} has joined"] * (number % 9 == 0)
        lines.append(f"{row.time:%H:%M} <@{nick}> {row.text}")
    path.write_text("\n".join(lines), encoding="utf-8")


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


def subtitles(path: Path, rows: list[Row]) -> None:
    """A call, of which all threads are parts, with a voice in each text."""
    clock = "{:02}:{:02}:{:02}.000"
    lines = ["WEBVTT", ""]
    for number, row in enumerate(rows):
        times = (clock.format(t // 3600, t // 60 % 60, t % 60) for t in (5 * number, 5 * number + 5))
        lines += [str(number), " --> ".join(times), f"<v {row.speaker}>{html.escape(row.text)}</v>", ""]
    path.write_text("\n".join(lines), encoding="utf-8")


def tickets(path: Path, rows: list[Row]) -> None:
    """Tickets whose descriptions are their first messages, as Freshdesk has them."""
    threads: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        body = f"<div><p>{row.text.replace('. ', '.</p><p>')}</p></div>"
        fields = {"user_id": row.speaker, "body": body, "private": False, "created_at": f"{row.time.isoformat()}Z"}
        threads.setdefault(row.thread, []).append(fields)
    records = []
    for name, (first, *others) in threads.items():
        note = {"user_id": "Tom", "body": "<p>who is that?</p>", "private": True, "created_at": first["created_at"]}
        opening = {"requester_id": first["user_id"], "description": first["body"], "created_at": first["created_at"]}
        records.append({"id": name, "subject": "a ticket of some words", **opening, "conversations": [note, *others]})
    path.write_text(json.dumps({"tickets": records, "next_page": None}), encoding="utf-8")


PLAIN, MESSY = "thread|time|speaker|text", "Ticket #|Sent at|From|Message"
EXPORTS = (
    Export("plain.csv", "columns named after their roles, ISO dates", table(PLAIN)),
    Export("support.csv", "other names with spaces, 14/03/2026", table(MESSY, dates="%d/%m/%Y %H:%M")),
    Export("german.csv", "semicolons, cp1252, 14.03.2026, CRLF", table(MESSY, ";", "cp1252", "%d.%m.%Y %H:%M", "\r\n")),
    Export("excel.txt", "tabs, UTF-16", table(MESSY, "\t", "utf-16", ending="\r\n")),
    Export("pipes.csv", "pipes, 03/14/2026 09:05 PM", table(MESSY, "|", dates="%m/%d/%Y %I:%M %p"), 1_000),
    Export("months.csv", "Mar 14, 2026 9:05 PM", table(MESSY, dates="%b %d, %Y %I:%M %p"), 200),
    Export("packed.csv.gz", "compressed, semicolons, UTF-8 with a mark", table(PLAIN, ";", "utf-8-sig"), 1_000),
    Export("polish.csv", "cp1250", polish, 50),
    Export("chat.csv", "one chat without threads", table("|date|sender|message", dates="%d.%m.%y %H:%M")),
    Export("june.csv", "03/06/2026 in all rows", in_days_to_12(table(MESSY, dates="%d/%m/%Y %H:%M")), 50,
           refused="state it with --date_order DMY or --date_order MDY"),
    Export("stated.csv", "the same with --date_order", in_days_to_12(table(MESSY, dates="%d/%m/%Y %H:%M")), 50,
           {"date_order": "DMY"}),
    Export("forum.csv", "reply links, UTF-8 with a mark", reply_links),
    Export("faq.parquet", "questions and answers",
           lambda path, rows: pq.write_table(pa.Table.from_pylist(ready_pairs(rows)), path)),
    Export("nested.jsonl", "names within objects, milliseconds", json_lines),
    Export("array.json", "an array in UTF-16, dates of e-mails", json_array),
    Export("chats.jsonl", "messages with roles", roles),
    Export("WhatsApp Chat.txt", "WhatsApp, Android, US", whatsapp("%m/%d/%y, %I:%M\u202f%p"), 5_000),
    Export("whatsapp.zip", "WhatsApp, iPhone, Germany", whatsapp("%d.%m.%y, %H:%M:%S", iphone=True)),
    Export("june.txt", "WhatsApp, 03/06/2026 in all lines", in_days_to_12(whatsapp("%d/%m/%Y, %H:%M")), 50,
           refused="state it with --date_order DMY or --date_order MDY"),
    Export("result.json", "Telegram, one chat", telegram),
    Export("all.json", "Telegram, all chats", all_telegram),
    Export("slack.zip", "Slack", slack),
    Export("transcript.txt", "a transcript, a blank line between conversations", transcript, 600),
    Export("support.log", "IRC, times of day and notices", irc),
    Export("support.mbox", "mails with quotations and signatures", mails),
    Export("call.vtt", "subtitles of a call with names", subtitles),
    Export("tickets.json", "tickets of a help desk in HTML, with internal notes", tickets),
    Export("channel.json", "Discord", discord),
    Export("message_1.json", "Messenger or Instagram", messenger),
    Export("messages.json", "Google Chat, a space with threads", google_chat),
    Export("columns.csv", "date and time of day in two columns", two_columns),
    Export("years.csv", "26-06-01 in all rows", in_days_to_12(table(MESSY, dates="%y-%m-%d %H:%M")), 50),
    Export("day.csv", "26-06-01, all of a day", in_days_to_12(table(MESSY, dates="%y-%m-%d %H:%M")), 5,
           refused="state it with --date_order DMY or --date_order YMD"),
    Export("letters.csv", "columns named a, b, c and d", table("a|b|c|d"), 50, refused="as in text=d"),
    Export("twice.csv", "two columns of texts", table("ticket|at|body|message"), 50, refused="state it with --columns"),
    Export("notes.txt", "plain text", lambda path, rows: path.write_text("\n".join(row.text for row in rows)), 50,
           refused="neither a chat, with lines such as"),
    Export("chats.xlsx", "a spreadsheet", lambda path, rows: path.write_bytes(b"PK"), 50, refused="save it as CSV"),
)  # fmt: skip


@dataclass
class Outcome:
    """What came of an export: the messages (or ready pairs) read, the pairs of each kind of rules, or the refusal."""

    export: Export
    read: int = 0
    kept: dict[str, int] = field(default_factory=dict)
    refusal: str = ""


def read_exports(folder: Path) -> list[Outcome]:
    """Write all exports and read them, as the command `conversations` does."""
    outcomes, logs = {}, []
    for number, export in enumerate(EXPORTS):
        path = folder / export.name
        export.write(path, support_rows(export.messages))
        outcome = outcomes[f"export {number}"] = Outcome(export)
        log = ChatLog(path, f"export {number}", **export.options)
        try:
            check_log(log)
            outcome.read = sum(1 for _ in read_log(log))
            logs.append(log)
        except InputError as error:
            outcome.refusal = str(error).replace(f"{folder}/", "")
    scratch = folder / "scratch"
    scratch.mkdir()
    stored = store_logs(logs, Filters(), scratch)
    with connect(scratch) as database:
        for rules in ("paper", "chat"):  # all logs in one join
            pairs = join_logs(stored, database, scratch, Filters(rules), {}).distinct()
            mailboxes = next(name for name, each in outcomes.items() if each.export.name.endswith(".mbox"))
            sources = Counter(source.partition("/")[0] for source in pairs.source.to_pyarrow().to_pylist())
            for name, outcome in outcomes.items():
                outcome.kept[rules] = sources[MAIL if name == mailboxes else name]
    return list(outcomes.values())
