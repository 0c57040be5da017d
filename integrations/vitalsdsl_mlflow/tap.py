"""Where every metric of a process passes: the tracking store. Theirs first, then ours; nothing of ours raises."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from vitalsdsl_mlflow.rows import LoggedPoint

logger = logging.getLogger("vitalsdsl")

_Tell = Callable[["Sink", Any, "tuple[Any, ...]", "dict[str, Any]", Any], None]

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
    if name.startswith("log_metric"):
        tell: _Tell = _tell_metric
    elif name.startswith("log_batch"):
        tell = _tell_batch
    else:
        tell = functools.partial(_tell, name)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        here = ours.__dict__
        if here.get("busy", False):
            return original(*args, **kwargs)
        here["busy"] = True
        try:
            result = original(*args, **kwargs)
        finally:
            here["busy"] = False
        try:
            tell(sink, store, args, kwargs, result)
        except Exception as error:  # a health rule must never end a training run
            complain(f"a logged point could not be read ({type(error).__name__})")
        return result

    return call


def complain(what: str) -> None:
    """Say, once for each, what went wrong with us, with the exception that is being handled."""
    if what not in _said:
        _said.add(what)
        logger.exception("vitals: %s; training goes on (said once)", what)


def _tell_metric(sink: Sink, store: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    run_id = kwargs.get("run_id", args[0] if args else None)
    metric = kwargs.get("metric", args[1] if len(args) > 1 else None)
    if run_id is not None and metric is not None:
        _tell_points(sink, store, run_id, (metric,))


def _tell_batch(sink: Sink, store: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    run_id = kwargs.get("run_id", args[0] if args else None)
    if run_id is None:
        return
    given = kwargs.get("metrics", args[1] if len(args) > 1 else ())
    params = kwargs.get("params", args[2] if len(args) > 2 else ())
    if params:
        sink.params(run_id, {param.key: param.value for param in params})
    if given:
        _tell_points(sink, store, run_id, given)


def _tell_points(sink: Sink, store: Any, run_id: str, given: Sequence[Any]) -> None:
    """Points as a row, where they are one. MLflow's own attributes stand behind functions, of which four for each metric
    are half of what there is to do here: so what is behind them is read, and they where it is not there."""
    values: dict[str, float] = {}
    step = timestamp = 0
    is_row = False
    try:
        first = given[0]
        step, timestamp = first._step, first._timestamp
        for metric in given:
            value = metric._value
            values[metric._key] = value if value.__class__ is float else float(value)
            if metric._step != step or metric._timestamp != timestamp:
                break
        else:
            is_row = len(values) == len(given)
    except AttributeError:
        pass  # another release's, or a thing of the script's own that looks like a metric
    if is_row:
        sink.row(run_id, values, int(step or 0), int(timestamp or 0), store)
    else:
        points = [LoggedPoint(m.key, float(m.value), int(m.step or 0), int(m.timestamp or 0)) for m in given]
        sink.points(run_id, points, store)


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
