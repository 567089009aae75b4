"""The page in headless Chromium, used like a visitor would; its values are compared with values computed here."""

import importlib
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import numpy as np
import pytest
import torch
import yaml
from transformers import AutoModel, AutoModelForPreTraining, AutoTokenizer

from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex, server
from modeling_convsim.suggestion.probability import Curve
from modeling_convsim.suggestion.ratings import RATINGS, HeldOut, Shown, read_ratings
from modeling_convsim.suggestion.review import Review
from tests.conftest import ROOT
from tests.modeling_convsim.tiny_models import build, save

# Imported by the tests, not while they are collected, because that takes seconds.
if not importlib.util.find_spec("gradio"):
    pytest.skip("the page needs Gradio: pip install -e '.[demo]'", allow_module_level=True)

SPACE = ROOT / "model_cards" / "space"
CURVE = (0.25, 0.75)  # intercept and slope
SENTENCES = ["How old are you?", "the dog runs", "I like the big house"]
REPLIES = [
    "I like the dog",
    "a big house",
    "see you tomorrow",
    "yes, [name]: & $7.50",
    "the cat eats today",
    "no thanks",
]
HOSTILE = "<img src=x onerror=\"document.title='broken'\"> ${1 + 1} {{2}} &amp; the dog"
LINES = HOSTILE + "'\r\n\t\u2028\x00 the house"  # browsers replace some of these characters in HTML
REVIEW = [
    HeldOut(SENTENCES[0], ["the house", "hello"], "see you", [Shown("yes [name]", 0.5), Shown("no thanks", 0.1 + 0.2)]),
    HeldOut(LINES, [LINES, "hello"], "the real " + LINES, [Shown("a " + LINES, 0.125)]),
]
# Options that Debian's Chromium needs as root, and options that prevent requests that the tests do not need.
CHROMIUM_OPTIONS = """--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync""".split()


@pytest.fixture(scope="module")
def functions():
    """The page's functions."""
    return importlib.import_module("modeling_convsim.suggestion.page")


@pytest.fixture(scope="module")
def model(tiny_tokenizer, tmp_path_factory):
    return save(build("dan_best"), tiny_tokenizer, tmp_path_factory.mktemp("space") / "tiny" / "model")


@pytest.fixture(scope="module")
def index_folder(model):
    messages = [f"{text} ?" for text in REPLIES]
    encoder = Encoder.from_pretrained(model, "cpu")
    index = ReplyIndex.build(encoder, REPLIES, messages, duplicate_cosine=1, message_weight=0)
    index.settings = replace(index.settings, curve=Curve(*CURVE, True, []))
    index.review = REVIEW
    index.save(folder := model.parents[1] / "replies")
    return folder


@pytest.fixture
def ratings(index_folder):
    """Reads the lines of ratings.jsonl, which is removed before."""
    (index_folder / RATINGS).unlink(missing_ok=True)
    return lambda: [json.loads(line) for line in (index_folder / RATINGS).read_bytes().splitlines()]


@pytest.fixture(scope="module")
def address(index_folder):
    """The address of the page, served by its command."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "GRADIO_SERVER_PORT": str(port), "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    log = index_folder.with_name("log")
    with log.open("w") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "modeling_convsim.suggestion.server", index_folder],
            env=environment, stdout=output, stderr=output,
        )  # fmt: skip
    try:
        for _ in range(240):
            try:
                urlopen(f"http://127.0.0.1:{port}", timeout=10).close()
                break
            except URLError:
                assert server.poll() is None, log.read_text()
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)
    assert not [text for text in (*SENTENCES, *REPLIES, "onerror") if text in log.read_text()]


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="no Playwright: make install")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium to open the page in: apt-get install chromium (Debian), or put one on the PATH")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_OPTIONS)
        context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
        context.set_default_timeout(60_000)
        yield context
        browser.close()


@pytest.fixture
def page(browser, address, request):
    """The page, with the test's size and color scheme; it may send requests only to this machine."""
    page = browser.new_page()  # of one context, which keeps the page's scripts
    size, scheme = getattr(request, "param", ((1000, 760), "light"))
    page.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
    page.emulate_media(color_scheme=scheme)
    external_requests = []

    def record(request) -> None:
        if not request.url.startswith((address, "data:", "blob:")):
            external_requests.append(request.url)

    page.on("request", record)
    page.goto(address)
    page.get_by_role("button", name="Suggest").wait_for()  # in the tab that is shown first
    yield page
    page.close()
    assert not external_requests


