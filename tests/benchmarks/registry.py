"""All benchmarks: what each measures, its peer, and the required ratio of the two."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from tests.benchmarks.measuring import Contender

Facts = dict[str, Any]  # facts on the text and the machine, from `material.prepare`


@dataclass(frozen=True)
class Benchmark:
    """A comparison of our code with a peer.

    Attributes:
        what: a description for results.md.
        unit: the name of the compared value, one of those that the contenders' functions return.
        bar: the lowest ratio of our value to the peer's that meets the requirement (the highest, if lower is better).
        ours: our contender.
        peer: the contender that ours is compared with.
        beside: other contenders, reported without a required ratio.
        better: whether a higher or a lower value is better.
        group: benchmarks of one group are measured in the same alternating runs.
        needs: required hardware; the benchmark is skipped without it.
        reads: the entry of `Facts` that describes what the contenders read.
        prepare: a function that builds the files that the contenders read, in an earlier process.
    """

    what: str
    unit: str
    bar: float | Callable[[Facts], float]
    ours: Contender
    peer: Contender
    beside: tuple[Contender, ...] = ()
    better: Literal["higher", "lower"] = "higher"
    group: str = ""
    needs: Literal["gpu", "bf16"] | None = None
    reads: Literal["text", "dumps", "chats"] = "text"
    prepare: Contender | None = None

    @property
    def contenders(self) -> tuple[Contender, ...]:
        """Our code, the peer, and the others."""
        return (self.ours, self.peer, *self.beside)


def _static(batch_size: int, sparse: str | None = None) -> Contender:
    settings = f"sparse gradients, {sparse}, without the gradient norm" if sparse else "its default optimizer"
    name = f"sentence-transformers trainer, StaticEmbedding + MultipleNegativesRankingLoss, {settings}"
    return Contender(name, "training.static_embedding", {"batch_size": batch_size, "sparse": sparse})


def _dan(batch_size: int, **options: Any) -> Contender:
    return Contender("ours", "training.dan", {"batch_size": batch_size, **options})


def _extract(source: str, **options: Any) -> Contender:
    name = {"dumps": "ours, from dumps", "parquet": "ours, from Parquet of comments"}[source]
    if "limit" in options:
        name += f", --memory_limit {options['limit']}"
    return Contender(name, "extracting.ours", {"source": source, **options})


def _bound(unit: str, value: float) -> Contender:
    return Contender(f"the required bound: {value:g} {unit}", "encoding.bound", {"unit": unit, "value": value})


SPARSE = ("SparseAdam", "Adagrad")
DAN_ENCODE = Contender("ours", "encoding.dan")
DAN_ENCODE_FLOAT32 = Contender("ours in float32", "encoding.dan", {"dtype": "float32"})
TRAIN_DAN = (
    "DAN, 200,000 words and 2^18 bigrams, width 300, row-wise Adagrad and AdamW, clipped, bf16 where the processor has "
    "it; batch"
)
PREPARE_DUMPS = Contender("dumps", "extracting.prepare_dumps", {"sizes": ["dumped"]})
PREPARE_COMMENTS = Contender("comments", "extracting.prepare_comments", {"sizes": ["dumped"]})
PREPARE_MANY_COMMENTS = Contender("comments", "extracting.prepare_comments", {"sizes": ["dumped", "many_dumped"]})
PREPARE_REPLIES = Contender("replies", "suggesting.prepare")
SUGGEST = "1,000,000 comments (some joined from halves of two) as replies, 500 dimensions, from a DAN trained on them"
SUGGEST_OURS = Contender("ours, int8", "suggesting.ours")
SUGGEST_PEER = Contender(
    "sentence_transformers.util.semantic_search, exact, float32", "suggesting.sentence_transformers"
)
SUGGEST_BESIDE = (
    Contender("ours, exact, float32 from float16", "suggesting.ours_exact"),
    Contender("usearch's HNSW graph, int8, connectivity 32, 256 candidates", "suggesting.graph"),
)


# Of `conversations/pairs` in the real data.
DOMAINS = (
    "slack_disentangled", "ubuntu_irc_gold_replies", "movie_dialog_slice", "taskmaster", "mrda_meetings",
    "topical_chat",
)  # fmt: skip
PREPARE_DOMAINS = Contender("domains", "adapting.prepare")
CARD = Contender("the card's own rate on bf16 matrix products of size 8,192", "training.matrix_rate")


def _adapt(pairs: int) -> dict[str, Benchmark]:
    """The benchmarks of adapting on a number of pairs; the issue's bars."""
    group, what = f"adapt_{pairs}", f"adapting to {pairs:,} pairs of a domain"
    ours, base, bm25, tfidf, minilm, tuned, static, distilled = (
        Contender(name, f"adapting.{function}", {"pairs": pairs, **options})
        for name, function, options in (
            ("ours", "ours", {}),
            ("the base as it is", "base", {}),
            ("BM25", "word_overlap", {"name": "bm25"}),
            ("TF-IDF", "word_overlap", {"name": "tfidf"}),
            ("all-MiniLM-L6-v2", "minilm", {}),
            ("all-MiniLM-L6-v2, fine-tuned for one epoch in sentence-transformers", "tuned_minilm", {}),
            ("StaticEmbedding, trained from scratch in sentence-transformers", "static_embedding", {}),
            ("all-MiniLM-L6-v2, distilled by model2vec and trained by its pairwise trainer", "model2vec", {}),
        )
    )
    beside = (base, bm25, tfidf, minilm, tuned, static, distilled)
    mean = f"{what}: mean of P@1 over {len(DOMAINS)} domains"

    def benchmark(
        text: str, unit: str, bar: float, peer: Contender, better: Literal["higher", "lower"] = "higher"
    ) -> Benchmark:
        others = tuple(one for one in beside if one != peer)
        return Benchmark(text, unit, bar, ours, peer, others, better, group, reads="chats", prepare=PREPARE_DOMAINS)

    return {
        **{
            f"{group}_{domain}_{name}": benchmark(f"{what}: {domain}", f"P@1 {domain}", bar, peer)
            for domain in DOMAINS
            for name, peer, bar in (("bm25", bm25, 1), ("tfidf", tfidf, 1), ("base", base, 0.95))
        },
        f"{group}_minilm": benchmark(mean, "P@1", 1, minilm),
        f"{group}_tuned": benchmark(f"{mean}, at most .02 below the peer's", "P@1 within .02", 1, tuned),
        f"{group}_static": benchmark(mean, "P@1", 1, static),
        f"{group}_model2vec": benchmark(mean, "P@1", 1, distilled),
        f"{group}_seconds": benchmark(f"{what}: time, with evaluation", "seconds", 0.05, tuned, "lower"),
    }


