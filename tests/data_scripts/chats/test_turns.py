"""Turns, the turns that they answer, who answers, and threads."""

import itertools
import random
from collections import defaultdict

import ibis
import pyarrow as pa
import pytest

from data_scripts.chats.column_roles import answering_roles
from data_scripts.chats.threads import divide_threads, thread_names
from data_scripts.chats.turns import find_repliers, make_turns, mark_answers
from data_scripts.schemas import MESSAGE_SCHEMA


def random_messages(seed: int, number: int = 120) -> list[dict]:
    draw = random.Random(seed)
    rows = []
    for row in range(number):
        thread = draw.choice(["a", "b", "c", None])
        first = row if seed % 2 else 0  # replies are before what they answer
        parents = ["", f"m{draw.randrange(first, number)}", f"m{draw.randrange(first, 2 * number)}"]
        text = draw.choice(["", "yes", "hello there", "fünf Wörter", "why not?"])
        rows.append(
            {
                "id": f"m{draw.randrange(number) if draw.random() < 0.1 else row}",
                "parent": draw.choice(parents) if thread is None else draw.choice([None, None, None, *parents]),
                "thread": thread,
                "speaker": draw.choice(["Ann", "Ben", "Ben", None]),
                "time": draw.choice([None, *range(20)]) if thread == "c" else float(draw.randrange(80)),
                "text": text,
                "source": draw.choice(["one", "two"]),
                "gap": {"b": 5.0, "c": 3.0}.get(thread or ""),
                "is_answer": draw.choice([True, False, None]),
                "row": row,
                "characters": len(text),
                "alphabetic": sum(map(str.isalpha, text)),
                "language": draw.choice(["", "en"]),
            }
        )
    return rows


def brute_force(rows: list[dict]) -> tuple[dict[int, dict], dict[int, str]]:
    """Turns and the names of their threads, both by lowest row, computed message by message."""
    lanes, holder = defaultdict(list), {}
    for row in rows:
        if (row["source"], row["id"]) not in holder:
            holder[row["source"], row["id"]] = None
            lanes[row["source"], row["id"] if row["thread"] is None else row["thread"]].append(row)
    turns = []
    for lane in lanes.values():
        lane.sort(key=in_time)
        for at, row in enumerate(lane):
            before = lane[at - 1] if at else None
            ends = before is None
            if before and None not in (row["time"], before["time"], row["gap"]):
                ends = row["time"] - before["time"] > row["gap"]
            same_speaker = before and row["speaker"] is not None and row["speaker"] == before["speaker"]
            if row["parent"] is None and not ends and same_speaker:
                turns[-1]["rows"].append(row)
            else:
                turns.append({"rows": [row], "previous": None if ends else turns[-1]})
            holder[row["source"], row["id"]] = turns[-1]
    turns = join_parts(turns, holder)
    for turn in turns:
        turn["key"] = min(row["row"] for row in turn["rows"])
    found, neighbors = {}, defaultdict(set)
    for turn in turns:
        head, said = turn["rows"][0], sorted(turn["rows"], key=lambda row: in_time(row)[:2])  # else, as the parts are
        texts = [row["text"] for row in said if row["text"]]
        answered = turn["previous"] if head["parent"] is None else holder.get((head["source"], head["parent"]))
        if answered:
            neighbors[turn["key"]].add(answered["key"])
            neighbors[answered["key"]].add(turn["key"])
        text = " ".join(texts)
        found[turn["key"]] = {
            "id": head["id"],
            "answers": answered["key"] if answered else None,
            "lost": bool(head["parent"]) and not answered,
            "thread": head["thread"],
            "speaker": head["speaker"],
            "source": head["source"],
            "gap": head["gap"],
            "is_answer": head["is_answer"],
            "messages": len(turn["rows"]),
            "text": text,
            "characters": len(text),
            "alphabetic": sum(map(str.isalpha, text)),
        }
    return found, {key: thread_name(key, found, neighbors) for key in found}


def in_time(row: dict) -> tuple[bool, float, int]:
    return row["time"] is None, row["time"] or 0, row.get("place", row["row"])