def cosines(model: Path, sentences: list[str]) -> np.ndarray:
    """Cosines (sentences, sentences) of the vectors of transformers' AutoModel, in one padded batch."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    with torch.inference_mode():
        vectors = AutoModel.from_pretrained(model)(
            **tokenizer(sentences, padding=True, return_tensors="pt")
        ).pooler_output
    return (vectors.double() @ vectors.double().T).numpy()


def ask(page, message: str) -> None:
    """Asks for suggestions, and waits for them."""
    page.get_by_label("Message").fill(message)
    page.get_by_role("button", name="Suggest").click()
    page.locator("#suggested").get_by_label(f"Suggestions for: {message}").wait_for()


def click_to_open(page, role: str, name: str) -> None:
    """Opens a part of the page, and waits until Gradio has filled its fields, which takes up to three frames."""
    page.get_by_role(role, name=name).click()
    page.evaluate("async () => { for (let i = 0; i < 4; i++) await new Promise(requestAnimationFrame); }")


def compare(page, sentences: list[str]) -> None:
    click_to_open(page, "tab", "Similarity")
    page.get_by_label("Sentences").fill("\n".join(sentences))
    page.get_by_role("button", name="Compare").click()


def table_cells(page, part: str, text: str) -> list[list[str]]:
    """The cells of the table in a part of the page, as soon as the part shows a text."""
    page.locator(f"#{part}").get_by_text(text, exact=True).first.wait_for()
    return [row.locator("td").all_inner_texts() for row in page.locator(f"#{part} tbody tr").all()]


def test_typed_sentences_are_compared_in_a_heat_map(page, model):
    compare(page, [*SENTENCES, "", HOSTILE])
    shown = np.array(table_cells(page, "compared", f"4. {HOSTILE}"), float)
    np.testing.assert_allclose(shown, cosines(model, [*SENTENCES, HOSTILE]), atol=6e-4)
    assert page.title() == "convsim: tiny"  # code in a sentence was not executed


def test_three_replies_are_suggested_each_with_its_probability(page, model):
    tokenizer = AutoTokenizer.from_pretrained(model)
    multitask = AutoModelForPreTraining.from_pretrained(model).eval()
    with torch.inference_mode():
        queries, replies = (
            multitask.encoder(**tokenizer(texts, padding=True, return_tensors="pt")).pooler_output
            for texts in (SENTENCES, REPLIES)
        )
        scores = (queries @ multitask.response_head(replies).T).numpy()
    for text, row in zip(SENTENCES, scores, strict=True):
        ask(page, text)
        best = np.argsort(-row)[:3]
        cards = page.locator("#suggested li")
        assert cards.locator(".text").all_inner_texts() == [REPLIES[number] for number in best]
        for card, number in zip(cards.all(), best, strict=True):
            shown = card.inner_text()
            assert f"It answered: “{REPLIES[number]} ?”" in shown
            percent = 100 / (1 + np.exp(-(CURVE[0] + CURVE[1] * row[number])))
            assert float(re.match(r"(\d+)% estimated\n", shown)[1]) == pytest.approx(percent, abs=0.51)
            marks = ["[name]", "$7.50"] if "[name]" in REPLIES[number] else []
            assert card.locator("mark").all_inner_texts() == marks
        assert page.get_by_text("change this part before").is_visible() == any("[name]" in REPLIES[n] for n in best)


def test_a_held_out_message_is_suggested_for_by_a_click(page, index_folder):
    page.get_by_role("button", name=SENTENCES[0]).click()
    page.locator("#suggested p").first.wait_for()
    assert page.get_by_label("Message").input_value() == SENTENCES[0]
    suggested = ReplyIndex.load(index_folder).suggest(SENTENCES[0])
    assert page.locator("#suggested .text").all_inner_texts() == [one.text for one in suggested]


def test_a_click_rates_a_reply_and_another_one_changes_the_rating(page, index_folder, ratings):
    ask(page, HOSTILE)
    best = ReplyIndex.load(index_folder).suggest(HOSTILE)[1]
    card = page.locator("#suggested li").nth(1)
    sent = []

    def hold_the_first(route) -> None:
        sent.append(route)
        if len(sent) > 1:
            route.continue_()

    page.route("**/feedback", hold_the_first)
    for answer in ("Send", "Edit", "No"):
        card.get_by_role("button", name=answer).click()
    page.wait_for_timeout(200)
    assert len(sent) == 1  # so that the last one counts, no rating overtakes another
    sent[0].continue_()
    card.get_by_role("status").get_by_text("Stored: No").wait_for()
    stored = {"message": HOSTILE, "reply": best.text, "context": [], "score": best.score, "from": "use"}
    assert ratings() == [stored | {"rating": answer} for answer in ("send", "edit", "no")]
    assert [one.rating for one in read_ratings(index_folder / RATINGS)] == ["no"]
    assert [button.inner_text() for button in card.locator("[aria-pressed=true]").all()] == ["No"]
    page.route("**/feedback", lambda route: route.fulfill(status=400, json={"error": "the disk is full"}))
    card.get_by_role("button", name="Send").click()
    card.get_by_role("status").get_by_text("Not stored: the disk is full").wait_for()
    assert [button.inner_text() for button in card.locator("[aria-pressed=true]").all()] == ["No"]
    assert page.title() == "convsim: tiny"  # code in the message was not executed


def test_a_review_on_the_page_counts_what_its_file_says(page, index_folder, ratings):
    click_to_open(page, "tab", "Review")
    review, answered = page.locator("#review"), []
    for _ in REVIEW:
        first = json.loads(review.locator("li").first.get_attribute("data-rating"))
        held_out = next(each for each in REVIEW if each.message == first["message"])
        assert "estimated" not in review.inner_text()
        assert [text.replace("\n", "\r\n") for text in review.locator("li .text").all_text_contents()] == [
            each.text.replace("\0", "") for each in held_out.suggestions
        ]
        real, is_first = review.locator(".real"), held_out is REVIEW[0]
        assert not real.is_visible()
        if is_first:
            turns = r"Earlier: “hello”\s+Earlier: “the house”\s+How old are you\?\s"
            assert re.search(turns, review.inner_text())
        else:
            review.get_by_role("button", name="Real reply").click()
            real.wait_for()
        for card, shown, answer in zip(review.locator("li").all(), held_out.suggestions, ("No", "Edit"), strict=False):
            assert real.is_visible() is not is_first
            card.get_by_role("button", name=answer).focus()
            page.keyboard.press("Enter")
            card.get_by_text(f"Stored: {answer}").wait_for()
            rating = {"message": held_out.message, "context": held_out.context, "rating": answer.lower()}
            answered.append(rating | {"reply": shown.text, "score": shown.score, "from": "review"})
        real.wait_for()
        assert ratings() == answered
        assert review.locator(".known").inner_text() == Review(index_folder).summary()
        page.get_by_role("button", name="Next").click()
        review.locator("[aria-pressed=true]").first.wait_for(state="detached")
    review.get_by_text("All messages are rated.").wait_for()
    assert page.title() == "convsim: tiny"  # code in the texts was not executed


@pytest.mark.parametrize("has_clipboard", [True, False])  # browsers have none at http://, except on this machine
def test_a_reply_is_copied_with_the_keyboard(page, has_clipboard):
    page.get_by_label("Message").fill(SENTENCES[0])
    page.keyboard.press("Enter")
    if not has_clipboard:
        page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.get_by_role("button", name="Copy").first.focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Copied").wait_for()
    page.get_by_label("Message").fill("")
    page.keyboard.press("Control+V")
    assert page.get_by_label("Message").input_value() == page.locator("#suggested .text").first.inner_text()
    page.get_by_role("button", name="Copied").wait_for(state="detached")


def post(address: str, path: str, body: bytes, kind: str = "application/json") -> tuple[int, dict[str, Any]]:
    """The status and the JSON of a request."""
    try:
        with urlopen(Request(f"{address}/{path}", body, {"Content-Type": kind}), timeout=60) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_programs_get_the_suggestions_of_the_index_and_store_ratings(address, index_folder, ratings):
    question = {"message": SENTENCES[0], "k": 2, "context": ["the dog"]}
    index = ReplyIndex.load(index_folder)
    expected = index.suggest(SENTENCES[0], 2, context=["the dog"])
    found = {"suggestions": json.loads(json.dumps([*map(asdict, expected)])), "estimated": True}
    assert post(address, "suggest", json.dumps(question).encode()) == (200, found)
    named = json.loads(json.dumps([asdict(one) for one in index.suggest(SENTENCES[0], 6, name="Ann")]))
    asked = {"message": SENTENCES[0], "k": 6, "name": "Ann"}
    assert post(address, "suggest", json.dumps(asked).encode())[1]["suggestions"] == named
    assert [one["spans"] for one in named if one["text"] == "yes, Ann: & $7.50"] == [[[12, 17]]]
    question["min_probability"] = (expected[0].probability + expected[1].probability) / 2
    assert post(address, "suggest", json.dumps(question).encode())[1]["suggestions"] == found["suggestions"][:1]
    rated = {"message": SENTENCES[0], "reply": REPLIES[0], "rating": "send", "score": 0.25, "context": ["a"]}
    assert post(address, "feedback", json.dumps(rated).encode()) == (200, {"stored": True})
    known = {"stored": True, "known": "no message is rated yet"}
    assert post(address, "feedback", json.dumps(rated | {"from": "review"}).encode()) == (200, known)
    assert ratings() == [rated | {"from": source} for source in ("use", "review")]


def test_probabilities_follow_thirty_ratings_at_once(functions, index_folder, tmp_path):
    testclient = pytest.importorskip("starlette.testclient", reason="Gradio installs httpx, which this needs")
    shutil.copytree(index_folder, folder := tmp_path / "replies")
    (folder / RATINGS).unlink(missing_ok=True)
    index = ReplyIndex.load(folder, ReplyIndex.load(index_folder).encoder)
    client = testclient.TestClient(server.build_app(index, folder, ["testserver"]))
    before = client.post("/suggest", json={"message": "the dog"}).json()
    for number in range(30):
        rated = {"message": f"{number}", "reply": "a", "rating": "no" if number % 3 else "send", "score": number}
        is_estimated = client.post("/suggest", json={"message": "the dog"}).json()["estimated"]
        assert is_estimated and client.post("/feedback", json=rated).json() == {"stored": True}
    after = client.post("/suggest", json={"message": "the dog"}).json()
    assert not after["estimated"] and after["suggestions"] != before["suggestions"]
    assert after["suggestions"] == [asdict(one) for one in ReplyIndex.load(folder, index.encoder).suggest("the dog")]
    assert "estimated" not in functions.suggest(index, nullcontext(), "the dog")


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("suggest", b'{"message": ""}', 400, "length >= 1 - at `$.message`"),
        ("suggest", b'{"message": "' + b"a" * 20_001 + b'"}', 400, "length <= 20000"),
        ("suggest", b'{"message": "the \\ud83d dog"}', 400, ""),
        ("suggest", b'{"message": "a", "context": [' + b'"b", ' * 50 + b'"b"]}', 400, "length <= 50"),
        ("suggest", b'{"message": "a", "k": 11}', 400, "`int` <= 10"),
        ("suggest", b'{"message": "a", "text": "b"}', 400, "unknown field `text`"),
        ("suggest", b"message=a", 400, "malformed"),
        ("suggest", b" " * 2**20 + b" ", 413, "1,048,576 bytes"),
        ("suggest", b"[]", 400, "got `array`; expected a JSON object: message (string), context (array, optional), k"),
        ("feedback", b'{"message": "a", "reply": "b", "rating": "good"}', 400, "reply (string), rating (edit or no or"),
        ("feedback", b'{"message": "a", "reply": "b", "rating": 1}', 400, "Expected `str`, got `int` - at `$.rating`"),
        ("gradio_api/run/partial", b'{"data": [3]}', 404, ""),
    ],
)
def test_mistakes_of_programs_are_explained(path, body, status, message, address):
    found, answer = post(address, path, body)
    assert found == status and message in (answer.get("error") or answer["detail"])


def test_a_form_of_another_website_is_refused(address):
    status, answer = post(address, "feedback", b'{"message": "a", "reply": "b", "rating": "no"}', "text/plain")
    assert status == 415 and answer["error"] == "expected the header Content-Type: application/json"


def test_mistakes_are_explained_on_the_page(page):
    page.get_by_role("button", name="Suggest").click()
    page.get_by_text("The message is empty.").wait_for()
    page.get_by_text("The message is empty.").wait_for(state="detached")  # closes itself
    compare(page, ["only one"])
    page.get_by_text("Enter 2 to 50 sentences, one per line; you entered 1.").wait_for()
    compare(page, SENTENCES)
    table_cells(page, "compared", f"3. {SENTENCES[2]}")
    for left in (page.get_by_text("Enter 2 to 50 sentences"), page.get_by_text("Error").filter(visible=True)):
        left.wait_for(state="hidden", timeout=3_000)  # before the error closes itself


@pytest.mark.parametrize("page", [((360, 800), "light")], indirect=True)
def test_every_element_fits_on_a_phone(page):
    ask(page, SENTENCES[0])
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    button, reply = (page.locator(part).bounding_box() for part in ("button.primary >> visible=true", "#suggested ol"))
    assert reply["width"] == button["width"] > 290
    compare(page, SENTENCES * 4)
    table_cells(page, "compared", f"12. {SENTENCES[-1]}")
    # The table is wider than the screen and scrolls in its region; the page is not.
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    part = page.get_by_role("region", name="Cosine similarity")
    part.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("part => part.scrollLeft > 0", arg=part.element_handle())
    for name in ("Similarity", "Review", "Replies"):
        click_to_open(page, "tab", name)
        for button in page.locator("button >> visible=true").all():
            box = button.bounding_box()
            assert box["x"] >= 0 and box["x"] + box["width"] <= 360
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


# The text of every element, and placeholders, with their contrast (WCAG 2.2).
CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = color => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const over = (top, below) => below.map((value, i) => (top[i] * top[3] + value * (255 - top[3])) / 255);
  const background = element => element === null ? [255, 255, 255]
    : over(rgba(getComputedStyle(element).backgroundColor), background(element.parentElement));
  const luminance = color => color.map(c => c / 255).map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
  const contrast = (element, pseudo) => {
    const below = background(element), text = over(rgba(getComputedStyle(element, pseudo).color), below);
    const [darker, lighter] = [text, below].map(luminance).sort((a, b) => a - b);
    return (lighter + .05) / (darker + .05);
  };
  const texts = document.createTreeWalker(document.querySelector("gradio-app"), NodeFilter.SHOW_TEXT), contrasts = [];
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement, text = texts.currentNode.textContent.trim();
    if (text && element.checkVisibility({visibilityProperty: true})) contrasts.push([text, contrast(element)]);
  }
  for (const element of document.querySelectorAll("[placeholder]"))
    contrasts.push([element.placeholder, contrast(element, "::placeholder")]);
  return contrasts;
}"""


