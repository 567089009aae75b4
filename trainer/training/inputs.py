"""What a run reads: its datasets, its tokenizer, the tasks that train on them, and fingerprints of all of it."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import xxhash
from datasets import Dataset
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from modeling_convsim.encoding.batch_tokenizer import UNLIMITED
from modeling_convsim.files.errors import InputError
from trainer.data.datasets import DATASET_KINDS, RunData, complete_dev_split, leaves, load_run_data, training_texts
from trainer.data.teacher import teacher_content
from trainer.data.token_cache import TokenColumn, token_columns
from trainer.data.tokenizer import Kind, train_tokenizer
from trainer.encoders.protocol import Side
from trainer.processes import first_on_each_machine, share, wait_for_all
from trainer.runs import Run, RunContext
from trainer.settings import Settings, trained_tasks
from trainer.tasks import TASKS, Task, TaskInputs
from trainer.tasks.encoding import load_score_teachers
from trainer.training.backbone import find_backbone
from trainer.training.model import initial_prompts, load_pretrained

SIDES: dict[str, Side] = {"input": "query", "response": "response"}  # of columns; the side of the others is "input"


def load_inputs(context: RunContext) -> tuple[RunData, PreTrainedTokenizerFast, dict[str, Task]]:
    """Load the datasets and the tokenizer, and build the tasks. Every process must call this.

    The first process of each machine fills the caches on its disk, the others read them.

    Raises:
        InputError: a dataset or the tokenizer cannot be used, or a dataset lacks what a task needs.
    """
    settings, is_main = context.settings, context.accelerator.is_main_process
    with first_on_each_machine():
        data = load_run_data(settings)
        if data.of_kind("pairs"):
            complete_dev_split(data)
    tokenizer = build_tokenizer(settings, data) if is_main else None
    wait_for_all()
    tokenizer = cast(PreTrainedTokenizerFast, share(tokenizer))
    with first_on_each_machine():
        return data, tokenizer, build_tasks(settings, data, tokenizer, is_main)


def build_tasks(
    settings: Settings, data: RunData, tokenizer: PreTrainedTokenizerFast, show_progress: bool
) -> dict[str, Task]:
    """Build the tasks that some step may sample, with token ids from the cache.

    Raises:
        InputError: a dataset lacks what a task needs.
    """
    prompts = initial_prompts(settings)

    def tokenize(rows: Dataset, columns: list[str]) -> dict[str, TokenColumn]:
        cache_dir, own = Path(settings.cache_dir), {column: prompts[SIDES.get(column, "input")] for column in columns}
        return token_columns(rows, columns, tokenizer, cache_dir, settings.max_tokens, show_progress, own)

    teachers = load_score_teachers(settings.score_teachers, tokenizer) if settings.score_teachers else None
    inputs = TaskInputs(data, tokenizer, tokenize, teachers)
    tasks: dict[str, Task] = {}
    for name in trained_tasks(vars(settings)):
        task = TASKS[name]
        for kind in task.datasets:
            if DATASET_KINDS[kind].is_joined and not data.of_kind(kind):
                raise InputError(f"{kind}: no training split, which the task {name} needs")
        tasks |= task.build(settings, inputs)
    return tasks


def build_tokenizer(settings: Settings, data: RunData) -> PreTrainedTokenizerFast:
    """Load the tokenizer of `tokenizer`, `initialize_from` or a resumed run, or train one on the training texts.

    Raises:
        InputError: it cannot be loaded, or `tokenizer` differs from that of the model in `initialize_from`.
    """
    if settings.initialize_from and (backbone := find_backbone(settings.initialize_from)):
        if settings.tokenizer:
            raise InputError(f"tokenizer: leave it out; the encoder in initialize_from, {backbone.source}, has its own")
        tokenizer = backbone.load_tokenizer()
    elif settings.tokenizer:
        tokenizer = load_pretrained(AutoTokenizer, settings.tokenizer, "tokenizer")
        if settings.initialize_from:
            _require_same(tokenizer, settings.tokenizer, settings.initialize_from)
    elif settings.initialize_from:
        tokenizer = load_pretrained(AutoTokenizer, settings.initialize_from, "initialize_from")
    elif settings.resume:
        tokenizer = load_pretrained(AutoTokenizer, str(Run(Path(settings.output_dir)).tokenizer), "resume")
    else:
        trained = train_tokenizer(
            training_texts(data), cast(Kind, settings.tokenizer_kind), settings.vocab_size, settings.min_count
        )
        with TemporaryDirectory(prefix="convsim-") as folder:  # read back, so that a resumed run has the same object
            trained.save_pretrained(folder)
            tokenizer = load_pretrained(AutoTokenizer, folder, "tokenizer")
    tokenizer.model_max_length = settings.max_tokens or UNLIMITED
    return tokenizer


def _require_same(tokenizer: PreTrainedTokenizerFast, source: str, model: str) -> None:
    if Path(model).is_dir() and not Path(model, "tokenizer.json").is_file():
        return  # the weights of a model whose tokenizer is elsewhere
    own = load_pretrained(AutoTokenizer, model, "initialize_from")
    if own.get_vocab() != tokenizer.get_vocab():
        raise InputError(
            f"tokenizer is {source} ({len(tokenizer):,} entries), which differs from that of the model in "
            f"initialize_from, {model} ({len(own):,} entries): use the tokenizer that the model was trained with "
            "(leave out tokenizer, or set --tokenizer none)"
        )


BATCH = 10_000


def fingerprint_inputs(data: RunData, tokenizer: PreTrainedTokenizerFast, settings: Settings) -> dict[str, str]:
    """Return the fingerprint of each dataset, split by split, of the tokenizer, and of each teacher of a task.

    It depends on the rows that the run reads, not on names, dates or formats of files. Reading them takes a fraction of
    the time in which the token cache looks them up.
    """
    teachers = {f"score teacher {number}": source for number, source in enumerate(settings.score_teachers, start=1)}
    teachers |= {"teacher": settings.teacher} if settings.teacher else {}
    prints = {f"training data of {name}": fingerprint_rows(rows) for name, rows in data.training.items()}
    for name, splits in data.evaluation.items():
        prints |= {f"{name} ({split})": fingerprint_rows(rows) for split, rows in leaves(splits)}
    prints["tokenizer"] = xxhash.xxh3_128_hexdigest(tokenizer.backend_tokenizer.to_str().encode())
    return prints | {name: teacher_content(source) for name, source in teachers.items()}


def find_changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names whose fingerprints differ, or that are in only one of the two."""
    return sorted(name for name in {**before, **now} if before.get(name) != now.get(name))


def fingerprint_rows(rows: Dataset) -> str:
    """A hash of the rows of a dataset and of the types of its columns."""
    digest = xxhash.xxh3_128(f"{len(rows)} {rows.features}".encode())
    for table in rows.with_format("arrow").iter(batch_size=BATCH):
        # The stream format omits values outside a slice, so equal rows have equal bytes.
        for batch in table.combine_chunks().to_batches():
            digest.update(batch.serialize())
    return digest.hexdigest()
