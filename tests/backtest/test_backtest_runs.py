"""A policy over many runs: what is counted, in whatever number of processes, stopped and gone on, with bad sources."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from backtest.logs import add_reader, call, csv, jsonl, losses, parsed, policy_file, trainer_state

import vitalsdsl as vitals
from vitalsdsl.backtesting.backtest import backtest
from vitalsdsl.backtesting.judging import PolicyCopy, Task, judge
from vitalsdsl.backtesting.outcome import Change, RunOutcome, Steps
from vitalsdsl.backtesting.pool import batched
from vitalsdsl.language.rules import Level
from vitalsdsl.policies.policy import load
from vitalsdsl.runs.places import Place, places_of


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VITALS_HOME", str(tmp_path / "home"))


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Three formats, two folders, two runs in one file; and what is no log."""
    folder = tmp_path / "logs"
    jsonl(folder / "a.jsonl", losses(100, [(20, 21), (50, 60)]))
    csv(folder / "b.csv", losses(50))
    trainer_state(folder / "c.json", losses(40, [(30, 39)]))
    jsonl(folder / "deep" / "er" / "d.jsonl", losses(30, [(0, 1)]), stride=10)
    one, two = ("".join(f"{s},{v}\n" for s, v in enumerate(losses(60, high))) for high in ([], [(10, 10)]))
    (folder / "deep" / "two.csv").write_text("step,loss\n" + one + two)
    (folder / "model.bin").write_bytes(bytes(range(256)) * 10)
    (folder / ".hidden").mkdir()
    jsonl(folder / ".hidden" / "x.jsonl", losses(9, [(0, 8)]))
    return folder


ALARMS = {
    "logs/a.jsonl": [("yellow", 20), ("green", 22), ("yellow", 50), ("orange", 53), ("green", 61)],
    "logs/b.csv": [],
    "logs/c.json": [("yellow", 30), ("orange", 33)],
    "logs/deep/two.csv": [],
    "logs/deep/two.csv#2": [("yellow", 10), ("green", 11)],
    "logs/deep/er/d.jsonl": [("yellow", 0), ("orange", 10), ("green", 20)],
}
"""What POLICY says of these logs, worked out by hand."""


def changes_of(found: object) -> dict[str, list[tuple[str, int]]]:
    return {run["run"]: [(c["to"], c["step"]) for c in run["changes"]] for run in found["runs"]}  # type: ignore[index]


def test_every_log_in_a_folder_is_judged_and_counted_by_rule(logs: Path) -> None:
    found = parsed(call(policy_file(logs.parent), "logs", "--format", "json", "--jobs", "1"))
    assert changes_of(found) == ALARMS
    assert {run["run"]: run["steps"] for run in found["runs"]} == {
        "logs/a.jsonl": 100, "logs/b.csv": 50, "logs/c.json": 40, "logs/deep/two.csv": 60, "logs/deep/two.csv#2": 60,
        "logs/deep/er/d.jsonl": 30,
    }  # fmt: skip
    high, norm = found["rules"]
    # yellow: 20, 50, 30, 10, 0; the first of each run: 20, 30, 10, 0; in 340 steps.
    assert (high["yellow"], high["orange"], high["red"], high["runs"], high["blind"]) == (5, 3, 0, 4, 0)
    assert (high["first_step"], high["typical_step"]) == (0, 15)
    assert (high["per_1000_steps"], high["per_100000_steps"]) == pytest.approx((5000 / 340, 500_000 / 340))
    assert (norm["rule"], norm["runs"], norm["blind"], norm["first_step"]) == ("norm", 0, 6, None)
    assert (found["runs"][0]["worst"], found["summary"]["steps"], found["summary"]["policy"]) == ("orange", 340, "p")
    [passed_over] = found["unread"]
    assert passed_over["source"] == "logs/model.bin" and not passed_over["named"]