@pytest.mark.parametrize("page", [((1000, 760), "light"), ((1000, 760), "dark")], indirect=True)
def test_every_text_of_the_page_has_enough_contrast(page):
    ask(page, SENTENCES[0])
    page.locator("#suggested li").first.get_by_role("button", name="Send").click()
    page.get_by_text("Stored: Send").wait_for()
    for name in ("Replies", "Review", "Similarity"):
        click_to_open(page, "tab", name)
        page.mouse.move(0, 0)
        page.wait_for_timeout(500)  # colors change in a transition
        contrasts = page.evaluate(CONTRASTS)
        assert name in [text for text, _ in contrasts]
        assert not [(text, value) for text, value in contrasts if value < 4.5]  # success criterion 1.4.3


def status(address: str, host: str) -> int:
    """The HTTP status of a request for a host."""
    try:
        return urlopen(Request(f"{address}/config", headers={"Host": host}), timeout=30).status
    except HTTPError as error:
        return error.code


def test_requests_for_other_hosts_are_refused(address):
    port = address.rpartition(":")[2]
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", "localhost:8000"):  # a forwarded port
        assert status(address, host) == 200
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "10.0.0.3", "["):
        assert status(address, host) == 400


def test_a_page_that_other_machines_open_has_their_names_for_it(monkeypatch):
    monkeypatch.setenv("GRADIO_SERVER_NAME", "0.0.0.0")
    assert {"localhost", socket.gethostname(), "chat.example"} <= {*server.allowed_hosts(["chat.example"])}
    monkeypatch.setenv("GRADIO_SERVER_NAME", "10.0.0.3")
    monkeypatch.setenv("SPACE_HOST", "me-page.hf.space")
    assert {"10.0.0.3", "me-page.hf.space"} <= {*server.allowed_hosts([])}


