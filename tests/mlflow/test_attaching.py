"""When and how a policy comes to a process and leaves it: before the store, after it, by a variable, across a fork."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import mlflow
import pytest
from click.testing import CliRunner
from vitalsdsl_mlflow import attach, read
from vitalsdsl_mlflow.port import _Gate
from vitalsdsl_mlflow.tap import METHODS, is_instrumented

import vitalsdsl as vitals
from tests.mlflow.runs import (
    CHANGES,
    LOSSES,
    POLICY,
    again,
    assert_same,
    load_policy,
    policy_file,
    recorded,
    rows_of,
    short,
    vitals_tags,
)  # fmt: skip
from vitalsdsl.acting.journal import journals_of
from vitalsdsl.cli.app import vitals as program
from vitalsdsl.ground.errors import PolicyError

SCRIPT = """\
import sys, time
import mlflow
with mlflow.start_run(run_id=sys.argv[1] if sys.argv[1] != "new" else None) as run:
    print(run.info.run_id, flush=True)
    for step, loss in enumerate(sys.argv[3:], start=int(sys.argv[2])):
        mlflow.log_metric("train/loss", float(loss), step=step)
        time.sleep(0.003)
        if loss == "666":
            raise RuntimeError("out of memory")
"""


def run_script(
    folder: Path, text: str, uri: str, *arguments: object, home: str = "home", policy: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """A training script in a process of its own."""
    file = folder / "train.py"
    file.write_text(text, "utf-8")
    environment = {**os.environ, "MLFLOW_TRACKING_URI": uri, "VITALS_HOME": str(folder / home)}
    if policy is not None:
        environment["VITALS_POLICY"] = str(policy)
    return subprocess.run(
        [sys.executable, str(file), *map(str, arguments)],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


def log(losses: list[float], first: int = 0) -> None:
    for step, loss in enumerate(losses, start=first):
        mlflow.log_metric("train/loss", loss, step=step)
        time.sleep(0.003)


def originals(store: Any) -> bool:
    return not any(name in vars(store) for name in METHODS)


# ---------------------------------------------------------------- in this process


def test_attaching_makes_no_store(folder: Path) -> None:
    attach(load_policy())
    assert list(folder.glob("*.db")) == []


def test_a_policy_may_be_attached_before_the_tracking_uri_is_set(uri: str) -> None:
    policy = load_policy()
    attach(policy)
    mlflow.set_tracking_uri(uri)
    with mlflow.start_run() as run:
        log(LOSSES)
    assert short(assert_same(mlflow.MlflowClient(), policy, run.info.run_id, rows_of(LOSSES))) == CHANGES


def test_a_policy_attached_after_the_first_points_sees_the_later_ones(client: Any) -> None:
    with mlflow.start_run() as run:
        log([9.0, 9.0, 9.0])
        attach(load_policy())
        log(LOSSES, first=3)
    changes = [(rule, step + 3, before, after) for rule, step, before, after in CHANGES]
    assert short(recorded(client, run.info.run_id)) == changes


@pytest.mark.parametrize("way", ["begun after", "begun before", "a client's own", "taken up again"])
def test_a_run_goes_by_its_name_wherever_a_person_names_it(client: Any, folder: Path, way: str) -> None:
    policy = load_policy()
    home = folder / "home"
    if way == "begun before":
        mlflow.start_run(run_name="small-lm")
    attach(policy)
    if way == "a client's own":
        run_id = client.create_run("0", tags={"mlflow.runName": "small-lm"}).info.run_id
        for step, loss in enumerate(LOSSES):
            client.log_metric(run_id, "train/loss", loss, step=step)
        client.set_terminated(run_id)
    else:
        if way == "begun after":
            mlflow.start_run(run_name="small-lm")
        elif way == "taken up again":
            fresh = mlflow.MlflowClient(tracking_uri=mlflow.get_tracking_uri())
            mlflow.start_run(run_id=fresh.create_run("0", run_name="small-lm").info.run_id)
        run_id = mlflow.active_run().info.run_id
        log(LOSSES)
        mlflow.end_run()
    assert {path.parent.name for path in journals_of("small-lm", home)} == {run_id}
    silenced = CliRunner().invoke(program, ["silence", "small-lm", "*", "--because", "known", "--home", str(home)])
    assert (silenced.exit_code, silenced.output) == (0, f"* is silenced in {run_id}\n")


def test_a_client_of_another_store_that_was_made_before_is_watched_too(
    client: Any, folder: Path, template: Path
) -> None:
    (folder / "other.db").write_bytes(template.read_bytes())
    other = mlflow.MlflowClient(tracking_uri=f"sqlite:///{folder / 'other.db'}")
    run = other.create_run("0").info.run_id
    attach(load_policy())
    for step, loss in enumerate(LOSSES):
        other.log_metric(run, "train/loss", loss, step=step)
    other.set_terminated(run)
    assert short(recorded(other, run)) == CHANGES


def test_attaching_the_same_policy_twice_is_once(client: Any) -> None:
    policy = load_policy()
    assert attach(policy) is attach(load_policy())
    with mlflow.start_run() as run:
        log(LOSSES)
    assert short(assert_same(client, policy, run.info.run_id, rows_of(LOSSES))) == CHANGES
    alerts = recorded(client, run.info.run_id, "vitals/alerts.jsonl")
    assert [alert["level"] for alert in alerts] == ["orange", "red", "green"]


def test_a_policy_with_an_error_is_refused(client: Any) -> None:
    with pytest.raises(PolicyError, match="los"):
        attach(load_policy('vitals 1\nmetric loss = "loss"\nwhen mean(loss, 5 -> red\n'))
    mlflow.MlflowClient().search_experiments()
    assert originals(client._tracking_client.store)


def test_detaching_gives_mlflow_its_methods_back(client: Any) -> None:
    registry = sys.modules["mlflow.tracking._tracking_service.registry"].TrackingStoreRegistry
    before = registry.get_store
    attachment = attach(load_policy())
    with mlflow.start_run() as run:
        log(LOSSES[:5])
        store = client._tracking_client.store
        assert not originals(store)
        attachment.detach()
        assert originals(store) and not is_instrumented(store)
        assert registry.get_store is before
        log(LOSSES[5:], first=5)
    assert short(recorded(client, run.info.run_id)) == CHANGES[:1]


def test_detaching_one_policy_leaves_the_other(client: Any) -> None:
    first = attach(load_policy('vitals 1\nmetric other = "other"\nwhen other > 1 -> red\n'))
    policy = load_policy()
    attach(policy)
    with mlflow.start_run() as run:
        first.detach()
        log(LOSSES)
    assert short(assert_same(client, policy, run.info.run_id, rows_of(LOSSES))) == CHANGES


def test_detaching_leaves_what_others_wrapped(client: Any) -> None:
    store = client._tracking_client.store
    theirs, calls = store.log_metric, []
    store.log_metric = lambda *a, **k: (calls.append("below"), theirs(*a, **k))[1]
    below = store.log_metric
    attachment = attach(load_policy())
    assert client._tracking_client.store.log_metric is not below
    attachment.detach()
    assert store.log_metric is below
    attachment = attach(load_policy())
    tapped = client._tracking_client.store.log_metric
    store.log_metric = lambda *a, **k: (calls.append("above"), tapped(*a, **k))[1]
    attachment.detach()
    with mlflow.start_run():
        mlflow.log_metric("train/loss", 1.0, step=0)
    assert calls == ["above", "below"]
    del store.log_metric


def test_a_run_that_is_resumed_in_this_process_goes_on_where_its_rules_were(client: Any) -> None:
    policy = load_policy()
    attach(policy)
    with mlflow.start_run() as run:
        log(LOSSES[:5])
    assert short(recorded(client, run.info.run_id)) == CHANGES[:1]
    with mlflow.start_run(run_id=run.info.run_id):
        log(LOSSES[5:], first=5)
    assert short(assert_same(client, policy, run.info.run_id, rows_of(LOSSES))) == CHANGES


def test_a_run_that_is_resumed_further_back_is_an_attempt_of_its_own(client: Any) -> None:
    attach(load_policy())
    with mlflow.start_run() as run:
        log(LOSSES[:6])
    with mlflow.start_run(run_id=run.info.run_id):
        mlflow.log_metric("system/cpu", 1.0, step=1)
        mlflow.log_metric("test/accuracy", 0.9)
        log(LOSSES[2:6], first=2)
    assert [(t["attempt"], t["step"], t["to"]) for t in recorded(client, run.info.run_id)] == [
        (0, 3, "orange"), (1, 1, "green"), (1, 3, "orange"),
    ]  # fmt: skip
    alerts = recorded(client, run.info.run_id, "vitals/alerts.jsonl")
    assert [alert["level"] for alert in alerts] == ["orange", "green", "orange"]


def test_a_training_that_goes_back_in_this_process_is_judged_as_it_is_read_back(client: Any) -> None:
    """As a rollback does: 20 good steps, 10 bad ones, back to step 12, bad ones again, and good ones to the end."""
    policy = load_policy()
    attach(policy)
    losses = [*[1.0] * 20, *[5.0] * 10], [*[1.0] * 8, *[5.0] * 5, *[1.0] * 10]
    with mlflow.start_run() as run:
        log(losses[0], first=1)
        log(losses[1], first=13)
        mlflow.log_metric("train/loss", 1.0, step=34)  # two writers a little apart: no way back
        mlflow.log_metric("train/loss", 1.0, step=36)
    live = recorded(client, run.info.run_id)
    assert [(t["attempt"], t["step"], t["to"]) for t in live] == [
        (0, 22, "orange"), (0, 25, "red"), (1, 12, "green"), (1, 22, "orange"), (1, 25, "red"), (1, 27, "green"),
    ]  # fmt: skip
    assert live == again(policy, run.info.run_id)


@pytest.mark.parametrize("at_once", [True, False], ids=["one call a step", "one call a metric"])
def test_a_run_is_judged_on_the_axis_of_its_policy(client: Any, at_once: bool) -> None:
    policy = load_policy('axis "global_step"\n' + POLICY.partition("\n")[2].partition("\n")[2])
    attach(policy)
    with mlflow.start_run() as run:
        for at, loss in enumerate(LOSSES):
            values = {"train/loss": loss, "global_step": 100.0 * at}
            if at_once:
                mlflow.log_metrics(values, step=at)
            else:
                for name, value in values.items():
                    mlflow.log_metric(name, value, step=at)
    live = recorded(client, run.info.run_id)
    assert [(t["step"], t["to"]) for t in live] == [(300, "orange"), (400, "red"), (900, "green")]
    (recording,) = read(run.info.run_id, step_key=policy.axis)
    assert live == [t.as_dict() for t in vitals.replay(policy, recording.events, run=run.info.run_id)]


def test_a_last_score_of_a_resumed_run_takes_it_nowhere(client: Any) -> None:
    attach(load_policy())
    with mlflow.start_run() as run:
        log(LOSSES[:6])
    with mlflow.start_run(run_id=run.info.run_id):
        mlflow.log_metric("test/accuracy", 0.9)
        log(LOSSES[6:], first=6)
    assert short(recorded(client, run.info.run_id)) == CHANGES


def test_a_failure_of_ours_is_said_once_and_never_raised(
    client: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    attachment = attach(load_policy())

    def breaks(*_: object) -> None:
        raise LookupError("a mistake of ours")

    monkeypatch.setattr(attachment, "_port", breaks)
    with caplog.at_level(logging.WARNING, "vitalsdsl"), mlflow.start_run() as run:
        log(LOSSES)
    assert sum(r.levelno >= logging.ERROR for r in caplog.records if r.name == "vitalsdsl") == 1
    assert len(client.get_metric_history(run.info.run_id, "train/loss")) == len(LOSSES)


# ---------------------------------------------------------------- in a process of its own


def test_a_script_without_a_line_of_ours_is_watched_by_a_variable(client: Any, uri: str, folder: Path) -> None:
    file = policy_file(folder)
    done = run_script(folder, SCRIPT, uri, "new", 0, *LOSSES, policy=file)
    assert done.returncode == 0, done.stderr
    run = done.stdout.split()[0]
    policy = load_policy()
    assert short(assert_same(client, policy, run, rows_of(LOSSES))) == CHANGES
    assert vitals_tags(client, run)["vitals.digest"] == policy.digest
    assert [line for line in done.stderr.splitlines() if "vitals" in line] == [
        f"vitals: run {run}: step 3: orange: loss_high: loss is 4.50",
        f"vitals: run {run}: step 6: red: loss_high: loss is 5.00",
        f"vitals: run {run}: step 9: green: loss_high: back to green",
    ]
    assert "Traceback" not in done.stderr


def test_a_policy_of_the_variable_that_the_script_attaches_too_is_one(client: Any, uri: str, folder: Path) -> None:
    file = policy_file(folder)
    attaching = (
        "import vitalsdsl_mlflow, vitalsdsl_mlflow.attach\nfrom importlib import import_module\n"
        f"vitalsdsl_mlflow.attach({str(file)!r})\n"
        "print('attached', len(import_module('vitalsdsl_mlflow.attach')._attached))\n"
    )
    done = run_script(folder, attaching, uri, policy=file)
    assert done.stdout.split() == ["attached", "1"], done.stderr


def test_a_script_runs_on_with_a_policy_that_has_errors_and_says_so_in_one_line(
    client: Any, uri: str, folder: Path
) -> None:
    file = policy_file(
        folder, POLICY.replace("loss > 3 for 2", "los > 3 for 2").replace('eval/accuracy" opt', 'a" optt')
    )
    done = run_script(folder, SCRIPT, uri, "new", 0, *LOSSES, policy=file)
    assert done.returncode == 0
    said = [line for line in done.stderr.splitlines() if "vitals" in line]
    assert len(said) == 1 and said[0].startswith("vitals: no policy is attached: ") and "watched.vitals:5:" in said[0]
    run = done.stdout.split()[0]
    assert len(client.get_metric_history(run, "train/loss")) == len(LOSSES)
    assert vitals_tags(client, run) == {}


def test_a_script_runs_on_where_the_policy_is_not_there(uri: str, folder: Path) -> None:
    done = run_script(folder, "import vitalsdsl_mlflow.plugin", uri, policy=folder / "nowhere.vitals")
    assert done.returncode == 0
    said = [line for line in done.stderr.splitlines() if "vitals" in line]
    assert len(said) == 1 and "nowhere.vitals" in said[0]


def test_a_run_that_failed_is_seen_to_its_end_and_the_process_that_resumes_it_keeps_what_is_there(
    client: Any, uri: str, folder: Path
) -> None:
    file = policy_file(folder)
    done = run_script(folder, SCRIPT, uri, "new", 0, *LOSSES[:6], "666", home="first", policy=file)
    assert done.returncode == 1 and "out of memory" in done.stderr
    run = done.stdout.split()[0]
    assert client.get_run(run).info.status == "FAILED"
    before = assert_same(client, load_policy(), run, rows_of([*LOSSES[:6], 666.0]))
    alerts = recorded(client, run, "vitals/alerts.jsonl")
    assert short(before) == CHANGES[:2] and len(alerts) == 2
    assert vitals_tags(client, run)["vitals.rule.loss_high"] == "red@6"

    done = run_script(folder, SCRIPT, uri, run, 7, 5.0, 5.0, 1.0, 1.0, home="second", policy=file)
    assert done.returncode == 0, done.stderr
    after = recorded(client, run)
    assert after[:2] == before and short(after[2:]) == [
        ("loss_high", 8, "green", "orange"), ("loss_high", 10, "orange", "green"),
    ]  # fmt: skip
    assert recorded(client, run, "vitals/alerts.jsonl")[:2] == alerts
    assert vitals_tags(client, run)["vitals.level"] == "green"
    assert not any(name.startswith("vitals.rule.") for name in vitals_tags(client, run))


def test_a_fork_waits_a_moment_for_a_call_of_ours_that_is_under_way() -> None:
    gate = _Gate()
    gate.enter()
    leaving = threading.Timer(0.1, gate.leave)
    began = time.monotonic()
    leaving.start()
    gate.before_fork()
    assert 0.05 < time.monotonic() - began < gate.patience
    entering = threading.Thread(target=gate.enter)
    entering.start()
    entering.join(0.05)
    assert entering.is_alive()
    gate.after_fork()
    entering.join(2)
    assert not entering.is_alive()
    began = time.monotonic()
    gate.before_fork()
    assert gate.patience - 0.05 < time.monotonic() - began < gate.patience + 1


FORKING = """\
import os, sys, time
import mlflow
import vitalsdsl_mlflow
attachment = vitalsdsl_mlflow.attach(sys.argv[1])
losses = [float(loss) for loss in sys.argv[2:]]
with mlflow.start_run() as run:
    for step, loss in enumerate(losses):
        if step == 5:
            child = os.fork()
            if child == 0:
                for point in range(3):
                    mlflow.MlflowClient().log_metric(run.info.run_id, "train/loss", 100.0, step=100 + point)
                os._exit(3 if attachment.monitor(run.info.run_id) is None else 4)
            print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        mlflow.log_metric("train/loss", loss, step=step)
        time.sleep(0.003)
print("run", run.info.run_id)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_watches_nothing_and_the_parent_goes_on(client: Any, uri: str, folder: Path) -> None:
    done = run_script(folder, FORKING, uri, policy_file(folder), *LOSSES)
    assert done.returncode == 0, done.stderr
    said = done.stdout.split()
    assert said[said.index("child") + 1] == "3"
    run = said[said.index("run") + 1]
    assert short(recorded(client, run)) == CHANGES
    assert [m.step for m in client.get_metric_history(run, "train/loss") if m.step >= 100] == [100, 101, 102]
