"""Saved folders in every class that opens them, with and without this package."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, AutoModelForPreTraining, AutoTokenizer, PreTrainedModel

from modeling_convsim.encoding import Encoder
from tests.modeling_convsim.tiny_models import KINDS, SENTENCES, build, pack, pad, part_inputs, save


def auto_map(folder: Path) -> dict[str, str]:
    return json.loads((folder / "config.json").read_text())["auto_map"]


def test_saved_folder_names_its_classes_and_contains_their_code(multitask, tmp_path):
    multitask.save_pretrained(tmp_path)
    module = type(multitask).__module__.rpartition(".")[2]
    prefix = f"{module}.{type(multitask).__name__.removesuffix('ForMultitask')}"
    assert auto_map(tmp_path) == {
        "AutoConfig": f"{prefix}Config",
        "AutoModel": f"{prefix}Model",
        "AutoModelForPreTraining": f"{prefix}ForMultitask",
        "AutoModelForSequenceClassification": f"{prefix}ForSequenceClassification",
    }
    imports = {
        *("modeling_averaging.py", "modeling_base.py", "modeling_config.py", "modeling_heads.py", "modeling_lexical.py")
    }
    imports |= {"modeling_layouts.py"} if module == "modeling_transformer" else set()
    assert {path.name for path in tmp_path.glob("*.py")} == {f"{module}.py", *imports}


@pytest.mark.parametrize("part", ["multitask", "encoder"])
def test_sentence_transformers_opens_a_saved_folder(multitask, part, tiny_tokenizer, tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer

    texts = ["hello you", "how old are you?"]
    saved = multitask if part == "multitask" else multitask.encoder
    save(saved, tiny_tokenizer, tmp_path)
    (module,) = json.loads((tmp_path / "modules.json").read_text())
    path = f"{Transformer.__module__}.{Transformer.__name__}"
    assert module == {"idx": 0, "name": "0", "path": "", "type": path}
    model = SentenceTransformer(str(tmp_path), device="cpu")
    assert model.get_embedding_dimension() == multitask.config.embedding_size
    expected = multitask.encoder(**pack(tiny_tokenizer(texts)["input_ids"])).pooler_output
    torch.testing.assert_close(model.encode(texts, convert_to_tensor=True), expected, rtol=0, atol=1e-6)


def test_files_of_sentence_transformers_that_exist_are_kept(tmp_path):
    (tmp_path / "modules.json").write_text("[1]")
    build("dan").save_pretrained(tmp_path)
    assert (tmp_path / "modules.json").read_text() == "[1]"


def same_weights(first: torch.nn.Module, second: torch.nn.Module) -> bool:
    states = first.state_dict(), second.state_dict()
    return states[0].keys() == states[1].keys() and all(
        torch.equal(states[0][name], states[1][name]) for name in states[0]
    )


@torch.no_grad()
def outputs(model: torch.nn.Module, part: str) -> tuple[torch.Tensor | None, ...]:
    return model.eval()(**part_inputs(part)).to_tuple()


def test_a_model_that_is_saved_twice_stays_the_same(model, part, tmp_path):
    expected, saved = outputs(model, part), model
    for folder in (tmp_path / "first", tmp_path / "second"):
        saved.save_pretrained(folder)
        assert load_file(folder / "model.safetensors").keys() == model.state_dict().keys()
        saved, loading = type(model).from_pretrained(folder, output_loading_info=True)
        assert not any(loading.values()) and same_weights(saved, model)
        torch.testing.assert_close(outputs(saved, part), expected, rtol=0, atol=1e-6)
        assert all(weight.is_contiguous() for weight in saved.parameters())
        assert len({weight.data_ptr() for weight in saved.parameters()}) == len(model.state_dict())  # no weight is tied
        assert not saved.can_generate() and not (folder / "generation_config.json").exists()


def test_exactly_the_weights_that_a_file_lacks_are_reported(model, part, tmp_path):
    model.base_model.save_pretrained(tmp_path)
    loading = type(model).from_pretrained(tmp_path, output_loading_info=True)[1]
    heads = {name for name in model.state_dict() if not name.startswith("encoder.")}
    assert loading["missing_keys"] == (set() if part == "encoder" else heads)
    save_file({"another": torch.zeros(2)}, tmp_path / "model.safetensors", metadata={"format": "pt"})
    loading = type(model).from_pretrained(tmp_path, output_loading_info=True)[1]
    assert loading["missing_keys"] == model.state_dict().keys()


def test_missing_weights_are_initialized_like_those_of_a_new_model(model, monkeypatch):
    original = PreTrainedModel._initialize_weights

    def initialize(*args, **kwargs):
        torch.manual_seed(42)
        original(*args, **kwargs)

    monkeypatch.setattr(PreTrainedModel, "_initialize_weights", initialize)
    loaded = type(model).from_pretrained(None, config=copy.deepcopy(model.config), state_dict={})
    assert not any(weight.is_meta for weight in loaded.parameters())
    assert same_weights(loaded, type(model)(model.config))


def test_embeddings_can_be_replaced(model, part):
    table = torch.nn.Embedding(10, 10)
    model.set_input_embeddings(table)
    assert model.get_input_embeddings() is table is model.base_model.get_input_embeddings()
    assert model.base_model is (model if part == "encoder" else model.encoder)


def pooled(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(**pad(SENTENCES)).pooler_output


def test_weights_are_placed_by_a_device_map_sharded_and_created_on_the_meta_device(kind, tiny_tokenizer, tmp_path):
    model = build(kind)
    save(model, tiny_tokenizer, tmp_path / "whole")
    model.save_pretrained(tmp_path / "shards", max_shard_size="2KB")
    tiny_tokenizer.save_pretrained(tmp_path / "shards")
    assert len(list((tmp_path / "shards").glob("model-*.safetensors"))) > 1
    parts = [name for name, _ in model.encoder.named_children()]
    on_disk = {name: "disk" if name.startswith("embed") else "cpu" for name in parts}
    for folder, options in (
        ("shards", {}),
        ("whole", {"device_map": {"": "cpu"}}),
        ("whole", {"device_map": on_disk, "offload_folder": tmp_path / "offloaded"}),
    ):
        opened = AutoModel.from_pretrained(tmp_path / folder, **options)
        torch.testing.assert_close(pooled(opened), pooled(model), rtol=0, atol=1e-6)
    if kind != "pretrained":  # BERT has buffers that a state_dict lacks
        with torch.device("meta"):
            empty = AutoModelForPreTraining.from_config(AutoConfig.from_pretrained(tmp_path / "whole"))
        empty.load_state_dict(model.state_dict(), assign=True)
        torch.testing.assert_close(pooled(empty), pooled(model), rtol=0, atol=1e-6)
    whole, shards = (Encoder.from_pretrained(tmp_path / name) for name in ("whole", "shards"))
    np.testing.assert_allclose(shards.encode(["hello", ""]), whole.encode(["hello", ""]), rtol=0, atol=1e-6)


# Runs where `modeling_convsim` cannot be imported, so that the folder's code is used.
REMOTE = """
import importlib.abc, json, sys
class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "modeling_convsim":
            raise ImportError("modeling_convsim is not installed here")
