"""The training that is measured, and the taps in its forward pass."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from vitalsdsl_torch.collectors.parameters import Layers, layers

logger = logging.getLogger("vitalsdsl")

Look = Callable[[Any, Any], None]
"""What looks at the arguments and the output of a module."""


@dataclass
class Watched:
    """A model, its optimizer and its loss scaler, and all that was hung on them."""

    model: nn.Module
    optimizer: Any
    scaler: Any | None = None
    layers: Layers = field(default_factory=Layers)
    step: int = 1
    """The optimizer step whose forward pass is now."""
    handles: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.layers = layers(self.model)

    def tap(
        self,
        modules: Sequence[nn.Module],
        look: Callable[[int], Look],
        is_due: Callable[[], bool],
        *,
        is_each: bool = False,
    ) -> list[Tap]:
        """Look at what goes through these modules, at steps that are due: `look(number of the module)(args, output)`.

        Once a step, or with `is_each` at each call.
        """
        taps = [Tap(self, module, look(number), is_due, is_each) for number, module in enumerate(modules)]
        self.handles += [module.register_forward_hook(tap) for module, tap in zip(modules, taps)]
        return taps


class Tap:
    """A forward hook that looks once a step, where gradients are on, and never changes the output nor raises.

    Once a step, unless it `is_each`: of several micro-batches it sees the first, and of the two runs of a checkpointed block one. A compiled model stops for it (a graph break); where it was not hung up before the model was compiled,
    it may never be called. A copy or a pickle of the model carries none.
    """

    def __init__(
        self, watched: Watched, module: nn.Module, look: Look, is_due: Callable[[], bool], is_each: bool = False
    ) -> None:
        self.watched, self.module, self.look, self.is_due, self.is_each = watched, module, look, is_due, is_each
        self.seen_at = 0

    def _see(self, module: nn.Module, args: Any, output: Any) -> None:
        if not torch.is_grad_enabled() or not self.is_due():
            return
        if self.seen_at == self.watched.step and not self.is_each:
            return
        self.seen_at = self.watched.step
        try:
            with torch.no_grad(), torch.autocast(device_of(output), enabled=False):
                self.look(args, output)
        except Exception as problem:  # whatever it is: the model's own forward pass goes on
            logger.warning("`%s` could not be looked at: %s", type(module).__name__, problem)
            self.is_due = _never

    __call__: Any = torch.compiler.disable(_see)

    def __reduce__(self) -> Any:
        return _Untapped, ()


class _Untapped:
    """What is left of a tap in a copy of the model."""

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        return None


def _never() -> bool:
    return False


def first_tensor(found: Any) -> Tensor | None:
    """The first tensor of floats in what a module was given or gave back: itself, or in a tuple, a list or a dict."""
    if isinstance(found, Tensor):
        return found.detach() if found.is_floating_point() else None
    inside = found.values() if isinstance(found, dict) else found if isinstance(found, tuple | list) else ()
    return next((tensor for one in inside if (tensor := first_tensor(one)) is not None), None)


def device_of(found: Any) -> str:
    """The type of device on which it lies."""
    tensor = first_tensor(found)
    return "cpu" if tensor is None else tensor.device.type
