"""The collector of what differs between the ranks."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import torch

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.loss import largest, losses_of, tell_loss
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.norms import norms, values_of

OWN_GRADIENT = "own gradient"


class Ranks(Collector):
    """What differs between the ranks of a training: speed, loss and gradients, and which one is the slowest.

    Where all ranks wait for each other in every step, as under DistributedDataParallel, a slow one slows all: their times
    then differ by what lies outside of the backward pass. A rank's own gradient is seen where it is not yet averaged
    after the first micro-batch (`no_sync`).
    """

    name = "ranks"
    every = 100
    cost = "one pass over the gradients, after the first of several micro-batches; the numbers travel with the others"
    needs = "several ranks; for `rank/grad_local_max` also `Vitals.micro_batch`, and gradients that are not sharded"
    metrics = {
        "rank/step_time_max": "seconds a step of the slowest rank, since this was last exchanged",
        "rank/step_time_med": "the median over ranks",
        "rank/slow_rank": "number of the slowest rank, from 0",
        "rank/loss_max": "largest loss of a rank; NaN where one is",
        "rank/grad_local_max": "largest norm, over ranks, of a rank's own gradient of the first micro-batch, as large as it "
        "is in the step's sum; absent where it is averaged already",
    }
    told = ("loss", "weight", "seconds", OWN_GRADIENT)
    on_skipped = True

    def first_batch(self, moment: Moment) -> None:
        spread = torch.distributed
        if moment.splits or not spread.is_available() or not spread.is_initialized():
            return
        gradients = [values_of(one.tensor.grad) for one in moment.parameters if one.tensor.grad is not None]
        if gradients:
            total = torch.linalg.vector_norm(norms(gradients))
            scale = getattr(self.watched.scaler, "_scale", None)
            moment.tell(OWN_GRADIENT, total if scale is None else total / scale.to(total.device))

    def close(self, moment: Moment) -> None:
        tally = moment.tally
        passed = tally.since("ranks", moment.step)
        if passed.steps:
            moment.tell("seconds", passed.seconds / passed.steps)
        tell_loss(moment)

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        if not moment.ranks:
            return
        times = [one["seconds"] for one in moment.ranks]
        if all(times):
            yield "rank/step_time_max", max(times)
            yield "rank/step_time_med", statistics.median(times)
            yield "rank/slow_rank", float(times.index(max(times)))
        if losses := losses_of(moment):
            yield "rank/loss_max", largest(losses)
        own = [one[OWN_GRADIENT] for one in moment.ranks]
        if any(own) and len(set(own)) > 1:
            yield "rank/grad_local_max", largest(own)
