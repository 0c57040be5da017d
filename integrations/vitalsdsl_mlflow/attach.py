"""attach: a policy over every run that this process logs to MLflow."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

from vitalsdsl.attachment import Attachment, as_policy
from vitalsdsl.errors import MissingExtraError
from vitalsdsl.git import commit_of
from vitalsdsl.policy import LoadedPolicy, load
from vitalsdsl.session import Monitor
from vitalsdsl_mlflow.port import MlflowPort
from vitalsdsl_mlflow.rows import LoggedPoint, Steps
from vitalsdsl_mlflow.tap import instrument, restore

_REGISTRY = "mlflow.tracking._tracking_service.registry"
_UTILS = "mlflow.tracking._tracking_service.utils"


class MlflowAttachment:
    """One policy over the runs of this process. `detach` ends it."""

    def __init__(self, policy: LoadedPolicy) -> None:
        self.policy = policy
        self._attachment = Attachment(policy)
        self._steps: dict[str, Steps] = {}
        self._stores: list[Any] = []
        self._git = commit_of(policy.reference)

    def monitor(self, run_id: str) -> Monitor | None:
        """The monitor of a run that has logged something."""
        return self._attachment.monitor(run_id)

    def detach(self) -> None:
        """Stop watching: what is queued is finished, and MLflow is as it was."""
        if self in _attached:
            _attached.remove(self)
        for store in self._stores:
            restore(store)
        self._attachment.end_all()

    def watch_store(self, store: Any) -> None:
        """Have a store's points seen by this attachment, too."""
        if not any(store is known for known in self._stores):
            self._stores.append(store)
        instrument(store, _Everyone())

    # ---------------------------------------------------------------- told by the tap

    def points(self, run_id: str, points: list[LoggedPoint], store: Any) -> None:
        """Points of a run that MLflow has taken."""
        monitor = self._attachment.monitor(run_id, lambda: self._port(run_id, store))
        if monitor is None:
            return
        steps = self._steps.get(run_id)
        if steps is None:
            steps = self._steps[run_id] = Steps(run_id, _pusher(monitor))
        steps.add(points)

    def ended(self, run_id: str, store: Any) -> None:
        """A run has ended: its last step closes."""
        self._steps.pop(run_id, None)
        self._attachment.end(run_id)
        self._attachment.resume(run_id)

    def _port(self, run_id: str, store: Any) -> MlflowPort:
        client_type = importlib.import_module("mlflow").MlflowClient
        uri = getattr(store, "_vitals_uri", None)
        client = client_type(tracking_uri=uri) if uri else client_type()
        file_name = re.sub(r"[^\w.-]", "_", PurePath(self.policy.reference).name) or "policy.vitals"
        return MlflowPort(client, run_id, self.policy.name, file_name, self._git)


def _pusher(monitor: Monitor) -> Callable[[dict[str, float], int, float], None]:
    def push(values: dict[str, float], step: int, time: float) -> None:
        monitor.log(values, step, time=time, commit=False)

    return push


class _Everyone:
    """Tells all attachments, so that one wrapping serves them all."""

    def points(self, run_id: str, points: list[LoggedPoint], store: Any) -> None:
        for attachment in tuple(_attached):
            attachment.points(run_id, points, store)

    def ended(self, run_id: str, store: Any) -> None:
        for attachment in tuple(_attached):
            attachment.ended(run_id, store)


_attached: list[MlflowAttachment] = []


def attach(
    policy: str | os.PathLike[str] | LoadedPolicy,
    *,
    settings: Mapping[str, object] | None = None,
    profile: str | None = None,
) -> MlflowAttachment:
    """Watch every run that this process logs to MLflow, by whatever way: fluent calls, clients, autologging, callbacks.

    The same policy twice is one. Raises PolicyError where the policy has errors, MissingExtraError without MLflow.
    """
    loaded = as_policy(policy, settings, profile)
    for known in _attached:
        if known.policy.digest == loaded.digest:
            return known
    try:
        importlib.import_module("mlflow")
    except ImportError as error:
        raise MissingExtraError("mlflow", "mlflow") from error
    attachment = MlflowAttachment(loaded)
    _attached.append(attachment)
    hook_registry()
    _watch_current_store(attachment)
    return attachment


def arm(name: str) -> None:
    """Attach a policy from inside MLflow's own import, for all stores to come. Raises PolicyError."""
    _attached.append(MlflowAttachment(load(name)))
    hook_registry()


def hook_registry() -> None:
    """Have every store that MLflow makes from here on watched. Safe inside MLflow's own import."""
    registry = sys.modules.get(_REGISTRY) or importlib.import_module(_REGISTRY)
    kind = registry.TrackingStoreRegistry
    original = kind.get_store_builder
    if getattr(original, "_vitals", False):
        return

    def get_store_builder(self: Any, store_uri: Any) -> Callable[..., Any]:
        builder = original(self, store_uri)

        def build(*args: Any, **kwargs: Any) -> Any:
            store = builder(*args, **kwargs)
            store._vitals_uri = kwargs.get("store_uri", args[0] if args else store_uri)
            for attachment in tuple(_attached):
                attachment.watch_store(store)
            return store

        return build

    get_store_builder._vitals = True  # type: ignore[attr-defined]
    kind.get_store_builder = get_store_builder


def _watch_current_store(attachment: MlflowAttachment) -> None:
    """The store that is in use already was made before anybody was attached."""
    utils = importlib.import_module(_UTILS)
    store = utils._get_store()
    if not hasattr(store, "_vitals_uri"):
        store._vitals_uri = utils.get_tracking_uri()
    attachment.watch_store(store)
