"""All steps from chat logs to an adapted model, a comparison with others, and an index of replies."""

import logging
import math
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets

from data_scripts.chats.conversations import ConversationOptions, prepare_conversations
from data_scripts.files.errors import InputError
from data_scripts.files.folders import RECORD, has_record, write_record
from data_scripts.files.storage import LOCK, is_url, make_folder
from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from trainer.adapt.adaptation import adapt
from trainer.adapt.comparison import compare, describe_gain, format_comparison
from trainer.adapt.language import describe_mismatch, find_language
from trainer.adapt.replies import build_index, format_calibration, format_examples, suggest_examples
from trainer.evaluation.registry import load_kind
from trainer.evaluation.results import read_results, update_results, write_results
from trainer.publish.upload import write_run_card
from trainer.runs import KIND, Run
from trainer.settings import PRESETS, Settings, parse_settings
from trainer.shipped import base_model
from trainer.training.backbone import find_backbone
from trainer.training.model import load_initial_config

MOST_TOKENS = 256  # of a text that a pretrained encoder reads
FEWEST_PAIRS = 50  # to adapt a model to


def adapt_to_chats(
    files: Sequence[Path],
    options: ConversationOptions,
    output: Path,
    base: str | None = None,
) -> dict[str, Any]:
    """Make pairs of chat logs, adapt the base to them, compare, and build an index of the replies; print the results.

    Fewer than 50 pairs cannot adapt a model: the index of their replies has the base as it is.

    What an earlier call has left that was stopped is done again.

    Args:
        files: the logs.
        options: how to read them; `license` is that of the model, and `overwrite` replaces a finished run.
        output: the folder of the run.
        base: folder or Hub id of a multitask model or of any pretrained text encoder; by default `base_model()`.

    Returns:
        The contents of results.json.

    Raises:
        InputError: a file, an option or the base is not usable, or no pair is left.
    """
    prepare_folder(output, options.overwrite)
    settings = _run_settings(choose_base(base), output, options.license)
    datasets.disable_progress_bars()  # reading the pairs takes a moment
    seconds: dict[str, float] = {}
    with _timed(seconds, "reading the logs"):
        report = prepare_conversations(files, replace(options, overwrite=True), output / "pairs")
        settings.language = _check_language(str(settings.initialize_from), output / "pairs") or settings.language
        print()
    if report["pairs"]["written"] < FEWEST_PAIRS:
        return _suggest_with_base(output, settings, report)
    with _timed(seconds, "training"), _without_warnings("trainer.evaluation.response_prediction"):
        adapted = adapt(settings, beside=_own_base(settings))
    test = adapted.pairs.get("test")
    with _timed(seconds, "index of replies"):
        index, calibration = build_index(output, adapted)
        examples = suggest_examples(index, test)
    with _timed(seconds, "comparison"):
        comparison = compare(adapted)
        print(format_comparison(comparison), end="\n\n")
    print(format_calibration(calibration), format_examples(examples), sep="\n\n", end="\n\n")
    is_adapted, joint = adapted.results["adaptation"]["adapted"], adapted.results.get("joint", {})
    print(
        f"read      {_describe_pairs(report)}",
        f"model     {describe_gain(comparison, is_adapted, joint.get('share'))}",
        *_where(output),
        sep="\n",
    )
    results = {
        "response_prediction": comparison.adapted,
        "baselines": {name: {"response_prediction": part} for name, part in comparison.baselines.items()},
        "chats": {"report": report, "calibration": calibration, "examples": examples, "seconds": seconds},
    }
    update_results(output / "results.json", results)
    write_run_card(output)
    return read_results(output / "results.json")


def choose_base(given: str | None) -> str:
    """The base model: the given one, or `base_model()`.

    Raises:
        InputError: none is given, and there is no base; or it cannot be loaded, or is neither a multitask model nor a
            text encoder.
    """
    base = base_model() if given is None else given
    if find_backbone(base) is None:
        load_initial_config(base, "--base")
    return base


def prepare_folder(folder: Path, overwrite: bool) -> None:
    """Create the output folder, or check that it may be replaced; what it holds stays for now.

    Raises:
        InputError: it is a URL or a file, not the folder of a run, or that of a finished run and `overwrite` is not
            given.
    """
    if is_url(folder):
        raise InputError(f"--output {folder}: a run is written to a disk; name a folder")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--output {folder}: is a file, expected a folder; name another one")
    is_used = folder.is_dir() and any(path.name != LOCK for path in folder.iterdir())
    if is_used and not has_record(folder, KIND):
        raise InputError(
            f"--output {folder}: exists and is not the folder of a run (no {RECORD} there); name another folder, or "
            "delete this one yourself"
        )
    if is_used and _is_finished(folder) and not overwrite:
        raise InputError(
            f"--output {folder}: holds a finished run; name another folder, or replace it with --overwrite"
        )
    make_folder(folder)
    write_record(folder, KIND)


