"""The invariants of the language page (§8), and what a stream promises beyond single cases."""

from __future__ import annotations

import math
import random
import time
from typing import Any

import pytest
from cases import CASES, feed, load, outcome, policy_of, run, without_superseded
from reference.generator import random_case

from vitalsdsl.ground.errors import StateError
from vitalsdsl.ground.source import Source
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.parser import parse
from vitalsdsl.language.rules import Level
from vitalsdsl.streaming.history import KEPT_SNAPSHOTS, SNAPSHOT_EVERY
from vitalsdsl.streaming.stream import Stream

SEEDS = range(7_000, 7_040)


def forward_case(seed: int) -> tuple[str, list[dict[str, Any]]]:
    case = random_case(seed)
    rows = sorted((r for r in case["rows"] if "rewind" not in r), key=lambda r: r["step"])
    return case["policy"], rows


@pytest.mark.parametrize("seed", SEEDS)
def test_appending_points_never_changes_earlier_transitions(seed: int) -> None:
    text, rows = forward_case(seed)
    policy = policy_of(text)
    cut = random.Random(seed).randrange(1, len(rows))
    last = rows[cut - 1]["step"]
    whole = [t for t in outcome(run(policy, rows)) if t[0] < last]
    part = [t for t in outcome(run(policy, rows[:cut])) if t[0] < last]
    assert part == whole


@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_of_metrics_inside_a_step_does_not_matter(seed: int) -> None:
    text, rows = forward_case(seed)
    shuffle = random.Random(seed)
    mixed = []
    for row in rows:
        items = [(k, v) for k, v in row.items() if k not in ("step", "_time")]
        shuffle.shuffle(items)
        fixed = {k: v for k, v in row.items() if k in ("step", "_time")}
        mixed += [{**fixed, k: v} for k, v in items] or [fixed]
    policy = policy_of(text)
    assert outcome(run(policy, mixed)) == outcome(run(policy, rows))


@pytest.mark.parametrize("seed", SEEDS)
def test_going_back_and_feeding_the_same_points_is_as_if_never_left(seed: int) -> None:
    text, rows = forward_case(seed)
    policy = policy_of(text)
    at = random.Random(seed).randrange(1, len(rows))
    back = random.Random(seed + 1).randrange(0, at)
    step = rows[back]["step"]
    again = [row for row in rows[:at] if row["step"] > step]
    stream = Stream(policy, keep_all=True)
    for row in rows[:at]:
        feed(stream, row)
    rewound = stream.rewind(step)
    got = [t for row in again + rows[at:] for t in feed(stream, row)] + stream.finish()
    straight = [t for t in run(policy, rows) if t.step > step]
    assert outcome(without_superseded(got)) == outcome(straight)
    assert all(t.attempt == 1 for t in got)
    assert all(t.step == step for t in rewound if t.reason == "superseded")


def doubly_negated(text: str) -> str:
    """The policy with each of its conditions in `not (not …)`."""
    conditions: list[ex.Expression] = []
    for statement in parse(Source("p.vitals", text)).policy.statements:
        if isinstance(statement, rules.Rule):
            clear = statement.body.clear
            conditions += [clause.condition for clause in statement.body.clauses]
            conditions += [clear.condition] if clear is not None and clear.condition is not None else []
        elif isinstance(statement, (rules.Event, rules.Phase)):
            conditions.append(statement.condition)
    for span in sorted((c.span for c in conditions), key=lambda span: -span.start):
        text = f"{text[: span.start]}not (not ({span.text})){text[span.end :]}"
    return text


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_wrapping_a_condition_in_two_nots_changes_nothing(path: Any) -> None:
    case = load(path)
    wrapped = doubly_negated(case["policy"])
    assert wrapped.count("not (not (") > case["policy"].count("not (not (") or "when" not in case["policy"]
    assert outcome(run(policy_of(wrapped), case["rows"])) == outcome(run(policy_of(case["policy"]), case["rows"]))


