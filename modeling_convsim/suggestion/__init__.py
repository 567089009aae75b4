"""Suggests replies: `ReplyIndex`, and the command `python -m modeling_convsim.suggestion`."""

from modeling_convsim.suggestion.reply_index import ReplyIndex

__all__ = ["ReplyIndex"]
