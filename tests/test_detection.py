"""What is measured of policies on generated runs and short logs: that it is measured rightly, and a quick slice of it on a
shipped pack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.detecting import short_logs
from tests.detecting.judged_cases import HEIGHTS, QUICK, SUITES, Case
from tests.detecting.judging import Judge, Outcome, judge
from tests.detecting.measured import measured, noted
from tests.detecting.tables import TABLES, false_alarms, latencies, of_bloom, of_short_logs, table, too_severe
from vitalsdsl import Level, load
from vitalsdsl.generate import curves
from vitalsdsl.policies.packs import packs
from vitalsdsl.policies.policy import LoadedPolicy

PACK = "default" if "default" in packs() else "core"

SIMPLE = load("simple", text="""
policy simple
metric loss = "loss"
metric kl = "kl" optional
rule over "loss over 100" { when loss > 100 -> yellow -> orange after 10 steps }
rule late "past step 1000" { when loss > 0 and step >= 1000 -> yellow }
rule far "kl over 5" { when kl > 5 -> red }
""")  # fmt: skip


def case(curve: str, stride: int = 1, **parameters: object) -> Case:
    return Case("any", curve, curve, 1, stride, {"length": 2000, **parameters})


def test_an_alarm_is_counted_at_its_level_and_its_delay_is_in_steps_from_the_onset() -> None:
    high = judge(case("bad_batches", steps=100, height=200.0, onset=500), SIMPLE)
    assert [(a.step, a.rule, a.level) for a in high.alarms] == [
        (500, "over", Level.YELLOW),
        (510, "over", Level.ORANGE),
        (1000, "late", Level.YELLOW),
    ]
    assert high.delay(Level.YELLOW) == 0 and high.delay(Level.ORANGE) == 10 and high.delay(Level.RED) is None
    assert high.highest is Level.ORANGE and high.most is Level.YELLOW
    (row,) = too_severe([high])
    assert row == {"stride": 1, "group": "bad_batches", "runs": 1, "seen": 1, "too_severe": 1, "by": {"over": 1}}


def test_an_alarm_before_the_onset_does_not_find_the_incident() -> None:
    # `late` is yellow from step 1000, 500 steps before the incident, and shows nothing of it.
    early = judge(case("spike_pathological", onset=1500), SIMPLE)
    (row,) = latencies([early])
    assert (row["found"], row["alarm_before_onset"], row["wanted"]) == (0, 1, "orange")


@pytest.mark.parametrize("curve", ["duplicate_rows", "rollback_segment"])
def test_a_run_without_columns_is_judged_step_by_step(curve: str) -> None:
    # Rows that come twice and runs that go back have no columns; `far` reads a kl that neither logs. `rollback_segment`
    # goes back from step 1500 to 500, and passes step 1000 once more.
    outcome = judge(case(curve), SIMPLE)
    assert [a.step for a in outcome.alarms if a.rule == "late"] == [1000] * (2 if curve == "rollback_segment" else 1)
    assert {"late", "over"} <= outcome.known and "far" not in outcome.known


def test_rates_are_alarms_per_100_000_steps_of_the_runs_that_log_what_the_rule_reads() -> None:
    # Two runs of 2000 steps with one alarm each of `late`: 2 in 4000 steps are 50 in 100,000. `far` never had a kl to read.
    found = measured(SIMPLE, [judge(case("healthy"), SIMPLE), judge(case("healthy_sft"), SIMPLE)])
    assert found["digest"] == SIMPLE.digest
    assert found["rules"]["late"]["1"] == {"steps": 4000, "yellow": 50.0, "orange": 0.0, "red": 0.0}
    assert found["rules"]["over"]["1"]["yellow"] == 0.0
    assert "far" not in found["rules"]


def test_a_rule_is_measured_over_the_steps_of_its_own_runs_only() -> None:
    outcomes = [judge(case("healthy"), SIMPLE), judge(case("healthy_rl", length=1000), SIMPLE)]
    assert measured(SIMPLE, outcomes)["rules"]["far"]["1"]["steps"] == 1000


def test_steps_are_counted_in_the_runs_own_steps_at_every_stride() -> None:
    thick, thin = judge(case("healthy"), SIMPLE), judge(case("healthy", 50), SIMPLE)
    assert thick.steps == thin.steps == 2000


def test_an_incident_that_a_policy_cannot_see_is_left_out() -> None:
    unseen = judge(case("moe_collapse"), SIMPLE)
    assert unseen.blind and latencies([unseen]) == []


def test_false_alarms_are_told_by_rule_and_in_all_and_by_group() -> None:
    rows = false_alarms([judge(case("healthy"), SIMPLE), judge(case("healthy_sft", 10), SIMPLE)])
    late = [r for r in rows if r["rule"] == "late"]
    assert [(r["stride"], r["alarms"], r["runs"], r["per_100k"]) for r in late] == [(1, 1, 1, 50.0), (10, 1, 1, 50.0)]
    assert {r["group"] for r in rows} == {"all", "healthy", "healthy_sft"}


def test_a_run_that_a_policy_knows_nothing_of_makes_no_rate_smaller() -> None:
    rows = false_alarms(
        [judge(case("healthy"), SIMPLE), judge(case("healthy_dpo"), load("p", text="when kl > 5 -> red"))]
    )
    assert {row["steps"] for row in rows} == {2000}


def test_what_was_measured_of_a_pack_takes_the_place_of_what_was_before(tmp_path: Path) -> None:
    file = tmp_path / "measured.json"
    file.write_text(json.dumps({"simple": {"digest": "old"}, "other": {"digest": "kept"}}))
    noted(file, SIMPLE, [judge(case("healthy", 10), SIMPLE)])
    found = json.loads(file.read_text())
    assert found["other"] == {"digest": "kept"} and found["simple"]["digest"] == SIMPLE.digest


def test_short_logs_are_told_by_shape_and_in_all() -> None:
    # Of `wanted`, the first reaches what is wanted, the second is seen only; one of the two healthy ones is too severe.
    policy = load("simple", text="""
    metric loss = "loss", "lm loss"
    metric scale = "loss_scale"
    when loss > 13 for 5 samples -> orange
    when scale < 65536 -> orange
    when count(loss) >= 12 -> yellow
    """)  # fmt: skip
    cases = [
        Case("short", name, name, 0, 1)
        for name in ("diverges_from_row_three", "diverges_in_twelve", "half_precision", "low_from_the_start")
    ]
    rows = {row["shape"]: row for row in of_short_logs([judge(case, policy) for case in cases])}
    told = {shape: (row["runs"], row["reached"], row["seen"], row["too_severe"]) for shape, row in rows.items()}
    assert told == {
        "diverges_from_row_three": (1, 1, 1, 0),
        "diverges_in_twelve": (1, 0, 1, 0),
        "half_precision": (1, 0, 0, 1),
        "low_from_the_start": (1, 0, 0, 0),
        "ALL ill": (2, 1, 2, 0),
        "ALL healthy": (2, 0, 0, 1),
    }


@pytest.mark.parametrize("name", short_logs.shapes())
def test_a_short_log_is_the_seeds_and_short(name: str) -> None:
    one, again, other = (short_logs.make(name, seed) for seed in (3, 3, 4))
    assert [str(row) for row in one.rows()] == [str(row) for row in again.rows()]
    assert [str(row) for row in one.rows()] != [str(row) for row in other.rows()] or name == "dead_from_the_start"
    assert 1 <= len(one.rows()) <= 500
    assert one.truth.is_healthy is (short_logs.shapes()[name].level is Level.GREEN)
    assert one.truth.onset is None or one.truth.onset in one.steps


def test_every_incident_that_shows_in_a_metric_is_in_the_suite() -> None:
    wanted = {n for n, c in curves().items() if c.shows and c.kind != "healthy"}
    assert {c.curve for c in SUITES["latency"](QUICK)} == wanted - {"bloom_31219"}
    assert {c.curve for c in SUITES["healthy"](QUICK)} == {n for n, c in curves().items() if c.kind == "healthy"}


@pytest.fixture(scope="module")
def pack() -> LoadedPolicy:
    return load(f"pack:{PACK}")


PLAIN = ("nan_at", "hf_nan_filtered", "grad_surge", "accum_x8", "slow_divergence")


@pytest.fixture(scope="module")
def slice_(pack: LoadedPolicy) -> dict[str, list[Outcome]]:
    """Of each suite the first seeds at a stride of 50, the higher benign spikes, what is plain to see among the incidents;
    the first short log of each shape; and BLOOM's spike at every step of a shorter run."""
    wanted: dict[str, list[Case]] = {
        suite: [c for c in cases(QUICK) if c.stride == 50] for suite, cases in SUITES.items()
    }
    wanted["benign"] = [c for c in wanted["benign"] if c.parameters["height"] == max(HEIGHTS)]
    wanted["latency"] = [c for c in wanted["latency"] if c.curve in PLAIN]
    wanted["short"] = [c for c in SUITES["short"](QUICK) if c.seed == 0]
    wanted["bloom"] = [Case("bloom", "bloom_31219", "bloom_31219", 0, 1, {"length": 1000})]
    one = Judge(pack)
    return {suite: [one.judge(case) for case in cases] for suite, cases in wanted.items()}


