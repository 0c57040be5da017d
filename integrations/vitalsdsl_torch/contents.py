"""What a checkpoint holds of a training, and how it is put back."""

from __future__ import annotations

import io
import random
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch.nn.parallel import DistributedDataParallel

from vitalsdsl.ground.errors import UsageError

State = dict[str, Any]


class Stateful(Protocol):
    """Anything that can say its state and take it up again: a scheduler, a scaler, averaged weights."""

    def state_dict(self) -> Any: ...

    def load_state_dict(self, state: Any, /) -> Any: ...


class Contents:
    """Model, optimizers, and whatever else has a state, together with the random generators of the process.

    `others` are by name. The state of a model that is wrapped, by DistributedDataParallel or a compiler, is that of the
    model inside. Raises UsageError for what could not be saved and put back: a state that is more than tensors and
    plain data (such a file could not be read without running what stands in it), a model that leaves parameters out of its
    own, an optimizer that takes no hooks.
    """

    def __init__(self, model: Any, optimizers: Sequence[Any], others: Mapping[str, Stateful]) -> None:
        if not isinstance(model, torch.nn.Module):
            raise UsageError(f"the model is a {type_name(model)}: several go into one torch.nn.ModuleDict")
        if any(type_name(module) == "FullyShardedDataParallel" for module in model.modules()):
            raise UsageError("a guard takes models that are sharded by `fully_shard`, not FullyShardedDataParallel")
        self.model = _unwrapped(model)
        self.optimizers = tuple(optimizers)
        self._others = dict(others)
        # By the names of the state, which differ from those of `named_parameters` within a checkpointed block.
        state = self.model.state_dict(keep_vars=True)
        self.parameters: dict[str, Any] = {n: v for n, v in state.items() if isinstance(v, torch.nn.Parameter)}
        self._names = {id(parameter): name for name, parameter in reversed(self.parameters.items())}
        for name, parameter in self.model.named_parameters():
            if id(parameter) not in self._names:
                raise UsageError(f"the model's state_dict lacks `{name}`: it could not be put back")
        _check_plain("the model", _without_tensors(state))
        if not self.optimizers:
            raise UsageError("a guard takes an optimizer, or several in a list")
        for optimizer in self.optimizers:
            check_hooks(optimizer)
            _check_plain("the optimizer", _without_tensors(optimizer.state_dict()))
        for name, other in self._others.items():
            if not (hasattr(other, "state_dict") and hasattr(other, "load_state_dict")):
                raise UsageError(f"`{name}` has no state_dict and load_state_dict: it cannot be part of a checkpoint")
            _check_plain(f"`{name}`", other.state_dict())

    @property
    def shape(self) -> list[str]:
        """What all ranks of a training have to have alike: the names of parameters and of the rest."""
        return [*self.parameters, *map(type_name, self.optimizers), *self._others]

    def capture(self) -> dict[str, State]:
        """The state now, in parts: each a file."""
        return {
            "model": dict(self.model.state_dict()),
            "optimizer": {str(at): o.state_dict() for at, o in enumerate(self.optimizers)},
            "rest": {
                "others": {n: o.state_dict() for n, o in self._others.items()},
                "optimizers": list(map(type_name, self.optimizers)),
                "random": random_state(),
            },
        }

    def parameter_names(self, optimizer: Any) -> list[str]:
        """The names of an optimizer's parameters, in the order in which its state counts them."""
        held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        return [self._names.get(id(parameter), f"#{at}") for at, parameter in enumerate(held)]

    def misfit(self, state: Mapping[str, State]) -> str:
        """Why a state cannot be one of this training; nothing where it can."""
        mine, theirs = self.model.state_dict(), state["model"]
        if mine.keys() != theirs.keys():
            name = min(mine.keys() ^ theirs.keys())
            return f"the model {'has' if name in mine else 'lacks'} `{name}`, unlike the checkpoint"
        for name, tensor in mine.items():
            if isinstance(tensor, torch.Tensor) and tensor.shape != theirs[name].shape:
                return f"`{name}` is {_shape(theirs[name])} in the checkpoint and {_shape(tensor)} in the model"
        if len(state["optimizer"]) != len(self.optimizers):
            return f"it holds {len(state['optimizer'])} optimizers, and there are {len(self.optimizers)}"
        for at, optimizer in enumerate(self.optimizers):
            held, saved = _sizes(optimizer.param_groups), _sizes(state["optimizer"][str(at)]["param_groups"])
            if held != saved:
                return f"the groups of {type_name(optimizer)} hold {held} parameters, and in the checkpoint {saved}"
        kinds = list(map(type_name, self.optimizers))
        if (said := state["rest"].get("optimizers", kinds)) != kinds:
            return f"it is of {', '.join(said)}, and the training has {', '.join(kinds)}"
        if state["rest"]["others"].keys() != self._others.keys():
            odd = sorted(state["rest"]["others"].keys() ^ self._others.keys())
            return f"only one of the two has: {', '.join(odd)}"
        return ""

    def unsound(self, state: Mapping[str, State]) -> str:
        """Why a state is not worth going back to; nothing where it is. Buffers may be infinite, parameters not. Of a
        sharded parameter this rank's part is looked at."""
        for name in sorted(self.parameters):
            if not _is_finite(local(state["model"][name])):
                return f"`{name}` is not finite"
        return ""

    def apply(self, state: Mapping[str, State]) -> None:
        """Put a state back. Raises whatever the parts raise; then the training is in no usable state.

        Random generators that are not in it stay as they are.
        """
        self.model.load_state_dict(state["model"])
        for at, optimizer in enumerate(self.optimizers):
            optimizer.load_state_dict(state["optimizer"][str(at)])
        for name, other in self._others.items():
            other.load_state_dict(state["rest"]["others"][name])
        if state["rest"]["random"]:
            set_random(state["rest"]["random"])


