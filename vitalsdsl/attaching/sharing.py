"""One run, several policies: each judges by itself, and the run shows what all of them say."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from vitalsdsl.acting.tracker import Alert, PolicyCopy, Port, Request
from vitalsdsl.ground.home import file_name
from vitalsdsl.language.rules import Level
from vitalsdsl.verdicts.verdict import Transition


class SharedPort:
    """The one port of a run, and what each policy last said of the run."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.lock = threading.RLock()
        self.watching: set[str] = set()
        self.levels: dict[str, Level] = {}
        self.firing: dict[str, Mapping[str, str]] = {}

    @property
    def level(self) -> Level:
        """The worst that a policy says."""
        return max(self.levels.values(), default=Level.GREEN)

    @property
    def all_firing(self) -> dict[str, str]:
        """The rules of all policies that fire; of two that share a name (two guards on one metric) the worse one."""
        found: dict[str, str] = {}
        for firing in self.firing.values():
            for rule, shown in firing.items():
                if rule not in found or _level(shown) > _level(found[rule]):
                    found[rule] = shown
        return found

    def forget(self, policy: str) -> None:
        """A policy watches no more: what it said last is not the run's level from now on."""
        with self.lock:
            self.levels.pop(policy, None)
            self.firing.pop(policy, None)


class PolicyPort(Port):
    """A run's port as one of its policies has it: the tags that it sets are the worst of all policies'."""

    def __init__(self, shared: SharedPort, policy: str) -> None:
        self.shared = shared
        self.policy = policy
        self.name, self.can, self.channels = shared.port.name, shared.port.can, shared.port.channels

    def tag_level(self, level: Level) -> None:
        with self.shared.lock:
            self.shared.levels[self.policy] = level
            self.shared.port.tag_level(self.shared.level)

    def tag_rules(self, firing: Mapping[str, str]) -> None:
        with self.shared.lock:
            self.shared.firing[self.policy] = firing
            self.shared.port.tag_rules(self.shared.all_firing)

    def alert(self, alert: Alert) -> None:
        with self.shared.lock:
            self.shared.port.alert(alert)

    def notify(self, channel: str, alert: Alert) -> None:
        with self.shared.lock:
            self.shared.port.notify(channel, alert)

    def record(self, transitions: Sequence[Transition]) -> None:
        with self.shared.lock:
            self.shared.port.record(transitions)

    def complete(self, transitions: Sequence[Transition], alerts: Sequence[Alert]) -> None:
        with self.shared.lock:
            self.shared.port.complete(transitions, alerts)

    def record_policy(self, policy: PolicyCopy) -> None:
        with self.shared.lock:
            self.shared.port.record_policy(policy)

    def request(self, request: Request) -> None:
        with self.shared.lock:
            self.shared.port.request(request)


class Sharing:
    """The runs of this process that log to one tracker: their ports, and the policies that are attached to it.

    >>> sharing = Sharing()
    >>> [sharing.claim("llm", digest) for digest in ("sha256:11aa22bb33", "sha256:11aa22bb33", "sha256:44cc55dd66")]
    ['llm', 'llm', 'llm-44cc55dd']
    """

    def __init__(self) -> None:
        self._ports: dict[str, SharedPort] = {}
        self._names: dict[str, str] = {}
        self._lock = threading.Lock()

    def claim(self, policy: str, digest: str) -> str:
        """What a policy is called here: by its name, and by its digest as well where that is taken by another."""
        name = file_name(policy)
        with self._lock:
            if self._names.setdefault(name, digest) != digest:
                name = f"{name}-{digest.rpartition(':')[2][:8]}"
                self._names[name] = digest
        return name

    def release(self, name: str) -> None:
        """A policy is attached no more."""
        with self._lock:
            self._names.pop(name, None)
            for shared in self._ports.values():
                shared.forget(name)

    def leave(self, run: str, policy: str) -> None:
        """A run is over for one policy. With the last one its port goes, too: taken up again, it is another's."""
        with self._lock:
            shared = self._ports.get(run)
            if shared is not None:
                shared.watching.discard(policy)
                if not shared.watching:
                    del self._ports[run]

    def port(self, run: str, policy: str, make: Callable[[], Port]) -> PolicyPort:
        """A run's port for one policy; made for the first one that asks."""
        with self._lock:
            shared = self._ports.get(run)
            if shared is None:
                shared = self._ports[run] = SharedPort(make())
            shared.watching.add(policy)
        return PolicyPort(shared, policy)


def _level(shown: str) -> Level:
    return Level.parse(shown.partition("@")[0])