@pytest.mark.parametrize("seed", SEEDS)
def test_wrapping_a_condition_of_a_random_policy_in_two_nots_changes_nothing(seed: int) -> None:
    text, rows = forward_case(seed)
    assert outcome(run(policy_of(doubly_negated(text)), rows)) == outcome(run(policy_of(text), rows))


def test_a_test_for_nan_in_two_nots_takes_over_from_the_guard() -> None:
    rows = [{"step": 1, "loss": math.nan}]
    plain, wrapped = ("when loss is nan or lr > 1 -> red", "when not (not (loss is nan or lr > 1)) -> red")
    assert outcome(run(policy_of(plain), rows)) == outcome(run(policy_of(wrapped), rows))


@pytest.mark.parametrize("path", CASES[::6], ids=lambda p: p.stem)
def test_two_runs_share_no_state(path: Any) -> None:
    case = load(path)
    policy = policy_of(case["policy"])
    alone = outcome(run(policy, case["rows"]))
    one, other = Stream(policy, keep_all=True), Stream(policy, keep_all=True)
    out = []
    for row in case["rows"]:
        out += feed(one, row)
        feed(other, {k: (v if k in ("step", "rewind", "_time") else 7.0) for k, v in row.items()})
    assert outcome(out + one.finish()) == alone


def test_a_rewind_further_back_than_was_kept_says_so_and_starts_anew() -> None:
    stream = Stream(policy_of("when x > 2 -> red"))
    for step in range(SNAPSHOT_EVERY * (KEPT_SNAPSHOTS + 2)):
        stream.push({"x": 1.0 if step < 50 else 3.0}, step)
    back = stream.rewind(10)
    assert stream.history_lost
    assert [(t.to, t.reason) for t in back if t.reason == "superseded"] == [(Level.GREEN, "superseded")]


def test_a_rewind_within_what_was_kept_goes_on_from_there() -> None:
    policy = policy_of("when x > 2 * baseline(x, 100 steps) for 5 steps -> red")
    live, kept = Stream(policy), Stream(policy, keep_all=True)
    for stream in (live, kept):
        for step in range(SNAPSHOT_EVERY * 7):
            stream.push({"x": 1.0}, step)
        stream.rewind(SNAPSHOT_EVERY * 6)
    out = [[t for s in range(6001, 6020) for t in stream.push({"x": 3.0}, s)] for stream in (live, kept)]
    assert not live.history_lost
    assert outcome(out[0]) == outcome(out[1]) == [(6005, "x_red", None, "green", "red", 6001)]


def test_late_points_count_at_the_open_step_if_they_are_their_metrics_newest() -> None:
    stream = Stream(policy_of("when val > 5 -> yellow"))
    stream.push({"loss": 1.0}, 10)
    stream.push({"val": 1.0}, 5)
    stream.push({"loss": 1.0}, 11)
    stream.push({"val": 9.0}, 4)
    assert stream.late_points == 1
    assert [t.step for t in stream.push({"val": 9.0}, 8) + stream.finish()] == [11]


def test_a_log_call_after_its_step_closed_counts_at_the_next() -> None:
    stream = Stream(policy_of("when val > 5 -> yellow"))
    stream.push({"loss": 1.0}, 10)
    stream.close()
    stream.push({"val": 9.0}, 10)
    stream.push({"loss": 1.0}, 11)
    assert [t.step for t in stream.close()] == [11]


def test_stalled_is_seen_by_the_clock_and_in_replay_by_the_points_times() -> None:
    text = "when stalled for 10 min -> orange"
    live = Stream(policy_of(text))
    live.push({"loss": 1.0}, 1, 1000.0)
    live.close()
    assert live.tick(1500.0) == []
    assert outcome(live.tick(1700.0)) == [(1, "rule_orange", None, "green", "orange", 1)]
    live.push({"loss": 1.0}, 2, 1800.0)
    assert outcome(live.close()) == [(2, "rule_orange", None, "orange", "green", None)]
    rows = [{"step": 1, "_time": 1000.0, "loss": 1.0}, {"step": 2, "_time": 1800.0, "loss": 1.0}]
    assert [t[:2] + t[4:5] for t in outcome(run(policy_of(text), rows))] == [
        (1, "rule_orange", "orange"),
        (2, "rule_orange", "green"),
    ]