def join_parts(turns: list[dict], holder: dict) -> list[dict]:
    """The turns with those that are parts of one reply joined; `holder` then has the joined ones."""
    lowest = {id(turn): min(row["row"] for row in turn["rows"]) for turn in turns}
    for source in ("one", "two"):
        own = [(turn, turn["rows"][0]) for turn in turns if turn["rows"][0]["source"] == source]
        answered = [(turn, holder[source, head["parent"]]) for turn, head in own if (source, head["parent"]) in holder]
        if 2 * sum(lowest[id(turn)] < lowest[id(other)] for turn, other in answered) > len(answered):
            for _, head in own:
                head["place"] = -head["row"]  # the newest message is first
    turns = sorted(turns, key=lambda turn: in_time(turn["rows"][0]))
    heads, family, last = {id(turn): turn["rows"][0] for turn in turns}, {id(turn): [turn] for turn in turns}, {}
    replies = []
    for turn in turns:
        head = turn["rows"][0]
        answered = holder.get((head["source"], head["parent"]))
        if answered is None:
            continue
        speaker, author = head["speaker"], answered["rows"][0]["speaker"]
        replies.append((turn, answered, speaker is not None and speaker == author))
        before = last.get(id(answered))
        last[id(answered)] = turn
        if speaker is not None and speaker == author:
            before = answered
        if before is not None and speaker is not None and before["rows"][0]["speaker"] == speaker:
            both = family[id(turn)]
            if both is not family[id(before)]:
                both += family[id(before)]
                family.update((id(each), both) for each in both)
    joined = []
    for members in {id(each): each for each in family.values()}.values():
        members.sort(key=lambda turn: in_time(heads[id(turn)]))
        answers = [in_time(heads[id(turn)]) for turn, answered, own in replies if not own and answered in members]
        for at, turn in enumerate(members):
            head, before = heads[id(turn)], heads[id(members[at - 1])] if at else None
            pause = before and None not in (head["time"], before["time"]) and head["time"] - before["time"]
            between = before and any(in_time(before) < each < in_time(head) for each in answers)
            if before and not between and not (pause and head["gap"] is not None and pause > head["gap"]):
                joined[-1]["rows"] += turn["rows"]
                joined[-1]["turns"].append(turn)
            else:
                joined.append({**turn, "rows": [*turn["rows"]], "turns": [turn]})
    whole = {id(turn): each for each in joined for turn in each["turns"]}
    holder.update((name, whole[id(turn)]) for name, turn in holder.items())
    for each in joined:
        each["previous"] = whole.get(id(each["previous"]))
    return joined


def thread_name(key: int, found: dict[int, dict], neighbors: dict[int, set[int]]) -> str:
    def divided(turn: int) -> bool:
        return found[turn]["thread"] is None or found[turn]["gap"] is not None

    if not divided(key):
        return found[key]["thread"]
    # A link belongs to the answering turn; links of turns in named threads connect no threads.
    reached, todo = {key}, [key]
    while todo:
        turn = todo.pop()
        for other in neighbors[turn] - reached:
            linked = (found[turn]["answers"] == other and divided(turn)) or (
                found[other]["answers"] == turn and divided(other)
            )
            if linked:
                reached.add(other)
                todo.append(other)
    root = found[min(reached)]
    return f"{root['thread'] or root['source']}/{root['id']}"


@pytest.mark.parametrize("seed", range(8))
def test_turns_and_threads_equal_those_of_a_loop_over_the_messages(seed):
    rows = random_messages(seed)
    database = ibis.duckdb.connect()
    messages = database.create_table("messages", pa.Table.from_pylist(rows, MESSAGE_SCHEMA))
    turns = database.create_table("turns", make_turns(messages).to_pyarrow())
    names = thread_names(turns).to_pyarrow().to_pylist()
    expected, expected_names = brute_force(rows)
    found = {row.pop("turn"): row for row in turns.drop("language").to_pyarrow().to_pylist()}
    assert found == expected
    assert {row["turn"]: row["thread"] for row in names} == expected_names
    assert len(names) == len(expected_names)


def test_a_thread_among_a_hundred_is_not_divided():
    rows = [{"turn": at, "thread": f"{at % 100}"} for at in range(9_000)]
    assert divide_threads(ibis.duckdb.connect().create_table("names", pa.Table.from_pylist(rows))) is None


