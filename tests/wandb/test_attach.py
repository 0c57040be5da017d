"""What attaching does to a run: tags, alerts, the policy, the end, and what happens when any of it fails."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

if "CI" not in os.environ:
    pytest.importorskip("wandb")

import vitalsdsl_wandb
import wandb
from vitalsdsl_wandb import tap
from vitalsdsl_wandb.port import WandbPort
from vitalsdsl_wandb.references import read
from vitalsdsl_wandb.rows import Rows

import vitalsdsl as vitals
from tests.wandb.conftest import Seen, attach_module
from tests.wandb.transaction_log import config, history, of_kind, summary, transaction_log
from vitalsdsl.acting.journal import journals_of

TEXT = "when loss > 3 for 2 steps -> orange do alert, tag"
POLICY = vitals.load("spikes", text=TEXT)


def train(folder: Path, losses: tuple[float, ...] = (1, 5, 5, 5)) -> wandb.Run:
    with wandb.init(project="p", tags=["mine"], config={"lr": 1}) as run:
        for loss in losses:
            wandb.log({"loss": loss})
    return run


def test_a_run_that_goes_orange_carries_tag_alert_policy_and_transitions(offline: Path) -> None:
    vitalsdsl_wandb.attach(POLICY)
    run = train(offline)
    log = transaction_log(offline, run.id)
    assert sorted(of_kind(log, "run")[-1].tags) == ["mine", "vitals:orange"]
    (alert,) = of_kind(log, "alert")
    assert alert.level == "WARN" and "loss_orange" in alert.title + alert.text and len(alert.title) < 64
    assert config(log)["vitals"] == {"digest": POLICY.digest, "policy": "spikes", "git": ""}
    assert config(log)["lr"] == 1
    shown = summary(log)
    assert shown["vitals.level"] == "orange" and shown["vitals.rules"] == "loss_orange orange@2"
    (path,) = offline.rglob("files/vitals/transitions.jsonl")
    assert [json.loads(line)["to"] for line in path.read_text().splitlines()] == ["orange"]
    assert any(f.path == "vitals/transitions.jsonl" for files in of_kind(log, "files") for f in files.files)


def test_a_run_goes_by_its_name_wherever_a_person_names_it(offline: Path) -> None:
    vitalsdsl_wandb.attach(POLICY)
    with wandb.init(project="p", name="small-lm") as run:
        for loss in (1, 5, 5, 5):
            wandb.log({"loss": loss})
    assert [path.parent.name for path in journals_of("small-lm")] == [run.id]
    transaction_log(offline, run.id)  # it is on the disk
    [recording] = read(str(offline / "wandb"), step_key=None)
    assert (recording.info.name, recording.info.title) == (run.id, "small-lm")


def test_two_policies_on_one_run_lose_nothing_of_each_other(offline: Path) -> None:
    other = vitals.load("other", text="when loss > 4 -> yellow do alert, tag")
    vitalsdsl_wandb.attach(POLICY)
    vitalsdsl_wandb.attach(other)
    run = train(offline)
    log = transaction_log(offline, run.id)
    assert sorted(of_kind(log, "run")[-1].tags) == ["mine", "vitals:orange"]
    assert sorted(summary(log)["vitals.rules"].split(", ")) == ["loss_orange orange@2", "loss_yellow yellow@1"]
    assert len(of_kind(log, "alert")) == 2
    assert sorted(config(log)["vitals"]["policy"].split(", ")) == ["other", "spikes"]
    assert {a.name for a in of_kind(log, "artifact")} >= {"other", "spikes"}
    (path,) = offline.rglob("files/vitals/transitions.jsonl")
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize("way", ["config", "attach"])
def test_progress_goes_by_the_runs_config_or_by_what_attach_was_told(offline: Path, way: str) -> None:
    policy = vitals.load("late", text="when loss > 3 and progress >= 50% -> orange do alert, tag")
    vitalsdsl_wandb.attach(policy, **({"total_steps": 10} if way == "attach" else {}))
    with wandb.init(project="p", config={"max_steps": 10 if way == "config" else 999}) as run:
        for _ in range(8):
            run.log({"loss": 5})
    (path,) = offline.rglob("files/vitals/transitions.jsonl")
    live = [json.loads(line) for line in path.read_text().splitlines()]
    rows = [{"step": step, "loss": 5.0} for step in range(8)]
    assert live == [t.as_dict() for t in vitals.replay(policy, rows, run=run.id, total_steps=10)] != []


def test_an_alert_says_where_the_run_is_to_be_seen(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = "https://host/entity/p/runs/again"
    monkeypatch.setattr(wandb.Run, "offline", property(lambda run: False))
    monkeypatch.setattr(wandb.Run, "url", property(lambda run: where))
    vitalsdsl_wandb.attach(POLICY)
    run = train(offline)
    (alert,) = of_kind(transaction_log(offline, run.id), "alert")
    assert where in alert.text


def test_the_policys_text_is_kept_as_an_artifact(offline: Path) -> None:
    vitalsdsl_wandb.attach(POLICY)
    run = train(offline)
    requests = of_kind(transaction_log(offline, run.id), "artifact")
    (artifact,) = [a for a in requests if a.type == "vitals-policy"]
    assert artifact.name == "spikes" and json.loads(artifact.metadata)["digest"] == POLICY.digest
    (entry,) = artifact.manifest.contents
    assert entry.path == "spikes.vitals" and Path(entry.local_path).read_text() == TEXT
    (copy,) = offline.rglob("files/vitals/policy/*")
    assert copy.name == "spikes.vitals" and copy.read_text() == TEXT


def test_when_the_rule_clears_the_tag_goes_back_to_green(offline: Path) -> None:
    vitalsdsl_wandb.attach(POLICY)
    run = train(offline, (1, 5, 5, 1, 1, 1))
    log = transaction_log(offline, run.id)
    assert sorted(of_kind(log, "run")[-1].tags) == ["mine", "vitals:green"]
    assert summary(log)["vitals.rules"] == ""


def test_a_transition_in_the_last_open_row_still_gets_into_the_run(offline: Path) -> None:
    vitalsdsl_wandb.attach(POLICY)
    run = wandb.init(project="p")
    for step in (10, 20):
        run.log({"loss": 5}, step=step)
    run.finish()
    assert "vitals:orange" in of_kind(transaction_log(offline, run.id), "run")[-1].tags


def test_the_same_policy_twice_is_attached_once(offline: Path, seen: Seen) -> None:
    assert vitalsdsl_wandb.attach(POLICY) is vitalsdsl_wandb.attach(POLICY)
    run = train(offline)
    assert len(seen[run.id]) == 4
    assert len(of_kind(transaction_log(offline, run.id), "alert")) == 1


def test_detached_wandb_is_as_it_was(offline: Path, seen: Seen) -> None:
    methods = (wandb.Run.log, wandb.Run.define_metric, wandb.Run.finish, wandb.Run.__exit__)
    run = wandb.init(project="p")
    attachment = vitalsdsl_wandb.attach(POLICY)
    wandb.log({"loss": 1})
    attachment.detach()
    assert (wandb.Run.log, wandb.Run.define_metric, wandb.Run.finish, wandb.Run.__exit__) == methods
    wandb.log({"loss": 2})
    run.finish()
    assert len(seen[run.id]) == 1 and len(history(transaction_log(offline, run.id))) == 2


def test_somebody_elses_wrapping_over_ours_outlives_detach(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attachment = vitalsdsl_wandb.attach(POLICY)
    ours = wandb.Run.log
    theirs: Callable[..., None] = lambda self, *args, **kwargs: ours(self, *args, **kwargs)  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(wandb.Run, "log", theirs)
        attachment.detach()
        assert wandb.Run.log is theirs
    vitalsdsl_wandb.attach(POLICY).detach()
    assert not hasattr(wandb.Run.log, "_vitals_original")


def test_a_disabled_run_is_left_alone(offline: Path, seen: Seen) -> None:
    vitalsdsl_wandb.attach(POLICY)
    with wandb.init(project="p", mode="disabled") as run:
        for _ in range(4):
            run.log({"loss": 5})
    assert seen == {} and not (offline / "vitals").exists()


def test_logging_after_the_end_is_wandbs_own_error(offline: Path, seen: Seen) -> None:
    vitalsdsl_wandb.attach(POLICY)
    run = train(offline)
    with pytest.raises(wandb.errors.UsageError):
        run.log({"loss": 9})
    assert len(seen[run.id]) == 4


def test_wandbs_errors_about_a_call_pass_through(offline: Path, seen: Seen) -> None:
    vitalsdsl_wandb.attach(POLICY)
    with wandb.init(project="p") as run, pytest.raises(TypeError):
        run.log({1: 2})
    assert seen == {}


def test_that_alerts_wait_for_wandb_sync_is_said_once(offline: Path, caplog: pytest.LogCaptureFixture) -> None:
    vitalsdsl_wandb.attach(POLICY)
    train(offline)
    train(offline)
    assert caplog.text.count("sent at `wandb sync`") == 1


def test_the_steps_of_a_trainer_are_the_steps_of_the_rules(offline: Path) -> None:
    attachment = vitalsdsl_wandb.attach(vitals.load("spikes", text="when loss > 3 for 200 steps -> orange"))
    with wandb.init(project="p") as run:
        for at in (100, 200, 300, 400):
            run.log({"train/loss": 1, "train/global_step": at})
            run.log({"loss": 5, "train/global_step": at})
        monitor = attachment.monitor(run.id)
        assert monitor is not None and monitor.level.word == "orange"


def test_a_rule_that_breaks_leaves_training_alone(
    offline: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("bad row")

    monkeypatch.setattr(attach_module.Rows, "log", broken)
    vitalsdsl_wandb.attach(POLICY)
    run = train(offline)
    assert len(history(transaction_log(offline, run.id))) == 4
    assert caplog.text.count("training goes on") == 1


def test_a_run_that_cannot_be_watched_is_tried_once(
    offline: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries = []

    def port(*arguments: object) -> None:
        tries.append(arguments)
        raise LookupError("a mistake of ours")

    monkeypatch.setattr(attach_module.WandbAttachment, "_port", port)
    vitalsdsl_wandb.attach(POLICY)
    run = train(offline)
    assert len(history(transaction_log(offline, run.id))) == 4
    assert len(tries) == caplog.text.count("training goes on") == 1


def test_a_port_that_hangs_holds_up_neither_training_nor_for_long_the_end(
    offline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    monkeypatch.setattr(WandbPort, "tag_level", lambda *_: release.wait(60))
    monkeypatch.setattr(attach_module, "AT_FINISH", 0.5)
    vitalsdsl_wandb.attach(POLICY)
    began = time.monotonic()
    run = train(offline)
    release.set()
    assert time.monotonic() - began < 20
    assert len(history(transaction_log(offline, run.id))) == 4


@pytest.mark.parametrize("home", ["a file", "/dev/full"])
def test_a_journal_that_cannot_be_written_stops_nothing(
    offline: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    (offline / "a file").write_text("not a folder")
    monkeypatch.setenv("VITALS_HOME", str(offline / home))
    vitalsdsl_wandb.attach(POLICY)
    run = train(offline)
    assert "vitals:orange" in of_kind(transaction_log(offline, run.id), "run")[-1].tags


def test_a_run_that_is_taken_up_again_in_the_same_process_is_watched_again(offline: Path, seen: Seen) -> None:
    attachment = vitalsdsl_wandb.attach(POLICY)
    for _ in range(2):
        with wandb.init(project="p", id="again") as run:
            run.log({"loss": 1})
            assert attachment.monitor("again") is not None
    assert len(seen["again"]) == 2


SCRIPT = textwrap.dedent("""
    import sys
    import wandb
    import vitalsdsl_wandb

    {attach_first}
    wandb.init(project="p", id="script", tags=["mine"])
    {attach_last}
    for step, loss in enumerate([2.0, 1.5, 4.0, 6.0, 9.0]):
        wandb.log({{"loss": loss}}, step=step)
