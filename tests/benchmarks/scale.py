"""Estimates what training at the paper's size takes: `python -m tests.benchmarks.scale > model_cards/scale.md`.

Rates and bytes are measured: those of two cores by `make bench` (results.json), the others by the commands that `RATES`
names. Prices and the rates of disks, networks and GPUs are list values, which this file states.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import StrictUndefined, Template

from tests.benchmarks.report import HERE, read_results

TEMPLATE = HERE / "scale.md.jinja"
COMMENTS = 2.4e9  # on Reddit, of which the paper takes 600 million pairs
PAIRS = 680e6  # of these comments, at the rate of the real dumps
PRESENTATIONS = 6.4e9  # pairs in the paper's 40 million steps: 30 million of 128, 10 million of 256
LARGEST_MONTH = 70e6  # comments

# Measured: name -> (value, unit, command).
RATES = {
    "read": (4.7, "microseconds of one core per comment in a dump", "`make bench ONLY=growth_extract_dump`"),
    "spark": (
        18.0,
        "microseconds of two cores per comment, reading and join with Spark; the cores also did other work",
        "`python -m tests.benchmarks.spark_cluster`",
    ),
    "shuffle": (447, "bytes per comment that Spark's shuffles write", "`python -m tests.benchmarks.spark_cluster`"),
    "write": (1.24e6, "pairs per second, splitting and writing in one thread", "`python -m data_scripts reddit`"),
    "dump": (189, "bytes per comment in a dump", "`make bench ONLY=growth_extract_dump`"),
    "parquet": (203, "bytes per comment as Parquet", "`python -m data_scripts reddit DUMPS --comments FOLDER`"),
    "scratch": (114, "bytes of scratch space per comment, join with DuckDB", "`python -m data_scripts reddit`"),
    "pair": (32, "bytes of pairs per comment", "`python -m data_scripts reddit`"),
    "vocabulary": (45.0, "microseconds of one thread per pair, vocabulary", "`python -m tests.benchmarks.preparing`"),
    "tokenize": (66.9, "microseconds of one core per pair, token cache", "`python -m tests.benchmarks.preparing`"),
    "cache": (125.9, "bytes per pair of the token cache", "`python -m tests.benchmarks.preparing`"),
    "tokens": (44.9, "tokens per pair, 24,000 word pieces", "the first 20,000 pairs of data/reddit"),
}
WIRE = {8: 165e6, 64: 389e6}  # bytes per step and process, paper_transformer: logged by runs with several processes

# Not measured: list values.
CORE_HOUR = 0.0408  # dollars: Amazon m7g, on demand, us-east-1, June 2026 (m7g.large, 2 cores: 0.0816)
GPU_HOUR = 4.916  # dollars: Amazon p5.48xlarge, an eighth, capacity block, 2025
DISK = 1e9  # bytes per second of a machine's disk
NETWORK = 15e9 / 8  # bytes per second of a machine of 16 cores
STORAGE_MONTH = 0.023  # dollars per GB in Amazon S3
GPU_FLOPS = 989e12  # H100, bfloat16, data sheet
# Measured on an H100, batches of 2,048 and flash attention: 137 Tflop/s. Matrix products of size 8,192 reached 684.
GPU_SHARE = 137 / 989
GPU_WIRE = {8: 450e9, 64: 50e9}  # bytes per second and GPU: NVLink within a machine, 3,200 Gbit/s for 8 GPUs between
LAYERS = 6 * 12 * 512**2  # parameters of the paper's Transformer that every token is multiplied by
OPERATIONS = 6  # per parameter and token, forward and backward


@dataclass(frozen=True)
class Stage:
    """A part of the work, with the seconds of each resource that could limit it; the largest one does."""

    name: str
    seconds: dict[str, float]

    @property
    def duration(self) -> float:
        """Seconds, if the other resources are used at the same time."""
        return max(self.seconds.values())

    @property
    def bottleneck(self) -> str:
        """The resource that limits it."""
        return max(self.seconds, key=lambda name: self.seconds[name])

    @property
    def others(self) -> dict[str, float]:
        """The seconds of the other resources."""
        return {name: seconds for name, seconds in self.seconds.items() if name != self.bottleneck}


def monthly_comments(total: float = COMMENTS, largest: float = LARGEST_MONTH) -> list[float]:
    """The comments of each month, largest first, if they grow by the same factor every month."""
    factor = 1 - largest / total  # of the month before, in an infinite series
    months = [largest]
    while sum(months) < total - largest / 1000:
        months.append(months[-1] * factor)
    return months


def makespan(tasks: Sequence[float], workers: int) -> float:
    """The time until all tasks are done, if each free worker takes the next one."""
    free = [0.0] * workers
    for task in tasks:
        heapq.heapreplace(free, free[0] + task)
    return max(free)


def reading(cores: int, machines: int) -> Stage:
    """Reading the dumps, one a task."""
    seconds = RATES["read"][0] * 1e-6
    months = [count * seconds for count in monthly_comments()]
    written = COMMENTS * (RATES["dump"][0] + RATES["parquet"][0])
    return Stage(
        "read dumps, write comments",
        {
            "all cores": COMMENTS * seconds / cores,
            "the largest month, on one core": makespan(months, cores),
            "disk" if machines == 1 else "network": written / (machines * (DISK if machines == 1 else NETWORK)),
        },
    )


def joining(cores: int, machines: int, microseconds: float) -> Stage:
    """Joining, splitting and writing; DuckDB on two cores takes `microseconds` per comment."""
    if machines == 1:
        disk = COMMENTS * (4 * RATES["parquet"][0] + 2 * RATES["scratch"][0] + RATES["pair"][0])
        return Stage(
            "join, split, write pairs",
            {
                "all cores": 2 * microseconds * 1e-6 * COMMENTS / cores,
                "the thread that splits and writes": PAIRS / RATES["write"][0],
                "disk": disk / DISK,
            },
        )
    moved = COMMENTS * (RATES["parquet"][0] * 2 + RATES["shuffle"][0] + RATES["pair"][0])
    return Stage(
        "join, split, write pairs",
        {
            "all cores": (2 * RATES["spark"][0] - RATES["read"][0]) * 1e-6 * COMMENTS / cores,
            "network, shuffle and object storage": moved / (machines * NETWORK),
        },
    )


def preparing(cores: int) -> Stage:
    """What precedes the first step, on one machine: a vocabulary, then the token cache."""
    vocabulary = PAIRS * RATES["vocabulary"][0] * 1e-6
    tokenizing = PAIRS * RATES["tokenize"][0] * 1e-6 / cores
    return Stage(
        "vocabulary and token cache",
        {
            "the thread that trains the vocabulary": vocabulary,
            "all cores": tokenizing,
            "disk": PAIRS * RATES["cache"][0] / DISK,
        },
    )


def gpu_training(gpus: int, batch: int) -> Stage:
    """Training the paper's Transformer with `batch` pairs per GPU."""
    steps = PRESENTATIONS / (gpus * batch)
    operations = OPERATIONS * LAYERS * RATES["tokens"][0] * batch
    # Of the bytes at 128 pairs, those of embeddings and negatives grow at most with the batch; those of layers stay.
    layers = 2 * (gpus - 1) / gpus * 4 * LAYERS
    rows = (WIRE[gpus] - layers) * batch / 128
    return Stage(
        f"{gpus} GPUs, {batch:,} pairs each",
        {
            "matrix products": steps * operations / (GPU_FLOPS * GPU_SHARE),
            "network": steps * (layers + rows) / GPU_WIRE[gpus],
        },
    )


