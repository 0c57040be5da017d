"""A policy over all runs that a process logs: what every tracker's `attach` stands on."""

from __future__ import annotations

import atexit
import logging
import math
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from vitalsdsl.acting.dispatch import Dispatcher
from vitalsdsl.acting.journal import Journal, journal_of
from vitalsdsl.acting.tracker import PolicyCopy, Port
from vitalsdsl.attaching.saved_state import save, state_path, take
from vitalsdsl.attaching.session import Monitor
from vitalsdsl.attaching.sharing import Sharing
from vitalsdsl.channels import configured_ports
from vitalsdsl.configuration import home_here
from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.ground.errors import StateError, UsageError
from vitalsdsl.ground.home import home_of
from vitalsdsl.ground.points import RunInfo
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl.policies.policy import as_policy as as_policy
from vitalsdsl.verdicts.verdict import Transition

logger = logging.getLogger("vitalsdsl")


class _Aloud:
    """Dispatch, and a line on stderr (by logging) for each alert: whoever looks at the training's output sees it, too."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def take(self, transitions: Sequence[Transition]) -> None:
        for decision in self._dispatcher.take(transitions):
            t = decision.transition
            if decision.acts:  # a rule that fires, or the word that it is over
                rule = t.rule if t.member is None else f"{t.rule} ({t.member})"
                said = printable(f"run {t.run}: step {t.step}: {t.to.word}: {rule}: {t.message}")
                logger.warning("vitals: %s", said)

    def flush(self, timeout: float = 10.0) -> bool:
        return self._dispatcher.flush(timeout)

    def close(self, timeout: float = 10.0) -> None:
        self._dispatcher.close(timeout)


class Attachment:
    """One policy and the runs of this process that it watches.

    Each run has a monitor, a dispatcher and a journal of its own; nothing is shared between runs. What the rules know
    at the end of a run is kept beside its journal, so that a process that resumes it goes on where they were. Several
    policies that watch one run share its port, by the `sharing` of their tracker. A forked child watches nothing: its
    copy of the state is of no use.
    """

    def __init__(
        self,
        policy: LoadedPolicy,
        sharing: Sharing | None = None,
        total_steps: float = math.nan,
        home: str | os.PathLike[str] | None = None,
    ) -> None:
        self.policy = policy
        self.total_steps = total_steps
        # Not where the script goes later: a journal must be found again.
        self.home = _home(home).absolute()
        self._channels = configured_ports(policy.policy)
        self._sharing = sharing if sharing is not None else Sharing()
        self._name = self._sharing.claim(policy.name, policy.digest)
        self._copy = copy_of(policy)
        self._monitors: dict[str, Monitor] = {}
        self._ended: set[str] = set()
        self._lock = threading.RLock()
        self._pid = os.getpid()
        atexit.register(self.end_all)
        for finding in policy.diagnostics:
            logger.info("%s", finding.render())

    def monitor(
        self, run: str, port: Callable[[], Port] | None = None, info: Callable[[], RunInfo] | None = None
    ) -> Monitor | None:
        """The monitor of a run, made when it is first asked for with a port; None in a forked child, or once it ended.

        `info` is what the tracker knows of the run, without asking anybody.
        """
        if os.getpid() != self._pid:
            return None
        known = self._monitors.get(run)
        if known is not None or port is None:
            return known
        with self._lock:
            if run not in self._monitors and run not in self._ended:
                self._monitors[run] = self._start(self._info(run, info), self._sharing.port(run, self._name, port))
            return self._monitors.get(run)

    def _info(self, run: str, info: Callable[[], RunInfo] | None) -> RunInfo:
        known = RunInfo(run)
        try:
            known = info() if info is not None else known
        except Exception:  # a link or a number that is not to be had is no reason not to watch
            logger.debug("vitals: run %s says nothing of itself", run, exc_info=True)
        return replace(known, total_steps=self.total_steps) if self.total_steps == self.total_steps else known

    def _start(self, info: RunInfo, port: Port) -> Monitor:
        run = info.name
        journal = Journal(journal_of(self.home, run, self._name))
        dispatcher = Dispatcher(
            self.policy.policy, [port, *self._channels], journal, info, counters=lambda: monitor.counters
        )
        dispatcher.record_policy(self._copy)
        monitor = Monitor(
            self.policy, run, acts=_Aloud(dispatcher), total_steps=info.total_steps, past=journal.past(run)
        )
        kept = None if journal.is_under_way(run) else take(state_path(self.home, run, self._name))
        if kept is not None:
            try:
                monitor.load(kept)
            except StateError as error:
                logger.warning("vitals: the rules of run %s start anew: %s", run, error)
        # Hooks at exit run last in, first out: ours, which closes the open step, before the dispatcher's own.
        atexit.unregister(self.end_all)
        atexit.register(self.end_all)
        return monitor

    def end(self, run: str, timeout: float = 10.0) -> None:
        """A run is over: close its open step and let what is queued finish, within the timeout."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            monitor = self._monitors.pop(run, None)
            self._ended.add(run)
        if monitor is not None:
            monitor.finish(timeout)
            save(state_path(self.home, run, self._name), monitor.save())
            self._sharing.leave(run, self._name)

    def resume(self, run: str) -> None:
        """A run that had ended goes on."""
        with self._lock:
            self._ended.discard(run)

    def end_all(self) -> None:
        """All runs are over, as at the end of the process."""
        for run in list(self._monitors):
            self.end(run)
        atexit.unregister(self.end_all)

    def detach(self) -> None:
        """All runs are over for this policy, while they may go on for others."""
        self.end_all()
        self._sharing.release(self._name)


def _home(given: str | os.PathLike[str] | None) -> Path:
    try:
        return home_here(given)
    except UsageError:  # said by `configured_ports`, which reads the same file
        return home_of(given)


def copy_of(policy: LoadedPolicy) -> PolicyCopy:
    """A policy as a run keeps it: one text that stands alone, with the commit of its files."""
    return PolicyCopy(policy.name, policy.copy_for_run(), policy.digest, policy.file, policy.commit)
