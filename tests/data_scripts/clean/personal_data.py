"""Generated personal data and what resembles them, to measure the recall and the false positives of masking by kind.

The command prints the table, and --write records it for the cards of datasets:

    python -m tests.data_scripts.clean.personal_data [--write]
"""

import argparse
import json
import random
import string
from collections.abc import Callable, Iterator

import phonenumbers
from stdnum import luhn

from data_scripts.clean.masking import RECALL, find_personal_data

REGIONS = ("US", "DE", "GB", "FR")
TEXTS = 20  # of each form
FRAMES = (
    "{}",
    "please see {} for it",
    "it is {}.",
    "({})",
    "well, {}, or so",
    "ask\n{}\nnow",
    '"{}" he said',
    "это {} так",
)
NAMES = "jane bob maria.lopez li_wei o.brien anna-lena jürgen zoë x99 sam.smith.jr".split()
HOSTS = "example.org mail.example.com uni-example.de shop.example.co.uk bücher.example xn--bcher-kva.example".split()
ARABIC = str.maketrans(string.digits, "٠١٢٣٤٥٦٧٨٩")
DEVANAGARI = str.maketrans(string.digits, "०१२३४५६७८९")
FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
Draw = random.Random
Form = Callable[[Draw], str]


def characters(draw: Draw, alphabet: str, length: int) -> str:
    return "".join(draw.choices(alphabet, k=length))


LETTERS_DIGITS = string.ascii_letters + string.digits
UPPER_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


def digits(draw: Draw, length: int) -> str:
    return characters(draw, string.digits, length)


def email(draw: Draw, sign: str = "@", dot: str = ".") -> str:
    return draw.choice(NAMES) + sign + draw.choice(HOSTS[:4]).replace(".", dot)


def phone(draw: Draw, region: str, form: int) -> str:
    """A valid number near the region's example."""
    kind = phonenumbers.PhoneNumberType.MOBILE if region != "US" else phonenumbers.PhoneNumberType.FIXED_LINE
    example = phonenumbers.example_number_for_type(region, kind)
    while True:
        national = str(example.national_number)[:-4] + digits(draw, 4)
        number = phonenumbers.PhoneNumber(example.country_code, int(national))
        if phonenumbers.is_valid_number_for_region(number, region):
            return phonenumbers.format_number(number, form)


INTERNATIONAL, NATIONAL = phonenumbers.PhoneNumberFormat.INTERNATIONAL, phonenumbers.PhoneNumberFormat.NATIONAL
E164 = phonenumbers.PhoneNumberFormat.E164
COUNTRIES = "US GB DE FR IN BR JP NG EG MX KR AU ES IT TR".split()


def card(draw: Draw) -> str:
    prefix, length = draw.choice([("4", 16), ("51", 16), ("2221", 16), ("37", 15), ("6011", 16), ("35", 16)])
    number = prefix + digits(draw, length - len(prefix) - 1)
    return number + luhn.calc_check_digit(number)


def grouped(number: str, separator: str) -> str:
    groups = [4, 4, 4, 4] if len(number) == 16 else [4, 6, 5]
    ends = [sum(groups[: position + 1]) for position in range(len(groups))]
    return separator.join(number[end - size : end] for end, size in zip(ends, groups, strict=True))


def account(draw: Draw) -> str:
    country, body = draw.choice(
        [("DE", digits(draw, 18)), ("GB", "WEST" + digits(draw, 14)), ("NL", "ABNA" + digits(draw, 10)),
         ("NO", digits(draw, 11))]
    )  # fmt: skip
    if country == "NO":  # has a check digit of its own
        return "NO9386011117947"
    remainder = int("".join(str(int(char, 36)) for char in f"{body}{country}00")) % 97
    return f"{country}{98 - remainder:02d}{body}"


def fours(text: str) -> str:
    return " ".join(text[start : start + 4] for start in range(0, len(text), 4))


def ipv4(draw: Draw) -> str:
    return ".".join(str(draw.randint(1, 254)) for _ in range(4))


def ipv6(draw: Draw) -> str:
    return ":".join(f"{draw.randrange(16**4):x}" for _ in range(8))


