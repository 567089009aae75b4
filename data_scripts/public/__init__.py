"""Public datasets: a module for each kind, which is the command of its name and has the function that loads it.

The module declares its `KIND`: the columns of the Parquet files, those of the tables that are read, and the conversion.
"""

from __future__ import annotations

import argparse
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from modeling_convsim.files.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa
    from datasets import DatasetDict

    from data_scripts.dataset_folders import Report
    from data_scripts.rows import ColumnNames
    from modeling_convsim.files.records import Rows
    from modeling_convsim.files.texts import BrokenLines

logger = logging.getLogger(__name__)


@dataclass
class Part:
    """A part of a source that is counted on its own: a split, or one of several datasets of a split.

    Attributes:
        source: where it comes from.
        name: the split, and what follows it after a space.
        rows: (location, role -> value).
        counts: what the report says beside the number of rows.
    """

    source: str
    name: str
    rows: Rows
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Kind:
    """A kind of public dataset: what is read, and what is written.

    Attributes:
        schema: the columns of the Parquet files.
        columns: role -> the columns of a table that have it, as for `read_rows`.
        convert: yields the rows of a part in the order of `schema`, and counts what it leaves out.
        content: the name of a row in the error message if there are none, such as "scored pair".
        rows: the name of the number of rows in the report.
        optional: the roles that a table may lack.
        source_help: the command's help for SOURCE; by default, it describes a table.
        several: whether the command accepts several sources.
        label_names: whether labels are read by their names.
        read_originals: the parts of a source in the format of its authors: name -> rows; none if it is a table.
        originals: an example of such a file, for the error message.
    """

    schema: pa.Schema
    columns: ColumnNames
    convert: Callable[[Part], Iterable[tuple[Any, ...]]]
    content: str
    rows: str = "rows"
    optional: tuple[str, ...] = ()
    source_help: str = ""
    several: bool = False
    label_names: bool = False
    read_originals: Callable[[str], dict[str, Rows]] = lambda source: {}
    originals: str = ""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options of the command."""
        from data_scripts.rows import SOURCE_HELP
        from modeling_convsim.files.command_line import add_dataset_arguments

        nargs = "+" if self.several else None
        parser.add_argument("source", nargs=nargs, metavar="SOURCE", help=self.source_help or SOURCE_HELP)
        add_dataset_arguments(parser, "folder to which the splits are written")

    def run(self, args: argparse.Namespace) -> None:
        """Write the splits as Parquet with a report and a card, and print the report; `args` as of `add_arguments`.

        Raises:
            InputError: a source cannot be read, the output cannot be written, or --license is not a license id.
        """
        from data_scripts.dataset_folders import add_broken_lines, format_table, write_dataset_card, write_report
        from modeling_convsim.files.folders import new_folder
        from modeling_convsim.files.hub import check_license, is_path
        from modeling_convsim.files.texts import BrokenLines

        if args.license is not None:
            check_license("--license", args.license)
        broken = BrokenLines()
        sources = args.source if isinstance(args.source, list) else [args.source]
        names = [Path(source).resolve().name if is_path(source) else source for source in sources]
        with new_folder(args.output, args.overwrite) as (folder, _):
            report = self.build(sources, folder, broken)
            if broken.counts:
                add_broken_lines(report, broken)
            write_report(report, folder)
            write_dataset_card(folder, [args.license] if args.license else [], ", ".join(names))
        print(format_table(report))
        print(f"saved in {args.output}")

    def load(self, source: str) -> DatasetDict:
        """Load the splits of a folder that the command wrote; or, in memory, what the command makes of another source.

        Raises:
            InputError: there is nothing to read, a column is missing, or a value is invalid.
        """
        import pyarrow.parquet as pq
        from datasets import Dataset, DatasetDict

        from data_scripts.dataset_folders import split_file
        from data_scripts.loading import load_columns
        from modeling_convsim.files.folders import has_record
        from modeling_convsim.files.hub import is_path
        from modeling_convsim.files.texts import BrokenLines

        if is_path(source) and has_record(Path(source), "dataset"):
            return load_columns(source, tuple(self.schema.names))
        broken = BrokenLines()
        with TemporaryDirectory(prefix="convsim-") as name:
            folder = Path(name)
            report = self.build([source], folder, broken)
            splits = dict.fromkeys(part.partition(" ")[0] for part in report)
            loaded = DatasetDict({split: Dataset(pq.read_table(split_file(folder, split))) for split in splits})
        if broken.counts:
            logger.warning("%s: %d lines left out: %s", source, broken.counts.total(), "; ".join(broken.examples))
        return loaded

    def build(self, sources: Iterable[str], folder: Path, broken: BrokenLines) -> Report:
        """Write a Parquet file for each split.

        Args:
            sources: what is read.
            folder: the folder of the files.
            broken: counts the lines that cannot be read.

        Returns:
            Name of a part -> its source and its counts.
        """
        from data_scripts.dataset_folders import split_file
        from data_scripts.schemas import features
        from modeling_convsim.files.parquet import BatchWriter, parquet_writer

        report: Report = {}
        writers: dict[str, BatchWriter] = {}
        schema = features(self.schema).arrow_schema  # which has the names of labels
        with ExitStack() as stack:
            for part in (part for source in sources for part in self._read(source, broken)):
                if part.name in report:
                    raise InputError(f"{part.source}: {part.name} is already in an earlier source")
                split = part.name.partition(" ")[0]
                if split not in writers:
                    writers[split] = stack.enter_context(parquet_writer(split_file(folder, split), schema))
                before = writers[split].added
                for row in self.convert(part):
                    writers[split].add(row, _characters(row))
                size = writers[split].added - before
                if not size:
                    counts = ", ".join(f"{count:,} {name}" for name, count in part.counts.items() if count)
                    raise InputError(
                        f"{part.source}, split {part.name}: contains no {self.content}{f' ({counts})' * bool(counts)}"
                    )
                report[part.name] = {"from": part.source, self.rows: size, **part.counts}
        return report

    def _read(self, source: str, broken: BrokenLines) -> list[Part]:
        """The parts of a source; the splits whose names begin with train are joined."""
        from data_scripts.loading import rename_splits
        from data_scripts.rows import read_rows
        from data_scripts.schemas import SPLITS

        try:
            splits = self.read_originals(source)
            if not splits:
                rows = read_rows(source, self.columns, broken, optional=self.optional, label_names=self.label_names)
                splits = rename_splits(rows)
        except InputError as error:
            if self.originals and Path(source).is_dir():
                raise InputError(f"{error}; no original files were found either, such as {self.originals}") from error
            raise
        joined: dict[str, list[Rows]] = {}
        for name in sorted(splits, key=lambda name: [not name.startswith(split) for split in SPLITS]):
            is_train = name.startswith("train") and " " not in name
            joined.setdefault("train" if is_train else name, []).append(splits[name])
        return [Part(source, name, chain.from_iterable(rows)) for name, rows in joined.items()]


def _characters(row: tuple[Any, ...]) -> int:
    texts = (text for value in row for text in (value if isinstance(value, list) else [value]))
    return sum(len(text) for text in texts if isinstance(text, str))
