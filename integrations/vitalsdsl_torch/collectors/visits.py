"""Visits to the layers of a model: what they give to attention is seen on its way, and not changed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from vitalsdsl_torch.collectors.attention_logits import Attention, Projections, of_module, of_product, projections
from vitalsdsl_torch.collectors.watched import Watched, first_tensor

logger = logging.getLogger("vitalsdsl")

_TAKEN: dict[Any, Callable[..., Attention | None]] = {
    functional.scaled_dot_product_attention: of_product,
    functional.multi_head_attention_forward: of_module,
}


class Seer(Protocol):
    """Who wants to see."""

    is_due: bool

    def see(self, layer: int, given: Attention | None) -> None:
        """Attention was called in this layer."""

    def see_projected(self, layer: int, made: Projections, query: Tensor | None, key: Tensor | None) -> None:
        """Queries and keys were made in this layer, which ends now."""


def visit(watched: Watched, module: nn.Module, layer: int, seer: Seer) -> tuple[Any, Any]:
    """Visit this layer once a step that is due, where gradients are on; gives the handles that end it."""
    found = [one for part in module.modules() if (one := projections(part)) is not None]
    made = Visit(watched, layer, found, seer)
    return (
        module.register_forward_pre_hook(_Enter(made)),
        module.register_forward_hook(_Leave(made), always_call=True),
    )


class Visit:
    """What is done between a layer's beginning and its end, once a step that is due. Nothing of it is raised."""

    def __init__(self, watched: Watched, layer: int, found: list[Projections], seer: Seer) -> None:
        self.watched, self.layer, self.found, self.seer = watched, layer, found, seer
        self.seen_at = 0
        self.is_off = False
        self._sight: _Sight | None = None
        self._thread = 0
        self._handles: list[Any] = []
        self._made: dict[nn.Module, Tensor] = {}

    def enter(self) -> None:
        step = self.watched.step
        if self._is_mine():
            self._end()  # an interrupt, unlike an error, calls no hook
        if self.is_off or not self.seer.is_due or self.seen_at == step or not torch.is_grad_enabled():
            return
        self.seen_at = step
        try:
            self._made = {}
            for made in self.found:
                self._handles += [one.register_forward_hook(self._keep) for one in (made.query, made.key)]
            self._sight, self._thread = _Sight(self), threading.get_ident()
            self._sight.__enter__()
        except Exception as problem:
            self._fail(problem)

    def leave(self) -> None:
        if not self._is_mine():
            return
        device = self._end()
        try:
            with torch.no_grad(), torch.autocast(device, enabled=False):
                for made in self.found:
                    self.seer.see_projected(self.layer, made, self._made.get(made.query), self._made.get(made.key))
        except Exception as problem:
            self._fail(problem)
        self._made = {}

    def _is_mine(self) -> bool:
        """Whether there is a visit to end. Replicas of a model run in threads of their own, with the same hooks."""
        return self._sight is not None and threading.get_ident() == self._thread

    def _end(self) -> str:
        sight, self._sight = self._sight, None
        device = "cpu" if sight is None else sight.device
        try:
            if sight is not None:
                sight.__exit__(None, None, None)
            for handle in self._handles:
                handle.remove()
        except Exception as problem:
            self._fail(problem)
        self._handles = []
        return device

    def is_there(self, sight: _Sight) -> bool:
        """Whether this is the visit of this step. One that an interrupt cut short sees nothing more."""
        return sight is self._sight and self.seen_at == self.watched.step

    def see(self, function: Any, args: Any, kwargs: Any) -> None:
        try:
            query = first_tensor((*args, *kwargs.values()))
            with torch.no_grad(), torch.autocast("cpu" if query is None else query.device.type, enabled=False):
                self.seer.see(self.layer, _TAKEN[function](*args, **kwargs))
        except Exception as problem:
            self._fail(problem)

    def _keep(self, module: nn.Module, args: Any, output: Any) -> None:
        tensor = first_tensor(output)
        if self._sight is not None and tensor is not None and type(tensor) is Tensor:
            self._sight.device = tensor.device.type
            self._made[module] = tensor

    def _fail(self, problem: Exception) -> None:
        self.is_off = True
        logger.warning("the attention of layer %d could not be looked at: %s", self.layer, problem)


class _Sight(TorchFunctionMode):  # type: ignore[misc]
    """Sees the calls of attention between its entry and its exit, and changes none."""

    def __init__(self, visit: Visit) -> None:
        super().__init__()
        self.visit, self.device = visit, "cpu"

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = function(*args, **(kwargs or {}))
        # A compiled function within the layer is traced through here, and left alone.
        if function in _TAKEN and not torch.compiler.is_compiling() and self.visit.is_there(self):
            self.visit.see(function, args, kwargs or {})
        return output


class _Enter:
    """The hook before a layer. While a model is compiled it folds into nothing, so that its graph stays whole."""

    def __init__(self, visit: Visit) -> None:
        self.visit = visit

    def __call__(self, module: nn.Module, args: Any) -> None:
        if not torch.compiler.is_compiling():
            self.visit.enter()

    def __reduce__(self) -> Any:
        return _Gone, ()


class _Leave:
    """The hook behind a layer, also where the layer failed."""

    def __init__(self, visit: Visit) -> None:
        self.visit = visit

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        if not torch.compiler.is_compiling():
            self.visit.leave()

    def __reduce__(self) -> Any:
        return _Gone, ()


class _Gone:
    """What is left of either in a copy or a pickle of the model."""

    def __call__(self, *args: Any) -> None:
        return None
