"""A path to runs of W&B is as good as any log: `vitals replay POLICY run-x.wandb`, with the verdicts of the process."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

if "CI" not in os.environ:
    pytest.importorskip("wandb")

import vitalsdsl_wandb
import wandb
from vitalsdsl_wandb import recorded
from vitalsdsl_wandb.references import read, recognises, target

import vitalsdsl as vitals
from tests.wandb import run_files as w
from tests.wandb.test_tail import drained
from tests.wandb.transaction_log import transaction_log
from vitalsdsl.cli.app import vitals as command
from vitalsdsl.ground.errors import SourceError
from vitalsdsl.ground.points import Rewind
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.watching.feeds import Wanted

ROOT = Path(__file__).parents[2]

POLICY = """\
rule high { when loss > 3 for 2 steps -> orange  clear for 3 steps }
rule not_a_number { when loss is nan -> red  clear for 1 steps }
rule above_mean { when a > mean(loss, 4 samples) -> yellow }
rule counted { when k >= 40 on loss -> yellow }
rule late { when loss > 1 and progress >= 0.5 for 2 samples -> yellow }
rule nested { when n.m > 2 for 2 samples -> orange }
"""


def train(seed: int, run: Any, way: str) -> None:
    """Some 200 calls of every kind, on W&B's own step, on a trainer's, or on a step metric."""
    dice = random.Random(seed)
    key = {"own": None, "trainer": "train/global_step", "defined": "k", "synced": "k", "axis": "k"}[way]
    if way == "defined":
        run.define_metric("k")
        run.define_metric("*", step_metric="k", step_sync=False)
    if way == "synced":
        run.define_metric("*", step_metric="k")
    at = 0
    for i in range(200):
        data: dict[str, Any] = {
            name: dice.choice([dice.uniform(0, 5), dice.randrange(6), math.nan, "NaN", "text", True, None])
            for name in dice.sample(["loss", "loss", "a", "b/c", "f"], dice.randrange(0, 4))
        }
        if dice.random() < 0.2:
            data["n"] = {"m": dice.randrange(5), "t": "text"}
        if dice.random() < 0.05:
            data["h"] = wandb.Histogram([1, 2, 3])
        if key is not None and dice.random() < 0.6:
            data[key] = i // 3 + 1
        options: dict[str, Any] = {}
        if dice.random() < 0.3:
            at = max(0, at + dice.choice([-2, 0, 1, 5]))
            options["step"] = at
        if dice.random() < 0.3:
            options["commit"] = dice.choice([True, False])
        run.log(data, **options)


@pytest.mark.parametrize("way", ["own", "trainer", "defined", "synced", "axis"])
def test_in_process_watched_and_replayed_the_transitions_are_the_same(offline: Path, way: str) -> None:
    text = POLICY + ('axis "k"\n' if way == "axis" else "")
    policy = vitals.load("all", text=text)
    vitalsdsl_wandb.attach(policy)
    with wandb.init(project="p", id=way, config={"max_steps": 100}) as run:
        train(len(way), run, way)
    transaction_log(offline, way)
    (path,) = offline.rglob("files/vitals/transitions.jsonl")
    here = [json.loads(line) for line in path.read_text().splitlines()]
    fired = {line["rule"] for line in here}
    assert len(here) > 10 and len(fired) >= 3 and (way == "axis" or "late" in fired)

    (feed,) = target("./wandb", Wanted(step_key=policy.axis, finished=True)).find()
    stream = Stream(policy.policy, feed.info.name, policy.digest, total_steps=feed.info.total_steps)
    watched = [
        t
        for event in drained(feed)[0]
        for t in (stream.rewind(event.step) if isinstance(event, Rewind) else stream.push_row(event))
    ]
    assert [t.as_dict() for t in [*watched, *stream.finish()]] == here

    (recording,) = read("./wandb", step_key=policy.axis)
    info = recording.info
    replayed = vitals.replay(policy, recording.events, run=info.name, total_steps=info.total_steps)
    assert [t.as_dict() for t in replayed] == here


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package's own entry points, whatever is installed here, and one of a third party for files that begin `%RUN`."""
    folder = tmp_path / "site"
    inside = folder / "thirdparty-1.0.dist-info"
    inside.mkdir(parents=True)
    (inside / "METADATA").write_text("Metadata-Version: 2.1\nName: thirdparty\nVersion: 1.0\n")
    ours = {group: points(f"vitalsdsl.{group}") for group in ("sources", "contents", "targets")}
    missing = {
        group: {name: value for name, value in found.items() if name not in installed_names(f"vitalsdsl.{group}")}
        for group, found in ours.items()
    }
    theirs = {
        "sources": {"theirs": "thirdparty:read"},
        "contents": {"broken": "thirdparty:nothing", "theirs": "thirdparty:knows"},
    }
    text = ""
    for group, found in missing.items():
        lines = [f"{name} = {value}" for name, value in {**theirs.get(group, {}), **found}.items()]
        text += f"[vitalsdsl.{group}]\n" + "\n".join(lines) + "\n"
    (inside / "entry_points.txt").write_text(text)
    (folder / "thirdparty.py").write_text(
        "from vitalsdsl.ground.points import Row, RunInfo\n"
        "from vitalsdsl.runs.sources import Recording\n"
        "def knows(place, head):\n"
        "    return head.startswith(b'%RUN')\n"
        "def read(reference, *, step_key=None):\n"
        "    return [Recording(RunInfo('theirs'), [Row(1, {'loss': 9.0})])]\n"
    )
    monkeypatch.syspath_prepend(str(folder))


