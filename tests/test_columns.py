"""Every vectorised form gives what its streaming form gives, or says by how much it may be off."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from ops_series import VALUES, arguments_of, run

from vitalsdsl.ground.types import SAMPLES, STEPS, TIME, Extent
from vitalsdsl.kernels.accepted import Accepted
from vitalsdsl.kernels.columns import Rows
from vitalsdsl.kernels.sliding import Windows
from vitalsdsl.kernels.spread_out import Points
from vitalsdsl.nodes.base import Clock, Node
from vitalsdsl.nodes.holding import Span
from vitalsdsl.nodes.signals import Event, Held
from vitalsdsl.nodes.spells import may_hold, spells
from vitalsdsl.ops.base import Stateful, Takes, registry

REFERENCES = {"usual", "noise"}
STREAMS = {
    name: function
    for name, function in registry().items()
    if issubclass(function, Stateful)
    and sum(p.takes is Takes.STREAM for p in function.parameters) == 1
    and not any(p.takes is Takes.EVENT for p in function.parameters)
}


def columns_of(seed: int, shape: str, cadence: str) -> tuple[Rows, Points]:
    moments = list(run(shape, cadence, seed))
    rows = Rows(np.array([m.step for m in moments]), np.array([m.time for m in moments]))
    at = [i for i, m in enumerate(moments) if m.x is not None]
    return rows, Points(np.array(at, dtype=np.int64), np.array([moments[i].x for i in at], dtype=float))


def streamed(function: type[Stateful], arguments: dict[str, Any], rows: Rows, points: Points) -> list[float]:
    state = function.new(arguments)
    read = function.reader(state, arguments)
    found, at = [], 0
    for row, (step, time) in enumerate(zip(rows.steps.tolist(), rows.times.tolist())):
        if at < len(points) and points.rows[at] == row:
            state.push(step, time, float(points.values[at]))
            at += 1
        value = read(step, time)
        found.append(math.nan if value is None else float(value))
        if isinstance(state, Accepted):
            state.decide(accept=True)
    return found


def is_right(column: Any, wanted: list[float], rows: Rows) -> bool:
    values = np.broadcast_to(column.values, (len(rows),))
    slack = np.broadcast_to(column.slack, (len(rows),))
    want = np.array(wanted)
    with np.errstate(invalid="ignore"):
        same = (values == want) | (np.isnan(values) & np.isnan(want)) | (np.abs(values - want) <= slack)
    # Where a number may be off without bound, whoever compares takes anything for possible.
    return bool((same | ~np.isfinite(slack)).all())


@pytest.mark.parametrize("cadence", ["1", "irregular"])
@pytest.mark.parametrize("shape", VALUES)
@pytest.mark.parametrize("name", sorted(STREAMS))
def test_columns_are_the_streams_values(name: str, shape: str, cadence: str) -> None:
    function = STREAMS[name]
    for seed, arguments in enumerate(arguments_of(name)):
        if arguments.get("from") == "event":
            continue
        rows, points = columns_of(seed, shape, cadence)
        column = function.columns(points, rows, arguments)
        if column is not None:
            assert is_right(column, streamed(function, arguments, rows, points), rows), arguments


def test_the_common_functions_have_a_vectorised_form() -> None:
    rows, points = columns_of(0, "noise", "1")
    twenty = Extent(20, "samples")
    fixed = {"W": twenty, "N": twenty, "D": twenty, "n": Extent(3, "samples"), "q": 0.9}
    having = {name for name, function in STREAMS.items() if function.columns(points, rows, fixed) is not None}
    assert having >= {
        "mean", "median", "min", "max", "sum", "count", "std", "var", "mad", "slope", "resid_std", "delta", "growth",
        "baseline", "usual", "noise", "lowest", "highest", "rising", "falling", "flat", "cv", "zscore",
        "monotone_up", "monotone_down", "ema", "quantile",
    }  # fmt: skip


def test_of_two_zeros_the_first_is_the_lowest_and_the_highest() -> None:
    rows, points = Rows(np.arange(4), np.full(4, math.nan)), Points(np.arange(4), np.array([0.0, -0.0, math.nan, 0.0]))
    for column in (points.lowest(rows), points.highest(rows)):
        assert list(map(repr, column.values.tolist())) == ["0.0"] * 4


def test_what_is_not_let_in_still_counts_as_the_first_point() -> None:
    rows = Rows(np.arange(12), np.full(12, np.nan))
    values = np.array([9.0, *[1.0] * 11])
    windows = Windows.accepted(Points(np.arange(12), np.where(values > 5, np.nan, values)), rows, Extent(6, "steps"))
    reference = Accepted(Extent(6, "steps"))
    known = []
    for step, value in enumerate(values.tolist()):
        known.append(reference.is_known)
        reference.push(step, math.nan, value)
        reference.decide(accept=value < 5)
    assert windows.is_known(5).tolist() == known


SPANS = [
    Span(),
    Span([Extent(3, SAMPLES)]),
    Span([Extent(6, STEPS)]),
    Span([Extent(90.0, TIME)]),
    Span([Extent(2, SAMPLES), Extent(5, STEPS)]),
    Span(k=2, n=4),
]
APARTS = [None, Extent(4, SAMPLES), Extent(9, STEPS), Extent(200.0, TIME)]


class Said(Node):
    """A condition that says what it is told to."""

    is_condition = True


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("span", SPANS, ids=["none", "samples", "steps", "time", "both", "2 of 4"])
def test_spells_are_those_of_held_conditions_and_events(span: Span, seed: int) -> None:
    chance = random.Random(seed)
    steps = np.cumsum([chance.choice([1, 1, 1, 2, 7]) for _ in range(60)])
    begins = chance.choice([0, 5])
    times = np.array([math.nan if i < begins else 30.0 * step for i, step in enumerate(steps.tolist())])
    at = Rows(steps, times)
    rows = np.array(sorted(chance.sample(range(60), 45)))
    said = np.array([chance.choice([1.0, 1.0, 1.0, 0.0, math.nan]) for _ in rows])
    source = Said("c")
    held, apart = Held("c", source, span, Clock()), chance.choice(APARTS)
    event = Event("c", source, span, Clock(), apart)
    for kept, extra in ((held, None), (event, apart)):
        told, edges = [], []
        for row, value in zip(rows.tolist(), said.tolist()):
            source.value = None if value != value else bool(value)
            kept.run(int(steps[row]), float(times[row]))
            told.append(math.nan if kept.value is None else float(kept.value))
            if isinstance(kept, Event) and kept.edge_step == steps[row]:
                edges.append(row)
        found = spells(said, rows, at, span, extra, kept is event)
        assert np.array_equal(found.held, told, equal_nan=True)
        if kept is event:
            assert found.edges.tolist() == edges
        else:
            assert np.array_equal(may_hold(span, said == 1, said == 0, at, rows), (np.array(told) == 1) & (said == 1))
