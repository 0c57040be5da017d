"""Mistakes in a sentence, and what is said of them. The golden file is rewritten by `pytest --update` and read in review."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from vitalsdsl.actions.base import registry
from vitalsdsl.ground.source import Source
from vitalsdsl.language.digest import digest
from vitalsdsl.language.layout import format_policy
from vitalsdsl.language.mistakes.place import ACTIONS
from vitalsdsl.language.parser import parse
from vitalsdsl.policies.policy import load, read
from vitalsdsl.runs.recorded import replay

GOLDEN = Path(__file__).parent / "golden" / "syntax.txt"
MISTAKES = """\
when loss > 3 for 20 -> red
when loss > 3 for 20 seconds -> red
when loss > 3 for 100ms -> red
when loss = 3 -> red
when loss => 3 -> red
when loss > 3 && x > 2 -> red
when loss > 3 || x > 2 -> red
when !loss > 3 -> red
when loss ≥ 3 -> red
when loss > 3 => red
when loss > 3
when loss > 3 -> amber
when loss > 3 -> alert
when loss > 3 ->
when grad norm > 3 -> red
when 'grad norm' > 3 -> red
when “loss” > 3 -> red
when "loss > 3 -> red
when (loss > 3 -> red
when loss > 3) -> red
when (a + b)/2 > 3 -> red
when loss > .5 -> red
when loss > 1,000 -> red
when loss > 3x -> red
wen loss > 3 -> red
metirc loss = "x"
if loss > 3 -> red
When loss > 3 -> red
when loss > 3 AND x > 2 -> red
let gap =
let gap loss - 2
event e loss > 3
rule a when loss > 3 -> red
rule a { }
rule a { when loss > 3 -> red
rule a { when loss > 3 -> red cooldwn 5 steps }
when loss > -> red
when > 3 -> red
when for > 3 -> red
when each > 3 -> red
when missing loss -> red
when a then b -> red
when mean (loss, 5 steps) > 3 -> red
when Mean(loss, 5 steps) > 3 -> red
when loss > 3; -> red
when loss[10] > 3 -> red
when loss > 3 -> red; when x > 2 -> red
// comment
when loss > 3 for 5 steps red
when baseline 500 > 3 -> red
when loss > 5 % -> red
when a > 3 -> red after 5 -> orange
cooldown 500 steps
rules:
  a: b
def f(x): return 1
when loss > 3 for 3 of 5 -> red
when usual(loss, 500) * 2 < loss for 10 iters -> red
param k 3
when loss is NaN -> red
metric loss "x"
when größe > 3 -> orange
when train/größe > ٣ -> orange
when loss > ٣ -> orange
when loss > 3 for ２０ steps -> orange
rule clear { when loss > 3 -> orange }
override clear { cooldown 5 steps }
when act/größe_* > 3 -> red
when x > 3 -> ŕed
wünsch loss > 3 -> red
when any(act/größe_* > 3) -> red
when grad_norm > 3*baseline(500 stps) for 20 steps -> orange
when loss > 3 for 20 steps - > orange
when loss > 3 for twenty steps -> orange
when loss > 3 for -20 steps -> orange
when loss >> 3 -> orange
when loss === 3 -> orange
when loss == nan -> orange
when mean(loss, window: 500 steps) > 3 -> orange
for 20 steps when loss > 3 -> orange
when loss > 3 -> orange for 20 steps
rule a { -> orange when loss > 3 }
rule a { when loss > 3 -> orange do alert pause }
rule a { when loss > 3 -> orange because loss is high }
rule a { when loss > 3 -> orange because "loss is {}" }
when any act/* > 3 -> orange
rule r each act/* { when act > 3 -> orange }
rule r each m in act { when m > 3 -> orange }
rule r for each m in act/* { when m > 3 -> orange }
policy "llm"
metric loss = "a" stale 100 steps
param k = 3 in 1.5 to 10
param k = loss
level orange alert, tag
limit rollback 3 / 10000 steps
nonfinite -> off
rule a { when loss > 3 -> orange unknown ignore }
rule a { when loss > 3 -> orange clear loss < 2 }
rule "my rule" { when loss > 3 -> orange }
rule my-rule { when loss > 3 -> orange }
rule my rule { when loss > 3 -> orange }
rule a: when loss > 3 -> orange
profile small k = 3
use pack:core
when a > 1 and b > 2 then c > 3 within 10 steps and d > 4 -> orange
when missing loss > 3 -> orange
when stalled -> orange
when loss at 100 > 3 -> orange
when loss at step loss > 3 -> orange
when loss between 1 and 3 -> orange
when 1 < loss > 3 -> orange
when loss > 3 unless step < 1000 -> orange
when loss > 3 and and x > 2 -> orange
when loss > 3 -> orange else -> yellow
when loss > 3 -> orange, pause
when loss > 3 -> orange pause
when loss > 3 -> orange and pause, tag
when loss > 3 -> orange, red
when loss > 3 -> orange, slack
when loss > 3 -> orange "loss is too high"
rule a { when loss > 3 -> orange "loss is too high" }
rule a { when loss > 3 -> orange because "{rule} fired at {metric}" }
rule r in phase not warmup { when loss > 3 -> orange }
rule r in warmup { when loss > 3 -> orange }
policy my-policy
policy "My policy"
let my-gap = loss - 3
use "x.vitals" as my-rules
profile strict { }
override core.spike { }
disable a
disable a "noisy"
limit rollback 3
limit rollback
level orange
when loss rises by 10% -> orange
when loss falls by 0.5 -> orange
when loss increases -> orange
when loss stays above 3 -> orange
when loss is above 3 * baseline(500) for 20 steps -> orange
when loss spikes -> orange
when loss is stuck -> orange
when x < 80% of baseline(500) -> orange
when x >= 3x baseline(500) -> orange
when x > twice baseline(500) -> orange
when x > 3 baseline(500) -> orange
when 2 of a > 1, b > 1 -> orange
""".splitlines()
MENDED = [
    ("when größe > 3 -> orange", '"größe"', 'when "größe" > 3 -> orange'),
    ("let größe = 2 * loss", "groesse", "let groesse = 2 * loss"),
    ("when loss > ٣ -> orange", "write `3`", "when loss > 3 -> orange"),
    ("when any(act/größe_* > 3) -> orange", 'metric act/groesse_* = "act/größe_*"',
     'metric act/groesse_* = "act/größe_*"\nwhen any(act/groesse_* > 3) -> orange'),
    ("let at = loss", "at_let", "let at_let = loss"),
    ("event for = loss > 3", "for_event", "event for_event = loss > 3"),
    ("rule clear { when x > 3 -> orange }", "clear_rule", "rule clear_rule { when x > 3 -> orange }"),
    ("rule r each for in act/* { when x > 3 -> orange }", "for_member",
     "rule r each for_member in act/* { when for_member > 3 -> orange }"),
    ("when at > 3 -> orange", 'write `"at"`', 'when "at" > 3 -> orange'),
    ("when loss == nan -> orange", "`loss is nan`", "when loss is nan -> orange"),
    ("when loss > 3 for 20 stps -> orange", "`20 steps`", "when loss > 3 for 20 steps -> orange"),
    ("when loss > 3 - > orange", "write `->`", "when loss > 3 -> orange"),
    ("when loss >> 3 -> orange", "write `>`", "when loss > 3 -> orange"),
    ("when loss > 3 -> orange for 20 steps", "`when CONDITION for 20 steps -> orange`", "when x > 3 for 20 steps -> orange"),
    ("rule a { when x > 3 -> orange because so it is }", '`"so it is"`',
     'rule a { when x > 3 -> orange because "so it is" }'),
    ("rule a { when x > 3 -> orange do alert pause }", "alert, pause", "rule a { when x > 3 -> orange do alert, pause }"),
    ("rule my-rule { when x > 3 -> orange }", "rule my_rule {", "rule my_rule { when x > 3 -> orange }"),
    ('rule "my rule" { when x > 3 -> orange }', "rule my_rule", "rule my_rule { when x > 3 -> orange }"),
    ("when stalled -> orange", "`stalled for 10 min`", "when stalled for 10 min -> orange"),
    ("when missing loss -> orange", "`missing loss for 100 steps`", "when missing loss for 100 steps -> orange"),
    ("when loss between 1 and 3 -> orange", "`1 < loss < 3`", "when 1 < loss < 3 -> orange"),
    ("when loss > 3 unless step < 9 -> orange", "`and not`", "when loss > 3 and not step < 9 -> orange"),
    ("when loss at 100 > 3 -> orange", "`at step 100`", "when loss at step 100 > 3 -> orange"),
    ("nonfinite -> off", "`nonfinite off`", "nonfinite off"),
    ("use pack:core", '`"pack:core"`', 'use "pack:core"'),
    ("rule r each act/* { when x > 3 -> orange }", "`each m in act/*`", "rule r each m in act/* { when m > 3 -> orange }"),
    ("rule r each m in act { when m > 3 -> orange }", "`each m in act/*`", "rule r each m in act/* { when m > 3 -> orange }"),
    ("when x > 3 -> orange do alert, slack", 'write `notify("slack")`', 'when x > 3 -> orange do alert, notify("slack")'),
    ("when x > 3 -> orange do notify slack", 'write `notify("slack")`', 'when x > 3 -> orange do notify("slack")'),
    ("when x does not improve -> orange", "write `not falling(x, 1000 steps)`", "when not falling(x, 1000 steps) -> orange"),
    ("phase warmup = step < 9\nwhen x > 3 during warmup -> orange", "write `and`",
     "phase warmup = step < 9 when x > 3 and warmup -> orange"),
    ('rule a { when x > 3 -> orange because "high"\n  do notify("team") }', 'write `when x > 3 -> orange do notify("team")`',
     'rule a { when x > 3 -> orange do notify("team") because "high" }'),
    ('rule a {\n  do notify("team")\n  when x > 3 -> orange }', 'write `when CONDITION -> LEVEL do notify("team")`',
     'rule a { when x > 3 -> orange do notify("team") }'),
    ("phase end = step > 9\nrule a { in phase end when x > 3 -> orange }", "write `rule a in phase end { … }`",
     "phase end = step > 9\nrule a in phase end { when x > 3 -> orange }"),
    ("rule a in phase late { when x > 3 -> orange }", "define it: `phase late = progress >= 80%`",
     "phase late = progress >= 80%\nrule a in phase late { when x > 3 -> orange }"),
    ("phase end = step > 9\nrule a in phase begin { when x > 3 -> orange }",
     "define it: `phase begin = step < 1000`; `end` is defined",
     "phase begin = step < 1000\nphase end = step > 9\nrule a in phase begin { when x > 3 -> orange }"),
    ("when x > 3 -> orange do rolback", "there are `alert`, `checkpoint`, `lr`", "when x > 3 -> orange do alert"),
    ("when x > 3 -> orange do alrt", "did you mean `alert`?", "when x > 3 -> orange do alert"),
    ("when x > 3 -> orange, pause", "write `-> orange do pause`", "when x > 3 -> orange do pause"),
    ("when x > 3 -> orange pause", "write `-> orange do pause`", "when x > 3 -> orange do pause"),
    ("when x > 3 -> orange and pause, tag", "write `-> orange do pause, tag`", "when x > 3 -> orange do pause, tag"),
    ("when x > 3 -> orange, red", "`-> orange -> red after 100 steps`", "when x > 3 -> orange -> red after 100 steps"),
    ('when x > 3 -> orange "too high"', 'write `rule NAME { when x > 3 -> orange because "too high" }`',
     'rule NAME { when x > 3 -> orange because "too high" }'),
    ('rule a { when x > 3 -> orange "too high" }', 'write `because "too high"`',
     'rule a { when x > 3 -> orange because "too high" }'),
    ('rule a { when x > 3 -> orange because "{rule}: {x}" }', "leave it out", 'rule a { when x > 3 -> orange because "{x}" }'),
    ("rule a: when x > 3 -> orange", "write `rule a { when x > 3 -> orange }`", "rule a { when x > 3 -> orange }"),
    ("rule a when x > 3 -> orange", "write `rule a { when x > 3 -> orange }`", "rule a { when x > 3 -> orange }"),
    ("phase warmup = step < 9\nrule r in phase not warmup { when x > 3 -> orange }",
     "`phase main = not warmup`, then write `in phase main`",
     "phase warmup = step < 9 phase main = not warmup rule r in phase main { when x > 3 -> orange }"),
    ("phase warmup = step < 9\nrule r in warmup { when x > 3 -> orange }", "write `in phase warmup`",
     "phase warmup = step < 9 rule r in phase warmup { when x > 3 -> orange }"),
    ("policy my-policy", 'write `policy my_policy "my-policy"`', 'policy my_policy "my-policy"'),
    ('policy "My policy"', 'write `policy my_policy "My policy"`', 'policy my_policy "My policy"'),
    ("let my-gap = x - 3", "write `let my_gap = …`", "let my_gap = x - 3"),
    ("param k = 3 profile strict { }", "such as `k = 3`", "param k = 3 profile strict { k = 3 }"),
    ("rule a { when x > 3 -> orange }\noverride a { }", "`cooldown 500 steps`",
     "rule a { when x > 3 -> orange } override a { cooldown 500 steps }"),
    ("rule a { when x > 3 -> orange }\ndisable a", 'write `disable a because "…"`',
     'rule a { when x > 3 -> orange } disable a because "…"'),
    ('rule a { when x > 3 -> orange }\ndisable a "noisy"', 'write `disable a because "noisy"`',
     'rule a { when x > 3 -> orange } disable a because "noisy"'),
    ("limit rollback 3", "write `limit rollback 3 per 10000 steps`", "limit rollback 3 per 10000 steps"),
    ("limit stop", "write `limit stop 3 per 10000 steps`", "limit stop 3 per 10000 steps"),
    ("level orange", "write `level orange do alert, tag`", "level orange do alert, tag"),
    ("when x rises by 10% -> orange", "write `growth(x, 100 steps) > 10%`", "when growth(x, 100 steps) > 10% -> orange"),
    ("when x falls by 0.5 -> orange", "write `delta(x, 100 steps) < -0.5`", "when delta(x, 100 steps) < -0.5 -> orange"),
    ("when x increases -> orange", "write `rising(x, 100 steps)`", "when rising(x, 100 steps) -> orange"),
    ("when x stays above 3 -> orange", "write `x > 3 for 20 steps`", "when x > 3 for 20 steps -> orange"),
    ("when x exceeds 3 * baseline(500) -> orange", "write `x > 3 * baseline(500)`", "when x > 3 * baseline(500) -> orange"),
    ("when x is at least 3 -> orange", "write `x >= 3`", "when x >= 3 -> orange"),
    ("when x drops below 3 -> orange", "write `x < 3`", "when x < 3 -> orange"),
    ("when mean(x, 9 steps) spikes -> orange", "write `mean(x, 9 steps) > 1.5 * usual(mean(x, 9 steps), 500 steps)`",
     "when mean(x, 9 steps) > 1.5 * usual(mean(x, 9 steps), 500 steps) -> orange"),
    ("when x is flat -> orange", "write `flat(x, 1000 steps)`", "when flat(x, 1000 steps) -> orange"),
    ("when x disappears -> orange", "write `missing x for 100 steps`", "when missing x for 100 steps -> orange"),
    ("when x doubles -> orange", "write `growth(x, 100 steps) > 100%`", "when growth(x, 100 steps) > 100% -> orange"),
    ("when x halves -> orange", "write `growth(x, 100 steps) < -50%`", "when growth(x, 100 steps) < -50% -> orange"),
    ("when x is between 3 and 5 -> orange", "write `3 < x < 5`", "when 3 < x < 5 -> orange"),
    ("when x < 80% of baseline(500) -> orange", "write `80% * baseline(500)`", "when x < 80% * baseline(500) -> orange"),
    ("when x < 0.8 of baseline(500) -> orange", "write `0.8 * baseline(500)`", "when x < 0.8 * baseline(500) -> orange"),
    ("when x >= 3x baseline(500) -> orange", "write `3 * baseline(500)`", "when x >= 3 * baseline(500) -> orange"),
    ("when x > 3 times baseline(500) -> orange", "write `3 * baseline(500)`", "when x > 3 * baseline(500) -> orange"),
    ("when x > half of baseline(500) -> orange", "write `0.5 * baseline(500)`", "when x > 0.5 * baseline(500) -> orange"),
    ("when 2 of a > 1, b > 1 -> orange", "write `2 of (a > 1, b > 1)`", "when 2 of (a > 1, b > 1) -> orange"),
    ("when missing(x, 500 steps) -> orange", "write `missing x for 500 steps`", "when missing x for 500 steps -> orange"),
    ("when stalled(10 min) -> orange", "write `stalled for 10 min`", "when stalled for 10 min -> orange"),
    ("when isnan(x) -> orange", "write `x is nan`", "when x is nan -> orange"),
    ("when prev(x) > 3 -> orange", "write `x before 1 samples`", "when x before 1 samples > 3 -> orange"),
    ("when between(x, 3, 5) -> orange", "write `3 < x < 5`", "when 3 < x < 5 -> orange"),
    ("when x > 2 * best(x) -> orange", "write `lowest(x)`", "when x > 2 * lowest(x) -> orange"),
    ("when x > min(x) * 2 -> orange", "`lowest(x)`", "when x > lowest(x) * 2 -> orange"),
    ("when min(a, b) > 2 -> orange", "`least(a, b)`", "when least(a, b) > 2 -> orange"),
    ("when any(act/*) > 3 -> orange", "write `any(act/* > 3)`", "when any(act/* > 3) -> orange"),
    ("when 3 < all(act/*) -> orange", "write `all(3 < act/*)`", "when all(3 < act/*) -> orange"),
    ("when any(act/* > 3) > 2 -> orange", "write `count(act/* > 3)`", "when count(act/* > 3) > 2 -> orange"),
    ("metric loss = train/loss", 'write `"train/loss"`', 'metric loss = "train/loss"'),
    ("when x != x -> orange", "write `x is nan`", "when x is nan -> orange"),
    ("when x == x and y > 3 -> orange", "write `x is not nan`", "when x is not nan and y > 3 -> orange"),
    ("when x > x -> orange", "`x before 100 steps`", "when x > (x before 100 steps) -> orange"),
    ("when x == NaN -> orange", "write `loss is nan`", "when x is nan -> orange"),
    ("when missing x for 100 steps -> orange", '`metric x = "x" every 50 steps`',
     'metric x = "x" every 50 steps when missing x for 100 steps -> orange'),
    ("when progress > 50 -> orange", "write `50%`", "when progress > 50% -> orange"),
    ('when x > "3" -> orange', "write `3`", "when x > 3 -> orange"),
    ("when eval-loss > 3 -> orange", 'write `"eval-loss"`', 'when "eval-loss" > 3 -> orange'),
    ('metric act = "act/*" when act > 3 -> orange', '`metric act/* = "act/*"`',
     'metric act/* = "act/*" when any(act/* > 3) -> orange'),
    ("policy p", "`when loss > 3 -> orange`", "policy p when loss > 3 -> orange"),
    ("when x > 3 for 9 steps -> red", "`rule x_red { when x > 3 for 9 steps -> red cooldown 2k steps }`",
     "rule x_red { when x > 3 for 9 steps -> red cooldown 2k steps }"),
]  # fmt: skip
"""What is wrong, what is said of it, and what comes of doing so."""

FOREIGN = re.compile(r"UnexpectedToken|LPAR|RPAR|COMPARE|ValidationError|Token\(|__ANON|(?i:traceback|pydantic|lark)")
"""Words of the machinery; `compare` in small letters is anybody's."""


def rendered(text: str) -> str:
    found = parse(Source("p.vitals", text)).diagnostics
    return "\n".join(d.render() for d in found) or "no finding"


def test_each_mistake_is_said_as_it_was_reviewed(update: bool) -> None:
    text = "\n\n".join(f">>> {mistake}\n{rendered(mistake)}" for mistake in MISTAKES) + "\n"
    if update:
        GOLDEN.write_text(text, "utf-8")
    assert text == GOLDEN.read_text("utf-8")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_never_said_in_the_parser_s_words(mistake: str) -> None:
    assert not FOREIGN.search(rendered(mistake))


@pytest.mark.parametrize(("mistake", "said", "mended"), MENDED, ids=[m for m, _, _ in MENDED])
def test_doing_what_is_said_mends_it(mistake: str, said: str, mended: str) -> None:
    assert said in "\n".join(d.render() for d in read("p.vitals", text=mistake)[1])
    assert not [d.render() for d in read("p.vitals", text=mended)[1] if d.is_error]


def test_the_mistakes_know_every_action() -> None:
    assert sorted(ACTIONS) == sorted(registry())


def test_several_mistakes_in_one_file_are_all_found_and_the_rest_is_kept() -> None:
    text = """
rule a {
  when loss => 3 -> red
  when loss > 3 -> orange
  cooldown 20
}
let x =
when loss > > 2 -> red
event e = loss > 3
rule b { when e for 20 -> red }
"""
    parsed = parse(Source("p.vitals", text))
    assert [(d.code, d.span.position[0]) for d in parsed.diagnostics] == [
        ("V005", 3), ("V001", 5), ("V035", 7), ("V035", 8), ("V001", 10),
    ]  # fmt: skip
    assert [s.name for s in parsed.policy.statements if hasattr(s, "name")] == ["e"]


def test_any_damage_to_a_policy_is_found_or_harmless_and_never_raises() -> None:
    text = Path(__file__).parent.parent.joinpath("rules", "vitalsdsl_rules", "core.vitals").read_text("utf-8")
    dice = random.Random(11)
    letters = "(){}<>=->\"#*/.,:;%&|!' \n\tabz019\u00e9\u4e16"
    for _ in range(400):
        at = dice.randrange(len(text))
        kind = dice.randrange(3)
        middle = dice.choice(letters) if kind else ""
        damaged = text[:at] + middle + text[at + (kind != 1) :]
        assert not FOREIGN.search(rendered(damaged))


HOSTILE = {
    "parentheses": "(" * 10_000_000,
    "not": "when " + "not " * 100_000 + "x -> red",
    "minus": "when " + "-" * 100_000 + "x > 1 -> red",
    "past": "when x" + " before 1 steps" * 50_000 + " > 1 -> red",
    "sum": "when " + "a + " * 50_000 + "x > 2 -> red",
    "sum of a million": "when " + "a+" * 950_000 + "x > 2 -> red",
    "comparisons": "when x" + " < x" * 50_000 + " -> red",
    "braces": "rule a {" * 1_000,
    "quotes": '"' * 100_000,
    "rules": "when x > 2 -> red\n" * 100_000,
    "broken rules": "when x > > 2 -> red\n" * 50_000,
    "broken parts": "rule a {\n" + "when x > > 2 -> red\n" * 20_000 + "}",
    "fields": 'rule a { because "' + "{x}" * 300_000 + '" when x > 1 -> red }',
    "digits": "when x > " + "1" * 1_900_000 + " -> red",
    "level": "when x > 1 -> " + "a" * 1_900_000,
    "NUL": "a\0b",
    "deep": "when " + "(" * 5_000 + "x",
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_input_is_refused_in_bounded_time(hostile: str) -> None:
    parse(Source("p.vitals", "when x > 1 -> red"))  # the parser's own tables are made once a process
    began = time.process_time()
    found = parse(Source("p.vitals", hostile)).diagnostics
    shown = [d.render() for d in found]
    assert found
    assert time.process_time() - began < 8
    assert all(len(text) < 2_000 for text in shown)


@pytest.mark.parametrize(
    "text",
    ["limit tag 1e999 per 1 h", "when 1e999 of (a > 1, b > 1) -> red", "when a > 1 for 1e999 of 5 samples -> red"],
)
def test_a_count_beyond_all_numbers_is_a_finding(text: str) -> None:
    assert {"V009", "V011"} & {d.code for d in parse(Source("p.vitals", text)).diagnostics}


@pytest.mark.parametrize("count", [70, 2_000])
@pytest.mark.parametrize("sign", ["or", "and", "+", "-", "*", "/"])
def test_a_long_chain_means_what_its_groups_mean(sign: str, count: int) -> None:
    """Whoever generates a policy writes a term a layer: a chain is no nesting."""
    joins_conditions = sign in ("or", "and")
    terms = [f"m{i} > {i % 3}" if joins_conditions else f"m{i}" for i in range(count)]
    left, right = (f" {sign} ".join(half) for half in (terms[:50], terms[50:]))
    bound = "" if joins_conditions else " > 1"
    chain, groups = f"{left} {sign} {right}", f"({left}) {sign} {right}"
    policies = [load("p", text=f"when {text}{bound} -> orange") for text in (chain, groups)]
    for values in ([1.0] * count, [3.0] * count, [3.0] * (count - 1) + [0.0]):
        rows = [{"step": 1, **{f"m{i}": value for i, value in enumerate(values)}}]
        one, other = ([(t.rule, t.step, t.to) for t in replay(policy, rows)] for policy in policies)
        assert one == other
    formatted = format_policy(parse(Source("p.vitals", f"when {chain}{bound} -> orange")))
    assert digest(parse(Source("p.vitals", formatted)).policy) == policies[0].digest
