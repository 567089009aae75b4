"""The datasets of the tests, in memory and in a folder."""

from pathlib import Path

from datasets import Dataset

from tests.trainer.evaluation.invented_data import COLORS, THINGS, evaluation_data, write_data_folder

__all__ = ["evaluation_data", "write_data"]


def write_data(folder: Path) -> None:
    """Write the evaluation datasets, SNLI's training pairs, and books/, sentences in order."""
    folder.mkdir()
    write_data_folder(folder)
    # The training pairs of `write_data_folder` share their premise with the evaluation pairs, so all would be removed.
    inference = [{"premise": f"A lamp, the {n}th", "hypothesis": f"Lamp {n}", "label": n % 3} for n in range(40)]
    Dataset.from_list(inference).to_parquet(folder / "snli" / "train-00000-of-00001.parquet")
    things = [(color, thing) for color in COLORS for thing in THINGS]
    sentences = [
        {"book": book, "position": position, "sentence": f"the {color} {thing} is a {color} {thing} : {word}"}
        for book, word in (("one", "old"), ("two", "new"))
        for position, (color, thing) in enumerate(things)
    ]
    (folder / "books").mkdir()
    Dataset.from_list(sentences).to_parquet(folder / "books" / "train-00000-of-00001.parquet")
