"""The parts of a report against counts made another way."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from vitalsdsl.ground.points import Rewind, Row, RunInfo
from vitalsdsl.language.rules import Level
from vitalsdsl.policies.policy import load
from vitalsdsl.report.bands import Band, Bands
from vitalsdsl.report.checklist import Mark
from vitalsdsl.report.curve import Curve
from vitalsdsl.report.examine import RunReport, examine
from vitalsdsl.report.reading import relations, standings
from vitalsdsl.runs.sources import Recording


def examined(rows: list[Row | Rewind], text: str, checkup: str | None = None) -> RunReport:
    listed = load("checkup", text=checkup) if checkup is not None else None
    return examine(Recording(RunInfo("run"), rows), load("policy", text=text), listed)


@pytest.mark.parametrize("count", [1, 2, 7, 40, 41, 999, 10_000])
def test_a_curve_holds_every_extreme_and_the_mean(count: int) -> None:
    dice = random.Random(count)
    values = [dice.gauss(0, 1) if dice.random() < 0.95 else math.nan for _ in range(count)]
    curve = Curve(most=20)
    for step, value in enumerate(values):
        curve.add(3 * step, value)
    finite = [v for v in values if v == v]
    assert len(curve.steps) <= 40 and curve.count == count
    assert list(curve.steps) == sorted(curve.steps)
    for at, (first, low, high, mean) in enumerate(zip(curve.steps, curve.low, curve.high, curve.mean)):
        end = curve.steps[at + 1] if at + 1 < len(curve.steps) else 3 * count
        own = [v for v in values[first // 3 : end // 3] if v == v]
        if own:
            assert (low, high) == (min(own), max(own)) and mean == pytest.approx(statistics.fmean(own))
        else:
            assert low != low and high != high and mean != mean
    if finite:
        assert curve.lowest == (min(finite), 3 * values.index(min(finite)))
        assert curve.highest == (max(finite), 3 * values.index(max(finite)))
    assert curve.nonfinite == [3 * i for i, v in enumerate(values) if v != v][:1000]


def test_a_curve_forgets_what_was_taken_back() -> None:
    curve = Curve(most=4)
    for step in range(8):
        curve.add(step, float(step))
    curve.rewind(3)
    assert list(curve.steps) == [0, 1, 2, 3] and [step for step, _ in curve.tail] == [0, 1, 2, 3]
    curve.add(4, 9.0)
    assert list(curve.steps) == [0, 1, 2, 3, 4] and curve.high[-1] == 9.0


def test_bands_are_stretches_and_a_rewind_takes_back() -> None:
    bands = Bands()
    for step, level in enumerate([Level.GREEN] * 3 + [Level.ORANGE] * 4 + [Level.GREEN] * 2):
        bands.see(step, level)
    assert list(bands) == [Band(0, 3, Level.GREEN), Band(3, 7, Level.ORANGE), Band(7, 8, Level.GREEN)]
    bands.rewind(4)
    assert list(bands) == [Band(0, 3, Level.GREEN), Band(3, 4, Level.ORANGE)]


def test_an_incident_has_its_height_width_and_recovery() -> None:
    # 2.0 until step 9; 4, 8, 6 at 10, 11, 12; 2.0 again from 13 on.
    rows = [Row(step, {"loss": {10: 4.0, 11: 8.0, 12: 6.0}.get(step, 2.0)}) for step in range(20)]
    report = examined(rows, 'rule spike "too high" { when loss > 3 -> yellow because "{loss}" try "data", "lr" }')
    (one,) = report.incidents
    assert (one.onset, one.end, one.width) == (10, 13, 3)
    assert (one.before, one.peak, one.peak_step, one.height, one.recovery) == (2.0, 8.0, 11, 4.0, 2)
    assert [text for _, text in report.advice] == ["data", "lr"]
    assert report.counts == {Level.YELLOW: 1, Level.ORANGE: 0, Level.RED: 0}
    assert report.level is Level.GREEN and report.highest is Level.YELLOW


def test_an_incident_that_stands_has_no_end() -> None:
    rows = [Row(step, {"loss": 2.0 if step < 5 else 9.0}) for step in range(10)]
    report = examined(rows, "when loss > 3 for 2 steps -> orange")
    (one,) = report.incidents
    assert (one.onset, one.end, one.width, one.recovery) == (5, None, None, None)
    assert report.shares[Level.ORANGE] == pytest.approx(3 / 9)  # fires at the close of step 6; steps 6 to 9 of 0 to 9


def test_the_policy_names_what_a_run_logs_otherwise() -> None:
    rows = [Row(step, {"train/loss": 2.0, "norm of 1": 1.0, "norm of 2": 3.0}) for step in range(4)]
    policy = 'metric loss = "train/loss" metric grad_norm/layer/* = "norm of *" optional when loss > 3 -> red'
    report = examined(rows, policy)
    assert list(report.curves) == ["loss"]
    assert list(report.layers) == ["1", "2"]
    assert report.unread == ()


def test_the_list_says_well_not_well_and_why_it_could_not_look() -> None:
    checkup = """
        phase late = step > 100
        rule fine "the loss is negative" { when loss < 0 -> yellow }
        rule bad "the loss is high" { when loss > 3 -> yellow because "it is {loss}" }
        rule was "the loss was low" { when loss < 1.5 -> yellow because "it was {loss}" }
        rule blind "the norm is high" { when grad_norm > 3 -> yellow }
        rule young "no better for long" { when falling(loss, 50 samples) -> yellow }
        rule late_one "late" in phase late { when loss > 0 -> yellow }
    """
    rows = [Row(step, {"loss": {2: 1.0, 8: 4.0, 9: 4.0}.get(step, 2.0)}) for step in range(10)]
    items = {item.rule: item for item in examined(rows, "when loss > 99 -> red", checkup).items}
    assert {name: item.mark for name, item in items.items()} == {
        "fine": Mark.WELL,
        "bad": Mark.NOT_WELL,
        "was": Mark.WAS_NOT_WELL,
        "blind": Mark.NOT_LOOKED,
        "young": Mark.NOT_LOOKED,
        "late_one": Mark.NOT_LOOKED,
    }
    assert items["bad"].why == "since step 8: it is 4"
    assert items["was"].why == "once, last at step 2: it was 1"
    assert items["blind"].why == "not logged: grad_norm"
    assert items["late_one"].why == "the run was never in late, or not for long enough"


def test_standings_say_where_to_and_how_unsteady() -> None:
    dice = random.Random(5)
    loss, level, few = Curve(), Curve(), Curve()
    for step in range(300):
        loss.add(step, 4.0 - 0.01 * step + dice.gauss(0, 0.005))
        level.add(step, 1.0 + dice.gauss(0, 0.1))
    for step in range(5):
        few.add(step, float(step))
    found = {one.metric: one for one in standings({"loss": loss, "grad_norm": level, "val_loss": few})}
    assert found["loss"].trend == "falling" and found["grad_norm"].trend == "level" and found["val_loss"].trend == ""
    # The last 100 points fall from 2.0 to 1.01 by 0.01 a step, about a mean of 1.505.
    assert found["loss"].change == pytest.approx(-0.99 / 1.505, rel=0.02)
    assert found["loss"].scatter == pytest.approx(0.005 / 1.505, rel=0.3)
    assert found["loss"].level == pytest.approx(1.105, abs=0.01)  # the median of steps 280 to 299


def test_what_jumps_together_is_found() -> None:
    dice = random.Random(6)
    a, b, c = Curve(), Curve(), Curve()
    for step in range(150):
        jump = dice.gauss(0, 1)
        a.add(step, jump)
        b.add(step, 2 * jump + dice.gauss(0, 0.1))
        c.add(step, dice.gauss(0, 1))
    found = {(one.first, one.second): one for one in relations({"loss": a, "grad_norm": b, "lr": c})}
    assert found["loss", "grad_norm"].is_strong and found["loss", "grad_norm"].correlation > 0.9
    assert found["loss", "grad_norm"].pairs == 100
    assert not found["loss", "lr"].is_strong


def test_a_run_that_went_back_counts_what_stayed() -> None:
    rows: list[Row | Rewind] = [Row(step, {"loss": 9.0 if step == 7 else 2.0}) for step in range(10)]
    rows += [Rewind(4), *(Row(step, {"loss": 2.0}) for step in range(5, 10))]
    report = examined(rows, "when loss > 3 -> orange")
    assert report.attempts == 2 and report.rewinds == (4,)
    assert [band.level for band in report.bands] == [Level.GREEN]
    assert list(report.curves["loss"].high) == [2.0] * 10
