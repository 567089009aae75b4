"""Android's text messages, as the app SMS Backup & Restore writes them (.xml): SMS, and the texts of MMS.

Its XML is not always well-formed: it has the halves of emoji as character references of their own.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from data_scripts.chats.formats import Format
from data_scripts.chats.messages import ChatLog, Fields, Items, LeftOutError, Message
from modeling_convsim.files.documents import SUFFIX, xml_events
from modeling_convsim.files.errors import InputError

OWNER = "me"  # the speaker of what was sent
RECEIVED, SENT = "1", "2"  # `type` of an SMS, `msg_box` of an MMS
UNSENT = {"3": "draft", "4": "not sent", "5": "not sent", "6": "not sent"}
SENDER = "137"  # `type` of the address of an MMS; the others are recipients
_MISSING = {"", "null", "(Unknown)"}
_IS_VALID = re.compile(r"[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # in XML 1.0
_NUMBER = re.compile(r"[+\d\s()./-]+")
_REFERENCES = re.compile(rb"(?:&#(?:[0-9]{1,7}|x[0-9a-fA-F]{1,6});)+")


def _read(log: ChatLog) -> Items:
    def parse(element: Any) -> Message:
        fields = Fields({name: value for name, value in element.attrib.items() if value not in _MISSING})
        is_sms = element.tag == "sms"
        box = fields.label("type" if is_sms else "msg_box") or "none"
        text = fields.label("body") if is_sms else _mms_text(element)
        if box not in (RECEIVED, SENT):
            raise LeftOutError(UNSENT.get(box, f"type {box}"))
        if not text.strip():
            raise LeftOutError("no text")
        address = fields.required("address")
        sender = _sender_in_group(element, address) or fields.label("contact_name") or address
        speaker, thread = OWNER if box == SENT else sender, f"{log.name}/{_chat(address)}"
        time = fields.seconds("date")
        return Message("", None, thread, speaker, time, text, log.name, log.channel_gap)

    return log.parse_each(_messages(log.path), parse)


def _chat(address: str) -> str:
    """The name of a chat: its numbers, which may be written with or without the code of the country, in any order."""
    return "~".join(sorted(map(_last_digits, address.split("~"))))


def _last_digits(address: str) -> str:
    """The digits that all ways of writing a phone number have; another address as it is."""
    digits = re.sub(r"\D", "", address)
    return digits[-9:] if digits and _NUMBER.fullmatch(address) else address


def _mms_text(element: Any) -> str:
    parts = [part.get("text", "") for part in element.iter("part") if part.get("ct") == "text/plain"]
    return "\n".join(text for text in parts if text not in _MISSING)


def _sender_in_group(element: Any, address: str) -> str:
    """The address that sent the MMS of a group; "" for other messages."""
    senders = [each.get("address", "") for each in element.iter("addr") if each.get("type") == SENDER]
    return senders[0] if "~" in address and senders else ""


def _messages(path: Path) -> Iterator[tuple[str, Any]]:
    """The elements `sms` and `mms`, each with its location.

    Raises:
        InputError: the file is another XML, or is not well-formed.
    """
    root, repair = None, partial(_REFERENCES.sub, _valid_references)
    for location, event, element in xml_events(path, "copy the backup from the phone again", repair):
        if root is None:
            root = element
            if root.tag != "smses":
                raise InputError(
                    f"{location}: found <{root.tag}>, expected <smses> as in the app SMS Backup & Restore; "
                    "export the chats of other programs as JSON, CSV or text"
                )
        if event == "end" and element.tag in ("sms", "mms"):
            yield location, element
            root.clear()


def _valid_references(match: re.Match[bytes]) -> bytes:
    """Character references without those of characters that XML does not have; the halves of a character are joined."""
    codes = [int(code[1:], 16) if code[:1] == b"x" else int(code) for code in re.findall(rb"&#(\w+);", match[0])]
    units = "".join(map(chr, (code for code in codes if code <= 0x10FFFF))).encode("utf-16-le", "surrogatepass")
    valid = filter(_IS_VALID.match, units.decode("utf-16-le", "replace"))
    return b"".join(b"&#%d;" % ord(character) for character in valid)


FORMATS = (Format("SMS Backup & Restore", _read, lambda sample: sample.form == SUFFIX, suffixes=(SUFFIX,)),)
