"""The exports of `messy_exports` are read completely, or refused with a remedy."""

from pathlib import Path

import pytest

from tests.data_scripts.messy_exports import EXPORTS, Outcome, read_exports

NAMES = [export.name for export in EXPORTS]
LABELS = {"transcript.txt": 1}  # lines of messages that begin like messages themselves
MEDIA = {"WhatsApp Chat.txt": 250, "whatsapp.zip": 25}  # of which the text says that they were omitted


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    folder: Path = tmp_path_factory.mktemp("exports")
    return {outcome.export.name: outcome for outcome in read_exports(folder)}


@pytest.mark.parametrize("name", [export.name for export in EXPORTS if export.refused])
def test_an_export_that_is_not_clear_is_refused_with_the_remedy(outcomes, name):
    assert outcomes[name].export.refused in outcomes[name].refusal and outcomes[name].refusal.startswith(name)
    assert outcomes[name].kept == {"paper": 0, "chat": 0}


@pytest.mark.parametrize("name", [export.name for export in EXPORTS if not export.refused])
def test_all_messages_of_an_export_are_read_and_the_rules_for_chats_keep_more_pairs(outcomes, name):
    outcome = outcomes[name]
    expected = 329 if name == "faq.parquet" else outcome.export.messages - MEDIA.get(name, 0) + LABELS.get(name, 0)
    assert (outcome.read, outcome.refusal) == (expected, "")
    assert 0 < outcome.kept["paper"] < outcome.kept["chat"]


def test_the_same_threads_give_the_same_pairs_in_every_format(outcomes):
    whole = [name for name in NAMES if outcomes[name].kept["chat"] == 329]
    assert whole == [
        "plain.csv", "support.csv", "german.csv", "excel.txt", "forum.csv", "faq.parquet", "nested.jsonl", "array.json",
        "chats.jsonl", "slack.zip", "support.mbox", "tickets.json", "columns.csv",
    ]  # fmt: skip
