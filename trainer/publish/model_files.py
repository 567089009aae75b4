"""Tells the files of a published folder from others that lie there."""

import os
import re
from pathlib import Path

from data_scripts.files.folders import RECORD, has_record, list_files, unrecorded_files, write_checksums

# What `build_folder`, and later cards, write to a folder, relative to it.
MODEL_FILES = re.compile(
    r"README\.md|SHA256SUMS|config\.(json|yaml)|[^/]+\.safetensors(\.index\.json)?|modeling_\w+\.py|configuration_\w+\.py"
    r"|[^/]*token[^/]*\.json|vocab\.(txt|json)|merges\.txt|[^/]+\.model|chat_template\.jinja|modules\.json"
    r"|sentence_bert_config\.json|config_sentence_transformers\.json|1_Router/.+|joint\.json|second/.+|\.eval_results/[^/]+\.yaml"
)


def find_other_files(folder: Path) -> list[str]:
    """The files in a model or tokenizer folder, relative to it, that neither a run nor an export writes there."""
    exports = [path.parent for path in folder.rglob(RECORD) if has_record(path.parent, "export")]
    own = {path.relative_to(folder).as_posix() for export in exports for path in _recorded_files(export)}
    return [name for name in list_files(folder) if name not in own and not MODEL_FILES.fullmatch(name)]


def record_model_files(folder: Path) -> None:
    """Write the checksums of a new folder's files, except the card, which is rewritten when results are added.

    Raises:
        InputError: they cannot be written.
    """
    is_card = re.compile(r"README\.md|\.eval_results/.+")
    write_checksums(folder, [name for name in list_files(folder) if not is_card.fullmatch(name)])


def share_weights(folder: Path) -> None:
    """Give the weights of a folder, which safetensors writes for their owner alone, the permissions of new files."""
    umask = os.umask(0)
    os.umask(umask)
    for path in folder.rglob("*.safetensors"):
        path.chmod(0o666 & ~umask)


def _recorded_files(export: Path) -> list[Path]:
    others = set(unrecorded_files(export))
    return [export / RECORD, *(export / name for name in list_files(export) if name not in others)]
