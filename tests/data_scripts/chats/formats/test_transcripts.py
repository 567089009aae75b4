from collections import Counter

import pytest

from data_scripts.chats.messages import CHANNEL_GAP
from modeling_convsim.files.errors import InputError
from tests.data_scripts.chats.reading import read_items as read

MINUTE, HOUR, DAY = 60, 3600, 24 * 3600
MARCH_13 = 1773360000  # 2026-03-13, 0:00, in seconds since 1970


IRC = """\
--- Log opened Fri Mar 13 10:00:00 2026
{0}<@ann> hello: who
{1}-!- ben has joined
{1}<ben> me <3
{2}* ben waves
{2}< ann>  and: you
"""


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["", "", ""], [None] * 3),
        (["[22:00] ", "[23:59] ", "[00:01] "], [0, HOUR + 59 * MINUTE, 2 * HOUR + MINUTE]),
        (["[13/03/2026 10:00:00] ", "[13/03/2026 10:01:00] ", "[13/03/2026 11:00:00] "], [0, MINUTE, HOUR]),
    ],
)
def test_irc_with_and_without_times(tmp_path, times, expected):
    items, log = read(tmp_path / "c.log", IRC.format(*times))
    assert [(item.speaker, item.text) for item in items] == [
        ("ann", "hello: who"), ("ben", "me <3"), ("ann", "and: you"),
    ]  # fmt: skip
    seconds = [item.time for item in items]
    assert (seconds if None in seconds else [each - seconds[0] for each in seconds]) == expected
    assert {item.gap for item in items} == {None if None in expected else CHANNEL_GAP}
    assert log.detected["format"] == "IRC" and log.left_out == {"notice": 2} and not log.broken.counts
    if "/" in times[0]:
        assert seconds[0] == MARCH_13 + 10 * HOUR and log.detected["dates"] == "DMY"


def test_a_day_that_the_log_names_begins_a_day(tmp_path):
    lines = ["10:00 <ann> a", "09:30 <ben> b", "--- Day changed Sat Mar 14 2026", "10:30 <ann> c", "09:00 <ben> d"]
    items, _ = read(tmp_path / "c.log", "\n".join(lines))
    first = items[0].time
    assert [item.time - first for item in items] == [
        0, -30 * MINUTE, DAY + 30 * MINUTE, 2 * DAY - HOUR,
    ]  # fmt: skip


LINE = """\
\ufeff[LINE] Chat history with Ben
Saved on: 2026/03/15 10:00

Fri, 03/13/2026
10:00 AM\tAnn\thow are you?
it has been long

and more
10:01 AM\tBen joined
10:01 AM\tBen\tfine
10:02 AM\tBen\t[Sticker]
Sat, 03/14/2026
11:00 AM\tAnn\tand today?
"""


def test_columns_of_line_and_weechat(tmp_path):
    assert read(tmp_path / "c.txt", LINE.replace("\n", "\r\n"))[0] == read(tmp_path / "c.txt", LINE)[0]
    items, log = read(tmp_path / "c.txt", LINE)
    assert [(item.speaker, item.text, item.time - items[0].time) for item in items] == [
        ("Ann", "how are you?\nit has been long\nand more", 0), ("Ben", "fine", MINUTE),
        ("Ann", "and today?", DAY + HOUR),
    ]  # fmt: skip
    assert log.left_out == {"notice": 1, "no text": 1}
    assert log.broken.counts == {"line before the first message of a conversation": 2}
    marks = {
        "-->": "cid (a@b) has joined",
        "--": "Mode #c",
        "@ann": "hello",
        " *": "ann waves",
        "ben": "hi",
        "ann": "so",
    }
    lines = [f"2026-03-13 10:00:0{number}\t{mark}\t{text}" for number, (mark, text) in enumerate(marks.items())]
    items, log = read(tmp_path / "c.log", "\n".join(lines))
    assert [(item.speaker, item.text) for item in items] == [("ann", "hello"), ("ben", "hi"), ("ann", "so")]
    assert log.left_out == {"notice": 3} and items[0].time == MARCH_13 + 10 * HOUR + 2