def token(draw: Draw, prefix: str, length: int, alphabet: str = LETTERS_DIGITS) -> str:
    return prefix + characters(draw, alphabet, length - 2) + "A7"


def url(draw: Draw, end: str) -> str:
    return f"https://{draw.choice(HOSTS[:4])}/{end}{characters(draw, LETTERS_DIGITS, 24)}"


def name(draw: Draw) -> str:
    return draw.choice([each for each in NAMES if each.isascii()])


# What the name of a kind in `personal_data.KINDS` is given to must be masked whole. `{}` in a frame is replaced by it.
POSITIVES: dict[str, list[Form]] = {
    "e-mail addresses": [
        email,
        lambda draw: draw.choice(NAMES) + "+news@" + draw.choice(HOSTS),
        lambda draw: draw.choice(NAMES).upper() + "@" + draw.choice(HOSTS).upper(),
        lambda draw: f'"{draw.choice(NAMES)} {draw.choice(NAMES)}"@example.org',
        lambda draw: f"{draw.choice(NAMES)}@[192.0.2.{draw.randint(20, 254)}]",
        lambda draw: draw.choice(["उपयोगकर्ता@उदाहरण.भारत", "用户@例子.广告", "почта@пример.рф"]),
        lambda draw: email(draw).translate(FULL_WIDTH),
        lambda draw: email(draw, " (at) ", " (dot) "),
        lambda draw: email(draw, "[at]", "[dot]"),
        lambda draw: email(draw, " at ", " dot "),
        lambda draw: email(draw, " [AT] "),
        lambda draw: email(draw, "@", " dot "),
        lambda draw: email(draw, " at "),  # missed: nothing tells it from "look at example.org"
        lambda draw: email(draw, "_at_", "_dot_"),  # missed
    ],
    "phone numbers": [
        lambda draw: phone(draw, draw.choice(COUNTRIES), INTERNATIONAL),
        lambda draw: phone(draw, draw.choice(COUNTRIES), E164),
        lambda draw: phone(draw, draw.choice(COUNTRIES), INTERNATIONAL).replace(" ", "-"),
        lambda draw: phone(draw, draw.choice(COUNTRIES), INTERNATIONAL).replace(" ", "."),
        lambda draw: phone(draw, draw.choice(COUNTRIES), E164).translate(ARABIC),
        lambda draw: phone(draw, draw.choice(COUNTRIES), INTERNATIONAL).translate(DEVANAGARI),
        lambda draw: phone(draw, draw.choice(COUNTRIES), E164).translate(FULL_WIDTH),
        lambda draw: phone(draw, "US", NATIONAL),
        lambda draw: phone(draw, "US", NATIONAL).replace("-", ".").replace("(", "").replace(") ", "."),
        lambda draw: phone(draw, "US", E164)[2:],
        lambda draw: "1-" + phone(draw, "US", NATIONAL)[1:].replace(") ", "-"),
        lambda draw: phone(draw, draw.choice(REGIONS), NATIONAL),
        lambda draw: phone(draw, draw.choice(REGIONS), NATIONAL).replace(" ", "/", 1),
        lambda draw: phone(draw, "GB", INTERNATIONAL).replace("+44 ", "+44 (0)"),
        lambda draw: "00" + phone(draw, "FR", E164)[1:],
        lambda draw: "555-" + digits(draw, 4),  # missed: without an area code
    ],
    "card numbers": [
        card,
        lambda draw: grouped(card(draw), " "),
        lambda draw: grouped(card(draw), "-"),
        lambda draw: grouped(card(draw), " ").translate(ARABIC),
        lambda draw: grouped(card(draw), " ").replace(" ", "\u00a0"),
        lambda draw: " ".join(card(draw)),  # missed: digit by digit
    ],
    "IBANs": [
        account,
        lambda draw: fours(account(draw)),
        lambda draw: account(draw).lower(),
        lambda draw: fours(account(draw)) + " BIC",
    ],
    "IP addresses": [
        ipv4,
        lambda draw: ipv4(draw) + ":8080",
        ipv6,
        lambda draw: f"2001:db8::{draw.randint(1, 999):x}1",
        lambda draw: f"fe80::{draw.randrange(16**4):04x}:1",
        lambda draw: ipv4(draw).replace(".", "[.]"),  # missed
    ],
    "URLs with credentials": [
        lambda draw: url(draw, "reset?token="),
        lambda draw: url(draw, "f?page=2&access_token="),
        lambda draw: url(draw, "f?api_key="),
        lambda draw: url(draw, "blob?sv=2020&sig="),
        lambda draw: url(draw, "#id_token="),
        lambda draw: f"https://{name(draw)}:{characters(draw, LETTERS_DIGITS, 9)}@example.org/x",
        lambda draw: f"postgres://{name(draw)}:{characters(draw, LETTERS_DIGITS, 9)}@db.example.org:5432/x",
        lambda draw: "https://hooks.slack.com/services/T0AB/B0CD/" + characters(draw, LETTERS_DIGITS, 24),
        lambda draw: url(draw, "invite/"),  # missed: the path itself is the secret
    ],
    "user names": [
        lambda draw: "@" + name(draw),
        lambda draw: "@bob.smith.jr",
        lambda draw: f"@{name(draw)}@social.example.org",
        lambda draw: "u/" + draw.choice(["jane", "li_wei", "Karma-Lover"]),
        lambda draw: "/u/" + draw.choice(["jane", "li_wei", "Karma-Lover"]),
        lambda draw: f"<@U{digits(draw, 8)}|{name(draw)}>",
        lambda draw: f"<@{digits(draw, 18)}>",
        lambda draw: f"<@!{digits(draw, 18)}>",
        lambda draw: f"linkedin.com/in/{name(draw)}",
        lambda draw: f"https://www.reddit.com/user/{name(draw)}",
        lambda draw: f"/home/{name(draw)}",
        lambda draw: f"{name(draw)}#{digits(draw, 4)}",  # missed: an old name of Discord
    ],
    "keys of services": [
        lambda draw: token(draw, "AKIA", 16, UPPER_DIGITS),
        lambda draw: token(draw, draw.choice(["ghp_", "gho_", "ghs_"]), 36),
        lambda draw: token(draw, "github_pat_", 60),
        lambda draw: f"xoxb-{digits(draw, 11)}-{digits(draw, 12)}-{characters(draw, LETTERS_DIGITS, 24)}",
        lambda draw: token(draw, draw.choice(["sk_live_", "rk_live_"]), 24),
        lambda draw: token(draw, "AIza", 35),
        lambda draw: token(draw, draw.choice(["sk-", "sk-proj-"]), 48),
        lambda draw: token(draw, "hf_", 34),
        lambda draw: f"eyJ{token(draw, '', 20)}.eyJ{token(draw, '', 40)}.{token(draw, '', 43)}",
        lambda draw: f"-----BEGIN RSA PRIVATE KEY-----\n{token(draw, '', 64)}\n-----END RSA PRIVATE KEY-----",
        lambda draw: f"aws_secret_access_key = {token(draw, '', 40)}",
        lambda draw: token(draw, "", 40),  # missed: a key without a form
    ],
}  # fmt: skip