def test_cells_of_higher_cosines_are_darker_and_their_texts_have_enough_contrast(functions):
    def luminance(color: list[float]) -> float:  # WCAG 2.2, relative luminance
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    text = functions.heat_map(["a"] * 13, np.linspace(-1, 1, 169).reshape(13, 13))
    cells = re.findall(r"background: rgb\((\d+), (\d+), (\d+)\); color: (\w+)", text)
    assert len(cells) == 169 and (np.diff([int(red) for red, *_ in cells]) <= 0).all() and cells[0] != cells[-1]
    for *color, name in cells:
        darker, lighter = sorted([luminance([int(value) / 255 for value in color]), float(name == "white")])
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5  # success criterion 1.4.3


def test_space_requires_the_versions_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    requirements = (SPACE / "requirements.txt").read_text().split("\n")[:-1]
    assert set(requirements) == {*project["dependencies"], *extras["suggest"]}
    _, card, _ = (SPACE / "README.md").read_text("utf-8").split("---\n", 2)
    pinned = f"gradio=={yaml.safe_load(card)['sdk_version']}"
    assert pinned in (ROOT / "constraints.txt").read_text().splitlines()
    assert (SPACE / yaml.safe_load(card)["app_file"]).is_file()


def test_messages_that_replies_answered_are_examples_when_there_is_no_review(functions, index_folder):
    indexes = [ReplyIndex.load(index_folder) for _ in range(2)]
    indexes[1].review = []
    indexes.append(ReplyIndex.build(indexes[0].encoder, REPLIES))
    blocks = [functions.build(index, index_folder, nullcontext()).blocks.values() for index in indexes]
    examples = [next(block for block in page if isinstance(block, functions.gr.Dataset)) for page in blocks]
    assert examples[0].samples == [[SENTENCES[0]]]  # the other message is long
    assert examples[1].samples == [[f"{text} ?"] for text in REPLIES[:5]]
    assert not examples[2].visible
    tabs = [[block.label for block in page if isinstance(block, functions.gr.Tab)] for page in blocks]
    assert ["Review" in labels for labels in tabs] == [True, False, False]