LINE_PHONE = """\
2026/03/13（金）
{0}24:01\tAnn\tCan I call you now?
{0}00:10\tBen\t"Yes.
Until ""eight"" or so."
{0}11:30\tAnn\t"Really?"
2026/03/14周六
{0}00:05\tBen\t[ok]
"""
LINE_DESKTOP = """\
2026.03.13 Friday
{0}00:01 Ann Can I call you now?
{0}00:10 Ben Fox Yes.
Until "eight" or so.
{0}11:30 Ann "Really?"
{0}11:30 Ann Photos
{0}11:31 Cid joined the group.
2026.03.14 Saturday
{0}00:05 Ben Fox [ok]
"""


@pytest.mark.parametrize("half", ["", "午前", "上午 ", "오전 "])
@pytest.mark.parametrize(("text", "name"), [(LINE_PHONE, "Ben"), (LINE_DESKTOP, "Ben Fox")])
def test_texts_and_times_of_line(tmp_path, text, name, half):
    items, log = read(tmp_path / "c.txt", text.format(half))
    assert [(item.speaker, item.text, item.time - DAY) for item in items] == [
        ("Ann", "Can I call you now?", MINUTE), (name, 'Yes.\nUntil "eight" or so.', 10 * MINUTE),
        ("Ann", '"Really?"', 11.5 * HOUR), (name, "[ok]", DAY + 5 * MINUTE),
    ]  # fmt: skip
    assert not log.broken.counts


def test_texts_of_several_lines_keep_quotation_marks_where_not_all_have_them(tmp_path):
    lines = ['10:00\tAnn\t"Open?"', '10:01\tBen\t"Yes.', 'Until eight."', "10:02\tAnn\tAnd", "on Sunday?"]
    items, _ = read(tmp_path / "c.txt", "\n".join([*lines, "10:03\tBen\tNo,", "closed."]))
    assert [item.text for item in items] == ['"Open?"', '"Yes.\nUntil eight."', "And\non Sunday?", "No,\nclosed."]


KAKAOTALK = """\
Ben 님과 카카오톡 대화
저장한 날짜 : 2026-03-15 10:00:00

--------------- 2026년 3월 13일 금요일 ---------------
[Ann] [오전 10:00] how are you?
it has been long
[Ben Ro] [오후 5:29] fine
[Ben Ro] [오후 5:30] [1] of : them
--------------- 2026년 3월 14일 토요일 ---------------
[Ann] [오전 11:00] and today?
"""
KAKAO_PHONE = """
Ben 님과 카카오톡 대화
저장한 날짜 : 2026년 3월 15일 오전 10:00

{0} 오전 10:00
{0} 오전 10:00, Ann : how are you?
it has been long
{0} 오후 5:29, Ben Ro : fine
{0} 오후 5:29, Cid님이 나갔습니다.
{0} 17:29: Cid님이 들어왔습니다.
{0} 17:30, Ben Ro : [1] of : them
2026년 3월 14일 토요일
{1} 오전 11:00, Ann : and today?
"""
KAKAO_ENGLISH = """
March 13, 2026 10:00 AM
March 13, 2026 10:00 AM, Ann : how are you?
it has been long
Mar 13, 2026 at 5:29 PM, Ben Ro : fine
March 13, 2026, 17:30, Ben Ro : [1] of : them
March 14, 2026 11:00 AM, Ann : and today?
"""


@pytest.mark.parametrize(
    "text",
    [
        KAKAOTALK,
        KAKAO_PHONE.format("2026년 3월 13일", "2026년 3월 14일"),
        KAKAO_PHONE.format("2026. 3. 13.", "2026. 3. 14."),
        KAKAO_PHONE.format("2026年3月13日", "2026年3月14日"),
        KAKAO_ENGLISH,
    ],
)
def test_exports_of_kakaotalk(tmp_path, text):
    items, log = read(tmp_path / "c.txt", text)
    assert [(item.speaker, item.text, item.time - items[0].time) for item in items] == [
        ("Ann", "how are you?\nit has been long", 0), ("Ben Ro", "fine", 7 * HOUR + 29 * MINUTE),
        ("Ben Ro", "[1] of : them", 7 * HOUR + 30 * MINUTE), ("Ann", "and today?", DAY + HOUR),
    ]  # fmt: skip
    assert log.detected["format"] == "KakaoTalk"
    assert log.left_out == Counter(notice=4 if "Cid" in text else int("March" in text))
    assert set(log.broken.counts.values()) <= {2}  # the heading


