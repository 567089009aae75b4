"""The hardware of a run: device, precision, number of threads, and encoding speed."""

import copy
import functools
import itertools
import logging
import os
import time
from argparse import ArgumentTypeError

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs, PartialState
from transformers import PreTrainedTokenizerFast

from data_scripts.files.command_line import LARGEST, whole_number
from data_scripts.files.errors import InputError
from data_scripts.sample import read_nli
from modeling_convsim.encoding import Encoder
from modeling_convsim.encoding.loading import has_fast_bfloat16
from modeling_convsim.modeling_base import ConvSimEncoder
from trainer.arguments import Arguments
from trainer.distributed import share

# What `accelerate launch` or its configuration may ask for and a run does not use.
SHARDED = "shard the layers with --sharded true"
UNSUPPORTED_LAUNCHES = {  # variable -> name, the value that asks for nothing, remedy
    "ACCELERATE_USE_DEEPSPEED": ("DeepSpeed", "false", SHARDED),
    "ACCELERATE_USE_FSDP": ("FSDP", "false", SHARDED),
    "ACCELERATE_USE_MEGATRON_LM": ("Megatron-LM", "false", SHARDED),
    "ACCELERATE_USE_PARALLELISM_CONFIG": ("a parallelism config", "false", SHARDED),
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": (
        "gradient accumulation",
        "1",
        "set mini_batch_size instead",
    ),
    "ACCELERATE_DYNAMO_BACKEND": ("torch.compile", "no", "packed batches differ in shape, so drop dynamo_config"),
}
# Of torchrun and of the implementations of MPI.
WORLD_SIZES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
RANKS = ("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")
SPEED_SENTENCES = 512
SPEED_SECONDS = 1.0  # time budget for measuring the speed of a model

logger = logging.getLogger(__name__)


def start_processes(arguments: Arguments) -> bool:
    """Start the communication between the processes of a run; return whether they compute on the CPU.

    It exchanges nothing yet: the settings of the processes may differ. A second call changes nothing.

    Raises:
        InputError: the device is not available, or Accelerate is configured for something that a run does not do.
    """
    _refuse_unsupported_launch(arguments.mixed_precision)
    has_gpu, launched_on_cpu = torch.cuda.is_available(), _is_set("ACCELERATE_USE_CPU")
    if arguments.device == "cuda" and not has_gpu:
        raise InputError("device is cuda, but torch finds no GPU: use --device cpu, or install a torch build with CUDA")
    if arguments.device == "cuda" and launched_on_cpu:
        raise InputError(
            "device is cuda, but Accelerate is configured for the CPU (use_cpu): give both the same device"
        )
    cpu = arguments.device == "cpu" or launched_on_cpu or not has_gpu
    _check_ranks()
    try:
        PartialState(cpu=cpu)
    except (ValueError, RuntimeError) as error:  # a variable is wrong, or the other processes cannot be reached
        if "EADDRINUSE" in str(error):
            port = os.environ.get("MASTER_PORT")
            remedy = "end it, or launch with another --main_process_port"
            raise InputError(f"MASTER_PORT {port}: another process listens there already; {remedy}") from error
        raise InputError(
            f"the processes of the run could not be started ({str(error).splitlines()[0]}): check the environment "
            "variables of the launcher (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), or use `accelerate launch`"
        ) from error
    return cpu


def _check_ranks() -> None:
    """Refuse environment variables of a launcher that are not the numbers that it sets."""
    _number_in("MASTER_PORT", 0, 2**16 - 1)
    _number_in("LOCAL_WORLD_SIZE", 1)  # which Accelerate sets to 1 where a launcher sets only LOCAL_RANK
    _number_in("LOCAL_RANK", -1)
    for size_name, rank_name in zip(WORLD_SIZES, RANKS, strict=True):
        size, rank = _number_in(size_name, 1), _number_in(rank_name, -1)  # -1: not one of several
        if size is not None and rank is not None and rank >= size:
            raise InputError(
                f"environment variable {rank_name}: {rank}, but {size_name} is {size}, and ranks count from 0: unset "
                "both, or use `accelerate launch`, which sets them"
            )


def _number_in(variable: str, minimum: int, maximum: int = LARGEST) -> int | None:
    """The whole number in an environment variable; None if it is not set."""
    try:
        return whole_number(minimum, maximum)(os.environ[variable]) if os.environ.get(variable) else None
    except ArgumentTypeError as error:
        remedy = "unset it, or use `accelerate launch`, which sets it"
        raise InputError(f"environment variable {variable}: {error}; {remedy}") from None


