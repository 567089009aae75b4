"""Run the benchmarks and write results.json and results.md: `python -m tests.benchmarks [--only NAME …]`."""

import dataclasses
import gc
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from data_scripts.command_line import ArgumentParser
from tests.benchmarks.measuring import Contender, MeasurementError, alternate, run
from tests.benchmarks.processes import ProcessError
from tests.benchmarks.registry import BENCHMARKS, REASONS, Facts
from tests.benchmarks.report import HERE, build_entry, read_results, write_results

if TYPE_CHECKING:
    from tests.benchmarks.material import Material


# What the contenders import: once, before they are forked.
SMOKE_LIBRARIES = (
    *(
        f"tests.benchmarks.{name}"
        for name in ("adapting", "encoding", "extracting", "kernels", "suggesting", "training")
    ),
    "data_scripts.join.engines",
    "data_scripts.join.replies",
    "data_scripts.sources.conversations",
    "data_scripts.sources.reddit",
    "data_scripts.write.pairs",
    "evaluate",
    "matplotlib.backends.backend_agg",
)


def measure_group(
    names: Sequence[str], material: "Material", repeats: int, facts: Facts
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the results.json entry of each benchmark; all share the same alternating runs."""
    benchmarks = [BENCHMARKS[name] for name in names]
    for preparation in _distinct([one.prepare for one in benchmarks if one.prepare]):
        run(material, preparation)
    contenders = _distinct([contender for one in benchmarks for contender in one.contenders])
    title = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    measured = alternate(material, contenders, repeats, title)
    runs = {contender.key: values for contender, values in zip(contenders, measured, strict=True)}
    for name, benchmark in zip(names, benchmarks, strict=True):
        yield name, build_entry(benchmark, runs, facts)


def _distinct(contenders: Sequence[Contender]) -> list[Contender]:
    return list({contender.key: contender for contender in contenders}.values())


def run_benchmarks(
    names: Sequence[str], material: "Material", repeats: int, output: Path, skip_unsupported: bool
) -> None:
    """Measure and print the benchmarks; after each group, update their entries in the results.

    Args:
        names: the benchmarks.
        material: the files that they read.
        repeats: runs of each contender.
        output: folder of the results.
        skip_unsupported: skip the benchmarks that require hardware which this machine lacks.

    Raises:
        ProcessError, MeasurementError: see `alternate`.
    """
    print("preparing pairs, vocabularies and a saved model", flush=True)
    facts = run(material, Contender("preparation", "material.prepare"))
    results = read_results(output)
    skipped = {
        name: REASONS[benchmark.needs]
        for name, benchmark in BENCHMARKS.items()
        if skip_unsupported and benchmark.needs and not facts[benchmark.needs]
    }
    groups: dict[str, list[str]] = {}
    for name in names:
        if name in skipped:
            print(f"{name}: skipped: {skipped[name]}")
        else:
            groups.setdefault(BENCHMARKS[name].group or name, []).append(name)
    for group in groups.values():
        for name, entry in measure_group(group, material, repeats, facts):
            results[name] = entry
            print(f"{name}: {entry['ratio']:.3g} of {entry['peer_name']} ({'met' if entry['met'] else 'NOT met'}: "
                  f"bar {entry['bar']:g}, {entry['better']} is better)", flush=True)  # fmt: skip
        write_results(output, results, skipped)


def _run_smoke(names: Sequence[str], output: Path) -> None:
    """Run benchmarks at tiny sizes, in forks of this process, on newly generated files."""
    for module in SMOKE_LIBRARIES:
        import_module(module)
    gc.collect()
    gc.freeze()  # a garbage collection in a fork would copy the memory of all that was imported
    tqdm.monitor_interval = 0  # forking is unsafe with a second thread
    from tests.benchmarks.material import SIZES

    with tempfile.TemporaryDirectory() as folder:
        material = dataclasses.replace(SIZES["smoke"], folder=Path(folder))
        run_benchmarks(names, material, 1, output, skip_unsupported=False)


def _build_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="python -m tests.benchmarks",
        description="Measure speed and memory against peers. The files that the benchmarks read are built once, in "
        "runs/benchmarks; delete that folder to rebuild them. CONVSIM_DATA names the folder of real data (default: "
        "../shared/data); without real data, the benchmarks use synthetic text, and the results say so.",
    )
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--repeats", type=int, default=3, help="runs of each contender (default: 3)")
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="check that the benchmarks run: tiny sizes, one run of each contender, no GPU or bf16 needed; the results "
        "are meaningless",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="folder of results.json and results.md (default: tests/benchmarks, with --smoke: runs/benchmarks/smoke)",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = _build_parser()
    options = parser.parse_args(arguments)
    if options.repeats < 1:
        parser.error("--repeats: expected 1 or more")
    names = options.only or list(BENCHMARKS)
    try:
        if options.smoke:
            _run_smoke(names, options.output or HERE.parents[1] / "runs" / "benchmarks" / "smoke")
        else:
            from tests.benchmarks.material import SIZES  # imports torch, which --help does not need

            run_benchmarks(names, SIZES["full"], options.repeats, options.output or HERE, skip_unsupported=True)
    except (MeasurementError, ProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
