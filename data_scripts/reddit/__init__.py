"""Converts dumps of Reddit to comments, and joins each reply to the comment that it answers."""

import re
from pathlib import Path

DUMP_FORMS = ("", ".jsonl", ".ndjson", ".json")  # a decompressed dump is named RC_2015-01


def holds_submissions(dump: Path) -> bool:
    """Whether the name of a dump is that of submissions: RS_2015-01.zst, maths_submissions.zst, r_maths_posts.jsonl."""
    return dump.name.startswith("RS_") or bool(re.search(r"_(submissions|posts)\b", dump.name))
