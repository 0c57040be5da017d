"""The ports: what an integration does for a run, each a small promise that it declares and dispatch guards.

A port may raise and may hang; dispatch calls it from threads of its own, one port at a time, and tries again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from vitalsdsl.language.rules import Level
from vitalsdsl.verdicts.verdict import Transition


class Ability(Enum):
    """What a port can do; it is asked for nothing else."""

    TAG = "tags"
    ALERT = "alerts"
    NOTIFY = "channels"
    RECORD = "transitions"
    POLICY = "policies"
    REQUEST = "requests"


@dataclass(frozen=True)
class Alert:
    """A message for people. `id` is the same whoever sends it, so that a receiver can drop a repeat."""

    id: str
    title: str
    text: str
    level: Level
    transition: Transition


@dataclass(frozen=True)
class PolicyCopy:
    """A policy as a run keeps it: whole, so that any verdict can be reproduced. `git` is its file's commit, if any."""

    name: str
    text: str
    digest: str
    file_name: str = "policy.vitals"
    git: str = ""


@dataclass(frozen=True)
class Request:
    """One request on a run's control channel.

    `segment` fences it: the training side refuses what was asked before its last rollback. `id` makes it idempotent;
    `supersedes` names the milder request of this watcher that it replaces. Times are unix seconds.
    """

    id: str
    run: str
    segment: int
    seq: int
    action: str
    level: Level
    rule: str
    member: str | None
    trip_step: int
    onset: int | None
    issued_at: float
    expires_at: float
    params: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    supersedes: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """As a JSON object; the level by its word."""
        return {**self.__dict__, "level": self.level.word, "params": dict(self.params), "evidence": dict(self.evidence)}


class Port:
    """What a tracker, a channel or a control directory is to dispatch. An integration overrides what it `can`.

    All methods may block and raise; what they are told is whole and absolute (the tags as they should be, not how they
    changed), so that doing it twice does no harm. A request or alert that is repeated has the same `id`.
    """

    name: str = "port"
    can: frozenset[Ability] = frozenset()
    channels: frozenset[str] = frozenset()
    """The names for `notify`, from the user's own configuration."""
    is_contested: bool = False
    """Whether another writer may take away what was recorded: then it is looked at once more, a while after the last."""
    takes_together: bool = False
    """Whether alerts that wait for it are told in one call of `alert_all`. One that is told twice must do no harm, as a call
    that fails is made again whole."""

    def tag(self, level: Level, firing: Mapping[str, str]) -> None:
        """Both kinds of tags. A port that can set them in one go does so."""
        self.tag_level(level)
        self.tag_rules(firing)

    def tag_level(self, level: Level) -> None:
        """The run's level is this one: `vitals:orange`, and no other tag of ours; other people's tags stay."""
        raise _undone(self, "tag the level")

    def tag_rules(self, firing: Mapping[str, str]) -> None:
        """The rules that fire, each with level and step: `{"grad_norm_high": "orange@8120"}`. Others are quiet."""
        raise _undone(self, "tag rules")

    def alert(self, alert: Alert) -> None:
        """Show a message on the run."""
        raise _undone(self, "post alerts")

    def alert_all(self, alerts: Sequence[Alert]) -> None:
        """Show messages on the run, the oldest first."""
        for alert in alerts:
            self.alert(alert)

    def notify(self, channel: str, alert: Alert) -> str | None:
        """Send a message to one of `channels`. Gives what became of it instead, in a few words for the journal, where
        it is held back to be told later."""
        raise _undone(self, "reach channels")

    def record(self, transitions: Sequence[Transition]) -> None:
        """Append to the run's list of transitions."""
        raise _undone(self, "record transitions")

    def complete(self, transitions: Sequence[Transition], alerts: Sequence[Alert]) -> None:
        """All that the run's own lists must hold: what a process that was killed left out of them, or another writer took
        away, is added. A port whose lists cannot be read again does nothing."""

    def record_policy(self, policy: PolicyCopy) -> None:
        """Keep a copy of the policy with the run. A run that several policies watch keeps them all."""
        raise _undone(self, "keep policies")

    def request(self, request: Request) -> None:
        """Put a request on the control channel. Whether it is granted is the training side's own decision."""
        raise _undone(self, "take requests")


def kept_as(policy: PolicyCopy, others: Iterable[PolicyCopy]) -> str:
    """The name of a policy's file among those of one run: with some of its digest, where another has its own name.

    >>> kept_as(PolicyCopy("llm", "", "sha256:1122334455", "llm.vitals"), [PolicyCopy("b", "", "sha256:9", "llm.vitals")])
    '11223344-llm.vitals'
    """
    name = policy.file_name
    if any(other.file_name == name and other.digest != policy.digest for other in others):
        return f"{policy.digest.rpartition(':')[2][:8]}-{name}"
    return name


def facts(policies: Iterable[PolicyCopy]) -> dict[str, str]:
    """What a run says of the policies that watch it, in a line each: `policy`, `digest`, `git`.

    >>> facts([PolicyCopy("llm", "", "sha256:11"), PolicyCopy("house", "", "sha256:22")])
    {'policy': 'llm, house', 'digest': 'sha256:11, sha256:22', 'git': ''}
    """
    known = list(policies)
    return {
        "policy": ", ".join(p.name for p in known),
        "digest": ", ".join(p.digest for p in known),
        "git": ", ".join(dict.fromkeys(p.git for p in known if p.git)),
    }


def _undone(port: Port, what: str) -> NotImplementedError:
    return NotImplementedError(f"{port.name} declares that it can {what}, but does not")
