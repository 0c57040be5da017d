"""Laws over all generated curves: a new one is held to them by being there."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from vitalsdsl import Level, UsageError, generate, load, replay
from vitalsdsl.generate.draft import Draft
from vitalsdsl.ground.points import Rewind, Row

CURVES = generate.curves()
NAMED = """
healthy healthy_lm healthy_sft seed_ideal seed_lr_high seed_overfit seed_explode seed_underfit seed_noisy spike_benign
bloom_31219 spike_pathological spike_helpful spike_2_1_to_8_9 periodic grad_climb lr_hidden_by_clip plateau
slow_divergence oscillation nan_at hf_nan_filtered loss_scale_plunge loss_scale_sink amp_normal act_outlier
attn_logit_linear attn_logit_superlinear entropy_collapse gap_accel overfit_e3 val_snapshot throughput_drop30
straggler_6pct data_stall mem_leak mem_sawtooth hang resume_repeat_data resume_bad_optimizer warm_restart
data_mix_switch batch_size_ramp accum_x8 moe_collapse grpo_entropy_collapse reward_hack kl_runaway len_explosion
dpo_displacement rollback_segment out_of_order duplicate_rows metric_missing constant_metric clock_jump
""".split()


@pytest.fixture(scope="module")
def runs() -> dict[str, generate.Run]:
    return {name: generate.make(name, seed=5) for name in CURVES}


def same(a: generate.Run, b: generate.Run) -> bool:
    return (
        np.array_equal(a.steps, b.steps)
        and np.array_equal(a.times, b.times)
        and a.series.keys() == b.series.keys()
        and all(
            np.array_equal(np.ma.getmaskarray(a.series[n]), np.ma.getmaskarray(b.series[n]))
            and np.array_equal(a.series[n].filled(0.0), b.series[n].filled(0.0), equal_nan=True)
            for n in a.series
        )
    )


def test_no_curve_of_the_catalogue_is_missing() -> None:
    assert set(NAMED) <= CURVES.keys()


@pytest.mark.parametrize("name", CURVES)
def test_a_seed_is_a_run_and_another_seed_another(name: str, runs: dict[str, generate.Run]) -> None:
    again, other = generate.make(name, seed=5), generate.make(name, seed=6)
    assert same(runs[name], again) and again.truth == runs[name].truth
    # Without noise there is still the curve that the seed chose.
    assert any(not np.array_equal(again.series[n].filled(0.0), other.series[n].filled(0.0)) for n in again.series)


@pytest.mark.parametrize("name", CURVES)
def test_a_stride_keeps_the_points_of_its_steps_and_no_others(name: str, runs: dict[str, generate.Run]) -> None:
    stride = 50
    whole, thin = runs[name], generate.make(name, seed=5, stride=stride)
    here = whole.steps % stride == 0
    assert thin.stride == stride and thin.truth == whole.truth
    assert thin.steps.tolist() == whole.steps[here].tolist()
    for metric, column in thin.series.items():
        assert column.tolist() == pytest.approx(whole.series[metric][here].tolist(), nan_ok=True)


@pytest.mark.parametrize("name", CURVES)
def test_the_truth_is_about_this_run(name: str, runs: dict[str, generate.Run]) -> None:
    run, truth = runs[name], runs[name].truth
    assert Level.GREEN <= truth.level <= truth.most
    assert set(truth.shows) <= run.series.keys()
    if truth.is_healthy:
        assert truth.most is Level.GREEN and truth.onset is None and truth.end is None
        return
    assert truth.onset is not None and truth.end is not None
    assert run.steps.min() <= truth.onset <= truth.end <= run.steps.max()
    assert truth.most > Level.GREEN


@pytest.mark.parametrize("name", CURVES)
def test_numbers_are_finite_but_where_the_incident_is_that_they_are_not(
    name: str, runs: dict[str, generate.Run]
) -> None:
    for metric, column in runs[name].series.items():
        bad = runs[name].steps[~np.isfinite(column.filled(0.0))]
        if len(bad):
            assert name in ("nan_at", "hf_nan_filtered"), metric
            assert bad.min() >= (runs[name].truth.onset or 0)


@pytest.mark.parametrize("name", CURVES)
def test_a_curve_says_its_formula_and_its_source_or_that_nothing_is_wrong(name: str) -> None:
    curve = CURVES[name]
    assert len(curve.text) >= 40
    assert "Source: " in curve.text or curve.kind == "healthy" or name.startswith(("seed_", "rollback_"))


@pytest.mark.parametrize("name", CURVES)
def test_rows_are_what_the_columns_say(name: str, runs: dict[str, generate.Run]) -> None:
    run = runs[name]
    rows = [event for event in run.rows() if isinstance(event, Row)]
    assert len(rows) == len(run.steps)
    assert len(run.rows()) - len(rows) == len(run.rewinds)
    for at in (0, len(rows) // 2, len(rows) - 1):
        points = {n: c[at] for n, c in run.series.items() if not np.ma.getmaskarray(c)[at]}
        assert rows[at].values == pytest.approx(points, nan_ok=True)
        assert rows[at].step == run.steps[at]


def test_the_noise_of_a_seed_is_the_same_under_each_incident() -> None:
    calm, surge = generate.make("healthy", seed=2, length=2000), generate.make("grad_surge", seed=2, length=2000)
    assert calm.series["loss"].tolist() == surge.series["loss"].tolist()
    assert calm.series["grad_norm"][:1000].tolist() == surge.series["grad_norm"][:1000].tolist()
    assert surge.series["grad_norm"][1000:].tolist() == pytest.approx((6 * calm.series["grad_norm"][1000:]).tolist())


def test_noise_is_in_nats_and_can_be_asked_for() -> None:
    loud, silent = (generate.make("healthy", seed=1, length=5000, noise=noise) for noise in (0.2, 0.0))
    assert np.std(loud.series["loss"] - silent.series["loss"]) == pytest.approx(0.2, rel=0.05)


def test_correlated_noise_has_the_correlation_that_it_says() -> None:
    ripple = Draft(3, 50_000, None).correlated("x", 0.7)
    assert np.std(ripple) == pytest.approx(1, rel=0.03)
    assert np.corrcoef(ripple[1:], ripple[:-1])[0, 1] == pytest.approx(0.7, abs=0.02)


def test_a_healthy_run_starts_at_the_vocabulary_and_falls_to_its_floor() -> None:
    loss = generate.make("healthy", seed=4, noise=0.0).series["loss"]
    assert loss[0] == pytest.approx(math.log(50257))
    assert 1.6 < loss[-1] < 3.5 and np.all(np.diff(loss) < 0)


def test_the_published_numbers_stand_as_they_were_published() -> None:
    run = generate.make("bloom_31219", seed=1)
    at = {int(step): row for row, step in enumerate(run.steps)}
    loss, norm = run.series["loss"], run.series["grad_norm"]
    assert [loss[at[s]] for s in range(31214, 31223)] == [2.199, 2.22, 2.595, 2.242, 2.345, 5.098, 3.492, 3.213, 2.805]
    assert norm[at[31219]] == 960.4 and norm[at[31250]] == 0.267 and loss[at[31251]] == 2.236


def test_a_benign_spike_decays_with_its_time_and_ends_within_five_percent() -> None:
    run = generate.make("spike_benign", seed=1, noise=0.0, height=3.0, recovery=40.0)
    calm = generate.make("healthy", seed=1, noise=0.0, length=6000)
    excess = run.series["loss"] - calm.series["loss"]
    assert run.truth.onset == 2996 and run.truth.end is not None
    assert excess[3000] == pytest.approx(3) and excess[3040] == pytest.approx(3 / math.e)
    assert excess[run.truth.end] <= 0.05 * calm.series["loss"][3000] < excess[run.truth.end - 1]


@pytest.mark.parametrize("steps", [1, 30, 100])
def test_bad_batches_last_as_long_as_they_were_asked_to(steps: int) -> None:
    run = generate.make("bad_batches", seed=1, noise=0.0, steps=steps)
    high = run.steps[run.series["loss"] > 5]
    assert high[high > 100].tolist() == list(range(3000, 3000 + steps))
    assert run.truth.end == 3000 + steps - 1


def test_a_gap_on_the_border_grows_by_the_ratio_exactly() -> None:
    run = generate.make("gap_accel", seed=1, noise=0.0, length=9000, onset=4000)
    gap = (run.series["val_loss"] - run.series["loss"])[::1000]
    grown = np.diff(gap)
    assert grown[:4].tolist() == pytest.approx([0.05] * 4)
    assert (grown[4:] / grown[3:-1]).tolist() == pytest.approx([1.5] * 4)


def test_the_second_attempt_of_a_rollback_is_healthy() -> None:
    run = generate.make("rollback_segment", seed=1)
    calm = generate.make("healthy", seed=1, length=6000)
    (row,) = run.rewinds
    assert run.rows()[row] == Rewind(2499)
    assert run.steps[row] == 2500 and run.series["loss"][row:].tolist() == calm.series["loss"][2500:].tolist()


def test_a_policy_is_replayed_with_rewinds_and_without() -> None:
    policy = load("p", text="when loss > 20 -> red")
    for name in ("healthy", "nan_at"):
        run = generate.make(name, length=1500, stride=50)
        assert [t.id for t in run.replay(policy)] == [t.id for t in replay(policy, run.columns(), run=f"{name}-0")]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"name": "nan_att"}, "no curve `nan_att`: did you mean `nan_at`?"),
        ({"name": "nan_at", "height": 2}, "`nan_at` has no parameter `height`: it takes onset"),
        ({"name": "healthy", "height": 2}, "no parameter `height`: it takes no parameters of its own"),
        ({"name": "nan_at", "length": 100, "onset": 100}, "no 1 steps from step 100 on: make it longer"),
        ({"name": "healthy", "stride": 0}, "1 or more steps"),
    ],
)
def test_what_cannot_be_made_is_refused_in_a_line(asked: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        generate.make(**asked)


PAGE = Path(__file__).parents[1] / "docs" / "curves.md"
HEAD = """# Generated runs