# What is shown of a profile or a path besides the name is no personal data.
PUBLIC_PARTS = (
    "https://www.reddit.com/user/",
    "linkedin.com/in/",
    "/home/",
    "aws_secret_access_key = ",
    " BIC",
    ":8080",
)

NEGATIVES: dict[str, list[Form]] = {
    "order numbers": [
        lambda draw: "order " + digits(draw, 10),
        lambda draw: "#" + digits(draw, 12),
        lambda draw: digits(draw, 16),
    ],
    "dates and times": [
        lambda draw: f"2015-0{draw.randint(1, 9)}-1{draw.randint(0, 9)} 14:30:{draw.randint(10, 59)}",
        lambda draw: f"{draw.randint(1, 28)}/0{draw.randint(1, 9)}/2015 10:20",
        lambda draw: f"1{draw.randint(0, 9)}:{draw.randint(10, 59)}:{draw.randint(10, 59)}",
        lambda draw: f"1{digits(draw, 9)}",
    ],
    "prices and quantities": [
        lambda draw: f"${draw.randint(1, 999)},{digits(draw, 3)},{digits(draw, 3)}.00",
        lambda draw: f"{draw.randint(2, 9)} apples@{draw.randint(1, 9)}.50",
        lambda draw: f"{digits(draw, 3)} {digits(draw, 3)} {digits(draw, 3)} people",
    ],
    "versions and packages": [
        lambda draw: f"version 2.{draw.randint(20, 99)}.{draw.randint(20, 99)}.1",
        lambda draw: f"kernel 2.6.{draw.randint(0, 19)}.1",
        lambda draw: f"elm@0.{draw.randint(1, 99)}.0",
    ],
    "book numbers": [
        lambda draw: f"ISBN 0-{digits(draw, 3)}-{digits(draw, 5)}-{digits(draw, 1)}",
        lambda draw: f"ISBN-13: 978{digits(draw, 10)}",
    ],
    "scores and coordinates": [
        lambda draw: f"{draw.randint(0, 6)}-{draw.randint(0, 6)}, {draw.randint(0, 6)}-{draw.randint(0, 6)}",
        lambda draw: f"{draw.randint(10, 80)}.{digits(draw, 7)}, -{draw.randint(10, 80)}.{digits(draw, 7)}",
    ],
    "at signs and slashes": [
        lambda draw: draw.choice(["meet @ 5pm", "lunch @5pm", "me/you/us", "a @ b", "60 @60fps", "and/or", "at a dot"]),
        lambda draw: draw.choice(["look at example.com", "std::vector<int>", "a::b::c", "sk-learn-with-a-long-name"]),
    ],
    "plain URLs": [
        lambda draw: f"https://example.org/item/{digits(draw, 10)}",
        lambda draw: f"https://example.org/watch?v={characters(draw, LETTERS_DIGITS, 11)}&t={digits(draw, 3)}",
        lambda draw: f"http://example.org/?id={digits(draw, 10)}&page=2",
    ],
}  # fmt: skip


