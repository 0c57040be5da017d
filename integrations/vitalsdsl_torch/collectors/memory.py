"""The collector of memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import torch

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment

_STATM = Path("/proc/self/statm")


class Memory(Collector):
    """The memory of this process: on the GPU that holds the first parameter, and on the host."""

    name = "memory"
    every = timedelta(minutes=10)
    cost = "a look at the allocator's counters"
    needs = "CUDA for all but `mem/rss`; Linux for that"
    metrics = {
        "mem/alloc": "bytes in tensors on the GPU",
        "mem/reserved": "bytes that the allocator holds on the GPU",
        "mem/peak": "most bytes in tensors since the start of the process, or since its peak was reset",
        "mem/retries": "times the allocator had to free its cache to go on; a count since the start",
        "mem/ooms": "times it ran out of memory; a count since the start",
        "mem/frag": "(reserved − alloc) / reserved, 0 to 1",
        "mem/rss": "bytes of this process in main memory",
    }
    on_skipped = True

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        device = moment.parameters[0].tensor.device if moment.parameters else torch.device("cpu")
        if device.type == "cuda":
            found = torch.cuda.memory_stats(device)
            held, reserved = found["allocated_bytes.all.current"], found["reserved_bytes.all.current"]
            yield "mem/alloc", float(held)
            yield "mem/reserved", float(reserved)
            yield "mem/peak", float(found["allocated_bytes.all.peak"])
            yield "mem/retries", float(found["num_alloc_retries"])
            yield "mem/ooms", float(found["num_ooms"])
            if reserved:
                yield "mem/frag", (reserved - held) / reserved
        if _STATM.exists():
            yield "mem/rss", float(_STATM.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
