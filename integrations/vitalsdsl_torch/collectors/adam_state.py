"""Adam's second moment, where an optimizer has one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.norms import sampled
from vitalsdsl_torch.collectors.parameters import Parameter


@dataclass(frozen=True)
class SecondMoment:
    """The running mean of a parameter's squared gradients, before this step: a sample of it, without bias."""

    parameter: Parameter
    values: Tensor
    epsilon: float


def second_moments(optimizer: Any, moment: Moment) -> Iterator[SecondMoment]:
    """What Adam holds before this step, of parameters that have been stepped at least once and are not empty."""
    options = {id(one): group for group in optimizer.param_groups for one in group["params"]}
    for parameter in moment.parameters:
        state, group = optimizer.state.get(parameter.tensor, {}), options[id(parameter.tensor)]
        if "exp_avg_sq" in state and "betas" in group and "step" in state and parameter.tensor.numel():
            unbiased = 1 - group["betas"][1] ** state["step"]
            yield SecondMoment(parameter, sampled(state["exp_avg_sq"]).float() / unbiased, float(group.get("eps", 0.0)))