def _steps(layers: int) -> Benchmark:
    return Benchmark(
        f"Transformer of {layers} layers of 256 dimensions, batch 512, dropout, AdamW: whole steps", "pairs/s", 0.8,
        Contender("ours", "training.small_transformer", {"layers": layers}),
        Contender("the matrix products of its layers alone", "training.layer_products", {"layers": layers}),
    )  # fmt: skip


def _beside_dan(batch_size: int) -> tuple[Contender, ...]:
    float32 = Contender("ours in float32", "training.dan", {"batch_size": batch_size, "mixed_precision": "no"})
    return (float32, *(_static(batch_size, name) for name in SPARSE))


BENCHMARKS = {
    "train_dan_128": Benchmark(
        f"{TRAIN_DAN} 128", "pairs/s", 20, _dan(128), _static(128), _beside_dan(128), group="dan"
    ),
    "train_dan_2048": Benchmark(
        f"{TRAIN_DAN} 2,048", "pairs/s", 1.2, _dan(2048), _static(2048), _beside_dan(2048)
    ),
    "memory_dan": Benchmark(
        "peak resident memory of train_dan_128 (460,000 rows against 200,000)",
        "MB", 1, _dan(128), _static(128), (_static(128, "SparseAdam"),), "lower", "dan",
    ),
    "encode_dan": Benchmark(
        "100,000 comments from strings, ours in bf16 where the processor has it", "sentences/s", 1, DAN_ENCODE,
        Contender("model2vec StaticModel.encode, same vocabulary, width 300", "encoding.model2vec"),
        (DAN_ENCODE_FLOAT32,), group="encode",
    ),
    "encode_dan_tokenizer": Benchmark(
        "100,000 comments from strings, ours in bf16 where the processor has it", "sentences/s",
        lambda facts: 0.9 if facts["bf16"] else 0.7, DAN_ENCODE,
        Contender("the tokenizer alone (tokenizers' encode_batch_fast, 1,000 texts a call)", "encoding.tokenizer"),
        (DAN_ENCODE_FLOAT32,), group="encode",
    ),
    "encode_dan_minilm": Benchmark(
        "100,000 comments from strings, bf16 where the processor has it; the peer encodes the first 2,000 of them",
        "sentences/s", 100, DAN_ENCODE,
        Contender("all-MiniLM-L6-v2 in sentence-transformers", "encoding.minilm"), group="encode",
    ),
    "encode_transformer": Benchmark(
        "paper size, float32, 2,000 comments", "sentences/s", 1.1, Contender("ours", "encoding.transformer"),
        Contender("sentence-transformers encode, same saved folder", "encoding.transformer_peer"),
        group="transformer",
    ),
    "encode_transformer_bf16": Benchmark(
        "paper size, bfloat16, 2,000 comments, cosine to float32 above 0.999", "sentences/s", 2,
        Contender("ours", "encoding.transformer_bf16"),
        Contender("sentence-transformers encode, same saved folder", "encoding.transformer_peer"),
        group="transformer", needs="bf16",
    ),
    "encode_one": Benchmark(
        "one text of at most 60 characters per call, the base model in memory", "ms", 1,
        Contender("ours", "encoding.one"), _bound("ms", 0.25),
        (Contender("sentence-transformers encode, same folder", "encoding.one_peer"),), "lower",
    ),
    "start": Benchmark(
        "python -m modeling_convsim.encoding with the base model and a file of one text", "seconds", 1,
        Contender("ours", "encoding.start"), _bound("seconds", 2),
        (Contender("a program in Python", "encoding.start_in_python"),), "lower",
    ),
    "start_help": Benchmark(
        "a new interpreter: python -m modeling_convsim.encoding --help", "seconds", 1,
        Contender("ours", "encoding.start_help"), _bound("seconds", 1), better="lower",
    ),
    "train_transformer": Benchmark(
        "paper size, batch 128, AdamW, ours in bf16 where the processor has it, tokens exclude padding",
        "tokens/s", 1.5,
        Contender("ours", "training.transformer", {"batch_size": 128}),
        Contender("sentence-transformers trainer, same model and loss, its default optimizer",
                  "training.transformer_peer", {"batch_size": 128}),
        (
            Contender("ours in float32", "training.transformer", {"batch_size": 128, "mixed_precision": "no"}),
            Contender("the peer in bfloat16", "training.transformer_peer", {"batch_size": 128, "bf16": True}),
        ),
    ),
    "train_transformer_steps_2": _steps(2),
    "train_transformer_steps_4": _steps(4),
    "kernel_bag_gradient": Benchmark(
        "gradient of token weights, 1,024 texts of 20 tokens, width 300", "ms", 1,
        Contender("torch.ops.aten._embedding_bag_per_sample_weights_backward", "kernels.bag_gradient",
                  {"public": False}),
        Contender("public functions of torch", "kernels.bag_gradient", {"public": True}), better="lower",
    ),
    "kernel_linear": Benchmark(
        "linear layer in inference mode, 2,560 tokens, 512 to 2,048 dimensions, float32; used on AMD processors only",
        "ms", 1,
        Contender("torch.ops.mkldnn._linear_pointwise", "kernels.linear_layer", {"public": False}),
        Contender("torch.nn.Linear", "kernels.linear_layer", {"public": True}), better="lower",
    ),
    "encode_cbow_sets": Benchmark(
        "Siamese CBOW on the raw pairs of the 19 STS datasets, without loading", "pairs/s", 20,
        Contender("ours", "encoding.cbow_sets"),
        Contender("the same model, one pair at a time", "encoding.cbow_one_by_one"),
        (Contender("plain NumPy averages, one pair at a time, same tokenizer", "encoding.cbow_in_numpy"),),
    ),
    "growth_pairs": Benchmark(
        "DAN training, batch 128, with ten times the pairs", "microseconds/pair", 1.1, _dan(128),
        Contender("ours on a tenth of the pairs", "training.dan", {"batch_size": 128, "pairs": "tenth_of_pairs"}),
        better="lower", group="dan",
    ),
    "growth_vocabulary": Benchmark(
        "DAN training, batch 128, with ten times the words", "microseconds/pair", 1.2, _dan(128),
        Contender("ours with a tenth of the words", "training.dan", {"batch_size": 128, "words": 0.1}),
        better="lower", group="dan",
    ),
    "extract_parquet": Benchmark(
        "from Parquet of comments to split pairs, two cores", "comments/s", 4, _extract("parquet"),
        Contender("a dictionary of all comments in plain Python, from the same Parquet",
                  "extracting.dictionary_join", {"source": "parquet"}),
        group="extract", reads="dumps", prepare=PREPARE_COMMENTS,
    ),
    "extract_parquet_pandas": Benchmark(
        "from Parquet of comments to split pairs, two cores", "comments/s", 1, _extract("parquet"),
        Contender("pandas: rules over columns, merge", "extracting.pandas_merge"),
        group="extract", reads="dumps", prepare=PREPARE_COMMENTS,
    ),
    "extract_dump": Benchmark(
        "from long-window .zst dumps to split pairs, two cores", "comments/s", 2, _extract("dumps"),
        Contender("json.loads per line and a dictionary of all comments in plain Python", "extracting.dictionary_join",
                  {"source": "dumps"}),
        group="extract", reads="dumps", prepare=PREPARE_COMMENTS,
    ),
    "extract_parse": Benchmark(
        "from a long-window .zst dump to columns of comments, one core, without cleaning", "comments/s", 3,
        Contender("ours", "extracting.parse"),
        Contender("zstandard's stream, json.loads per line, the same fields to lists", "extracting.parse_with_json"),
        reads="dumps", prepare=PREPARE_DUMPS,
    ),
    "memory_extract": Benchmark(
        "peak resident memory of growth_extract's larger run", "MB", 1,
        _extract("parquet", comments="many_dumped", limit="2GiB"),
        Contender("the required bound: 4 GiB", "extracting.four_gibibytes"),
        better="lower", group="extract_many", reads="dumps", prepare=PREPARE_MANY_COMMENTS,
    ),
    "memory_extract_dump": Benchmark(
        "peak resident memory from dumps, including reading them, --memory_limit 2GiB", "MB", 1,
        _extract("dumps", comments="many_dumped", limit="2GiB"),
        Contender("the required bound: 4 GiB", "extracting.four_gibibytes"),
        better="lower", group="extract_many", reads="dumps", prepare=PREPARE_MANY_COMMENTS,
    ),
    "growth_extract": Benchmark(
        "from Parquet of comments to split pairs, --memory_limit 2GiB, with ten times the comments",
        "microseconds/comment", 1.15, _extract("parquet", comments="many_dumped", limit="2GiB"),
        Contender("ours on a tenth of the comments", "extracting.ours", {"source": "parquet", "limit": "2GiB"}),
        better="lower", group="extract_many", reads="dumps", prepare=PREPARE_MANY_COMMENTS,
    ),
    "growth_extract_dump": Benchmark(
        "from dumps to split pairs, --memory_limit 2GiB, with ten times the comments", "microseconds/comment",
        1.15, _extract("dumps", comments="many_dumped", limit="2GiB"),
        Contender("ours on a tenth of the comments", "extracting.ours", {"source": "dumps", "limit": "2GiB"}),
        better="lower", group="extract_many", reads="dumps", prepare=PREPARE_MANY_COMMENTS,
    ),
    "suggest_build": Benchmark(
        f"{SUGGEST}: building what is searched from float16 vectors", "replies/s", 1,
        Contender("ours", "suggesting.build"),
        Contender("usearch's HNSW graph, int8, connectivity 32, 256 candidates", "suggesting.build_graph"),
        prepare=PREPARE_REPLIES,
    ),
    "suggest_queries": Benchmark(
        f"{SUGGEST}: top 10 of 256 queries at a time", "queries/s", 10, SUGGEST_OURS, SUGGEST_PEER, SUGGEST_BESIDE,
        group="suggest", prepare=PREPARE_REPLIES,
    ),
    "suggest_latency": Benchmark(
        f"{SUGGEST}: top 10 of one query", "ms/query", 0.5, SUGGEST_OURS, SUGGEST_PEER, SUGGEST_BESIDE, "lower",
        "suggest", prepare=PREPARE_REPLIES,
    ),
    "suggest_recall": Benchmark(
        f"{SUGGEST}: recall of the top 10", "recall@10", 0.95, SUGGEST_OURS, SUGGEST_PEER, SUGGEST_BESIDE,
        group="suggest", prepare=PREPARE_REPLIES,
    ),
    "suggest_memory": Benchmark(
        f"{SUGGEST}: peak resident memory of suggest_queries, including pages of mapped files", "MB", 1, SUGGEST_OURS,
        SUGGEST_PEER, SUGGEST_BESIDE, "lower", "suggest", prepare=PREPARE_REPLIES,
    ),
    "gpu_transformer": Benchmark(
        "paper size, batch 2,048, bf16; counting operations of the dense layers and scores", "Tflop/s", 0.4,
        Contender("ours", "training.gpu_transformer"),
        CARD, needs="gpu", group="gpu",
    ),
    "gpu_encode": Benchmark(
        "paper size, bf16, 100,000 comments from strings; counting operations of the dense layers", "Tflop/s", 0.4,
        Contender("ours", "encoding.gpu_transformer"), CARD,
        (Contender("sentence-transformers encode, same saved folder", "encoding.gpu_transformer_peer"),),
        needs="gpu", group="gpu",
    ),
    **_adapt(300), **_adapt(1_000), **_adapt(3_000), **_adapt(10_000),
    "adapt_seconds": Benchmark(
        "adapting to 10,000 pairs of a domain: mean time, with evaluation", "seconds", 1,
        Contender("ours", "adapting.ours", {"pairs": 10_000}),
        Contender("the required bound: 40 seconds", "adapting.forty_seconds", {"pairs": 10_000}),
        better="lower", group="adapt_10000", reads="chats", prepare=PREPARE_DOMAINS,
    ),
}  # fmt: skip
REASONS = {"gpu": "no GPU in this machine", "bf16": "the processor has no AVX512-BF16 or AMX-BF16"}
