"""A page that demonstrates a model: reply suggestion and sentence similarity."""

from collections.abc import Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np

from modeling_convsim.suggestion.calibration import choose_examples
from modeling_convsim.suggestion.reply_index import ReplyIndex, Suggestion

FOLDER = Path(__file__).parent
MAX_COMPARED = 50  # sentences; a larger table is not readable
MAX_TEXT = 20_000  # characters of a text that is typed or sent
PALEST, DARKEST = np.array([247, 251, 255]), np.array([8, 48, 107])
WHITE_FROM = 0.65  # on the colors of higher cosines, white text has more contrast than black (WCAG 2.2)
FIGURE_1 = "How old are you?\nWhat is your age?\nHow are you?"
ERROR_SECONDS = 6
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


def mount(app: Any, index: ReplyIndex) -> None:
    """Adds the page of an index to an application."""
    gr.mount_gradio_app(
        app,
        build(index),
        "",
        theme=gr.themes.Default(primary_hue="blue", neutral_hue="slate").set(**CONTRAST),
        css_paths=FOLDER / "page.css",
        head=f"<script>{(FOLDER / 'page.js').read_text('utf-8')}</script>",
        footer_links=[],
        max_file_size=1,  # Gradio accepts files, and the page reads none
    )


def build(index: ReplyIndex) -> gr.Blocks:
    """Builds the page."""
    path = Path(index.encoder.name)
    name = path.resolve().parent.name if path.is_dir() and path.name == "model" else str(path)  # a run's folder
    with gr.Blocks(title=f"convsim: {name}", analytics_enabled=False) as page:
        gr.Markdown(
            f"# convsim: {name}\n\nA sentence encoder trained on conversations ({index.encoder.description}) and "
            f"{len(index):,} replies."
        )
        with gr.Tab("Replies"):
            _add_suggestions(index)
        with gr.Tab("Similarity"):
            _add_similarity(index)
    return page


def _add_suggestions(index: ReplyIndex) -> None:
    message = gr.Textbox(label="Message", placeholder="Write a message, then press Enter", max_lines=1)
    examples = _add_examples(index)
    button = gr.Button("Suggest", variant="primary")
    suggested = gr.HTML(elem_id="suggested")
    label, has_context = "Earlier messages, one per line, the oldest first", index.encoder.uses_context
    earlier = gr.Textbox("", label=label, lines=2, visible=has_context)
    inputs, ask = [message, earlier], partial(suggest, index)
    gr.on([button.click, message.submit], ask, inputs, suggested, api_visibility="private", js=CLOSE_ERRORS)
    if examples is not None:
        chosen = examples.click(lambda sample: (sample[0], ""), examples, inputs, api_visibility="private")
        chosen.then(ask, inputs, suggested, api_visibility="private", js=CLOSE_ERRORS)


def _add_examples(index: ReplyIndex) -> gr.Dataset | None:
    """Messages to click: held-out ones, or else messages that replies of the index answered."""
    label, examples = "Held-out messages", index.settings.examples
    if not examples and index.replies.messages:
        label, examples = "Messages that were answered", choose_examples(index.replies.messages)
    if not examples:
        return None
    return gr.Dataset(label=label, components=[gr.Textbox(visible=False)], samples=[[text] for text in examples])


def _add_similarity(index: ReplyIndex) -> None:
    sentences = gr.Textbox(FIGURE_1, label="Sentences, one per line (Shift+Enter compares)", lines=4)
    button = gr.Button("Compare", variant="primary")
    compared = gr.HTML(compare(index, FIGURE_1), elem_id="compared")
    ask = partial(compare, index)
    gr.on([button.click, sentences.submit], ask, sentences, compared, api_visibility="private", js=CLOSE_ERRORS)


def suggest(index: ReplyIndex, message: str, earlier: str = "") -> str:
    """A list of the replies that the index suggests for a message, or a paragraph that says that there are none.

    `earlier` has earlier messages of the conversation, one per line, the oldest first.

    Raises:
        gr.Error: The message is empty, or a text is too long.
    """
    for text in (message, earlier):
        _check_text(text)
    if not message.strip():
        raise _error("The message is empty.")
    context = [line for line in earlier.splitlines()[::-1] if line.strip()]
    suggestions = index.suggest(message, context=context)
    if not suggestions:
        return "<p>No suggestion: the model knows no word of the message.</p>"
    label = f"Suggestions for: {escape(message.strip())}"
    return f'<ol class="cards" aria-label="{label}">{"".join(map(_card, suggestions))}</ol>'


def _card(suggestion: Suggestion) -> str:
    """A reply and the message that it answered, with a button that copies it."""
    details = [f"score {suggestion.score:.2f}"]
    details += [f"precision {suggestion.precision:.0%}"] if suggestion.precision is not None else []
    details += [f"{suggestion.count:,} times"] if suggestion.count > 1 else []
    origin = f"<p>It answered: “{escape(suggestion.message)}”</p>" if suggestion.message else ""
    return (
        f'<li><p class="text">{escape(suggestion.text)}</p>{origin}'
        f'<p class="details"><span>{" · ".join(details)}</span>'
        '<button type="button" class="copy" aria-live="polite">Copy</button></p></li>'
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


def heat_map(sentences: Sequence[str], cosines: np.ndarray) -> str:
    """A table of cosines (sentences, sentences) whose cells are darker for higher values, palest for 0 and below.

    It is in a region of the page that scrolls with the arrow keys.
    """
    columns = "".join(
        f'<th scope="col" class="cell" title="{escape(text)}">{number}</th>'
        for number, text in enumerate(sentences, start=1)
    )
    rows = []
    for number, (text, row) in enumerate(zip(sentences, cosines, strict=True), start=1):
        cells = "".join(f'<td class="cell" style="{_colors(cosine)}">{cosine:.3f}</td>' for cosine in row)
        rows.append(f'<tr><th scope="row">{number}. {escape(text)}</th>{cells}</tr>')
    caption = "Cosine similarity of sentence embeddings: 1 for the same meaning, about 0 for unrelated texts"
    return (
        f'<p>{caption}</p><div class="scroll" tabindex="0" role="region" aria-label="{caption}"><table>'
        f"<thead><tr><td></td>{columns}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _colors(cosine: float) -> str:
    background = np.rint(PALEST + min(max(float(cosine), 0.0), 1.0) * (DARKEST - PALEST))  # (3,): RGB
    color = "white" if cosine > WHITE_FROM else "black"
    return f"background: rgb({', '.join(f'{value:.0f}' for value in background)}); color: {color}"


def _check_text(text: object) -> None:
    """Refuse what a program, but not the page, may send."""
    if not isinstance(text, str):
        raise _error("Expected a text.")
    if len(text) > MAX_TEXT:
        raise _error(f"The text has {len(text):,} characters; at most {MAX_TEXT:,} are accepted.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise _error("The text holds a lone surrogate, which is no character.")


def _error(message: str) -> gr.Error:
    return gr.Error(message, duration=ERROR_SECONDS, print_exception=False)