SPOKEN = """\
Dario Ito: where is it?
It was due: today
Agent: on its way

Dario Ito: thanks
Agent: welcome
 really

 more: of it
----
a heading
Kira: hello?
Agent: hello
"""


def test_blank_lines_and_rules_end_conversations(tmp_path):
    items, log = read(tmp_path / "c.txt", SPOKEN)
    assert [(item.thread, item.speaker, item.text) for item in items] == [
        ("c/1", "Dario Ito", "where is it?"), ("c/1", "It was due", "today"), ("c/1", "Agent", "on its way"),
        ("c/2", "Dario Ito", "thanks"), ("c/2", "Agent", "welcome\nreally\nmore: of it"),
        ("c/3", "Kira", "hello?"), ("c/3", "Agent", "hello"),
    ]  # fmt: skip
    assert {(item.time, item.gap, item.parent) for item in items} == {(None, None, None)}
    assert len({item.id for item in items}) == 7 and log.detected == {"format": "transcript"}
    assert log.broken.counts == {"line before the first message of a conversation": 1}
    assert "c.txt:11" in log.broken.examples[0]


@pytest.mark.parametrize(
    ("text", "threads"),
    [
        ("Transcript of a call\nAnn: a, b\nBen: b\nAnn: c\n", "111"),
        ("Ann: a\n\nBen: b\n\nAnn: c\nmore\n\nBen: d\n", "1111"),  # blank lines between all messages
        ("Ann: a\nBen: b\n\nAnn: c\n\nBen: d\n", "1123"),  # between half of them
        ("Ann: a\nBen: b\n\nmore\nAnn: c\nBen: d\n", "1111"),
        ("10:00 Ann: a\nBen: b\n10:01 Ann: c\nBen: d\n", "1111"),  # half have times
        ("Ann: a\r\nBen: b\r\n\r\nAnn: c\r\n====\r\nBen: d\r\n", "1123"),
    ],
)
def test_where_conversations_end(tmp_path, text, threads):
    items, _ = read(tmp_path / "c.txt", text)
    assert [item.thread for item in items] == [f"c/{number}" for number in threads]
    assert [item.text[0] for item in items] == list("abcd")[: len(items)]
    assert not any("\r" in item.text for item in items)


def test_a_name_that_nearly_all_others_are_not_is_no_name(tmp_path):
    lines = ["Ann: a", "Ben: b"] * 10
    for count, is_name in ((20, False), (19, True)):  # less than a twentieth of the messages, and a twentieth
        items, _ = read(tmp_path / "c.txt", "\n".join([*lines[:count], "Note: c"]))
        assert (items[-1].speaker == "Note") == is_name
    items, _ = read(tmp_path / "c.txt", "\n".join([*lines, "Note: c", *lines, "---", "Cid: d"]))
    assert [(item.speaker, item.text) for item in items[19:21]] == [("Ben", "b\nNote: c"), ("Ann", "a")]
    assert (items[-1].speaker, items[-1].text, items[-1].thread) == ("Cid", "d", "c/2")


def test_times_before_names(tmp_path):
    items, _ = read(
        tmp_path / "c.txt", "09:59:00\t Ann Lee:\ta\n10:01:00\t Ben:\tb\n\n10:02:00\t Ann Lee:\tc\n", gap=60.0
    )
    assert [(item.thread, item.speaker, item.time, item.gap) for item in items] == [
        ("c", "Ann Lee", 35940, 60), ("c", "Ben", 36060, 60), ("c", "Ann Lee", 36120, 60),
    ]  # fmt: skip
    items, log = read(tmp_path / "c.txt", "25:10 Ann: a\n12:10 pm Ben: b\n12:11 pm Ann: c\nBen: d\n")
    assert [(item.text, item.time) for item in items] == [("b", 43800), ("c", 43860), ("d", 43860)]
    assert log.broken.counts == {"wrong time": 1}
    assert "c.txt:1: wrong time (expected a number or a date" in log.broken.examples[0]


ABOVE = """\
{0}
Hello, Ben: how
are you?

{1}
Fine.

{2}

{3}
10:05
Good.
"""


