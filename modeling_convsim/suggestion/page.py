"""The page of an index: suggested replies to rate, a review of held-out messages, and sentence similarity."""

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from html import escape
from itertools import chain, pairwise
from pathlib import Path
from typing import Annotated, Any, get_args

import gradio as gr
import msgspec
import numpy as np

from modeling_convsim.suggestion.ratings import MAX_TEXT, MAX_TURNS, Answer, Shown
from modeling_convsim.suggestion.reply_index import ReplyIndex, Suggestion
from modeling_convsim.suggestion.review import Review
from modeling_convsim.suggestion.specifics import Span, Specifics

FOLDER = Path(__file__).parent
Typed = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]
MAX_EXAMPLES = 5
LONGEST_EXAMPLE = 60  # characters: one or two lines on a phone
MAX_COMPARED = 50  # sentences; a larger table is not readable
PALEST, DARKEST = np.array([247, 251, 255]), np.array([8, 48, 107])
WHITE_FROM = 0.65  # on the colors of higher cosines, white text has more contrast than black (WCAG 2.2)
FIGURE_1 = "How old are you?\nWhat is your age?\nHow are you?"
ERROR_SECONDS = 6
CLOSE_ERRORS = "closeErrors"  # in page.js
CHANGE = "change this part before you send the reply: it is a placeholder, or it applied to one customer only"


def mount(app: Any, index: ReplyIndex, folder: Path, lock: AbstractContextManager) -> None:
    """Adds the page of an index to an application: see `build`."""
    gr.mount_gradio_app(
        app,
        build(index, folder, lock),
        "",
        theme=gr.themes.Default(primary_hue="blue", neutral_hue="slate"),
        css_paths=FOLDER / "page.css",
        head=f"<script>{(FOLDER / 'page.js').read_text('utf-8')}</script>",
        footer_links=[],
        max_file_size=1,  # Gradio accepts files, and the page reads none
    )


def build(index: ReplyIndex, folder: Path, lock: AbstractContextManager) -> gr.Blocks:
    """Builds the page of an index and of the review in its folder; `lock` is held while the index is searched."""
    path = Path(index.encoder.name)
    name = path.resolve().parent.name if path.is_dir() and path.name == "model" else str(path)  # a run's folder
    with gr.Blocks(title=f"convsim: {name}", analytics_enabled=False) as page:
        gr.Markdown(
            f"# convsim: {name}\n\nA sentence encoder trained on conversations ({index.encoder.description}) and "
            f"{len(index):,} replies."
        )
        with gr.Tab("Replies"):
            _add_suggestions(index, lock)
        if index.review:
            with gr.Tab("Review"):
                held_out, button = gr.HTML(elem_id="review"), gr.Button("Next", variant="primary")
                following, ask = [page.load, button.click], partial(show_held_out, folder, index.specifics)
                gr.on(following, ask, None, held_out, api_visibility="private")
        with gr.Tab("Similarity"):
            _add_similarity(index)
    page.queue(api_open=False)  # programs use the API of the server
    return page


def _add_suggestions(index: ReplyIndex, lock: AbstractContextManager) -> None:
    message = gr.Textbox(label="Message", placeholder="Write a message, then press Enter", max_lines=1)
    messages = [each.message for each in index.review] or index.replies.messages or []
    short = [text for text in dict.fromkeys(messages) if text.isprintable() and 0 < len(text) <= LONGEST_EXAMPLE]
    columns, samples = [gr.Textbox(visible=False)], [[text] for text in short[:MAX_EXAMPLES]]
    examples = gr.Dataset(label="Try one of these", components=columns, samples=samples, visible=bool(samples))
    button = gr.Button("Suggest", variant="primary")
    suggested = gr.HTML(elem_id="suggested")
    label, has_context = "Earlier messages, one per line, the oldest first", index.encoder.uses_context
    earlier = gr.Textbox("", label=label, lines=2, visible=has_context)
    inputs, ask = [message, earlier], partial(suggest, index, lock)
    gr.on([button.click, message.submit], ask, inputs, suggested, api_visibility="private", js=CLOSE_ERRORS)
    chosen = examples.click(lambda sample: (sample[0], ""), examples, inputs, api_visibility="private")
    chosen.then(ask, inputs, suggested, api_visibility="private", js=CLOSE_ERRORS)


def _add_similarity(index: ReplyIndex) -> None:
    sentences = gr.Textbox(FIGURE_1, label="Sentences, one per line (Shift+Enter compares)", lines=4)
    button = gr.Button("Compare", variant="primary")
    compared = gr.HTML(compare(index, FIGURE_1), elem_id="compared")
    ask = partial(compare, index)
    gr.on([button.click, sentences.submit], ask, sentences, compared, api_visibility="private", js=CLOSE_ERRORS)


