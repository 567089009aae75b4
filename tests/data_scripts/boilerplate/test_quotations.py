import pytest

from data_scripts.boilerplate.quotations import written_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n> b\nc", "a\nc"),
        ("Ann wrote:\n\n> b\n> c\n\nd\n> e\nf", "d\nf"),
        ("On Mon, 4 Mar 2024 at 10:00,\nAnn <ann@example.org>\nwrote:\n>b\nc", "c"),
        ("Am 4.3.2024 schrieb Ann:\n> b\n\nc", "c"),
        ("> b\nOn 1 May, Ben wrote:\n> c\na", "a"),
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
