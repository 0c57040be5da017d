"""A real server: points over http, and a server that dies in the middle of a run."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlflow
import pytest
from vitalsdsl_mlflow import attach
from vitalsdsl_mlflow.attach import _info
from vitalsdsl_mlflow.rows import LoggedPoint

from tests.mlflow.runs import CHANGES, LOSSES, assert_same, load_policy, recorded, rows_of, short, vitals_tags


def test_points_over_http_are_seen(folder: Path, server: Any) -> None:
    policy = load_policy()
    mlflow.set_tracking_uri(server.uri)
    attach(policy)
    with mlflow.start_run() as run:
        for step, loss in enumerate(LOSSES):
            mlflow.log_metrics({"train/loss": loss, "eval/accuracy": 0.9}, step=step)
    rows = [{**row, "eval/accuracy": 0.9} for row in rows_of(LOSSES)]
    client = mlflow.MlflowClient()
    assert short(assert_same(client, policy, run.info.run_id, rows)) == CHANGES
    alerts = recorded(client, run.info.run_id, "vitals/alerts.jsonl")
    assert [line["level"] for line in alerts] == ["orange", "red", "green"]
    assert vitals_tags(client, run.info.run_id)["vitals.level"] == "green"
    link = f"{server.uri}/#/runs/{run.info.run_id}"
    assert all(link in alert["text"] for alert in alerts)


def test_the_link_of_a_run_shows_no_password() -> None:
    store = SimpleNamespace(_vitals_uri="https://me:secret@host:5000/mlflow/")
    assert _info("a1", store).url == "https://host:5000/mlflow/#/runs/a1"
    assert _info("a1", SimpleNamespace(_vitals_uri="sqlite:///mlflow.db")).url == ""


def test_a_server_that_dies_costs_the_script_nothing_of_ours_but_the_last_flush(folder: Path, server: Any) -> None:
    """The last test of this module: the server does not come back."""
    mlflow.set_tracking_uri(server.uri)
    client = mlflow.MlflowClient()
    attachment = attach(load_policy())
    run = client.create_run("0").info.run_id
    for step, loss in enumerate(LOSSES[:5]):
        client.log_metric(run, "train/loss", loss, step=step)
    server.end(hard=True)
    with pytest.raises(Exception, match="Max retries|Connection|refused"):
        client.log_metric(run, "train/loss", 5.0, step=5)
    store = client._tracking_client.store
    slowest = 0.0
    for step in range(6, 60):
        began = time.perf_counter()
        attachment.points(run, [LoggedPoint("train/loss", 5.0 if step % 10 < 6 else 1.0, step, 0)], store)
        slowest = max(slowest, time.perf_counter() - began)
    assert slowest < 0.25
    assert attachment.monitor(run) is not None
    began = time.monotonic()
    attachment.detach()
    assert time.monotonic() - began < 14
