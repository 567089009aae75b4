"""The tuned matrix in a model folder: a route of the sentence-transformers Router, beside those of inputs and replies.

`SentenceTransformer(folder).encode(texts, task="sts")` gives W u, L2-normalized. The angular similarity of two of these
vectors is the tuned score (Yang et al. 2018, section 4.3).
"""

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from data_scripts.files.errors import InputError
from data_scripts.files.folders import check_files, replace_files

if TYPE_CHECKING:
    from sentence_transformers.base.modules import Module

ROUTE = "sts"
ROUTER = "1_Router"
_DENSE, _NORMALIZE = f"{ROUTE}_0_Dense", f"{ROUTE}_1_Normalize"  # named as `Router.save` names them


def build_route(matrix: np.ndarray) -> "list[Module]":
    """The modules of the route; `matrix` W is (dimensions, dimensions)."""
    import torch
    from sentence_transformers.base.modules import Dense, Normalize

    weight = torch.from_numpy(np.ascontiguousarray(matrix, dtype=np.float32))
    return [Dense(weight.shape[1], weight.shape[0], False, torch.nn.Identity(), weight), Normalize()]


def read_matrix(model: Path) -> np.ndarray | None:
    """The matrix in a model folder, (dimensions, dimensions) float32; None without one.

    Raises:
        InputError: its file is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    if not has_route(model):
        return None
    path = model / ROUTER / _DENSE / "model.safetensors"
    check_files(model, [path.relative_to(model).as_posix()])
    try:
        matrix = load_file(path)["linear.weight"]
    except (OSError, KeyError, SafetensorError) as error:
        raise InputError(f"{path}: not the matrix of the route {ROUTE} ({error}); {_remedy(model)}") from error
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise InputError(f"{path}: expected a square matrix of finite numbers, got {matrix.shape}; {_remedy(model)}")
    return matrix.astype(np.float32)


def has_route(model: Path) -> bool:
    """Whether a model folder has the route.

    Raises:
        InputError: the Router's configuration is damaged.
    """
    path = model / ROUTER / "router_config.json"
    return path.is_file() and ROUTE in _read_router(path)["structure"]


def add_route(model: Path, matrix: np.ndarray) -> None:
    """Write the matrix to an existing model folder that has a Router, in place of an earlier one.

    Raises:
        InputError: the folder cannot be written, or its Router's configuration is damaged.
    """
    config = _read_router(model / ROUTER / "router_config.json")
    contents: dict[str, bytes] = {}
    for name, module in zip((_DENSE, _NORMALIZE), build_route(matrix), strict=True):
        with tempfile.TemporaryDirectory() as saved:
            module.save(saved)
            contents |= {f"{ROUTER}/{name}/{file.name}": file.read_bytes() for file in Path(saved).iterdir()}
        config["types"][name] = f"{type(module).__module__}.{type(module).__name__}"
    config["structure"][ROUTE] = [_DENSE, _NORMALIZE]
    contents[f"{ROUTER}/router_config.json"] = json.dumps(config, indent=4).encode()
    replace_files(model, contents)


def _read_router(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(config["structure"], dict) and isinstance(config["types"], dict):
            return config
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    raise InputError(f"{path}: not the configuration of a sentence-transformers Router; train or download it again")


def _remedy(model: Path) -> str:
    return (
        f"write it again with: python -m trainer.evaluation {model} --tasks stsb_tuned --stsb FOLDER "
        f"--update {model.parent / 'results.json'}"
    )
