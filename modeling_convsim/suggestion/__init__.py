"""Suggests replies: `ReplyIndex`; ratings and review of suggestions; the commands, the server and its page."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from modeling_convsim.suggestion.reply_index import ReplyIndex

__all__ = ["ReplyIndex"]


def __getattr__(name: str) -> Any:
    if name == "ReplyIndex":  # which a review does not need
        from modeling_convsim.suggestion.reply_index import ReplyIndex

        return ReplyIndex
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