def test_it_says_of_a_run_what_replay_says(logs: Path) -> None:
    policy = policy_file(logs.parent)
    rows = [json.loads(line) for line in (logs / "a.jsonl").read_text().splitlines()]
    replayed = [(t.rule, t.step, t.onset, t.from_, t.to) for t in vitals.replay(policy, rows)]
    [run] = backtest(policy, logs / "a.jsonl").runs
    assert [(c.rule, c.step, c.onset, c.from_, c.to) for c in run.changes] == replayed


def test_a_run_that_goes_back_is_judged_as_replay_judges_it(tmp_path: Path) -> None:
    rows: list[dict[str, float]] = [{"step": s, "loss": v} for s, v in enumerate(losses(30, [(20, 29)]))]
    rows += [{"rewind": 9}, *({"step": s, "loss": 1.0} for s in range(10, 15))]
    (tmp_path / "back.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    policy = policy_file(tmp_path)
    [run] = backtest(policy, "back.jsonl").runs
    assert [(c.step, c.to, c.attempt, c.reason) for c in run.changes] == [
        (t.step, t.to, t.attempt, t.reason) for t in vitals.replay(policy, rows)
    ]
    assert [(c.step, c.to.word) for c in run.changes] == [(20, "yellow"), (23, "orange"), (9, "green")]
    assert len(run.steps) == 35 and run.steps.within(10, 14) == 10


def test_a_run_that_is_too_long_to_be_held_gives_the_same(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"step": s, "loss": v} for s, v in enumerate(losses(30, [(20, 29)]))]
    again = [{"rewind": 9}, *({"step": s, "loss": 5.0} for s in range(10, 15)), {"rewind": 99}, {"step": 15, "loss": 1}]
    (logs / "back.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, *again]))
    policy = policy_file(logs.parent)
    held = backtest(policy, "logs", sweep="k=2,6")
    monkeypatch.setattr("vitalsdsl_files.reader.HELD", 10)
    by_row = backtest(policy, "logs", sweep="k=2,6")
    assert [(run, run.changes, run.steps.strides) for run in by_row.runs] == [
        (run, run.changes, run.steps.strides) for run in held.runs
    ]
    assert by_row.swept == held.swept
    lengths = {run.run: len(run.steps) for run in held.runs}
    assert len(lengths) == 7 and lengths["logs/back.jsonl"] == 30 + 5 + 1


def test_the_number_of_processes_changes_nothing(logs: Path) -> None:
    policy = policy_file(logs.parent)
    one, two = (call(policy, "logs", "--format", "jsonl", "--no-cache", "--jobs", jobs) for jobs in "12")
    assert one.exit_code == 0 and one.stdout == two.stdout
    assert not (logs.parent / "home").exists()


def test_what_was_read_is_taken_up_until_the_file_or_the_policy_changes(logs: Path) -> None:
    policy = policy_file(logs.parent)
    words = (policy, "logs", "--format", "json", "--jobs", "1")
    fresh = parsed(call(*words))
    again = call(*words)
    kept = logs.parent / "home" / "backtests.db"
    assert (
        again.stderr == f"5 of 6 were read before and are as they were: taken from {kept} (--no-cache reads all anew)\n"
    )
    taken = parsed(again)
    assert (taken["summary"].pop("taken"), fresh["summary"].pop("taken")) == (5, 0) and taken == fresh
    jsonl(logs / "a.jsonl", losses(100))
    changed = parsed(call(*words))
    assert changed["summary"]["taken"] == 4 and changes_of(changed) == {**ALARMS, "logs/a.jsonl": []}
    assert parsed(call(*words, "--set", "k=9"))["summary"]["taken"] == 0
    assert parsed(call(*words, "--step", "step"))["summary"]["taken"] == 0


def test_kept_results_that_are_damaged_cost_only_time(logs: Path) -> None:
    words = (policy_file(logs.parent), "logs", "--format", "json", "--jobs", "1")
    kept = logs.parent / "home" / "backtests.db"
    kept.parent.mkdir()
    kept.write_bytes(b"no database at all" * 300)
    assert changes_of(parsed(call(*words))) == ALARMS


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["killed", "by Ctrl-C"])
def test_one_that_was_stopped_goes_on_where_it_was(tmp_path: Path, how: signal.Signals) -> None:
    policy, modules, fifo = policy_file(tmp_path), add_reader(tmp_path / "modules"), tmp_path / "fifo"
    sources = [str(jsonl(tmp_path / f"{name}.jsonl", losses(9, [(3, 3)]))) for name in "abc"] + [f"odd:wait/{fifo}"]
    os.mkfifo(fifo)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(modules), *sys.path])}
    words = [sys.executable, "-m", "vitalsdsl", "backtest", str(policy), *sources, "--format", "json", "--jobs"]
    with (
        subprocess.Popen([*words, "2"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as stopped,
        fifo.open() as waiting,
    ):
        assert waiting.read(1) == "x"  # its turn has come: in another process, all before it are done or at work
        while _kept(tmp_path / "home") < 3:
            os.sched_yield()
        stopped.send_signal(how)
        assert waiting.read() == ""  # the worker is gone with its parent
        said = stopped.communicate()[1].decode()
    if how == signal.SIGINT:
        kept = tmp_path / "home" / "backtests.db"
        assert said == f"stopped; what was done is kept in {kept}: the same command goes on from there\n"
        assert stopped.returncode == 130
    Path(f"{fifo}.go").touch()
    done = subprocess.run([*words, "1"], env=environment, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["summary"]["taken"] == 3
    assert changes_of(found) == {
        **{name: [("yellow", 3), ("green", 4)] for name in sources[:3]},
        f"wait/{fifo}": [("yellow", 0)],
    }


def _kept(home: Path) -> int:
    try:
        with sqlite3.connect(f"file:{home / 'backtests.db'}?mode=ro", uri=True) as db:
            return int(db.execute("SELECT count(*) FROM kept").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def test_a_worker_that_dies_costs_the_run_that_it_died_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(add_reader(tmp_path / "modules")))
    sources = [str(jsonl(tmp_path / f"{name}.jsonl", losses(9, [(3, 3)]))) for name in "abc"]
    result = call(policy_file(tmp_path), sources[0], "odd:die", *sources[1:], "--jobs", "2", "--format", "json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert [run["run"] for run in found["runs"]] == sources
    assert found["unread"] == [
        {
            "source": "odd:die",
            "why": "the process that read it died: it may need more memory than there is",
            "named": True,
        }
    ]


def test_sources_that_cannot_be_read_are_named_and_cost_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(add_reader(tmp_path / "modules")))
    good = jsonl(tmp_path / "good.jsonl", losses(9))
    (tmp_path / "empty").mkdir()
    (tmp_path / "void.jsonl").touch()
    sources = ("nix.jsonl", "nix:run", "empty", "void.jsonl", "odd:fail", "odd:memory")
    result = call(policy_file(tmp_path), *sources, good, "--jobs", "1")
    said = " ".join(result.stdout.split())
    assert result.exit_code == 1 and "Traceback" not in result.output
    for line in (
        "nix.jsonl: cannot be read: no such file or directory", "nix:run: nothing here reads `nix:` sources",
        "empty: no file lies in this folder", "void.jsonl: is empty", "odd:fail: its reader fails on it: 'inside'",
        "odd:memory: there is not enough memory to read it",
    ):  # fmt: skip
        assert line in said
    nothing = call(policy_file(tmp_path), *sources, "--jobs", "1")
    assert nothing.exit_code == 2 and nothing.stderr.startswith("error: no run could be read\n")


def test_names_that_others_chose_cannot_speak_to_the_terminal(tmp_path: Path) -> None:
    names = ["[red]x[/red].jsonl", "a\x1b[2J.jsonl", "line\nbreak.jsonl", "mlflow:run.jsonl", "-", "ü \udcff.jsonl"]
    for name in names:
        jsonl(tmp_path / "odd" / name, losses(9, [(3, 3)]))
    result = call(policy_file(tmp_path), "odd", "--jobs", "1")
    assert result.exit_code == 0, result.output
    for said in (
        "odd/[red]x[/red].jsonl",
        "odd/a\\x1b[2J.jsonl",
        "odd/line\\nbreak.jsonl",
        "odd/mlflow:run.jsonl",
        "odd/- ",
    ):
        assert said in result.stdout
    assert "6 of 6" in result.stdout and "\x1b[2J" not in result.stdout
    assert len(call(policy_file(tmp_path), "odd", "--format", "jsonl").stdout.splitlines()) == 6 + 2 + 1


def test_fail_on_exits_3_where_a_run_comes_to_the_level(logs: Path) -> None:
    policy = policy_file(logs.parent)
    codes = [call(policy, "logs", "--jobs", "1", "--fail-on", word).exit_code for word in ("yellow", "orange", "red")]
    assert codes == [3, 3, 0]


def test_standard_input_and_two_ways_at_once_are_refused(tmp_path: Path) -> None:
    policy = policy_file(tmp_path)
    for words in (("-",), ("x", "--resume", "--no-cache"), ("x", "--jobs", "0")):
        result = call(policy, *words)
        assert result.exit_code == 2 and "Traceback" not in result.output


def test_a_folder_that_leads_back_into_itself_is_gone_through_once(tmp_path: Path) -> None:
    jsonl(tmp_path / "logs" / "in" / "a.jsonl", losses(9))
    (tmp_path / "logs" / "in" / "back").symlink_to(tmp_path / "logs")
    places, unread = places_of(["logs", "logs/in/a.jsonl"])
    assert [place.shown for place in places] == ["logs/in/a.jsonl"] and unread == []


def test_batches_hold_neighbours_and_leave_work_for_every_process(tmp_path: Path) -> None:
    copy = PolicyCopy.of(load("p", text="when loss > 3 -> red"))
    tasks = [Task(n, Place(f"file:{n}", str(n), size=1_000), (copy,)) for n in range(1_000)]
    batches = batched(tasks, 2)
    assert [task for batch in batches for task in batch] == tasks
    assert 16 <= len(batches) <= 32
    unsized = [Task(n, Place(f"x:{n}", str(n)), (copy,)) for n in range(5)]
    assert [len(batch) for batch in batched(unsized, 2)] == [1] * 5


def test_what_is_held_of_a_run_is_small_however_long_it_was() -> None:
    """Ten thousand runs of 10,000 steps with 100 changes each take some tens of MB."""
    steps = Steps()
    for step in range(10_000):
        steps.add(step)
    levels = (Level.GREEN, Level.ORANGE)
    changes = [Change("r", None, 0, n * 97, n * 97, levels[n % 2], levels[1 - n % 2], "condition") for n in range(100)]
    known = {"name": "n", "title": "", "url": "", "rows": 10_000, "level": Level.GREEN}
    tracemalloc.start()
    runs = [RunOutcome.made(changes, steps, run=f"runs/{n}.jsonl", **known) for n in range(50)]
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 3_000 * len(runs)
    assert runs[0].changes == changes and len(runs[0].steps) == 10_000


def test_a_policy_that_stands_on_others_is_sent_whole(tmp_path: Path) -> None:
    policy_file(tmp_path, name="base.vitals")
    (tmp_path / "own.yaml").write_text("vitals: 1\npolicy: own\nuse: [base.vitals]\n")
    jsonl(tmp_path / "a.jsonl", losses(9, [(2, 4)]))
    loaded = load("own.yaml", settings={"k": 2})
    copy = PolicyCopy.of(loaded)
    for name in ("base.vitals", "own.yaml"):
        (tmp_path / name).unlink()
    [place] = places_of(["a.jsonl"])[0]
    [[run]] = judge(Task(0, place, (copy,))).runs
    assert [change.step for change in run.changes] == [2, 5]
