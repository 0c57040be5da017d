"""What `vitals explain` promises of a rule, held against what replays of it do."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from cases import feed, policy_of
from reference.generator import random_case

from vitalsdsl import consequences
from vitalsdsl.acting.provisions import Provisions
from vitalsdsl.explain import in_english
from vitalsdsl.language.rules import Rule
from vitalsdsl.language.scope import Scope
from vitalsdsl.planning.warmup import Earliest
from vitalsdsl.streaming.stream import Stream

# Each with a run that begins its trouble as early as can be: step -> logged values.
TIGHT = {
    "a comparison": ("when x > 3 -> red", 0, lambda s: {"x": 9.0}),
    "for steps": ("when x > 3 for 20 steps -> red", 19, lambda s: {"x": 9.0}),
    "for samples": ("when x > 3 for 20 samples -> red", 19, lambda s: {"x": 9.0}),
    "k of n samples": ("when x > 3 for 3 of 5 samples -> red", 2, lambda s: {"x": 9.0}),
    "a window": ("when mean(x, 50 steps) > 3 -> red", 49, lambda s: {"x": 9.0}),
    "a window of samples in a window": (
        "when mean(max(x, 10 samples), 5 steps) > 3 -> red", 13, lambda s: {"x": 9.0}),
    "the headline": (
        "when x > 3*baseline(500) for 20 steps -> red", 518, lambda s: {"x": 9.0 if s >= 499 else 1.0}),
    "usual": ("when x > 2 * usual(x, 50 steps) -> red", 50, lambda s: {"x": 9.0 if s >= 50 else 1.0}),
    "a z-score": ("when zscore(x, 20 steps) > 4 -> red", 20, lambda s: {"x": 99.0 if s >= 20 else s % 3}),
    "a change": ("when delta(x, 30 steps) > 1 -> red", 30, lambda s: {"x": float(s)}),
    "either of two": ("when mean(x, 50 steps) > 3 or x > 3 -> red", 0, lambda s: {"x": 9.0}),
    "both of two": ("when mean(x, 50 steps) > 3 and x > 3 -> red", 49, lambda s: {"x": 9.0}),
    "an event with a span": ("event e = x > 3 for 5 steps when e -> red", 4, lambda s: {"x": 9.0}),
    "edges": ("event e = x > 3 when onsets(e, 200 steps) >= 3 -> red", 4, lambda s: {"x": 9.0 * (s % 2 == 0)}),
    "edges apart": (
        "event e = x > 3 apart 10 steps when onsets(e, 200 steps) >= 2 -> red", 10, lambda s: {"x": 9.0 * (s % 2 == 0)}),
    "missing": (
        'metric x = "x" every 1 steps when missing x for 100 steps -> red', 100, lambda s: {"y": 1.0}),
    "then no": (
        "event e = x > 3 when e then no x < 1 within 30 steps -> red", 30, lambda s: {"x": 9.0}),
    "then": ("when x > 3 then x > 2 within 30 steps -> red", 0, lambda s: {"x": 9.0}),
    "held in parentheses": ("when any(x/* > 3 for 7 steps) -> red", 6, lambda s: {"x/1": 9.0}),
    "two of three": (
        "when 2 of (x > 3, mean(x, 9 steps) > 3, mean(x, 30 steps) > 3) -> red", 8, lambda s: {"x": 9.0}),
    "as it was": ("when x before 25 steps > 3 -> red", 25, lambda s: {"x": 9.0}),
    "a phase": (
        "phase late = mean(x, 40 steps) > 3 rule r in phase late { when x > 3 -> red }", 39, lambda s: {"x": 9.0}),
    "a param": ("param n = 12 steps when x > 3 for n -> red", 11, lambda s: {"x": 9.0}),
    "a let": ("let m = mean(x, 10 steps) when m > 3 -> red", 9, lambda s: {"x": 9.0}),
    "not": ("when not x < 3 for 4 samples -> red", 3, lambda s: {"x": 9.0}),
}  # fmt: skip


def promised(text: str) -> list[int]:
    """The step of each clause's "not before", 0 where it is not said."""
    policy = policy_of(text)
    scope = Scope.of(policy)
    lines = [line for rule in policy.of(Rule) for line in in_english(rule, scope) if "Earliest" in line]
    return [int(found[1]) if (found := re.search(r"not before step (\d+)", line)) else 0 for line in lines]