@contextmanager
def _errors_shown() -> Iterator[None]:
    """Shows an error message on the page, and logs no traceback."""
    try:
        yield
    except (ValueError, OSError) as error:  # of msgspec and of the encoder, too, for what only programs send
        raise gr.Error(escape(str(error), quote=False), duration=ERROR_SECONDS, print_exception=False) from error


@_errors_shown()
def suggest(index: ReplyIndex, lock: AbstractContextManager, message: str, earlier: str = "") -> str:
    """A list of the replies that the index suggests for a message, or a paragraph if there are none.

    `earlier` has earlier messages of the conversation, one per line, the oldest first.

    Raises:
        gr.Error: The message is empty, or a text is too long.
    """
    message, earlier = msgspec.convert((message, earlier), tuple[Typed, Typed])
    if not message.strip():
        raise ValueError("The message is empty.")
    context = [line for line in earlier.splitlines()[::-1] if line.strip()][:MAX_TURNS]
    with lock:
        suggestions, note = index.suggest(message, context=context), " estimated" * index.is_estimated
    if not suggestions:
        return "<p>No suggestions: the index has no other replies.</p>"
    cards, question = [], {"message": message, "context": context}
    for each in suggestions:
        chance = "unknown" if each.probability is None else f"{each.probability:.0%}"
        details = [f"It answered: “{each.message}”"] if each.message else []
        details += [f"given {each.count:,} times"] if each.count > 1 else []
        text, below = _text(each.text, each.spans), f"<p>{escape(' · '.join(details))}</p>"
        cards.append(_card(question, each, f'<p class="chance"><strong>{chance}</strong>{note}</p>{text}{below}'))
    return f"<p>Probability that a reply can be sent as it is or after a small edit:</p>{_list(cards, message)}"


@_errors_shown()
def show_held_out(folder: Path, specifics: Specifics) -> str:
    """A random held-out message of a review with suggestions that are not rated yet, and the summary of the review.

    Raises:
        gr.Error: A file of the review is damaged.
    """
    review = Review(folder)
    left = [each for each in review.messages if None in review.answers(each)]
    known = f'<p class="known" role="status">{escape(review.summary())}</p>'
    if not left:
        return f"<p>All messages are rated.</p>{known}"
    held_out = random.choice(left)
    question = {"message": held_out.message, "context": held_out.context, "from": "review"}
    answers = zip(held_out.suggestions, review.answers(held_out), strict=True)
    cards = [_card(question, each, _text(each.text, specifics.spans(each.text)), answer) for each, answer in answers]
    earlier = "".join(f"<p>Earlier: “{escape(turn)}”</p>" for turn in held_out.context[::-1])
    return (
        f"<p>{len(left)} of {len(review.messages)} messages are left to rate.</p>{earlier}"
        f'<p class="text">{escape(held_out.message)}</p>{_list(cards, held_out.message)}'
        '<p><button type="button" class="plain reveal" aria-expanded="false">Real reply</button> '
        f'<span role="status"><span class="real" hidden>{escape(held_out.reply)}</span></span></p>{known}'
    )


def _list(cards: Sequence[str], message: str) -> str:
    shown = f'<ol class="cards" aria-label="Suggestions for: {escape(message.strip())}">{"".join(cards)}</ol>'
    return shown + f"<p><mark>Marked</mark>: {CHANGE}.</p>" * ("<mark" in shown)


def _text(text: str, spans: Iterable[Span]) -> str:
    parts = [escape(text[start:end]) for start, end in pairwise([0, *chain.from_iterable(spans), len(text)])]
    parts[1::2] = [f'<mark title="{CHANGE}">{part}</mark>' for part in parts[1::2]]
    return f'<p class="text">{"".join(parts)}</p>'


def _card(question: dict[str, Any], shown: Suggestion | Shown, body: str, answer: Answer | None = None) -> str:
    """A reply with buttons that copy and rate it; page.js sends the JSON data with the button's value."""
    data = escape(json.dumps({**question, "reply": shown.text, "score": shown.score}))
    buttons = '<button type="button" class="plain copy" aria-live="polite">Copy</button>'
    for value in get_args(Answer):
        state = f'value="{value}" aria-pressed="{str(value == answer).lower()}"'
        buttons += f'<button type="button" class="plain rate" {state}>{value.capitalize()}</button>'
    buttons = f'<div class="buttons">{buttons}<span role="status"></span></div>'
    return f'<li data-rating="{data}">{body}{buttons}</li>'


@_errors_shown()
def compare(index: ReplyIndex, text: str) -> str:
    """The heat map of a text's sentences, one per line.

    Raises:
        gr.Error: There are fewer than 2 or more than 50 sentences, or the input is not text.
    """
    sentences = [line.strip() for line in msgspec.convert(text, Typed).splitlines() if line.strip()]
    if not 2 <= len(sentences) <= MAX_COMPARED:
        raise ValueError(f"Enter 2 to {MAX_COMPARED} sentences, one per line; you entered {len(sentences)}.")
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
