import multiprocessing
import os
import signal
import time
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from functools import partial
from multiprocessing.context import SpawnProcess
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from modeling_convsim.encoding import Encoder, parallel
from modeling_convsim.encoding import encoder as encoder_module
from modeling_convsim.encoding.__main__ import main
from tests.modeling_convsim.tiny_models import build


def test_a_killed_process_is_a_clear_exception_and_one_line(tiny_tokenizer, tmp_path, monkeypatch, capsys):
    def fail(*_: object) -> None:
        raise BrokenProcessPool("A process in the process pool was terminated abruptly")

    model = build("dan_best")
    model.save_pretrained(tmp_path / "model")
    tiny_tokenizer.save_pretrained(tmp_path / "model")
    monkeypatch.setattr(parallel, "_map_in_order", fail)
    with pytest.raises(ChildProcessError, match="one of 2 encoding processes was killed"):
        Encoder(model, tiny_tokenizer).encode(["the dog"], processes=2)
    (tmp_path / "texts.txt").write_text("the dog\n")
    command = [tmp_path / "model", tmp_path / "texts.txt", "-o", tmp_path / "out.npy", "--processes", 2]
    capsys.readouterr()
    assert main([str(word) for word in command]) == 2
    assert "error: one of 2 encoding processes was killed" in capsys.readouterr().err
    assert not (tmp_path / "out.npy").exists()


class Executor:
    """Computes what is submitted at once; records it, and whether the rest is canceled."""

    def __init__(self, *options: Any) -> None:
        self.options, self.submitted, self.cancels = options, [], False

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, function: Any, window: list[str]) -> Future:
        self.submitted.append(window)
        future: Any = SimpleNamespace(result=lambda: function(window))
        return future

    def shutdown(self, cancel_futures: bool) -> None:
        self.cancels = cancel_futures


def test_windows_are_submitted_a_few_ahead_and_canceled_if_the_caller_stops():
    windows = [[str(number)] for number in range(7)]
    executor = Executor()
    found = parallel._map_in_order(executor, lambda window: np.array(window), iter(windows), 2)
    assert next(found).tolist() == ["0"] and executor.submitted == windows[:3]
    assert next(found).tolist() == ["1"] and executor.submitted == windows[:4]
    assert not executor.cancels
    found.close()
    assert executor.cancels and executor.submitted == windows[:4]
    executor = Executor()
    assert [part.tolist() for part in parallel._map_in_order(executor, np.array, iter(windows), 2)] == windows


def encode_or_fail(window: list[str]) -> np.ndarray:
    if window == ["broken"]:
        raise ValueError("broken")
    if window == ["killed"]:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    return np.array(window)


@pytest.mark.timeout(200)
@pytest.mark.parametrize(("first", "error"), [([], BrokenProcessPool), (["broken"], ValueError)])
def test_a_process_that_is_lost_after_an_error_does_not_keep_the_others_waiting(first, error):
    windows = [[text] for text in [*first, "killed", "c", "d", "e"]]
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as executor, pytest.raises(error):
        list(parallel._map_in_order(executor, encode_or_fail, iter(windows), 5))


@pytest.mark.parametrize(
    ("threads", "windows", "ahead"), [(1, 5, None), (2, 1, None), (2, 0, None), (2, 2, 4), (3, 9, 6)]
)
def test_threads_are_started_for_several_windows_alone(monkeypatch, threads, windows, ahead):
    calls = []
    in_order = parallel._map_in_order
    monkeypatch.setattr(
        parallel, "_map_in_order", lambda *arguments: calls.append(arguments[-1]) or in_order(*arguments)
    )
    texts = [[str(number)] for number in range(windows)]
    encode = partial(np.asarray, dtype=float)
    found = [part.tolist() for part in parallel.encode_in_threads(encode, iter(texts), threads)]
    assert found == [[number] for number in range(windows)] and calls == ([ahead] if ahead else [])


@pytest.mark.parametrize(("before", "within"), [(None, "false"), ("true", "true"), ("false", "false")])
def test_the_setting_of_the_tokenizers_library_is_kept_or_restored(monkeypatch, before, within):
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    if before:
        monkeypatch.setenv("TOKENIZERS_PARALLELISM", before)
    with parallel._without_tokenizer_threads():
        assert os.environ["TOKENIZERS_PARALLELISM"] == within
    assert os.environ.get("TOKENIZERS_PARALLELISM") == before


