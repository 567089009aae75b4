"""A help desk's log, from messages with salutations, signatures and receipts to pairs without names."""

import csv
import re
from pathlib import Path

import pytest

from data_scripts.__main__ import main
from tests.data_scripts.outputs import read, report

CUSTOMERS = ["Tunde Bello", "Ngozi Okafor", "Luc Martin", "María López", "Weber, Anna", "grace.kim@example.org"]
FIRST = ["Tunde", "Mrs Okafor", "Luc", "María", "Frau Weber", "Grace"]
SALUTATIONS = ["Hi {},\n", "Hello {}, ", "Bonjour {},\n\n", "¡Hola {}! ", "Hallo {}, ", "hey {} - "]
CLOSINGS = [
    *("\nBest regards,\n{}\nNimbus Support | Help Center", " Kind regards, {}, Nimbus Support", "\n\nThanks,\n{}"),
    *("\nMit freundlichen Grüßen\n{}", "\nSaludos,\n{}", " - {}"),
]
FOOTERS = ["", "\n\nSent from my iPhone", "\nGet Outlook for iOS"]
ANSWERS = ["Sign in again, please.", "Ask the owner to share the folder.", "It is fixed, {}."]


def help_desk(path: Path, agents: tuple[str, str] = ("Priya Sharma", "Tom Lee"), bot: str = "Nimbus") -> Path:
    """36 tickets: a message, a receipt, and an answer with names."""
    rows = [("ticket", "from", "text")]
    for number in range(36):
        at, agent = number % 6, ("Priya Sharma", "Tom Lee")[number % 2]
        speaker = CUSTOMERS[at] if agents[0] != "agent" else "customer"
        rows.append((number, speaker, f"Hi {agent.split()[0]}, file {number} is lost{FOOTERS[number % 3]}"))
        rows.append((number, bot, f"Hello {FIRST[at]},\n\nthank you for contacting Nimbus. Your number is #{number}."))
        answer = ANSWERS[number % 3].format(FIRST[at])
        text = SALUTATIONS[number // 6].format(FIRST[at]) + answer + CLOSINGS[(number * 5 + 1) % 6].format(agent)
        rows.append((number, agents[number % 2], text))
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


NAMES = re.compile(
    "Tunde|Bello|Ngozi|Okafor|Luc|Martin|Mar[ií]a|L[oó]pez|Anna|Weber|Grace|Kim|Priya|Sharma|Tom|Lee", re.IGNORECASE
)


@pytest.mark.parametrize(("agents", "bot"), [(("Priya Sharma", "Tom Lee"), "Nimbus"), (("agent", "agent"), "agent")])
def test_no_name_and_no_receipt_is_left_and_the_agents_answer_the_customers(tmp_path, agents, bot):
    """The second log has roles in place of speakers, so its names are known from the letters."""
    assert main(["conversations", str(help_desk(tmp_path / "log.csv", agents, bot)), "-o", str(tmp_path / "out")]) == 0
    pairs = read(tmp_path / "out")
    assert len(pairs) == 36
    assert [pair for pair in pairs if NAMES.search(pair["input"] + pair["response"])] == []
    assert {pair["response"] for pair in pairs} == {answer.format("[name]") for answer in ANSWERS}
    assert {pair["input"] for pair in pairs} == {f"File {number} is lost" for number in range(36)}
    counts = report(tmp_path / "out")
    assert counts["messages"] == {"read": 108, "automatic": 36, "id seen before": 0, "in turns": 72}
    assert counts["removed from texts"] == {
        "quotations": 0,
        "salutations": 108,
        "closings and signatures": 30,
        "initials and names at the end": 6,
        "marks of parts": 0,
        "device footers": 24,
        "addressees": 0,
        "names replaced by [name]": 12,
    }


@pytest.mark.parametrize("options", [["--keep_salutations"], ["--filters", "paper"]])
def test_all_of_it_can_be_kept(tmp_path, options):
    log = help_desk(tmp_path / "log.csv")
    assert main(["conversations", str(log), "-o", str(tmp_path / "out"), *options]) == 0
    counts = report(tmp_path / "out")
    assert "removed from texts" not in counts and "automatic" not in counts["messages"]
    assert any(pair["response"].startswith("Hello Tunde,\n\nthank you for") for pair in read(tmp_path / "out"))
    assert ("salutations", "kept") in counts["settings"].items() or options[0] == "--filters"


def test_ready_pairs_are_stripped_on_both_sides_and_measured_again(tmp_path):
    rows = ["input\tresponse", "Hi Priya, it is slow. Regards, Tunde\t@tunde Restart it, Tunde. Best regards, Priya",
            "Hello, is it open?\tIt is. Sent from my iPhone"]  # fmt: skip
    (tmp_path / "pairs.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    options = ["-o", str(tmp_path / "out"), "--min_characters", "7"]
    assert main(["conversations", str(tmp_path / "pairs.tsv"), *options]) == 0
    assert [(pair["input"], pair["response"]) for pair in read(tmp_path / "out")] == [
        ("It is slow.", "Restart it, Tunde.")
    ]
    counts = report(tmp_path / "out")
    assert counts["pairs read"]["response: fewer than 7 characters"] == 1  # of "It is."
    assert counts["removed from texts"]["device footers"] == 1


def test_personal_data_are_masked_in_what_is_left(tmp_path):
    rows = ["thread\tspeaker\ttext", "1\tTunde Bello\thow do I write to you?",
            "1\tPriya\tHi Tunde, write to help@example.org or @nimbus_help, Tunde."]  # fmt: skip
    (tmp_path / "log.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert main(["conversations", str(tmp_path / "log.tsv"), "-o", str(tmp_path / "out"), "--mask"]) == 0
    assert [pair["response"] for pair in read(tmp_path / "out")] == ["Write to [EMAIL] or [USER], [name]."]


def test_inspect_shows_the_pairs_and_what_was_removed(tmp_path, capsys):
    log = str(help_desk(tmp_path / "log.csv"))
    assert main(["inspect", log]) == 0
    output = capsys.readouterr().out
    assert "    -> Sign in again, please.\n" in output
    assert re.search(r"salutations +108\n.* signatures +30\n.* end +6\n.* parts +0\n.* footers +24\n", output)
    assert re.search(r"automatic +36\n", output)
    assert main(["inspect", log, "--keep_salutations"]) == 0
    output = capsys.readouterr().out
    assert "removed from texts" not in output and f"{log} --keep_salutations --columns" in output
