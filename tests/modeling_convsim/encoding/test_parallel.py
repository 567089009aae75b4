"""Threads and processes that share the texts."""

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from itertools import chain
from multiprocessing.context import SpawnProcess
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from modeling_convsim.encoding import Encoder, parallel
from modeling_convsim.encoding.__main__ import main
from modeling_convsim.encoding.batch_tokenizer import TextError
from modeling_convsim.encoding.parallel import single_threaded_pool, split_windows
from modeling_convsim.encoding.text_files import write_vectors
from tests.modeling_convsim.encoding.test_encoder import TEXTS
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


@pytest.fixture
def encoder(tiny_tokenizer) -> Encoder:
    return Encoder(build("dan_best"), tiny_tokenizer)


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


def test_too_little_shared_memory_is_named_with_the_remedy(encoder, monkeypatch, tmp_path):
    def full(model: torch.nn.Module) -> None:
        raise RuntimeError("unable to allocate shared memory(shm) for file </torch_1>: No space left on device (28)")

    monkeypatch.setattr(type(encoder.model), "share_memory", full)
    with pytest.raises(ChildProcessError, match=r"shared memory of 2 encoding processes .*: use one process"):
        encoder.encode(["hello"], processes=2)
    with pytest.raises(ChildProcessError, match="use one process"):  # and not that the output's disk is full
        write_vectors(tmp_path / "v.npy", ["hello"], lambda texts: encoder.stream(texts, processes=2))
    assert not any(tmp_path.iterdir())


def test_a_process_takes_the_next_gpu_and_its_share_of_threads(monkeypatch):
    events: list[Any] = []
    monkeypatch.setattr(parallel, "end_with_parent", lambda: events.append("ends with its parent"))
    monkeypatch.setattr(torch, "set_num_threads", events.append)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(parallel, "_process_encoder", None, raising=False)
    counter = SimpleNamespace(value=0, get_lock=nullcontext)
    devices: list[str] = []
    model: Any = SimpleNamespace(device=torch.device("cuda"), to=devices.append)
    for _ in range(3):
        parallel._start_process(lambda model: ("encoder", model), model, counter, 5)  # type: ignore[arg-type, return-value]
    assert devices == ["cuda:0", "cuda:1", "cuda:0"] and parallel._process_encoder == ("encoder", model)
    assert events[:2] == ["ends with its parent", 5]
    model.device = torch.device("cpu")
    parallel._start_process(lambda model: None, model, counter, 1)  # type: ignore[arg-type, return-value]
    assert len(devices) == 3 and parallel._process_encoder is None


def test_an_interrupt_does_not_reach_a_process_that_starts(monkeypatch):
    masks = list[set[signal.Signals]]()
    monkeypatch.setattr(
        SpawnProcess, "start", lambda process: masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))
    )
    parallel._Context().Process(target=len).start()
    masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))
    assert [signal.SIGINT in mask for mask in masks] == [True, False]  # a process inherits the first one


def test_a_thread_that_cannot_be_started_is_an_error(monkeypatch):
    """And those that have started do not wait for it forever."""
    start, started = threading.Thread.start, []

    def start_all_but_the_second(thread: threading.Thread) -> None:
        if thread.name.endswith("_1"):
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_all_but_the_second)
    with pytest.raises(RuntimeError, match="can't start new thread"), single_threaded_pool(3):
        pass
    assert not any(thread.is_alive() for thread in started)


@pytest.mark.parametrize(
    ("count", "size", "workers", "lengths"),
    [
        (0, 100, 4, []),
        (10, 100, 4, [10]),
        (200, 100, 4, [64, 64, 64, 8]),
        (300, 100, 4, [75, 75, 75, 75]),
        (399, 100, 4, [100, 100, 100, 99]),
        (450, 100, 4, [100, 100, 100, 100, 50]),
        (10, 4, 2, [4, 4, 2]),
    ],
)
def test_few_texts_are_divided_among_all_workers(count, size, workers, lengths):
    texts = [str(number) for number in range(count)]
    for source in (texts, iter(texts)):
        windows = list(split_windows(source, size, workers))
        assert [len(window) for window in windows] == lengths and [*chain(*windows)] == texts


def test_processes_get_equal_shares_of_few_texts(encoder, monkeypatch):
    shares = []

    def in_this_process(make_encoder, model, windows, options, processes):
        for window in windows:
            shares.append(len(window))
            yield np.concatenate(list(make_encoder(model).stream(window, *options)))

    monkeypatch.setattr("modeling_convsim.encoding.encoder.encode_in_processes", in_this_process)
    vectors = encoder.encode(TEXTS * 100, processes=3)
    assert shares == [234, 234, 232]
    np.testing.assert_allclose(vectors, encoder.encode(TEXTS * 100), atol=1e-6)
    with pytest.raises(TextError, match=r"^texts\[525\] is None"):  # counted from the first text, not from the share's
        encoder.encode([*TEXTS * 75, None, *TEXTS * 25], processes=3)


def test_the_next_window_is_started_before_a_gpu_is_waited_for(encoder):
    windows = [TEXTS * 7, TEXTS[:3], [], TEXTS * 2]
    read = []
    parts = encoder._encode_ahead((read.append(window) or window for window in windows), "input", batch_size=4)
    first = next(parts)
    assert read == windows[:2]
    vectors = np.concatenate([first, *parts])
    np.testing.assert_allclose(vectors, encoder.encode(list(chain(*windows))), rtol=0, atol=1e-6)
    parts = encoder._encode_ahead(iter([TEXTS, TEXTS, [*TEXTS, None]]), "input", batch_size=4)
    assert [len(next(parts)), len(next(parts))] == [len(TEXTS), len(TEXTS)]
    with pytest.raises(TextError) as raised:
        next(parts)
    assert raised.value.position == len(TEXTS)


def test_a_process_starts_where_there_are_no_signal_masks(monkeypatch):
    """As on Windows."""
    started = []
    monkeypatch.delattr(signal, "pthread_sigmask")
    monkeypatch.setattr(SpawnProcess, "start", lambda process: started.append(process))
    process = parallel._Context().Process(target=len)
    process.start()
    assert started == [process]