""")


@pytest.mark.parametrize("when", ["attach_first", "attach_last"])
def test_a_plain_script_without_finish_leaves_all_of_it_in_the_file(offline: Path, when: str) -> None:
    (offline / "llm.vitals").write_text("when loss > 5 for 2 steps -> orange do alert, tag\n")
    lines = {"attach_first": "", "attach_last": "", when: 'vitalsdsl_wandb.attach("llm.vitals")'}
    path = os.pathsep.join(str(Path(p).resolve()) if not Path(p).is_absolute() else p for p in sys.path if p)
    root = os.pathsep.join(str(Path(m.__file__).parent.parent) for m in (vitals, vitalsdsl_wandb) if m.__file__)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, path])}
    code = SCRIPT.format(**lines)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=offline, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    log = transaction_log(offline, "script")
    # Only the last row, which the end commits, makes the rule fire.
    assert sorted(of_kind(log, "run")[-1].tags) == ["mine", "vitals:orange"]
    assert len(of_kind(log, "alert")) == 1
    assert len(config(log)["vitals"]["digest"]) >= 12
    assert of_kind(log, "exit")[0].exit_code == 0


class Discard:
    def __call__(self, values: dict[str, float], step: int) -> None:
        pass


class OnlyRows:
    """The tap without rules."""

    def __init__(self) -> None:
        self.rows = Rows("run", Discard())

    def logged(self, run: Any, before: int, data: Any, step: int | None, commit: bool | None) -> None:
        self.rows.log(data, step, commit)

    def defined(self, run: Any, pattern: str, step_metric: Any, step_sync: bool | None) -> None:
        self.rows.define(pattern, step_metric, step_sync)

    def ending(self, run: Any) -> None:
        self.rows.finish()


@pytest.mark.parametrize("scalars", [1, 10, 100])
def test_the_taps_own_cost_is_small(offline: Path, scalars: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Plain calls, calls through the tap and calls that a rule watches take turns in one process; its CPU time."""
    row = {f"m{i}": i / 7 for i in range(scalars)}
    plain = wandb.Run.log
    attachment = vitalsdsl_wandb.attach(vitals.load("one", text="when m0 > 3 for 2 steps -> orange"))
    ways = {"plain": (plain, attachment), "tap": (wandb.Run.log, OnlyRows()), "rule": (wandb.Run.log, attachment)}
    times: dict[str, list[float]] = {name: [] for name in ways}
    with wandb.init(project="p") as run:
        for _ in range(600):
            for name, (log, sink) in ways.items():
                tap._sinks[:] = [sink]
                began = time.thread_time()
                log(run, row)
                times[name].append(time.thread_time() - began)
        tap._sinks[:] = [attachment]
    typical = {name: statistics.quantiles(values[100:], n=4)[0] * 1e6 for name, values in times.items()}
    with capsys.disabled():
        shown = ", ".join(f"{name} {value:.1f}" for name, value in typical.items())
        print(f"\nµs of a call with {scalars} scalars: {shown}")
    # The target is 10 µs + 0.5 µs a scalar; a busy machine gets four times that.
    assert typical["tap"] - typical["plain"] < 4 * (10 + 0.5 * scalars)
