"""Where the floors meet: a policy over a run that is being logged."""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import math
import os
import threading
import time as clock
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from vitalsdsl.attaching.saved_state import sealed, unsealed
from vitalsdsl.ground.errors import StateError, UsageError
from vitalsdsl.ground.points import number
from vitalsdsl.language.rules import Level
from vitalsdsl.planning.logged import WHY_UNKNOWN, Read, Reads
from vitalsdsl.planning.unrecognised import Unrecognised, otherwise_lacking, unrecognised
from vitalsdsl.policies.policy import LoadedPolicy, as_policy
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.verdicts.verdict import Past, Transition

logger = logging.getLogger("vitalsdsl")

EARLY = 100
"""Closed steps after which a metric that was not logged is worth a word."""


class Acts(Protocol):
    """Whatever is told of transitions: dispatch, or a list."""

    def take(self, transitions: Sequence[Transition]) -> object:
        """Decide what to do about them; must return at once and never raise."""

    def close(self, timeout: float = ...) -> object:
        """The end of the run: what is still queued may be finished, within the timeout."""


class Monitor:
    """A policy over one run, step by step, safe to call from a training loop.

    Nothing raises out of it but a wrong use of its own arguments: if evaluation fails, that is logged once and the
    monitor goes quiet. Calls from several threads are taken one at a time.

    >>> import vitalsdsl as vitals
    >>> policy = vitals.load("spikes", text="when loss > 3 for 2 steps -> orange")
    >>> monitor = vitals.watch(policy)
    >>> for step, loss in enumerate([2.0, 4.0, 4.0]):
    ...     for transition in monitor.log({"loss": loss}, step=step):
    ...         print(transition.step, transition.rule, transition.to.word)
    2 loss_orange orange
    """

    def __init__(
        self,
        policy: LoadedPolicy,
        run: str = "run",
        *,
        acts: Acts | None = None,
        total_steps: float = math.nan,
        keep_all: bool = False,
        past: Past | None = None,
    ) -> None:
        self.policy = policy
        self._past = past
        self._is_fresh = True
        self._is_resumed = False
        self._keep_all = keep_all
        self._stream = Stream(policy.policy, run, policy.digest, keep_all, total_steps)
        # A run that lasts needs it, and NumPy with it, in the midst of training: better now.
        importlib.import_module("vitalsdsl.streaming.step_writer")
        self._acts = acts
        self._lock = threading.RLock()
        self._next_step = 0
        self._broken = False
        self._busy_since: float | None = None
        self._busy = 0.0
        self._over = threading.Event()
        self.is_over = False
        """Whether the run has ended."""
        self._steps = 0
        self._told: set[str] = set()
        if self._stream.plan.graph.stalled:
            threading.Thread(target=self._watch_clock, name="vitals-clock", daemon=True).start()

    @property
    def run(self) -> str:
        return self._stream.run

    @property
    def level(self) -> Level:
        """The highest level of the run's rules at the newest closed step."""
        return self._stream.level

    @property
    def levels(self) -> dict[str, Level]:
        """The rules that are not green, with their levels."""
        return {
            rule.name if rule.member is None else f"{rule.name}[{rule.member}]": rule.level
            for rule in self._stream.plan.rules
            if rule.level
        }

    @property
    def counters(self) -> dict[str, float]:
        """The run's own `epoch` and `tokens`, as far as they are logged."""
        clock = self._stream.plan.graph.clock
        return {name: value for name in ("epoch", "tokens") if (value := clock.counter(name)) == value}

    @property
    def total_steps(self) -> float:
        """How many steps the run plans, for `progress`; NaN where it has not said so. May be set once that is known."""
        return self._stream.total_steps

    @total_steps.setter
    def total_steps(self, steps: float) -> None:
        with self._lock:
            self._stream.total_steps = steps

    @property
    def late_points(self) -> int:
        """Points that came after their step had closed and were older than their metric's newest: read by no rule."""
        return self._stream.late_points

    @property
    def never_logged(self) -> list[str]:
        """The metrics that rules read and this run has not logged so far, by the policy's names for them. Those that the
        policy calls `optional` are among them only where it has logged nothing at all that the policy reads."""
        with self._lock:
            return [read.path for read in self._reads.never_logged(self._stream.names)]

    @functools.cached_property
    def _reads(self) -> Reads:
        return Reads(self.policy.policy)

    def log(
        self,
        values: Mapping[str, object],
        step: int | None = None,
        *,
        time: float | None = None,
        commit: bool = True,
    ) -> list[Transition]:
        """Log values of one step (by default the next one) and close it; what changed.

        With `commit=False` the step stays open for more. What is no number is left out; `time` is wall time in seconds,
        now by default.
        """
        numbers = {}
        for name, value in values.items():
            x = value if value.__class__ is float else number(value)
            if x is not None:
                numbers[name] = x
        given = None if step is None else whole_step(step)
        with self._lock:
            return self.take(numbers, self._next_step if given is None else given, time, commit)

    def take(
        self, numbers: Mapping[str, float], step: int, time: float | None = None, commit: bool = False
    ) -> list[Transition]:
        """`log` for those who have nothing but numbers, and whole steps: what a tracker's rows come to."""
        with self._lock:
            following = step + 1 if commit else step
            if following > self._next_step:
                self._next_step = following
            if self._broken:
                return []
            try:
                self._busy = 0.0
                out = self._begin(numbers, step) if self._is_resumed or self._past is not None else []
                stream = self._stream
                before = stream.closed
                out += stream.push(numbers, step, clock.time() if time is None else time)
                if commit:
                    out += stream.close()
                if stream.closed != before:
                    self._steps += 1
                    if self._steps == EARLY:
                        self._tell_early()
                if out and self._acts is not None:
                    self._acts.take(out)
                return out
            except Exception:  # a health rule must never end a training run
                return self._broke()

    def _begin(self, values: Mapping[str, float], step: int) -> list[Transition]:
        """The first values of a run that is known already."""
        out = self._resume(values, step) if self._is_resumed else []
        if self._past is not None and self._stream.reads(values):
            out += self._take_up(self._past, step)
        return out

    def _tell_early(self) -> None:
        """As soon as it is likely to be a mistake: what no rule will ever see."""
        blind = self._tell_unrecognised()
        due = [r for r in otherwise_lacking(self._reads, self._stream.names, blind) if r.is_due(EARLY)]
        self._tell_lacking(f"not logged in the first {EARLY} steps", due)

    def _tell_unrecognised(self) -> list[Unrecognised]:
        """That a loss or gradient norm goes by a name which the policy does not know."""
        blind = unrecognised(self._reads, self._stream.names)
        for one in blind:
            logger.warning("vitals: run %s: %s", self.run, one.told)
        return blind

    def _tell_end(self) -> list[Transition]:
        if "end" not in self._told and self._stream.closed is not None:
            self._told.add("end")
            blind = self._tell_unrecognised()
            self._tell_lacking("never logged", otherwise_lacking(self._reads, self._stream.names, blind))
            for name in self._reads.never_known(self._stream.plan.graph.clock.counter):
                logger.warning("vitals: run %s: never known: %s (%s)", self.run, name, WHY_UNKNOWN[name])
            if self.late_points:
                late = (
                    "1 point came after its" if self.late_points == 1 else f"{self.late_points} points came after their"
                )
                text = "vitals: run %s: %s step had closed, older than the newest of the metric: no rule has read them"
                logger.warning(text, self.run, late)
        return []

    def _tell_lacking(self, what: str, lacking: list[Read]) -> None:
        if lacking:
            logger.warning("vitals: run %s: %s: %s", self.run, what, self._reads.told(lacking, self._stream.names))

    def _resume(self, values: Mapping[str, float], step: int) -> list[Transition]:
        """The first values of a run whose state was loaded: where a metric comes again at a step that it had, the script
        has gone back to a checkpoint. What the rules knew there is not kept."""
        known = max(map(self._stream.newest, values), default=-math.inf)
        self._is_resumed = known == -math.inf
        if step > known:
            return []
        logger.warning("vitals: run %s goes back to step %d: its rules start anew there", self.run, step)
        old, self._past = self._stream, None
        self._stream = Stream(self.policy.policy, self.run, self.policy.digest, self._keep_all, old.total_steps)
        return self._stream.replace(old, step - 1)

    def _take_up(self, past: Past, step: int) -> list[Transition]:
        """The first step here that the policy reads anything of, in a run that was watched before."""
        self._past = None
        if self._is_fresh and past.levels or step <= past.step:
            logger.warning(
                "vitals: run %s goes on at step %d, after a change at step %.0f%s", self.run, step, past.step,
                ": without their saved state its rules start anew there" if self._is_fresh else "",
            )  # fmt: skip
        return self._stream.take_up(past, step)

    def newest(self, name: str) -> float:
        """The newest closed step at which a logged name had a point; -Infinity before the first."""
        return self._stream.newest(name)

    def commit(self) -> list[Transition]:
        """Close the open step."""
        with self._lock:
            return self._guarded(self._stream.close)

    def rewind(self, step: int) -> list[Transition]:
        """The run goes back to a step: what was logged after it no longer counts."""
        step = whole_step(step)
        with self._lock:
            out = self._guarded(self._stream.rewind, step)
            if self._stream.history_lost:
                logger.warning("vitals: history lost: step %s is further back than was kept; starting anew there", step)
                self._stream.history_lost = False
            self._next_step = step + 1
            return out

    def finish(self, timeout: float = 10.0) -> list[Transition]:
        """The end of the run: closes the open step and lets queued actions finish, within the timeout."""
        self.is_over = True
        self._over.set()
        with self._lock:
            out = self._guarded(self._stream.finish)
            self._guarded(self._tell_end)
        if self._acts is not None:
            self._acts.close(timeout)
        return out

    def save(self) -> dict[str, Any]:
        """The state of all rules, as plain data for a checkpoint, which JSON can hold (NaN and Infinity as Python writes
        them)."""
        with self._lock:
            return sealed(self._stream.save())

    def load(self, state: Mapping[str, Any]) -> None:
        """Take up a saved state. Raises StateError where it belongs to another policy or is damaged; the monitor is as it
        was before, then, and can go on from there."""
        inside = unsealed(state)
        with self._lock:
            old = self._stream
            new = Stream(self.policy.policy, self.run, self.policy.digest, self._keep_all, old.total_steps)
            try:
                new.load(inside)
            except StateError:
                raise
            except Exception as error:  # whatever a wrong value in it leads to
                raise StateError("saved rule state is damaged: it is not as it was saved") from error
            self._stream = new
            self._is_fresh, self._is_resumed = False, True
            if self._stream.closed is not None:
                self._next_step = self._stream.closed + 1

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """While the run evaluates, saves a checkpoint or waits on purpose: the clock of `stalled` stands still."""
        with self._lock:
            self._busy_since = clock.monotonic()
        try:
            yield
        finally:
            with self._lock:
                if self._busy_since is not None:
                    self._busy += clock.monotonic() - self._busy_since
                self._busy_since = None

    def _watch_clock(self) -> None:
        wait = max(0.05, min(30.0, min(node.limit for node in self._stream.plan.graph.stalled) / 4))
        while not self._over.wait(wait):
            with self._lock:
                if self._busy_since is None:
                    self._guarded(self._stream.tick, clock.time() - self._busy)

    def _guarded(self, act: Any, *arguments: Any) -> list[Transition]:
        if self._broken:
            return []
        try:
            out: list[Transition] = act(*arguments)
            if out and self._acts is not None:
                self._acts.take(out)
            return out
        except Exception:  # a health rule must never end a training run
            return self._broke()

    def _broke(self) -> list[Transition]:
        self._broken = True
        logger.exception("vitals: evaluation failed and is off for the rest of run %s; training goes on", self.run)
        return []


def watch(
    policy: str | os.PathLike[str] | LoadedPolicy,
    run: str = "run",
    *,
    acts: Acts | None = None,
    total_steps: float = math.nan,
    keep_all: bool = False,
) -> Monitor:
    """Watch a run that this code logs itself, without any tracker.

    `policy` is a file, `pack:NAME`, or a policy that was loaded. `total_steps` is the planned length of the run, for
    `progress`. `keep_all` keeps every point, so that the run can be rewound to any step. `acts` is told of each
    transition. Raises PolicyError where the policy has errors.
    """
    return Monitor(as_policy(policy), run, acts=acts, total_steps=total_steps, keep_all=keep_all)


def whole_step(step: Any) -> int:
    """A step as an int. Raises UsageError for what is no whole number."""
    try:
        whole = int(step)
        if not isinstance(step, bool) and whole == step:
            return whole
    except (TypeError, ValueError, OverflowError):
        pass  # said below
    raise UsageError(f"a step is a whole number, not {step!r}")
