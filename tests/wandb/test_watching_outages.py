"""`vitals watch` as a process, over a server on which everything goes wrong in turn, killed in between."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from vitalsdsl_wandb.remote import read

import vitalsdsl as vitals
from tests.trials.proxy import BROKEN, BUSY, FAILS, LOST, PAGE, REFUSED, Fault, Proxy
from tests.trials.scene import POLICY, Hook, Reckoning, Watcher, environment, losses, prepare, wait_for
from tests.wandb.server import KEY, Run, Server

AGE = Fault("429, an age", 429, {"Retry-After": "1e9"})
"""Asks to be left alone for thirty years; an hour is believed, and a six-hundredth of that is waited here."""

ACTS: dict[str, list[Fault]] = {
    "too many questions": BUSY,
    "fails": FAILS,
    "half answers and pages": [*BROKEN, PAGE],
    "the key has expired": REFUSED,
    "a gateway without anything behind it": [Fault("404", 404), Fault("302", 302, {"Location": "/login"})],
    "answers are lost": [LOST],
    "an age": [AGE],
}
ROWS = 60

started: list[Watcher] = []


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Server, Proxy, Path]]:
    prepare(tmp_path / "stage")
    with Server() as server, Proxy(server.url).running() as proxy:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server, proxy, tmp_path / "stage"
        for watcher in started:
            watcher.kill()
        started.clear()


def meet(proxy: Proxy, watcher: Watcher, faults: list[Fault], times: int) -> bool:
    """So many questions go wrong, one way after the other."""
    before, met = sum(proxy.asked.values()) - proxy.asked[""], 0

    def fault(path: str) -> Fault | None:
        nonlocal met
        met += 1
        return faults[met % len(faults)] if met % 3 else None

    proxy.fault = fault
    done = wait_for(watcher, lambda: sum(proxy.asked.values()) - proxy.asked[""] - before >= times, 60, "faults")
    proxy.fault = lambda path: None
    return done


def outage(watcher: Watcher) -> list[str]:
    """What readings, not deliveries, say of it."""
    return [line for line in watcher.lines() if "reached" in line and not line.startswith("vitals: ")]


def told_again(lines: list[str]) -> list[str]:
    """Troubles that were told though they were told before, and not over since. How many there are depends on which
    questions happen to go through in between."""
    again, standing = [], set()
    for line in lines:
        trouble, _, rest = line.rpartition("; trying again")
        if line.startswith("watching "):
            standing.clear()
        elif line.startswith("all is well again after: "):
            standing.remove(line.partition(": ")[2])
        elif trouble and not rest and not line.startswith("vitals: "):
            again += [line] if trouble in standing else []
            standing.add(trouble)
    return again


def test_nothing_is_lost_or_judged_twice_and_an_outage_is_two_lines(stage: tuple[Server, Proxy, Path]) -> None:
    server, proxy, folder = stage
    runs: dict[str, tuple[Run, list[dict[str, float]]]] = {
        name: (server.run(name), losses(seed, (len(ACTS) + 2) * ROWS)) for seed, name in enumerate(("r1", "r2"), 5)
    }
    doomed, hook = server.run("doomed"), Hook()
    doomed.log(*losses(1, ROWS))

    def go_on() -> None:
        for run, rows in runs.values():
            run.log(*rows[:ROWS])
            del rows[:ROWS]

    go_on()
    over = {**server.environment(), "WANDB_BASE_URL": proxy.uri}
    watcher = Watcher(folder, "wandb:team/p", environment(folder, hook, **over), factor=600.0, asked=10.0)
    started.append(watcher)
    watcher.start()
    assert wait_for(watcher, lambda: server.asked.count("HistoryPage") > len(runs), 60, "the first readings")
    proxy.down()
    go_on()
    assert wait_for(watcher, lambda: len(outage(watcher)) == 1, 60, "a word")
    proxy.up()
    assert wait_for(watcher, lambda: "all is well again" in str(outage(watcher)), 60, "a word that it is over")
    assert len(outage(watcher)) == 2
    for number, faults in enumerate(ACTS.values()):
        go_on()
        assert meet(proxy, watcher, faults, 2 if faults == [AGE] else 12)
        if number % 3 == 1:
            watcher.kill()
            watcher.start()
            found = str(watcher.lines()).count("found ")  # a key that is refused before that is a mistake, and its end
            assert wait_for(watcher, lambda found=found: str(watcher.lines()).count("found ") > found, 60, "its runs")
        if number == 3:
            del server.runs["team/p/doomed"]
    for run, _ in runs.values():
        run.state = "finished"

    reckoning = Reckoning()
    policy = vitals.load("trial", text=POLICY)
    for name in runs:
        ((info, events),) = ((one.info, one.events) for one in read(f"team/p/{name}"))
        wanted = [t.as_dict() for t in vitals.replay(policy, events, run=info.name)]
        assert len(wanted) > 5
        due = {t["id"] for t in wanted}
        assert wait_for(
            watcher, lambda name=name, due=due: due <= {r.get("id") for r in watcher.journal(name)}, 60, name
        )
        assert wait_for(watcher, lambda name=name: watcher.is_settled([name]), 60, "the last delivery")
        reckoning.judged(watcher, name, wanted)
        reckoning.asked(folder / "control", name, wanted)
        texts = [alert["text"] for alert in server.alerts if alert["runName"] == name]
        reckoning.told("W&B", [str(re.findall(r"id: (\S+)", text)[-1]) for text in texts], wanted, name)
        came = [m["id"] for m in hook.received if m["transition"]["run"] == name]
        reckoning.told("hook", came, wanted, name)
    assert watcher.end() == 0
    assert reckoning.wrong == []
    said = "\n".join(watcher.lines())
    assert KEY not in said and "Traceback" not in said
    assert told_again(watcher.lines()) == []
