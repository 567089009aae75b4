"""A page that demonstrates a model: reply suggestion, sentence similarity, and search in an uploaded list."""

import json
import math
import os
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import gradio as gr
import numpy as np
from hosts import OwnHost
from starlette.middleware import Middleware

from modeling_convsim.encoding.text_files import read_texts
from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.calibration import ThresholdRow, choose_examples
from modeling_convsim.suggestion.reply_search import Suggestion

FOLDER = Path(__file__).parent
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
ERROR_SECONDS = 6
NO_THRESHOLD = (
    "This index has no threshold that is known to be precise enough: choose one in the settings below to see "
    "suggestions anyway."
)
CONTRAST = {  # of 4.5 or more (WCAG 2.2, 1.4.3), where the theme's is lower
    "button_primary_background_fill": "*primary_600",
    "button_primary_background_fill_dark": "*primary_600",
    "button_primary_background_fill_hover": "*primary_700",
    "button_primary_background_fill_hover_dark": "*primary_700",
    "body_text_color_subdued": "*neutral_600",
    "input_placeholder_color": "*neutral_500",
    "input_placeholder_color_dark": "*neutral_400",
}
CLOSE_ERRORS = "closeErrors"  # in page.js
THUMBS = "".join(
    f'<button type="button" class="thumb" data-accepted="{value}" aria-label="{label}">{sign}</button>'
    for value, label, sign in (("true", "Good reply", "👍"), ("false", "Bad reply", "👎"))
)


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


def find_suggestions(
    index: ReplyIndex, text: str, count: float, threshold: float | None, context: list[str]
) -> tuple[list[Suggestion], float]:
    """The suggestions for a message, and the threshold that they reach.

    Args:
        index: The index.
        text: The message.
        count: The maximum number of suggestions.
        threshold: The lowest score; by default, and if it is the same with two digits, that of the index.
        context: Earlier messages of the conversation, the newest first.

    Raises:
        gr.Error: The message is empty or not text, or a number is not one of those that the page offers.
    """
    _check_texts(text, context=context)
    if not text.strip():
        raise _error("The message is empty.")
    if not isinstance(count, int | float) or not 1 <= count <= MAX_SUGGESTIONS:
        raise _error(f"Expected a number of suggestions from 1 to {MAX_SUGGESTIONS}.")
    if threshold is not None and not (isinstance(threshold, int | float) and abs(threshold) < 1e6):
        raise _error("Expected a number as the threshold.")
    if threshold is None or round(threshold, 2) == _thresholds(index)[1]:
        threshold = index.threshold
    return index.suggest(text, int(count), threshold, context=context), threshold


def suggest(index: ReplyIndex, text: str, count: float, threshold: float | None = None, earlier: str = "") -> str:
    """A list of the replies that the index suggests for a message, or a paragraph that says that there are none.

    `earlier` has earlier messages of the conversation, one per line, the oldest first; the rest is as in
    `find_suggestions`.
    """
    _check_text(earlier)
    context = [line for line in earlier.splitlines()[::-1] if line.strip()]
    suggestions, threshold = find_suggestions(index, text, count, threshold, context)
    if threshold == math.inf:
        return f"<p>No suggestion. {NO_THRESHOLD} ({escape(str(index.no_threshold))}.)</p>"
    precision = describe_precision(index, threshold)
    if not suggestions:
        return f"<p>No suggestion: nothing in the index has a score of {threshold:.2f} or more. {precision}</p>"
    cards = "".join(map(_card, suggestions))
    message, turns = escape(text.strip()), escape(json.dumps(context))
    return (
        f'<ol class="cards" aria-label="Suggestions for: {message}" data-message="{message}" data-context="{turns}">'
        f"{cards}</ol><p>{precision}</p>"
    )


