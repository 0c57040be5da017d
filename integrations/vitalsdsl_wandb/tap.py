"""Where every row of a process passes: `Run.log`. W&B's call first, then ours; nothing of ours raises.

What escapes: a bound `run.log` that was kept in a variable before the first `attach`, rows that W&B's core makes itself
(TensorBoard sync, system metrics, `wandb.watch`), step metrics that were defined before the first `attach`, and other
processes.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import os
from collections.abc import Callable
from typing import Any, Protocol

from vitalsdsl.ground.errors import MissingExtraError

logger = logging.getLogger("vitalsdsl")

_MARK = "_vitals_original"
_PARAMETERS = ("data", "step", "commit")


class Sink(Protocol):
    """Who is told of calls and of ends."""

    def logged(self, run: Any, before: int, data: Any, step: int | None, commit: bool | None) -> None:
        """W&B has taken a call of `run.log`; `before` is the step that it was at."""

    def defined(self, run: Any, pattern: str, step_metric: Any, step_sync: bool | None) -> None:
        """W&B has taken a call of `run.define_metric`."""

    def ending(self, run: Any) -> None:
        """W&B is about to finish a run; until this returns, tags and alerts still get into it."""


def wandb_module() -> Any:
    """The wandb that the script uses. Raises MissingExtraError where it is not installed."""
    try:
        return importlib.import_module("wandb")
    except ImportError as error:
        raise MissingExtraError("wandb", "wandb") from error


def run_class() -> Any:
    """The class of runs, which older releases do not export."""
    wandb_module()
    return importlib.import_module("wandb.sdk.wandb_run").Run


_sinks: list[Sink] = []
_said: set[tuple[str, str]] = set()
_notes: dict[int, tuple[Any, dict[str, Any]]] = {}


def note(run: Any, values: dict[str, Any]) -> None:
    """Have values put into the row that the script logs next. A row of our own would move W&B's steps, and a script
    that counts for itself would have rows dropped for it; so without another call the values are not logged."""
    _notes[id(run)] = (run, values)


def forget(run: Any) -> None:
    """A run is over: what was not logged with a row of it is not logged."""
    _notes.pop(id(run), None)


def _join(original: Callable[..., Any], run: Any, given: dict[str, Any], is_logged: bool) -> None:
    """Put what waits for a run into the row of this call: before a call that commits its row, else after it."""
    run_, values = _notes.get(id(run), (None, {}))
    data, step, commit = (given.get(name) for name in _PARAMETERS)
    is_open = commit is False or commit is None and step is not None
    if run_ is not run or is_open is not is_logged or os.getpid() != getattr(run, "_init_pid", None):
        return
    if step is not None and not is_open or not isinstance(data, dict) or not data:
        return
    if all(isinstance(key, str) for key in data) and data.keys().isdisjoint(values):
        forget(run)
        original(run, values, step=step, commit=False)


def install(sink: Sink) -> None:
    """Have a sink told of every `Run.log`, and of every run's end; the wrapping itself is put on once."""
    run_type = run_class()
    _sinks.append(sink)
    # `with wandb.init()` ends a run through `__exit__`, which does not come by `finish`.
    for name, wrap in _WRAPS.items():
        method = getattr(run_type, name)
        if not hasattr(method, _MARK):
            setattr(run_type, name, wrap(method))
    _rebind()


def remove(sink: Sink) -> None:
    """Tell a sink no more; with the last one the wrapping comes off, unless somebody has wrapped it in turn."""
    with contextlib.suppress(ValueError):
        _sinks.remove(sink)
    if _sinks:
        return
    run_type = run_class()
    for name in _WRAPS:
        method = getattr(run_type, name)
        original = getattr(method, _MARK, None)
        if original is not None and getattr(method, "__wrapped__", None) is original:
            setattr(run_type, name, original)
    _rebind()


def _rebind() -> None:
    """`wandb.init` puts bound methods on the module: bind them anew for a run that is already there."""
    wandb = wandb_module()
    bound: Any = wandb.run
    if not isinstance(bound, run_class()):
        return
    for name in ("log", "define_metric"):
        if getattr(getattr(wandb, name), "__self__", None) is bound:
            setattr(wandb, name, getattr(bound, name))


def _wrap_log(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def log(self: Any, *args: Any, **kwargs: Any) -> Any:
        # W&B's counter in this process: `run.step` would ask another one, and may wait for half a minute.
        before = getattr(self, "_local_step", 0)
        if _notes:
            _join_safely(original, self, args, kwargs, False)
        result = original(self, *args, **kwargs)
        if _notes:
            _join_safely(original, self, args, kwargs, True)
        _tell_logged(self, before, args, kwargs)
        return result

    setattr(log, _MARK, original)
    return log


def _join_safely(
    original: Callable[..., Any], run: Any, args: tuple[Any, ...], kwargs: dict[str, Any], is_logged: bool
) -> None:
    try:
        _join(original, run, dict(zip(_PARAMETERS, args), **kwargs), is_logged)
    except Exception:  # the script's own call is what counts
        logger.debug("vitals: a value could not be logged with a row", exc_info=True)


def _tell_logged(run: Any, before: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    given = len(args)
    data = args[0] if given else kwargs.get("data")
    step = args[1] if given > 1 else kwargs.get("step")
    commit = args[2] if given > 2 else kwargs.get("commit")
    for sink in tuple(_sinks):
        try:
            sink.logged(run, before, data, step, commit)
        except Exception as error:  # a health rule must never end a training run
            _complain(run, error)


def _complain(run: Any, error: Exception) -> None:
    """Say what went wrong with us, with the exception that is being handled: once for a run and a kind."""
    kind = (getattr(run, "id", "?"), type(error).__name__)
    if kind not in _said:
        _said.add(kind)
        logger.exception("vitals: a row of run %s could not be read; training goes on (said once)", kind[0])


def _wrap_definition(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def define_metric(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        given = dict(zip(("name", "step_metric", "step_sync"), args), **kwargs)
        for sink in tuple(_sinks):
            try:
                sink.defined(self, given.get("name", ""), given.get("step_metric"), given.get("step_sync"))
            except Exception:  # as in `log`
                logger.exception("vitals: the definition of a metric could not be read; training goes on")
        return result

    setattr(define_metric, _MARK, original)
    return define_metric


def _wrap_end(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def end(self: Any, *args: Any, **kwargs: Any) -> Any:
        for sink in tuple(_sinks):
            try:
                sink.ending(self)
            except Exception:  # the run must end whatever happens to us
                logger.exception("vitals: the end of run %s could not be handled", getattr(self, "id", "?"))
        return original(self, *args, **kwargs)

    setattr(end, _MARK, original)
    return end


_WRAPS = {"log": _wrap_log, "define_metric": _wrap_definition, "finish": _wrap_end, "__exit__": _wrap_end}