def report() -> str:
    """The estimates as Markdown."""
    measured = read_results(HERE)
    on_two_cores = {name: measured[name]["ours"] for name in ("growth_extract", "train_dan_2048", "train_transformer")}
    machines = (("one, 64 cores, DuckDB", 64, 1), ("20 of 16 cores, Spark", 320, 20))
    data = [
        (name, stage, _dollars(stage.duration, cores * CORE_HOUR))
        for name, cores, count in machines
        for stage in (reading(cores, count), joining(cores, count, on_two_cores["growth_extract"]))
    ]
    prepared = preparing(64)
    data.append(("one, 64 cores", prepared, _dollars(prepared.duration, 64 * CORE_HOUR)))
    tokens = PRESENTATIONS * RATES["tokens"][0]
    training = [
        ("DAN, two cores", Stage("", {"one process": PRESENTATIONS / on_two_cores["train_dan_2048"]}), 2 * CORE_HOUR),
        ("Transformer, two cores", Stage("", {"cores": tokens / on_two_cores["train_transformer"]}), 2 * CORE_HOUR),
    ]
    for gpus, batch in ((8, 128), (64, 128), (8, 2048), (64, 2048)):
        stage = gpu_training(gpus, batch)
        training.append((f"Transformer, {stage.name}", stage, gpus * GPU_HOUR))
    template = Template(TEMPLATE.read_text(encoding="utf-8"), trim_blocks=True, undefined=StrictUndefined)
    return template.render(
        globals(),
        on_two_cores=on_two_cores,
        machine=measured["train_dan_2048"]["machine"].split(",")[0],
        data=data,
        training=[(name, stage, _dollars(stage.duration, hourly)) for name, stage, hourly in training],
        stored=COMMENTS * sum(RATES[name][0] for name in ("dump", "parquet", "pair")) / 1e9,
    )


def _dollars(seconds: float, dollars_per_hour: float) -> float:
    return seconds / 3600 * dollars_per_hour


if __name__ == "__main__":
    print(report())
