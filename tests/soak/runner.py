"""Runs one scenario, in the process that calls it."""

import random
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from tests.soak.registry import load_scenarios


def run_scenario(name: str, smoke: bool, seed: int) -> dict[str, Any]:
    """Run one scenario; returns its entry of results.json.

    An exception of the scenario itself counts as a lost fault: something happened that it does not expect.
    """
    scenario = load_scenarios()[name]
    started, faults = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix=f"soak_{name}_") as folder:
        try:
            for fault in scenario.run(Path(folder), random.Random(seed), scenario.smoke if smoke else scenario.faults):
                faults.append((fault.what, fault.lost))
        except Exception:
            faults.append(("unexpected error", traceback.format_exc()))
    if not faults:
        faults.append(("no fault was injected", "the scenario proves nothing"))
    return {
        "kind": scenario.kind,
        "part": scenario.part,
        "injected": len(faults),
        "handled": sum(not lost for _, lost in faults),
        "lost": [f"{what}: {lost}" for what, lost in faults if lost],
        "faults": [what for what, _ in faults],
        "seconds": round(time.monotonic() - started, 1),
    }
