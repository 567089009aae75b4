"""NaN and infinity in training: the run stops with a message, and no checkpoint or model has them."""

import random
from collections.abc import Iterator
from pathlib import Path

from tests.soak.command_server import CommandServer
from tests.soak.registry import Fault, scenario
from tests.soak.tiny_training import EVALUATED, LIBRARIES, STEPS, TinyTraining, check_end


@scenario("NaN and infinity", "losses and gradients of training", faults=10, smoke=0)
def not_finite_training(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Change the loss or the gradient of a random step; the run is resumed without the fault."""
    with CommandServer(LIBRARIES) as server:
        training = TinyTraining(server, folder)
        training.run("uninterrupted")
        for part in range(count):
            where, value = ("loss", "gradients")[part % 2], ("nan", "inf", "-inf")[part % 3]
            step = draws.randrange(1, STEPS + 1)
            ended, log = training.run("run", fault=f"{where}:{value}:{step}")
            lost = check_end(ended, log, [2], "not finite", "step")
            saved = {path.name for path in training.folder("run").glob("checkpoint-*")}
            expected = {f"checkpoint-{one}" for one in range(EVALUATED, step, EVALUATED)}
            lost = lost or (f"checkpoints {saved}, expected {expected}" if saved != expected else "")
            lost = lost or training.check_continued("run", "uninterrupted")
            yield Fault(f"{value} in the {where} of step {step}", lost)
            training.remove("run")
