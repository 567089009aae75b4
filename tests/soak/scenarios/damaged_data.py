"""Files of datasets, caches and reply indexes that are damaged: each is named when it is read."""

import random
import shutil
from collections.abc import Callable, Iterator, Set
from pathlib import Path
from typing import Any

from tests.soak.damage import DAMAGES, damage
from tests.soak.registry import Fault, scenario


@scenario("truncated, flipped, emptied, swapped files", "dataset of pairs, but for README.md", faults=40, smoke=8)
def damaged_pairs(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Damage a file of a dataset that the sample command wrote, and load the dataset for training."""
    from data_scripts.read.hub_datasets import load_pairs

    first, second = (_write_pairs(folder / name, shift) for shift, name in enumerate(("first", "second")))
    expected = {name: split.to_list() for name, split in load_pairs(str(first)).items()}

    def load(copy: Path) -> bool:
        return {name: split.to_list() for name, split in load_pairs(str(copy)).items()} == expected

    yield from _damage_all(folder, first, second, draws, count, load, left_out={"README.md", ".written-by-convsim"})


@scenario("truncated, flipped, emptied, swapped files", "reply index", faults=40, smoke=8)
def damaged_index(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Damage a file of a reply index, and load it."""
    from modeling_convsim.encoding import Encoder
    from modeling_convsim.suggestion import ReplyIndex
    from tests.soak.tiny_files import write_model

    encoder = Encoder.from_pretrained(write_model(folder / "model"), "cpu")
    texts = [f"the {thing} is {color}" for thing in ("dog", "cat", "car") for color in ("old", "new", "big", "small")]
    first, second = folder / "first", folder / "second"
    ReplyIndex.build(encoder, texts, duplicate_cosine=1).save(first)
    ReplyIndex.build(encoder, texts[::-1], duplicate_cosine=1).save(second)
    expected = ReplyIndex.load(first, encoder).suggest("how old is the dog", 12)

    def load(copy: Path) -> bool:
        return ReplyIndex.load(copy, encoder).suggest("how old is the dog", 12) == expected

    yield from _damage_all(folder, first, second, draws, count, load)


@scenario(
    "truncated, flipped, emptied, swapped files",
    "published folder, but for its card and .eval_results",
    faults=60,
    smoke=0,
)
def damaged_model(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Damage a file of a published folder, and open it with `Encoder` and as `trainer.publish` does."""
    from modeling_convsim.encoding import Encoder
    from tests.soak.published_folder import main
    from tests.soak.tiny_files import write_model

    first, second = folder / "first", folder / "second"
    for kind, copy in (("dan_best", first), ("dan_input_network", second)):
        assert main([str(write_model(folder / kind, kind)), str(copy)]) == 0
    expected = Encoder.from_pretrained(first, "cpu").encode(["how old is the dog"]).tolist()

    def load(copy: Path) -> bool:
        return Encoder.from_pretrained(copy, "cpu").encode(["how old is the dog"]).tolist() == expected

    yield from _damage_all(folder, first, second, draws, count, load, left_out={"README.md", ".eval_results"})


@scenario("truncated, flipped, emptied, swapped files", "comments kept for later runs", faults=12, smoke=0)
def damaged_comments(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Damage a file of comments; the next extraction must convert its dump again, and give the same pairs."""
    from tests.soak.command_server import CommandServer
    from tests.soak.pipeline import LIBRARIES, contents, differences, extraction, write_dumps

    command = extraction(write_dumps(folder / "dumps"), 1)
    complete = folder / "complete"
    complete.mkdir()
    with CommandServer(LIBRARIES) as server:
        assert command.run(server, complete).code == 0
        expected = contents(complete)
        for number in range(count):
            output = folder / "output"
            shutil.copytree(complete, output)
            files = sorted((output / "comments").glob("*.parquet"))
            kind, file, other = DAMAGES[number % len(DAMAGES)], *draws.sample(files, 2)
            damage(file, kind, other, draws)
            ended = command.run(server, output)
            problem = "" if ended.code == 0 else f"exit code {ended.code}, {ended.messages}"
            if ended.code == 2 and file.name in "".join(ended.messages) and len(ended.messages) == 1:
                problem = ""
            else:
                problem += differences(contents(output), expected)
            yield Fault(f"{kind} {file.name}", problem)
            shutil.rmtree(output)


def _write_pairs(folder: Path, shift: int) -> Path:
    """Write a dataset as the commands do, with other texts for another shift."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from data_scripts.schemas import PAIR_SCHEMA, SPLITS
    from data_scripts.write.folders import new_folder

    with new_folder(folder, overwrite=False) as (new, _):
        for split in SPLITS:
            texts = [f"{split} text {number + shift}" for number in range(50)]
            columns = [texts, [f"reply to {text}" for text in texts], texts, ["synthetic"] * len(texts)]
            pq.write_table(pa.table(columns, schema=PAIR_SCHEMA), new / f"{split}-00000-of-00001.parquet")
        (new / "report.json").write_text(f'{{"pairs": {{"written": {150 + shift}}}}}\n')
        (new / "README.md").write_text("A card.\n")
    return folder


def _damage_all(
    folder: Path,
    first: Path,
    second: Path,
    draws: random.Random,
    count: int,
    load: Callable[[Path], Any],
    left_out: Set[str] = frozenset(),
) -> Iterator[Fault]:
    """Damage each file of copies of the first folder in each way; swapped files are those of the second one."""
    names = sorted(str(file.relative_to(first)) for file in first.rglob("*") if file.is_file())
    faults = [(name, kind) for kind in DAMAGES for name in names if not left_out & {*Path(name).parts}]
    draws.shuffle(faults)
    for number in range(count):
        name, kind = faults[number % len(faults)]
        copy = folder / f"copy_{number}"  # another name each time, because `datasets` keeps what it has read
        shutil.copytree(first, copy)
        if not damage(copy / name, kind, second / name, draws):
            continue
        yield Fault(f"{kind} {name}", _load(copy, name, load))
        shutil.rmtree(copy)


def _load(copy: Path, name: str, load: Callable[[Path], Any]) -> str:
    from data_scripts.errors import InputError

    try:
        return "" if load(copy) and Path(name).name == "SHA256SUMS" else "not detected"
    except (InputError, ValueError) as error:
        message = str(error)
        if name not in message:
            return f"not named: {message}"
        return "more than one line" if "\n" in message else ""
