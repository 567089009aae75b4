import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoModelForPreTraining, AutoTokenizer

from tests.modeling_convsim.tiny_models import KINDS, SENTENCES, build, pack, pad


def auto_map(folder: Path) -> dict[str, str]:
    return json.loads((folder / "config.json").read_text())["auto_map"]


def test_automodel_loads_the_encoder_of_a_multitask_folder(multitask, tmp_path):
    """With a wrong `base_model_prefix`, the encoder would silently load random weights."""
    multitask.save_pretrained(tmp_path)
    encoder, loading = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert type(encoder) is type(multitask.encoder)
    assert not any(loading.values())
    saved = multitask.encoder.state_dict()
    assert encoder.state_dict().keys() == saved.keys()
    assert all(torch.equal(value, saved[name]) for name, value in encoder.state_dict().items())
    batch = pack(SENTENCES)
    assert torch.equal(encoder.eval()(**batch).pooler_output, multitask.encoder(**batch).pooler_output)


def test_automodelforpretraining_loads_the_multitask_model(multitask, tmp_path):
    multitask.save_pretrained(tmp_path)
    model, loading = AutoModelForPreTraining.from_pretrained(tmp_path, output_loading_info=True)
    assert type(model) is type(multitask)
    assert not any(loading.values())
    batch = pack(SENTENCES) | {f"response_{name}": value for name, value in pack(SENTENCES).items()}
    assert torch.equal(model.eval()(**batch).response_embeds, multitask(**batch).response_embeds)


def test_multitask_model_loads_its_encoder_from_a_bare_folder(multitask, tmp_path):
    multitask.encoder.save_pretrained(tmp_path)
    model, loading = type(multitask).from_pretrained(tmp_path, output_loading_info=True)
    assert all(
        name.startswith(("response_head.", "input_head.", "nli_head.", "lexical_")) for name in loading["missing_keys"]
    )
    batch = pack(SENTENCES)
    assert torch.equal(model.eval()(**batch).pooler_output, multitask(**batch).pooler_output)


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
    imports = {"modeling_base.py", "modeling_heads.py", "modeling_lexical.py"}
    imports |= {"modeling_layouts.py"} if module == "modeling_transformer" else set()
    assert {path.name for path in tmp_path.glob("*.py")} == {f"{module}.py", *imports}


def test_resaved_bare_encoder_does_not_name_the_multitask_model(multitask, tmp_path):
    multitask.save_pretrained(tmp_path / "multitask")
    encoder = AutoModel.from_pretrained(tmp_path / "multitask")
    encoder.save_pretrained(tmp_path / "encoder")
    assert set(auto_map(tmp_path / "encoder")) == {"AutoConfig", "AutoModel"}
    assert AutoModel.from_pretrained(tmp_path / "encoder", output_loading_info=True)[1]["missing_keys"] == set()


def test_saved_tokenizer_gives_the_models_input(tiny_tokenizer, tmp_path):
    model = build("dan")
    model.save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    batch = tokenizer(["Hello, you!", "", "how old are you?"], padding=True, return_tensors="pt")
    vectors = AutoModel.from_pretrained(tmp_path).eval()(**batch).pooler_output
    ids = tokenizer(["Hello, you!", "", "how old are you?"])["input_ids"]
    torch.testing.assert_close(vectors, model.encoder(**pack(ids)).pooler_output, rtol=0, atol=1e-6)
    assert model.encoder(**tokenizer("", return_tensors="pt")).pooler_output.isfinite().all()


@pytest.mark.parametrize("part", ["multitask", "encoder"])
def test_sentence_transformers_opens_a_saved_folder(multitask, part, tiny_tokenizer, tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer

    texts = ["hello you", "how old are you?"]
    saved = multitask if part == "multitask" else multitask.encoder
    saved.save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
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
        build(kind).save_pretrained(root / kind)
        tiny_tokenizer.save_pretrained(root / kind)
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