`vitalsdsl.generate` makes runs that never were: healthy ones, and one for each known way to go wrong, with the truth about each. For
choosing thresholds, for tests of rules, and for knowing what a policy would have said and when.

```python
import vitalsdsl as vitals
from vitalsdsl import generate

run = generate.make("grad_surge", seed=1, length=3000, stride=10)  # the same run for the same arguments
run.truth  # kind, onset, end, the level to reach, the level not to exceed, where it shows
run.series["grad_norm"], run.steps, run.times  # columns; masked where a row has no point
run.replay(vitals.load("pack:default"))  # transitions
```

`stride` thins a run to every so-manieth step without changing its points, `noise` sets the standard deviation of the loss, and each
curve has parameters of its own. A new curve is a function in a file of `vitalsdsl/generate/families`. In the formulas t is the step and ε
white noise of variance 1; levels are what a good policy reaches at least, and what is not yet too severe.

This page is made of the curves: `python -m pytest tests/test_generate.py --update`.
"""


def page() -> str:
    lines = [HEAD]
    for name, curve in CURVES.items():
        levels = "healthy" if curve.kind == "healthy" else f"{curve.kind}; {curve.level.word} to {curve.most.word}"
        given = ", ".join(f"{key}={value}" for key, value in curve.parameters.items() if value is not None)
        lines += [f"## {name}", "", f"*{levels}*; {curve.length:,} steps" + (f"; {given}" if given else "") + ".", ""]
        lines += [curve.text, ""]
    return "\n".join(lines).rstrip() + "\n"


def test_the_page_is_made_from_the_curves(update: bool) -> None:
    if update:
        PAGE.write_text(page(), "utf-8")
    assert PAGE.read_text("utf-8") == page()
