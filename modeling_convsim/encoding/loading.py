"""Opens a saved model of a folder or of the Hub, and explains why one cannot be opened."""

from pathlib import Path
from typing import cast

import torch
from huggingface_hub import errors, snapshot_download
from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForPreTraining,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
)

import modeling_convsim.registry  # noqa: F401  registers the models with the Auto classes
from data_scripts.files.errors import one_line
from modeling_convsim.modeling_base import ConvSimEncoder
from modeling_convsim.modeling_heads import ConvSimForMultitask

FILES = ("*.json", "*.safetensors", "*.py")  # of a model that `Encoder` or sentence-transformers reads


def parse_model_id(name: str) -> tuple[str, str | None]:
    """Splits OWNER/NAME@REVISION into the id and the revision, which is None without an @."""
    model_id, _, revision = name.partition("@")
    return model_id, revision or None


def download_model(
    model_id: str,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: str | Path | None = None,
    local_files_only: bool = False,
) -> Path:
    """Downloads the files of a model that are not in the cache.

    Args:
        model_id: OWNER/NAME.
        revision: A branch, a tag or a commit; by default the branch main.
        token: A token of the Hub, or False for none; by default the one that `hf auth login` saved.
        cache_dir: The cache's folder; by default that of `huggingface_hub`.
        local_files_only: Use the cache alone.

    Returns:
        The folder of the files.

    Raises:
        ValueError: The model cannot be downloaded; the message says why, and what to do.
    """
    try:
        folder = snapshot_download(
            model_id,
            revision=revision,
            token=token,
            cache_dir=cache_dir,
            local_files_only=local_files_only,
            allow_patterns=list(FILES),
        )
    except errors.HFValidationError as error:
        raise ValueError("no such folder, and no id of the Hub, which is OWNER/NAME or OWNER/NAME@REVISION") from error
    except (errors.HTTPError, OSError, RuntimeError) as error:
        raise ValueError(f"no such folder here, and the Hub says: {one_line(str(error))}") from error
    return Path(folder)


def has_fast_bfloat16(device: torch.device) -> tuple[bool, str]:
    """Whether a device has instructions for bfloat16 matrix products, and the reason as a text.

    Without such instructions bfloat16 is emulated, many times slower than float32.

    Returns:
        True for a GPU with bfloat16 and for an x86 processor with AVX512-BF16 or AMX-BF16; and the reason, for a log.
    """
    if device.type == "cuda":
        supported = torch.cuda.is_bf16_supported(including_emulation=False)
        return supported, f"this GPU has {'' if supported else 'no '}bfloat16 instructions"
    if device.type != "cpu":
        return False, f"bfloat16 is not used on {device.type} devices unless asked for"
    capabilities = torch.cpu.get_capabilities()
    supported = bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
    return supported, f"this processor has {'' if supported else 'no '}bfloat16 instructions (AVX512-BF16 or AMX-BF16)"


def load_model(name: str, trust: bool) -> tuple[ConvSimEncoder | ConvSimForMultitask, PreTrainedTokenizerFast]:
    """The model and the tokenizer of a folder; raises an exception of the library that reads it, or ValueError."""
    # Unless trust_remote_code is given, transformers asks through `input()` and reads a piped text as the answer.
    values, _ = PreTrainedConfig.get_config_dict(name)
    if "auto_map" in values and values.get("model_type") not in CONFIG_MAPPING and not trust:
        raise ValueError(
            f"its type {values.get('model_type')!r} needs code, which is not run: import the file that registers "
            "this encoder first, or, if you trust the model's author, pass trust_remote_code=True in Python"
        )
    config = AutoConfig.from_pretrained(name, trust_remote_code=trust)
    if not config.model_type.startswith("convsim_"):
        raise ValueError(f"its type is {config.model_type!r}, expected one that starts with convsim_")
    is_multitask = any(architecture.endswith("ForMultitask") for architecture in config.architectures or [])
    auto_class = AutoModelForPreTraining if is_multitask else AutoModel
    model, loading = auto_class.from_pretrained(
        name, config=config, dtype=torch.float32, output_loading_info=True, trust_remote_code=trust
    )
    if loading["missing_keys"]:
        raise ValueError(f"its weights lack {', '.join(sorted(loading['missing_keys']))}")
    damaged = [name for name, weights in model.state_dict().items() if not weights.isfinite().all()]
    if damaged:
        raise ValueError(f"its weights {', '.join(damaged)} are not finite: damaged, or training diverged")
    return model, cast(PreTrainedTokenizerFast, AutoTokenizer.from_pretrained(name, trust_remote_code=trust))


def check_model_files(folder: Path, name: str) -> None:
    """Raises ValueError unless a folder holds a model and its tokenizer; weights may be sharded."""
    try:
        files = {path.name for path in folder.iterdir() if path.is_file()}
    except OSError as error:
        raise ValueError(f"cannot open the model {name}: {error.filename} cannot be read ({error.strerror})") from error
    for required in ("config.json", "model.safetensors", "tokenizer.json"):
        if not {required, f"{required}.index.json"} & files:
            raise ValueError(f"{name} holds no {required}: expected the folder of a saved model and its tokenizer")
