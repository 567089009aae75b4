"""Suggests replies and searches questions: `ReplyIndex`, and the command `python -m modeling_convsim.suggestion`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from modeling_convsim.suggestion.reply_index import ReplyIndex

__all__ = ["ReplyIndex"]


def __getattr__(name: str) -> Any:
    """Imports `ReplyIndex` when it is first used: it needs torch, and the command's `--help` does not."""
    if name == "ReplyIndex":
        from modeling_convsim.suggestion.reply_index import ReplyIndex

        return ReplyIndex
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
