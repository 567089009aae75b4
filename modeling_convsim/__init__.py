"""Sentence encoders that learn from conversations what sentences mean.

`Encoder` and `ReplyIndex` need neither PyTorch nor transformers for encoders that average words, so importing this
package imports neither. Its models are registered with `AutoConfig`, `AutoModel` (the encoder),
`AutoModelForPreTraining` (the encoder with its heads) and `AutoModelForSequenceClassification` when transformers is
imported, before or after. Their classes can be imported from here, too.

modeling_averaging              averages of words in NumPy, and what trains them shares with that
modeling_config, modeling_base  what all encoders share: config; packed and padded input, saving
modeling_NAME                   one encoder each; modeling_layouts is a part of the Transformer
modeling_lexical                the lexical channel, which counts the tokens that two texts share
modeling_heads                  response network and NLI classifier, and the models that have them
registry                        finds the encoders; `register_encoder` adds one of another folder
files/                          bytes to records and back, for all packages: compression, URLs, locks, the Hub
shipped                         where the base model and the page are
encoding/                       `Encoder`: texts to vectors; its command
suggestion/                     `ReplyIndex`: replies with probabilities; ratings, review, the server and its page

The `modeling_*` files import only each other, because they are copied into every published model.
"""

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from modeling_convsim.files.extras import import_extra

if TYPE_CHECKING:
    from .encoding import Encoder
    from .modeling_bilstm import *  # noqa: F403
    from .modeling_cbow import *  # noqa: F403
    from .modeling_dan import *  # noqa: F403
    from .modeling_heads import *  # noqa: F403
    from .modeling_pretrained import *  # noqa: F403
    from .modeling_transformer import *  # noqa: F403
    from .registry import ENCODERS as ENCODERS
    from .registry import register_encoder as register_encoder
    from .suggestion import ReplyIndex

__all__ = ["Encoder", "ReplyIndex"]
LIGHT = {"Encoder": ".encoding", "ReplyIndex": ".suggestion"}  # what needs no PyTorch


def __getattr__(name: str) -> Any:
    """What the package offers, imported when it is asked for; models, their configs and the registry need PyTorch."""
    if name in LIGHT:
        return getattr(import_module(LIGHT[name], __name__), name)
    if not name.startswith("_"):
        registry = import_extra(f"{__name__}.registry", "adapt", f"modeling_convsim.{name}")
        if name in ("ENCODERS", "register_encoder"):
            return getattr(registry, name)
        if name in registry.CLASSES:
            return registry.CLASSES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _register(imported: ModuleType) -> None:
    """Registers the models once transformers is there; not while a file of theirs is being imported, but after it."""
    files = [each for name, each in sys.modules.items() if name.startswith(f"{__name__}.modeling_")]
    is_importing = any(getattr(each.__spec__, "_initializing", False) for each in files if each is not imported)
    if "transformers" in sys.modules and find_spec("torch") and not is_importing:
        import_module(".registry", __name__)


class _Finder:
    """Finds what the finders behind it find, and has `_register` called once such a module has been imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "transformers" and not name.startswith(f"{__name__}.modeling_"):
            return None
        finders = sys.meta_path[sys.meta_path.index(self) + 1 :]
        spec: Any = next(filter(None, (finder.find_spec(name, path, target) for finder in finders)), None)
        if spec and spec.loader:  # a folder without __init__.py has none
            spec.loader.exec_module = partial(_execute, spec.loader.exec_module)
        return spec


def _execute(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
    execute(module)
    _register(module)


sys.meta_path.insert(0, _Finder())
_register(sys.modules[__name__])  # transformers may have been imported before