NAMES = [("Ann Lee", 13, 0), ("Ben", 13, 1), ("Ben", 13, 2), ("Ann Lee", 14, 0)]
FORMS = [  # copies from Telegram, WeChat and Discord
    "[{1}/03/2026 {2}:{3:02}] {0}",
    "{} [{}.03.26 {}:{:02}]", "{}, [{}.03.2026 {}:{:02}:00]", "{}, [3/{}/2026 {}:{:02} AM]", "{} 2026/3/{} {}:{:02}:00",
    "🌸 {} [{}.03.26 {}:{:02}]", "[{1}-Mar-26 {2}:{3:02} AM] 0 {0}",
    "{} 2026年3月{}日 上午{}:{:02}", "{}, [{} Mar 2026 at {}:{:02}]", "{} — {}/03/2026 {}:{:02}",
    "[3/{1}/26 {2}:{3:02}] {0} (pinned)",
]  # fmt: skip


@pytest.mark.parametrize(
    ("headings", "speakers", "times"),
    [
        (["10:00:05 From Ann to Everyone:", "10:01:05 From Ben to Ann(Directly):", "10:02:05 Ben", "10:03:05 Ann"],
         ["Ann", "Ben", "Ann"], [0, MINUTE, 3 * MINUTE]),
        *(([form.format(name, day, 10, minute) for name, day, minute in NAMES], ["Ann Lee", "Ben", "Ann Lee"],
           [0, MINUTE, DAY]) for form in FORMS),
        (["Ann 0:00", "Ben  0:05  ", "Ben 1:00:05", "Ann (0:59):"], ["Ann", "Ben", "Ann"], None),
    ],
)  # fmt: skip
def test_names_above_texts(tmp_path, headings, speakers, times):
    items, log = read(tmp_path / "c.txt", ABOVE.format(*headings))
    assert [item.speaker.lstrip("🌸 0") for item in items] == speakers and {item.thread for item in items} <= {
        "c",
        "c/1",
    }
    assert [item.text for item in items] == ["Hello, Ben: how\nare you?", "Fine.", "Good."]
    seconds = [item.time for item in items]
    assert [each - seconds[0] for each in seconds] == times if times else seconds == [None] * 3
    assert log.left_out == {"no text": 1, "line with only a time": 1} and not log.broken.counts


def test_times_in_texts_are_no_names_above_others(tmp_path):
    texts = ["When?\nOr at 18:05\nOr Friday 6:05 PM", "March 13, 2026", "2026-03-13 18:05"]
    headings = ["Ann [13.03.26 10:00]", "Ben [13.03.26 10:01]", "Ann [13.03.26 10:02]"]
    lines = [line for each in zip(headings, texts, strict=True) for line in each]
    assert [item.text for item in read(tmp_path / "c.txt", "\n".join(lines))[0]] == texts


@pytest.mark.parametrize(
    ("lines", "speakers"),
    [
        (["( 5s ) Ann: a", "(1m 20s) Ben: b", "( 1h 2m 3s ) Ann: c"], ["Ann", "Ben", "Ann"]),
        (["10:00:05\t From  Ann Lee  to  Everyone : a", "10:01:05\t From  Ben  To  Ann Lee(privately) : b",
          "10:02:05\t From  Ann Lee  to  Everyone : c"], ["Ann Lee", "Ben", "Ann Lee"]),
        (["Ann from Rome: a", "From: b", "Ann from Rome: c"], ["Ann from Rome", "From", "Ann from Rome"]),
    ],
)  # fmt: skip
def test_what_may_be_around_names(tmp_path, lines, speakers):
    items, log = read(tmp_path / "c.txt", "\n".join(lines))
    assert [(item.speaker, item.text) for item in items] == list(zip(speakers, "abc", strict=True))
    assert not log.broken.counts and not log.left_out


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.txt", "Ann: a\nBen: b\n", "neither a chat, with lines such as"),  # each has only one line
        ("c.txt", "Ann: a\nAnn: b\n", "neither a chat"),
        ("c.txt", "Dear Ann\nsee below: it\nthis: that\nand\nso\non\n", "neither a chat"),
        ("c.log", "10:00 Opened\n10:01 Closed\n10:02 Opened\n10:03 Closed\n", "c.log: not a chat"),
    ],
)
def test_other_texts_are_refused(tmp_path, name, text, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path / name, text)


