"""What is removed from a message as a letter's form, and what is not."""

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from data_scripts.boilerplate.letters import (
    ADDRESSEES,
    CLOSINGS,
    FOOTERS,
    MENTIONS,
    SALUTATIONS,
    SIGNATURES,
    SUSPECT,
    names_in_letter,
    strip_letter,
)
from data_scripts.boilerplate.names import Names

NAMES = Names(
    ["Tunde Bello", "Ngozi Okafor", "Priya Sharma", "Weber, Frank", "marta.lopez@example.org", "Anne-Marie Blanc",
     "Will Price", "Mark", "May Chen", "Siobhán O'Neill", "Grace", "Support", "Admin", "user123", "bob", "wes", "tom9",
     "116793", "Nimbus Support"]
)  # fmt: skip

SALUTED = [
    ("Hi Tunde, the server is up.", "The server is up."),
    ("Hello Mrs Okafor, we found it", "We found it"),
    ("hi will, done", "done"),
    ("Good morning, Tunde. The fix is out", "The fix is out"),
    ("Hi Tunde and Anna, all good", "All good"),
    ("Hi Tunde 👋 your order left", "Your order left"),
    ("Hi @tom9, try it", "Try it"),
    ("Hello @117081 it left", "It left"),
    ("Dear Dr. K. Smith, it left", "It left"),
    ("Hello Mrs Smith we found it", "We found it"),
    ("Hi Nimbus Support team, help me", "Help me"),
    ("Dear Sir or Madam, help me", "Help me"),
    ("Dear customer, it left", "It left"),
    ("Sehr geehrte Damen und Herren, es fehlt", "Es fehlt"),
    ("¡Hola María! ya está", "Ya está"),
    ("Estimado Sr. López, ya está", "Ya está"),
    ("Chère Madame Martin,\n\nc'est fait", "C'est fait"),
    ("Ciao Giulia, fatto", "Fatto"),
    ("Hi Tunde: iPhone 5 works", "iPhone 5 works"),
    ("Hi, the server is down", "The server is down"),
    ("Hey, Jenny. It left", "It left"),
    ("¡Hola, Inés! ya está", "Ya está"),
    ("hi there! how are you", "how are you"),
    ("Hello everyone\n\nit is late", "It is late"),
    ("Bonjour, ça ne marche pas", "Ça ne marche pas"),
    ("Good morning - it left", "It left"),
    ("hi tunde bello and mrs okafor, it left", "it left"),
]
CLOSED = [
    ("It works.\nBest regards,\nPriya\nNimbus Support | Help Center", "It works."),
    ("It works. Best regards, Priya, Nimbus Support | Help Center", "It works."),
    ("It works.\n\nKind regards,\n\nThe Nimbus Team\n+1 202 555 0143\nwww.nimbus.example", "It works."),
    ("It works. Many thanks and kind regards, Priya", "It works."),
    ("let me know Regards, bob", "let me know"),
    ("It works.\nCheers\nPriya Ana Sharma", "It works."),
    ("It works.\n-- \nPriya Sharma\nNimbus Inc.", "It works."),
    ("Erledigt. Mit freundlichen Grüßen Anna Schmidt", "Erledigt."),
    ("Hecho. Saludos, Marta", "Hecho."),
    ("C'est fait. Cordialement, Luc Martin", "C'est fait."),
    ("Regards,\nPriya\n\nPS: I forgot the link", "PS: I forgot the link"),
]
SIGNED = [
    ("It works. - Priya", "It works."),
    (
        "It works (10 % of the time. Or more.) Order it, please. Priya",
        "It works (10 % of the time. Or more.) Order it, please.",
    ),
    ("It works.\n\npriya", "It works."),
]
WITH_FOOTER = [
    ("It works\n\nSent from my iPhone", "It works"),
    ("It works Sent from Mail for Windows 10", "It works"),
    ("Klappt\n\nVon meinem iPhone gesendet", "Klappt"),
    ("Funciona\nEnviado desde mi iPhone", "Funciona"),
    ("Ça marche\nEnvoyé de mon iPhone", "Ça marche"),
    ("It works\n\nGet Outlook for iOS<https://aka.ms/o0ukef>", "It works"),
    ("It works\n-- \nSent from my Android device with K-9 Mail. Please excuse my brevity.", "It works"),
    ("It works\nSent from my iPhone\nPlease excuse any typos", "It works"),
    ("Klappt\n-- \nGesendet mit der GMX Mail App", "Klappt"),
    ("Klappt\n-- \nDiese Nachricht wurde von meinem Android Mobiltelefon mit GMX Mail gesendet.", "Klappt"),
    ("Het werkt\n\nVerstuurd vanaf mijn iPhone", "Het werkt"),
    ("Działa\nWysłane z iPhone'a", "Działa"),
    ("Работает\n--\nОтправлено из мобильной Яндекс.Почты: http://m.ya.ru/ymail", "Работает"),
    ("動きます。\n\niPhoneから送信", "動きます。"),
]
ADDRESSED = [
    ("wes: try it", "try it"),
    ("@Tunde Bello: try it", "try it"),
    ("@tom9 @someone_else, try it", "try it"),
    ("<@U024BE7LH> try it", "try it"),
    (".@116793 @311 try it", "try it"),
    ("@tom9 👍", "👍"),
    ("Mark, you can try it", "You can try it"),
]
NAMED = [
    ("Thanks Tunde, that helps", "Thanks [name], that helps"),
    ("Thank you Mr. Adeyemi, that helps", "Thank you [name], that helps"),
    ("Thanks for it, Tunde Bello.", "Thanks for it, [name]."),
    ("Yes Mrs Okafor, it left", "Yes [name], it left"),
    ("It left, marta", "It left, [name]"),
    ("alright, thanks tunde", "alright, thanks [name]"),
    ("Cheers, Tunde!", "Cheers, [name]!"),
    ("Thanks Tunde Bello, thanks Tunde.", "Thanks [name], thanks [name]."),
    ("ask @wes or @Tunde Bello now", "ask [name] or [name] now"),
    ("It left, Siobhán O'Neill.", "It left, [name]."),
    ("It left, tom9.", "It left, [name]."),
    ("ask @wes about it", "ask [name] about it"),
    ("ask @Tunde Bello about it", "ask [name] about it"),
    ("Is it @116793's, or @nobody's?", "Is it [name]'s, or @nobody's?"),
]