def test_healthy_runs_stay_below_orange(slice_: dict[str, list[Outcome]]) -> None:
    assert not [(o.case, o.alarms) for o in slice_["healthy"] if o.highest >= Level.ORANGE]


def test_benign_spikes_stay_yellow(slice_: dict[str, list[Outcome]]) -> None:
    assert not [(o.case, o.alarms) for o in slice_["benign"] if o.highest > Level.YELLOW]


SPIKES = [("bad_batches", {"steps": 60}), ("bad_batches", {"steps": 100}),
          ("spike_benign", {"recovery": 30.0}), ("spike_benign", {"recovery": 100.0})]  # fmt: skip


@pytest.mark.parametrize(("curve", "shape"), SPIKES)
def test_a_spike_that_scatters_across_the_line_is_one_episode(
    curve: str, shape: dict[str, float], pack: LoadedPolicy
) -> None:
    # Not a nat high, in a log of each step: while it dies down, noise carries it across the line many times. What four rules
    # say of its loss and its gradient is four alarms and their ends.
    outcome = judge(Case("any", curve, curve, 2, 1, {**shape, "height": 0.6}), pack)
    told = [alarm.rule for alarm in outcome.alarms]
    assert "loss_spike" in told and len(told) == len(set(told)) <= 4


@pytest.mark.parametrize("curve", PLAIN)
def test_what_is_plain_to_see_is_orange(curve: str, slice_: dict[str, list[Outcome]]) -> None:
    (seen,) = [o for o in slice_["latency"] if o.case.curve == curve]
    assert seen.first(Level.ORANGE) is not None


def test_the_spike_of_bloom_is_seen_and_is_not_red(slice_: dict[str, list[Outcome]]) -> None:
    (yellow,) = [row for row in of_bloom(slice_["bloom"]) if row["level"] == "yellow"]
    assert yellow["found"] == 1
    assert all(o.highest < Level.RED for o in slice_["bloom"])


def test_nine_of_ten_short_logs_are_judged_rightly(slice_: dict[str, list[Outcome]]) -> None:
    rows = {row["shape"]: row for row in of_short_logs(slice_["short"])}
    ill, healthy = rows["ALL ill"], rows["ALL healthy"]
    assert ill["reached"] >= 0.9 * ill["runs"] and healthy["too_severe"] <= healthy["runs"] / 20
    assert ill["red"] == healthy["red"] == 0


def test_tables_can_be_printed(slice_: dict[str, list[Outcome]]) -> None:
    for suite, outcomes in slice_.items():
        lines = table(TABLES[suite](outcomes)).splitlines()
        assert len(lines) > 1 and lines[0].startswith(("stride", "curve", "shape"))
