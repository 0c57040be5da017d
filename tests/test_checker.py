"""What makes a policy meaningless: the code, the place, and what the reader is told to write instead."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from vitalsdsl.checker import check
from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.source import Source
from vitalsdsl.language.parser import parse
from vitalsdsl.language.scope import name_rules
from vitalsdsl.ops.base import aggregates, registry

GOLDEN = Path(__file__).parent / "golden" / "checks"

# policy, code, line:column, a part of the help or the word under the caret
BROKEN = [
    ("param k = 3\nwhen loss > 3 for k -> red", "V001", "2:19", "give the param a unit: `3 steps`"),
    ("param k = 30%\nwhen mean(loss, k) > 3 -> red", "V001", "2:17", "such as `500 steps`"),
    ("when mean(loss, 30%) > 3 -> red", "V001", "1:17", "30% what?"),
    ("when loss -> red", "V002", "1:6", "write `loss > …`"),
    ("when loss > 3 and grad_norm -> red", "V002", "1:19", "write `grad_norm > …`"),
    ("when not loss -> red", "V002", "1:10", "write `loss > …`"),
    ("event spike = loss > 3\nwhen spke -> red", "V002", "2:6", "did you mean `spike`?"),
    ("event spike = loss > 3\nwhen spike > 3 -> red", "V002", "2:6", "onsets(spike, 1000 steps)"),
    ("when (loss > 3) + 1 > 2 -> red", "V002", "1:6", "fraction(loss > 3, 100 steps)"),
    ("when mean(loss > 3, 5 steps) > 2 -> red", "V002", "1:11", "fraction"),
    ("let high = loss > 3\nwhen high > 0 -> red", "V002", "1:12", "event NAME = loss > 3"),
    ("when fraction(loss, 5 steps) > 3 -> red", "V002", "1:15", "write `loss > …`"),
    ("when 2 of (loss > 3, grad_norm) -> red", "V002", "1:22", "write `grad_norm > …`"),
    ("when step > 5 min -> red", "V003", "1:6", "steps against wall time"),
    ("when elapsed > 500 -> red", "V003", "1:6", "`500 min`"),
    ("when epoch > 200 steps -> red", "V003", "1:6", "epochs against steps"),
    ("when progress > 500 steps -> red", "V003", "1:6", "a share of the run against steps"),
    ("event e = loss > 3\nwhen since(e) > 5 min -> red", "V003", "2:6", "steps against wall time"),
    ("when loss > 500 steps -> red", "V003", "1:6", "write a plain number"),
    ("param long = 50 steps\nwhen loss > 2 * long -> red", "V003", "2:6", "a metric against steps"),
    ("when step + 5 min > 3 h -> red", "V003", "1:6", "steps against wall time"),
    ("let t = step\nwhen t > 5 min -> red", "V003", "2:6", "steps against wall time"),
    ('metric a = "a" unit "GB"\nmetric b = "b" unit "tok/s"\nwhen a + b > 3 -> red', "V003", "3:6", "GB against tok/s"),
    ('metric a = "a" unit "GB"\nmetric b = "b" unit "tok/s"\nwhen mean(a, 5 steps) > b -> red', "V003", "3:6", "tok/s"),
    ('metric a = "a" unit "GB"\nmetric b = "b" unit "tok/s"\nwhen greatest(a, b) > 1 -> red', "V003", "3:15", "tok/s"),
    ("when mean(500 steps, 10 samples) > 3 -> red", "V003", "1:11", "mean(x, W)"),
    ("let warm = 500 steps", "V003", "1:12", "param warm = 500 steps"),
    ("when mean(loss, 5 epochs) > 3 -> red", "V003", "1:17", "steps, samples, s, min, h or d"),
    ("when ema(loss, 20 samples) > 3 -> red", "V003", "1:16", "measure it in steps"),
    ("when monotone_up(loss, 5 steps) -> red", "V003", "1:24", "measure it in samples"),
    ("when a > 1 then b > 1 within 5 samples -> red", "V003", "1:30", "steps, s, min, h or d"),
    ("when missing loss for 5 samples -> red", "V003", "1:23", "steps, s, min, h or d"),
    ("when stalled for 100 steps -> red", "V003", "1:18", "s, min, h or d"),
    ('metric loss = "loss" every 5 samples', "V003", "1:28", "steps"),
    ("event e = loss > 3 apart 2 epochs", "V003", "1:26", "steps, samples"),
    ("param c = 20 steps in 5 min .. 9 min", "V003", "1:1", "20 steps"),
    ('metric loss = ""', "V010", "1:1", "nothing between the quotes"),
    ('axis "a"\naxis "b"', "V014", "2:1", "line 1"),
    ("nonfinite off\nnonfinite -> red", "V014", "2:1", "line 1"),
    ("level red do alert\nlevel red do stop", "V014", "2:1", "line 1"),
    ("when maen(loss, 5 steps) > 3 -> red", "V040", "1:6", "mean(x, W)"),
    ("when stddev(loss, 5 steps) > 3 -> red", "V040", "1:6", "std(x, W)"),
    ("when mean(loss) > 3 -> red", "V041", "1:6", "mean(x, W)"),
    ("when mean(loss, 5, 6) > 3 -> red", "V041", "1:6", "3 given"),
    ("when mean(loss, 5, by: median) > 3 -> red", "V041", "1:20", "unknown"),
    ("when loss > usual(loss, 50, unles: spike) -> red", "V041", "1:29", "did you mean `unless:`?"),
    ("when mean(loss, W: 5) > 3 -> red", "V041", "1:17", "given without its name"),
    ("when baseline(loss, 5, by: mode) > 3 -> red", "V041", "1:28", "mean or median"),
    ("when quantile(loss, 95, 100 steps) > 3 -> red", "V041", "1:6", "from 0 to 1"),
    ("when quantile(loss, loss, 100 steps) > 3 -> red", "V041", "1:21", "a number or a param"),
    ("when baseline(loss, 10 steps, from: 5 samples) < 3 -> red", "V041", "1:6", "in steps too"),
    ("when monotone_up(loss, 1 samples) -> red", "V041", "1:6", "two points or more"),
    ("when share(act/*) > 3% -> red", "V041", "1:6", "it is missing"),
    ("when a + b > 3 * baseline(500) -> red", "V042", "1:18", "baseline("),
    ("let r = loss / baseline(500)\nwhen r > 3 -> red", "V042", "1:16", "baseline("),
    ("when act/layer_* > 5 -> red", "V043", "1:6", "any(act/layer_* > …)"),
    ("when mean(act/*, 5 steps) > 5 -> red", "V043", "1:11", "max(mean(act/*, 5 steps))"),
    ("when any(loss > 5) -> red", "V043", "1:6", "any(act/layer_* …)"),
    ("when any(act/* > grad/*/norm/*) -> red", "V043", "1:18", "as many `*`"),
    ("let a/* = loss", "V043", "1:1", "no `*` there"),
    ('metric a/* = "a", "b/*"', "V043", "1:1", "as many `*` on both sides"),
    ("when share(act/*, of: loss) > 3% -> red", "V043", "1:23", "share(dropped/*, of: tokens/*)"),
    ("rule r each m in act/* { when act/* > 3 -> red }", "V043", "1:31", "each m in act/*"),
    ("let n = usual(loss, 50)", "V044", "1:9", "usual(loss, 50 steps, unless: EVENT)"),
    ("when surely(loss > 3) -> red", "V045", "1:6", "beside it"),
    ("when not not surely(loss > 3) -> red", "V045", "1:6", "beside it"),
    ("rule r { when loss > 3 -> red clear when surely(loss < 2) }", "V045", "1:42", "beside it"),
    ("when mean(loss, 5) is nan -> red", "V047", "1:6", "loss is nan"),
    ("when missing step for 5 steps -> red", "V047", "1:14", "stalled for 10 min"),
    ("when loss > 3 for 0 steps -> red", "V048", "1:19", "write `500 steps`"),
    ("when mean(loss, 2.5 steps) > 3 -> red", "V048", "1:17", "write `2 steps`"),
    ("when loss > 3 for 2.5 samples -> red", "V048", "1:19", "write `2 samples`"),
    ("when loss > 3 for 90000B steps -> red", "V048", "1:19", "no run lasts"),
    ("when loss at step 2.5 > 3 -> red", "V048", "1:19", "at step 2"),
    ("rule r { when loss > 3 -> red cooldown 0 steps }", "V048", "1:40", "500 steps"),
    ("limit rollback 3 per 0 steps", "V048", "1:22", "500 steps"),
    ("param k = 3\nprofile p { kk = 2 }", "V311", "2:13", "did you mean `k`?"),
    ("param k = 3\nprofile p { k = 2 steps }", "V312", "2:17", "its default is `3`"),
    ("let a = x\nevent a = x > 3", "V313", "2:1", "line 1"),
    ("rule r { when a > 3 -> red }\nrule r { when b > 3 -> red }", "V313", "2:1", "line 1"),
    ('metric loss = "l"\nrule r each loss in act/* { when loss > 3 -> red }', "V313", "2:8", "another word"),
    ("param confirm = 5 steps\nwhen loss > 3 for confrm -> red", "V314", "2:19", "did you mean `confirm`?"),
    ("phase late = step > 5\nrule r in phase lat { when a > 3 -> red }", "V314", "2:17", "did you mean `late`?"),
    ("when loss at end of startup > 3 -> red", "V314", "1:21", "phase startup = CONDITION"),
    ("rule abc { when a > 3 -> red inhibits abd }\nrule abe { when a > 4 -> red }", "V314", "1:39", "did you mean"),
    ("when since(loss) > 5 -> red", "V315", "1:12", "loss > …"),
    ("when onsets(mean(loss, 5), 5 steps) > 3 -> red", "V315", "1:13", "> …"),
    ("when loss before spike > 3 -> red", "V315", "1:18", "event spike = CONDITION"),
    ("when loss > 3 on step -> red", "V315", "1:18", "a counter"),
    ("let step = 3 * x", "V317", "1:1", "another name"),
    ("rule r { when a > 3 -> red inhibits r }", "V405", "1:37", "itself"),
    (
        "rule r { when a > 3 -> red inhibits s }\nrule s { when a > 4 -> red inhibits r }",
        "V405",
        "1:37",
        "r -> s -> r",
    ),
    ("when a > 3 -> yellow after 5 steps", "V408", "1:28", "say how long in `for`"),
    ("when a > 3 -> yellow -> red", "V408", "1:22", "-> red after 100 steps"),
    ("when a > 3 -> orange -> yellow after 5 steps", "V408", "1:22", "milder level first"),
    ("when a > 3 -> yellow -> orange after 9 steps -> red after 5 steps", "V408", "1:59", "9 steps"),
    ("when a > 3 -> yellow -> orange after 9 steps -> red after 20 min", "V408", "1:59", "9 steps"),
    ("param k = 12 in 1 .. 10", "V504", "1:11", "not in 1 .. 10"),
    ("param k = 5 in 10 .. 1", "V504", "1:16", "smaller end first"),
    ("param k = 3 in 1 .. 5\nprofile p { k = 9 }", "V504", "2:17", "not in 1 .. 5"),
    ("let a = b\nlet b = a + 1", "V507", "1:1", "a -> b -> a"),
    ("event e = e", "V507", "1:1", "name the event otherwise"),
    ("event e = loss > usual(loss, 50, unless: e)", "V507", "1:1", "leave out `unless`"),
    ("let a/* = act/* + b/0\nlet b/* = act/* - a/0", "V507", "1:1", "a/* -> b/* -> a/*"),
]

MEANINGFUL = [
    'event spike = "spike" > 0\nwhen spike -> yellow',
    "when epoch >= 5 and tokens > 1B -> yellow",
    "when step > 500 steps + 20 and step >= 100 -> yellow",
    "param confirm = 20 steps\nevent e = loss > 3\nwhen since(e) > 2 * confirm for confirm -> yellow",
    "when elapsed > 2 h and elapsed < 3 d -> yellow",
    'metric t = "step_time" unit "s"\nwhen t > 5 min -> yellow',
    'metric a = "a" unit "GB"\nwhen a > 3 and a + 1 > 5 and greatest(a, 1) > 2 -> yellow',
    "when grad_norm > 3*baseline(500) for 20 steps -> orange",
    "when 0.5 * baseline(500) < grad_norm < 3 * baseline(500) -> yellow",
    "when share(act/*, of: grad/*) > 3% -> yellow",
    "when any(mean(grad/*) < act/*/x/* and act/*/x/* > 3) -> yellow",
    "when any(act/* > mean(act/*) for 20 steps) -> yellow",
    'rule r each m in act/* { when m > mean(act/*) and m is not nan -> yellow because "{member} is {m}" }',
    'rule r { when a > 3 -> yellow inhibits "nonfinite(loss)" }',
    "when x > 2 and not surely(rising(lr, 50 steps)) -> yellow",
    "when not surely(loss > 3) -> yellow",
    "when loss > 3 and (a > 1 then b > 1 within 5 steps) -> yellow",
    "when count(loss) > 5 and count(act/* > 5) >= 2 -> yellow",
    "event e = loss > 3\nphase p = step < 5\nwhen (loss before e) > 3 and (loss at e) > 2 and (loss at end of p) > 1 -> yellow",
    "event e = loss > 3\nwhen baseline(loss, 50, from: e) > 3 and loss > usual(loss, 50 samples, unless: e) -> yellow",
    "when since(loss > 3) > 5 and median(interval(loss > 3), 5 samples) < 200 steps -> yellow",
    "param k = 3 in 1 .. 5\nprofile p { k = 4 }\nwhen loss > k -> yellow",
]


def findings(text: str, broken: frozenset[str] = frozenset()) -> list[Diagnostic]:
    parsed = parse(Source("p.vitals", text))
    assert parsed.ok, [d.render() for d in parsed.diagnostics]
    return check(name_rules(parsed.policy), broken)


@pytest.mark.parametrize(("text", "code", "place", "told"), BROKEN, ids=[f"{c}-{t}" for t, c, _, _ in BROKEN])
def test_a_policy_without_meaning_is_refused_with_its_place_and_its_mend(
    text: str, code: str, place: str, told: str
) -> None:
    found = findings(text)
    assert [d.code for d in found] == [code], [d.render() for d in found]
    line, column = found[0].span.position
    assert f"{line}:{column}" == place
    assert told in found[0].render()
    assert found[0].is_error


@pytest.mark.parametrize("text", MEANINGFUL)
def test_a_policy_that_means_something_passes(text: str) -> None:
    assert [d.render() for d in findings(text)] == []


@pytest.mark.parametrize("function", [*registry().values(), *aggregates().values()], ids=lambda f: f.__name__)
def test_the_example_of_every_function_passes(function: type) -> None:
    assert [d.render() for d in findings(getattr(function, "example", "when a > 1 -> red"))] == []


def test_all_that_is_wrong_is_said_at_once_in_the_order_of_the_file() -> None:
    found = findings("when loss -> red\nwhen maen(x, 5) > 3 for 0 steps -> red\nlet a = a")
    assert [(d.code, d.span.position[0]) for d in found] == [("V002", 1), ("V040", 2), ("V048", 2), ("V507", 3)]


def test_a_condition_called_let_is_said_once_and_not_where_it_is_used() -> None:
    found = findings("let spike = loss > 3\nwhen spike and not spike -> red\nevent twice = spike for 2 samples")
    assert [(d.code, d.span.position) for d in found] == [("V002", (1, 13))]


def test_nothing_is_said_of_names_whose_own_statement_could_not_be_read() -> None:
    text = "rule r in phase late { when spike -> yellow\n when loss > 3 for confirm -> red inhibits other }"
    assert findings(text, frozenset({"late", "spike", "confirm", "other"})) == []


def test_findings_look_as_they_did(update: bool) -> None:
    shown: dict[str, list[str]] = defaultdict(list)
    for text, code, _, _ in BROKEN:
        shown[code].append("\n\n".join(d.render() for d in findings(text)))
    for code, pages in shown.items():
        path, page = GOLDEN / f"{code}.txt", "\n\n".join(pages) + "\n"
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(page, "utf-8")
        assert path.read_text("utf-8") == page
