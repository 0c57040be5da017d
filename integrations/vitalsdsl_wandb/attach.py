"""attach: a policy over every run that this process logs to Weights & Biases."""

from __future__ import annotations

import atexit
import logging
import math
import os
import threading
import weakref
from collections.abc import Mapping
from typing import Any

from vitalsdsl.attaching.attachment import Attachment, as_policy
from vitalsdsl.attaching.session import Monitor
from vitalsdsl.attaching.sharing import Sharing
from vitalsdsl.ground.points import RunInfo, planned_steps
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl_wandb.port import WandbPort
from vitalsdsl_wandb.rows import Rows
from vitalsdsl_wandb.tap import forget, install, remove, wandb_module

logger = logging.getLogger("vitalsdsl")

AT_FINISH = 5.0
"""Seconds that the end of a run waits for tags, alerts and files that are still to be put on it."""


class WandbAttachment:
    """One policy over the runs of this process. `detach` ends it.

    Rules see the rows that W&B keeps, at the moment they are complete: a row that is logged with `step=` counts when
    the next step begins or the run ends. Rows of one step of the axis count as one. Two threads that log to one run at
    the same instant may have their rows counted in the other order.
    """

    def __init__(self, policy: LoadedPolicy, total_steps: float = math.nan) -> None:
        self.policy = policy
        self._attachment = Attachment(policy, _sharing, total_steps)
        self._rows: dict[str, Rows] = {}
        self._newest: tuple[Any, Rows] | None = None
        """The run that has logged last, and its rows: to ask a run for its id is dearer than all that is done here."""
        self._definitions: dict[str, list[tuple[str, str, bool | None]]] = {}
        self._over: weakref.WeakSet[Any] = weakref.WeakSet()
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._said_offline = False

    def monitor(self, run_id: str) -> Monitor | None:
        """The monitor of a run that has logged something and is not over."""
        return self._attachment.monitor(run_id)

    def detach(self) -> None:
        """Stop watching: what is queued is finished, and W&B is as it was."""
        if self in _attached:
            _attached.remove(self)
        remove(self)
        atexit.unregister(self._end_all)
        self._end_all()
        self._attachment.detach()

    # ---------------------------------------------------------------- told by the tap

    def logged(self, run: Any, before: int, data: Any, step: int | None, commit: bool | None) -> None:
        """W&B has taken a call of `run.log`; `before` is its step until then."""
        if os.getpid() != self._pid or data.__class__ is not dict and not isinstance(data, Mapping):
            return
        with self._lock:
            newest = self._newest
            if newest is not None and newest[0] is run:
                newest[1].log(data, step, commit)
                return
            rows = self._rows.get(run.id)
            if rows is None:
                if run in self._over:
                    return
                try:
                    rows = self._start(run, before)
                except Exception:  # tried again at every call it would fail at every call
                    self._over.add(run)
                    raise
            if rows is not None:
                self._newest = run, rows
                rows.log(data, step, commit)

    def defined(self, run: Any, pattern: str, step_metric: Any, step_sync: bool | None) -> None:
        """W&B has taken a call of `run.define_metric`, mostly before the first row."""
        step_metric = getattr(step_metric, "name", step_metric)
        if os.getpid() != self._pid or not isinstance(step_metric, str):
            return
        with self._lock:
            rows = self._rows.get(run.id)
            if rows is not None:
                rows.define(pattern, step_metric, step_sync)
            elif run not in self._over:
                self._definitions.setdefault(run.id, []).append((pattern, step_metric, step_sync))

    def ending(self, run: Any) -> None:
        """W&B is about to finish a run."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._over.add(run)
            self._definitions.pop(run.id, None)
        self._end(run.id)
        self._attachment.resume(run.id)
        forget(run)

    def _start(self, run: Any, before: int) -> Rows | None:
        """The rows of a run that is new here; None at the exit of the process, when all runs have been ended."""
        monitor = self._attachment.monitor(run.id, lambda: self._port(run), lambda: _info(run))
        if monitor is None:
            return None
        # What is registered last runs first: at the exit of the process the last open row is to be evaluated before
        # the run's dispatcher closes, and before W&B's own end.
        atexit.unregister(self._end_all)
        atexit.register(self._end_all)

        def take(values: dict[str, float], step: int) -> None:
            monitor.take(values, step, commit=rows.axis is None)

        rows = self._rows[run.id] = Rows(run.id, take, self.policy.axis, before)
        for definition in self._definitions.pop(run.id, ()):
            rows.define(*definition)
        return rows

    def _port(self, run: Any) -> WandbPort:
        if not self._said_offline and getattr(run, "offline", False):
            self._said_offline = True
            logger.warning("vitals: run %s is offline: its alerts are kept, and sent at `wandb sync`", run.id)
        return WandbPort(wandb_module(), run)

    def _end(self, run_id: str) -> None:
        with self._lock:
            rows = self._rows.pop(run_id, None)
            self._newest = None
            if rows is None:
                return
            rows.finish()
        self._attachment.end(run_id, AT_FINISH)

    def _end_all(self) -> None:
        if os.getpid() == self._pid:
            for run_id in list(self._rows):
                self._end(run_id)


def _info(run: Any) -> RunInfo:
    """What a run says of itself in this process; W&B would print about the address of one that is offline."""
    url = "" if getattr(run, "offline", False) else run.url or ""
    return RunInfo(run.id, planned_steps(run.config), url, title=getattr(run, "name", None) or "")


_attached: list[WandbAttachment] = []
_sharing = Sharing()


def attach(
    policy: str | os.PathLike[str] | LoadedPolicy,
    *,
    settings: Mapping[str, object] | None = None,
    profile: str | None = None,
    total_steps: float = math.nan,
) -> WandbAttachment:
    """Watch every run that this process logs to W&B, begun or not, by whatever way: `wandb.log`, runs, callbacks.

    `settings` set params, over those of `profile`, where `policy` is a name. `total_steps` is how many steps a run
    plans, for `progress`; left out, it is the `total_steps` or `max_steps` of the run's config, as it is when the run
    first logs. The same policy twice is one. Raises PolicyError where the policy has errors, MissingExtraError without
    wandb.
    """
    loaded = as_policy(policy, settings, profile)
    for known in _attached:
        if known.policy.digest == loaded.digest:
            return known
    wandb_module()
    attachment = WandbAttachment(loaded, total_steps)
    _attached.append(attachment)
    install(attachment)
    return attachment


def arm() -> None:
    """Attach the policy that VITALS_POLICY names, from inside W&B's own import."""
    attach(os.environ["VITALS_POLICY"])
