"""A page that demonstrates a model: sentence similarity, reply suggestion, and search in an uploaded list."""

import math
import os
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from html import escape
from itertools import islice
from pathlib import Path

import gradio as gr
import numpy as np

from modeling_convsim.encoding.text_files import read_texts
from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.calibration import Calibration

MAX_COMPARED = 50  # sentences; a larger table is not readable
MAX_TEXT = 20_000  # characters of a text that is typed or sent
MAX_LIST = 100_000  # sentences of an uploaded list, because each visitor's vectors are in memory
MAX_CHARACTERS = 20_000_000  # of an uploaded list, which may be compressed: a small file can hold gigabytes
UPLOADS = "GRADIO_TEMP_DIR"  # names the folder of uploaded files
UPLOAD_SECONDS = 600  # an uploaded file that was never read is deleted after this time
LIST_HOURS = 1  # an uploaded list is deleted after this time
NEAREST = 10
MAX_SUGGESTIONS = 10
PALEST, DARKEST = np.array([247, 251, 255]), np.array([8, 48, 107])
FIGURE_1 = "How old are you?\nWhat is your age?\nHow are you?"
CSS = """
.scroll { overflow-x: auto; }
.scroll table { border-collapse: collapse; margin-top: .5em; }
.scroll tr > * { padding: .4em .6em; text-align: left; border: 1px solid var(--border-color-primary); }
.scroll tr .number { text-align: right; font-variant-numeric: tabular-nums; }
.scroll tr .cell { text-align: center; min-width: 4em; font-variant-numeric: tabular-nums; }
.scroll tbody tr th { font-weight: normal; min-width: 9em; max-width: 24em; overflow-wrap: break-word; }
"""


def heat_map(sentences: Sequence[str], cosines: np.ndarray) -> str:
    """A table of cosines (sentences, sentences) whose cells are darker for higher values, palest for 0 and below."""
    columns = "".join(
        f'<th scope="col" class="cell" title="{escape(text)}">{number}</th>'
        for number, text in enumerate(sentences, start=1)
    )
    rows = []
    for number, (text, row) in enumerate(zip(sentences, cosines, strict=True), start=1):
        cells = "".join(f'<td class="cell" style="{_colors(cosine)}">{cosine:.3f}</td>' for cosine in row)
        rows.append(f'<tr><th scope="row">{number}. {escape(text)}</th>{cells}</tr>')
    caption = "Cosine similarity of sentence embeddings: 1 for the same meaning, about 0 for unrelated texts"
    return _scrolling_table(caption, f"<thead><tr><td></td>{columns}</tr></thead><tbody>{''.join(rows)}</tbody>")


def _colors(cosine: float) -> str:
    background = np.rint(PALEST + min(max(float(cosine), 0.0), 1.0) * (DARKEST - PALEST))  # (3,): RGB
    # With a relative luminance (WCAG 2.2) above .179, black text has more contrast than white.
    fractions = background / 255
    linear = np.where(fractions <= 0.04045, fractions / 12.92, ((fractions + 0.055) / 1.055) ** 2.4)
    text = "black" if linear @ [0.2126, 0.7152, 0.0722] > 0.179 else "white"
    return f"background: rgb({', '.join(f'{value:.0f}' for value in background)}); color: {text}"


def results_table(caption: str, header: Sequence[str], results: Sequence[Sequence[str]]) -> str:
    """A table of search results, best first; the columns `score`, `cosine` and `count` are numeric."""
    classes = [' class="number"' if name in ("score", "cosine", "count") else "" for name in header]
    names = "".join(f'<th scope="col"{kind}>{name}</th>' for kind, name in zip(classes, header, strict=True))
    rows = []
    for result in results:
        cells = (f"<td{kind}>{escape(text)}</td>" for kind, text in zip(classes, result, strict=True))
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return _scrolling_table(caption, f"<thead><tr>{names}</tr></thead><tbody>{''.join(rows)}</tbody>")


def _scrolling_table(caption: str, content: str) -> str:
    """A table of any width, in a region of the page that scrolls with the arrow keys."""
    label = escape(caption)
    return (
        f'<p>{label}</p><div class="scroll" tabindex="0" role="region" aria-label="{label}"><table>{content}</table>'
        "</div>"
    )


def compare(index: ReplyIndex, text: str) -> str:
    """The heat map of a text's sentences, one per line.

    Raises:
        gr.Error: There are fewer than 2 sentences, or more than 50, or it is not text.
    """
    _check_text(text)
    sentences = [line.strip() for line in text.splitlines() if line.strip()]
    if not 2 <= len(sentences) <= MAX_COMPARED:
        raise _error(f"Enter 2 to {MAX_COMPARED} sentences, one per line; there are {len(sentences)}.")
    vectors = index.encoder.encode(sentences)
    return heat_map(sentences, vectors @ vectors.T)