@pytest.mark.parametrize(
    ("kind", "text", "stripped"),
    [
        (kind, *case)
        for kind, cases in {
            SALUTATIONS: SALUTED,
            CLOSINGS: CLOSED,
            SIGNATURES: SIGNED,
            FOOTERS: WITH_FOOTER,
            ADDRESSEES: ADDRESSED,
            MENTIONS: NAMED,
        }.items()
        for case in cases
    ],
)
def test_the_form_of_a_letter_is_removed_and_counted(kind, text, stripped):
    counts = Counter()
    assert strip_letter(text, NAMES, counts) == stripped
    assert {name for name, number in counts.items() if number} == ({kind} if stripped != text else set())


def test_names_are_counted_once_and_the_author_s_own_handle_stays():
    counts = Counter()
    assert (
        strip_letter("As [name] said, ask @tom9 or @wes", NAMES, counts, "Wes") == "As [name] said, ask [name] or @wes"
    )
    assert counts[MENTIONS] == 1


@pytest.mark.parametrize(
    "text",
    ["hello", "Hi there!", "Hello, Thanks!", "Hello, Friday. Good", "Hello world, it is me", "Hi-fi is out",
     "Dear, oh dear", "Hi I'm Tom, I have a problem",
     "Hello Kitty is a brand", "HI MY ORDER IS LATE, PLEASE HELP", "hi will you come", "hi may i ask, is it open?",
     "Hey Just wondering, is it open?", "Will is coming", "Mark it as done", "May I ask", "in April, May. Then",
     "May, June and July", "Grace period is over", "Support is closed", "Admin rights are needed",
     "bob up and down", "the will, the mark and the grace", "Please send my best regards to Maria",
     "Regards to your family", "Sincerely, I think so", "Thanks for coming, sincerely.", "Love the new UI",
     "Best thing ever", "Thanks, I will check it", "thanks, will do", "Thank you sir!", "Thanks Again!", "Cheers!",
     "Take care", "It was sent from my office", "Sent from the warehouse on Monday.", "note: this is it",
     "warning: disk full", "see tunde.com or tunde@example.org or /home/tunde", "@5pm it opens", "x^2 + ^y",
     "Sent from my iPhone. Call me.", "Wysłane z magazynu w poniedziałek", "Отправлено с вокзала",
     "Отправлено из почты", "iPhoneから送信できません", "Verstuurd met de post",
     "Diese Nachricht wurde von meinem Bruder gelesen",
     "Das ist gut. Danke, ich probiere es", "2 Thanks\nDone",
     "I asked Tunde Bello to call", "TUNDE will call", "Anne-Marie's order is late",
     "It left, Nimbus.", "it is in Lima, Tunde.", "It left, Chidi.", "It left, tunde, today", "A, B and Tunde",
     "see you at the station -Anna",
     "I rate it 3/5", "- Mike", "@300 each it is too much", "ask @nobody about it", "Mail tom9@tom9.example",
     "it works.\n\n", " Thanks, it is sent\n", ""],
)  # fmt: skip
def test_ordinary_texts_stay_as_they_are(text):
    counts = Counter()
    assert strip_letter(text, NAMES, counts) == text
    assert not counts.total()


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("Hi Tunde!", "Hi [name]!"),
        ("Hi Chidi!", "Hi [name]!"),
        ("Best regards, Priya", "Best regards, [name]"),
        ("Sent from my iPhone", "Sent from my iPhone"),
        ("@tom9", "[name]"),
        ("Good day sir.", "Good day sir."),
        ("Hi Tunde,\n\nThanks,\nPriya", "Hi [name]"),
    ],
)
def test_no_text_becomes_empty(text, stripped):
    assert strip_letter(text, NAMES, Counter()) == stripped


