"""The values of options, in a module that imports nothing, so that commands can parse their arguments quickly."""

from typing import Literal

Side = Literal["input", "query", "response"]
Dtype = Literal["float32", "bfloat16", "auto"]
