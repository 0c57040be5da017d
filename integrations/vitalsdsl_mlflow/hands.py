"""How a run is reached from outside: its tags and its artifacts, over a server, in a folder, or through MLflow itself."""

from __future__ import annotations

import functools
import importlib
import logging
import os
import tempfile
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, unquote, urlsplit

from vitalsdsl.ground.errors import MissingExtraError, TrackerError, VitalsError
from vitalsdsl_mlflow.filestore import FileStore
from vitalsdsl_mlflow.quiet import quiet
from vitalsdsl_mlflow.rest import NotOffered, NotThere, Refused, Rest
from vitalsdsl_mlflow.server import snapshot_of
from vitalsdsl_mlflow.stores import Snapshot

logger = logging.getLogger("vitalsdsl")

_PROXIED = "mlflow-artifacts/artifacts/"
_LONGEST = 200

_AT_ONCE = 50
"""Tags in one request, each of 8,000 letters at most: MLflow takes a hundred, and a megabyte."""

_said: set[str] = set()

Method = TypeVar("Method", bound=Callable[..., Any])


class Hands(Protocol):
    """How a run is reached: its tags, and its artifacts where they can be."""

    has_artifacts: bool

    def tags(self) -> Mapping[str, str]: ...

    def set_tag(self, name: str, value: str) -> None: ...

    def delete_tag(self, name: str) -> None:
        """Take a tag off; one that is not there is as good."""

    def set_tags(self, values: Mapping[str, str | None]) -> None:
        """Set tags, and take those off whose value is None: in as few requests as that can be done in."""

    def read(self, path: str) -> str | None:
        """An artifact's text, None where there is none."""

    def write(self, path: str, text: str) -> None: ...


def _one_by_one(hands: Hands, values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            hands.delete_tag(name)
        else:
            hands.set_tag(name, value)


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

    def set_tags(self, values: Mapping[str, str | None]) -> None:
        """Those that are set in one request. Where that is refused, one by one, which says which of them is."""
        new = [{"key": name, "value": value} for name, value in values.items() if value is not None]
        gone: dict[str, str | None] = {name: None for name, value in values.items() if value is None}
        try:
            for at in range(0, len(new), _AT_ONCE) if len(new) > 1 else ():
                self._rest.post("mlflow/runs/log-batch", {"run_id": self._run, "tags": new[at : at + _AT_ONCE]})
            _one_by_one(self, gone if len(new) > 1 else values)
        except (NotOffered, Refused):
            _one_by_one(self, values)

    def read(self, path: str) -> str | None:
        if self._folder is not None:
            file = self._folder / path
            return file.read_text("utf-8", "replace") if file.is_file() else None
        try:
            return self._rest.download(f"{self._proxy}/{quote(path)}").decode("utf-8", "replace")
        except NotThere:
            return None
        except NotOffered:  # so some servers say it of an artifact that is not there; and gateways, of one that is
            if self._is_listed(path):
                raise
            return None

    def _is_listed(self, path: str) -> bool:
        found = self._rest.get("mlflow/artifacts/list", run_id=self._run, path=str(PurePosixPath(path).parent))
        return any(file.get("path") == path for file in found.get("files", ()))

    def write(self, path: str, text: str) -> None:
        if self._folder is None:
            self._rest.upload(f"{self._proxy}/{quote(path)}", text.encode("utf-8", "replace"))
            return
        _put_whole(self._folder / path, self._folder.parent, text)


class FolderHands:
    """In a folder of the file store, as MLflow writes it: a file for each tag, and the run's folder of artifacts.

    MLflow's own client is not asked: later versions refuse such a folder unless they are told to take it. What is
    written appears whole or not at all.
    """

    def __init__(self, store: FileStore, run: Snapshot) -> None:
        self._store = store
        self._run = run.run_id
        self._artifacts = _folder_of(run.artifact_uri, store.folder_of(run.run_id))
        self.has_artifacts = self._artifacts is not None

    def tags(self) -> Mapping[str, str]:
        return self._store.run(self._run).tags

    def set_tag(self, name: str, value: str) -> None:
        self._put(self._store.folder_of(self._run) / "tags" / name, value)

    def delete_tag(self, name: str) -> None:
        try:
            (self._store.folder_of(self._run) / "tags" / name).unlink(missing_ok=True)
        except OSError as error:
            raise TrackerError(
                f"the tag {name} cannot be taken off: {(error.strerror or 'no access').lower()}"
            ) from error

    def set_tags(self, values: Mapping[str, str | None]) -> None:
        _one_by_one(self, values)

    def read(self, path: str) -> str | None:
        file = self._file(path)
        return file.read_text("utf-8", "replace") if file.is_file() else None

    def write(self, path: str, text: str) -> None:
        self._put(self._file(path), text)

    def _file(self, path: str) -> Path:
        if self._artifacts is None:
            raise TrackerError("the artifacts of this run lie elsewhere", is_final=True)
        return self._artifacts / path

    def _put(self, file: Path, text: str) -> None:
        # Not beside the file: whatever lies among the tags is a tag.
        _put_whole(file, self._store.folder_of(self._run), text)


def _put_whole(file: Path, beside: Path, text: str) -> None:
    """Write a file, whole or not at all, by a draft in a folder of the same disk."""
    draft = beside / f".{uuid.uuid4().hex}.draft"
    try:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(text, "utf-8", "replace", newline="\n")
            os.replace(draft, file)  # noqa: PTH105
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise TrackerError(f"{file} cannot be written: {(error.strerror or 'no access').lower()}") from error


def _folder_of(artifact_uri: str, run: Path) -> Path | None:
    """Where a run of the file store has its artifacts; None where not on this disk. A folder of runs that was moved still
    names its old place."""
    parts = urlsplit(artifact_uri)
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        return None
    said = Path(unquote(parts.path))
    return said if parts.path and said.is_dir() else run / "artifacts"


def _told(method: Method) -> Method:
    """What MLflow raises is told in one line, and shortly: its own texts run over pages."""

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            with quiet():
                return method(*args, **kwargs)
        except VitalsError:
            raise
        except Exception as error:  # whatever MLflow and its database raise is one short line
            said = " ".join(str(error).split()) or type(error).__name__
            raise TrackerError(said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…") from error

    return call  # type: ignore[return-value]


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

    @_told
    def tags(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self._client.get_run(self._run).data.tags
        return found

    @_told
    def set_tag(self, name: str, value: str) -> None:
        self._client.set_tag(self._run, name, value)

    @_told
    def delete_tag(self, name: str) -> None:
        try:
            self._client.delete_tag(self._run, name)
        except Exception as error:  # its own class is MLflow's, which is not imported here; gone already is as good
            if getattr(error, "error_code", "") != "RESOURCE_DOES_NOT_EXIST":
                raise

    def set_tags(self, values: Mapping[str, str | None]) -> None:
        _one_by_one(self, values)

    @_told
    def read(self, path: str) -> str | None:
        if all(file.path != path for file in self._client.list_artifacts(self._run, str(PurePath(path).parent))):
            return None
        with tempfile.TemporaryDirectory() as folder:
            return Path(self._client.download_artifacts(self._run, path, folder)).read_text("utf-8", "replace")

    @_told
    def write(self, path: str, text: str) -> None:
        self._client.log_text(self._run, text, path)


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