@pytest.mark.parametrize("name", TIGHT)
def test_the_earliest_step_is_reached_where_trouble_begins_as_early_as_can_be(name: str) -> None:
    text, step, logged = TIGHT[name]
    assert promised(text) == [step]
    stream = Stream(policy_of(text), keep_all=True)
    came = [t for s in range(step + 2) for t in stream.push(logged(s), 1000 + s)] + stream.finish()
    assert came[0].step == 1000 + step, [(t.step, t.rule) for t in came]


def known_at(stream: Stream, known: dict[tuple[str, int], int]) -> None:
    for rule in stream.plan.rules:
        for place, clause in enumerate(rule.clauses):
            if clause.latest is not None and stream.closed is not None:
                known.setdefault((rule.name, place), stream.closed)


@pytest.mark.parametrize("start", range(0, 240, 20))
def test_no_replay_contradicts_it(start: int) -> None:
    looked = 0
    for seed in range(start, start + 20):
        case: dict[str, Any] = random_case(seed)
        policy = policy_of(case["policy"])
        scope = Scope.of(policy)
        stream, known = Stream(policy, keep_all=True), dict[tuple[str, int], int]()
        fired: dict[str, int] = {}
        rows = [row for row in case["rows"] if "rewind" not in row]
        for row in rows:
            for t in feed(stream, row):
                fired.setdefault(t.rule, t.step)
            known_at(stream, known)
        for t in stream.finish():
            fired.setdefault(t.rule, t.step)
        known_at(stream, known)
        first = stream.plan.graph.clock.first_step
        assert first is not None
        for rule in policy.of(Rule):
            clauses, earliest = rule.body.clauses, Earliest(scope)
            for place, clause in enumerate(clauses):
                if (rule.name, place) in known:
                    least = math.ceil(earliest.known(clause.condition).steps)
                    assert known[rule.name, place] - first >= least, f"seed {seed}: {rule.name}\n{case['policy']}"
            if rule.name in fired:
                looked += 1
                least = min(math.ceil(earliest.fires(clause, rule).steps) for clause in clauses)
                assert fired[rule.name] - first >= least, f"seed {seed}: {rule.name}\n{case['policy']}"
    assert looked >= 10  # of twenty random policies more than half fire


WHERE = {
    "an event and a let in it": (
        "let trend = median(loss, 50 samples) event e = loss > 2 * trend for 3 samples apart 9 steps when e -> red",
        [
            "where e = loss is above 2 times trend for 3 samples, no two beginnings within 9 steps",
            "where trend = the median of loss over 50 samples",
        ],
    ),
    "a phase, and a let on a metric": (
        "phase late = step > 100 let gap = val - loss on val rule r in phase late { when gap > 3 and gap > 4 -> red }",
        ["where late = step is above 100", "where gap = val minus loss, looked at where val has a point"],
    ),
    "what a message shows": (
        'let gap = val - loss rule r { when loss > 3 -> red because "{gap}" }',
        ["where gap = val minus loss"],
    ),
    "nothing": ("when loss > 3 -> red", []),
}


@pytest.mark.parametrize("name", WHERE)
def test_it_says_what_events_lets_and_phases_are(name: str) -> None:
    text, said = WHERE[name]
    policy = policy_of(text)
    [rule] = policy.of(Rule)
    assert [x for x in in_english(rule, Scope.of(policy)) if x.startswith("where")] == said


