"""What a checkpoint holds of a training, and how it is put back."""

from __future__ import annotations

import io
import random
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from vitalsdsl.errors import UsageError

State = dict[str, Any]


class Stateful(Protocol):
    """Anything that can say its state and take it up again: a scheduler, a scaler, averaged weights."""

    def state_dict(self) -> Any: ...

    def load_state_dict(self, state: Any, /) -> Any: ...


class Contents:
    """Model, optimizers, and whatever else has a state, together with the random generators of the process.

    `others` are by name. Raises UsageError where one of them has a state that is more than tensors and plain data:
    such a file could not be read without running what stands in it.
    """

    def __init__(self, model: Any, optimizers: Sequence[Any], others: Mapping[str, Stateful]) -> None:
        self._model = model
        self._optimizers = tuple(optimizers)
        self._others = dict(others)
        self._parameters = frozenset(name for name, _ in model.named_parameters())
        for name, other in self._others.items():
            _check_plain(name, other)

    def capture(self) -> dict[str, State]:
        """The state now, in parts: each a file."""
        return {
            "model": dict(self._model.state_dict()),
            "optimizer": {str(at): o.state_dict() for at, o in enumerate(self._optimizers)},
            "rest": {"others": {n: o.state_dict() for n, o in self._others.items()}, "random": _random_state()},
        }

    def misfit(self, state: Mapping[str, State]) -> str:
        """Why a state cannot be one of this training; nothing where it can."""
        mine, theirs = self._model.state_dict(), state["model"]
        if mine.keys() != theirs.keys():
            name = min(mine.keys() ^ theirs.keys())
            return f"the model {'has' if name in mine else 'lacks'} `{name}`, unlike the checkpoint"
        for name, tensor in mine.items():
            if isinstance(tensor, torch.Tensor) and tensor.shape != theirs[name].shape:
                return f"`{name}` is {_shape(theirs[name])} in the checkpoint and {_shape(tensor)} in the model"
        if len(state["optimizer"]) != len(self._optimizers):
            return f"it holds {len(state['optimizer'])} optimizers, and there are {len(self._optimizers)}"
        if state["rest"]["others"].keys() != self._others.keys():
            odd = sorted(state["rest"]["others"].keys() ^ self._others.keys())
            return f"only one of the two has: {', '.join(odd)}"
        return ""

    def unsound(self, state: Mapping[str, State]) -> str:
        """Why a state is not worth going back to; nothing where it is. Buffers may be infinite, parameters not."""
        for name in sorted(self._parameters):
            if not torch.isfinite(state["model"][name].float()).all():
                return f"`{name}` is not finite"
        return ""

    def apply(self, state: Mapping[str, State]) -> None:
        """Put a state back. Raises whatever the parts raise; then the training is in no usable state."""
        self._model.load_state_dict(state["model"])
        for at, optimizer in enumerate(self._optimizers):
            optimizer.load_state_dict(state["optimizer"][str(at)])
        for name, other in self._others.items():
            other.load_state_dict(state["rest"]["others"][name])
        _set_random(state["rest"]["random"])


def _check_plain(name: str, other: Stateful) -> None:
    if not (hasattr(other, "state_dict") and hasattr(other, "load_state_dict")):
        raise UsageError(f"`{name}` has no state_dict and load_state_dict: it cannot be part of a checkpoint")
    buffer = io.BytesIO()
    try:
        torch.save(other.state_dict(), buffer)
        buffer.seek(0)
        torch.load(buffer, weights_only=True)
    except Exception as error:
        raise UsageError(f"the state_dict of `{name}` holds more than tensors and plain data") from error


def _shape(tensor: Any) -> str:
    return "x".join(map(str, tensor.shape)) or "a number"


def _random_state() -> State:
    kind, keys, *rest = np.random.get_state()
    return {
        "python": random.getstate(),
        "numpy": [kind, [int(k) for k in keys], *rest],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def _set_random(state: State) -> None:
    version, inner, gauss = state["python"]
    random.setstate((version, tuple(inner), gauss))
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.device_count() == len(state["cuda"]):
        torch.cuda.set_rng_state_all(state["cuda"])