def _card(suggestion: Suggestion) -> str:
    """A reply and the message that it answered, or the answer of a question, with buttons that copy and rate it."""
    shown, origin = suggestion.text, suggestion.question and f"It answered: “{suggestion.question}”"
    if suggestion.answer:
        shown, origin = suggestion.answer, f"It answers: “{suggestion.text}”"
    times = f" · {suggestion.count:,} times" if suggestion.count > 1 else ""
    return (
        f'<li><p class="text">{escape(shown)}</p>{f"<p>{escape(origin)}</p>" if origin else ""}'
        f'<p class="details"><span>score {suggestion.score:.2f}{times}</span>{THUMBS}'
        '<button type="button" class="copy" aria-live="polite">Copy</button></p></li>'
    )


def open_feedback(path: Path) -> BinaryIO:
    """Opens a file of feedback, to which lines are appended; a new one can be read by its owner alone.

    Raises:
        ValueError: Its name does not end in .jsonl, or it cannot be written.
    """
    if path.suffix != ".jsonl":
        raise ValueError(f"--feedback {path}: expected a name that ends in .jsonl")
    try:
        file = open(path, "a+b", 0, opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115
    except OSError as error:
        raise ValueError(f"--feedback {path}: cannot be written ({error.strerror}); name another file") from error
    size = file.seek(0, os.SEEK_END)
    if size and (file.seek(size - 1), file.read(1))[1] != b"\n":
        file.write(b"\n")  # after a line that an interruption left incomplete
    return file


def write_feedback(file: BinaryIO, message: str, reply: str, accepted: bool, context: list[str]) -> None:
    """Appends a suggestion that was accepted or rejected; `context` has the earlier messages, the newest first.

    Raises:
        gr.Error: A text is empty or not text.
    """
    _check_texts(message, reply, context=context)
    if not (message.strip() and reply.strip()):
        raise _error("Expected a message and a reply.")
    line = {"message": message, "reply": reply, "accepted": bool(accepted)}
    line |= {"context": context} if context else {}
    file.write((json.dumps(line, ensure_ascii=False) + "\n").encode())


def describe_precision(index: ReplyIndex, threshold: float) -> str:
    """The precision of a threshold in the calibration of the index: of this one or of the nearest one in its table."""
    calibration = index.calibration
    if calibration is None:
        return "The precision is unknown, because no threshold of this index is calibrated."
    rows = [ThresholdRow(calibration.threshold, calibration.precision, calibration.coverage), *calibration.table]
    row = min(rows, key=lambda row: abs(round(row.threshold, 2) - round(threshold, 2)))
    is_same = round(row.threshold, 2) == round(threshold, 2)
    nearest = "" if is_same else f" (of those that were measured, the nearest to {threshold:.2f})"
    return (
        f"On {calibration.pairs:,} held-out pairs, the threshold of {row.threshold:.2f}{nearest} has a precision of "
        f"{row.precision:.0%} and a coverage of {row.coverage:.0%}."
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
    rows = "".join(
        f'<tr><td class="number">{one.score:.3f}</td><td>{escape(one.text)}</td></tr>'
        for one in uploaded.suggest(text, NEAREST, -math.inf)
    )
    header = '<thead><tr><th scope="col" class="number">cosine</th><th scope="col">sentence</th></tr></thead>'
    return _scrolling_table(f"Nearest to: {text.strip()}", f"{header}<tbody>{rows}</tbody>")


def _check_text(text: object) -> None:
    """Refuse what a program, but not the page, may send."""
    if not isinstance(text, str):
        raise _error("Expected a text.")
    if len(text) > MAX_TEXT:
        raise _error(f"The text has {len(text):,} characters; at most {MAX_TEXT:,} are accepted.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise _error("The text holds a lone surrogate, which is no character.")


def _check_texts(*texts: object, context: object) -> None:
    if not isinstance(context, list):
        raise _error("Expected a list of texts as the context.")
    for text in (*texts, *context):
        _check_text(text)


def _error(message: str) -> gr.Error:
    return gr.Error(message, duration=ERROR_SECONDS, print_exception=False)


def serve(index: ReplyIndex, open_browser: bool, hosts: Sequence[str] = (), feedback: BinaryIO | None = None) -> None:
    """Serves the page until the process is stopped; uploaded files are in a folder that ends with it.

    Args:
        index: The index.
        open_browser: Open the page in a browser.
        hosts: Host names at which users open the page, besides those of the address that is served.
        feedback: The output of `open_feedback`.
    """
    space = [os.environ["SPACE_HOST"]] if "SPACE_HOST" in os.environ else []  # of a Space on Hugging Face
    server_name = os.environ.get("GRADIO_SERVER_NAME", "127.0.0.1")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # by default, the folder would stay
    with tempfile.TemporaryDirectory(
        prefix="convsim-", dir=os.environ.get(UPLOADS), ignore_cleanup_errors=True
    ) as uploads:
        os.environ[UPLOADS] = uploads
        build(index, feedback).launch(
            inbrowser=open_browser,
            theme=gr.themes.Default(primary_hue="blue", neutral_hue="slate").set(**CONTRAST),
            css_paths=FOLDER / "page.css",
            head=f"<script>{(FOLDER / 'page.js').read_text('utf-8')}</script>",
            footer_links=["api"],
            max_file_size="20mb",
            app_kwargs={"middleware": [Middleware(OwnHost, server_name, [*hosts, *space])]},
        )


def build(index: ReplyIndex, feedback: BinaryIO | None = None) -> gr.Blocks:
    """Builds the page; with a file of feedback, replies can be rated."""
    model = index.encoder.model
    path = Path(model.name_or_path)
    name = path.resolve().parent.name if path.is_dir() and path.name == "model" else str(path)  # a run's folder
    tab = "Replies" if index.side == "response" else "Questions"
    with gr.Blocks(title=f"convsim: {name}", analytics_enabled=False, delete_cache=(60, UPLOAD_SECONDS)) as page:
        gr.Markdown(
            f"# convsim: {name}\n\nA sentence encoder trained on conversations ({model.config.label}, "
            f"{model.num_parameters():,} parameters) and {len(index):,} {tab.lower()}."
        )
        with gr.Tab(tab):
            _add_suggestions(index, feedback is not None)
        with gr.Tab("Similarity"):
            _add_similarity(index)
        with gr.Tab("Nearest"):
            _add_nearest(index)
        _add_api(index, feedback)
    return page


def _add_api(index: ReplyIndex, feedback: BinaryIO | None) -> None:
    """What programs call, with lists and numbers instead of HTML; Gradio reads the types of the parameters."""

    def suggest_replies(
        message: str, k: int = 3, threshold: float | None = None, context: list[str] | None = None
    ) -> list[dict[str, Any]]:
        """The suggestions for a message, best first; `context` has the earlier messages, the newest first."""
        return [asdict(one) for one in find_suggestions(index, message, k, threshold, context or [])[0]]

    def record_feedback(message: str, reply: str, accepted: bool, context: list[str] | None = None) -> None:
        """Records that a suggested reply was accepted or rejected."""
        assert feedback
        write_feedback(feedback, message, reply, accepted, context or [])

    gr.api(suggest_replies, api_name="suggest")
    if feedback:
        gr.api(record_feedback, api_name="feedback")


def _add_suggestions(index: ReplyIndex, is_rated: bool) -> None:
    message = gr.Textbox(label="Message", placeholder="Write a message, then press Enter", max_lines=1)
    examples = _add_examples(index)
    button = gr.Button("Suggest", variant="primary")
    classes = ["rated"] if is_rated else None
    suggested = gr.HTML(
        "" if index.calibration else f"<p>{NO_THRESHOLD}</p>", elem_id="suggested", elem_classes=classes
    )
    label, has_context = "Earlier messages, one per line, the oldest first", index.encoder.uses_context
    earlier = gr.Textbox("", label=label, lines=2, visible=has_context)
    with gr.Accordion("Settings", open=False):
        count = gr.Slider(1, MAX_SUGGESTIONS, 3, step=1, label="Maximum number of suggestions")
        threshold = _threshold_slider(index)
    for slider in (count, threshold):
        # `suggest` checks the value, with a message; the slider would raise a TypeError.
        slider.preprocess = lambda value: value  # type: ignore[method-assign, assignment]
    inputs = [message, count, threshold, earlier]
    ask, again = partial(suggest, index), partial(_suggest_again, index)
    gr.on([button.click, message.submit], ask, inputs, suggested, api_visibility="private", js=CLOSE_ERRORS)
    moved = [count.change, threshold.change]
    gr.on(moved, again, inputs, suggested, trigger_mode="always_last", api_visibility="private", js=CLOSE_ERRORS)
    if examples is not None:
        fill, filled = lambda sample: (sample[0], ""), [message, earlier]
        chosen = examples.click(fill, examples, filled, api_visibility="private")
        chosen.then(ask, inputs, suggested, api_visibility="private", js=CLOSE_ERRORS)


def _add_examples(index: ReplyIndex) -> gr.Dataset | None:
    """Messages to click: held-out ones, or else messages that replies of the index answered."""
    label, examples = "Held-out messages", index.examples
    if not examples and index.side == "response" and index.replies.companions:
        label, examples = "Messages that were answered", choose_examples(index.replies.companions)
    if not examples:
        return None
    return gr.Dataset(label=label, components=[gr.Textbox(visible=False)], samples=[[text] for text in examples])


def _thresholds(index: ReplyIndex) -> tuple[int, float, int]:
    """The lowest threshold that the page offers, that of the index, and the highest one, above all scores."""
    rows = index.calibration.table if index.calibration else []
    known = [each for each in (index.threshold, *(row.threshold for row in rows)) if math.isfinite(each)]
    bound = 1.01 + index.message_weight + index.consensus_weight
    lowest, highest = math.floor(min(0, *known, 0)), math.ceil(max(bound, *known, 0))
    return lowest, round(min(max(index.threshold, lowest), highest), 2), highest


def _threshold_slider(index: ReplyIndex) -> gr.Slider:
    lowest, own, highest = _thresholds(index)
    return gr.Slider(lowest, highest, own, step=0.01, label="Threshold: the lowest score of a suggestion")


def _suggest_again(index: ReplyIndex, text: str, count: float, threshold: float, earlier: str) -> str:
    """Suggests after a slider was moved; without a message, there is nothing to suggest yet."""
    return suggest(index, text, count, threshold, earlier) if text.strip() else ""


def _add_similarity(index: ReplyIndex) -> None:
    sentences = gr.Textbox(FIGURE_1, label="Sentences, one per line (Shift+Enter compares)", lines=4)
    button = gr.Button("Compare", variant="primary")
    compared = gr.HTML(compare(index, FIGURE_1), elem_id="compared")
    ask = partial(compare, index)
    gr.on([button.click, sentences.submit], ask, sentences, compared, api_name="compare", js=CLOSE_ERRORS)


def _add_nearest(index: ReplyIndex) -> None:
    uploaded = gr.State(time_to_live=LIST_HOURS * 3600)
    file = gr.File(label="List: text, UTF-8, one sentence per line (or Parquet, column text)", height=140)
    status = gr.HTML(elem_id="status")
    sentence = gr.Textbox(label="Sentence", placeholder="Write a sentence, then press Enter", max_lines=1)
    button = gr.Button("Find", variant="primary")
    nearest = gr.HTML(elem_id="nearest")
    file.change(partial(read_upload, index), file, [uploaded, status], api_name="upload")
    inputs = [uploaded, sentence]
    gr.on([button.click, sentence.submit], find_nearest, inputs, nearest, api_name="nearest", js=CLOSE_ERRORS)
