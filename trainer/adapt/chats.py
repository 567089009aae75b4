"""All steps from chat logs to an adapted model, a comparison with other models, and an index of replies."""

import math
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import datasets

from data_scripts.chats.conversations import ConversationOptions, prepare_conversations
from data_scripts.loading import load_pairs
from modeling_convsim.encoding import Encoder
from modeling_convsim.encoding.loading import find_folder
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.folders import write_record
from modeling_convsim.files.storage import check_own_text, is_url, make_folder
from modeling_convsim.shipped import base_model, resolve_base
from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.estimate import ACCURACY, Estimator, review_pairs
from modeling_convsim.suggestion.ratings import RATINGS, REVIEW, is_ratings, last_ratings, read_ratings
from modeling_convsim.suggestion.storage import check_index_folder
from trainer.adapt.adaptation import adapt
from trainer.adapt.comparison import ADAPTED, compare, describe_outcome, format_comparison, load_peer
from trainer.adapt.language import describe_mismatch, find_language
from trainer.adapt.replies import README_START, build_index, format_examples, summarize, write_readme
from trainer.adapt.suggestions import suggest_held_out
from trainer.evaluation.results import update_results, write_results
from trainer.publish.upload import write_run_card
from trainer.runs import KIND, Run
from trainer.settings import PRESETS, Settings, parse_settings
from trainer.training.backbone import find_backbone
from trainer.training.model import load_initial_config

MOST_TOKENS = 256  # maximum text length for pretrained encoders
FEWEST_PAIRS = 50  # minimum for adapting


def adapt_to_chats(
    files: Sequence[Path],
    options: ConversationOptions,
    output: Path,
    base: str | None = None,
    peer: str | None = None,
) -> dict[str, Any]:
    """Convert chat logs to pairs, adapt the base to them, compare, index the replies, and print the results.

    With fewer than 50 pairs, no model is adapted: the index of replies uses the unchanged base.

    A call that was interrupted before it had a model is repeated from the start.

    Args:
        files: the logs, and files of ratings; replies rated "send" there, or in a run in `output`, are training data.
        options: how to read the logs; `license` is the model's, and `overwrite` replaces an earlier run.
        output: the folder of the run.
        base: folder or Hub id of a multitask model or of any pretrained text encoder; by default `base`.
        peer: a model for comparison (see `load_encoder`); by default all-MiniLM-L6-v2, if it is installed.

    Returns:
        The contents of results.json.

    Raises:
        InputError: a file, an option or the base is not usable, or no pairs are left.
    """
    if is_url(output):
        raise InputError(f"--output {output}: a URL, expected a folder on a disk")
    Run(output).check_replaceable(options.overwrite, "output", "delete and replace the run there with --overwrite")
    check_own_text(output / "README.md", README_START)
    check_index_folder(output / "replies")
    make_folder(output)
    write_record(output, KIND)
    settings = _run_settings(choose_base(base), output, options.license)
    given = [path for path in files if path.suffix == ".jsonl" and is_ratings(path)]
    earlier = [path for path in [output / "replies" / RATINGS] if path.is_file()]
    ratings = last_ratings(chain.from_iterable(map(read_ratings, [*earlier, *given])))
    files = [path for path in files if path not in given]
    datasets.disable_progress_bars()  # reading the pairs takes a moment
    options = replace(options, overwrite=True, repliers=options.repliers or [])  # without names: the side that answers
    report = prepare_conversations(files, options, output / "pairs", show=False)
    pairs = datasets.concatenate_datasets(list(load_pairs(str(output / "pairs")).values()))
    settings.language = _check_language(str(settings.initialize_from), pairs) or settings.language
    if report["pairs"]["written"] < FEWEST_PAIRS:
        return _suggest_with_base(output, settings, report, pairs)
    peers = load_peer(peer)
    adapted = adapt(settings, _own_base(settings), ratings)
    estimator = Estimator(adapted.judge, adapted.pairs["train"]["response"][:])
    suggested = suggest_held_out(adapted.trials, adapted.choice.trial_encoders, estimator)
    index = build_index(output, adapted, suggested)
    comparison = compare(adapted, suggested, estimator, peers)
    results = adapted.results
    sent = f", {results['sent']['added']:,} pairs from ratings" if ratings else ""
    lines = [f"read {_describe_pairs(report)}{sent}; {describe_outcome(results)}", *format_comparison(comparison)]
    lines += [ACCURACY, *format_examples(index)]
    results = {
        "response_prediction": comparison[ADAPTED],
        "baselines": {name: {"response_prediction": part} for name, part in comparison.items() if name != ADAPTED},
        "chats": {"report": report, "suggestions": summarize(suggested, index), "printed": lines},
    }
    update_results(output / "results.json", results)
    write_run_card(output)
    results = Run(output).results
    write_readme(output, results, lines)
    print(*lines, *_next(output), sep="\n")
    return results


