"""The page of a model: similarity of sentences, replies that an index suggests, the nearest sentences of a list.

python model_cards/space/app.py INDEX
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from html import escape
from itertools import islice
from pathlib import Path

import gradio as gr
import numpy as np

from modeling_convsim.encoding.text_files import read_texts
from modeling_convsim.suggestion import ReplyIndex

MOST_COMPARED = 50  # sentences: a table of more is not readable
MOST_LISTED = 100_000  # sentences of an uploaded list: each visitor's vectors are in memory
HOURS_KEPT = 1  # of them, after the upload
NEAREST = 10
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
    """A table of (n, n) cosines, each cell the darker the higher; 0 and below are pale."""
    columns = "".join(
        f'<th scope="col" class="cell" title="{escape(text)}">{number}</th>'
        for number, text in enumerate(sentences, start=1)
    )
    rows = []
    for number, (text, row) in enumerate(zip(sentences, cosines, strict=True), start=1):
        cells = "".join(f'<td class="cell" style="{_colours(cosine)}">{cosine:.3f}</td>' for cosine in row)
        rows.append(f'<tr><th scope="row">{number}. {escape(text)}</th>{cells}</tr>')
    caption = "Cosines of sentence embeddings: 1 means the same, about 0 nothing in common"
    return _scrolling(caption, f"<thead><tr><td></td>{columns}</tr></thead><tbody>{''.join(rows)}</tbody>")


def _colours(cosine: float) -> str:
    colour = np.rint(PALEST + min(max(float(cosine), 0.0), 1.0) * (DARKEST - PALEST))
    # Relative luminance (WCAG 2.2): above .179 black stands out more than white.
    shares = colour / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    text = "black" if linear @ [0.2126, 0.7152, 0.0722] > 0.179 else "white"
    return f"background: rgb({', '.join(f'{value:.0f}' for value in colour)}); color: {text}"


def list_found(caption: str, header: Sequence[str], found: Sequence[Sequence[str]]) -> str:
    """A table of what was found, best first; the columns `score`, `cosine` and `times` are numbers."""
    classes = [' class="number"' if name in ("score", "cosine", "times") else "" for name in header]
    names = "".join(f'<th scope="col"{kind}>{name}</th>' for kind, name in zip(classes, header, strict=True))
    rows = []
    for one in found:
        cells = (f"<td{kind}>{escape(text)}</td>" for kind, text in zip(classes, one, strict=True))
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return _scrolling(caption, f"<thead><tr>{names}</tr></thead><tbody>{''.join(rows)}</tbody>")


def _scrolling(caption: str, table: str) -> str:
    """A table that is as wide as it needs to be, in a part of the page that the arrow keys scroll."""
    said = escape(caption)
    return (
        f'<p>{said}</p><div class="scroll" tabindex="0" role="region" aria-label="{said}"><table>{table}</table></div>'
    )


def compare(index: ReplyIndex, text: str) -> str:
    """The heat map of the sentences of a text, one a line.

    Raises:
        gr.Error: There are fewer than 2, or more than 50.
    """
    sentences = [line.strip() for line in text.splitlines() if line.strip()]
    if not 2 <= len(sentences) <= MOST_COMPARED:
        raise _refused(f"There are {len(sentences)} sentences: write 2 to {MOST_COMPARED}, one a line.")
    vectors = index.encoder.encode(sentences)
    return heat_map(sentences, vectors @ vectors.T)


def suggest(index: ReplyIndex, text: str, count: float) -> str:
    """What the index suggests for a message, or that it has nothing to suggest.

    Raises:
        gr.Error: The message is empty.
    """
    if not text.strip():
        raise _refused("The message is empty: write one.")
    found = index.suggest(text, int(count))
    if not found:
        lowest = index.calibration.threshold if index.calibration else 0
        return f"<p>No suggestion: nothing here scores {lowest:.3f} or more.</p>"
    rows = [[f"{one.score:.3f}", one.text, f"{one.count:,}", one.answer or ""] for one in found]
    if index.side == "response":
        return list_found(f"Replies to: {text.strip()}", ["score", "reply", "times"], [row[:3] for row in rows])
    return list_found(f"Questions like: {text.strip()}", ["cosine", "question", "times", "answer"], rows)


def read_list(index: ReplyIndex, file: str | None) -> tuple[ReplyIndex | None, str]:
    """An index of the sentences of an uploaded file, and what is said of it; none of a file that is not right."""
    if file is None:
        return None, ""
    name = Path(file).name
    try:
        lines = list(islice(read_texts(file, "text"), MOST_LISTED + 1))
        if len(lines) > MOST_LISTED:
            raise ValueError(f"{name} holds more than {MOST_LISTED:,} sentences: upload it in parts")
        listed = ReplyIndex.build(index.encoder, lines, "input", duplicate_cosine=1)
    except ValueError as error:
        said = str(error).replace(file, name).partition(": choose one with --column")[0]
        return None, f"<p>{escape(said)}</p>"
    blank = sum(not line.strip() for line in lines)
    same = len(lines) - blank - len(listed)
    return listed, (
        f"<p>{len(listed):,} sentences of {escape(name)}. Left out: blank {blank:,}; the same as another, but for case "
        f"and punctuation, {same:,}.</p>"
    )


def find_nearest(listed: ReplyIndex | None, text: str) -> str:
    """The sentences of the uploaded list that are nearest to a sentence.

    Raises:
        gr.Error: The sentence is empty, or there is no list.
    """
    if listed is None:
        raise _refused("There is no list yet: upload a text file, one sentence a line.")
    if not text.strip():
        raise _refused("The sentence is empty: write one.")
    rows = [[f"{one.score:.3f}", one.text] for one in listed.suggest(text, NEAREST)]
    return list_found(f"Nearest to: {text.strip()}", ["cosine", "sentence"], rows)


def _refused(message: str) -> gr.Error:
    return gr.Error(message, duration=None, print_exception=False)  # it stays until it is closed


def build(index: ReplyIndex) -> gr.Blocks:
    """The page."""
    model = index.encoder.model
    name = Path(model.name_or_path)
    shown = name.resolve().parent.name if name.is_dir() and name.name == "model" else str(name)  # a run's folder
    replies = "Replies" if index.side == "response" else "Questions"
    with gr.Blocks(title=f"convsim: {shown}", analytics_enabled=False) as page:
        gr.Markdown(
            f"# convsim: {shown}\n\nIt learnt what sentences mean from how people answer them "
            f"({model.config.model_type}, {model.num_parameters():,} parameters)."
        )
        with gr.Tab("Similarity"):
            sentences = gr.Textbox(FIGURE_1, label="Sentences, one a line (Shift+Enter compares)", lines=4)
            button = gr.Button("Compare", variant="primary")
            compared = gr.HTML(compare(index, FIGURE_1), elem_id="compared")
            gr.on([button.click, sentences.submit], partial(compare, index), sentences, compared, api_name="compare")
        with gr.Tab(replies):
            message = gr.Textbox(label="Message", placeholder="Write a message, then Enter", max_lines=1)
            count = gr.Slider(1, 10, 3, step=1, label="At most")
            button = gr.Button("Suggest", variant="primary")
            gr.Markdown(f"{len(index):,} {replies.lower()}. {describe_threshold(index)}")
            suggested = gr.HTML(elem_id="suggested")
            given = [message, count]
            gr.on([button.click, message.submit], partial(suggest, index), given, suggested, api_name="suggest")
        with gr.Tab("Nearest"):
            listed = gr.State(time_to_live=HOURS_KEPT * 3600)
            file = gr.File(label="List: text, UTF-8, one sentence a line (or Parquet, column text)", height=140)
            status = gr.HTML(elem_id="status")
            sentence = gr.Textbox(label="Sentence", placeholder="Write a sentence, then Enter", max_lines=1)
            button = gr.Button("Find", variant="primary")
            nearest = gr.HTML(elem_id="nearest")
            file.change(partial(read_list, index), file, [listed, status], api_name="upload")
            gr.on([button.click, sentence.submit], find_nearest, [listed, sentence], nearest, api_name="nearest")
    return page


def describe_threshold(index: ReplyIndex) -> str:
    """What calibration found."""
    said = index.calibration
    if said is None:
        return "There is no threshold: something is always suggested."
    among = "the whole index" if said.candidates is None else f"{said.candidates} candidates"
    return (
        f"Nothing that scores less than {said.threshold:.3f} is suggested: of {said.pairs:,} held-out pairs "
        f"{said.coverage:.0%} then got a suggestion, right in {said.precision:.0%} of these (among {among})."
    )


def main(arguments: list[str] | None = None) -> int:
    """Opens the page; returns 2 for an index that does not open."""
    parser = argparse.ArgumentParser(
        description="The page of a model and of an index of replies that it made.",
        epilog="GRADIO_SERVER_NAME and GRADIO_SERVER_PORT say where it listens (default: this machine alone, 7860 or "
        "the next port that is free).",
    )
    parser.add_argument(
        "index",
        nargs="?",
        type=Path,
        default=Path(__file__).parent / "replies",
        help="folder that `python -m modeling_convsim.suggestion build` wrote; it names its model (default: replies "
        "beside this file)",
    )
    parser.add_argument("--open", action="store_true", help="open a browser at it")
    options = parser.parse_args(arguments)
    try:
        index = ReplyIndex.load(options.index)
    except (ValueError, OSError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    theme = gr.themes.Default(primary_hue="blue", neutral_hue="slate")
    build(index).launch(inbrowser=options.open, theme=theme, css=CSS, footer_links=["api"], max_file_size="20mb")
    return 0


if __name__ == "__main__":
    sys.exit(main())