def points(group: str) -> dict[str, str]:
    """The entry points of a group, by this project's own description of itself."""
    lines = (ROOT / "pyproject.toml").read_text().partition(f'[project.entry-points."{group}"]\n')[2].splitlines()
    found = {}
    for line in lines:
        if "=" not in line:
            break
        name, _, value = line.partition(" = ")
        found[name] = value.strip('"')
    return found


def installed_names(group: str) -> set[str]:
    return {point.name for point in importlib.metadata.entry_points(group=group)}


def test_the_project_names_these_functions_as_its_entry_points() -> None:
    for group, function in (("sources", read), ("targets", target), ("contents", recognises)):
        assert points(f"vitalsdsl.{group}")["wandb"] == f"{function.__module__}:{function.__name__}"


def invoke(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(command, list(arguments), prog_name="vitals")
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def wandb_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs, one of them damaged and cut off; a policy."""
    folder = tmp_path / "wandb"
    losses = [(step, 5.0 if step >= 10 else 1.0) for step in range(20)]
    w.write(folder, "good", [w.run("good"), *(w.history({"loss": x}, step) for step, x in losses), w.end()])
    rows = [w.history({"loss": 1.0, **{f"m{k}": k for k in range(20)}}, step) for step in range(400)]
    bad = w.write(folder, "bad", [w.run("bad"), *rows], "20260102_120000", online=False)
    data = bytearray(bad.read_bytes())
    data[w.BLOCK + 9] ^= 1
    bad.write_bytes(data[:-5])
    (tmp_path / "p.vitals").write_text("when loss > 3 for 2 steps -> orange\n")
    monkeypatch.chdir(tmp_path)
    return folder


GOOD = "wandb/run-20260101_120000-good"


@pytest.mark.parametrize("source", [f"wandb:{GOOD}", f"wandb:./{GOOD}/run-good.wandb", GOOD, f"{GOOD}/run-good.wandb"])
def test_replay_knows_a_run_of_wandb_with_and_without_the_word(
    installed: None, wandb_folder: Path, source: str
) -> None:
    code, out, _ = invoke("replay", "p.vitals", source, "--format", "jsonl")
    (line,) = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and (line["run"], line["step"], line["to"]) == ("good", 11, "orange")


def test_an_absolute_path_after_the_word_is_a_path(installed: None, wandb_folder: Path) -> None:
    code, out, _ = invoke("replay", "p.vitals", f"wandb:{wandb_folder}", "--format", "jsonl")
    assert code == 0 and json.loads(out)["run"] == "good"


def test_a_wandb_folder_is_all_of_its_runs_and_damage_is_said(installed: None, wandb_folder: Path) -> None:
    code, out, err = invoke("replay", "p.vitals", "wandb")
    assert code == 0 and out.index("good") < out.index("bad")
    assert "bad: `offline-run-20260102_120000-bad/run-bad.wandb` is damaged: bad blocks: 1" in err
    assert "is cut off" in err and "Traceback" not in err


def test_a_folder_is_watched_and_what_was_said_is_not_said_again(installed: None, wandb_folder: Path) -> None:
    line = "watch", "p.vitals", "wandb:wandb", "--once", "--finished", "--format", "jsonl", "--home", "home"
    code, out, err = invoke(*line)
    found = [json.loads(text) for text in out.splitlines()]
    assert code == 0 and [(t["run"], t["step"]) for t in found if t["type"] == "transition"] == [("good", 11)], err
    assert "bad blocks: 1" in err and "Traceback" not in err
    code, out, _ = invoke(*line)
    assert code == 0 and '"transition"' not in out


def test_a_third_party_can_say_what_it_reads(installed: None, wandb_folder: Path) -> None:
    Path("a.run").write_bytes(b"%RUN\0")
    code, out, _ = invoke("replay", "p.vitals", "a.run")
    assert code == 0 and "theirs" in out


def test_a_text_log_is_nobody_elses(installed: None, wandb_folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    Path("log.jsonl").write_text('{"step": 1, "loss": 9}\n{"step": 2, "loss": 9}\n')
    code, out, _ = invoke("replay", "p.vitals", "log.jsonl")
    assert code == 0 and "1 transition" in out and not caplog.records


def test_a_broken_one_keeps_nobody_from_reading(
    installed: None, wandb_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Path("a.run").write_bytes(b"%RUN\0")
    code, out, _ = invoke("replay", "p.vitals", "a.run")
    assert code == 0 and "theirs" in out
    assert "thirdparty:nothing cannot say whether it reads `a.run`" in caplog.text


def test_other_files_and_folders_are_not_recognised(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}")
    assert not recognises(tmp_path, b"")
    assert not recognises(tmp_path / "a.jsonl", b'{"step": 1}')


@pytest.mark.parametrize(
    ("rest", "text"),
    [
        ("./nothing", "no such file"),
        ("nothing.wandb", "no such file"),
        ("empty", "no run of W&B lies in"),
        ("other.wandb", "is no W&B run file"),
        ("rowless.wandb", "has no rows"),
    ],
)
def test_what_cannot_be_replayed_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rest: str, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("other.wandb").write_text("hello, world")
    Path("rowless.wandb").write_bytes(w.framed([w.run("x"), w.end()]))
    with pytest.raises(SourceError, match=text) as raised:
        read(rest)
    assert "\n" not in str(raised.value)


def test_what_lies_on_a_server_is_not_taken_for_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []

    class Remote:
        read = staticmethod(lambda rest, step_key: told.append((rest, step_key)) or [])
        target = staticmethod(lambda rest, wanted: told.append((rest, wanted)))

    monkeypatch.setitem(sys.modules, "vitalsdsl_wandb.remote", Remote)  # type: ignore[arg-type]
    assert read("team/project/run", step_key="k") == []
    target("team/project", Wanted(finished=True))
    assert told == [("team/project/run", "k"), ("team/project", Wanted(finished=True))]


def test_a_big_run_is_read_anew_each_time_and_tells_late_what_it_finds_late(
    wandb_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (held,) = recorded.read("wandb/offline-run-20260102_120000-bad")
    monkeypatch.setattr(recorded, "HELD", 500)
    (big,) = recorded.read("wandb/offline-run-20260102_120000-bad")
    assert isinstance(held.events, tuple) and not isinstance(big.events, tuple)
    assert list(big.events) == list(big.events) == list(held.events)
    assert [*big.info.notes, *big.late_notes] == [*held.info.notes]
    assert len(big.late_notes) == 2


def test_nothing_of_wandb_is_loaded_to_read_its_files(wandb_folder: Path) -> None:
    code = (
        "import sys\n"
        "from vitalsdsl_wandb.references import read, target\n"
        "from vitalsdsl.watching.feeds import Wanted\n"
        "rows = sum(len(list(run.events)) for run in read('wandb'))\n"
        "feeds = target('./wandb', Wanted(finished=True)).find()\n"
        "assert rows > 300 and len(feeds) == 2 and feeds[0].read(None).events\n"
        "sys.exit(any(name == 'wandb' or name.startswith('google.protobuf') for name in sys.modules))\n"
    )
    path = os.pathsep.join([str(Path(m.__file__ or "").parents[1]) for m in (vitals, vitalsdsl_wandb)])
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, check=False)
    assert done.returncode == 0


def test_twenty_thousand_rows_a_second_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a quiet machine; a busy one gets four times as long."""
    row = {f"train/metric_{k}": 1 / (k + 3) for k in range(12)}
    payloads = [w.history({**row, "_runtime": 12.25 * i}, i, 1.7960299758571544e9 + i) for i in range(1000)]
    file = w.write(tmp_path, "a", [w.run("a"), *payloads * 10])
    began = time.process_time()
    (run,) = recorded.read(str(file), step_key="_step")
    took = time.process_time() - began
    with capsys.disabled():
        print(f"\n{len(run.events) / took:,.0f} rows/s at 12 scalars and 3 of W&B's own")  # type: ignore[arg-type]
    assert len(run.events) / took > 5_000  # type: ignore[arg-type]