def _own_base(settings: Settings) -> str | None:
    """The project's own base, if another encoder is adapted to messages in a language that it knows."""
    if find_backbone(str(settings.initialize_from)):
        own = base_model()
        if set(settings.language) & set(load_initial_config(own).language):
            return own
    return None


def _is_finished(folder: Path) -> bool:
    """Whether a folder holds a finished run: one that reads logs has results of its training before it has an index."""
    results = folder / "results.json"
    return results.exists() and ("chats" in read_results(results) or not (folder / "pairs").is_dir())


def _suggest_with_base(output: Path, settings: Settings, report: dict[str, Any]) -> dict[str, Any]:
    """Build the index of the replies with the base as it is, and print what adapting needs; returns the results."""
    Run(output).remove()  # whose model would stand beside the index
    splits = load_kind("pairs", str(output / "pairs"))
    pairs = datasets.concatenate_datasets(list(splits.values()))
    encoder = _open_base(settings)
    index = ReplyIndex.build(encoder, pairs["response"][:], pairs["input"][:])
    index.save(output / "replies")
    written, threads = report["pairs"]["written"], report["threads"]["threads"]
    more = math.ceil((FEWEST_PAIRS - written) / (written / threads))
    print(
        f"{written} pairs are too few to adapt a model and to measure it: the index of their replies has the base as "
        f"it is. Adapting needs {FEWEST_PAIRS} pairs, about {more} more conversation{'s' if more > 1 else ''} like "
        "these\n"
    )
    print(f"read      {_describe_pairs(report)}", *_where(output), sep="\n")
    results = {"chats": {"report": report}}
    write_results(output / "results.json", results)
    return results


def _check_language(base: str, pairs: Path) -> list[str]:
    """The language of the pairs, or else those of the base, which may be unknown; warns if both differ."""
    language = find_language(datasets.concatenate_datasets(list(load_kind("pairs", str(pairs)).values())))
    known = backbone.languages() if (backbone := find_backbone(base)) else load_initial_config(base).language
    if warning := describe_mismatch(language, known, base):
        print(f"warning: {warning}", file=sys.stderr)
    return [language] if language else known


def _open_base(settings: Settings) -> Encoder:
    """The base as it is; a pretrained encoder is saved with its new heads, so that an index can name it."""
    base = str(settings.initialize_from)
    if backbone := find_backbone(base):
        model = backbone.build_model(backbone.build_config(settings.model_config))
        base = str(Path(settings.output_dir) / "model")
        model.save_pretrained(base)
        backbone.load_tokenizer().save_pretrained(base)
    return Encoder.from_pretrained(base)


def _run_settings(base: str, folder: Path, license: str | None) -> Settings:
    """The settings of the run that adapts the base to the pairs in its folder: those of the preset `adapt`."""
    words = ["--initialize_from", base, "--pairs", str(folder / "pairs"), "--output_dir", str(folder)]
    words += ["--license", license] if license else []
    if backbone := find_backbone(base):
        words += ["--max_tokens", str(min(MOST_TOKENS, backbone.load_tokenizer().model_max_length))]
    return parse_settings([str(PRESETS / "adapt.yaml"), *words, "--overwrite", "true"])


def _describe_pairs(report: dict[str, Any]) -> str:
    messages = f"{report['messages']['read']:,} messages, " if "messages" in report else ""
    return f"{messages}{report['pairs']['written']:,} pairs in {report['threads']['threads']:,} conversations"


def _where(folder: Path) -> list[str]:
    """The lines on the files, and on what to do next."""
    model = "model/, " if (folder / "model").is_dir() else ""
    return [
        f"files     {folder}: {model}replies/ (the index), pairs/, results.json",
        f"next      convsim demo {shlex.quote(str(folder / 'replies'))} --open",
    ]


@contextmanager
def _without_warnings(name: str) -> Iterator[None]:
    named = logging.getLogger(name)
    level = named.level
    named.setLevel(logging.ERROR)
    try:
        yield
    finally:
        named.setLevel(level)


@contextmanager
def _timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    seconds[step] = round(time.monotonic() - started, 1)
