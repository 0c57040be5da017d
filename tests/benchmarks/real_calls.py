"""The same between real calls: W&B writes its transaction log and MLflow its database, and the processor's caches are full of
what they do when ours begins. There, the code that is gone through counts, and what it works out hardly does."""

from __future__ import annotations

import importlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.benchmarks.contest import Contender, Contest, Measured, outcomes
from tests.benchmarks.work import Work
from vitalsdsl.policies.policy import load

WARM_UP = 600
"""Rows until the code for them is written and windows are full; they come without the tracker's own work."""

Call = Callable[[int], object]

ONE, FIFTY = "one rule", "fifty rules"

REAL = (
    Contender(f"vitalsdsl on W&B's run.log, {ONE}", str, "wandb"),
    Contender(f"vitalsdsl on W&B's run.log, {FIFTY}", str, "wandb"),
    Contender("W&B's run.log itself, offline", str, "wandb"),
    Contender(f"vitalsdsl on MLflow's log_metrics, {ONE}", str, "mlflow"),
    Contender(f"vitalsdsl on MLflow's log_metrics, {FIFTY}", str, "mlflow"),
    Contender("MLflow's log_metrics itself, on SQLite", str, "mlflow"),
)


class Inside:
    """How long this thread was in a function of ours, over all calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.seconds = 0.0

    def __call__(self, *args: Any) -> Any:
        began = time.thread_time()
        try:
            return self._function(*args)
        finally:
            self.seconds += time.thread_time() - began


def race_real_calls(rounds: int, calls: int) -> Contest:
    """Of each call what ours takes of the calling thread, from when the tracker has done its own work until it returns; and
    what the tracker takes for that."""
    work = Work.made(WARM_UP + rounds * calls, short=50, long=500, healthy=True)
    measured: Measured = {}
    is_there = {one.needs: one.is_installed for one in REAL}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        own = {"VITALS_HOME": folder, "WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_DIR": folder}
        stack.enter_context(patch.dict(os.environ, own))
        for tracker, (begun, names) in {"wandb": (_wandb, REAL[:3]), "mlflow": (_mlflow, REAL[3:])}.items():
            if is_there[tracker]:
                _measure(begun, names, work, rounds, calls, measured, Path(folder))
    return Contest("the same between two real calls", outcomes(REAL, measured), "us a call")


def _measure(
    begun: Any, names: Sequence[Contender], work: Work, rounds: int, calls: int, measured: Measured, folder: Path
) -> None:
    policies = [load("one", text="when m0 > 100 -> yellow"), work.policy()]
    with begun(policies, work.values(), folder) as (inside, log, choose):
        for at in range(2):
            choose(at)
            for step in range(WARM_UP):
                log(step, False)
        for n in range(rounds):
            first, outside = WARM_UP + n * calls, 0.0
            for at in range(2):
                choose(at)
                inside.seconds, began = 0.0, time.thread_time()
                for step in range(first, first + calls):
                    log(step, True)
                measured.setdefault(names[at].name, []).append(inside.seconds / calls * 1e6)
                outside += time.thread_time() - began - inside.seconds
            measured.setdefault(names[2].name, []).append(outside / 2 / calls * 1e6)


@contextmanager
def _wandb(policies: Sequence[Any], values: Any, folder: Path) -> Iterator[tuple[Inside, Any, Any]]:
    wandb: Any = importlib.import_module("wandb")
    tap: Any = importlib.import_module("vitalsdsl_wandb.tap")
    inside = Inside(tap._tell_logged)
    with patch.object(tap, "_tell_logged", inside):
        attached = [importlib.import_module("vitalsdsl_wandb").attach(policy) for policy in policies]
        run = wandb.init(project="p")

        def log(step: int, is_real: bool) -> None:
            if is_real:
                run.log(values[step])
            else:
                tap._tell_logged(run, run._local_step, (values[step],), {})

        def choose(at: int) -> None:
            tap._sinks[:] = [attached[at]]

        try:
            yield inside, log, choose
        finally:
            tap._sinks[:] = attached
            run.finish()
            for attachment in attached:
                attachment.detach()
            wandb.teardown()


@contextmanager
def _mlflow(policies: Sequence[Any], values: Any, folder: Path) -> Iterator[tuple[Inside, Any, Any]]:
    mlflow: Any = importlib.import_module("mlflow")
    tap: Any = importlib.import_module("vitalsdsl_mlflow.tap")
    module: Any = importlib.import_module("vitalsdsl_mlflow")
    attaching: Any = importlib.import_module(module.attach.__module__)
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    inside = Inside(tap._tell_batch)
    with patch.object(tap, "_tell_batch", inside):
        attached = [module.attach(policy) for policy in policies]
        run_id = mlflow.start_run().info.run_id

        def log(step: int, is_real: bool) -> None:
            if is_real:
                mlflow.log_metrics(values[step], step=step + 1)
                return
            metrics = [mlflow.entities.Metric(name, x, 1000 * step, step + 1) for name, x in values[step].items()]
            tap._tell_batch(attaching._everyone, attaching._stores[0], (), {"run_id": run_id, "metrics": metrics}, None)

        def choose(at: int) -> None:
            attaching._attached[:] = [attached[at]]

        try:
            yield inside, log, choose
        finally:
            attaching._attached[:] = attached
            mlflow.end_run()
            for attachment in attached:
                attachment.detach()
            mlflow.set_tracking_uri(before)
