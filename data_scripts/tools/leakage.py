"""Take training texts that occur in evaluation sets out of a folder that the other commands wrote, and report them.

A text leaks if it is the whole of an evaluation sentence, case, punctuation, white space and Unicode's forms apart. A
row of FOLDER's train split goes if one of its texts leaks, an image with all its captions; the other splits are copied
as they are, a card is not, for its counts are those of before. Of the sets in --against every split but train counts.
Memory is that of the evaluation sentences and of 100,000 rows. OUTPUT/leakage.json says what was found.

--against NAME=SOURCE: where NAME is stsb, sts, nli, snli or cqa, SOURCE is what that command reads; under another name
it is a file, a folder or a Hub name with columns of text (sentence1, question, caption, text and the like).

Example: python -m data_scripts leakage data/multi30k --against stsb=mteb/stsbenchmark-sts --against snli=snli_1.0 \\
             -o data/multi30k_clean
"""

import argparse
import json
import re
import shutil
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from datasets import Dataset, DatasetDict
from tqdm import tqdm

from data_scripts.errors import InputError
from data_scripts.read.files import new_folder
from data_scripts.write.corpora import existing_folder, load_columns, write_report
from data_scripts.write.hub import read_licenses

BATCH = 2_000  # rows looked up at once
ROW_GROUP = 50 * BATCH
EXAMPLES = 5  # leaked texts shown of each evaluation set
# Columns of text, in what our commands write and in public sets; each holds a text or a list of texts a row.
TEXT_COLUMNS = (
    *("input", "response", "premise", "hypothesis", "sentence1", "sentence2", "query", "candidate", "captions"),
    *("sentence", "caption", "sentences", "text", "text1", "text2", "question", "question1", "question2", "related"),
    *("anchor", "positive", "negative", "answer", "caption1", "caption2"),
)
_NOT_WORDS = re.compile(r"[\W_]+")


def _letter_numbers() -> np.ndarray:
    numbers = np.zeros(256, np.uint64)
    drawn = np.random.default_rng(0).integers(2**64, size=256, dtype=np.uint64)
    for letter in range(128):
        if chr(letter).isalnum():
            numbers[letter] = drawn[ord(chr(letter).lower())]
    return numbers


_LETTER_NUMBERS = _letter_numbers()  # of a byte: drawn at random for letters and digits, the same for a and A, else 0


