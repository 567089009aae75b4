"""What a benchmark is, and how it is measured: ours and the peer in alternation, each in a process of its own."""

import math
import os
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

from accelerate.state import AcceleratorState
from scipy.stats import t
from tqdm import tqdm

from tests.benchmarks.material import Material

BOUND = "the required bound"
SAME = "output"  # prefix of the values that must be equal for all contenders
Values = dict[str, Any]  # unit -> value


@dataclass(frozen=True)
class Contender:
    """A function `measure(material, **options) -> {unit: value}`, by its name in the results."""

    name: str
    measure: Callable[..., Values]
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple:
        """Equal for contenders that measure the same."""
        return self.measure, *sorted(self.options.items())


@dataclass(frozen=True)
class Benchmark:
    """A comparison of our code with a peer.

    Attributes:
        what: a description for results.md.
        unit: the compared value, one of those that the contenders return.
        bar: the lowest ratio of our value to the peer's that is required; the highest, if lower is better.
        ours: our contender.
        peer: the contender that ours is compared with.
        better: whether a higher or a lower value is better.
        needs: required hardware; the benchmark is skipped without it.
        prepare: builds the files that the contenders read, in an earlier process.
        interval: the 95% interval of the difference, from the values of ours and of the peer.
    """

    what: str
    unit: str
    bar: float
    ours: Contender
    peer: Contender
    better: Literal["higher", "lower"] = "higher"
    needs: Literal["GPU", "bf16"] | None = None
    prepare: Contender | None = None
    interval: Callable[[Values, Values], list[float]] | None = None


def bound(unit: str, value: float) -> Contender:
    """A required bound in place of a peer."""
    return Contender(BOUND, _return_bound, {"unit": unit, "value": value})


def _return_bound(_: Material, unit: str, value: float) -> Values:
    return {unit: value}


def run(material: Material, contender: Contender) -> Values:
    """Run a contender in a new process, so that none warms another's caches or raises its peak memory.

    At the smallest sizes, of which no result counts, it runs in this process.
    """
    if not material.real:
        AcceleratorState._reset_state(reset_partial_state=True)  # as in a new process
        return contender.measure(material, **contender.options)
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        return executor.submit(contender.measure, material, **contender.options).result()


def alternate(material: Material, benchmarks: Sequence[Benchmark], repeats: int) -> dict[tuple, list[Values]]:
    """Measure each contender of some benchmarks `repeats` times; other load on the machine affects all equally.

    Returns:
        Their values, by `Contender.key`.

    Raises:
        ValueError: two contenders that must write the same output wrote different ones.
    """
    for preparation in {one.prepare.key: one.prepare for one in benchmarks if one.prepare}.values():
        run(material, preparation)
    contenders = {contender.key: contender for one in benchmarks for contender in (one.ours, one.peer)}
    measured: dict[tuple, list[Values]] = {key: [] for key in contenders}
    written: dict[str, str] = {}
    with tqdm(total=repeats * len(contenders), unit=" runs", leave=False) as progress:
        for _ in range(repeats):
            for key, contender in contenders.items():
                progress.set_description(contender.name[:40])
                values = run(material, contender)
                measured[key].append(values)
                for name in filter(lambda name: name.startswith(SAME), values):
                    if written.setdefault(name, values[name]) != values[name]:
                        raise ValueError(f"{name}: {contender.name} wrote {values[name]}, others {written[name]}")
                progress.update()
    return measured


def build_entry(benchmark: Benchmark, measured: dict[tuple, list[Values]], commit: str) -> dict[str, Any]:
    """The entry of results.json: the medians of all runs, their ratio, and an interval.

    `interval` is that of the benchmark, from the last runs; `ratio_interval`, of the other ones, is the 95% interval of
    the mean ratio of runs in alternation (Student's t, on its logarithm).
    """
    runs = [measured[contender.key] for contender in (benchmark.ours, benchmark.peer)]
    ours, peer = (statistics.median(values[benchmark.unit] for values in each) for each in runs)
    ratio = ours / peer
    is_met = ratio >= benchmark.bar if benchmark.better == "higher" else ratio <= benchmark.bar
    entry = {
        "ours": ours, "peer": peer, "peer_name": benchmark.peer.name, "unit": benchmark.unit, "ratio": ratio,
        "bar": benchmark.bar, "better": benchmark.better, "met": is_met, "commit": commit,
    }  # fmt: skip
    if benchmark.interval:
        return entry | {"interval": benchmark.interval(*(each[-1] for each in runs))}
    if benchmark.peer.name == BOUND or len(runs[0]) < 2:
        return entry
    logs = [math.log(own[benchmark.unit] / other[benchmark.unit]) for own, other in zip(*runs, strict=True)]
    mean, error = statistics.mean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
    return entry | {"ratio_interval": [math.exp(mean + side * t.ppf(0.975, len(logs) - 1) * error) for side in (-1, 1)]}


def time_steps(step: Callable[[int], object], warm_up: int, seconds: float) -> tuple[int, float]:
    """Take `warm_up` untimed steps, then steps until `seconds` have passed; return their number and duration."""
    for index in range(warm_up):
        step(index)
    started, steps = time.perf_counter(), 0
    while not steps or time.perf_counter() - started < seconds:
        step(warm_up + steps)
        steps += 1
    return steps, time.perf_counter() - started


def peak_megabytes() -> float:
    """The peak resident memory of this process in MB; that of `getrusage` includes the process that started it."""
    kilobytes = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
    assert kilobytes
    return int(kilobytes[1]) / 1024


@contextmanager
def on_cores(count: int) -> Iterator[None]:
    """Restrict this process and those that it starts to `count` cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
