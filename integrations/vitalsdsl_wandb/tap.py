"""Where every row of a process passes: `Run.log`. W&B's call first, then ours; nothing of ours raises."""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
from collections.abc import Callable
from typing import Any, Protocol

from vitalsdsl.errors import MissingExtraError

logger = logging.getLogger("vitalsdsl")

_MARK = "_vitals_original"


class Sink(Protocol):
    """Who is told of calls and of ends."""

    def logged(self, run: Any, data: Any, step: int | None, commit: bool | None) -> None: ...

    def ending(self, run: Any) -> None: ...


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


def install(sink: Sink) -> None:
    """Have a sink told of every `Run.log` and `Run.finish` of this process; the wrapping itself is put on once."""
    _sinks.append(sink)
    run_type = run_class()
    if not hasattr(run_type.log, _MARK):
        run_type.log = _wrap_log(run_type.log)
        run_type.finish = _wrap_finish(run_type.finish)
    _rebind()


def remove(sink: Sink) -> None:
    """Tell a sink no more; with the last one the wrapping comes off."""
    with contextlib.suppress(ValueError):
        _sinks.remove(sink)
    run_type = run_class()
    if not _sinks and hasattr(run_type.log, _MARK):
        run_type.log = getattr(run_type.log, _MARK)
        run_type.finish = getattr(run_type.finish, _MARK)
        _rebind()


def _rebind() -> None:
    """`wandb.init` puts bound methods on the module: bind them anew for a run that is already there."""
    wandb = wandb_module()
    run = getattr(wandb, "run", None)
    if run is not None and isinstance(run, run_class()):
        wandb.log = run.log


def _wrap_log(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def log(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        _tell_logged(self, args, kwargs)
        return result

    setattr(log, _MARK, original)
    return log


def _tell_logged(run: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    given = dict(zip(("data", "step", "commit"), args), **kwargs)
    for sink in tuple(_sinks):
        try:
            sink.logged(run, given.get("data"), given.get("step"), given.get("commit"))
        except Exception:  # a health rule must never end a training run
            logger.exception("vitals: a logged row could not be read; training goes on")


def _wrap_finish(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def finish(self: Any, *args: Any, **kwargs: Any) -> Any:
        for sink in tuple(_sinks):
            try:
                sink.ending(self)
            except Exception:  # the run must end whatever happens to us
                logger.exception("vitals: the end of run %s could not be handled", getattr(self, "id", "?"))
        return original(self, *args, **kwargs)

    setattr(finish, _MARK, original)
    return finish
