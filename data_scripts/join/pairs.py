"""From texts that answer each other to pairs: the join, the threads of bare pairs, and loading what was written."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import datasets
import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from data_scripts.clean.filters import KEPT, Filters, first_rule, rules
from data_scripts.errors import InputError
from data_scripts.write.corpora import existing_folder, is_path

PAIR_FEATURES = datasets.Features(
    {name: datasets.Value("string") for name in ("input", "response", "thread", "source")}
)
PAIR_SCHEMA = PAIR_FEATURES.arrow_schema.remove_metadata()
PAIR = "pair"
REPEATED = "id seen before"
LONG_TEXT = 20  # pairs that share a text of more characters than this belong together


def measured(comments: ir.Table) -> ir.Table:
    """The columns that the join reads, from a table of Reddit's own: what the reader of dumps does, said in SQL.

    Reddit escapes `&`, `<` and `>` in what it gives out, and no other character: that is undone.

    Args:
        comments: `id, parent_id, link_id, author, body, subreddit` (text) and `created_utc` (a whole number), as in the
            public tables of BigQuery.

    Returns:
        The same with `characters` and `alphabetic`.
    """
    body = comments.body.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    comments = comments.filter(comments.body.notnull() & comments.author.notnull()).mutate(body=body)
    letters = comments.body.re_replace(r"\P{L}+", "")
    return comments.mutate(characters=comments.body.length(), alphabetic=letters.length())


@dataclass(frozen=True)
class Replies:
    """Comments judged and joined to the comments that they answer."""

    judged: ir.Table  # `key, parent, rule` of every comment: `KEPT`, or the first rule that removes it
    rules: list[str]  # the rules' names, in order
    found: ir.Table  # `key, parent, outcome` of every kept comment: `PAIR`, or why it is not the response of one
    outcomes: list[str]  # the outcomes' names, in order
    pairs: ir.Table  # `input, response, thread, source`


def join_replies(
    comments: ir.Table,
    filters: Filters,
    submissions: bool = False,
    keep: Callable[[ir.Table, str], ir.Table] = lambda table, name: table,
) -> Replies:
    """Judge comments by the rules, and put every kept comment beside the kept comment that it replies to.

    Of comments with one id only one can be kept: the first by time, then by text, wherever it stands in the files.

    Args:
        comments: the columns of `dumps.comment_schema`; a submission is a comment without a parent.
        filters: which rules hold.
        submissions: whether submissions are among the comments: replies to them are looked for.
        keep: computes a table that is needed more than once, and gives it back: (table, name). Such a table has no
            texts in it; texts are joined at the end, to those that are needed.
    """
    if submissions:  # an id may be that of a submission and of a comment
        key = ibis.ifelse(comments.parent_id == "", "t3_", "t1_") + comments.id
        parent = comments.parent_id
    else:
        key = comments.id  # a column as it is: engines look at its values before they read the texts beside them
        parent = ibis.ifelse(comments.parent_id.startswith("t1_"), comments.parent_id.substr(3), ibis.null("string"))

    removed: dict[str, ir.BooleanValue] = {}

    def judge(texts: ir.Table) -> ir.Table:
        language = texts.language if filters.language else None
        removed[REPEATED] = texts.repeat
        removed.update(
            rules(texts.body, texts.characters, texts.alphabetic, texts.author, language=language, filters=filters)
        )
        return texts.select("key", "parent", rule=first_rule(removed))

    keyed = comments.mutate(key=key, parent=parent)
    first_judged = keep(judge(keyed.mutate(repeat=ibis.literal(False))), "first_judged")
    twice = keep(first_judged.group_by("key").agg(rows=ibis._.count()).filter(ibis._.rows > 1).select("key"), "twice")
    # A window over all comments would sort them with their texts: only those whose id is there twice are ranked.
    same_key = ibis.window(group_by="key", order_by=["created_utc", "body", "author", "parent_id"])
    repeats = keep(keyed.semi_join(twice, "key").mutate(repeat=ibis.row_number().over(same_key) > 0), "repeats")
    judged = first_judged.anti_join(twice, "key").union(judge(repeats))

    parents = judged.filter(judged.rule != REPEATED).select(parent_key=judged.key, parent_rule=judged.rule)
    kept = judged.filter(judged.rule == KEPT)
    joined = kept.left_join(parents, kept.parent == parents.parent_key)
    if submissions:
        lost = {"submissions": joined.parent == ""}
        answered = "what is replied to"
    else:
        lost = {"replies to a submission": joined.parent.isnull()}
        answered = "comment replied to"
    lost |= {
        "replies to themselves": joined.parent == joined.key,
        f"{answered} is not in the dumps": joined.parent_rule.isnull(),
        f"{answered} was removed": joined.parent_rule != KEPT,
    }
    outcome = ibis.cases(*((condition, ibis.literal(name)) for name, condition in lost.items()), else_=PAIR)
    found = keep(joined.select("key", "parent", outcome=outcome), "found")

    links = found.filter(found.outcome == PAIR)

    def texts(**columns: ir.Value) -> ir.Table:
        # Each use begins at the files: engines keep in memory what two parts of a query share.
        single = comments.select(key=key, **columns).anti_join(twice, "key")
        return single.union(repeats.filter(~repeats.repeat).select(single.columns))

    responses = texts(parent=parent, body=comments.body, link_id=comments.link_id, subreddit=comments.subreddit)
    responses = responses.semi_join(links, "key")
    inputs = texts(body=comments.body).semi_join(links.select(key=links.parent).distinct(), "key")
    inputs = inputs.select(input_key=inputs.key, input=inputs.body)
    both = responses.inner_join(inputs, responses.parent == inputs.input_key)
    pairs = both.select(
        input=both.input,
        response=both.body,
        thread=both.link_id,
        source=ibis.literal("reddit/") + both.subreddit,
    )
    return Replies(judged, [*removed, KEPT], found, [*lost, PAIR], pairs)


def add_threads(read: Callable[[], Iterable[pa.Table]]) -> Iterator[pa.Table]:
    """Give a thread to pairs of which only the texts are known.

    Pairs of one source that share a text of more than 20 characters, whichever side it is on, are connected; a
    connected component is a thread. Its name is the source and the smallest SHA-256 (16 hexadecimal digits) of those
    texts, so that it does not depend on the order of the pairs; a pair without such a text is a thread of its own,
    named after its two texts.

    Args:
        read: gives the pairs, columns `input, response, source` (strings), as one or more tables; it is called twice.
            Memory holds numbers of about 100 bytes a pair, not their texts.

    Returns:
        The tables, with the column `thread`.
    """
    hashes = np.concatenate([np.zeros((2, 0), np.uint64), *map(_long_text_hashes, read())], axis=1)
    side, holders = np.nonzero(hashes)
    texts, codes = np.unique(hashes[side, holders], return_inverse=True)
    # A graph of pairs (0 to n - 1) and of long texts (from n on), with an edge where the pair holds the text.
    n = hashes.shape[1]
    size = n + len(texts)
    graph = coo_array((np.ones(len(codes), bool), (holders, n + codes)), shape=(size, size))
    component = connected_components(graph, directed=False)[1]
    unnamed = np.iinfo(np.uint64).max
    names = np.full(size, unnamed)  # by component, of which there are at most `size`
    np.minimum.at(names, component[n:], texts)
    names, start = names[component[:n]], 0
    for table in read():
        own = names[start : start + len(table)].copy()
        alone = np.flatnonzero(own == unnamed)
        own[alone] = _hashes(_joined(table, "source", "input", "response").take(pa.array(alone)))
        digits = pa.array((f"{name:016x}" for name in own.tolist()), pa.string())
        yield table.append_column("thread", pc.binary_join_element_wise(table["source"], digits, "/"))
        start += len(table)


def _long_text_hashes(pairs: pa.Table) -> np.ndarray:
    """(2, pairs) uint64: of each input and each response, with its source; 0 where the text is not long."""
    hashes = np.zeros((2, len(pairs)), np.uint64)
    for own, side in zip(hashes, ("input", "response"), strict=True):
        long = np.flatnonzero(pc.utf8_length(pairs[side]).to_numpy() > LONG_TEXT)
        own[long] = _hashes(_joined(pairs, "source", side).take(pa.array(long)))
    return hashes


def _joined(pairs: pa.Table, *columns: str) -> pa.ChunkedArray:
    texts = (pairs[name].cast(pa.large_string()) for name in columns)
    return pc.binary_join_element_wise(*texts, pa.scalar("\t", pa.large_string()))


def _hashes(texts: pa.ChunkedArray) -> np.ndarray:
    digests = b"".join(hashlib.sha256(text.encode()).digest()[:8] for text in texts.to_pylist())
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64)


def load_pairs(source: str) -> datasets.DatasetDict:
    """Load pairs by folder (what this package's commands write) or by name on the Hub.

    Returns:
        The splits that are there (`train`, `validation`, `test`), each with the features `PAIR_FEATURES`.

    Raises:
        InputError: no such folder or repository, or other columns than `input, response, thread, source`.
    """
    folder = Path(source)
    if is_path(source):
        existing_folder(source)
    try:
        if folder.is_dir():
            files = {
                name: sorted(map(str, folder.glob(f"{name}-*.parquet"))) for name in ("train", "validation", "test")
            }
            files = {name: paths for name, paths in files.items() if paths}
            if not files:
                raise InputError(f"{source}: no train-*.parquet, validation-*.parquet or test-*.parquet in this folder")
            pairs = datasets.load_dataset("parquet", data_files=files)
        else:
            pairs = datasets.load_dataset(source)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        reason = error.__cause__ or error  # `datasets` wraps what it met
        raise InputError(f"{source}: neither a readable folder of pairs nor a Hub data set ({reason})") from error
    for name, split in pairs.items():
        if set(PAIR_SCHEMA.names) - set(split.column_names):
            raise InputError(
                f"{source}: split {name} has the columns {', '.join(split.column_names)}; "
                f"expected {', '.join(PAIR_SCHEMA.names)}"
            )
    pairs = pairs.select_columns(PAIR_SCHEMA.names)
    # A cast writes every row again, so it is only for data that others made.
    same = all(split.features == PAIR_FEATURES for split in pairs.values())
    return pairs if same else pairs.cast(PAIR_FEATURES)
