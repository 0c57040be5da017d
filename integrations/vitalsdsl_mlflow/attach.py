"""attach: a policy over every run that this process logs to MLflow."""

from __future__ import annotations

import functools
import importlib
import logging
import math
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from vitalsdsl.attaching.attachment import Attachment, as_policy
from vitalsdsl.attaching.session import Monitor
from vitalsdsl.attaching.sharing import Sharing
from vitalsdsl.ground.errors import MissingExtraError
from vitalsdsl.ground.points import Rewind, RunInfo, planned_steps
from vitalsdsl.ground.words import TOTAL_STEPS
from vitalsdsl.policies.policy import LoadedPolicy, load
from vitalsdsl_mlflow.events import Events
from vitalsdsl_mlflow.port import MlflowPort
from vitalsdsl_mlflow.rows import LoggedPoint, in_time
from vitalsdsl_mlflow.tap import complain, instrument, is_instrumented, restore

logger = logging.getLogger("vitalsdsl")

KEPT_RUNS = 16
"""Of how many runs that ended it is remembered how they count their steps, should they be resumed."""

KEPT_PLANS = 1000
"""Of how many runs the planned number of steps, and the name, is kept."""

_REGISTRY = "mlflow.tracking._tracking_service.registry"
_UTILS = "mlflow.tracking._tracking_service.utils"


class _Run:
    """One run under one attachment. Its points become rows and rewinds as they do where the run is read back."""

    def __init__(self, run_id: str, axis: str | None) -> None:
        self.lock = threading.RLock()
        self.monitor: Monitor | None = None
        self.is_off = False
        self._run_id = run_id
        self.events = Events(axis)
        self._waits = axis is not None
        self._waiting: list[LoggedPoint] = []

    def begin(self, monitor: Monitor) -> None:
        """The run's first points, or its first since it was resumed in this process."""
        self.monitor = monitor
        self.events.go_on()

    def add(self, points: list[LoggedPoint]) -> None:
        """Points of one call. Under an axis those of one step of MLflow's are waited for: any of them may be the axis."""
        points = in_time(points)
        if not self._waits:
            self._push(points)
            return
        for point in points:
            if self._waiting and point.step != self._waiting[0].step:
                self.flush()
            self._waiting.append(point)

    def flush(self) -> None:
        """No more is to be waited for."""
        waiting, self._waiting = self._waiting, []
        self._push(waiting)

    def _push(self, points: list[LoggedPoint]) -> None:
        monitor = self.monitor
        if monitor is None:
            return
        for event in self.events.add(points):
            if isinstance(event, Rewind):
                monitor.rewind(event.step)
            else:
                monitor.take(event.values, event.step, event.time)
        for note in self.events.notes():
            logger.warning("vitals: run %s: %s", self._run_id, note)