def texts(forms: list[Form], seed: str) -> Iterator[tuple[str, int, int]]:
    """Each a text, and where in it the form begins and ends."""
    for number, form in enumerate(forms):
        draw = random.Random(f"{seed} {number}")
        for _ in range(TEXTS):
            before, after = draw.choice(FRAMES).split("{}")
            value = form(draw)
            yield before + value + after, len(before), len(before) + len(value)


def is_masked(text: str, start: int, end: int) -> bool:
    """Whether every letter and digit of the form is masked, but for what is public of it."""
    for part in PUBLIC_PARTS:
        if text[start:end].startswith(part):
            start += len(part)
        elif text[start:end].endswith(part):
            end -= len(part)
    hidden = {position for first, last, _ in find_personal_data(text, REGIONS) for position in range(first, last)}
    return all(position in hidden for position in range(start, end) if text[position].isalnum())


def measure() -> dict[str, dict[str, dict[str, int]]]:
    """`recall`: kind -> forms and those masked; `false positives`: what resembles -> texts and those masked."""
    recall, mistaken = {}, {}
    for kind, forms in POSITIVES.items():
        results = [is_masked(*text) for text in texts(forms, kind)]
        recall[kind] = {"forms": len(results), "masked": sum(results)}
    for kind, forms in NEGATIVES.items():
        found = [bool(find_personal_data(text, REGIONS)) for text, _, _ in texts(forms, kind)]
        mistaken[kind] = {"texts": len(found), "masked": sum(found)}
    return {"recall": recall, "false positives": mistaken}


def serialize(measured: dict) -> str:
    return json.dumps(measured, indent=2) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"record the table in {RECALL.name}")
    args = parser.parse_args()
    measured = measure()
    for section, rows in measured.items():
        print(section)
        for kind, (total, masked) in ((kind, row.values()) for kind, row in rows.items()):
            print(f"  {kind:<26}{masked:>5} of {total:>4} {masked / total:>7.1%}")
    if args.write:
        RECALL.write_text(serialize(measured), encoding="utf-8")


if __name__ == "__main__":
    main()
