"""`vitals watch` where little is as usual: a home without room, runs of extreme size, an experiment that is deleted.

    python -m tests.trials.extremes [FOLDER]

A home that is full, and one that may only be read, need a mount of their own: they are left out, and that is said, where
nobody may mount. About four minutes.
"""

from __future__ import annotations

import argparse
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from tests.mlflow.conftest import Server
from tests.trials.scene import (
    Hook,
    Reckoning,
    Training,
    Watcher,
    artifact,
    environment,
    losses,
    mlflow_server,
    prepare,
    replayed,
    told,
    wait_for,
)

LONG, WIDE = 100_000, 5_000
SMALL_KIB = 1024
BEGAN = 1_800_000_000_000


class Scene:
    """One server, and who watches it."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder, self.server, self.hook, self.reckoning = folder, server, Hook(), Reckoning()
        self.environment = environment(folder, self.hook, MLFLOW_TRACKING_URI=server.uri)
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        told(time.monotonic() - self._began, text)

    def post(self, call: str, **body: Any) -> Any:
        answer = requests.post(f"{self.server.uri}/api/2.0/mlflow/{call}", json=body, timeout=60)
        answer.raise_for_status()
        return answer.json()

    def experiment(self, name: str) -> str:
        return str(self.post("experiments/create", name=name)["experiment_id"])

    def trained(self, experiment: str, seed: int, steps: int) -> str:
        """A run that is over."""
        made = self.post("runs/create", experiment_id=experiment, start_time=BEGAN, run_name="a \"run\" <b>\n'x'")
        run = str(made["run"]["info"]["run_id"])
        rows = list(enumerate(losses(seed, steps)))
        for first in range(0, steps, 400):
            self.post("runs/log-batch", run_id=run, metrics=[
                {"key": key, "value": value, "timestamp": BEGAN + 1000 * step, "step": step}
                for step, row in rows[first : first + 400] for key, value in row.items()
            ])  # fmt: skip
        self.post("runs/update", run_id=run, status="FINISHED", end_time=BEGAN + 1000 * steps)
        return run

    def watch(self, run: str, home: str) -> Watcher:
        """Read a run that is over, have all delivered that is to be said about it, and end."""
        watcher = Watcher(self.folder, f"mlflow:{run}", self.environment, home, factor=10.0)
        watcher.start()
        while watcher.is_alive:
            watcher.weigh()
            time.sleep(0.05)
        for line in watcher.lines():
            print(f"             | {line}")
        assert watcher.process is not None
        code = watcher.process.exitcode
        self.reckoning.expect(code in (0, 3), f"{home}: it ended with {code}")
        self.reckoning.expect("Traceback" not in watcher.log.read_text("utf-8"), f"{home}: a traceback")
        return watcher

    def lists(self, run: str, where: str) -> None:
        """What stands on the run is what the replay says."""
        wanted = replayed(self.folder, self.environment, f"mlflow:{run}")
        kept = [line["id"] for line in artifact(self.server.uri, run, "vitals/transitions.jsonl")]
        missing, more = {t["id"] for t in wanted} - set(kept), set(kept) - {t["id"] for t in wanted}
        self.reckoning.expect(
            not missing and not more and len(kept) == len(wanted),
            f"{where}: the list of transitions: {len(missing)} missing, {len(more)} more, {len(kept)} in all",
            missing | more,
        )
        alerts = [line["id"] for line in artifact(self.server.uri, run, "vitals/alerts.jsonl")]
        self.reckoning.told(where, alerts, wanted, run)
        self.reckoning.expect(len(alerts) == len(set(alerts)), f"{where}: an alert stands twice in its list")


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[bool]:
    """A small disk at a folder, and whether there is one."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    there = subprocess.run(words, check=False, capture_output=True).returncode == 0
    try:
        yield there
    finally:
        if there:
            subprocess.run(["umount", str(folder)], check=True)


def a_home_without_room(scene: Scene) -> None:
    run = scene.trained(scene.experiment("full"), 1, 1500)
    with mounted(scene.folder / "small", f"size={SMALL_KIB}k") as there:
        if not there:
            scene.say("a home without room: left out, as nobody may mount here")
            return
        scene.say(f"a home of {SMALL_KIB} KiB that fills up")
        (scene.folder / "small" / "ballast").write_bytes(bytes((SMALL_KIB - 64) * 1024))
        watcher = scene.watch(run, "small")
        scene.lists(run, "a home that fills up")
        said = sum("cannot be written" in line for line in watcher.lines())
        scene.reckoning.expect(said in (1, 2), f"a home that fills up: said {said} times")
        heard = len(scene.hook.received)
        scene.say("... and has room again")
        (scene.folder / "small" / "ballast").unlink()
        watcher = scene.watch(run, "small")
        scene.lists(run, "a home that had filled up")
        scene.say(f"... {heard} messages before, {len(scene.hook.received) - heard} again")
        decided = {record["id"] for record in watcher.journal(run) if record["type"] in ("intent", "noted")}
        wanted = {t["id"] for t in replayed(scene.folder, scene.environment, f"mlflow:{run}")}
        scene.reckoning.expect(decided == wanted, f"a home that has room again: {len(wanted - decided)} are not in it")