class MlflowAttachment:
    """One policy over the runs of this process. `detach` ends it."""

    def __init__(self, policy: LoadedPolicy, total_steps: float = math.nan) -> None:
        self.policy = policy
        self._attachment = Attachment(policy, _sharing, total_steps)
        self._runs: dict[str, _Run] = {}

    def monitor(self, run_id: str) -> Monitor | None:
        """The monitor of a run that has logged something and has not ended."""
        return self._attachment.monitor(run_id)

    def detach(self) -> None:
        """Stop watching: what is queued is finished, and MLflow is as it was once nobody else is attached."""
        if self in _attached:
            _attached.remove(self)
        if not _attached:
            _unhook()
        for run in list(self._runs.values()):
            with run.lock:
                run.flush()
        self._attachment.detach()

    # ---------------------------------------------------------------- told by the tap

    def row(self, run_id: str, values: dict[str, float], step: int, timestamp: int, store: Any) -> None:
        """Points of a run that MLflow has taken, of one step and one time, each of another metric.

        Between two calls the processor's caches are filled with what the script and MLflow do: there, how much code
        this goes through counts more than what that does.
        """
        run = self._runs.get(run_id)
        if run is not None:
            with run.lock:
                monitor = run.monitor
                if monitor is not None and not monitor.is_over and run.events.is_row(values, step, timestamp):
                    monitor.take(values, step, timestamp / 1000)
                    return
        self.points(run_id, [LoggedPoint(name, x, step, timestamp) for name, x in values.items()], store)

    def points(self, run_id: str, points: list[LoggedPoint], store: Any) -> None:
        """Points of a run that MLflow has taken."""
        run = self._runs.get(run_id) or self._runs.setdefault(run_id, _Run(run_id, self.policy.axis))
        with run.lock:
            if run.is_off:
                return
            try:
                monitor = self._attachment.monitor(
                    run_id, lambda: self._port(run_id, store), lambda: _info(run_id, store)
                )
                if monitor is not None and monitor is not run.monitor:
                    run.begin(monitor)
            except Exception:  # raised again, once: tried at every call it would fail at every call
                run.is_off = True
                raise
            if monitor is not None:
                run.add(points)

    def planned(self, run_id: str) -> None:
        """A run has said how many steps it plans: unless it was told when attaching, that is what `progress` goes by."""
        monitor = self._attachment.monitor(run_id)
        if monitor is not None and self._attachment.total_steps != self._attachment.total_steps:
            monitor.total_steps = planned_steps(_said[run_id])

    def ended(self, run_id: str, store: Any) -> None:
        """A run has ended: its last step closes, and what is queued is finished, within a timeout."""
        run = self._runs.get(run_id)
        if run is None:
            return
        with run.lock:
            run.flush()
        self._attachment.end(run_id)
        with run.lock:
            run.monitor = None
        self._attachment.resume(run_id)
        over = [name for name, known in self._runs.items() if known.monitor is None]
        for name in over[:-KEPT_RUNS]:
            self._runs.pop(name, None)

    def _port(self, run_id: str, store: Any) -> MlflowPort:
        client_type = importlib.import_module("mlflow").MlflowClient
        uri = getattr(store, "_vitals_uri", None)
        client = client_type(tracking_uri=uri) if uri else client_type()
        return MlflowPort(client, run_id)


def _info(run_id: str, store: Any) -> RunInfo:
    """What is known of a run without asking the server. The address is that of the server's own pages."""
    url = ""
    parts = urlsplit(str(getattr(store, "_vitals_uri", "")))
    if parts.scheme in ("http", "https"):
        host = parts.netloc.rpartition("@")[2]  # a password in the address is for nobody else
        url = f"{parts.scheme}://{host}{parts.path.rstrip('/')}/#/runs/{run_id}"
    return RunInfo(run_id, planned_steps(_said.get(run_id, {})), url, title=_called.get(run_id) or _active_name(run_id))


def _active_name(run_id: str) -> str:
    """What the run is called, where it was begun before anybody attached and is this thread's own."""
    active = importlib.import_module("mlflow").active_run()
    return str(active.info.run_name or "") if active is not None and active.info.run_id == run_id else ""


class _Everyone:
    """Tells all attachments, so that one wrapping serves them all."""

    def params(self, run_id: str, params: Mapping[str, object]) -> None:
        told = {name: params[name] for name in TOTAL_STEPS if name in params}
        if not told:
            return
        _said.setdefault(run_id, {}).update(told)
        for attachment in tuple(_attached):
            attachment.planned(run_id)
        for known in list(_said)[:-KEPT_PLANS]:
            _said.pop(known, None)

    def called(self, run_id: str, name: str) -> None:
        if name:
            _called[run_id] = name
        for known in list(_called)[:-KEPT_PLANS]:
            _called.pop(known, None)

    def row(self, run_id: str, values: dict[str, float], step: int, timestamp: int, store: Any) -> None:
        for attachment in tuple(_attached):
            try:
                attachment.row(run_id, values, step, timestamp, store)
            except Exception as error:  # one policy's failure is not another's, nor the script's
                self._not_watched(run_id, attachment, error)

    def points(self, run_id: str, points: list[LoggedPoint], store: Any) -> None:
        for attachment in tuple(_attached):
            try:
                attachment.points(run_id, points, store)
            except Exception as error:  # as above
                self._not_watched(run_id, attachment, error)

    def _not_watched(self, run_id: str, attachment: MlflowAttachment, error: Exception) -> None:
        complain(f"run {run_id} is not watched by {attachment.policy.name} ({type(error).__name__})")

    def ended(self, run_id: str, store: Any) -> None:
        for attachment in tuple(_attached):
            try:
                attachment.ended(run_id, store)
            except Exception as error:  # as above
                complain(f"the end of run {run_id} was not seen to ({type(error).__name__})")


