"""Read captions of images and write them as Parquet, one row per image: group (the image), captions.

SOURCE is one of
  parallel files  a folder with NAME.1.en, NAME.2.en ... (plain or compressed): line i of each describes image i; NAME
                  is the split (train, val, test_2016)
  a table         a file, a folder or a dataset on the Hub (for example nlphuji/flickr30k@refs/convert/parquet) with a
                  column captions, caption or sentences: a list of texts, one row per image; or one text per row, in any
                  order, with a column group, image_id, img_id, imgid, filename or file_name that identifies its image
  pairs           a table with the columns caption1 and caption2 (sentence-transformers/coco-captions): if caption1 of a
                  row is caption2 of the previous row, both rows describe the same image
Empty captions and repeated captions of an image are left out and counted. The captions of a split must fit in memory.

Examples: convsim data captions multi30k -o data/multi30k
          convsim data captions sentence-transformers/coco-captions -o data/coco
"""

import re
from collections.abc import Iterator
from itertools import chain, zip_longest
from pathlib import Path

import pyarrow as pa

from data_scripts.loading import find_split
from data_scripts.public import Kind, Part
from data_scripts.rows import SOURCE_HELP, ColumnNames
from data_scripts.schemas import CAPTION_SCHEMA
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.records import Rows
from modeling_convsim.files.texts import text_lines

COLUMN_NAMES: ColumnNames = {
    "group": ("group", "image_id", "img_id", "imgid", "filename", "file_name"),
    "captions": ("captions", "caption", "sentences", "caption1"),
    "partner": ("caption2",),
}
EMPTY, REPEATED, SINGLE = "empty, left out", "repeated for their image, left out", "images with one caption"
_PARALLEL = re.compile(r"(.+)\.(\d+)\.en(?:\.(?:gz|xz|bz2|zst))?")


def _read_parallel(source: str) -> dict[str, Rows]:
    parallel: dict[str, list[Path]] = {}
    for file in sorted(Path(source).glob("*")) if Path(source).is_dir() else ():
        if match := _PARALLEL.fullmatch(file.name):
            parallel.setdefault(match[1], []).append(file)
    parts: dict[str, Rows] = {}
    for name, files in parallel.items():
        split = find_split(name) or "train"
        parts[split] = chain(parts.get(split, ()), _parallel_rows(name, files))
    return parts


def _parallel_rows(name: str, files: list[Path]) -> Rows:
    for number, lines in enumerate(zip_longest(*map(text_lines, files)), start=1):
        if None in lines:
            short = files[lines.index(None)]
            raise InputError(f"{short}: {number - 1} lines, fewer than the other {name}.*; expected one line per image")
        group = f"{name}:{number}"
        yield group, {"group": group, "captions": [caption for _, caption in lines], "partner": None}


def _images(part: Part) -> Iterator[tuple[str, list[str]]]:
    """The captions by image, in the order of the images' first captions."""
    images: dict[str, dict[str, None]] = {}
    part.counts.update({"captions": 0, SINGLE: 0, REPEATED: 0, EMPTY: 0})
    for image, caption in _captions(part.rows):
        if not (text := caption.strip()):
            part.counts[EMPTY] += 1
        elif text in (captions := images.setdefault(image, {})):
            part.counts[REPEATED] += 1
        else:
            captions[text] = None
            part.counts["captions"] += 1
    part.counts[SINGLE] = sum(len(captions) == 1 for captions in images.values())
    for image, captions in images.items():
        yield image, list(captions)


def _captions(rows: Rows) -> Iterator[tuple[str, str]]:
    """The captions, each with its image before it.

    Pairs of captions have no name of their image, of which each has consecutive rows. They are a cycle: its first and
    second caption, the second and third, …, the last and first. Images with the same caption stay separate, unlike in
    connected components: "A man surfs a wave" would join hundreds.
    """
    last, chained, seen = "", "", set[str]()
    for location, row in rows:
        image, captions = row["group"], row["captions"]
        if row["partner"] is not None and image is None:
            second = row["partner"]
            if not isinstance(captions, str) or not isinstance(second, str):
                raise InputError(f"{location}: caption1 and caption2 must be texts; found {captions!r} and {second!r}")
            if captions != last:
                chained, seen = location, set()
            last = second
            for caption in (captions, second):
                if caption not in seen:
                    seen.add(caption)
                    yield chained, caption
            continue
        if isinstance(captions, str):
            if image is None:
                expected = ", ".join(COLUMN_NAMES["group"])
                raise InputError(
                    f"{location}: one caption, but no column that identifies its image; expected {expected}"
                )
            captions = [captions]
        if not isinstance(captions, list) or not all(isinstance(caption, str) for caption in captions):
            raise InputError(f"{location}: captions are {captions!r}; expected a text or a list of texts")
        for caption in captions:
            yield location if image is None else str(image), caption


KIND = Kind(
    schema=CAPTION_SCHEMA,
    columns=COLUMN_NAMES,
    convert=_images,
    content="caption",
    rows="images",
    optional=("group", "partner"),
    source_help=f"a folder of parallel files; or {SOURCE_HELP}",
    read_originals=_read_parallel,
)
add_arguments, run = KIND.add_arguments, KIND.run
load_captions = KIND.load


def one_caption_a_row(images: pa.Table) -> pa.Table:
    """The captions of images (columns group and captions), one a row: columns group and caption."""
    import pyarrow.compute as pc

    parents = pc.list_parent_indices(images["captions"])
    columns = {"group": images["group"].take(parents), "caption": pc.list_flatten(images["captions"])}
    return pa.table(columns)