def test_tables_stay_tables(tmp_path):
    items, _ = read(tmp_path / "c.txt", "input\tresponse\nAnn: a\tb\nAnn: c\td\nBen: e\tf\n")
    assert [(item.input, item.response) for item in items] == [("Ann: a", "b"), ("Ann: c", "d"), ("Ben: e", "f")]


KAKAO = [
    ("Ann", "문이 열려 있어요?"), ("Ben", "삭제된 메시지입니다."), ("Ben", "사진"), ("Ben", "사진 3장"),
    ("Ben", "이모티콘"), ("Ben", "파일: plan.pdf"), ("Ben", "보이스톡 해요"), ("Ben", "2 Photos"),
    ("Ben", "사진 봤어요?"), ("Ann", "보이스톡 할까?"),
]  # fmt: skip
KAKAO_NOTICE = "Cid님이 들어왔습니다."
KAKAO_EXPORTS = [
    "\n".join([*(f"[{name}] [오후 5:29] {text}" for name, text in KAKAO), KAKAO_NOTICE]),
    "\n".join([f"2026년 3월 13일 오후 5:29, {name} : {text}" for name, text in KAKAO] + [KAKAO_NOTICE]),
    "\n".join(
        ["Date,User,Message", *(f"2026-03-13 17:29:00,{name},{text}" for name, text in [*KAKAO, ("Cid", KAKAO_NOTICE)])]
    ),
]
ZOOM = """\
10:00:01 From Ann Lee to Everyone:
\tIs the gate open?
10:00:10 From Ben Fox to Everyone:
\tReplying to "Is the gate open?"
\t
\tYes, until eight.
10:00:20 From Cid to Everyone:
\tReacted to "Yes, until eight." with 👍
10:00:30 From Ann Lee to Everyone:
\tThis message has been deleted.
10:00:40 From Cid to Everyone:
\tRemoved a 👍 reaction from "Yes, until eight."
"""


LINE_WORDS = """\
17:29\tAnn\t開いていますか?
17:31\tBen\t☎ 不在着信
18:06\tBen\t[ノート] 予定
18:06\tBen\t[アルバム]
18:07\tBen\t[File] plan.pdf
18:07\t\tBenがメッセージの送信を取り消しました
18:08\tBen\t[写真]を見て
18:09\tAnn\t☎ 0123 456
"""
DISCORD = """\
======
Guild: A
======

[3/13/2026 6:05 PM] ann
Is the {Reactions} tab open?

{Attachments}
https://cdn.example/a.png

{Reactions}
👍 (2) ❤

[3/13/2026 6:06 PM] ben (pinned)
Yes.
like 1
heart 12

[3/13/2026 6:07 PM] ann
{Stickers}
https://cdn.example/b.png

[3/13/2026 6:08 PM] ann
Pinned a message.

[3/13/2026 6:09 PM] ben
like 1

======
Exported 5 message(s)
======
"""
TELEGRAM = """\
Ann, [13.03.2026 18:05]
Is it open?

Ben, [13.03.2026 18:06]
[In reply to Ann]
Yes.

Ann, [13.03.2026 18:07]
[Forwarded from Cid]
Hello

Ben, [13.03.2026 18:08]
[ Photo ]
"""


@pytest.mark.parametrize(
    ("text", "said", "left_out"),
    [
        *((text, ["문이 열려 있어요?", "사진 봤어요?", "보이스톡 할까?"],
           {"deleted": 1, "media or call": 6, "notice": 1}) for text in KAKAO_EXPORTS),
        (LINE_WORDS, ["開いていますか?", "[写真]を見て", "☎ 0123 456"], {"no text": 3, "notice": 1, "call": 1}),
        (DISCORD, ["Is the {Reactions} tab open?", "Yes.", "like 1"], {"no text": 1, "system message": 1}),
        (TELEGRAM, ["Is it open?", "Yes."], {"forwarded": 1, "no text": 1}),
        (ZOOM, ["Is the gate open?", "Yes, until eight."], {"reaction": 2, "deleted": 1}),
    ],
)  # fmt: skip
def test_what_the_program_wrote_is_left_out(tmp_path, text, said, left_out):
    items, log = read(tmp_path / ("c.csv" if text.startswith("Date,") else "c.txt"), text)
    assert [item.text for item in items] == said and log.left_out == left_out
    assert set(log.broken.counts.values()) <= {2}  # the headings