def suggest(index: ReplyIndex, text: str, count: float, threshold: float | None = None) -> str:
    """A table of the replies that the index suggests for a message, or a paragraph that says that there are none.

    Args:
        index: The index.
        text: The message.
        count: The maximum number of suggestions.
        threshold: The lowest score; by default that of the index.

    Raises:
        gr.Error: The message is empty or not text, or a number is not one of those that the page offers.
    """
    _check_text(text)
    if not text.strip():
        raise _error("The message is empty.")
    if not isinstance(count, int | float) or not 1 <= count <= MAX_SUGGESTIONS:
        raise _error(f"Expected a number of suggestions from 1 to {MAX_SUGGESTIONS}.")
    if threshold is None:
        threshold = index.calibration.threshold if index.calibration else -math.inf
    elif not isinstance(threshold, int | float) or math.isnan(threshold):
        raise _error("Expected a number as the threshold.")
    expected = f"<p>{describe_precision(index, threshold)}</p>" if index.calibration else ""
    suggestions = index.suggest(text, int(count), threshold)
    if not suggestions:
        return f"<p>No suggestion: no reply reaches the threshold of {threshold:.3f}.</p>{expected}"
    rows = [[f"{one.score:.3f}", one.text, f"{one.count:,}"] for one in suggestions]
    if index.side == "input":
        header = ["cosine", "question", "count", "answer"]
        rows = [[*row, one.answer or ""] for row, one in zip(rows, suggestions, strict=True)]
        return results_table(f"Questions like: {text.strip()}", header, rows) + expected
    header = ["score", "reply", "count"]
    if index.replies.companions:
        header.append("in reply to")
        rows = [[*row, one.question or ""] for row, one in zip(rows, suggestions, strict=True)]
    return results_table(f"Replies to: {text.strip()}", header, rows) + expected


def describe_precision(index: ReplyIndex, threshold: float) -> str:
    """What a threshold gave on the held-out pairs that the index was calibrated with: the nearest row of its table."""
    if index.calibration is None or not index.calibration.table:
        return ""
    row = min(index.calibration.table, key=lambda row: abs(row.threshold - threshold))
    return (
        f"With a threshold of {row.threshold:.3f}, the precision on held-out pairs was {row.precision:.0%}, and the "
        f"coverage {row.coverage:.1%}."
    )


def read_list(index: ReplyIndex, file: str | None) -> tuple[ReplyIndex | None, str]:
    """An index of an uploaded file's sentences and a summary, or None and an error message."""
    if file is None:
        return None, ""
    name = Path(file).name
    try:
        lines = list(islice(_limit_characters(read_texts(file), name), MAX_LIST + 1))
        if len(lines) > MAX_LIST:
            raise ValueError(f"{name} holds more than {MAX_LIST:,} sentences: upload it in parts")
        uploaded = ReplyIndex.build(index.encoder, lines, "input", duplicate_cosine=1)
    except ValueError as error:
        return None, f"<p>{escape(str(error).replace(file, name))}</p>"
    blank = sum(not line.strip() for line in lines)
    duplicates = len(lines) - blank - len(uploaded)
    return uploaded, (
        f"<p>{len(uploaded):,} sentences of {escape(name)}, without {blank:,} blank lines and {duplicates:,} "
        "duplicates (ignoring case and punctuation).</p>"
    )


def _limit_characters(texts: Iterable[str], name: str) -> Iterator[str]:
    """The texts of an upload; raises ValueError when they exceed the limit."""
    characters = 0
    for text in texts:
        characters += len(text)
        if characters > MAX_CHARACTERS:
            raise ValueError(f"{name} holds more than {MAX_CHARACTERS:,} characters: upload it in parts")
        yield text


def read_upload(index: ReplyIndex, file: str | None) -> tuple[ReplyIndex | None, str]:
    """`read_list` for a file that a visitor uploaded: it is deleted as soon as it has been read."""
    try:
        return read_list(index, file)
    finally:
        uploads = os.environ.get(UPLOADS)
        if file and uploads and Path(file).resolve().is_relative_to(Path(uploads).resolve()):
            Path(file).unlink(missing_ok=True)


def find_nearest(uploaded: ReplyIndex | None, text: str) -> str:
    """A table of the sentences of the uploaded list that are most similar to a sentence.

    Raises:
        gr.Error: The sentence is empty or not text, or there is no list.
    """
    _check_text(text)
    if uploaded is None:
        raise _error("Upload a list first: a text file, one sentence per line.")
    if not text.strip():
        raise _error("The sentence is empty.")
    rows = [[f"{one.score:.3f}", one.text] for one in uploaded.suggest(text, NEAREST)]
    return results_table(f"Nearest to: {text.strip()}", ["cosine", "sentence"], rows)


