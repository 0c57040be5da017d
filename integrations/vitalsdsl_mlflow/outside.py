"""What is done on a run from outside: the tags and artifacts of its own process, and a word in its description."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from vitalsdsl.errors import TrackerError
from vitalsdsl.json_line import json_line
from vitalsdsl.policy import LoadedPolicy
from vitalsdsl.rules import Level
from vitalsdsl.tracker import Ability, Alert, PolicyCopy, Port, facts
from vitalsdsl.verdict import Transition
from vitalsdsl_mlflow.description import DESCRIPTION, described, summary
from vitalsdsl_mlflow.filestore import FileStore
from vitalsdsl_mlflow.hands import ClientHands, FolderHands, Hands, RestHands
from vitalsdsl_mlflow.headline import Headline, as_tag
from vitalsdsl_mlflow.names import ALERTS, MAX_TAG, RULE, TRANSITIONS, alert_line, id_in, tag_name
from vitalsdsl_mlflow.server import Server
from vitalsdsl_mlflow.stores import Snapshot, Store

ATTEMPTS = 3
"""How often something is written that another writer took away again at once."""


class OutsidePort(Port):
    """Acts on one run from another process. What it writes it reads again; what another writer took away it writes anew.

    Everything is told whole and has an id, so that any number of watchers, or one that was restarted, leave one trace.
    """

    name = "mlflow"

    def __init__(self, hands: Hands, policy: LoadedPolicy) -> None:
        self._hands = hands
        self._policy = policy
        self._policies: dict[str, PolicyCopy] = {}
        self._headline = Headline()
        self.is_contested = hands.has_artifacts
        artifacts = {Ability.RECORD} if hands.has_artifacts else set()
        self.can = frozenset({Ability.TAG, Ability.ALERT, Ability.POLICY} | artifacts)

    def tag_level(self, level: Level) -> None:
        self._headline.stands(level)
        self._tag({"vitals.level": level.word})
        self._describe()

    def tag_rules(self, firing: Mapping[str, str]) -> None:
        wanted: dict[str, str | None] = {tag_name(rule): shown[:MAX_TAG] for rule, shown in firing.items()}
        gone = [name for name in self._hands.tags() if name.startswith(RULE) and name not in wanted]
        self._tag({**dict.fromkeys(gone, None), **wanted})
        self._describe()

    def alert(self, alert: Alert) -> None:
        if self._hands.has_artifacts:
            self._append(ALERTS, {alert.id: alert_line(alert)})
        if self._headline.takes(alert.level):
            self._tag({"vitals.alert": as_tag(alert)[:MAX_TAG]})
        self._describe()

    def record(self, transitions: Sequence[Transition]) -> None:
        self._append(TRANSITIONS, {transition.id: json_line(transition.as_dict()) for transition in transitions})

    def complete(self, transitions: Sequence[Transition], alerts: Sequence[Alert]) -> None:
        self.record(transitions)
        if alerts:
            self._append(ALERTS, {alert.id: alert_line(alert) for alert in alerts})

    def record_policy(self, policy: PolicyCopy) -> None:
        if self._hands.has_artifacts:
            name, text = policy.file_name, policy.text
            if any(other.file_name == name and other.digest != policy.digest for other in self._policies.values()):
                name = f"{policy.digest.rpartition(':')[2][:8]}-{name}"
            path = f"vitals/policy/{name}"
            self._until(lambda: self._hands.read(path) == text, lambda: self._hands.write(path, text), path)
        self._policies[policy.digest] = policy
        self._tag(
            {f"vitals.{fact}": value[:MAX_TAG] for fact, value in facts(self._policies.values()).items() if value}
        )

    def _tag(self, wanted: Mapping[str, str | None]) -> None:
        """Set these tags, or take them off (None), but for those that are so already."""

        def wrong() -> dict[str, str | None]:
            tags = self._hands.tags()
            return {name: value for name, value in wanted.items() if tags.get(name) != value}

        def write() -> None:
            for name, value in wrong().items():
                if value is None:
                    self._hands.delete_tag(name)
                else:
                    self._hands.set_tag(name, value)

        self._until(lambda: not wrong(), write, "tags")

    def _describe(self) -> None:
        """Our part of the run's description, as its tags are now; what other people wrote round it stays as it is."""

        def wanted() -> tuple[str, str | None]:
            tags = self._hands.tags()
            before = tags.get(DESCRIPTION, "")
            return before, described(before, summary(self._policy.name, tags))

        def write() -> None:
            _, text = wanted()
            if text is not None:
                self._hands.set_tag(DESCRIPTION, text)

        def is_there() -> bool:
            before, text = wanted()
            return text in (before, None)

        self._until(is_there, write, "description")

    def _append(self, path: str, lines: Mapping[str, str]) -> None:
        """Add lines to an artifact, by their ids: those that are there already stay as they are."""

        def missing() -> tuple[list[str], list[str]]:
            text = self._hands.read(path) or ""
            # A last line without an end is one that is being written: whoever writes it looks again.
            there = [line for line in text[: text.rfind("\n") + 1].split("\n") if line]
            known = {id_in(line) for line in there}
            return there, [line for known_as, line in lines.items() if known_as not in known]

        def write() -> None:
            there, new = missing()
            self._hands.write(path, "".join(line + "\n" for line in (*there, *new)))

        self._until(lambda: not missing()[1], write, path)

    def _until(self, is_so: Callable[[], bool], write: Callable[[], None], what: str) -> None:
        for _ in range(ATTEMPTS):
            if is_so():
                return
            write()
        if not is_so():
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
