"""An in-process twin of every port: for tests, and for runs without a tracker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from vitalsdsl.acting.tracker import Ability, Alert, PolicyCopy, Port, Request
from vitalsdsl.language.rules import Level
from vitalsdsl.verdicts.verdict import Transition


class Memory(Port):
    """A port that keeps what it was asked, and misbehaves on demand.

    `failures` calls raise before one succeeds (-1: all raise); each call first waits `delay` seconds, cut short by
    `release`. `calls` counts all of them, failed ones included.

    >>> port = Memory()
    >>> port.tag_level(Level.ORANGE)
    >>> port.level.word, port.calls
    ('orange', 1)
    """

    def __init__(
        self,
        name: str = "memory",
        can: Iterable[Ability] = tuple(Ability),
        channels: Iterable[str] = (),
        *,
        failures: int = 0,
        delay: float = 0.0,
        watch: Callable[[str], None] | None = None,
    ) -> None:
        self.name = name
        self.can = frozenset(can)
        self.channels = frozenset(channels)
        self.failures = failures
        self.delay = delay
        self.calls = 0
        self.level = Level.GREEN
        self.levels: list[Level] = []
        self.firing: dict[str, str] = {}
        self.alerts: list[Alert] = []
        self.notices: list[tuple[str, Alert]] = []
        self.transitions: list[Transition] = []
        self.policies: dict[str, str] = {}
        self.requests: list[Request] = []
        self._watch = watch
        self._released = threading.Event()

    def release(self) -> None:
        """End all waiting, now and later."""
        self._released.set()

    def _called(self, what: str) -> None:
        self.calls += 1
        if self._watch is not None:
            self._watch(what)
        if self.delay:
            self._released.wait(self.delay)
        if self.failures:
            self.failures -= 1
            raise ConnectionError(f"{self.name} does not answer ({what})")

    def tag_level(self, level: Level) -> None:
        self._called("tag_level")
        self.level = level
        self.levels.append(level)

    def tag_rules(self, firing: Mapping[str, str]) -> None:
        self._called("tag_rules")
        self.firing = dict(firing)

    def alert(self, alert: Alert) -> None:
        self._called("alert")
        self.alerts.append(alert)

    def notify(self, channel: str, alert: Alert) -> None:
        self._called("notify")
        self.notices.append((channel, alert))

    def record(self, transitions: Sequence[Transition]) -> None:
        self._called("record")
        self._add(transitions)

    def complete(self, transitions: Sequence[Transition], alerts: Sequence[Alert]) -> None:
        self._called("complete")
        self._add(transitions)
        there = {alert.id for alert in self.alerts}
        self.alerts += [alert for alert in alerts if alert.id not in there]

    def _add(self, transitions: Sequence[Transition]) -> None:
        there = {transition.id for transition in self.transitions}
        self.transitions += [transition for transition in transitions if transition.id not in there]

    def record_policy(self, policy: PolicyCopy) -> None:
        self._called("record_policy")
        self.policies[policy.digest] = policy.text

    def request(self, request: Request) -> None:
        self._called("request")
        self.requests.append(request)
