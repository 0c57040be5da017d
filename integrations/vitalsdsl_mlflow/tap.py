"""Where every metric of a process passes: the tracking store. Theirs first, then ours; nothing of ours raises."""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from vitalsdsl_mlflow.rows import LoggedPoint

logger = logging.getLogger("vitalsdsl")

METHODS = (
    "log_metric", "log_batch", "log_metric_async", "log_batch_async", "log_param", "log_param_async", "create_run",
    "get_run", "update_run_info",
)  # fmt: skip
_MARK = "_vitals_tap"

_said: set[str] = set()

ours = threading.local()
"""`ours.busy` is set on a thread while a call of ours, or an outer call of theirs, is under way."""


class Sink(Protocol):
    """Who is told of points, of what runs say of themselves, and of ends."""

    def row(self, run_id: str, values: dict[str, float], step: int, timestamp: int, store: Any) -> None:
        """Points of one call that are of one step and one time, each of another metric: nearly all are so."""

    def points(self, run_id: str, points: list[LoggedPoint], store: Any) -> None:
        """Any other points of one call."""

    def params(self, run_id: str, params: Mapping[str, object]) -> None: ...

    def called(self, run_id: str, name: str) -> None: ...

    def ended(self, run_id: str, store: Any) -> None: ...


def instrument(store: Any, sink: Sink) -> None:
    """Wrap one store's logging methods, on the instance. A second time does nothing."""
    if is_instrumented(store):
        return
    taps: dict[str, tuple[Callable[..., Any], Any]] = {}
    for name in METHODS:
        original = getattr(store, name, None)
        if original is not None:
            tap = _wrapped(original, name, store, sink)
            taps[name] = (tap, vars(store).get(name))
            setattr(store, name, tap)
    setattr(store, _MARK, taps)


def is_instrumented(store: Any) -> bool:
    """Whether a store is wrapped."""
    return getattr(store, _MARK, None) is not None


def restore(store: Any) -> None:
    """Take the wrapping off again. What somebody else wrapped around ours stays: ours lets all through then."""
    for name, (tap, own) in (getattr(store, _MARK, None) or {}).items():
        if vars(store).get(name) is not tap:
            continue
        if own is None:
            delattr(store, name)
        else:
            setattr(store, name, own)
    if is_instrumented(store):
        delattr(store, _MARK)


def _wrapped(original: Callable[..., Any], name: str, store: Any, sink: Sink) -> Callable[..., Any]:
    pid = os.getpid()
    tell = _tell_points if name.startswith(("log_metric", "log_batch")) else _tell

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if getattr(ours, "busy", False) or os.getpid() != pid:
            return original(*args, **kwargs)
        ours.busy = True
        try:
            result = original(*args, **kwargs)
        finally:
            ours.busy = False
        try:
            tell(name, sink, store, args, kwargs, result)
        except Exception as error:  # a health rule must never end a training run
            complain(f"a logged point could not be read ({type(error).__name__})")
        return result

    return call


def complain(what: str) -> None:
    """Say, once for each, what went wrong with us, with the exception that is being handled."""
    if what not in _said:
        _said.add(what)
        logger.exception("vitals: %s; training goes on (said once)", what)


def _tell_points(name: str, sink: Sink, store: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    run_id = kwargs.get("run_id", args[0] if args else None)
    if run_id is None:
        return
    if name.startswith("log_metric"):
        given: Sequence[Any] = (kwargs.get("metric", args[1] if len(args) > 1 else None),)
    else:
        given = kwargs.get("metrics", args[1] if len(args) > 1 else ())
        if params := kwargs.get("params", args[2] if len(args) > 2 else ()):
            sink.params(run_id, {param.key: param.value for param in params})
    if not given:
        return
    first = given[0]
    step, timestamp = first.step, first.timestamp
    values: dict[str, float] = {}
    for metric in given:
        value = metric.value
        values[metric.key] = value if value.__class__ is float else float(value)
        if metric.step != step or metric.timestamp != timestamp:
            break
    else:
        if len(values) == len(given):
            sink.row(run_id, values, int(step or 0), int(timestamp or 0), store)
            return
    sink.points(
        run_id, [LoggedPoint(m.key, float(m.value), int(m.step or 0), int(m.timestamp or 0)) for m in given], store
    )


def _tell(name: str, sink: Sink, store: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    if name in ("create_run", "get_run"):  # what the script asks for anyway, as it begins a run or takes one up
        sink.called(result.info.run_id, str(getattr(result.info, "run_name", None) or ""))
    run_id = kwargs.get("run_id", args[0] if args else None)
    if run_id is None or name == "create_run":
        return
    if name == "update_run_info":
        status = kwargs.get("run_status", args[1] if len(args) > 1 else None)
        if _is_terminal(status):
            sink.ended(run_id, store)
        return
    if name == "get_run":
        sink.params(run_id, result.data.params)
        return
    param: Any = kwargs.get("param", args[1] if len(args) > 1 else None)
    sink.params(run_id, {param.key: param.value})


def _is_terminal(status: Any) -> bool:
    """MLflow's RunStatus numbers: 3 finished, 4 failed, 5 killed."""
    return status in (3, 4, 5) or str(status) in ("FINISHED", "FAILED", "KILLED")