def table_of(rows: list[dict]) -> ibis.Table:
    """Messages of Ann in a thread, with the given values."""
    row = dict.fromkeys(MESSAGE_SCHEMA.names) | {"thread": "a", "speaker": "Ann", "source": "one", "alphabetic": 1}
    numbered = [row | {"id": f"{at}", "row": at, "text": "a", "characters": 1} | each for at, each in enumerate(rows)]
    return ibis.duckdb.connect().create_table("messages", pa.Table.from_pylist(numbered, MESSAGE_SCHEMA))


@pytest.mark.parametrize(("time", "count"), [(15.0, 2), (15.5, 3)])
def test_a_pause_longer_than_the_gap_ends_a_reply_in_parts(time, count):
    replies = [{"parent": "0", "speaker": "Ben", "time": at, "gap": 5.0} for at in (10.0, time)]
    assert make_turns(table_of([{"parent": "", "time": 0.0}, *replies])).count().to_pyarrow().as_py() == count


def test_what_a_log_says_of_a_message_counts_more_than_the_name_of_its_author():
    said = [("agent", None), ("customer", None), ("customer", True), ("agent", False), (None, None)]
    messages = table_of([{"speaker": speaker, "is_answer": answers} for speaker, answers in said])
    marked = mark_answers(messages, []).order_by("row").to_pyarrow()["is_answer"].to_pylist()
    assert marked == [True, False, True, False, None]


def test_the_language_of_a_turn_is_that_of_its_longest_message():
    said = [("oui", "fr"), ("a longer one", "en"), ("oui", "fr")]
    messages = table_of([{"text": text, "characters": len(text), "language": language} for text, language in said])
    turns = make_turns(messages).to_pyarrow().to_pylist()
    assert [(turn["text"], turn["language"]) for turn in turns] == [("oui a longer one oui", "en")]


AGENTS = ["Tom", "Priya"]
CUSTOMERS = [f"customer {number}" for number in range(8)]
SUPPORT = [
    pair
    for agent, customer in itertools.product(AGENTS, CUSTOMERS)
    for pair in ((customer, agent), (agent, customer), (customer, agent))
]


def test_the_authors_who_answer_many_others_are_found_whoever_wrote_first():
    assert find_repliers(SUPPORT) == ["Priya", "Tom"]  # by the number of those whom they answer, then by name
    assert find_repliers([*SUPPORT, ("customer 0", "Priya")]) == ["Priya", "Tom"]
    assert find_repliers([(replier, asker) for asker, replier in SUPPORT]) == ["Priya", "Tom"]
    assert find_repliers([(customer, "Tom") for customer in CUSTOMERS[:5]]) == ["Tom"]  # as few as say so
    # A few messages between agents or without an author change nothing.
    assert find_repliers([*SUPPORT, ("Tom", "Priya"), (None, "Tom")]) == ["Priya", "Tom"]


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [("Ann", "Bob"), ("Bob", "Ann")] * 20,
        [(None, "Ann"), (None, "Bob")] * 20,
        list(itertools.permutations(["Ann", "Bob", "Cleo", "Dan", "Eve"], 2)) * 5,
        [*SUPPORT, *[("Tom", "Priya")] * 8],  # 15 % of the pairs are between agents
        [(customer, "Tom") for customer in CUSTOMERS[:4]],  # four replies
        [(customer, "Tom") for customer in CUSTOMERS[:2]] * 5,  # two others
    ],
)
def test_nobody_is_found_where_roles_are_not_clear(pairs):
    assert find_repliers(pairs) == []


@pytest.mark.parametrize(
    ("values", "answering"),
    [
        (["customer", "AGENT "], ["AGENT "]),
        (["user", "bot", "agent", "system", ""], ["agent"]),
        (["incoming", "outgoing"], ["outgoing"]),
        (["agent"], []),
        (["customer", "Tom"], []),
        (["me", "them", "a", "b", "c"], []),
    ],
)
def test_values_that_name_both_sides_are_roles(values, answering):
    assert answering_roles(values) == answering
