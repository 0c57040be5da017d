"""What the tap adds to a call, against the store's own method, in one process, taken in turns."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow.entities import Metric
from vitalsdsl_mlflow import attach
from vitalsdsl_mlflow.tap import instrument, restore

from tests.mlflow.runs import BEGAN, load_policy

ALLOWED = {1: 100.0, 10: 150.0, 100: 700.0}
"""Microseconds; several times what was measured, since machines that run tests are busy."""


class Store:
    """A store that keeps nothing."""

    def log_batch(self, run_id: str, metrics: Any, params: Any, tags: Any) -> None:
        """As fast as can be."""


class Nobody:
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