@pytest.mark.parametrize(("device", "is_shared"), [("cpu", True), ("cuda", False)])
@pytest.mark.parametrize(("threads", "processes", "share"), [(8, 3, 2), (2, 4, 1)])
def test_processes_share_the_threads_and_the_model(monkeypatch, device, is_shared, threads, processes, share):
    started, shared = [], []

    def start(*options: Any) -> Executor:
        started.append(options)
        return Executor(*options)

    context = SimpleNamespace(Value=lambda kind, value: (kind, value))
    monkeypatch.setattr(parallel, "ProcessPoolExecutor", start)
    monkeypatch.setattr(parallel, "_Context", lambda: context)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(parallel, "_encode_in_process", lambda texts, options: np.array([(*texts, *options)]))
    model: Any = SimpleNamespace(device=torch.device(device), share_memory=lambda: shared.append(True))
    found = parallel.encode_in_processes("maker", model, [["a"], ["b"]], ("input", 7), processes)  # type: ignore[arg-type]
    assert [part.tolist() for part in found] == [[["a", "input", "7"]], [["b", "input", "7"]]]
    assert started == [(processes, context, parallel._start_process, ("maker", model, ("i", 0), share))]
    assert shared == [True] * is_shared


def test_a_process_takes_the_next_gpu_and_its_share_of_threads(monkeypatch):
    events: list[Any] = []
    monkeypatch.setattr(parallel.signal, "signal", lambda *arguments: events.append(arguments))
    monkeypatch.setattr(torch, "set_num_threads", events.append)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(parallel, "_process_encoder", None, raising=False)
    counter = SimpleNamespace(value=0, get_lock=nullcontext)
    devices: list[str] = []
    model: Any = SimpleNamespace(device=torch.device("cuda"), to=devices.append)
    for _ in range(3):
        parallel._start_process(lambda model: ("encoder", model), model, counter, 5)  # type: ignore[arg-type, return-value]
    assert devices == ["cuda:0", "cuda:1", "cuda:0"] and parallel._process_encoder == ("encoder", model)
    assert events[:2] == [(parallel.signal.SIGINT, parallel.signal.SIG_IGN), 5]
    model.device = torch.device("cpu")
    parallel._start_process(lambda model: None, model, counter, 1)  # type: ignore[arg-type, return-value]
    assert len(devices) == 3 and parallel._process_encoder is None


def test_a_process_joins_the_parts_of_its_window(monkeypatch):
    calls = []

    def stream(texts: list[str], *options: Any) -> Any:
        calls.append((texts, options))
        yield from (np.array([[len(text)]]) for text in texts)

    monkeypatch.setattr(parallel, "_process_encoder", SimpleNamespace(stream=stream), raising=False)
    assert parallel._encode_in_process(["a", "bcd"], ("input", 7)).tolist() == [[1], [3]]
    assert calls == [(["a", "bcd"], ("input", 7))]


def test_progress_is_shown_on_request(monkeypatch, tiny_tokenizer):
    shown, bar = [], encoder_module.tqdm
    monkeypatch.setattr(
        encoder_module,
        "tqdm",
        lambda **options: shown.append((options["total"], not options["disable"])) or bar(disable=True),
    )
    encoder = Encoder(build("dan_best"), tiny_tokenizer)
    for texts, count in ((["the dog", "hello"] * 40, 80), (iter(["the dog"]), None)):
        encoder.encode(texts)
        encoder.encode(["a", "b", "c"] * 30, show_progress=True)
        assert list(encoder.stream(["a"], show_progress=True)) and list(encoder.stream(["a"]))
        assert shown == [(count, False), (90, True), (1, True), (1, False)]
        shown.clear()
    encoder.encode(["a"], show_progress=True)  # done before a bar could be seen
    assert not shown


@pytest.mark.parametrize(
    ("kind", "batch_size", "size"),
    [("dan_best", None, 1024), ("dan_best", 5, 5), ("bilstm", None, 16 * 128), ("bilstm", 5, 80)],
)
def test_a_worker_takes_one_batch_or_sorts_several_of_an_encoder_that_pads(
    monkeypatch, tiny_tokenizer, kind, batch_size, size
):
    encoder, windows = Encoder(build(kind), tiny_tokenizer), []
    split = parallel.split_windows
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(
        "modeling_convsim.encoding.encoder.split_windows",
        lambda texts, size, workers: windows.append((size, workers)) or split(texts, size, workers),
    )
    monkeypatch.setattr(
        "modeling_convsim.encoding.encoder.encode_in_threads", lambda encode, parts, threads: map(encode, parts)
    )
    encoder.encode(["the dog", "hello"] * 33, batch_size=batch_size)
    assert windows == [(size, 3)]
    encoder.encode(["the dog", "hello"] * 32, batch_size=batch_size)  # too few for a second thread
    assert windows == [(size, 3)]


def test_an_interrupt_does_not_reach_a_process_that_starts(monkeypatch):
    masks = list[set[signal.Signals]]()
    monkeypatch.setattr(
        SpawnProcess, "start", lambda process: masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))
    )
    parallel._Context().Process(target=len).start()
    masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))
    assert [signal.SIGINT in mask for mask in masks] == [True, False]  # a process inherits the first one