def normalise(text: str) -> str:
    """What two texts share that differ only in form: NFKC, case folded, punctuation out, white space folded.

    Punctuation separates, so that "it's" equals the tokenised "it 's".
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _NOT_WORDS.sub(" ", text.casefold()).strip()


class EvaluationTexts:
    """The sentences of evaluation sets, normalised, to look texts up in; memory is that of the sentences.

    Args:
        evaluation: name of an evaluation set -> its sentences. One that is empty when normalised matches nothing.
    """

    def __init__(self, evaluation: Mapping[str, Iterable[str]]) -> None:
        self.sets_of: defaultdict[str, set[str]] = defaultdict(set)
        for name, sentences in evaluation.items():
            for sentence in sentences:
                self.sets_of[normalise(sentence)].add(name)
        self.sets_of.pop("", None)
        ascii_forms = pa.array([form for form in self.sets_of if form.isascii()], pa.large_string())
        self.letter_sums = np.unique(np.append(_letter_sums(ascii_forms), np.uint64(0)))

    def find(self, texts: pa.Array) -> Iterator[tuple[int, str, set[str]]]:
        """(index, text, names of the evaluation sets) of each text that is in one; `texts` are strings or null."""
        texts = texts.cast(pa.large_string())
        # Normalising takes long. Texts of ASCII that are equal when normalised have the same letters: few others do.
        sums = _letter_sums(texts)
        places = np.searchsorted(self.letter_sums, sums)
        suspects = self.letter_sums[np.minimum(places, len(self.letter_sums) - 1)] == sums
        suspects |= ~pc.fill_null(pc.string_is_ascii(texts), True).to_numpy(zero_copy_only=False)
        for index in np.flatnonzero(suspects).tolist():
            text = texts[index].as_py()
            names = self.sets_of.get(normalise(text)) if text else None
            if names:
                yield index, text, names

    def find_rows(self, table: pa.Table, columns: list[str]) -> Iterator[tuple[int, str, set[str]]]:
        """(row, text, names of the evaluation sets) of each leaked text of a table's columns, texts or lists of them.

        A row comes once for each of its texts that leaks.
        """
        for name in columns:
            column = table[name].combine_chunks()
            rows = None
            if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
                rows, column = pc.list_parent_indices(column), pc.list_flatten(column)
            for index, text, names in self.find(column):
                yield rows[index].as_py() if rows is not None else index, text, names


def _letter_sums(texts: pa.LargeStringArray) -> np.ndarray:
    """For each text the sum of its ASCII letters' and digits' numbers, modulo 2^64: (texts,) uint64."""
    if not len(texts):
        return np.zeros(0, np.uint64)
    _, offset_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64, len(texts) + 1, 8 * texts.offset)
    data = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
    sums = np.zeros(len(data) + 1, np.uint64)
    np.cumsum(_LETTER_NUMBERS[data], out=sums[1:])
    ends = offsets - offsets[0]
    return sums[ends[1:]] - sums[ends[:-1]]


def remove_leaked(
    dataset: Dataset, columns: list[str], evaluation: Mapping[str, Iterable[str]]
) -> tuple[Dataset, dict[str, int]]:
    """Drop the rows in which a column, normalised, is the whole of an evaluation sentence.

    Args:
        dataset: the rows to train on.
        columns: the columns of text to look at.
        evaluation: as for `EvaluationTexts`.

    Returns:
        The rows that are left, in their order, and the number of rows hit by each evaluation set (a row may be hit by
        more than one) with the number of rows dropped as "removed".
    """
    texts = EvaluationTexts(evaluation)
    counts = dict.fromkeys([*evaluation, "removed"], 0)
    kept = np.ones(len(dataset), bool)
    tables = dataset.select_columns(columns).with_format("arrow")
    with tqdm(total=len(dataset), delay=1, unit="row", unit_scale=True, desc="leakage") as bar:
        for start in range(0, len(dataset), BATCH):
            table = tables[start : start + BATCH]
            for row, names in _sets_by_row(texts.find_rows(table, columns)).items():
                kept[start + row] = False
                counts["removed"] += 1
                for name in names:
                    counts[name] += 1
            bar.update(len(table))
    return dataset.select(np.flatnonzero(kept)), counts


def _sets_by_row(found: Iterable[tuple[int, str, set[str]]]) -> dict[int, set[str]]:
    rows: dict[int, set[str]] = {}
    for row, _, names in found:
        rows[row] = rows.get(row, set()) | names
    return rows


def _load_sts(source: str) -> DatasetDict:
    from data_scripts.sources.sts import load_sts_sets

    sets = load_sts_sets(source)
    return DatasetDict({f"{year} {name}": pairs for year, names in sets.items() for name, pairs in names.items()})


def _load_by_name(name: str, source: str) -> DatasetDict:
    # Imported late: these modules read what this one need not.
    from data_scripts.sources.cqa import load_cqa
    from data_scripts.sources.nli import load_nli
    from data_scripts.sources.stsb import load_stsb

    loaders: dict[str, Callable[[str], DatasetDict]] = {
        "stsb": load_stsb,
        "sts": _load_sts,
        "nli": load_nli,
        "snli": load_nli,
        "cqa": load_cqa,
    }
    return loaders[name](source) if name in loaders else load_columns(source, ())


def text_columns(columns: Iterable[str], place: str) -> list[str]:
    """Those of a table's `columns` that hold texts, or lists of them, by their names.

    Raises:
        InputError: none does; the message begins with `place`.
    """
    found = list(columns)
    texts = [name for name in TEXT_COLUMNS if name in found]
    if not texts:
        raise InputError(
            f"{place}: no column of text; expected some of {', '.join(TEXT_COLUMNS)}; found {', '.join(found)}"
        )
    return texts


def load_evaluation_texts(against: Iterable[str]) -> dict[str, list[str]]:
    """The sentences of each evaluation split of the sets named: "NAME split" -> sentences.

    Args:
        against: NAME=SOURCE, as the command's help describes them.

    Raises:
        InputError: not of that form, a source that cannot be read, or one without an evaluation split.
    """
    sentences: dict[str, list[str]] = {}
    for each in against:
        name, equals, source = each.partition("=")
        if not (name and equals and source):
            raise InputError(f"--against {each}: expected NAME=SOURCE, such as stsb=mteb/stsbenchmark-sts")
        splits = _load_by_name(name, source)
        judged = {split: rows for split, rows in splits.items() if not split.startswith("train")}
        if not judged:
            raise InputError(f"--against {each}: has no split to judge on; found {', '.join(splits)}")
        for split, rows in judged.items():
            key = f"{name} {'dev' if split == 'validation' else split}"
            if key in sentences:
                raise InputError(f"--against {each}: there is a set of the name {name} already; name it otherwise")
            columns = text_columns(rows.column_names, f"{source}, split {split}")
            sentences[key] = [
                text
                for column in columns
                for value in rows[column]
                for text in (value if isinstance(value, list) else [value])
                if isinstance(text, str)
            ]
    return sentences


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="what another command wrote: train-*.parquet")
    parser.add_argument(
        "--against",
        action="append",
        required=True,
        metavar="NAME=SOURCE",
        help="an evaluation set, as described above; may be given several times",
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("-o", "--output", type=Path, metavar="OUTPUT", help="where the data without them are written")
    where.add_argument("--report-only", action="store_true", help="print what leaks, and write nothing")
    parser.add_argument("--overwrite", action="store_true", help="replace a folder that is there already")


def run(args: argparse.Namespace) -> None:
    """Look every training text up, print what leaks, and write the rest with leakage.json and the licence."""
    from data_scripts.write.card import write_corpus_card  # its libraries take a while

    files = sorted(existing_folder(args.folder).glob("train-*.parquet"))
    if not files:
        raise InputError(f"{args.folder}: no train-*.parquet; expected a folder that one of our commands wrote")
    if args.output and args.output.resolve() == args.folder.resolve():
        raise InputError(f"--output {args.output}: the folder that is read; name another one")
    evaluation = load_evaluation_texts(args.against)
    leaks = _Leaks(EvaluationTexts(evaluation))
    if args.report_only:
        _strip(files, leaks, None)
    else:
        with new_folder(args.output, args.overwrite) as (folder, _):
            _strip(files, leaks, folder)
            if leaks.read == leaks.removed:
                raise InputError(f"{args.folder}: every row leaks; is it one of the evaluation sets?")
            for file in sorted(set(args.folder.glob("*.parquet")) - set(files)):
                shutil.copyfile(file, folder / file.name)
            _write_reports(leaks.report(evaluation), args.folder, folder)
            licenses = read_licenses(args.folder / "README.md")
            write_corpus_card(folder, licenses, f"{args.folder.resolve().name}, without evaluation sentences")
    print(_table(leaks.report(evaluation)))
    if args.output:
        print(f"saved in {args.output}")


class _Leaks:
    """Counts what leaks as tables pass, and remembers the first leaked texts of each evaluation set."""

    def __init__(self, texts: EvaluationTexts) -> None:
        self.texts = texts
        self.read = self.removed = 0
        self.columns: list[str] = []
        self.rows: Counter[str] = Counter()
        self.examples: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)

    def kept(self, table: pa.Table) -> pa.Table:
        """The rows of the next table without a text that leaks."""
        keep = np.ones(len(table), bool)
        for start in range(0, len(table), BATCH):
            found = list(self.texts.find_rows(table.slice(start, BATCH), self.columns))
            for row, names in _sets_by_row(found).items():
                keep[start + row] = False
                self.rows.update(names)
            for row, text, names in found:
                for name in names:
                    if len(self.examples[name]) < EXAMPLES:
                        self.examples[name].append({"row": self.read + start + row + 1, "text": text})
        self.read += len(table)
        self.removed += len(table) - int(keep.sum())
        return table.filter(pa.array(keep))

    def report(self, evaluation: dict[str, list[str]]) -> dict[str, Any]:
        """What is written to leakage.json."""
        return {
            "rows": {"read": self.read, "removed": self.removed, "kept": self.read - self.removed},
            "columns": self.columns,
            "sets": {
                name: {"sentences": len(sentences), "rows": self.rows[name], "examples": self.examples[name]}
                for name, sentences in evaluation.items()
            },
        }


def _strip(files: list[Path], leaks: _Leaks, folder: Path | None) -> None:
    """Look at every row, and write those that do not leak to files of the same names in `folder`, if there is one."""
    total = sum(pq.read_metadata(file).num_rows for file in files)
    with tqdm(total=total, delay=1, unit="row", unit_scale=True, desc="leakage") as bar:
        for path in files:
            file = pq.ParquetFile(path)
            leaks.columns = text_columns(file.schema_arrow.names, str(path))
            writer = None
            for batch in file.iter_batches(batch_size=ROW_GROUP):
                kept = leaks.kept(pa.Table.from_batches([batch]))
                if folder and len(kept):  # `datasets` reads no empty files
                    writer = writer or pq.ParquetWriter(folder / path.name, file.schema_arrow, compression="zstd")
                    writer.write_table(kept)
                bar.update(len(batch))
            if writer:
                writer.close()


def _write_reports(report: dict[str, Any], source: Path, folder: Path) -> None:
    """leakage.json, and the report.json of the folder that was read with a section on what is no more there."""
    (folder / "leakage.json").write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    path = source / "report.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    write_report(before | {"leakage": report["rows"]}, folder)


def _table(report: dict[str, Any]) -> str:
    lines = [f"{'evaluation set':<30} {'sentences':>10} {'rows of train that hold one':>28}"]
    for name, leaked in report["sets"].items():
        lines.append(f"{name:<30} {leaked['sentences']:>10,} {leaked['rows']:>28,}")
        lines += [f"    row {example['row']}: {example['text']}" for example in leaked["examples"]]
    rows = report["rows"]
    lines.append(f"{rows['read']:,} rows, {rows['removed']:,} with an evaluation sentence, {rows['kept']:,} without")
    return "\n".join(lines)
