"""The page in headless Chromium, used like a visitor would; its values are compared with values computed here."""

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from types import ModuleType
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import pyarrow
import pytest
import torch
import yaml
from pyarrow import parquet
from transformers import AutoModel, AutoModelForPreTraining, AutoTokenizer

from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.calibration import Calibration, ThresholdRow
from tests.conftest import ROOT
from tests.modeling_convsim.tiny_models import build

# Imported by the tests, not while they are collected, because that takes seconds.
if not importlib.util.find_spec("gradio"):
    pytest.skip("the page needs Gradio: pip install -e '.[demo]'", allow_module_level=True)

SPACE = ROOT / "model_cards" / "space"
SENTENCES = ["How old are you?", "the dog runs", "I like the big house"]
REPLIES = ["I like the dog", "a big house", "see you tomorrow", "yes please", "the cat eats today", "no thanks"]
HOSTILE = "<img src=x onerror=\"document.title='broken'\"> ${1 + 1} {{2}} the dog"
# Options that Debian's Chromium needs as root, and options that prevent requests that the tests do not need.
CHROMIUM_OPTIONS = """--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync""".split()


def load(name: str) -> ModuleType:
    """A module of the Space, which is not a package."""
    spec = importlib.util.spec_from_file_location(f"space_{name}", SPACE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def functions():
    """The page's functions, in the module page.py."""
    return load("page")


@pytest.fixture(scope="module")
def model(tiny_tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("space") / "tiny" / "model"
    build("dan_best").save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def index_folder(model):
    questions = [f"{text} ?" for text in REPLIES]
    index = ReplyIndex.build(Encoder.from_pretrained(model, "cpu"), REPLIES, duplicate_cosine=1, questions=questions)
    scores = [index.suggest(text, 1)[0].score for text in SENTENCES]
    # Between the best scores of the sentences: some get a suggestion, others do not.
    table = [ThresholdRow(max(scores) + 0.1, 0.8125, 0.025), ThresholdRow(min(scores) - 0.1, 0.5, 1)]
    index.calibration = Calibration((min(scores) + max(scores)) / 2, 0.7, 0.75, 0.5, None, 40, table)
    index.save(folder := model.parents[1] / "replies")
    return folder


@pytest.fixture(scope="module")
def address(index_folder):
    """The address of the page, served by its command."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    uploads = index_folder.with_name("uploads")
    uploads.mkdir()
    environment = {**os.environ, "GRADIO_SERVER_PORT": str(port), "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    environment["GRADIO_TEMP_DIR"] = str(uploads)
    log = index_folder.with_name("log")
    with log.open("w") as output:
        server = subprocess.Popen(
            [sys.executable, SPACE / "app.py", index_folder], env=environment, stdout=output, stderr=output
        )
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
    assert not [file for file in uploads.rglob("*") if file.is_file()]  # nothing that was uploaded stays


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="no Playwright: make install")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium to open the page in: apt-get install chromium (Debian), or put one on the PATH")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_OPTIONS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser, address, request):
    """The page, as wide as the test's parameter; it may send requests only to this machine."""
    width = getattr(request, "param", 1000)
    context = browser.new_context(viewport={"width": width, "height": 760})
    context.set_default_timeout(60_000)
    page = context.new_page()
    external_requests = []

    def record(request) -> None:
        if not request.url.startswith((address, "data:", "blob:")):
            external_requests.append(request.url)

    page.on("request", record)
    page.on("filechooser", lambda _: None)  # with a listener, the system's dialog does not open
    page.goto(address)
    page.get_by_role("button", name="Compare").wait_for()
    yield page
    context.close()
    assert not external_requests


def cosines(model: Path, sentences: list[str]) -> np.ndarray:
    """Cosines (sentences, sentences) of the vectors of transformers' AutoModel, in one padded batch."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    with torch.inference_mode():
        vectors = AutoModel.from_pretrained(model)(
            **tokenizer(sentences, padding=True, return_tensors="pt")
        ).pooler_output
    return (vectors.double() @ vectors.double().T).numpy()


def table_cells(page, part: str, text: str) -> list[list[str]]:
    """The cells of the table in a part of the page, as soon as the part shows a text."""
    page.locator(f"#{part}").get_by_text(text, exact=True).first.wait_for()
    return [row.locator("td").all_inner_texts() for row in page.locator(f"#{part} tbody tr").all()]


def test_typed_sentences_are_compared_in_a_heat_map(page, model):
    page.get_by_label("Sentences").fill("\n".join([*SENTENCES, "", HOSTILE]))
    page.get_by_role("button", name="Compare").click()
    shown = np.array(table_cells(page, "compared", f"4. {HOSTILE}"), float)
    np.testing.assert_allclose(shown, cosines(model, [*SENTENCES, HOSTILE]), atol=6e-4)
    assert page.title() == "convsim: tiny"  # code in a sentence was not executed
    colors = [
        page.locator("#compared td.cell").nth(cell).evaluate("cell => getComputedStyle(cell).backgroundColor")
        for cell in range(16)
    ]
    red = np.array([int(re.match(r"rgb\((\d+)", color)[1]) for color in colors]).reshape(4, 4)
    shown, order = shown.clip(0).ravel(), shown.clip(0).ravel().argsort()
    assert (np.diff(red.ravel()[order]) <= 0).all()  # higher values are darker
    assert red[0, 0] < red.max()


def test_replies_are_suggested_down_to_the_threshold(page, model, index_folder):
    index = ReplyIndex.load(index_folder)
    tokenizer = AutoTokenizer.from_pretrained(model)
    multitask = AutoModelForPreTraining.from_pretrained(model).eval()
    with torch.inference_mode():
        queries, replies = (
            multitask.encoder(**tokenizer(texts, padding=True, return_tensors="pt")).pooler_output
            for texts in (SENTENCES, REPLIES)
        )
        scores = (queries @ multitask.response_head(replies).T).numpy()
    page.get_by_role("tab", name="Replies").click()
    suggestions = 0
    for text, row in zip(SENTENCES, scores, strict=True):
        page.get_by_label("Message").fill(text)
        page.get_by_role("button", name="Suggest").click()
        best = [index_row for index_row in np.argsort(-row)[:3] if row[index_row] >= index.calibration.threshold]
        if not best:
            page.get_by_text(
                f"No suggestion: no reply reaches the threshold of {index.calibration.threshold:.3f}"
            ).wait_for()
            continue
        suggestions += 1
        page.get_by_text(f"Replies to: {text}").wait_for()
        rows = table_cells(page, "suggested", REPLIES[best[0]])
        assert [cells[1] for cells in rows] == [REPLIES[index_row] for index_row in best]
        assert [cells[3] for cells in rows] == [f"{REPLIES[index_row]} ?" for index_row in best]
        np.testing.assert_allclose([float(cells[0]) for cells in rows], row[best], rtol=2e-3)
    assert 0 < suggestions < len(SENTENCES)


def test_the_threshold_is_moved_with_a_slider(page, index_folder):
    page.get_by_role("tab", name="Replies").click()
    page.get_by_label("Message").fill(SENTENCES[1])
    page.get_by_role("button", name="Suggest").click()
    slider = page.get_by_role("slider", name="Threshold")
    slider.press("End")
    page.get_by_text("No suggestion: no reply reaches").wait_for()
    page.get_by_text("the precision on held-out pairs was 81%, and the coverage 2.5%").wait_for()
    slider.press("Home")
    page.get_by_text(f"Replies to: {SENTENCES[1]}").wait_for()
    page.get_by_text("the precision on held-out pairs was 50%, and the coverage 100.0%").wait_for()
    assert len(table_cells(page, "suggested", "score")) == 3


def test_uploaded_list_is_searched(page, model, tmp_path):
    lines = [*REPLIES, "", HOSTILE, "YES, please!"]
    (tmp_path / "my list.txt").write_text("\n".join(lines))
    page.get_by_role("tab", name="Nearest").click()
    page.locator("input[type=file]").set_input_files(tmp_path / "my list.txt")
    page.get_by_text("7 sentences of my list.txt, without 1 blank lines and 1 duplicates (ignoring case").wait_for()
    page.get_by_label("Sentence", exact=True).fill("I like the cat")
    page.keyboard.press("Enter")
    rows = table_cells(page, "nearest", HOSTILE)
    distinct = [*REPLIES, HOSTILE]
    expected = cosines(model, ["I like the cat", *distinct])[0, 1:]
    order = np.argsort(-expected)
    assert [cells[1] for cells in rows] == [distinct[row] for row in order]
    np.testing.assert_allclose([float(cells[0]) for cells in rows], expected[order], atol=2e-3)
    assert page.title() == "convsim: tiny"


def test_only_uploads_are_deleted(functions, index_folder, tmp_path, monkeypatch):
    index = ReplyIndex.load(index_folder)
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "uploads"))
    for folder, stays in ((tmp_path / "mine", True), (tmp_path / "uploads", False)):
        folder.mkdir()
        (folder / "list.txt").write_text("the dog\n")
        listed, _ = functions.read_upload(index, str(folder / "list.txt"))
        assert len(listed) == 1 and (folder / "list.txt").exists() == stays


def test_mistakes_are_explained_on_the_page(page, tmp_path):
    def expect_message(message: str) -> None:
        page.get_by_text(message).wait_for()
        page.get_by_role("button", name="Close", exact=True).click()

    page.get_by_label("Sentences").fill("only one")
    page.get_by_role("button", name="Compare").click()
    expect_message("Enter 2 to 50 sentences, one per line; there are 1.")
    page.get_by_role("tab", name="Replies").click()
    page.get_by_role("button", name="Suggest").click()
    expect_message("The message is empty.")
    page.get_by_role("tab", name="Nearest").click()
    (tmp_path / "good.txt").write_text("the dog\n")
    (tmp_path / "latin.txt").write_bytes("the dog\nhow are you\ncaf\xe9\n".encode("latin-1"))
    for name, message in [("good.txt", "1 sentences of good.txt"), ("latin.txt", "latin.txt:3: not UTF-8")]:
        page.locator("input[type=file]").set_input_files(tmp_path / name)
        page.get_by_text(message).wait_for()
        page.get_by_label("Clear").filter(visible=True).first.click()
        page.get_by_role("button", name="Click to upload").wait_for()
    page.get_by_label("Sentence", exact=True).fill("the dog")
    page.keyboard.press("Enter")
    expect_message("Upload a list first: a text file, one sentence per line.")


@pytest.mark.parametrize("page", [360], indirect=True)
def test_every_element_fits_on_a_narrow_screen(page):
    page.get_by_label("Sentences").fill("\n".join(SENTENCES * 4))
    page.get_by_role("button", name="Compare").click()
    table_cells(page, "compared", f"12. {SENTENCES[-1]}")
    # The table is wider than the screen and scrolls in its region; the page is not.
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    part = page.get_by_role("region", name="Cosine similarity")
    part.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("part => part.scrollLeft > 0", arg=part.element_handle())
    for name in ("Similarity", "Replies", "Nearest"):
        page.get_by_role("tab", name=name).click()
        button = page.get_by_role("button", name=re.compile("Compare|Suggest|Find"), include_hidden=False)
        box = button.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 360


def test_text_of_every_cell_has_enough_contrast(functions):
    def luminance(color: list[float]) -> float:  # WCAG 2.2, relative luminance
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    text = functions.heat_map(["a"] * 13, np.linspace(-1, 1, 169).reshape(13, 13))
    cells = re.findall(r"background: rgb\((\d+), (\d+), (\d+)\); color: (\w+)", text)
    assert len(cells) == 169
    for *color, name in cells:
        darker, lighter = sorted([luminance([int(value) / 255 for value in color]), float(name == "white")])
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5  # success criterion 1.4.3


def test_questions_are_shown_with_their_answers(functions, model):
    questions = ["how old is the dog", "where is the cat"]
    index = ReplyIndex.build(Encoder.from_pretrained(model, "cpu"), questions, "input", ["a & b", "at <home>"])
    shown = functions.suggest(index, "how old is the dog", 1)
    assert "how old is the dog</td>" in shown and "a &amp; b</td>" in shown and "home" not in shown
    functions.build(index)  # builds the tab of an index of questions


def test_uploaded_parquet_file_needs_a_column_of_texts(functions, model, index_folder, tmp_path):
    index = ReplyIndex.load(index_folder)
    for name, column in (("good", "text"), ("bad", "line")):
        parquet.write_table(pyarrow.table({column: ["the dog", "the cat"]}), tmp_path / f"{name}.parquet")
    uploaded, message = functions.read_list(index, str(tmp_path / "good.parquet"))
    assert len(uploaded) == 2 and message.startswith("<p>2 sentences of good.parquet, ")
    uploaded, message = functions.read_list(index, str(tmp_path / "bad.parquet"))
    assert uploaded is None and message == "<p>bad.parquet has no column &#x27;text&#x27;, only line</p>"


def test_mistakes_on_the_command_line_are_explained_in_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(SPACE)
    app = load("app")
    assert app.main([str(tmp_path)]) == 2
    assert f"error: {tmp_path} holds no index.json" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        app.main([str(tmp_path), "--opne"])
    assert capsys.readouterr().err.startswith("error: unknown argument '--opne'; did you mean '--open'?")


def test_space_requires_the_versions_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    requirements = (SPACE / "requirements.txt").read_text().split("\n")[:-1]
    assert set(requirements) == {*project["dependencies"], *extras["suggest"]}
    _, card, _ = (SPACE / "README.md").read_text("utf-8").split("---\n", 2)
    pinned = f"gradio=={yaml.safe_load(card)['sdk_version']}"
    assert pinned in (ROOT / "constraints.txt").read_text().splitlines()
    assert (SPACE / yaml.safe_load(card)["app_file"]).is_file()


def test_an_index_without_a_threshold_has_no_slider_and_suggests_always(functions, model, index_folder):
    index = ReplyIndex.build(Encoder.from_pretrained(model, "cpu"), REPLIES, duplicate_cosine=1)
    shown = functions.suggest(index, "the dog", 2)
    assert shown.count("<tr>") == 3 and "in reply to" not in shown and "precision" not in shown
    sliders = [
        [block.label for block in functions.build(each).blocks.values() if isinstance(block, functions.gr.Slider)]
        for each in (index, ReplyIndex.load(index_folder))
    ]
    assert [len(labels) for labels in sliders] == [1, 2]


@pytest.mark.parametrize("text", [None, "a" * 20_001, "the \ud83d dog"])
def test_a_text_that_only_programs_send_is_refused_with_a_message(functions, index_folder, text):
    index = ReplyIndex.load(index_folder)
    for ask in (functions.compare, functions.find_nearest, lambda *words: functions.suggest(*words, 1)):
        with pytest.raises(functions.gr.Error, match=r"Expected a text|at most 20,000|lone surrogate"):
            ask(index, text)


@pytest.mark.parametrize(("count", "threshold"), [(0, None), (10**400, None), (float("nan"), None), (1, "high")])
def test_numbers_that_the_page_does_not_offer_are_refused(functions, index_folder, count, threshold):
    with pytest.raises(functions.gr.Error, match="Expected a number"):
        functions.suggest(ReplyIndex.load(index_folder), "the dog", count, threshold)
