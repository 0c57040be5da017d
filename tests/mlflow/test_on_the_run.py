"""What is found on a run of MLflow: tags, alerts, the policy, the transitions; whatever they are called."""

from __future__ import annotations

import json
import logging
import os
import posixpath
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import mlflow
import pytest
from vitalsdsl_mlflow import attach
from vitalsdsl_mlflow.names import MAX_TAG, tag_name
from vitalsdsl_mlflow.port import MlflowPort
from vitalsdsl_mlflow.quiet import quiet
from vitalsdsl_mlflow.rows import LoggedPoint

from tests.mlflow.runs import (
    BEGAN,
    CHANGES,
    LOSSES,
    POLICY,
    again,
    load_policy,
    policy_file,
    recorded,
    short,
    vitals_tags,
)  # fmt: skip
from vitalsdsl.acting.tracker import Alert
from vitalsdsl.language.rules import Level
from vitalsdsl.verdicts.verdict import Transition


def log(client: Any, run: str, losses: list[float], first: int = 0) -> None:
    for step, loss in enumerate(losses, start=first):
        client.log_metric(run, "train/loss", loss, timestamp=BEGAN + step, step=step)


def change(step: int, to: Level = Level.ORANGE) -> Transition:
    return Transition("run", 0, "loss_high", None, step, step, Level.GREEN, to, "condition", "a\u2028b")


def port(client: Any, run: str) -> MlflowPort:
    return MlflowPort(client, run)


def test_a_run_in_trouble_has_everything_on_it(client: Any, folder: Path) -> None:
    file = policy_file(folder)
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "a"]):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    attach(file)
    run = client.create_run("0").info.run_id
    log(client, run, LOSSES[:8])
    client.set_terminated(run)
    tags = vitals_tags(client, run)
    assert tags["vitals.level"] == "red"
    assert tags["vitals.rule.loss_high"] == "red@6"
    assert tags["vitals.policy"] == "watched"
    assert tags["vitals.digest"] == load_policy().digest
    assert re.fullmatch(r"[0-9a-f]{40}", tags["vitals.git"])
    assert "loss_high" in tags["vitals.alert"] and "loss is 5.00" in tags["vitals.alert"]
    copy = client.download_artifacts(run, "vitals/policy/watched.vitals")
    assert Path(copy).read_text("utf-8") == POLICY
    assert short(recorded(client, run)) == CHANGES[:2]
    alerts = recorded(client, run, "vitals/alerts.jsonl")
    assert [alert["level"] for alert in alerts] == ["orange", "red"]
    assert all(set(alert) == {"id", "at", "level", "title", "text"} for alert in alerts)


def test_two_policies_on_one_run_lose_nothing_of_each_other(client: Any, folder: Path) -> None:
    other = "policy other\nwhen train/loss > 3.5 -> yellow do alert, tag\n"
    (folder / "there").mkdir()
    for file in (policy_file(folder), policy_file(folder / "there", other)):
        attach(file)
    run = client.create_run("0").info.run_id
    log(client, run, LOSSES[:8])
    client.set_terminated(run)
    tags = vitals_tags(client, run)
    assert tags["vitals.level"] == "red"
    assert tags["vitals.rule.loss_high"] == "red@6"
    assert tags["vitals.rule.train_loss_yellow"] == "yellow@2"
    assert sorted(tags["vitals.policy"].split(", ")) == ["other", "watched"]
    assert {t["policy"] for t in recorded(client, run)} == {"other", "watched"}
    assert len(recorded(client, run)) == len(recorded(client, run, "vitals/alerts.jsonl")) == 3
    kept = [Path(client.download_artifacts(run, f.path)) for f in client.list_artifacts(run, "vitals/policy")]
    assert sorted(path.read_text("utf-8") for path in kept) == sorted([other, POLICY])


def test_a_run_that_recovers_loses_its_rule_tags(client: Any) -> None:
    attach(load_policy())
    run = client.create_run("0").info.run_id
    log(client, run, LOSSES)
    client.set_terminated(run)
    tags = vitals_tags(client, run)
    assert tags["vitals.level"] == "green"
    assert not any(name.startswith("vitals.rule.") for name in tags)
    assert tags["vitals.alert"].startswith("green: loss_high is over at step 9: loss_high was red at step 6\n")


def test_calls_of_ours_are_no_points_of_the_run(client: Any) -> None:
    attachment = attach(load_policy())
    run = client.create_run("0").info.run_id
    log(client, run, LOSSES)
    assert set(attachment._runs[run].events.steps.counts) == {"train/loss"}


def test_a_tag_that_somebody_deleted_does_not_keep_the_others(client: Any) -> None:
    run = client.create_run("0").info.run_id
    ours = port(client, run)
    ours.tag_rules({"a": "red@1", "b": "red@1"})
    client.delete_tag(run, "vitals.rule.a")
    ours.tag_rules({})
    assert vitals_tags(client, run) == {}


def test_rule_tags_of_an_earlier_process_go_when_their_rules_are_quiet(client: Any) -> None:
    run = client.create_run("0").info.run_id
    port(client, run).tag_rules({"a": "red@1", "b": "red@1"})
    port(client, run).tag_rules({"b": "red@1"})
    assert vitals_tags(client, run) == {"vitals.rule.b": "red@1"}


def test_telling_a_port_twice_does_no_harm(client: Any) -> None:
    run = client.create_run("0").info.run_id
    alert = Alert("an id", "title", "text", Level.RED, change(1))
    for _ in range(2):
        for again_started in (port(client, run), port(client, run)):
            again_started.alert(alert)
            again_started.record([change(1), change(2)])
    assert [line["id"] for line in recorded(client, run, "vitals/alerts.jsonl")] == ["an id"]
    assert [line["step"] for line in recorded(client, run)] == [1, 2]