_everyone = _Everyone()
_attached: list[MlflowAttachment] = []
if hasattr(os, "register_at_fork"):
    # A forked child has copies of what watches, and all of them are its parent's.
    os.register_at_fork(after_in_child=_attached.clear)
_sharing = Sharing()
_stores: list[Any] = []
_said: dict[str, dict[str, object]] = {}
"""What runs have said of the number of their steps, by run."""
_called: dict[str, str] = {}
"""What people call runs, as far as that passed by here."""


def attach(
    policy: str | os.PathLike[str] | LoadedPolicy,
    *,
    settings: Mapping[str, object] | None = None,
    profile: str | None = None,
    total_steps: float = math.nan,
) -> MlflowAttachment:
    """Watch every run that this process logs to MLflow, by whatever way: fluent calls, clients, autologging, callbacks.

    `settings` set params, over those of `profile`, where `policy` is a name. `total_steps` is how many steps a run
    plans, for `progress`; left out, it is the run's param `total_steps` or `max_steps`, from when it is logged, or from
    the start where the script takes up a run that has it. The same policy twice is one. Raises PolicyError where the
    policy has errors, MissingExtraError without MLflow.
    """
    loaded = as_policy(policy, settings, profile)
    try:
        importlib.import_module("mlflow")  # which attaches what VITALS_POLICY names
    except ImportError as error:
        raise MissingExtraError("mlflow", "mlflow") from error
    for known in _attached:
        if known.policy.digest == loaded.digest:
            return known
    attachment = MlflowAttachment(loaded, total_steps)
    _attached.append(attachment)
    hook_registry()
    return attachment


def arm(name: str) -> None:
    """Attach a policy from inside MLflow's own import, for all stores to come. Raises PolicyError."""
    _attached.append(MlflowAttachment(load(name)))
    hook_registry()


def hook_registry() -> None:
    """Have every store watched from its next use on. Safe inside MLflow's own import.

    All of MLflow asks the registry for the store at each call, so stores that are in use already are met, too, and none
    is made before the script makes it.
    """
    kind = _registry()
    original = kind.get_store
    if getattr(original, "_vitals", None) is not None:
        return

    @functools.wraps(original)
    def get_store(self: Any, *args: Any, **kwargs: Any) -> Any:
        store = original(self, *args, **kwargs)
        if _attached and not is_instrumented(store):
            try:
                _watch(store, kwargs.get("store_uri", args[0] if args else None))
            except Exception as error:  # the script must get its store whatever happens to us
                complain(f"a store cannot be watched ({type(error).__name__})")
        return store

    get_store._vitals = original  # type: ignore[attr-defined]
    kind.get_store = get_store


def _registry() -> Any:
    return (sys.modules.get(_REGISTRY) or importlib.import_module(_REGISTRY)).TrackingStoreRegistry


def _watch(store: Any, uri: Any) -> None:
    store._vitals_uri = uri or importlib.import_module(_UTILS).get_tracking_uri()
    instrument(store, _everyone)
    _stores.append(store)


def _unhook() -> None:
    kind = _registry()
    original = getattr(kind.get_store, "_vitals", None)
    if original is not None:
        kind.get_store = original
    for store in _stores:
        restore(store)
    _stores.clear()
