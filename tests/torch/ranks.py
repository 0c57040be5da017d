"""One of two processes that train the same models on halves of a batch, in several ways: started by test_vitals_ranks."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from vitalsdsl_torch.collectors.base import collectors
from vitalsdsl_torch.vitals import Vitals

from tests.torch.nets import loss_of, net, words

TIMED = ("throughput", "memory")
EACH = {name: 1 for name in collectors() if name not in TIMED}
MODELS: dict[str, dict[str, Any]] = {
    "sharded": {},
    "sharded, tied": {"tied": True},
    "sharded, a frozen layer and a None gradient": {"odd": True},
    "sharded in part": {},
}


def model_of(setting: str) -> Any:
    """In float64, so that one process and several differ by the measuring alone."""
    model = net(**MODELS[setting]).double()
    if hasattr(model, "empty"):
        del model.empty  # FSDP takes no empty parameter
    model.scale = nn.Parameter(torch.ones(1, dtype=torch.float64))  # one rank has nothing of it
    model.lm_head.register_forward_hook(lambda module, args, output: output * model.scale)
    return model


def train(model: Any, part: Callable[[Any], Any], average: Callable[[Any], None] = lambda model: None) -> Any:
    """Three steps with all collectors; the metrics of the last, and the norm that clipping gave."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    vitals = Vitals(model, optimizer, every=EACH)
    for step in range(3):
        optimizer.zero_grad()
        batch = part(words(step))
        loss = loss_of(model, batch)
        loss.backward()
        average(model)
        total = vitals.clip_grad_norm_(0.5)
        optimizer.step()
        found = vitals.step(loss=loss, tokens=batch[:, 1:].numel(), samples=len(batch))
    return {**found, "total": total.item(), "state": vitals.state_dict()}


def sharded(setting: str, rank: int) -> Any:
    model = model_of(setting)
    for layer in model.layers:
        fully_shard(layer)
    if setting == "sharded in part":
        return train(model, lambda batch: batch.chunk(2)[rank], _average_what_is_whole)
    fully_shard(model)
    return train(model, lambda batch: batch.chunk(2)[rank])


def _average_what_is_whole(model: Any) -> None:
    for one in model.parameters():
        if not hasattr(one, "placements"):
            distributed.all_reduce(one.grad)
            one.grad /= 2


def clipped_by_torch(ours: bool, rank: int) -> Any:
    """The bits of sharded weights after clipped steps, as one number a tensor."""
    model = net()
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    vitals = Vitals(model, optimizer, every=EACH) if ours else None
    for step in range(5):
        optimizer.zero_grad()
        loss_of(model, words(step).chunk(2)[rank]).backward()
        if vitals:
            vitals.clip_grad_norm_(0.1)
        else:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        if vitals:
            assert "collector/failed" not in vitals.step()
    return [one.to_local().view(torch.int32).long().sum().item() for one in model.parameters()]


def replicated(rank: int, **options: Any) -> Any:
    """DistributedDataParallel, with accumulation and unequal numbers of tokens; rank 1 asks for detail after step 2."""
    model = DistributedDataParallel(net(tied=True))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    vitals = Vitals(model, optimizer, every={"activations": 1, "ranks": 1, "param_norm": 1}, log_every=2, **options)
    told = []
    for step in range(1, 9):
        optimizer.zero_grad()
        parts = words(step).chunk(2)[rank].chunk(2)
        for part in parts:
            with model.no_sync() if part is parts[0] else torch.enable_grad():
                loss = loss_of(model, part)
                (loss / 2).backward()
            vitals.micro_batch(loss=loss, tokens=part.numel() + 10 * rank)
        vitals.clip_grad_norm_(0.5)
        optimizer.step()
        told.append({**vitals.step(), "own": loss.item()})
        if step == 2 and rank == 1:
            vitals.detail(steps=2, every=1)
    return told