def test_a_line_that_was_cut_off_is_kept_and_does_not_stop_the_next(client: Any) -> None:
    run = client.create_run("0").info.run_id
    client.log_text(run, '{"id": "cut', "vitals/transitions.jsonl")
    port(client, run).record([change(1)])
    text = Path(client.download_artifacts(run, "vitals/transitions.jsonl")).read_text("utf-8")
    assert text.split("\n")[0] == '{"id": "cut'
    assert json.loads(text.split("\n")[1])["message"] == "a\u2028b"


def test_a_long_message_is_cut_in_the_tag_and_whole_in_the_artifact(client: Any) -> None:
    run = client.create_run("0").info.run_id
    text = "é" * (MAX_TAG + 1000)
    ours = port(client, run)
    ours.alert(Alert("id", "title", text, Level.RED, change(1)))
    ours.tag_rules({"a": "x" * (MAX_TAG + 1)})
    ours.tag_rules({"a": "x" * (MAX_TAG + 1)})
    assert vitals_tags(client, run)["vitals.alert"] == f"title: {text}"[:MAX_TAG]
    assert recorded(client, run, "vitals/alerts.jsonl")[0]["text"] == text


HOSTILE = [
    "grad[layer/0]", "a//b", "/a", "a/", "..", "../../etc/passwd", "a/./b", "a@b", "a%b", "a b", " a", "a ", "", ".",
    "a\nb", "a\u2028b", "ünïcödé/名前", "😀", "x" * 300, "x" * 299 + "y", "a" * 200, "a:b", "'; DROP TABLE tags; --", "a_b",
    "nonfinite(loss)", "nonfinite loss", "nonfinite(a b)", "nonfinite( a)", "nonfinite()", "nonfinite(mem (GB))",
    "nonfinite(/a)", "nonfinite(../a)", "nonfinite_loss",
]  # fmt: skip


def test_every_rule_has_a_tag_of_its_own_that_mlflow_takes(client: Any) -> None:
    names = [tag_name(rule) for rule in HOSTILE]
    assert len(set(names)) == len(HOSTILE)
    assert all(len(name) <= 250 and posixpath.normpath(name) == name for name in names)
    assert tag_name("loss_high") == "vitals.rule.loss_high"
    run = client.create_run("0").info.run_id
    port(client, run).tag_rules(dict.fromkeys(HOSTILE, "red@1"))
    assert set(vitals_tags(client, run)) == set(names)
    port(client, run).tag_rules({})
    assert vitals_tags(client, run) == {}


def test_the_tag_of_a_guard_can_be_read_and_that_of_an_earlier_release_goes(client: Any) -> None:
    run = client.create_run("0").info.run_id
    client.set_tag(run, "vitals.rule.nonfinite_loss_-44ccab3b", "orange@1")
    ours = port(client, run)
    ours.tag_rules({"nonfinite(loss)": "orange@1"})
    assert vitals_tags(client, run) == {"vitals.rule.nonfinite loss": "orange@1"}
    ours.tag_rules({})
    assert vitals_tags(client, run) == {}


def test_hostile_metric_names_are_watched_like_others(client: Any) -> None:
    names = ["grad/layer 0.ünï-名.weight", "grad/__class__", "grad/" + "x" * 240]
    policy = load_policy("vitals 1\nrule exploding each layer in grad/* { when layer > 10 -> orange }\n")
    attach(policy)
    run = client.create_run("0").info.run_id
    for step in range(4):
        for at, name in enumerate(names):
            client.log_metric(run, name, 99.0 if step > at else 1.0, timestamp=BEGAN + 10 * step + at, step=step)
    client.set_terminated(run)
    live = recorded(client, run)
    assert [t["step"] for t in live] == [1, 2, 3]
    assert live == again(policy, run)
    assert [name for name in vitals_tags(client, run) if name.startswith("vitals.rule.")] == ["vitals.rule.exploding"]


@pytest.mark.parametrize("name", ["a b.vitals", "ünï.vitals", "%41.vitals", "a'b.vitals"])
def test_a_policy_file_of_any_name_is_kept(client: Any, folder: Path, name: str) -> None:
    attach(policy_file(folder, name=name))
    with mlflow.start_run() as run:
        mlflow.log_metric("train/loss", 1.0, step=0)
    (kept,) = client.list_artifacts(run.info.run_id, "vitals/policy")
    assert Path(client.download_artifacts(run.info.run_id, kept.path)).read_text("utf-8") == POLICY


def test_a_deleted_run_is_given_up_within_the_timeout(client: Any) -> None:
    attachment = attach(load_policy())
    run = client.create_run("0").info.run_id
    log(client, run, LOSSES[:2])
    client.delete_run(run)
    with pytest.raises(mlflow.MlflowException):
        log(client, run, LOSSES[2:3], first=2)
    for step, loss in enumerate(LOSSES):
        attachment.points(run, [LoggedPoint("train/loss", loss, step, 0)], client._tracking_client.store)
    began = time.monotonic()
    attachment._attachment.end(run, timeout=0.5)
    assert time.monotonic() - began < 3


def test_threads_that_leave_mlflow_s_talk_out_leave_it_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    bar, logger = "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", logging.getLogger("mlflow")
    monkeypatch.setenv(bar, "true")
    monkeypatch.setattr(logger, "level", logging.INFO)
    first, second = quiet(), quiet()
    first.__enter__()
    second.__enter__()
    assert (os.environ[bar], logger.level) == ("false", logging.WARNING)
    first.__exit__(None, None, None)
    assert (os.environ[bar], logger.level) == ("false", logging.WARNING)
    second.__exit__(None, None, None)
    assert (os.environ[bar], logger.level) == ("true", logging.INFO)