def a_home_that_is_read_only(scene: Scene) -> None:
    run = scene.trained(scene.experiment("read only"), 2, 300)
    with mounted(scene.folder / "fixed", "size=1m") as there:
        if not there:
            scene.say("a home that is read-only: left out, as nobody may mount here")
            return
        scene.say("a home that is read-only from the beginning")
        subprocess.run(["mount", "-o", "remount,ro", str(scene.folder / "fixed")], check=True)
        watcher = Watcher(scene.folder, f"mlflow:{run}", scene.environment, "fixed", more=("--once",))
        watcher.start()
        assert watcher.process is not None
        watcher.process.join(60)
        lines = watcher.lines()
        print(*(f"             | {line}" for line in lines), sep="\n")
        is_one_line = len(lines) == 1 and "cannot be used as the watcher's store" in lines[0]
        scene.reckoning.expect(
            is_one_line and watcher.process.exitcode == 2, "a home that is read-only: one line, and 2"
        )


def an_experiment_that_is_deleted(scene: Scene) -> None:
    scene.say("an experiment that is deleted while it is watched")
    experiment = scene.experiment("doomed")
    trainings = [Training(scene.server.uri, experiment, seed, 150, 0.1) for seed in (3, 4)]
    watcher = Watcher(scene.folder, "mlflow:experiments/doomed", scene.environment, "doomed")
    for one in (*trainings, watcher):
        one.start()
    runs = [training.run_id for training in trainings]
    wait_for(watcher, lambda: all(watcher.journal(run) for run in runs), 120, "the first transitions")
    scene.post("experiments/delete", experiment_id=experiment)
    for training in trainings:
        training.join()
    time.sleep(3.0)
    lines = watcher.lines()
    print(*(f"             | {line}" for line in lines), sep="\n")
    alive = watcher.is_alive
    code = watcher.end()
    scene.reckoning.expect(any("deleted" in line for line in lines), "a deleted experiment: it was not said")
    scene.reckoning.expect(len(lines) < 10, f"a deleted experiment: {len(lines)} lines")
    scene.reckoning.expect("Traceback" not in watcher.log.read_text("utf-8"), "a deleted experiment: a traceback")
    scene.reckoning.expect(alive or code == 0, f"a deleted experiment: it ended with {code}")


def fill(scene: Scene, run: str, rows: Iterator[tuple[str, float, int, int]]) -> None:
    """Points straight into the server's database, which takes minutes through its front."""
    with sqlite3.connect(scene.server.log.parent / "server.db", timeout=60) as file:
        file.executemany(
            "INSERT INTO metrics (key, value, timestamp, step, run_uuid, is_nan) VALUES (?, ?, ?, ?, ?, 0)",
            ((key, value, at, step, run) for key, value, at, step in rows),
        )


def of_extreme_size(scene: Scene, name: str, rows: Iterator[tuple[str, float, int, int]], most_kb: int) -> None:
    run = scene.post("runs/create", experiment_id=scene.experiment(name), start_time=BEGAN)["run"]["info"]["run_id"]
    one = {"key": "train/loss", "value": 1.0, "timestamp": BEGAN, "step": 0}
    scene.post("runs/log-batch", run_id=run, metrics=[one])
    fill(scene, run, rows)
    scene.post("runs/update", run_id=run, status="FINISHED", end_time=BEGAN + 10**8)
    scene.say(name)
    began = time.monotonic()
    watcher = scene.watch(run, name)
    scene.say(f"... in {time.monotonic() - began:.1f} s, with {watcher.most_kb // 1024} MB at most")
    scene.reckoning.expect(watcher.most_kb < most_kb, f"{name}: {watcher.most_kb} kB of memory")
    scene.lists(run, name)


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("folder", nargs="?", type=Path)
    given = words.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="extremes-"))
    prepare(folder)
    with mlflow_server(folder) as server:
        scene = Scene(folder, server)
        a_home_without_room(scene)
        a_home_that_is_read_only(scene)
        an_experiment_that_is_deleted(scene)
        # Two steps of a thousand are bad: what is logged for one run of a day, with fifty alarms to tell of.
        long = (("train/loss", 5.0 if step % 2000 < 3 else 1.0, BEGAN + 500 * step, step) for step in range(1, LONG))
        of_extreme_size(scene, f"{LONG} points of one metric", long, 400_000)
        wide = (
            (f"layer.{number}/norm", float(number), BEGAN + 1000 * step, step)
            for step in range(1, 11)
            for number in range(WIDE)
        )
        of_extreme_size(scene, f"{WIDE} metrics of one run", wide, 400_000)
        failed = scene.reckoning.show()
    if not failed and given.folder is None:
        shutil.rmtree(folder)
    return failed


if __name__ == "__main__":
    sys.exit(main())
