"""Recorded runs of MLflow as rows: every point, never sampled, in the order in which it was logged."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vitalsdsl.errors import MissingExtraError, SourceError
from vitalsdsl.points import Row, RunInfo, planned_steps
from vitalsdsl_mlflow.rows import LoggedPoint, Steps

_INFINITE = sys.float_info.max
"""MLflow's stores keep ±inf as the largest float."""


@dataclass(frozen=True)
class Recording:
    """One run."""

    info: RunInfo
    events: list[Row]


def read(reference: str, *, step_key: str | None = None) -> list[Recording]:
    """The runs behind `RUN_ID` or `experiments/NAME`, from the tracking server that MLflow is set to.

    Raises SourceError where there is no such run, or the server does not answer.
    """
    client = _client()
    try:
        return [_recording(client, run) for run in _runs(client, reference)]
    except SourceError:
        raise
    except Exception as error:
        raise SourceError(f"mlflow:{reference} cannot be read: {' '.join(str(error).split()) or error!r}") from error


def _client() -> Any:
    try:
        mlflow = importlib.import_module("mlflow")
    except ImportError as error:
        raise MissingExtraError("mlflow", "mlflow") from error
    return mlflow.MlflowClient()


def _runs(client: Any, reference: str) -> Iterator[Any]:
    if not reference.startswith("experiments/"):
        yield client.get_run(reference)
        return
    name = reference.removeprefix("experiments/")
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        raise SourceError(f"there is no MLflow experiment called {name}")
    token = None
    while True:
        page = client.search_runs([experiment.experiment_id], order_by=["attributes.start_time ASC"], page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _recording(client: Any, run: Any) -> Recording:
    points: list[LoggedPoint] = []
    for key in run.data.metrics:
        for metric in client.get_metric_history(run.info.run_id, key):
            points.append(LoggedPoint(key, _restored(metric.value), metric.step, metric.timestamp))
    rows: list[Row] = []
    steps = Steps(run.info.run_id, lambda values, step, time: rows.append(Row(step, values, time)))
    steps.add(points)
    return Recording(RunInfo(run.info.run_id, planned_steps(run.data.params), notes=tuple(steps.notes)), rows)


def _restored(value: float) -> float:
    if abs(value) >= _INFINITE:
        return math.inf if value > 0 else -math.inf
    return value
