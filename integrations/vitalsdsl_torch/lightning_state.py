"""What a Lightning trainer counts of its own, and where it is in its data, as a guard needs them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import torch
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.loops.fetchers import _DataLoaderIterDataFetcher
from lightning.pytorch.utilities.seed import isolate_rng

from vitalsdsl.ground.errors import UsageError
from vitalsdsl_torch.contents import is_plain

logger = logging.getLogger("vitalsdsl")


class Place:
    """Where a training is in its batches, counted as the trainer counts them, passed over or not.

    Within an epoch what is passed over is drawn and dropped, and the trainer's count of batches goes on with it, so that
    it ends the epoch where the data does. What reaches into the next epoch is dropped when that begins. A process that is
    started again begins the epoch with the random state that it had, so that a loader that shuffles gives the same order.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._ahead = 0
        self._is_under_way = self._has_ended = False
        self._begun_with: Any = None
        self._again: Any = None
        """The random state in which an epoch is begun that another process had begun; None where it is not one."""

    @property
    def _loop(self) -> Any:
        return self._trainer.fit_loop.epoch_loop

    @property
    def position(self) -> int:
        return int(self._loop.batch_progress.total.ready) + self._ahead

    def skip_to(self, position: int) -> None:
        """Go on to a later position. Raises UsageError backwards."""
        if position < self.position:
            raise UsageError(f"the data is at batch {self.position} and cannot go back to {position}")
        if position > self.position:
            logger.warning("vitals: %d batches are passed over", position - self.position)
        self._ahead += position - self.position
        if self._is_under_way:
            was_at_end = self._loop._num_ready_batches_reached()
            self._drop(self._trainer.fit_loop._data_fetcher.fetcher)
            self._has_ended = self._loop._num_ready_batches_reached() and not was_at_end

    def end_epoch(self) -> None:
        """Where the rest of an epoch was passed over, do what the trainer does after its last batch. To be called once
        the schedulers are where they went back to."""
        if self._has_ended:
            self._has_ended = False
            self._loop.update_lr_schedulers("epoch", update_plateau_schedulers=False)

    def state_dict(self) -> dict[str, Any]:
        fit, loop = self._trainer.fit_loop, self._loop
        epoch, in_epoch = fit.epoch_progress.current.processed, loop.batch_progress.current.ready
        if loop._num_ready_batches_reached():
            epoch, in_epoch = epoch + 1, 0
        return {"epoch": epoch, "in_epoch": in_epoch, "position": self.position, "random": self._begun_with}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where another process was; before the first epoch begins."""
        epochs, batches = self._trainer.fit_loop.epoch_progress, self._loop.batch_progress
        for tracker in (epochs.total, epochs.current):
            tracker.ready = tracker.started = tracker.processed = tracker.completed = state["epoch"]
        batches.reset()
        _add(batches.total, state["position"] - state["in_epoch"])
        self._ahead = state["in_epoch"]
        self._begun_with = state["random"]
        self._again = self._begun_with if state["in_epoch"] > 0 else None

    # ---------------------------------------------------------------- told by the fetcher

    def watch(self) -> None:
        """Have the trainer's fetcher of batches ask here, unless it does. Raises UsageError where it cannot."""
        fit = self._trainer.fit_loop
        if isinstance(fit._data_fetcher, _Watched):
            return
        if isinstance(fit._data_fetcher, _DataLoaderIterDataFetcher):
            raise UsageError("a guard cannot pass over batches where `training_step` takes a `dataloader_iter`")
        fit._data_fetcher = _Watched(fit._data_fetcher, self)

    def begin(self, fetcher: Any) -> None:
        """An epoch after the first begins."""
        self._is_under_way = False
        with self._as_it_was():
            if self._again is None:
                self._begun_with = torch.get_rng_state()
            iter(fetcher)
            if self._again is not None:
                self._again = torch.get_rng_state()

    def draw(self, fetcher: Any) -> Any:
        if self._is_under_way:
            return next(fetcher)
        with self._as_it_was():
            if self._begun_with is None:
                self._begun_with = torch.get_rng_state()
            self._drop(fetcher)
            batch = next(fetcher)
        self._is_under_way, self._again = True, None
        return batch

    @contextlib.contextmanager
    def _as_it_was(self) -> Iterator[None]:
        """While an epoch is begun that another process had begun, which draws from the random generators: these are as
        they were then, and afterwards as they are now."""
        if self._again is None:
            yield
            return
        with isolate_rng():
            torch.set_rng_state(self._again)
            yield

    def _drop(self, fetcher: Any) -> None:
        progress = self._loop.batch_progress
        while self._ahead:
            try:
                next(fetcher)
            except StopIteration:
                progress.is_last_batch = True
                return
            self._ahead -= 1
            progress.is_last_batch = fetcher.done
            for tracker in (progress.total, progress.current):
                _add(tracker, 1)


def _add(tracker: Any, count: int) -> None:
    """Batches that were begun and ended, as the trainer counts them."""
    for name in ("ready", "started", "processed", "completed"):
        setattr(tracker, name, getattr(tracker, name) + count)


class _Watched:
    """A trainer's fetcher of batches, which asks the place first. What the loops set and read of it is its own."""

    def __init__(self, fetcher: Any, place: Place) -> None:
        self.__dict__.update(fetcher=fetcher, place=place)

    def __iter__(self) -> Any:
        self.place.begin(self.fetcher)
        return self

    def __next__(self) -> Any:
        return self.place.draw(self.fetcher)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fetcher, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.fetcher, name, value)


class Counters:
    """The steps that a trainer counts, and the states of its callbacks, such as the patience of early stopping.

    Of the callbacks that make checkpoints the state is taken up by a process that is started again; a rollback leaves it:
    the files are still there.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self.is_under_way = False

    def state_dict(self) -> dict[str, Any]:
        loop = self._trainer.fit_loop.epoch_loop
        states = {one.state_key: one.state_dict() for one in self._trainer.callbacks}
        return {
            "automatic": loop.automatic_optimization.optim_progress.state_dict(),
            "manual": loop.manual_optimization.optim_step_progress.state_dict(),
            "schedulers": loop.scheduler_progress.state_dict(),
            "stepped": loop._batches_that_stepped,
            "callbacks": {key: state for key, state in states.items() if state and is_plain(state)},
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        loop = self._trainer.fit_loop.epoch_loop
        loop.automatic_optimization.optim_progress.load_state_dict(saved["automatic"])
        loop.manual_optimization.optim_step_progress.load_state_dict(saved["manual"])
        loop.scheduler_progress.load_state_dict(saved["schedulers"])
        # The trainer counts this one up once more behind the last batch, where it is under way.
        loop._batches_that_stepped = saved["stepped"] + (not self.is_under_way)
        for one in self._trainer.callbacks:
            state = saved["callbacks"].get(one.state_key)
            if state is not None and not (self.is_under_way and isinstance(one, Checkpoint)):
                one.load_state_dict(state)
