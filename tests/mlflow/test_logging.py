"""However a point is logged to MLflow, it is seen once, and live is what a replay of the run gives."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from typing import Any

import mlflow
import pytest
from mlflow.entities import Metric
from vitalsdsl_mlflow import attach

from tests.mlflow.runs import (
    BEGAN,
    CHANGES,
    LOSSES,
    NON_FINITE,
    POLICY,
    again,
    assert_same,
    load_policy,
    of_rows,
    recorded,
    rows_of,
    short,
)  # fmt: skip


def log_fluent(losses: list[float]) -> None:
    for step, loss in enumerate(losses):
        mlflow.log_metric("train/loss", loss, step=step)
        time.sleep(0.002)


def test_fluent_points_of_one_metric_are_seen(client: Any) -> None:
    policy = load_policy()
    attach(policy)
    with mlflow.start_run() as run:
        log_fluent(LOSSES)
    assert short(assert_same(client, policy, run.info.run_id, rows_of(LOSSES))) == CHANGES


def test_fluent_points_of_many_metrics_are_seen(client: Any) -> None:
    policy = load_policy()
    attach(policy)
    rows: list[dict[str, Any]] = []
    with mlflow.start_run() as run:
        for step, loss in enumerate(LOSSES):
            values = {"train/loss": loss, "eval/accuracy": 0.1 * step, **{f"other/{n}": 1.0 for n in range(20)}}
            mlflow.log_metrics(values, step=step)
            rows.append({"step": step, **values})
            time.sleep(0.002)
    live = assert_same(client, policy, run.info.run_id, rows)
    assert ("accuracy_low", 0, "green", "yellow") in short(live)
    assert [t for t in short(live) if t[0] == "loss_high"] == CHANGES


def test_points_of_a_client_are_seen(client: Any) -> None:
    policy = load_policy()
    attach(policy)
    run = client.create_run("0").info.run_id
    for step, loss in enumerate(LOSSES):
        client.log_metric(run, "train/loss", loss, timestamp=BEGAN + 1000 * step, step=step)
    client.set_terminated(run)
    assert short(assert_same(client, policy, run, rows_of(LOSSES))) == CHANGES


def test_a_batch_may_mix_steps_in_any_order(client: Any) -> None:
    policy = load_policy()
    attach(policy)
    run = client.create_run("0").info.run_id
    points = [Metric("train/loss", loss, BEGAN + at // 5, at) for at, loss in enumerate(LOSSES)]
    client.log_batch(run, metrics=points[4::-1])
    client.log_batch(run, metrics=[points[7], points[5], points[9], points[6], points[8]])
    client.set_terminated(run)
    assert short(assert_same(client, policy, run, rows_of(LOSSES))) == CHANGES


def test_a_key_that_comes_again_in_a_batch_is_a_second_point_of_the_step(client: Any) -> None:
    policy = load_policy(POLICY.replace('"train/loss"', '"train/loss" reduce max'))
    attach(policy)
    run = client.create_run("0").info.run_id
    rows: list[dict[str, Any]] = []
    for step in range(6):
        first, second = (9.0, 1.0) if step in (2, 3) else (1.0, 2.0)
        client.log_batch(run, metrics=[
            Metric("train/loss", first, BEGAN + 1000 * step, step),
            Metric("train/loss", second, BEGAN + 1000 * step + 1, step),
        ])  # fmt: skip
        rows += [{"step": step, "train/loss": first}, {"step": step, "train/loss": second}]
    client.set_terminated(run)
    assert short(assert_same(client, policy, run, rows)) == [
        ("loss_high", 3, "green", "orange"), ("loss_high", 5, "orange", "green"),
    ]  # fmt: skip


def test_asynchronous_points_are_seen_once_in_the_order_of_the_script(client: Any) -> None:
    policy = load_policy()
    attachment = attach(policy)
    seen: list[tuple[int, str]] = []
    told = attachment.row

    def row(run_id: str, values: dict[str, float], step: int, timestamp: int, store: Any) -> None:
        seen.extend((step, threading.current_thread().name) for _ in values)
        told(run_id, values, step, timestamp, store)

    attachment.row = row  # type: ignore[method-assign]
    losses = LOSSES * 5
    with mlflow.start_run() as run:
        for step, loss in enumerate(losses):
            if step % 2:
                mlflow.log_metric("train/loss", loss, step=step, synchronous=False)
            else:
                mlflow.log_metrics({"train/loss": loss}, step=step, synchronous=False)
            time.sleep(0.002)
    assert seen == [(step, threading.current_thread().name) for step in range(len(losses))]
    assert_same(client, policy, run.info.run_id, rows_of(losses))


def test_nan_and_infinity_are_seen_as_they_were_logged(client: Any) -> None:
    policy = load_policy()
    attach(policy)
    with mlflow.start_run() as run:
        log_fluent(NON_FINITE)
    live = assert_same(client, policy, run.info.run_id, rows_of(NON_FINITE))
    assert live, "a loss that is not finite is a finding"


def test_runs_at_once_and_nested_runs_know_nothing_of_each_other(client: Any) -> None:
    policy = load_policy()
    attach(policy)
    other = client.create_run("0").info.run_id
    with mlflow.start_run() as outer:
        for step, loss in enumerate(LOSSES[:5]):
            mlflow.log_metric("train/loss", loss, step=step)
            client.log_metric(other, "train/loss", 1.0, step=step)
        with mlflow.start_run(nested=True) as inner:
            log_fluent(LOSSES)
        for step, loss in enumerate(LOSSES[5:], start=5):
            mlflow.log_metric("train/loss", loss, step=step)
            client.log_metric(other, "train/loss", 1.0, step=step)
    client.set_terminated(other)
    for run in (outer, inner):
        assert short(assert_same(client, policy, run.info.run_id, rows_of(LOSSES))) == CHANGES
    assert assert_same(client, policy, other, rows_of([1.0] * len(LOSSES))) == []


def test_threads_may_log_to_runs_of_their_own(client: Any) -> None:
    policy = load_policy()
    attach(policy)
    runs = [client.create_run("0").info.run_id for _ in range(4)]

    def train(run: str) -> None:
        for step, loss in enumerate(LOSSES):
            client.log_metric(run, "train/loss", loss, timestamp=BEGAN + step, step=step)
        client.set_terminated(run)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(train, runs))
    for run in runs:
        assert short(assert_same(client, policy, run, rows_of(LOSSES))) == CHANGES


def test_threads_may_log_to_one_run(client: Any) -> None:
    attachment = attach(load_policy())
    run = client.create_run("0").info.run_id
    told, rows = attachment.row, []

    def row(run_id: str, values: dict[str, float], step: int, timestamp: int, store: Any) -> None:
        told(run_id, values, step, timestamp, store)
        rows.append((step, *values))

    attachment.row = row  # type: ignore[method-assign]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        done = [
            pool.submit(client.log_batch, run, [Metric(f"m{thread}", float(step), BEGAN + step, step)])
            for step in range(25) for thread in range(4)
        ]  # fmt: skip
        for each in done:
            each.result()
    assert sorted(rows) == [(step, f"m{thread}") for step in range(25) for thread in range(4)]
    assert attachment._runs[run].events.tops == dict.fromkeys(("m0", "m1", "m2", "m3"), 24)


def test_system_metrics_count_at_the_training_step_that_is_open(client: Any) -> None:
    policy = load_policy('vitals 1\nmetric gpu = "system/gpu_0_utilization_percentage"\nwhen gpu < 10 -> yellow\n')
    attach(policy)
    run = client.create_run("0").info.run_id
    rows: list[dict[str, Any]] = []
    for at in range(10):
        now = BEGAN + 1000 * at
        client.log_metric(run, "train/loss", 1.0, timestamp=now, step=100 * at)
        client.log_batch(run, [Metric("system/gpu_0_utilization_percentage", 50.0 if at < 6 else 5.0, now + 500, at)])
        rows.append(
            {"step": 100 * at, "train/loss": 1.0, "system/gpu_0_utilization_percentage": 50.0 if at < 6 else 5.0}
        )
    client.set_terminated(run)
    assert [t["step"] for t in assert_same(client, policy, run, rows)] == [600]


def test_a_script_without_steps_counts_its_points(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    policy = load_policy()
    attach(policy)
    with mlflow.start_run() as run:
        for loss in LOSSES:
            mlflow.log_metric("train/loss", loss)
            time.sleep(0.003)
    assert short(assert_same(client, policy, run.info.run_id, rows_of(LOSSES))) == CHANGES
    assert sum("logs without steps" in r.getMessage() for r in caplog.records) >= 1


PROGRESS = 'vitals 1\nmetric loss = "train/loss"\nwhen loss > 3 and progress >= 50% -> orange\n'


@pytest.mark.parametrize("way", ["params", "param", "taken up", "attach"])
def test_progress_is_the_same_live_as_in_a_replay(client: Any, way: str) -> None:
    policy = load_policy(PROGRESS)
    run = client.create_run("0").info.run_id
    if way == "taken up":
        client.log_param(run, "max_steps", 10)
    attach(policy, **({"total_steps": 10} if way == "attach" else {}))
    with mlflow.start_run(run_id=run):
        if way == "params":
            mlflow.log_params({"lr": 3e-4, "max_steps": 10})
        elif way != "taken up":
            mlflow.log_param("max_steps", 10 if way == "param" else 999)
        log_fluent([4.0] * 8)
    live = recorded(client, run)
    assert short(live) == [("loss_orange", 5, "green", "orange")]
    if way != "attach":
        assert live == again(policy, run)


def test_a_run_that_says_its_length_later_is_heard(client: Any) -> None:
    attach(load_policy(PROGRESS))
    with mlflow.start_run() as run:
        log_fluent([4.0] * 5)
        mlflow.log_param("total_steps", 10)
        mlflow.log_metric("train/loss", 4.0, step=5)
    assert short(recorded(client, run.info.run_id)) == [("loss_orange", 5, "green", "orange")]


def test_a_length_below_one_is_none(client: Any) -> None:
    """Trainers write -1 for a length that goes by epochs."""
    run = client.create_run("0").info.run_id
    client.log_param(run, "max_steps", -1)
    client.log_param(run, "total_steps", 10)
    for step in range(8):
        client.log_metric(run, "train/loss", 4.0, timestamp=BEGAN + step, step=step)
    assert [t["step"] for t in again(load_policy(PROGRESS), run)] == [5]


def test_a_late_point_is_taken_live_as_in_a_replay(client: Any) -> None:
    policy = load_policy()
    attach(policy)
    run = client.create_run("0").info.run_id
    rows: list[dict[str, Any]] = []
    for at, step in enumerate([0, 1, 2, 3, 4, 2, 3, 5, 6, 7, 8]):
        client.log_metric(run, "train/loss", 4.0, timestamp=BEGAN + at, step=step)
        rows.append({"step": step, "train/loss": 4.0})
        if step == 4:
            client.log_metric(run, "eval/accuracy", 0.1, timestamp=BEGAN + at, step=1)
            rows.append({"step": 1, "eval/accuracy": 0.1})
    client.set_terminated(run)
    live = recorded(client, run)
    assert short(live)[0] == ("loss_high", 1, "green", "orange")
    assert live == of_rows(policy, run, rows)


def test_a_batch_of_a_thousand_metrics_is_seen_whole(client: Any) -> None:
    attachment = attach(load_policy())
    with mlflow.start_run() as run:
        mlflow.log_metrics({f"m/{n}": float(n) for n in range(2500)}, step=3)
        assert len(attachment._runs[run.info.run_id].events.steps.counts) == 2500


def test_what_a_read_finds_is_every_point(client: Any) -> None:
    run = client.create_run("0").info.run_id
    client.log_batch(run, [Metric("train/loss", 4.0, BEGAN + step, step) for step in range(900)])
    assert [t["step"] for t in again(load_policy(), run)] == [1, 4]
