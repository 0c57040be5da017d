"""What a step boundary costs: a guard alone, and in two gloo processes of this machine. Prints microseconds a step.

python -m tests.trials.guard_ranks_cost
"""

from __future__ import annotations

import logging
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path

import torch
from torch import distributed
from vitalsdsl_torch import Guard

from vitalsdsl.policies.policy import load

STEPS = 3_000


def measure(rank: int, count: int, folder: str) -> None:
    logging.disable()
    torch.set_num_threads(1)
    if count > 1:
        distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=count)
    model = torch.nn.Linear(4, 1)
    guard = Guard(load("cost", text="when loss > 5 for 3 steps -> red"), Path(folder, "run"), model=model,
                  optimizer=torch.optim.SGD(model.parameters(), lr=0.1), every=STEPS * 2)  # fmt: skip
    took, used = [], time.process_time()
    for _ in range(STEPS):
        began = time.perf_counter()
        guard.step({"loss": 1.0, "grad_norm": 2.0})
        took.append((time.perf_counter() - began) * 1e6)
    used = (time.process_time() - used) / STEPS * 1e6
    guard.close()
    if rank == 0:
        low, middle, high = statistics.quantiles(took, n=4)
        print(
            f"{count} rank(s): median {middle:.0f} us a step ({low:.0f} to {high:.0f}), {used:.0f} us of the processor"
        )


if __name__ == "__main__":
    for count in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            found = multiprocessing.get_context("spawn")
            processes = [found.Process(target=measure, args=(rank, count, folder)) for rank in range(count)]
            for process in processes:
                process.start()
            for process in processes:
                process.join()
