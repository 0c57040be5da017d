"""`vitals watch` and `vitals run` as programs: what they print, what they exit with, what they leave."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from feeding import ScriptedFeed, ScriptedRun, ScriptedTarget, rows

from vitalsdsl.cli.app import vitals
from vitalsdsl.ground.errors import NotYet, TrackerError
from vitalsdsl.launching import launch
from vitalsdsl.policies.policy import load
from vitalsdsl.watching.feeds import Wanted
from vitalsdsl.watching.watcher import Shows

POLICY = 'policy p\nrule hot { when loss > 3 for 3 steps -> orange because "loss is {loss}" }\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "p.vitals").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("VITALS_HOME", raising=False)
    monkeypatch.delenv("VITALS_CONTROL", raising=False)
    return tmp_path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> ScriptedRun:
    """The run behind every target; `asked` keeps the references and what was wanted of them."""
    scripted = ScriptedRun("a", rows([1.0] * 10 + [4.0] * 5))
    scripted.go_on(over=True)
    scripted.asked = []  # type: ignore[attr-defined]

    def target(reference: str, wanted: Wanted) -> ScriptedTarget:
        scripted.asked.append((reference, wanted))  # type: ignore[attr-defined]
        return ScriptedTarget(scripted)

    monkeypatch.setattr("vitalsdsl.cli.watch.target", target)
    return scripted


def call(*arguments: str) -> Result:
    return CliRunner().invoke(vitals, ["watch", *arguments])


def test_once_reads_acts_and_ends(project: Path, run: ScriptedRun) -> None:
    result = call("--once", "p.vitals", "mlflow:abc")
    assert (result.exit_code, [line[len("2026-11-30 10:57:00  ") :] for line in result.stdout.splitlines()]) == (0, [
        "a  step      12  green -> orange  hot: loss is 4",
        "   does: alert, tag, ask for pause",
        "a  has ended, orange, at step 14",
    ])  # fmt: skip
    assert re.match(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d  a", result.stdout)
    assert run.port.level.word == "orange" and len(run.port.alerts) == 1
    again = call("--once", "p.vitals", "mlflow:abc")
    assert again.stdout == "" and len(run.port.alerts) == 1  # nor that it has ended: once for each store
    run.events += rows([4.0, 4.0], first=15)
    run.go_on()
    assert "ended" not in call("--once", "p.vitals", "mlflow:abc").stdout
    run.go_on(over=True)
    assert "a  has ended, orange, at step 16" in call("--once", "p.vitals", "mlflow:abc").stdout
    assert "a  has ended" in call("--once", "p.vitals", "mlflow:abc", "--home", "another").stdout


def test_once_ends_though_the_run_goes_on_and_on(
    project: Path, run: ScriptedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A point comes with each look; the next call of cron reads on."""
    monkeypatch.setattr("vitalsdsl.watching.watcher.SETTLE", 0.0)
    run.events, run.is_over, run.shown = rows([1.0] * 10_000), False, 5
    read = ScriptedFeed.read

    def logged_meanwhile(self: ScriptedFeed, cursor: Any) -> Any:
        batch = read(self, cursor)
        run.shown += 1
        return batch

    monkeypatch.setattr(ScriptedFeed, "read", logged_meanwhile)
    assert call("--once", "p.vitals", "mlflow:abc").exit_code == 0
    assert run.reads < 20


def test_what_stands_in_red_fails_each_call_and_not_the_first_only(project: Path, run: ScriptedRun) -> None:
    run.is_over = False
    assert [call("--once", "--fail-on", "orange", "p.vitals", "mlflow:abc").exit_code for _ in range(2)] == [3, 3]


def test_what_was_told_before_is_not_told_again(project: Path, run: ScriptedRun) -> None:
    call("--once", "p.vitals", "mlflow:abc")
    (project / ".vitals" / "watch.db").unlink()  # as after a kill before the first bookmark
    assert "hot" not in call("--once", "p.vitals", "mlflow:abc").stdout and len(run.port.alerts) == 1