def test_state_of_another_policy_or_in_pieces_is_refused_in_words() -> None:
    one = Stream(policy_of("when x > 2 -> red"), digest="sha256:a")
    one.push({"x": 1.0}, 1)
    state = one.save()
    with pytest.raises(StateError, match="another policy"):
        Stream(policy_of("when x > 2 -> red"), digest="sha256:b").load(state)
    with pytest.raises(StateError, match="damaged"):
        Stream(policy_of("when x > 2 -> red"), digest="sha256:a").load({**state, "state": {}})


def test_a_member_that_is_first_logged_late_is_judged_from_then_on() -> None:
    stream = Stream(policy_of("rule b each m in act/layer_* { when m > 5 for 2 samples -> orange }"))
    out = []
    for step in range(6):
        row = {"act/layer_0": 1.0} if step < 3 else {"act/layer_0": 1.0, "act/layer_1": 9.0}
        out += stream.push(row, step)
    assert outcome(out + stream.finish()) == [(4, "b", "act/layer_1", "green", "orange", 3)]


def test_all_members_that_come_in_one_step_join() -> None:
    stream = Stream(policy_of("rule b each m in act/layer_* { when m > 5 -> orange }"))
    out = stream.push({"act/layer_0": 9.0, "act/layer_1": 9.0, "act/layer_2": 1.0}, 0) + stream.finish()
    assert [t.member for t in out] == ["act/layer_0", "act/layer_1"]


def test_a_range_is_a_part_of_a_declared_family() -> None:
    text = 'metric act/*/x = "activations/*/max"\nwhen any(act/{0..3}/x > 3) -> orange'
    out = []
    stream = Stream(policy_of(text))
    for step, name in enumerate(["activations/7/max", "activations/2/max"]):
        out += stream.push({name: 9.0}, step)
    assert [t.step for t in out + stream.finish()] == [1]


def cost_of_a_step(window: int) -> float:
    rules = [
        f"when m{i % 10} > {50 + i} * {f}(m{i % 10}, {window} steps) for 20 steps -> yellow"
        for i, f in enumerate(["mean", "std", "max", "usual", "baseline"] * 10)
    ]
    stream = Stream(policy_of("\n".join(rules)))
    noise = random.Random(0)
    steps = window + 2_000  # ten samples, as the machine may be busy with something else
    best = math.inf
    for start in range(0, steps, 200):
        rows = [{f"m{i}": noise.random() + 1 for i in range(10)} for _ in range(200)]
        began = time.process_time()
        for offset, row in enumerate(rows):
            stream.push(row, start + offset)
        if start >= window:
            best = min(best, (time.process_time() - began) / 200)
    return best


def test_a_step_costs_the_same_however_long_the_windows_are() -> None:
    short, long = cost_of_a_step(500), cost_of_a_step(50_000)
    print(f"one step of 10 metrics and 50 rules: {short * 1e6:.0f} us at window 500, {long * 1e6:.0f} us at 50,000")
    assert long < 2 * short


def test_a_message_tells_the_reference_that_decided_and_not_what_it_learnt_thereby() -> None:
    """Frozen by an event that is not so, `usual` takes the deciding point in, and is 1.3 from then on."""
    text = (
        'event wild = x > 100\nrule r "t" { when x > 3 * usual(x, 5 samples, unless: wild) -> yellow\n'
        '  because "usually {usual(x, 5 samples, unless: wild):.2f}, by a tenth more {1.1 * usual(x, 5 samples, unless: wild):.2f}" }'
    )
    stream = Stream(policy_of(text))
    rows = [1.0, 1.1, 1.2, 1.3, 1.4, 9.0]
    told = [t for step, x in enumerate(rows) for t in stream.push({"x": x}, step)] + stream.finish()
    assert [(t.step, t.message, t.values["usual(x, 5 samples, unless: wild)"]) for t in told] == [
        (5, "usually 1.20, by a tenth more 1.32", 1.2)
    ]
