"""What a `transformers.Trainer` counts of its own, and where it is in its data, as a guard needs them."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

from accelerate import skip_first_batches
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import has_length

from vitalsdsl.ground.errors import UsageError

logger = logging.getLogger("vitalsdsl")

_OF_THE_PROCESS = frozenset(
    "epoch max_steps num_train_epochs logging_steps eval_steps save_steps train_batch_size is_local_process_zero "
    "is_world_process_zero is_hyper_param_search trial_name trial_params stateful_callbacks".split()
)
"""What stands in a TrainerState and does not go back: how the process was started, and the epoch, which is the data's."""


class Stream:
    """The batches of a trainer's loader, one after another through all epochs, and how many there were.

    Before the first is drawn, or where an epoch ends, going on to a later place is free, or as cheap as accelerate can
    have it; in the midst of an epoch what lies between is drawn and dropped. `end` is how many there are in all.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._batches: Iterator[Any] | None = None
        self._length: int | None = len(loader) if has_length(loader) else None
        self._updates, self._batches_an_update = 1, 1
        self._in_epoch = 0
        self.position = self.epoch = 0
        self.end: int | None = None

    def group(self, updates: int, batches: int) -> None:
        """How many updates the trainer makes in an epoch, of how many batches each, the last perhaps of fewer."""
        self._updates, self._batches_an_update = updates, batches

    def after(self, steps: int) -> int:
        """The position after so many updates, where nothing is passed over."""
        if self._length is None:
            return steps * self._batches_an_update
        epochs, rest = divmod(steps, self._updates)
        return epochs * self._length + rest * self._batches_an_update

    @property
    def is_over(self) -> bool:
        return self.end is not None and self.position >= self.end

    @property
    def passed(self) -> float:
        """How many epochs lie behind; whole ones where the loader does not know its length."""
        return self.epoch + self._in_epoch / (self._length or 1) * (self._length is not None)

    def __next__(self) -> Any:
        if self.is_over:
            raise StopIteration
        if self._batches is None:
            self._begin(0)
        assert self._batches is not None
        try:
            batch = next(self._batches)
        except StopIteration:
            if self._in_epoch == 0:
                raise  # an empty loader would be begun for ever
            self._turn()
            self._begin(0)
            batch = next(self._batches)
        self._go(1)
        return batch

    def _go(self, count: int) -> None:
        self._in_epoch += count
        self.position += count
        if self._in_epoch == self._length:
            self._turn()

    def _turn(self) -> None:
        self.epoch += 1
        self._in_epoch = 0
        self._batches = None

    def _begin(self, skip: int) -> None:
        loader = skip_first_batches(self._loader, skip) if skip else self._loader
        inner = getattr(getattr(loader, "batch_sampler", None), "batch_sampler", None)
        for one in (loader, inner):  # both, as the trainer does
            tell = getattr(one, "set_epoch", None)
            if tell is not None:
                tell(self.epoch)
        self._batches = iter(loader)
        if skip:  # an iteration draws from the random generators as it begins: now, before they are put back
            self._batches = itertools.chain([next(self._batches)], self._batches)

    def skip_to(self, position: int) -> None:
        """Go on to a later position. Raises UsageError backwards."""
        if position < self.position:
            raise UsageError(f"the data is at batch {self.position} and cannot go back to {position}")
        if position > self.position:
            logger.warning("vitals: %d batches are passed over", position - self.position)
        with contextlib.suppress(StopIteration):
            while (left := position - self.position) > 0:
                if self._length is not None and left >= self._length - self._in_epoch:
                    self._go(self._length - self._in_epoch)
                elif self._batches is None and self._length is not None:
                    self._begin(left)
                    self._go(left)
                else:
                    next(self)


class Loader:
    """A trainer's loader, whose batches are those that the guard lets through, in epochs of the guard's."""

    def __init__(self, loader: Any, batches: Callable[[], Iterator[Any]]) -> None:
        self._loader, self._batches = loader, batches

    def __iter__(self) -> Iterator[Any]:
        return self._batches()

    def __len__(self) -> int:
        return len(self._loader)

    def set_epoch(self, epoch: int) -> None:
        """The trainer's epochs begin anew with each process; those of the data do not."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class Counters:
    """The state of a trainer beside model, optimizer and scheduler: its TrainerState, what it has yet to log, and the
    states of the callbacks that have one, such as the patience of early stopping."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def state_dict(self) -> dict[str, Any]:
        trainer = self._trainer
        state = {k: v for k, v in dataclasses.asdict(trainer.state).items() if k not in _OF_THE_PROCESS}
        return {
            "state": json.dumps(state),
            "callbacks": json.dumps([[type(one).__name__, one.state()["attributes"]] for one in self._stateful()]),
            "total_loss": float(trainer._total_loss_scalar),
            "unlogged_loss": float(trainer._tr_loss),
            "last_logged": int(trainer._globalstep_last_logged),
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        trainer = self._trainer
        for name, value in json.loads(saved["state"]).items():
            if hasattr(trainer.state, name):
                setattr(trainer.state, name, value)
        for one, (name, attributes) in zip(self._stateful(), json.loads(saved["callbacks"])):
            if type(one).__name__ == name:
                for attribute, value in attributes.items():
                    setattr(one, attribute, value)
        trainer._total_loss_scalar = saved["total_loss"]
        trainer._tr_loss.fill_(saved["unlogged_loss"])
        trainer._globalstep_last_logged = saved["last_logged"]

    def _stateful(self) -> list[Any]:
        return [one for one in self._trainer.callback_handler.callbacks if isinstance(one, ExportableState)]
