"""Adam's second moment, where an optimizer has one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.norms import sampled
from vitalsdsl_torch.collectors.parameters import Parameter


@dataclass(frozen=True)
class SecondMoment:
    """The running mean of a parameter's squared gradients, before this step: a sample of it, without bias, in a copy."""

    parameter: Parameter
    values: Tensor
    epsilon: float


def second_moments(optimizer: Any, moment: Moment) -> list[SecondMoment]:
    """What Adam holds before this step, of parameters that have been stepped at least once and are not empty."""
    options = {id(one): group for group in optimizer.param_groups for one in group["params"]}
    found = []
    for parameter in moment.parameters:
        state, group = optimizer.state.get(parameter.tensor, {}), options[id(parameter.tensor)]
        if "exp_avg_sq" in state and "betas" in group and "step" in state and parameter.tensor.numel():
            found.append((parameter, sampled(state["exp_avg_sq"]).float(), state["step"], group))
    if not found:
        return []
    steps = torch.stack([torch.as_tensor(step, dtype=torch.float32) for _, _, step, _ in found])
    rates = [group["betas"][1] for _, _, _, group in found]
    if isinstance(rates[0], Tensor) or len(set(rates)) > 1:
        rates = torch.stack([torch.as_tensor(rate, dtype=torch.float32).to(steps.device) for rate in rates])
    else:
        rates = rates[0]
    unbiased = torch._foreach_div([values for _, values, _, _ in found], list((1 - rates**steps).unbind()))
    return [
        SecondMoment(one, values, float(group.get("eps", 0.0))) for (one, _, _, group), values in zip(found, unbiased)
    ]
