"""What the tap adds to a call, against the store's own method, in one process, taken in turns."""

from __future__ import annotations

import random
import statistics
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow.entities import Metric
from vitalsdsl_mlflow import attach
from vitalsdsl_mlflow.events import Events
from vitalsdsl_mlflow.rows import LoggedPoint
from vitalsdsl_mlflow.tap import instrument, restore

from tests.mlflow.runs import BEGAN, load_policy
from vitalsdsl.ground.points import Rewind, Row

ALLOWED = {1: 100.0, 10: 150.0, 100: 700.0}
"""Microseconds; several times what was measured, since machines that run tests are busy."""


class Store:
    """A store that keeps nothing."""

    def log_batch(self, run_id: str, metrics: Any, params: Any, tags: Any) -> None:
        """As fast as can be."""


class Nobody:
    def row(self, run_id: str, values: dict[str, float], step: int, timestamp: int, store: Any) -> None:
        """Takes it."""

    def points(self, run_id: str, points: list[Any], store: Any) -> None:
        """Takes them."""

    def params(self, run_id: str, params: Any) -> None:
        """As it does these."""

    def called(self, run_id: str, name: str) -> None: ...

    def ended(self, run_id: str, store: Any) -> None:
        """Nothing ends here."""


def medians(store: Any, count: int, sink: Any, rounds: int = 400) -> float:
    """The median of what the tap adds to a call, in microseconds."""
    instrument(store, sink)
    wrapped, plain = store.log_batch, type(store).log_batch
    added = []
    for step in range(rounds):
        metrics = [Metric(f"m/{n}", 1.0, BEGAN + step, step) for n in range(count)]
        t0 = time.perf_counter_ns()
        plain(store, "run", metrics, [], [])
        t1 = time.perf_counter_ns()
        wrapped("run", metrics, [], [])
        t2 = time.perf_counter_ns()
        added.append(((t2 - t1) - (t1 - t0)) / 1000)
    restore(store)
    return statistics.median(added)


@pytest.mark.parametrize("count", [1, 10, 100])
def test_the_tap_adds_microseconds(count: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = medians(Store(), count, Nobody())
    attachment = attach(load_policy())
    port = SimpleNamespace(name="stub", can=frozenset(), channels=frozenset())
    attachment._port = lambda run_id, store: port  # type: ignore[method-assign,assignment,return-value]
    whole = medians(Store(), count, attachment)
    with capsys.disabled():
        print(f"\n  {count:>3} metrics: the tap adds {alone:.1f} µs, with steps and rules {whole:.1f} µs (median)")
    assert alone < ALLOWED[count]
    assert whole < 20 * ALLOWED[count]


def test_a_row_taken_in_at_once_is_what_its_points_come_to() -> None:
    """Whatever was logged before it: runs that go back, are shared, log without steps, and system metrics."""
    rng = random.Random(8)
    taken = 0
    for _ in range(60):
        at_once, one_by_one = Events(), Events()
        step = time_ms = 0
        for _ in range(60):
            step = max(0, step + rng.choice((0, 1, 1, 1, 1, 5, -1, -20 if rng.random() < 0.2 else 1)))
            time_ms += rng.choice((0, 100, 100, 9000 if rng.random() < 0.1 else 100))
            names = rng.sample(("a", "b", "c", "system/gpu") if rng.random() < 0.2 else ("a", "b"), 2)
            at = 0 if rng.random() < 0.05 else step
            points = [LoggedPoint(name, rng.random(), at, time_ms) for name in names]
            values = {point.key: point.value for point in points}
            if at_once.is_row(values, at, time_ms):
                found: list[Row | Rewind] = [Row(at, values, time_ms / 1000)]
                taken += 1
            else:
                found = at_once.add(points)
            assert found == one_by_one.add(points)
            assert (at_once.notes(), at_once.save(), at_once.tops) == (
                one_by_one.notes(), one_by_one.save(), one_by_one.tops,
            )  # fmt: skip
            if rng.random() < 0.02:
                at_once.go_on()
                one_by_one.go_on()
    assert 500 < taken < 3000