SAID = {
    "onsets are known from the start": (
        "event sp = loss > 3 when onsets(sp, 200 steps) >= 2 -> orange",
        ["Earliest detection: 2 steps after the trouble begins, and not before step 2 counted from the first point."],
    ),
    "edges of a reference, apart": (
        "event spike = loss > 2*usual(loss, 50 steps) apart 10 steps when onsets(spike, 200 steps) >= 3 -> orange",
        ["Earliest detection: 20 steps after the trouble begins, and not before step 70 counted from the first point."],
    ),
    "missing takes its length": (
        "when missing val_loss for 90 steps -> yellow",
        [
            "Earliest detection: 90 steps after the trouble begins, and not before step 90 counted from the first point."
        ],
    ),
    "a recovery that does not come takes its length": (
        "event spike = loss > 3 when spike then no loss < 1.2 within 30 steps -> orange",
        ["Earliest detection: 30 steps after the trouble begins, and not before step 30 counted from the first point."],
    ),
    "time is said and not counted as steps": (
        "when mean(loss, 10 min) > 3 for 5 min -> orange",
        ["Needs 600 s of the run before it can know.", "Earliest detection: 300 s after the trouble begins."],
    ),
    "what the present is compared with is no delay": (
        "when loss > 2 * mean(loss, 10 steps) before 30 steps for 2 steps -> orange",
        [
            "Needs 40 steps of the run before it can know.",
            "Earliest detection: 1 step after the trouble begins, and not before step 40 counted from the first point.",
        ],
    ),
    "nothing at all": ("when loss > 3 -> orange", ["Earliest detection: at the first point of trouble."]),
    "windows alone": (
        "when mean(loss, 50 samples) > 3 -> orange",
        [
            "Needs 50 points of the run before it can know.",
            "Earliest detection: at the first point of trouble, and not before step 49 counted from the first point.",
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_what_it_says_of_warm_up_and_latency(name: str) -> None:
    text, said = SAID[name]
    policy = policy_of(text)
    [rule] = policy.of(Rule)
    assert [x for x in in_english(rule, Scope.of(policy)) if x.startswith(("Needs", "Earliest"))] == said


ACTS = """
level yellow do tag
level orange do alert, notify("team")
limit rollback 2 per 1000 steps
nonfinite -> red do pause
rule hot {
  when loss > 3 -> yellow -> orange after 5 steps -> red after 9 steps
  when loss > 9 -> red do notify("ops")
  cooldown 500 steps
  inhibits slow, quiet
}
rule slow { when speed < 1 -> orange do checkpoint, stop }
rule quiet { when loss > 4 -> red shadow }
rule off { when loss > 5 -> red disabled }
"""


def test_it_says_what_each_level_does_whom_it_tells_and_what_holds_it_back() -> None:
    policy = policy_of(ACTS)
    provisions = Provisions(policy)
    said = {rule.name: consequences.of_rule(rule, provisions) for rule in policy.of(Rule)}
    assert said == {
        "hot": [
            "On yellow: tag.", 'On orange: alert, notify("team").',
            'On red: alert, tag, ask for rollback(lr: 90%) or, by another clause, notify("ops").',
            "Then it is told no more for 500 steps, unless it gets worse.",
            "While it is not green, nobody is told of slow, quiet.",
        ],
        "slow": ["On orange: alert, tag, ask for checkpoint, ask for stop."],
        "quiet": [],
        "off": [],
    }  # fmt: skip
    assert consequences.of_policy(policy, provisions) == [
        "On NaN or infinity in any metric that is read: red: alert, tag, ask for pause.",
        "At most 2 rollback per 1000 steps.", "Messages go to ops, team, by the addresses in vitals.toml.",
    ]  # fmt: skip
    plain = policy_of("nonfinite off when loss > 3 -> yellow")
    assert consequences.of_policy(plain, Provisions(plain)) == []
