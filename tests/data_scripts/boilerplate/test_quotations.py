import pytest

from data_scripts.boilerplate.quotations import without_quotations, written_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n> b\nc", "a\nc"),
        ("Ann wrote:\n\n> b\n> c\n\nd\n> e\nf", "d\nf"),
        ("On Mon, 4 Mar 2024 at 10:00,\nAnn <ann@example.org>\nwrote:\n>b\nc", "c"),
        ("Am 4.3.2024 schrieb Ann:\n> b\n\nc", "c"),
        ("> b\nOn 1 May, Ben wrote:\n> c\na", "a"),
        ("a\n\nb\nc\non 4 March\nAnn wrote:\n> d", "a"),  # four lines, and five
        ("a\nb\nc\non 4 March\nAnn wrote:\n> d", "a\nb\nc\non 4 March\nAnn wrote:"),
        ("a\n\nAnn wrote:\n> b\n\nOn 1 May, Ben wrote:\n> c", "a"),
        ("Run this command:\n> ls\nc", "Run this command:\nc"),
        ("a\n\n-- \nAnn\nB Inc.", "a"),
        ("a -- b\n-- c", "a -- b\n-- c"),
        ("a\nSent from my iPhone", "a"),
        ("a\n-----Original Message-----\nFrom: b\nc", "a"),
        ("a\n----- Ursprüngliche Nachricht -----\nc", "a"),
        ("a\n\nFrom: Ben <b@x>\nSent: Monday\nTo: Ann\n\nc", "a"),
        ("a\n\n*Von:* Ben\n*Gesendet:* Montag\n\nc", "a"),
        ("From: here to there\nis far", "From: here to there\nis far"),
        ("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA1\n\na\n-----BEGIN PGP SIGNATURE-----\niQ", "a"),
        ("  a\t \n\n\n b ", "a\nb"),
        ("a\n\nLähettäjä: Ben <b@x>\nLähetetty: maanantai 4. maaliskuuta 2024\n\nc", "a"),
        ("a\n\n差出人: Ben <b@x>\n送信日時: 2024年3月4日 10:00\nc", "a"),
        ("a\n\nDe : Ben <b@x>\nEnvoyé : lundi 4 mars 2024 10:00\nc", "a"),
        ("a\n\nGesendet: Montag, 04. März 2024 um 10:00 Uhr\nVon: Ben <b@x>\nAn: a@x\nc", "a"),
        ("a\n\nFrom:   Ben/ORG\nTo:     Ann/ORG\nDate:   04.03.2024\nc", "a"),
        ("a\n\n   On Monday, March 4, 2024 at 10:00:00 AM GMT+1, Ben <b@x> wrote:  \n \n c", "a"),
        ("On March 4, 2024, Ben wrote this:\nso it is", "On March 4, 2024, Ben wrote this:\nso it is"),
        ("a\n\nBegin forwarded message:\n\n> From: Ben <b@x>\n> \n> c", "a"),
        ("AF> b\nAF> c\na\nBen> d", "a"),
        ("##- Please type your reply above this line -##\n\na", "a"),
        ("a\n\n—\nReply to this email directly", "a"),
        ("a\n\nGet Outlook for iOS<https://aka.ms/o0ukef>\n", "a"),
        ("a\n\nОтправлено из мобильной Почты Mail.ru", "a"),
        ("a\n\niPhoneから送信", "a"),
        ("a\n\nSent from my Android phone with GMX Mail. Please excuse my brevity.", "a"),
        ("a\n\nDiese Nachricht wurde von meinem Android Mobiltelefon mit GMX Mail gesendet.", "a"),
        ("a\nGesendet mit der Post am Montag", "a\nGesendet mit der Post am Montag"),
    ],
)
def test_what_the_sender_wrote(text, expected):
    assert written_text(text) == expected


@pytest.mark.parametrize(
    "quotation",
    [
        "\n\nOn Mon, Jan 5, 2026 at 9:00 AM Ann Lee <a@x.org>\nwrote:\n\n> b\n> c",
        "\nOn Mon, Jan 5, 2026 at 9:00 AM Ann Lee wrote:\nb\nc",
        " On Mon, Jan 5, 2026 at 9:00 AM Ann Lee <a@x.org> wrote: > b > c",
        "\n\nOn 5 Jan 2026, at 09:00, Ann Lee <a@x.org> wrote:",
        "\nAm 05.01.2026 um 09:00 schrieb Ann Lee:\nb",
        " Le lun. 5 janv. 2026 à 09:00, Ann Lee <a@x.org> a écrit : b",
        "\n-----Original Message-----\nFrom: Ann Lee\nb",
        " -----Original Message----- From: Ann Lee b",
        "\n\nFrom: Ann Lee <a@x.org>\nSent: Monday, January 5, 2026 9:00 AM\nTo: Ben\nSubject: c\n\nb",
        " From: Ann Lee Sent: Monday, January 5, 2026 To: Ben Subject: c b",
        "\n________________________________\nVon: Ann Lee\nGesendet: Montag\nAn: Ben\nBetreff: c\nb",
    ],
)
def test_quotations_are_removed_from_texts_of_any_log(quotation):
    assert without_quotations(f"a d.{quotation}") == "a d."


@pytest.mark.parametrize(
    "text",
    ["I need a ticket.\nFrom: Berlin\nTo: Paris\nDate: 5 May", "As Ann wrote: it is\n\n> late", "a\n\nAnn wrote:\nb",
     "---- Update ----\n\nb", "On Monday she wrote: no", "> a\n\nb", "From: now on, the subject: it"],
)  # fmt: skip
def test_texts_that_quote_no_mail_stay_as_they_are(text):
    assert without_quotations(text) == text