def start_accelerator(arguments: Arguments, resumed_precision: str | None = None) -> Accelerator:
    """Start Accelerate with the settings of the run and of `accelerate launch`.

    Args:
        arguments: the settings.
        resumed_precision: the precision of the run before it was interrupted; `mixed_precision: auto` keeps it.

    Raises:
        InputError: the device, the precision, a tracker or the number of processes is not available, or Accelerate is
            configured for something that a run does not do.
    """
    cpu = start_processes(arguments)
    trackers = [tracker for tracker in arguments.trackers if tracker != "none"]
    mixed_precision = arguments.mixed_precision
    if mixed_precision == "auto":
        mixed_precision = _choose_precision(cpu, resumed_precision)
    if mixed_precision not in ("no", "bf16"):
        raise InputError(f"mixed_precision of `accelerate launch` is {mixed_precision}; expected no or bf16")
    try:
        accelerator = Accelerator(
            cpu=cpu,
            mixed_precision=mixed_precision,
            log_with=trackers or None,
            project_dir=arguments.output_dir,
            # In each step, the heads of the other tasks have no gradient. Training changes no buffer.
            kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True, broadcast_buffers=False)],
        )
    except ValueError as error:
        raise InputError(f"Accelerate refused the settings (trackers, mixed_precision): {error}") from None
    expected = arguments.num_processes
    if expected is not None and expected != accelerator.num_processes:
        raise InputError(
            f"num_processes is {expected}, but the run has {accelerator.num_processes}: on CPU launch with "
            f"`accelerate launch --multi_gpu --num_processes {expected} --mixed_precision no --dynamo_backend no …`"
        )
    return accelerator


def _refuse_unsupported_launch(mixed_precision: str) -> None:
    """Refuse what Accelerate is configured for and a run with this option `mixed_precision` would ignore."""
    for variable, (name, neutral, remedy) in UNSUPPORTED_LAUNCHES.items():
        if (os.environ.get(variable) or neutral).lower() != neutral:
            raise InputError(
                f"Accelerate is configured for {name} ({variable} is {os.environ[variable]}), which a run does not "
                f"use: {remedy}, and launch with `accelerate launch --multi_gpu …` or another --config_file"
            )
    launched = os.environ.get("ACCELERATE_MIXED_PRECISION") or "no"
    if "no" != launched != mixed_precision != "auto":
        raise InputError(
            f"mixed_precision is {mixed_precision}, but Accelerate is configured for {launched}: give both the same, "
            "or set mixed_precision to auto"
        )
    # Accelerate's launcher of one process, with --num_processes above 1: it expects that mpirun starts the others.
    is_alone = "MASTER_ADDR" in os.environ and not any(name in os.environ for name in WORLD_SIZES)
    if _is_set("ACCELERATE_USE_CPU") and is_alone:
        raise InputError(
            "Accelerate is configured for several processes on CPUs (MULTI_CPU), of which it starts one: launch with "
            "`accelerate launch --multi_gpu --num_processes N --mixed_precision no --dynamo_backend no …`, which works "
            "without GPUs"
        )


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "false").lower() in ("true", "1", "yes")


def _choose_precision(cpu: bool, resumed: str | None) -> str:
    """Return the precision of the resumed run, or that given to `accelerate launch`, or what is fast.

    That is bfloat16 if the main process's device computes it fast.
    """
    state = PartialState(cpu=cpu)
    if resumed := share(resumed):  # other machines may not see the run's folder
        return resumed
    launched = os.environ.get("ACCELERATE_MIXED_PRECISION", "no")
    if launched != "no":
        return launched
    is_fast, reason = has_fast_bfloat16(state.device) if state.is_main_process else (False, "")
    if is_fast:
        logger.info("computing in bfloat16 (mixed precision): %s", reason)
    return "bf16" if share(is_fast) else "no"


def available_threads() -> int:
    """Return the number of threads that torch may use: the environment's, or this process's share of the cores."""
    allowed = torch.get_num_threads()
    # `accelerate launch` sets OMP_NUM_THREADS=1 for every process unless the user has set it.
    if allowed == 1 and "ACCELERATE_MIXED_PRECISION" in os.environ:
        local = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
        return max(len(os.sched_getaffinity(0)) // local, 1) if hasattr(os, "sched_getaffinity") else allowed
    return allowed


def measure_speed(model: ConvSimEncoder, tokenizer: PreTrainedTokenizerFast) -> dict[str, float]:
    """Measure how many sentences per second a model encodes on the CPU; return the entries of results.json.

    The model computes in float32, and the time includes tokenization. The sentences are those of the shipped sample
    dataset, so that models can be compared; the fastest pass counts. A slow model encodes fewer sentences, so that the
    measurement takes about a second. The model does not change.
    """
    texts = _speed_sentences()
    model = copy.deepcopy(model).cpu().float()
    encoder = Encoder(model, tokenizer)
    rate, left = 0.0, SPEED_SECONDS
    for count in (1, 8, 64, len(texts), len(texts), len(texts)):
        if rate and count / rate > left:
            break
        started = time.perf_counter()
        encoder.encode(texts[:count])
        seconds = time.perf_counter() - started
        rate, left = max(rate, count / seconds), left - seconds
    return {"sentences_per_second": round(rate, 1), "speed_threads": torch.get_num_threads()}


@functools.cache
def _speed_sentences() -> list[str]:
    rows = read_nli().select(["premise", "hypothesis"]).to_pylist()
    texts: list[str] = []
    for premise, examples in itertools.groupby(rows, key=lambda row: row["premise"]):
        texts += [premise, *(row["hypothesis"] for row in examples)]
    return texts[:: len(texts) // SPEED_SENTENCES][:SPEED_SENTENCES]