def test_earlier_messages_count_where_the_model_has_weights_for_them(functions, model):
    """They are typed as they were said, the oldest first."""
    index = ReplyIndex.build(Encoder.from_pretrained(model, "cpu"), REPLIES, duplicate_cosine=1)

    def is_offered() -> bool:
        blocks = functions.build(index, model, nullcontext()).blocks.values()
        boxes = [block for block in blocks if isinstance(block, functions.gr.Textbox)]
        return any(box.visible and "the oldest first" in str(box.label) for box in boxes)

    assert not is_offered()
    index.encoder.model.config.context_weights = [2.0, 0.5]
    assert is_offered()
    alone, earlier = (functions.suggest(index, nullcontext(), "the dog", turns) for turns in ("", "a\n \nthe house"))
    expected = index.suggest("the dog", context=["the house", "a"])
    rated = [json.loads(unescape(data)) for data in re.findall('data-rating="(.*?)"', earlier)]
    assert [(one["score"], one["context"]) for one in rated] == [(one.score, ["the house", "a"]) for one in expected]
    assert alone != earlier


@pytest.mark.parametrize("text", [None, "a" * 20_001, "the \ud83d dog"])
def test_a_text_that_only_programs_send_is_refused_with_a_message(functions, index_folder, text):
    index = ReplyIndex.load(index_folder)
    for ask in (partial(functions.compare, index), partial(functions.suggest, index, nullcontext())):
        with pytest.raises(functions.gr.Error, match=r"Expected `str`|length &lt;= 20000|lone surrogate"):
            ask(f"a\n{text}" if text and len(text) < 99 else text)