def _check_text(text: object) -> None:
    """Refuse what a program, but not the page, may send."""
    if not isinstance(text, str):
        raise _error("Expected a text.")
    if len(text) > MAX_TEXT:
        raise _error(f"The text has {len(text):,} characters; at most {MAX_TEXT:,} are accepted.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise _error("The text holds a lone surrogate, which is no character.")


def _error(message: str) -> gr.Error:
    return gr.Error(message, duration=None, print_exception=False)  # shown until it is closed


def serve(index: ReplyIndex, open_browser: bool) -> None:
    """Serves the page until the process is stopped; uploaded files are in a folder that ends with it."""
    theme = gr.themes.Default(primary_hue="blue", neutral_hue="slate")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # by default, the folder would stay
    with tempfile.TemporaryDirectory(
        prefix="convsim-", dir=os.environ.get(UPLOADS), ignore_cleanup_errors=True
    ) as uploads:
        os.environ[UPLOADS] = uploads
        build(index).launch(inbrowser=open_browser, theme=theme, css=CSS, footer_links=["api"], max_file_size="20mb")


def build(index: ReplyIndex) -> gr.Blocks:
    """Builds the page."""
    model = index.encoder.model
    path = Path(model.name_or_path)
    name = path.resolve().parent.name if path.is_dir() and path.name == "model" else str(path)  # a run's folder
    with gr.Blocks(title=f"convsim: {name}", analytics_enabled=False, delete_cache=(60, UPLOAD_SECONDS)) as page:
        gr.Markdown(
            f"# convsim: {name}\n\nA sentence encoder trained on conversations ({model.config.label}, "
            f"{model.num_parameters():,} parameters)."
        )
        _add_similarity_tab(index)
        _add_suggestion_tab(index)
        _add_nearest_tab(index)
    return page


def _add_similarity_tab(index: ReplyIndex) -> None:
    with gr.Tab("Similarity"):
        sentences = gr.Textbox(FIGURE_1, label="Sentences, one per line (Shift+Enter compares)", lines=4)
        button = gr.Button("Compare", variant="primary")
        compared = gr.HTML(compare(index, FIGURE_1), elem_id="compared")
        gr.on([button.click, sentences.submit], partial(compare, index), sentences, compared, api_name="compare")


def _add_suggestion_tab(index: ReplyIndex) -> None:
    name = "Replies" if index.side == "response" else "Questions"
    with gr.Tab(name):
        message = gr.Textbox(label="Message", placeholder="Write a message, then press Enter", max_lines=1)
        count = gr.Slider(1, MAX_SUGGESTIONS, 3, step=1, label="Maximum number of suggestions")
        # `suggest` checks the value, with a message; the slider would raise a TypeError.
        count.preprocess = lambda value: value  # type: ignore[method-assign, assignment]
        slider = _threshold_slider(index.calibration) if index.calibration and index.calibration.table else None
        button = gr.Button("Suggest", variant="primary")
        gr.Markdown(f"{len(index):,} {name.lower()}. {describe_threshold(index)}")
        suggested = gr.HTML(elem_id="suggested")
        inputs = [message, count] if slider is None else [message, count, slider]
        gr.on([button.click, message.submit], partial(suggest, index), inputs, suggested, api_name="suggest")
        if slider is not None:
            again = partial(_suggest_again, index)
            slider.change(again, inputs, suggested, trigger_mode="always_last", api_visibility="private")


def _threshold_slider(calibration: Calibration) -> gr.Slider:
    thresholds = [calibration.threshold, *(row.threshold for row in calibration.table)]
    slider = gr.Slider(
        math.floor(min(thresholds) * 100) / 100,
        math.ceil(max(thresholds) * 100) / 100,
        calibration.threshold,
        step=0.001,
        label="Threshold: the lowest score of a suggestion",
    )
    slider.preprocess = lambda value: value  # type: ignore[method-assign, assignment]
    return slider


def _suggest_again(index: ReplyIndex, text: str, count: float, threshold: float) -> str:
    """Suggests after the slider was moved; without a message, there is nothing to suggest yet."""
    return suggest(index, text, count, threshold) if text.strip() else ""


def _add_nearest_tab(index: ReplyIndex) -> None:
    with gr.Tab("Nearest"):
        uploaded = gr.State(time_to_live=LIST_HOURS * 3600)
        file = gr.File(label="List: text, UTF-8, one sentence per line (or Parquet, column text)", height=140)
        status = gr.HTML(elem_id="status")
        sentence = gr.Textbox(label="Sentence", placeholder="Write a sentence, then press Enter", max_lines=1)
        button = gr.Button("Find", variant="primary")
        nearest = gr.HTML(elem_id="nearest")
        file.change(partial(read_upload, index), file, [uploaded, status], api_name="upload")
        gr.on([button.click, sentence.submit], find_nearest, [uploaded, sentence], nearest, api_name="nearest")


def describe_threshold(index: ReplyIndex) -> str:
    """Describes the result of calibration."""
    calibration = index.calibration
    if calibration is None:
        return "No threshold is set, so there are always suggestions."
    among = "the whole index" if calibration.candidates is None else f"{calibration.candidates} candidates"
    return (
        f"Replies with a score below the threshold of {calibration.threshold:.3f} are not suggested. On "
        f"{calibration.pairs:,} held-out pairs, the threshold has precision {calibration.precision:.0%} "
        f"(among {among}) and coverage {calibration.coverage:.0%}."
    )
