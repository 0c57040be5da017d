"""`vitals watch` over a real MLflow server on which everything goes wrong in turn, an hour's outage among it.

    python -m tests.trials.outages [FOLDER] [--seed N]

The watcher's waiting is shortened sixty-fold (`compressed.py`): the minute for which the tracker is down is an hour to it.
Reckoned at the end: the transitions of each run against `vitals replay`, alerts, requests, what people were told, memory.
About four minutes.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import requests

from tests.trials.proxy import BROKEN, BUSY, DRIP, FAILS, HANG, LOST, REFUSED, Fault, Proxy
from tests.trials.scene import (
    Hook,
    Reckoning,
    Training,
    Watcher,
    artifact,
    environment,
    mlflow_server,
    prepare,
    repeated,
    replayed,
    told,
    wait_for,
)

PATIENCE = 600.0
"""Seconds for which the last deliveries are waited for: an hour's worth of them, by a server that may be slow."""


def some(dice: random.Random, faults: list[Fault], share: float = 1.0) -> Callable[[str], Fault | None]:
    return lambda path: dice.choice(faults) if dice.random() < share else None


def play(
    proxy: Proxy, watcher: Watcher, dice: random.Random, delete: Callable[[], None], began: float
) -> dict[str, int]:
    """The acts, each followed by a calm; gives how many requests were made in each."""
    asked: dict[str, int] = {}

    def act(name: str, seconds: float, fault: Callable[[str], Fault | None] | None, calm: float = 4.0) -> None:
        told(time.monotonic() - began, name)
        before, lines = sum(proxy.asked.values()), len(watcher.lines())
        if fault is None:
            proxy.down()
        else:
            proxy.fault = fault
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            watcher.weigh()
            time.sleep(0.5)
        asked[name] = sum(proxy.asked.values()) - before
        if fault is None:
            proxy.up()
        proxy.fault = lambda path: None
        time.sleep(calm)
        for line in watcher.lines()[lines:]:
            print(f"             | {line}")

    act("an hour down: nothing listens, then accepts that hang", 48.0, None, calm=0.0)
    act("... hangs", 12.0, some(dice, [HANG]))
    act("429 in all its forms", 8.0, some(dice, BUSY))
    once = iter([Fault("429, an age", 429, {"Retry-After": "1e9"})])
    act("429 that asks for thirty years", 3.0, lambda path: next(once, None) if "search" in path else None)
    act("500, 502, 503, 504, half of the time", 8.0, some(dice, FAILS, 0.5))
    act("a byte a second", 8.0, some(dice, [DRIP]))
    act("half answers, pages, lies about the length", 8.0, some(dice, BROKEN, 0.7))
    act("the key has expired", 10.0, some(dice, REFUSED))
    told(time.monotonic() - began, "a run is deleted")
    delete()
    act("answers are lost", 8.0, some(dice, [LOST], 0.4))
    everything = [*BUSY, *FAILS, *BROKEN, *REFUSED, LOST]
    act("everything at once", 15.0, some(dice, everything, 0.4))
    return asked


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("folder", nargs="?", type=Path)
    words.add_argument("--seed", type=int, default=1)
    given = words.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="outages-"))
    prepare(folder)
    began = time.monotonic()
    dice, hook, reckoning = random.Random(given.seed), Hook(), Reckoning()
    with mlflow_server(folder) as server, Proxy(server.uri).running() as proxy:
        post = f"{server.uri}/api/2.0/mlflow"
        name = "a 'trial' <of> \"faults\""
        experiment = requests.post(f"{post}/experiments/create", json={"name": name}, timeout=60).json()[
            "experiment_id"
        ]
        runs = [Training(server.uri, experiment, seed, 850, 0.2) for seed in range(4)]
        doomed = Training(server.uri, experiment, 99, 10_000, 0.2)
        for run in (*runs, doomed):
            run.start()
        direct = environment(folder, hook, MLFLOW_TRACKING_URI=server.uri)
        watcher = Watcher(folder, f"mlflow:experiments/{name}", {**direct, "MLFLOW_TRACKING_URI": proxy.uri})
        watcher.start()
        wait_for(watcher, lambda: any(watcher.journal(run.run_id) for run in runs), 120, "the first transition")
        first_kb = watcher.weigh()

        def delete() -> None:
            requests.post(f"{post}/runs/delete", json={"run_id": doomed.run_id}, timeout=60).raise_for_status()

        asked = play(proxy, watcher, dice, delete, began)
        told(time.monotonic() - began, "calm: the runs end")
        for run in runs:
            run.join()
        ids = [run.run_id for run in runs]
        wanted = {run: replayed(folder, direct, f"mlflow:{run}") for run in ids}
        wait_for(watcher, lambda: all(len({r["id"] for r in watcher.journal(run) if r["type"] in ("intent", "noted")})
                             >= len(wanted[run]) for run in ids), PATIENCE, "the last transition")  # fmt: skip
        wait_for(watcher, lambda: watcher.is_settled(ids), PATIENCE, "the last delivery")
        told(time.monotonic() - began, "all is delivered")
        time.sleep(3)
        code = watcher.end()
        print(*(f"  | {line}" for line in watcher.lines()), sep="\n")
        for run in ids:
            reckoning.evidence = watcher.journal(run)
            reckoning.judged(watcher, run, wanted[run])
            reckoning.asked(folder / "control", run, wanted[run])
            alerts = [line["id"] for line in artifact(server.uri, run, "vitals/alerts.jsonl")]
            reckoning.told("artifact", alerts, wanted[run], run)
            reckoning.told("hook", [m["id"] for m in hook.received if m["transition"]["run"] == run], wanted[run], run)
            kept = [line["id"] for line in artifact(server.uri, run, "vitals/transitions.jsonl")]
            wrong = set(kept) ^ {t["id"] for t in wanted[run]} | repeated(kept)
            reckoning.expect(not wrong, f"{run}: {len(wrong)} differ in the list of transitions", wrong)
        reckoning.expect(code == 0, f"the watcher ended with {code}")
        reckoning.expect("Traceback" not in watcher.log.read_text(), "a traceback")
        reckoning.expect(any("deleted" in line for line in watcher.lines()), "the deleted run was not said")
        reckoning.expect(watcher.most_kb - first_kb < 40_000, f"memory grew from {first_kb} to {watcher.most_kb} kB")
        reckoning.expect(len(watcher.lines()) <= 3 * len(asked), f"{len(watcher.lines())} lines in {len(asked)} acts")
        print(*(f"  requests in `{act}`: {count}" for act, count in asked.items()), sep="\n")
        print(f"  faults met: {dict(proxy.asked)}")
        print(f"  memory: {first_kb} kB at first, {watcher.most_kb} kB at most")
        print(f"  lines told: {len(watcher.lines())}")
        failed = reckoning.show()
    if not failed and given.folder is None:
        shutil.rmtree(folder)
    return failed


if __name__ == "__main__":
    sys.exit(main())