def beside(named: Mapping[str, Stateful], extra: Mapping[str, Stateful] | None) -> dict[str, Stateful]:
    """What a user gives beside what has a name of its own. Raises UsageError where one would take the other's place."""
    if extra is not None and not isinstance(extra, Mapping):
        raise UsageError(f"`extra` is objects by name, such as {{'ema': averaged}}, not a {type(extra).__name__}")
    for name in named.keys() & (extra or {}).keys():
        raise UsageError(f"`extra` has a `{name}`, and there is one of that name already")
    return {**named, **(extra or {})}


def check_hooks(optimizer: Any) -> None:
    """That an optimizer takes hooks: some that a library has wrapped look like one. Raises UsageError."""
    try:
        optimizer.register_step_pre_hook(_nothing).remove()
    except AttributeError:
        raise UsageError(f"{type_name(optimizer)} takes no hooks: give the torch optimizer that is inside") from None


def _nothing(*_: Any) -> None:
    """A hook to be taken off again."""


def local(tensor: Any) -> Any:
    """This rank's part of a tensor that is sharded; of any other the tensor."""
    return tensor.to_local() if is_sharded(tensor) else tensor


def is_sharded(tensor: Any) -> bool:
    """Whether it is a DTensor, told without the seconds that it takes to load that class."""
    return hasattr(tensor, "placements")


def type_name(thing: Any) -> str:
    return type(thing).__name__


def _unwrapped(model: Any) -> Any:
    while True:
        if isinstance(model, DistributedDataParallel):
            model = model.module
        elif isinstance(getattr(model, "_orig_mod", None), torch.nn.Module):  # compiled
            model = model._orig_mod
        else:
            return model


def _check_plain(whose: str, state: Any) -> None:
    if not is_plain(state):
        raise UsageError(f"the state_dict of {whose} holds more than tensors and plain data")


def is_plain(state: Any) -> bool:
    """Whether a state can be read again without running what stands in it: it is tensors and plain data."""
    buffer = io.BytesIO()
    try:
        torch.save(state, buffer)
        buffer.seek(0)
        torch.load(buffer, weights_only=True)
    except Exception:  # whatever torch raises of it
        return False
    return True


def _without_tensors(state: Any) -> Any:
    """What is to be looked at of a large state: tensors can always be read."""
    if isinstance(state, Mapping):
        return {key: _without_tensors(value) for key, value in state.items() if not isinstance(value, torch.Tensor)}
    if type(state) in (list, tuple):
        return [_without_tensors(value) for value in state if not isinstance(value, torch.Tensor)]
    return state


def _sizes(groups: Sequence[Mapping[str, Any]]) -> list[int]:
    return [len(group["params"]) for group in groups]


def _is_finite(tensor: Any) -> bool:
    # Types of a byte are not known to `isfinite`; wider than float32 the others must not be cut to it.
    return bool(torch.isfinite(tensor.float() if tensor.itemsize == 1 else tensor).all())


def _shape(tensor: Any) -> str:
    return "x".join(map(str, tensor.shape)) or "a number"


def random_state() -> State:
    """The random generators of the process: Python's, NumPy's, torch's."""
    kind, keys, *rest = np.random.get_state()
    return {
        "python": random.getstate(),
        "numpy": [kind, [int(k) for k in keys], *rest],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_random(state: State) -> None:
    """Have them draw on from a state."""
    version, inner, gauss = state["python"]
    random.setstate((version, tuple(inner), gauss))
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.device_count() == len(state["cuda"]):
        torch.cuda.set_rng_state_all(state["cuda"])