def choose_base(given: str | None) -> str:
    """The folder or Hub id of the given model, or of the base.

    Raises:
        InputError: there is no base, or the model cannot be loaded, or is neither a multitask model nor a text encoder.
    """
    base = resolve_base(given or "base")
    if find_backbone(base) is None:
        load_initial_config(base, "--base")
    return base


def _own_base(settings: Settings) -> str | None:
    """The project's own base, if another encoder is adapted and the base knows the language of the messages."""
    if find_backbone(str(settings.initialize_from)):
        own = base_model()
        if set(settings.language) & set(load_initial_config(own).language):
            return own
    return None


def _suggest_with_base(
    output: Path, settings: Settings, report: dict[str, Any], pairs: datasets.Dataset
) -> dict[str, Any]:
    """Build the index of the replies with the unchanged base, and print how much more adapting needs."""
    Run(output).delete()  # otherwise, its model would remain beside the index
    index = ReplyIndex.build(_save_base(settings), pairs["response"][:], pairs["input"][:])
    review_pairs(index)
    index.save(output / "replies")
    written, threads = report["pairs"]["written"], report["threads"]["threads"]
    more = math.ceil((FEWEST_PAIRS - written) / (written / threads))
    lines = [
        f"read {_describe_pairs(report)}",
        f"{written} pairs are too few to adapt and evaluate a model: the index of replies uses the unchanged base. "
        f"Adapting needs {FEWEST_PAIRS} pairs, about {more} more conversation{'s' if more > 1 else ''} like these",
    ]
    results = {"chats": {"report": report, "printed": lines}}
    write_results(output / "results.json", results)
    print(*lines, *_next(output), sep="\n")
    return results


def _check_language(base: str, pairs: datasets.Dataset) -> list[str]:
    """The language of the pairs if it is detected, else the languages of the base; warns if they do not match."""
    language = find_language(pairs)
    known = backbone.languages() if (backbone := find_backbone(base)) else load_initial_config(base).language
    if warning := describe_mismatch(language, known, base):
        print(f"warning: {warning}", file=sys.stderr)
    return [language] if language else known


def _save_base(settings: Settings) -> Encoder:
    """The unchanged base, which is copied to the run's folder."""
    base, folder = str(settings.initialize_from), Path(settings.output_dir) / "model"
    if backbone := find_backbone(base):  # it gets new heads
        model = backbone.build_model(backbone.build_config(settings.model_config))
        model.save_pretrained(folder)
        backbone.load_tokenizer().save_pretrained(folder)
    else:
        shutil.copytree(find_folder(base), folder)
    return Encoder.from_pretrained(str(folder))


def _run_settings(base: str, folder: Path, license: str | None) -> Settings:
    """The settings of the run that adapts the base to the pairs in its folder, from the preset `adapt`."""
    words = ["--initialize_from", base, "--pairs", str(folder / "pairs"), "--output_dir", str(folder)]
    words += ["--license", license] if license else []
    if backbone := find_backbone(base):
        words += ["--max_tokens", str(min(MOST_TOKENS, backbone.load_tokenizer().model_max_length))]
    return parse_settings([str(PRESETS / "adapt.yaml"), *words, "--overwrite", "true"])


def _describe_pairs(report: dict[str, Any]) -> str:
    messages = f"{report['messages']['read']:,} messages, " if "messages" in report else ""
    return f"{messages}{report['pairs']['written']:,} pairs in {report['threads']['threads']:,} conversations"


def _next(folder: Path) -> list[str]:
    """The lines about what to do next."""
    run = shlex.quote(str(folder))
    review = [f"convsim review {run}   rate suggestions: 30 ratings calibrate the probabilities"]
    files = ", ".join(sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")))
    return [
        *(review if (folder / "replies" / REVIEW).is_file() else []),
        f"convsim suggest {run} TEXT   suggest replies; in a browser: convsim demo {run} --open",
        f"in {run}: {files}",
    ]