sys.meta_path.insert(0, Refuse())
import torch
from transformers import AutoModel, AutoModelForPreTraining, AutoTokenizer
torch.set_num_threads(1)
for folder in sys.argv[1:]:
    batches = torch.load(folder + "/batches.pt")
    encoder = AutoModel.from_pretrained(folder, trust_remote_code=True).eval()
    model = AutoModelForPreTraining.from_pretrained(folder, trust_remote_code=True).eval()
    assert not type(model).__module__.startswith("modeling_convsim")
    outputs = {}
    with torch.no_grad():
        for name, batch in batches.items():
            outputs["encoder_" + name] = encoder(**batch).pooler_output
            pairs = batch | {"response_" + key: value for key, value in batch.items()}
            outputs["response_" + name] = model(**pairs).response_embeds
    outputs["ids"] = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)("hello you")["input_ids"]
    torch.save(outputs, folder + "/outputs.pt")
    model.save_pretrained(folder + "/resaved")
    encoder.save_pretrained(folder + "/resaved_encoder")
"""


@pytest.fixture(scope="module")
def remote_folders(tiny_tokenizer, tmp_path_factory):
    """Folders of each kind, loaded with trust_remote_code in a process without `modeling_convsim`."""
    root = tmp_path_factory.mktemp("remote")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for kind in KINDS:
        save(build(kind), tiny_tokenizer, root / kind)
        torch.save({"packed": pack(SENTENCES), "padded": pad(SENTENCES)}, root / kind / "batches.pt")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"HF_MODULES_CACHE": str(root / "modules"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", REMOTE, *(str(root / kind) for kind in KINDS)]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    yield root
    torch.set_num_threads(threads)


@pytest.mark.parametrize("kind", KINDS)
def test_remote_code_gives_bit_identical_vectors(kind, remote_folders):
    model = build(kind)
    outputs = torch.load(remote_folders / kind / "outputs.pt")
    with torch.no_grad():
        for name, batch in {"packed": pack(SENTENCES), "padded": pad(SENTENCES)}.items():
            assert torch.equal(outputs[f"encoder_{name}"], model.encoder(**batch).pooler_output)
            pairs = batch | {f"response_{key}": value for key, value in batch.items()}
            assert torch.equal(outputs[f"response_{name}"], model(**pairs).response_embeds)
    assert outputs["ids"] == AutoTokenizer.from_pretrained(remote_folders / kind)("hello you")["input_ids"]


@pytest.mark.parametrize("kind", KINDS)
def test_folder_resaved_by_remote_code_is_complete(kind, remote_folders):
    folder = remote_folders / kind
    assert auto_map(folder / "resaved") == auto_map(folder)
    names = {path.name for path in folder.glob("*.py")}
    assert {path.name for path in (folder / "resaved").glob("*.py")} == names
    batch = pack(SENTENCES)
    resaved = AutoModel.from_pretrained(folder / "resaved_encoder").eval()
    assert set(auto_map(folder / "resaved_encoder")) == {"AutoConfig", "AutoModel"}
    assert torch.equal(resaved(**batch).pooler_output, build(kind).encoder(**batch).pooler_output)
