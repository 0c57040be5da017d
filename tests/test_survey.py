"""What a survey says of runs, against NumPy and against what was put into them; and what it keeps in memory."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest

from vitalsdsl.ground.points import Rewind, Row, RunInfo
from vitalsdsl.ground.survey import KEPT, MOST_NAMES, Lot, MetricSurvey, Survey, Surveyor


def rows(values: np.ndarray, every: int = 1, name: str = "loss") -> list[Row | Rewind]:
    return [Row(every * place, {name: float(value)}, 100.0 + 0.5 * every * place) for place, value in enumerate(values)]


def survey(*runs: list[Row | Rewind]) -> Survey:
    return Survey.of((RunInfo(f"run{place}"), events) for place, events in enumerate(runs))


def loss(*runs: list[Row | Rewind]) -> MetricSurvey:
    return survey(*runs).metrics["loss"]


def test_figures_of_a_short_run_are_those_of_numpy() -> None:
    values = np.random.default_rng(3).normal(2.0, 0.3, KEPT)
    found = loss(rows(values, every=10))
    assert (found.points, found.finite, found.first, found.last) == (KEPT, KEPT, 0, 10 * (KEPT - 1))
    assert (found.low, found.low_step) == (values.min(), 10 * int(values.argmin()))
    assert (found.high, found.high_step) == (values.max(), 10 * int(values.argmax()))
    assert found.median == pytest.approx(np.median(values), rel=1e-12)
    assert found.scatter == pytest.approx(1.4826 * np.median(abs(values - np.median(values))), rel=1e-12)
    for q in (0, 0.01, 0.5, 0.99, 1):
        assert found.quantile(q) == pytest.approx(np.quantile(values, q), rel=1e-12)
    assert found.share_below(2.0) == pytest.approx(np.mean(values <= 2.0), abs=0.01)
    assert (found.share_below(-9), found.share_below(9)) == (0, 1)


def test_of_a_long_run_extremes_are_exact_and_ranks_near() -> None:
    values = np.random.default_rng(4).normal(0.0, 1.0, 60_000)
    found = loss(rows(values))
    assert (found.low, found.high_step) == (values.min(), int(values.argmax()))
    # The median of n normal values has a standard error of 1.2533 / √n; this is four of them.
    assert found.median == pytest.approx(0.0, abs=4 * 1.2533 / math.sqrt(KEPT))
    assert found.scatter == pytest.approx(1.0, abs=0.1)
    assert found == loss(rows(values)), "a survey of the same rows is the same"


def test_a_wild_spike_moves_the_extremes_and_not_the_scatter() -> None:
    values = np.random.default_rng(5).normal(1.0, 0.1, 500)
    quiet, spiked = loss(rows(values)), loss(rows(np.append(values, 1e30)))
    assert spiked.high == 1e30
    assert spiked.scatter == pytest.approx(quiet.scatter, rel=0.02)


def test_nan_and_infinities_are_counted_and_are_no_values() -> None:
    found = loss(rows(np.array([1.0, math.nan, math.inf, -math.inf, 3.0])))
    assert (found.points, found.nans, found.infinities, found.finite) == (5, 1, 2, 2)
    assert (found.low, found.high, found.median) == (1.0, 3.0, 2.0)
    only = loss(rows(np.array([math.nan, math.inf])))
    assert math.isnan(only.low) and math.isnan(only.high) and math.isnan(only.median) and math.isnan(only.scatter)
    assert not only.are_whole and only.sign == 0


@pytest.mark.parametrize(
    ("values", "whole", "sign"),
    [([1, 2, 3], True, 1), ([0, 1], True, 0), ([-1.5, -2], False, -1), ([-1, 1], True, 0), ([1e300], True, 1)],
)
def test_whole_numbers_and_signs_are_told(values: list[float], whole: bool, sign: int) -> None:
    found = loss(rows(np.array(values, float)))
    assert (found.are_whole, found.sign) == (whole, sign)


def at(*steps: int) -> list[Row | Rewind]:
    return [Row(step, {"loss": 1.0}) for step in steps]


@pytest.mark.parametrize(
    ("steps", "every", "said", "longest"),
    [
        ((0, 10, 20, 30), 10, "every 10 steps", 10),
        ((49, 99, 149, 199, 1000, 1050, 1100, 1150, 1200, 1250, 1300, 1350), 50, "every 50 steps", 801),
        ((0, 7, 30, 31, 90), 15, "about every 15 steps", 59),
        ((5,), math.nan, "at one step", math.nan),
        ((0, 1), 1, "every step", 1),
        ((0, 9, 20, 30, 40, 50), 10, "every 10 steps", 11),
    ],
)
def test_the_usual_distance_of_points_and_whether_it_is_kept(
    steps: tuple[int, ...], every: float, said: str, longest: float
) -> None:
    cadence = loss(at(*steps)).cadence
    assert (cadence.every, cadence.longest) == pytest.approx((every, longest), nan_ok=True)
    assert str(cadence) == said


def test_several_points_of_one_step_and_late_ones_make_no_distance() -> None:
    found = loss(at(0, 10, 10, 20, 20, 10, 30))
    assert (found.points, found.cadence.every, found.cadence.longest) == (7, 10, 10)


def test_a_rewind_is_counted_and_makes_no_distance() -> None:
    run = survey([*at(0, 10, 20, 30), Rewind(10), *at(20, 30, 40)]).runs[0]
    assert (run.rewinds, run.attempts, run.first, run.last) == (1, 2, 0, 40)
    assert run.metrics["loss"].cadence.longest == 10
    assert run.metrics["loss"].points == 7


def test_wall_time_goes_by_steps_not_by_rows() -> None:
    assert survey(rows(np.ones(9), every=10)).runs[0].seconds_per_step == pytest.approx(0.5)
    assert math.isnan(survey(at(0, 1, 2)).runs[0].seconds_per_step)


def test_names_come_in_the_order_in_which_a_run_logs_them() -> None:
    metrics = survey([Row(0, {"a": 1.0, "b": 1.0}), Row(7, {"c": 1.0})]).metrics
    assert {name: m.order for name, m in metrics.items()} == {"a": 0, "b": 0, "c": 1}


def test_several_runs_are_told_apart_and_pooled() -> None:
    found = survey(rows(np.array([1.0, 2.0])), rows(np.array([5.0, 9.0, 3.0])), at(0)[:0])
    assert [run.info.name for run in found.runs] == ["run0", "run1", "run2"]
    assert [run.steps for run in found.runs] == [2, 3, 0]
    pooled = found.metrics["loss"]
    assert (pooled.points, pooled.runs, pooled.low, pooled.high, pooled.median) == (5, 2, 1.0, 9.0, 3.0)


def test_pooled_runs_weigh_by_their_points() -> None:
    long, short = rows(np.zeros(30_000)), rows(np.ones(10_000))
    share = loss(long, short).share_below(0.5)
    # Three of four values are zeros; four standard deviations of a share of 2,048 drawn.
    assert share == pytest.approx(0.75, abs=0.01 + 4 * math.sqrt(0.75 * 0.25 / KEPT))


def test_a_lot_draws_each_number_as_likely_as_any_other() -> None:
    lot = Lot(1_000, "seed")
    for number in range(50_000):
        lot.add(number)
    counts, _ = np.histogram(lot.kept, bins=10, range=(0, 50_000))
    # 100 of each tenth are expected; the 99.9 % bound of chi squared with 9 degrees of freedom is 27.9.
    assert ((counts - 100) ** 2 / 100).sum() < 27.9


def test_a_run_that_logs_a_new_name_at_every_step_is_bounded() -> None:
    run = survey(
        [Row(step, {f"name_{step}_{n}": 1.0 for n in range(100)}) for step in range(MOST_NAMES // 100 + 5)]
    ).runs[0]
    assert (len(run.metrics), run.further_names) == (MOST_NAMES, 500)


def test_memory_does_not_grow_with_points_or_runs() -> None:
    def points(count: int) -> Iterator[Row]:
        return (Row(step, {"a": step % 97 / 7, "b": 1.0}) for step in range(count))

    def peak(runs: int, count: int) -> int:
        tracemalloc.start()
        surveyor = Surveyor()
        for place in range(runs):
            for _ in surveyor.going_through(RunInfo(f"r{place}"), points(count)):
                pass
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    small = peak(1, 3_000)
    assert peak(1, 12_000) < 1.2 * small
    assert peak(5, 3_000) < small + 5 * 2 * 8_000, "of each run what it says of itself, and no more"
