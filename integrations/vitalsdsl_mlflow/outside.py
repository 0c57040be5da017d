"""What is done on a run from outside: the tags and artifacts of its own process, and a word in its description."""

from __future__ import annotations

import importlib
import logging
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlsplit

from vitalsdsl.errors import MissingExtraError, TrackerError
from vitalsdsl.json_line import json_line
from vitalsdsl.policy import LoadedPolicy
from vitalsdsl.rules import Level
from vitalsdsl.tracker import Ability, Alert, PolicyCopy, Port, facts
from vitalsdsl.verdict import Transition
from vitalsdsl_mlflow.description import DESCRIPTION, described, summary
from vitalsdsl_mlflow.headline import Headline
from vitalsdsl_mlflow.names import ALERTS, MAX_TAG, RULE, TRANSITIONS, id_in, tag_name
from vitalsdsl_mlflow.rest import NotOffered, NotThere, Rest
from vitalsdsl_mlflow.server import Server, snapshot_of
from vitalsdsl_mlflow.stores import Snapshot, Store

logger = logging.getLogger("vitalsdsl")

ATTEMPTS = 3
"""How often something is written that another writer took away again at once."""

_PROXIED = "mlflow-artifacts/artifacts/"

_said: set[str] = set()


class Hands(Protocol):
    """How a run is reached: its tags, and its artifacts where they can be."""

    has_artifacts: bool

    def tags(self) -> Mapping[str, str]: ...

    def set_tag(self, name: str, value: str) -> None: ...

    def delete_tag(self, name: str) -> None:
        """Take a tag off; one that is not there is as good."""

    def read(self, path: str) -> str | None:
        """An artifact's text, None where there is none."""

    def write(self, path: str, text: str) -> None: ...


class RestHands:
    """Over a tracking server: tags by its interface; artifacts where it hands them on, or where they lie here."""

    def __init__(self, rest: Rest, run: Snapshot) -> None:
        self._rest = rest
        self._run = run.run_id
        self._proxy, self._folder = _place(rest.uri, run.artifact_uri)
        self.has_artifacts = bool(self._proxy) or self._folder is not None
        if not self.has_artifacts and rest.uri not in _said:
            _said.add(rest.uri)
            logger.warning(
                "vitals: %s does not hand on artifacts: runs get their tags, and no list of transitions", rest.uri
            )

    def tags(self) -> Mapping[str, str]:
        return snapshot_of(self._rest.get("mlflow/runs/get", run_id=self._run).get("run")).tags

    def set_tag(self, name: str, value: str) -> None:
        self._rest.post("mlflow/runs/set-tag", {"run_id": self._run, "key": name, "value": value})

    def delete_tag(self, name: str) -> None:
        try:
            self._rest.post("mlflow/runs/delete-tag", {"run_id": self._run, "key": name})
        except NotThere:
            return

    def read(self, path: str) -> str | None:
        if self._folder is not None:
            file = self._folder / path
            return file.read_text("utf-8", "replace") if file.is_file() else None
        try:
            return self._rest.download(f"{self._proxy}/{quote(path)}").decode("utf-8", "replace")
        except (NotThere, NotOffered):  # of an artifact that is not there, servers say either
            return None

    def write(self, path: str, text: str) -> None:
        if self._folder is None:
            self._rest.upload(f"{self._proxy}/{quote(path)}", text.encode("utf-8", "replace"))
            return
        file = self._folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8", newline="\n")


class ClientHands:
    """Through MLflow itself, for stores that only MLflow should write to. It is loaded at the first use."""

    has_artifacts = True

    def __init__(self, uri: str, run_id: str) -> None:
        self._uri = uri
        self._run = run_id
        self._made: Any = None

    @property
    def _client(self) -> Any:
        if self._made is None:
            try:
                self._made = importlib.import_module("mlflow").MlflowClient(tracking_uri=self._uri)
            except ImportError as error:
                raise MissingExtraError("mlflow", "mlflow") from error
        return self._made

    def tags(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self._client.get_run(self._run).data.tags
        return found

    def set_tag(self, name: str, value: str) -> None:
        self._client.set_tag(self._run, name, value)

    def delete_tag(self, name: str) -> None:
        try:
            self._client.delete_tag(self._run, name)
        except Exception as error:  # its own class is MLflow's, which is not imported here; gone already is as good
            if getattr(error, "error_code", "") != "RESOURCE_DOES_NOT_EXIST":
                raise

    def read(self, path: str) -> str | None:
        if all(file.path != path for file in self._client.list_artifacts(self._run, str(PurePath(path).parent))):
            return None
        with tempfile.TemporaryDirectory() as folder:
            return Path(self._client.download_artifacts(self._run, path, folder)).read_text("utf-8", "replace")

    def write(self, path: str, text: str) -> None:
        self._client.log_text(self._run, text, path)


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
        record = {
            "id": alert.id,
            "at": time.time(),
            "level": alert.level.word,
            "title": alert.title,
            "text": alert.text,
        }
        if self._hands.has_artifacts:
            self._append(ALERTS, {alert.id: json_line(record)})
        if self._headline.takes(alert.level):
            self._tag({"vitals.alert": f"{alert.title}: {alert.text}"[:MAX_TAG]})
        self._describe()

    def record(self, transitions: Sequence[Transition]) -> None:
        self._append(TRANSITIONS, {transition.id: json_line(transition.as_dict()) for transition in transitions})

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
            there = [line for line in (self._hands.read(path) or "").split("\n") if line]
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


def ports_for(store: Store, uri: str, run: Snapshot, policy: LoadedPolicy) -> list[Port]:
    """What can be done on a run of a store, under a policy."""
    if isinstance(store, Server):
        return [OutsidePort(RestHands(store.rest, run), policy)]
    return [OutsidePort(ClientHands(uri, run.run_id), policy)]


def _place(server: str, artifact_uri: str) -> tuple[str, Path | None]:
    """Where a run's artifacts are reached: the server's path to them, or a folder of this machine; or neither."""
    parts = urlsplit(artifact_uri)
    path = parts.path.strip("/")
    if parts.scheme == "mlflow-artifacts":
        return _PROXIED + quote(unquote(path)), None
    api = "/api/2.0/"
    if parts.scheme in ("http", "https") and artifact_uri.startswith(f"{server}{api}{_PROXIED}"):
        return artifact_uri.removeprefix(server + api), None
    if parts.scheme in ("", "file") and parts.path.startswith("/") and not parts.netloc:
        folder = Path(unquote(parts.path))
        is_here = urlsplit(server).hostname in ("localhost", "127.0.0.1", "::1")
        if is_here or (len(folder.parents) > 1 and folder.parents[1].is_dir()):
            return "", folder
    return "", None
