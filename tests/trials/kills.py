"""`vitals watch` over a real MLflow server, killed with SIGKILL at two hundred random moments.

    python -m tests.trials.kills [FOLDER] [--kills N] [--seed N]

Half of the kills hit one watcher, half one of two: of two homes over one experiment. Half of the requests go to a folder,
half to tags of the run. The kills fall anywhere: into the start, between a decision and its note, between what is done and
its note, into writing an artifact. Then all is left to finish. Reckoned against `vitals replay` of the finished runs: each
request once, each alert at least once at each place, and how often one was repeated. About a quarter of an hour.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import requests

from tests.trials.proxy import Fault, Proxy
from tests.trials.scene import (
    Hook,
    Reckoning,
    Training,
    Watcher,
    artifact,
    environment,
    levels,
    mlflow_server,
    prepare,
    repeated,
    replayed,
    tags_of,
    told,
    wait_for,
)

LOST = Fault("answer lost", lost=True)

KILLS_A_ROUND = 20
"""Then the next runs begin, so that there is something to judge all the time."""

PATIENCE = 300.0
"""Seconds for which anything is waited for: a machine that is busy takes its time."""


@dataclass
class Round:
    """Some runs that are logged, under watchers that are killed; and what has become of it.

    A step is logged each `pause` seconds. All is over when the lists on the runs have not changed for `quiet` seconds.
    """

    folder: Path
    hook: Hook
    server: str
    front: str
    name: str
    homes: tuple[str, ...] = ("home",)
    control: str = ""
    runs: int = 2
    steps: int = 600
    pause: float = 0.1
    quiet: float = 6.0

    def __post_init__(self) -> None:
        self.ids: list[str] = []
        self.watchers: list[Watcher] = []
        self._heard = len(self.hook.received)
        self._kept: list[Any] = []
        self._since = 0.0

    def play(self, kills: int, dice: random.Random) -> int:
        """Kill until it is enough, then let all come to its end; gives how many kills met a process that lived."""
        post = f"{self.server}/api/2.0/mlflow/experiments/create"
        made = requests.post(post, json={"name": self.name}, timeout=60).json()
        trainings = [
            Training(self.server, made["experiment_id"], dice.randrange(10**6), self.steps, self.pause)
            for _ in range(self.runs)
        ]
        self.ids = [training.run_id for training in trainings]
        over = environment(self.folder, self.hook, MLFLOW_TRACKING_URI=self.front)
        target = f"mlflow:experiments/{self.name}"
        self.watchers = [
            Watcher(self.folder, target, over, f"{home} of {self.name}", control=self.control) for home in self.homes
        ]
        for one in (*trainings, *self.watchers):
            one.start()
        killed = 0
        while killed < kills:
            victim = dice.choice(self.watchers)
            self._wait_for_a_moment(victim, dice)
            killed += victim.kill()
            victim.start()
        for training in trainings:
            training.join()
        for one in self.watchers:
            wait_for(one, partial(self._knows_all, one), PATIENCE, f"the last transition in {one.home}")
            wait_for(one, partial(one.is_settled, self.ids), PATIENCE, f"the last delivery of {one.home}")
        wait_for(self.watchers[0], partial(self._is_quiet, self.quiet), PATIENCE, "quiet")
        return killed

    @cached_property
    def wanted(self) -> dict[str, list[dict[str, Any]]]:
        """The transitions of each run, once it is over, by `vitals replay`."""
        direct = environment(self.folder, self.hook, MLFLOW_TRACKING_URI=self.server)
        return {run: replayed(self.folder, direct, f"mlflow:{run}") for run in self.ids}

    def reckon(self, reckoning: Reckoning) -> None:
        for one in self.watchers:
            reckoning.expect(one.end() == 0, f"{one.home} ended badly: {one.lines()[-2:]}")
            reckoning.expect("Traceback" not in one.log.read_text(), f"{one.home}: a traceback")
            for run in self.ids:
                reckoning.evidence = one.journal(run)
                reckoning.judged(one, run, self.wanted[run])
        for run in self.ids:
            reckoning.evidence = [record for one in self.watchers for record in one.journal(run)]
            wanted, tags = self.wanted[run], tags_of(self.server, run)
            reckoning.asked(self.folder / "control", run, wanted, tags if self.control else None)
            alerts = [line["id"] for line in artifact(self.server, run, "vitals/alerts.jsonl")]
            reckoning.told("artifact", alerts, wanted, run)
            twice = repeated(alerts)
            reckoning.expect(not twice, f"{self.name}: an alert stands twice in the list of run {run}", twice)
            kept = [line["id"] for line in artifact(self.server, run, "vitals/transitions.jsonl")]
            missing = {t["id"] for t in wanted} - set(kept)
            where = f"{self.name}: the list of run {run}"
            reckoning.expect(not missing, f"{where}: {len(missing)} transitions are not in it", missing)
            reckoning.expect(not repeated(kept), f"{where}: a transition stands in it twice", repeated(kept))
            heard = [m["id"] for m in self.hook.received[self._heard :] if m["transition"]["run"] == run]
            reckoning.told(f"hook, {len(self.watchers)} watchers", heard, wanted, run)
            level, worst = tags.get("vitals.level"), max(levels(wanted).values(), default=0)
            words = ["green", "yellow", "orange", "red"]
            reckoning.expect(level == words[worst], f"run {run}: its tag says {level}, and it is {words[worst]}")
            headline = tags.get("vitals.alert", "")
            reckoning.expect(bool(headline) or not alerts, f"run {run}: no tag tells of its alert")
            is_over = level != "green" or not alerts or headline.startswith("green: ")
            reckoning.expect(is_over, f"run {run}: it is green, and its headline says `{headline[:60]}`")

    def _wait_for_a_moment(self, watcher: Watcher, dice: random.Random) -> None:
        """Any moment: in the first seconds of the process, or just as something has been decided."""
        if dice.random() < 0.3:
            time.sleep(dice.uniform(0.0, 2.5))
            return
        before = self._lines(watcher)
        end = time.monotonic() + 8.0
        while time.monotonic() < end and self._lines(watcher) == before:
            time.sleep(0.005)
        time.sleep(dice.expovariate(10.0))

    def _lines(self, watcher: Watcher) -> int:
        return sum(len(watcher.journal(run)) for run in self.ids)

    def _knows_all(self, watcher: Watcher) -> bool:
        known = {run: {record.get("id") for record in watcher.journal(run)} for run in self.ids}
        return all(transition["id"] in known[run] for run in self.ids for transition in self.wanted[run])

    def _is_quiet(self, seconds: float) -> bool:
        """Whether what is kept with the runs has not changed for a while."""
        lists = [f"vitals/{name}.jsonl" for name in ("alerts", "transitions")]
        now = [artifact(self.server, run, name) for run in self.ids for name in lists]
        if self._kept != now:
            self._kept, self._since = now, time.monotonic()
        return time.monotonic() - self._since > seconds


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("folder", nargs="?", type=Path)
    words.add_argument("--kills", type=int, default=200)
    words.add_argument("--seed", type=int, default=1)
    given = words.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="kills-"))
    prepare(folder)
    began, dice, hook, reckoning = time.monotonic(), random.Random(given.seed), Hook(), Reckoning()
    with mlflow_server(folder) as server, Proxy(server.uri).running() as proxy:
        proxy.fault = lambda path: LOST if dice.random() < 0.02 else None
        killed = number = 0
        while killed < given.kills:
            homes = ("one",) if number % 2 else ("one", "two")
            control = "mlflow:" if number // 2 % 2 else ""
            round_ = Round(folder, hook, server.uri, proxy.uri, f"trial {number}", homes, control)
            killed += round_.play(min(given.kills - killed, KILLS_A_ROUND), dice)
            told(time.monotonic() - began, f"{len(homes)} watchers, asking by {control or 'a folder'}: {killed} kills")
            round_.reckon(reckoning)
            told(time.monotonic() - began, f"{len(reckoning.wrong)} things are wrong so far")
            number += 1
        reckoning.counts["kills"] = killed
        failed = reckoning.show()
    if not failed and given.folder is None:
        shutil.rmtree(folder)
    return failed


if __name__ == "__main__":
    sys.exit(main())