def failing(rank: int) -> Any:
    """A collector of parameters fails on rank 1 alone: in its second step."""
    model = net()
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    vitals = Vitals(model, optimizer, every={"param_norm": 1, "grad_zeros": 1})
    if rank == 1:
        broken = next(one for one in vitals._collectors if one.name == "param_norm")
        well = broken.after
        broken.after = lambda moment: 1 / 0 if moment.step == 2 else well(moment)
    told = []
    for step in range(4):
        optimizer.zero_grad()
        loss_of(model, words(step).chunk(2)[rank]).backward()
        optimizer.step()
        told.append(vitals.step())
    return [[name for name in ("param_norm", "grad_zero_frac", "collector/failed") if name in one] for one in told]


def overflowing(rank: int) -> Any:
    """Rank 1's loss overflows in the second of four steps."""
    model = net()
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    vitals = Vitals(model, optimizer, scaler=scaler, every={"param_norm": 2}, log_every=1)
    told = []
    for step in range(1, 5):
        optimizer.zero_grad()
        loss = loss_of(model, words(step).chunk(2)[rank])
        scaler.scale(loss * (1e37 if step == 2 and rank == 1 else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update()
        told.append(vitals.step(loss=loss, tokens=1))
    return [[one["step_skipped"], one["loss_scale"], "grad_norm" in one, "param_norm" in one] for one in told]


def alone(rank: int) -> Any:
    """Both ranks with other cadences, then with rows that do not count, then only rank 0 with a `Vitals` at all."""
    found = []
    for options in ({"log_every": 1 + rank}, {"over_ranks": False}, {"only": 0}):
        model = DistributedDataParallel(net())
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        only = options.pop("only", rank)
        vitals = Vitals(model, optimizer, **options) if only == rank else None
        loss = loss_of(model, words(0).chunk(2)[rank])
        loss.backward()
        optimizer.step()
        metrics = vitals.step(loss=loss, tokens=7) if vitals else {"loss": loss.item(), "tokens": 7.0}
        found.append([metrics["loss"] == loss.item(), metrics["tokens"], "loss_max" in metrics])
    return found


class Narrow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 6), nn.Linear(6, 8)

    def forward(self, given: Any) -> Any:
        return self.down(self.up(self.norm(given)).relu())


def in_parallel(rank: int) -> Any:
    """Tensor parallel, with gradients that are still to be added up; the norms, beside those of the whole model."""
    mesh = init_device_mesh("cpu", (2,))
    found = []
    for is_spread in (True, False):
        torch.manual_seed(0)
        model = Narrow()
        given = torch.randn(4, 6, 8, generator=torch.Generator().manual_seed(1))
        if is_spread:
            plan = {
                "norm": SequenceParallel(),
                "up": ColwiseParallel(input_layouts=Shard(1)),
                "down": RowwiseParallel(output_layouts=Shard(1)),
            }
            parallelize_module(model, mesh, plan)
            given = given.chunk(2, 1)[rank]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        vitals = Vitals(model, optimizer, over_ranks=False)
        model(given).square().sum().backward()
        assert not is_spread or any(one.grad.placements[0].is_partial() for one in model.parameters())
        total = vitals.clip_grad_norm_(1e9).item()
        optimizer.step()
        found.append({**vitals.step(), "total": total})
    return found


def main(rank: int, meeting: str) -> dict[str, Any]:
    logging.basicConfig(stream=sys.stderr)
    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    own = [distributed.new_group([one]) for one in range(2)][rank]
    found = {setting: sharded(setting, rank) for setting in MODELS}
    found |= {
        "clipped": [clipped_by_torch(ours, rank) for ours in (False, True)],
        "replicated": replicated(rank),
        "replicated, for itself": replicated(rank, process_group=own),
        "failing": failing(rank),
        "overflowing": overflowing(rank),
        "in parallel": in_parallel(rank),
        "alone": alone(rank),
    }
    distributed.destroy_process_group()
    return found


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), sys.argv[2])))
