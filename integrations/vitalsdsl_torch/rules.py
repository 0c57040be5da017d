"""The policy of a guarded run: its monitor and dispatch, and what its transitions say of the checkpoints."""

from __future__ import annotations

import contextlib
import json
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from vitalsdsl.acting.decision import Decision
from vitalsdsl.acting.dispatch import Dispatcher
from vitalsdsl.acting.journal import Journal, journal_of
from vitalsdsl.acting.tracker import Port
from vitalsdsl.actions.base import Effect, registry
from vitalsdsl.attaching.attachment import copy_of
from vitalsdsl.attaching.session import Monitor
from vitalsdsl.channels import configured_ports
from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.ground.errors import StateError
from vitalsdsl.ground.points import RunInfo
from vitalsdsl.language import rules as language
from vitalsdsl.language.rules import Level
from vitalsdsl.language.scope import Scope
from vitalsdsl.planning.warmup import Earliest
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl.verdicts.verdict import Transition
from vitalsdsl_torch.history import History

logger = logging.getLogger("vitalsdsl")

_AT_END = 10.0
_UNHEARD = frozenset({"shadow", "silenced"})
"""Why a rule is not heard: then it makes no checkpoint suspect, either."""


class Rules:
    """The rules over a run, in step with its attempts. Transitions become incidents in the history, and requests.

    `is_urgent` says whether one of them asks for an intervention in the newest step since something is not finite.
    """

    def __init__(
        self,
        policy: LoadedPolicy,
        run: str,
        home: Path,
        history: History,
        ports: Sequence[Port],
        allow: Iterable[str],
        total: float,
    ) -> None:
        # The journal lies with the checkpoints: what was decided belongs to this run, and not to another of its name.
        self._history = history
        self._names: set[str] = set()
        self.requested = 0
        self.is_urgent = False
        journal = Journal(journal_of(home, run, policy.name))
        self._dispatcher = Dispatcher(
            policy.policy, [*ports, *configured_ports(policy.policy)], journal, RunInfo(run, total),
            allow=_granted(allow), counters=lambda: self._monitor.counters,
        )  # fmt: skip
        self._dispatcher.record_policy(copy_of(policy))
        self._monitor = Monitor(policy, run, acts=self, total_steps=total, past=journal.past(run))

    # ---------------------------------------------------------------- told by the monitor

    def take(self, transitions: Sequence[Transition]) -> None:
        for decision in self._dispatcher.take(transitions):
            t = decision.transition
            self._remember(decision)
            self.is_urgent = self.is_urgent or _is_urgent(decision)
            self.requested += sum(d.asked.action.effect is Effect.REQUEST for d in decision.done)
            if decision.withheld is None and t.to > t.from_:
                said = printable(f"run {t.run}: step {t.step}: {t.to.word}: {_subject(t)}: {t.message}")
                logger.warning("vitals: %s", said)

    def _remember(self, decision: Decision) -> None:
        t = decision.transition
        rule = _subject(t)
        is_open = any(incident.rule == rule for incident in self._history.open_incidents)
        if t.to is Level.GREEN:
            if is_open:
                self._history.note({"type": "over", "rule": rule, "step": t.step})
        elif not is_open and (decision.withheld is None or decision.withheld.kind not in _UNHEARD):
            onset = t.step if t.onset is None else t.onset
            self._history.note({"type": "incident", "rule": rule, "attempt": self._history.attempt, "onset": onset})

    def close(self, timeout: float = _AT_END) -> None:
        self._dispatcher.close(timeout)

    # ---------------------------------------------------------------- told by the training

    def log(self, metrics: Mapping[str, object], step: int) -> int:
        """Judge a step. Gives how many requests it leads to; they come to the inbox within moments."""
        self._names.update(metrics)
        self.requested, self.is_urgent = 0, False
        self._monitor.log(metrics, step)
        return self.requested

    def is_firing(self, rule: str) -> bool:
        return rule in self._monitor.levels

    def rewind(self, step: int, saved: str, saved_attempt: int) -> None:
        """The run went back to a step, in the attempt that the history names. Where that is further back than the
        monitor remembers, what the rules knew in the checkpoint counts."""
        self._monitor.rewind(step)
        if step > 0 and all(self._monitor.newest(name) == -math.inf for name in self._names):
            self.load(step, saved, saved_attempt)

    def load(self, step: int, saved: str, saved_attempt: int) -> None:
        """Take up what the rules knew in a checkpoint, for the attempt that the history names."""
        try:
            if saved:
                self._monitor.load(json.loads(saved))
            else:
                saved_attempt = 0
        except (StateError, ValueError) as error:
            saved_attempt = 0
            logger.warning("vitals: the rules start anew at step %d: %s", step, error)
        for _ in range(self._history.attempt - saved_attempt):
            self._monitor.rewind(step)

    def save(self) -> str:
        return json.dumps(self._monitor.save())

    def busy(self) -> AbstractContextManager[None]:
        return self._monitor.busy()

    def finish(self) -> None:
        """The run is over: its last step closes, and what is queued may be finished within ten seconds."""
        self._monitor.finish(_AT_END)


def _subject(t: Transition) -> str:
    return t.rule if t.member is None else f"{t.rule}[{t.member}]"


def _is_urgent(decision: Decision) -> bool:
    """Whether a rule asks for an intervention because of a NaN or an infinity: another rule of the step may have been
    given the step's one intervention, and that must not be put off then."""
    t = decision.transition
    if t.to <= t.from_ or decision.withheld is not None or all(map(math.isfinite, t.values.values())):
        return False
    return any(deed.asked.action.rank for deed in decision.deeds)


def _granted(allow: Iterable[str]) -> set[str]:
    """What dispatch may do. A rollback that is not allowed becomes a pause where that is: red must not do less than
    orange; the guard sees to it."""
    interventions = {"lr", "pause", "rollback", "stop"}
    granted = (set(registry()) - interventions) | (set(allow) & set(registry()))
    return granted | {"rollback"} if "pause" in granted else granted


def longest_span(policy: LoadedPolicy) -> int:
    """How many steps after its onset a rule of the policy may fire, windows being known: at least that long a
    checkpoint has to wait for its verdict."""
    delays = Earliest(Scope.of(policy.policy), warm_up=False)
    found = [0.0]
    for rule in policy.policy.of(language.Rule):
        for clause in rule.body.clauses:
            with contextlib.suppress(KeyError, ValueError):
                found.append(delays.fires(clause, rule).steps)
    return math.ceil(max(found))