def test_lines_may_end_as_on_windows():
    letter = "Hi Tunde,\r\n\r\nplease sign in.\r\nIt helps.\r\n\r\nThanks,\r\nPriya\r\n-- \r\nNimbus\r\n"
    assert pc.match_substring_regex(pa.array([letter[9:]]), SUSPECT)[0].as_py()
    assert strip_letter(letter, Names(), Counter()) == "Please sign in.\nIt helps."
    assert strip_letter("a\r\nb", Names(), Counter()) == "a\r\nb"


def test_all_parts_of_a_letter_are_removed_together():
    letter = "@tom9 Hi Tunde,\n\nplease sign in again.\n\nBest regards,\nPriya Sharma\nNimbus\n\nSent from my iPhone"
    counts = Counter()
    assert strip_letter(letter, NAMES, counts) == "Please sign in again."
    assert {kind: number for kind, number in counts.items() if number} == dict.fromkeys(
        (SALUTATIONS, CLOSINGS, FOOTERS, ADDRESSEES), 1
    )


def test_without_speakers_the_forms_are_found_and_names_in_sentences_are_not():
    nobody = Names()
    assert strip_letter("Hi Tunde, it left. Regards, Priya", nobody, Counter()) == "It left."
    assert strip_letter("wes: I asked Tunde", nobody, Counter()) == "wes: I asked Tunde"


def test_every_form_without_a_speakers_name_is_suspected_by_the_pattern_before_it():
    texts = [text for text, _ in [*SALUTED, *CLOSED, *WITH_FOOTER, *ADDRESSED]]
    changed = [text for text in texts if strip_letter(text, Names(), Counter()) != text]
    assert len(changed) > 40
    assert [text for text in changed if not pc.match_substring_regex(pa.array([text]), SUSPECT)[0].as_py()] == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Hi Chidi, done.\n\nBest regards,\nLena Vogt\nNimbus", ["Chidi", "Lena Vogt"]),
        ("Hi, the server is down", []),
        ("Hi, Jenny! Done.", ["Jenny"]),
        ("Thanks for coming", []),
        ("my name is wrong. Regards, me", []),
    ],
)
def test_names_are_learned_from_letters(text, names):
    assert list(names_in_letter(text)) == names
