"""One of several processes that train the same model on parts of a batch: started by test_vitals_ranks."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from vitalsdsl_torch.vitals import Vitals

from tests.torch.nets import loss_of, net, words


def train(rank: int, ranks: int, meeting: str) -> dict[str, Any]:
    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    model = DistributedDataParallel(net(tied=True))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    vitals = Vitals(model, optimizer, every={"activations": 1, "grad_groups": 1, "grad_share": 1, "param_norm": 1})
    found: dict[str, Any] = {}
    for step in range(3):
        optimizer.zero_grad()
        parts = words(step, rows=8).chunk(ranks)[rank].chunk(2)
        with model.no_sync():
            (loss_of(model, parts[0]) / 2).backward()
            vitals.micro_batch(tokens=parts[0].numel())
        (loss_of(model, parts[1]) / 2).backward()
        vitals.micro_batch(tokens=parts[1].numel())
        vitals.clip_grad_norm_(0.5)
        optimizer.step()
        found = vitals.step()
    distributed.destroy_process_group()
    return found


if __name__ == "__main__":
    print(json.dumps(train(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])))
