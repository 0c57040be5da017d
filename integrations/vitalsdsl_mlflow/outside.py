"""What is done on a run from outside: the tags and artifacts of its own process, and a word in its description."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from vitalsdsl.acting.tracker import Ability, Alert, PolicyCopy, Port, facts
from vitalsdsl.ground.errors import TrackerError
from vitalsdsl.ground.json_line import json_line
from vitalsdsl.language.rules import Level
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl.verdicts.verdict import Transition
from vitalsdsl_mlflow.description import DESCRIPTION, described, summary
from vitalsdsl_mlflow.filestore import FileStore
from vitalsdsl_mlflow.hands import ClientHands, FolderHands, Hands, RestHands
from vitalsdsl_mlflow.headline import Headline, as_tag
from vitalsdsl_mlflow.names import ALERTS, MAX_TAG, RULE, TRANSITIONS, alert_line, id_in, tag_name
from vitalsdsl_mlflow.server import Server
from vitalsdsl_mlflow.stores import Snapshot, Store

ATTEMPTS = 3
"""How often something is written that another writer took away again at once."""

Lacking = TypeVar("Lacking")


class OutsidePort(Port):
    """Acts on one run from another process. What it writes it reads again; what another writer took away it writes anew.

    Everything is told whole and has an id, so that any number of watchers, or one that was restarted, leave one trace.
    Alerts go into their list at once; the newest shows in tag and description with the tags that follow.
    """

    name = "mlflow"
    takes_together = True

    def __init__(self, hands: Hands, policy: LoadedPolicy) -> None:
        self._hands = hands
        self._policy = policy
        self._policies: dict[str, PolicyCopy] = {}
        self._level: Level | None = None
        self._firing: Mapping[str, str] | None = None
        self._headline = Headline()
        self._unshown: Sequence[Alert] = ()
        self._has_alerted = False
        self.is_contested = hands.has_artifacts
        artifacts = {Ability.RECORD} if hands.has_artifacts else set()
        self.can = frozenset({Ability.TAG, Ability.ALERT, Ability.POLICY} | artifacts)

    def tag(self, level: Level, firing: Mapping[str, str]) -> None:
        self._level, self._firing = level, firing
        self._show()

    def tag_level(self, level: Level) -> None:
        self._level = level
        self._show()

    def tag_rules(self, firing: Mapping[str, str]) -> None:
        self._firing = firing
        self._show()

    def alert(self, alert: Alert) -> None:
        self.alert_all([alert])

    def alert_all(self, alerts: Sequence[Alert]) -> None:
        if self._hands.has_artifacts:
            self._append(ALERTS, {alert.id: alert_line(alert) for alert in alerts})
        self._unshown = [*self._unshown, *alerts]
        self._has_alerted = True

    def record(self, transitions: Sequence[Transition]) -> None:
        self._append(TRANSITIONS, {transition.id: json_line(transition.as_dict()) for transition in transitions})

    def complete(self, transitions: Sequence[Transition], alerts: Sequence[Alert]) -> None:
        self.record(transitions)
        if not alerts:
            return
        self._append(ALERTS, {alert.id: alert_line(alert) for alert in alerts})
        if not self._has_alerted:  # the process before may have ended between its alert and the tags that show it
            self._unshown, self._has_alerted = alerts, True
            self._show()

    def record_policy(self, policy: PolicyCopy) -> None:
        if self._hands.has_artifacts:
            name, text = policy.file_name, policy.text
            if any(other.file_name == name and other.digest != policy.digest for other in self._policies.values()):
                name = f"{policy.digest.rpartition(':')[2][:8]}-{name}"
            path = f"vitals/policy/{name}"
            self._until(lambda: self._hands.read(path) != text, lambda _: self._hands.write(path, text), path)
        self._policies[policy.digest] = policy
        self._tag(
            {f"vitals.{fact}": value[:MAX_TAG] for fact, value in facts(self._policies.values()).items() if value}
        )

    def _tag(self, wanted: Mapping[str, str]) -> None:
        """Set these tags, but for those that are so already."""

        def lacking() -> dict[str, str | None]:
            tags = self._hands.tags()
            return {name: value for name, value in wanted.items() if tags.get(name) != value}

        self._until(lacking, self._hands.set_tags, "tags")

    def _show(self) -> None:
        """Level, rules and newest alert as tags, and all of them in our part of the run's description; what other people
        wrote round it stays as it is."""
        if self._level is not None:
            self._headline.stands(self._level)
        headline = ""
        for alert in self._unshown:
            headline = as_tag(alert)[:MAX_TAG] if self._headline.takes(alert.level) else headline
        self._until(lambda: self._unlike(self._hands.tags(), headline), self._hands.set_tags, "tags")
        self._unshown = ()

    def _unlike(self, tags: Mapping[str, str], headline: str) -> dict[str, str | None]:
        """The tags that are not as they should be: with the value of each, or None for one that is to go."""
        wanted: dict[str, str | None] = {}
        if self._level is not None:
            wanted["vitals.level"] = self._level.word
        if self._firing is not None:
            wanted |= {name: None for name in tags if name.startswith(RULE)}
            wanted |= {tag_name(rule): shown[:MAX_TAG] for rule, shown in self._firing.items()}
        if headline:
            wanted["vitals.alert"] = headline
        will_be = {name: value for name, value in {**tags, **wanted}.items() if value is not None}
        text = described(tags.get(DESCRIPTION, ""), summary(self._policy.name, will_be))
        if text is not None:
            wanted[DESCRIPTION] = text
        return {name: value for name, value in wanted.items() if tags.get(name) != value}

    def _append(self, path: str, lines: Mapping[str, str]) -> None:
        """Add lines to an artifact, by their ids: those that are there already stay as they are."""

        def lacking() -> str | None:
            text = self._hands.read(path) or ""
            # A last line without an end is one that is being written: whoever writes it looks again.
            there = [line for line in text[: text.rfind("\n") + 1].split("\n") if line]
            known = {id_in(line) for line in there}
            new = [line for known_as, line in lines.items() if known_as not in known]
            return "".join(line + "\n" for line in (*there, *new)) if new else None

        self._until(lacking, lambda text: self._hands.write(path, text), path)

    def _until(self, lacking: Callable[[], Lacking | None], write: Callable[[Lacking], None], what: str) -> None:
        """Write what is lacking until nothing is: mostly one reading, one writing, and one reading to make sure."""
        for _ in range(ATTEMPTS):
            found = lacking()
            if not found:
                return
            write(found)
        if lacking():
            raise TrackerError(f"another writer keeps changing the {what} of this run")


def hands_for(store: Store, uri: str, run: Snapshot) -> Hands:
    """How a run of a store is reached."""
    if isinstance(store, Server):
        return RestHands(store.rest, run)
    if isinstance(store, FileStore):
        return FolderHands(store, run)
    return ClientHands(uri, run.run_id)


def ports_for(store: Store, uri: str, run: Snapshot, policy: LoadedPolicy) -> list[Port]:
    """What can be done on a run of a store, under a policy."""
    return [OutsidePort(hands_for(store, uri, run), policy)]
