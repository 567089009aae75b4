"""Fixtures for all tests: a tiny tokenizer, built offline, and the folder of real data if there is one."""

import gc
import os
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when huggingface_hub is imported
# The tests are the same on every machine; CUDA_VISIBLE_DEVICES=0 runs those of test_gpu.py.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import fsspec
import pytest
import torch
import tqdm
from accelerate.state import AcceleratorState
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tests.loopback_s3 import LoopbackS3

ROOT = Path(__file__).resolve().parents[1]
WORDS = [
    *"a the i you we they is are was do not how what where when who why old age new big small cat dog bird".split(),
    *"house car city run runs walk walks eat eats like likes love hate see today tomorrow good bad happy sad".split(),
    *"yes no maybe hello thanks please . , ? !".split(),
]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In several processes, run files of few tests first: these tests are long, and none of them must be the last."""
    if hasattr(config, "workerinput"):
        tests = Counter(item.path for item in items)
        items.sort(key=lambda item: tests[item.path])


@pytest.fixture(scope="session", autouse=True)
def _no_delayed_progress() -> Iterator[None]:
    """Lets no delayed progress bar appear: a busy machine may need a second for anything, and tests read stderr."""
    show = tqdm.tqdm.__init__

    def show_undelayed(self: tqdm.tqdm, *args: Any, delay: float = 0, disable: Any = False, **options: Any) -> None:
        show(self, *args, disable=disable or delay > 0, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tqdm.tqdm, "__init__", show_undelayed)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Imports all tests without garbage collections: libraries have a million objects, and none becomes garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True, scope="module")
def _imports_are_no_garbage() -> None:
    """Excludes what earlier tests have imported from garbage collections, which would take half a second each."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _as_many_threads_as_before() -> Iterator[None]:
    """Restores torch's number of threads: those of several workers wait for each other's cores, which is slow."""
    threads = torch.get_num_threads()
    yield
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _as_in_a_new_process() -> Iterator[None]:
    """Lets Accelerate forget the device and the precision of earlier trainings, which no later one may change."""
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


def pytest_unconfigure() -> None:
    gc.unfreeze()  # or extension modules warn of objects that are left at exit


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data; without one, the test is skipped and the reason names the remedy."""
    folder = Path(os.environ.get("CONVSIM_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real data not found at {folder}: set CONVSIM_DATA to its folder")
    return folder


def make_tiny_tokenizer() -> PreTrainedTokenizerFast:
    """A lower-casing word tokenizer of about fifty words; [PAD] is 0 and [UNK] is 1."""
    vocabulary = {word: index for index, word in enumerate(["[PAD]", "[UNK]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", model_max_length=64,
        split_special_tokens=True, model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip


@pytest.fixture(scope="session")
def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """`make_tiny_tokenizer`."""
    return make_tiny_tokenizer()


@pytest.fixture
def s3_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackS3]:
    """A server of object storage, which s3:// URLs name in the test."""
    with LoopbackS3() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        yield server
        fsspec.get_filesystem_class("s3").clear_instance_cache()
