"""Logs in other languages than the base's: they are recognized, the run says so, and other encoders adapt to them."""

import csv
import itertools
from pathlib import Path

from datasets import Dataset
from tokenizers.pre_tokenizers import BertPreTokenizer
from transformers import AutoConfig

from data_scripts.chats.conversations import ConversationOptions
from tests.trainer.tiny_backbone import save_backbone
from trainer.adapt import adaptation, cross_validation, start
from trainer.adapt.chats import adapt_to_chats
from trainer.adapt.language import MULTILINGUAL, describe_mismatch, find_language

GREETINGS, THINGS = ["こんにちは。", "おはようございます。"], ["ドア", "荷物", "請求書", "電話", "自転車"]
ANSWERS = {  # question -> answer
    "{}の修理はいくらですか。": "{}の修理は税込みで四千円です。",
    "{}はどこで受け取れますか。": "{}は駅前の店で受け取れます。",
    "{}はいつできますか。": "{}は来週の火曜日にできると思います。",
}


def write_log(path: Path) -> list[tuple[str, str]]:
    """120 messages, 60 questions and answers, as a table; returns the pairs."""
    asked = itertools.product(GREETINGS, THINGS, ANSWERS)
    pairs = [(f"{hello} {question.format(it)}", ANSWERS[question].format(it)) for hello, it, question in asked]
    pairs = pairs * 2
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["ticket", "from", "text"])
        for ticket, pair in enumerate(pairs):
            writer.writerows([ticket, speaker, text] for speaker, text in zip("ab", pair, strict=True))
    return pairs


def test_a_log_in_another_language_is_adapted_with_a_multilingual_encoder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(adaptation, "FEWEST_STEPS", 2)
    monkeypatch.setattr(cross_validation, "FOLDS", 2)
    monkeypatch.setattr(start, "SHARES", (0.0, 0.5))
    pairs = write_log(Path("log.csv"))
    split = BertPreTokenizer().pre_tokenize_str
    words = [word.lower() for pair in pairs for text in pair for word, _ in split(text)]
    backbone = save_backbone(tmp_path / "backbone", vocabulary=words)
    (backbone / "README.md").write_text("---\nlanguage: multilingual\n---\n")
    options = ConversationOptions(columns=["thread=ticket", "speaker=from"])
    adapt_to_chats([Path("log.csv")], options, Path("run"), str(backbone))
    assert "another language" not in capsys.readouterr().err
    assert AutoConfig.from_pretrained("run/model").language == ["ja"]
    assert "\nlanguage:\n- ja\n" in Path("run/model/README.md").read_text(encoding="utf-8")


def test_the_language_is_that_of_most_parts_of_the_log():
    greek, english = ["πού είναι το βιβλίο μου σήμερα"] * 60, ["where is my book today and who has it"] * 40
    texts = [text for pair in zip(greek[:40], english, strict=True) for text in pair]
    assert find_language(Dataset.from_dict({"input": greek, "response": greek})) == "el"
    assert find_language(Dataset.from_dict({"input": english, "response": english})) == "en"
    assert find_language(Dataset.from_dict({"input": ["12 €", "13:00"], "response": ["?", "14"]})) is None
    assert find_language(Dataset.from_dict({"input": texts, "response": texts[::-1]})) in ("el", "en", None)


def test_another_language_than_the_base_s_is_named_with_what_to_use():
    warning = describe_mismatch("de", ["en", "fr"], "our/base")
    assert warning and "(de)" in warning and "our/base: en, fr" in warning and f"--base {MULTILINGUAL}" in warning
    assert describe_mismatch("fr", ["en", "fr"], "b") is describe_mismatch("de", [], "b") is None
    assert describe_mismatch(None, ["en"], "b") is None