def test_one_target_that_is_not_there_ends_no_watch_over_others(
    project: Path, run: ScriptedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = ScriptedTarget()
    lost.failures = [TrackerError("no experiment called `nope`", is_final=True)] * 100
    found = ScriptedTarget(run)
    monkeypatch.setattr("vitalsdsl.cli.watch.target", lambda reference, wanted: lost if "nope" in reference else found)
    result = call("--once", "p.vitals", "mlflow:experiments/nope", "mlflow:abc")
    assert "no experiment called `nope`" in result.stderr and "green -> orange" in result.stdout
    assert result.exit_code == 2


def test_json_lines_say_what_was_done(project: Path, run: ScriptedRun) -> None:
    lines = [
        json.loads(line) for line in call("--once", "--format", "jsonl", "p.vitals", "mlflow:abc").stdout.splitlines()
    ]
    assert [(line["step"], line["to"], line["does"]) for line in lines] == [(12, "orange", "alert, tag, ask for pause")]


def test_a_dry_run_says_what_it_would_do_and_leaves_nothing(project: Path, run: ScriptedRun) -> None:
    result = call("--once", "--dry-run", "p.vitals", "mlflow:abc")
    assert "   would do: alert, tag, ask for pause" in result.stdout
    assert run.port.calls == 0
    assert not (project / ".vitals").exists()


def test_a_dry_run_that_has_nothing_to_do_says_what_it_looked_at(project: Path, run: ScriptedRun) -> None:
    (project / "p.vitals").write_text("policy p\nwhen loss > 30 -> red\nwhen loss < 0 -> yellow\n")
    for form in ("text", "jsonl"):
        result = call("--once", "--dry-run", "p.vitals", "mlflow:abc", "--format", form)
        assert result.stderr[21:] == "a dry run: 1 run (a to step 14) by 2 rules of p: no transition\n"
    (project / "p.vitals").write_text(POLICY)
    result = call("--once", "--dry-run", "p.vitals", "mlflow:abc")
    assert result.stderr[21:] == "a dry run: 1 run (a to step 14) by 1 rule of p: 1 transition\n"
    assert call("--once", "p.vitals", "mlflow:abc").stderr == ""  # cron sends what is printed


@pytest.mark.parametrize(("level", "code"), [("yellow", 3), ("orange", 3), ("red", 0)])
def test_a_level_that_is_reached_can_fail_a_cron_job(project: Path, run: ScriptedRun, level: str, code: int) -> None:
    assert call("--once", "--fail-on", level, "p.vitals", "mlflow:abc").exit_code == code


def test_requests_go_to_the_control_folder_where_one_is_named(project: Path, run: ScriptedRun) -> None:
    run.port.can = frozenset()
    assert "   does: nothing: nothing here takes what it asks for" in call("--once", "p.vitals", "mlflow:abc").stdout
    call("--once", "--home", "other", "--control", "control", "p.vitals", "mlflow:abc")
    asked = CliRunner().invoke(vitals, ["requests", "a", "--control", "control"])
    assert asked.stdout.split(maxsplit=1)[1] == "open  pause by hot at step 12: loss is 4\n"
    resumed = CliRunner().invoke(vitals, ["resume", "a", "--control", "control", "--because", "loader mended"])
    assert resumed.exit_code == 0
    asked = CliRunner().invoke(vitals, ["requests", "a", "--control", "control", "--format", "jsonl"])
    assert [json.loads(line)["action"] for line in asked.stdout.splitlines()] == ["pause", "resume"]


def test_the_configuration_says_what_is_watched(project: Path, run: ScriptedRun) -> None:
    (project / "vitals.toml").write_text(
        'home = "kept"\n[[policies]]\ntarget = "mlflow:experiments/llm-*"\npolicy = "p.vitals"\n'
        'tags = { team = "nlp", baseline = true }\n'
    )
    (project / "below").mkdir()
    os.chdir(project / "below")
    assert "green -> orange" in call("--once").stdout
    ((reference, wanted),) = run.asked  # type: ignore[attr-defined]
    assert reference == "mlflow:experiments/llm-*" and wanted.tags == {"team": "nlp", "baseline": None}
    assert (project / "kept" / "watch.db").exists()


WRONG: dict[str, tuple[list[str], str]] = {
    "no target": (["p.vitals"], "no target given"),
    "nothing at all": ([], "no target given"),
    "no such policy": (["q.vitals", "mlflow:abc"], "q.vitals"),
    "a level that is none": (["--fail-on", "purple", "p.vitals", "mlflow:abc"], "purple"),
    "a param without a policy": (["--set", "k=9"], "--tag, --set and --profile go with a POLICY"),
    "a tag without a policy": (["--tag", "team=nlp"], "go with a POLICY"),
    "a tag without a name": (["--tag", "=x", "p.vitals", "mlflow:abc"], "write it as name=value"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage_is_one_clear_message(project: Path, run: ScriptedRun, case: str) -> None:
    arguments, said = WRONG[case]
    result = call("--once", *arguments)
    assert result.exit_code == 2 and said in result.output and "Traceback" not in result.output


def test_a_target_that_nothing_reads_is_said(project: Path) -> None:
    result = call("--once", "p.vitals", "sacred:abc")
    assert result.exit_code == 2 and "nothing here watches `sacred:abc`" in result.output


def test_a_tracker_that_refuses_is_one_message(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = ScriptedTarget()
    target.failures = [TrackerError("the key is refused: see WANDB_API_KEY", is_final=True)]
    monkeypatch.setattr("vitalsdsl.cli.watch.target", lambda reference, wanted: target)
    result = call("--once", "p.vitals", "wandb:a/b")
    assert (result.exit_code, result.output) == (2, "error: the key is refused: see WANDB_API_KEY\n")


def test_no_runs_is_said(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitalsdsl.cli.watch.target", lambda reference, wanted: ScriptedTarget())
    assert "no runs found in wandb:a/b" in call("--once", "p.vitals", "wandb:a/b").stderr
    (project / "vitals.toml").write_text('[[policies]]\ntarget = "wandb:a/c"\npolicy = "p.vitals"\n')
    assert "no runs found in wandb:a/c" in call("--once").stderr


def test_channels_without_their_package_are_said_before_anything_is_watched(
    project: Path, run: ScriptedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "vitals.toml").write_text('[channels.team]\nurl = "env:TEAM"\n')
    (project / "p.vitals").write_text('rule hot { when loss > 3 -> orange do alert, notify("team") }\n')
    monkeypatch.setattr("vitalsdsl.channels.entry_points", lambda group: [])
    (project / "p.vitals").write_text(POLICY.replace("-> orange", '-> orange do notify("team")'))
    result = call("--once", "p.vitals", "mlflow:abc")
    assert result.exit_code == 2 and "pip install 'vitalsdsl[notify]'" in result.output and not run.port.alerts


# -------------------------------------------------------------------- vitals run


def start(project: Path, *command: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "vitalsdsl", "run", "p.vitals", "--", *command],
        cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more,
    )  # fmt: skip


def test_a_command_runs_with_the_policy_in_its_environment_and_its_own_exit_code(project: Path) -> None:
    code = "import os, sys; print(os.environ['VITALS_POLICY']); print(sys.argv[1:]); sys.exit(7)"
    child = start(project, sys.executable, "-c", code, "--flag", "x y")
    out, err = child.communicate(timeout=120)
    assert child.returncode == 7
    assert "no run of MLflow or W&B was logged: the policy watched nothing" in err
    assert out.splitlines() == [str(project / "p.vitals"), "['--flag', 'x y']"]


def test_a_package_that_is_broken_keeps_no_training_from_starting(
    project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = EntryPoint("sacred", "no_such_package.launching", "vitalsdsl.launchers")
    monkeypatch.setattr("vitalsdsl.launching.entry_points", lambda group: [broken])
    code = launch(
        load("p.vitals"), "p.vitals", [sys.executable, "-c", "raise SystemExit(7)"], project / "home", Shows()
    )
    assert code == 7
    assert [r.getMessage() for r in caplog.records] == [
        "vitals: what is logged to sacred is not watched: No module named 'no_such_package'"
    ]


def test_a_home_that_cannot_be_used_keeps_no_training_from_running_to_its_end(project: Path) -> None:
    (project / "wandb").mkdir()
    (project / "home").touch()
    code = "print('done'); raise SystemExit(7)"
    child = subprocess.run(
        [sys.executable, "-m", "vitalsdsl", "run", "--home", "home", "p.vitals", "--", sys.executable, "-c", code],
        cwd=project, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (child.returncode, child.stdout) == (7, "done\n")
    assert "runs are not watched from outside" in child.stderr and "Traceback" not in child.stderr


def test_the_scripts_own_sitecustomize_still_runs(project: Path) -> None:
    (project / "site").mkdir()
    (project / "site" / "sitecustomize.py").write_text("print('theirs')\n")
    child = start(project, sys.executable, "-c", "print('script')", env={**os.environ, "PYTHONPATH": os.pathsep.join(
        [str(project / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])})  # fmt: skip
    out, _ = child.communicate(timeout=120)
    assert out.splitlines()[-2:] == ["theirs", "script"]


def test_a_signal_is_passed_on(project: Path) -> None:
    code = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\nprint('up', flush=True)\ntime.sleep(60)"
    child = start(project, sys.executable, "-c", code)
    assert child.stdout is not None and child.stdout.readline() == "up\n"
    child.send_signal(signal.SIGTERM)
    began = time.monotonic()
    assert child.wait(60) == 5
    assert time.monotonic() - began < 45


def test_a_signal_that_comes_before_the_training_is_up_is_passed_on_to_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would end `vitals run` alone and leave the training behind, unwatched and unknown to the scheduler."""
    begin, before = subprocess.Popen, signal.getsignal(signal.SIGTERM)

    def slow(*words: Any, **options: Any) -> subprocess.Popen[bytes]:
        signal.raise_signal(signal.SIGTERM)
        return begin(*words, **options)

    monkeypatch.setattr("vitalsdsl.launching.subprocess.Popen", slow)
    code = "import time; time.sleep(60)"
    assert launch(load("p.vitals"), "p.vitals", [sys.executable, "-c", code], project / "home", Shows()) == 128 + 15
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(("command", "said"), [(["no-such-program"], "cannot be started"), ([], "no command given")])
def test_a_command_that_cannot_be_run_is_said(project: Path, command: list[str], said: str) -> None:
    child = start(project, *command)
    _, err = child.communicate(timeout=120)
    assert child.returncode == 2 and (said in err or "Missing argument" in err) and "Traceback" not in err


def test_a_command_that_is_killed_gives_the_shells_code(project: Path) -> None:
    child = start(project, sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    child.communicate(timeout=120)
    assert child.returncode == 137


def test_a_dry_run_knows_the_channels_and_needs_no_secret(project: Path, run: ScriptedRun) -> None:
    (project / "vitals.toml").write_text('[channels.team]\nurl = "env:NOT_SET_HERE"\n')
    policy = (project / "p.vitals").read_text()
    (project / "n.vitals").write_text(policy.replace("-> orange", '-> orange do notify("team")', 1))
    result = call("--once", "--dry-run", "n.vitals", "mlflow:abc")
    assert 'notify("team")' in result.stdout and "not notify" not in result.stdout, result.output


def test_an_experiment_that_may_come_is_waited_for(
    project: Path, run: ScriptedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    coming = ScriptedTarget(run)
    coming.failures = [NotYet("there is no experiment called `llm`")]
    coming.is_open = False
    monkeypatch.setattr("vitalsdsl.cli.watch.target", lambda reference, wanted: coming)
    monkeypatch.setattr("vitalsdsl.watching.troubles.FIRST_PAUSE", 0.01)
    result = call("p.vitals", "mlflow:experiments/llm")
    assert "there is no experiment called `llm`; trying again" in result.output and "green -> orange" in result.stdout
    coming.failures = [NotYet("there is no experiment called `llm`")] * 100
    assert call("--once", "p.vitals", "mlflow:experiments/llm").exit_code == 2
