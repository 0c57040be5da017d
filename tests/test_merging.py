"""Files that use each other: whose names are whose, what comes once, and that no rule is lost on the way."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitalsdsl import load, replay
from vitalsdsl.columns.batch import Batch
from vitalsdsl.ground.points import Row
from vitalsdsl.language.rules import Metric, Rule
from vitalsdsl.policies.policy import read
from vitalsdsl.streaming.stream import Stream

A_RULE = "rule hot { when loss > 3 -> orange }"
RUN = [{"step": 1, "loss": 9.0, "a/3/max": 9.0, "m": 1.0}, {"step": 2, "loss": 9.0, "a/3/max": 9.0, "m": 1.0}]


def folder(tmp_path: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path / "p.vitals"


def fired(tmp_path: Path, files: dict[str, str]) -> list[str]:
    return [t.rule for t in replay(load(folder(tmp_path, files)), RUN) if t.step == 1]


def errors(tmp_path: Path, files: dict[str, str]) -> list[str]:
    return [d.code for d in read(folder(tmp_path, files))[1] if d.is_error]


FIRES = {
    "a rule called like its metric": ("rule loss { when loss > 3 -> orange }", ["ns.loss"]),
    "a member of a declared family": ('metric act/*/x = "a/*/max" rule r { when act/3/x > 3 -> orange }', ["ns.r"]),
    "a member of a let family": ("let g/* = a/*/max - 1 rule r { when g/3 > 3 -> orange }", ["ns.r"]),
    "a declared metric in quotes": ('metric "my loss" = "loss" rule r { when "my loss" > 3 -> orange }', ["ns.r"]),
    "a quoted metric called like a param": ('param loss = 1 rule r { when "loss" > 3 -> orange }', ["ns.r"]),
    "a function's own word": (
        'metric median = "m" rule r { when loss >= baseline(loss, 1 samples, by: median) -> orange }',
        ["ns.r"],
    ),
    "a rule changed by its own file": (
        "rule r { when loss > 99 -> orange } override r { when loss > 3 -> orange }",
        ["ns.r"],
    ),
    "a rule that its own file switches off": (f'{A_RULE} disable hot because "noise"', []),
}


@pytest.mark.parametrize("name", FIRES)
def test_a_rule_under_a_namespace_does_what_it_did_before(name: str, tmp_path: Path) -> None:
    used, expected = FIRES[name]
    files = {"p.vitals": 'use "a.vitals" as ns', "a.vitals": used}
    assert fired(tmp_path, files) == expected
    plain = fired(tmp_path, {"p.vitals": 'use "a.vitals"', "a.vitals": used})
    assert plain == [rule.removeprefix("ns.") for rule in expected]


def test_a_file_under_two_names_has_all_its_names_under_both(tmp_path: Path) -> None:
    files = {"a.vitals": 'use "c.vitals" rule hot { when spike -> orange }', "c.vitals": "event spike = loss > 3"}
    both = {"p.vitals": 'use "a.vitals" as x\nuse "a.vitals" as y', **files}
    assert fired(tmp_path, both) == ["x.hot", "y.hot"]


@pytest.mark.parametrize("uses", ['use "c.vitals" as x use "a.vitals" as x', 'use "a.vitals" as x use "c.vitals" as x'])
def test_what_came_before_under_the_same_name_is_not_lost_to_who_uses_it(uses: str, tmp_path: Path) -> None:
    files = {"a.vitals": 'use "c.vitals" rule hot { when spike -> orange }', "c.vitals": "event spike = loss > 3"}
    assert fired(tmp_path, {"p.vitals": uses, **files}) == ["x.hot"]


def test_namespaces_nest(tmp_path: Path) -> None:
    used = 'use "c.vitals" as inner rule hot { when inner.spike -> orange }'
    files = {"a.vitals": used, "c.vitals": "event spike = loss > 3"}
    assert fired(tmp_path, {"p.vitals": 'use "a.vitals" as x', **files}) == ["x.hot"]


def test_a_file_disables_its_own_one_line_rule_though_that_had_to_take_another_name(tmp_path: Path) -> None:
    used = 'when loss > 3 -> orange\ndisable loss_orange because "noise"'
    files = {"p.vitals": 'when loss > 4 -> orange\nuse "a.vitals"', "a.vitals": used}
    assert fired(tmp_path, files) == ["loss_orange"]
    rules = load(tmp_path / "p.vitals").policy.of(Rule)
    assert [(r.name, r.body.disabled) for r in rules] == [("loss_orange", False), ("loss_orange_2", True)]


def test_a_one_line_rule_gives_way_to_a_written_name_wherever_that_stands(tmp_path: Path) -> None:
    files = {
        "p.vitals": 'use "a.vitals"\nrule loss_orange { when loss > 99 -> orange }',
        "a.vitals": "when loss > 3 -> orange",
    }
    assert fired(tmp_path, files) == ["loss_orange_2"]


def test_a_rule_and_an_event_of_two_files_may_share_a_name_as_in_one(tmp_path: Path) -> None:
    files = {"p.vitals": 'use "a.vitals"\nrule spike { when spike -> orange }', "a.vitals": "event spike = loss > 3"}
    assert fired(tmp_path, files) == ["spike"]


@pytest.mark.parametrize(("first", "second", "codes"), [
    ("", " with k = 3.0", []),
    (" with k = 4", " with k = 4.0", []),
    ("", " with k = 4", ["V310"]),
    (" with k = 5", " with k = 4", ["V310"]),
    (" as x with k = 5", " as y with k = 4", []),
    (" with k = 4, k = 5", "", ["V014", "V310"]),
])  # fmt: skip
def test_a_file_twice_with_the_same_params_is_one(first: str, second: str, codes: list[str], tmp_path: Path) -> None:
    uses = f'use "a.vitals"{first}\nuse "a.vitals"{second}'
    assert errors(tmp_path, {"p.vitals": uses, "a.vitals": "param k = 3\nrule r { when loss > k -> orange }"}) == codes


def test_what_is_broken_in_a_used_file_is_said_once(tmp_path: Path) -> None:
    files = {"p.vitals": 'use "a.vitals" as x\nrule r { when x.spike -> orange }', "a.vitals": "event spike = loss >"}
    assert errors(tmp_path, files) == ["V035"]


def test_findings_in_a_used_file_name_it_as_the_user_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rules").mkdir()
    folder(tmp_path / "rules", {"p.vitals": 'use "a.vitals"', "a.vitals": "when loss -> red"})
    monkeypatch.chdir(tmp_path)
    assert [d.span.source.name for d in read("rules/p.vitals")[1]] == [str(Path("rules") / "a.vitals")]


REFUSED = {
    "a path beyond all length": ("a/" * 3000 + "b.vitals", "V071"),
    "a name beyond all length": ("a" * 3000 + ".vitals", "V071"),
    "a file of another kind": ("secret.env", "V072"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_rule_file_is_neither_read_nor_quoted(name: str, tmp_path: Path) -> None:
    reference, code = REFUSED[name]
    path = folder(tmp_path, {"p.vitals": f'{A_RULE}\nuse "{reference}"', "secret.env": "TOKEN=hush"})
    found = [d for d in read(path)[1] if d.is_error]
    assert [d.code for d in found] == [code]
    assert "hush" not in found[0].render() and len(found[0].message) <= 90


def test_no_more_is_read_than_a_policy_may_hold(tmp_path: Path) -> None:
    path = folder(tmp_path, {"p.vitals": "#" + "é" * 5_000_000})
    assert [d.code for d in read(path)[1]] == ["V030"]


@pytest.mark.parametrize("date", ["20270115", "2027-W03-5", "2027-1-5"])
def test_a_date_has_one_form(date: str) -> None:
    found = read("p", text=f'{A_RULE}\ndisable hot because "x" until "{date}"')[1]
    assert [d.code for d in found if d.is_error] == ["V073"]


def test_files_that_double_at_each_use_are_refused_in_little_time(tmp_path: Path) -> None:
    files = {f"f{i}.vitals": f'use "f{i + 1}.vitals" as a\nuse "f{i + 1}.vitals" as b' for i in range(60)}
    assert "V030" in errors(tmp_path, {"p.vitals": 'use "f0.vitals"', **files, "f60.vitals": A_RULE})


def test_files_that_share_at_each_use_are_one_each(tmp_path: Path) -> None:
    files = {f"f{i}.vitals": f'use "f{i + 1}.vitals"\nuse "f{i + 1}.vitals"' for i in range(60)}
    assert fired(tmp_path, {"p.vitals": 'use "f0.vitals"', **files, "f60.vitals": A_RULE}) == ["hot"]


EDGES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from(["", " as x", " as y"])), max_size=8)


@given(EDGES)
@settings(max_examples=60, deadline=None)
def test_a_rule_of_each_used_file_fires_under_each_of_its_names(
    tmp_path_factory: pytest.TempPathFactory, edges: list[tuple[int, int, str]]
) -> None:
    """File i uses only files above i: no circle. Each holds an event, and a rule that reads it."""
    uses: dict[int, list[tuple[int, str]]] = {i: [] for i in range(5)}
    for a, b, name in edges:
        if a != b:
            uses[min(a, b)].append((max(a, b), name))
    files = {
        f"f{i}.vitals": "\n".join(f'use "f{j}.vitals"{name}' for j, name in uses[i])
        + f"\nevent e{i} = loss > 3\nrule r{i} {{ when e{i} -> orange }}"
        for i in range(5)
    }

    def names(i: int) -> set[str]:
        found = {f"r{i}"}
        for j, name in uses[i]:
            found |= {f"{name[4:]}.{inner}" if name else inner for inner in names(j)}
        return found

    folder_ = tmp_path_factory.mktemp("m")
    assert set(fired(folder_, {"p.vitals": 'use "f0.vitals"', **files})) == names(0)


NAMES = 'metric loss = "train/loss", "loss" metric act/*/max = "a/*/max"'
WATCHED = {
    "each its own rule": ("rule r { when loss > 3 -> orange }", ["nonfinite(x.loss)"]),
    "one of them tests for NaN": ("rule r { when loss is nan -> orange }", ["x.r", "y.r"]),
    "members of a family": ("rule r each a in act/*/max { when a > 3 -> orange }", ["nonfinite(x.act/3/max)"]),
}


@pytest.mark.parametrize("name", WATCHED)
def test_one_metric_under_several_namespaces_has_one_guard(name: str, tmp_path: Path) -> None:
    rule, expected = WATCHED[name]
    files = {"names.vitals": NAMES, "a.vitals": f'use "names.vitals" {rule}'}
    policy = load(folder(tmp_path, {"p.vitals": 'use "a.vitals" as x use "a.vitals" as y', **files}))
    rows = [{"step": 1, "loss": 1.0, "a/3/max": 1.0}, {"step": 2, "loss": float("nan"), "a/3/max": float("nan")}]
    found = [(t.step, t.rule) for t in replay(policy, rows)]
    assert found == [(2, rule) for rule in expected]
    events = [Row(row["step"], {k: v for k, v in row.items() if k != "step"}) for row in rows]
    assert [(t.step, t.rule) for t in Batch(policy.policy).transitions(events)] == found


def test_a_rule_on_nan_under_one_namespace_takes_over_under_all(tmp_path: Path) -> None:
    files = {
        "names.vitals": NAMES,
        "a.vitals": 'use "names.vitals" rule r { when loss is nan -> orange }',
        "b.vitals": 'use "names.vitals" rule s { when loss > 3 -> orange }',
        "p.vitals": 'use "b.vitals" as b use "a.vitals" as a',
    }
    rows = [{"step": 1, "loss": float("nan")}, {"step": 2, "loss": float("inf")}]
    found = [(t.step, t.rule, t.to.word) for t in replay(load(folder(tmp_path, files)), rows)]
    # The rule is about NaN alone, so infinity is the guard's; of b's own rule infinity is above 3 as well.
    assert found == [
        (1, "a.r", "orange"), (2, "b.s", "orange"), (2, "a.r", "green"), (2, "nonfinite(b.loss)", "orange"),
    ]  # fmt: skip


def test_metrics_that_are_logged_alike_and_called_otherwise_have_each_their_guard(tmp_path: Path) -> None:
    text = 'metric x = "loss" metric y = "loss" rule r { when x + y > 3 -> orange }'
    found = replay(load(folder(tmp_path, {"p.vitals": text})), [{"step": 1, "loss": float("nan")}])
    assert [t.rule for t in found] == ["nonfinite(x)", "nonfinite(y)"]


SHARED = 'metric lr = "lr" '
LATE = {
    "a.vitals": SHARED + "let g/* = act/* - 1 on lr rule r { when any(g/* > 3) -> orange }",
    "b.vitals": SHARED + "let h/* = grad/* - 1 on lr rule r { when any(h/* > 3) -> orange }",
    "c.vitals": SHARED + "rule r { when lr > 3 -> orange }",
}


@pytest.mark.parametrize("second", ["b.vitals", "c.vitals"])
def test_the_one_guard_is_the_same_whenever_members_join(second: str, tmp_path: Path) -> None:
    loaded = load(folder(tmp_path, {"p.vitals": f'use "a.vitals" as a use "{second}" as b', **LATE}))
    rows = [
        Row(
            n,
            {
                "lr": math.nan if 3 <= n < 12 else 1.0,
                **({"grad/1": 1.0} if n > 1 else {}),
                **({"act/1": 1.0} if n > 5 else {}),
            },
        )
        for n in range(20)
    ]
    whole, first, again = (Stream(loaded.policy, "run", loaded.digest) for _ in range(3))
    told = [t for row in rows for t in whole.push_row(row)]
    assert [(t.rule, t.step) for t in told] == [("nonfinite(a.lr)", 3), ("nonfinite(a.lr)", 12)]
    for row in rows[:9]:
        first.push_row(row)
    again.load(first.save())
    assert repr([t for row in rows[9:] for t in again.push_row(row)]) == repr(told[1:])
    assert repr(Batch(loaded.policy, loaded.digest).transitions(rows)) == repr(told)


@pytest.mark.parametrize("order", [1, -1])
def test_a_metric_of_the_using_file_adds_names_to_the_one_of_a_namespace(tmp_path: Path, order: int) -> None:
    text = "\n".join(['use "a.vitals" as a', 'metric a.loss = "my loss"'][::order])
    loaded = load(folder(tmp_path, {"p.vitals": text, "a.vitals": f'metric loss = "train/loss" optional {A_RULE}'}))
    for name in ("my loss", "train/loss"):
        assert [t.rule for t in replay(loaded, [{"step": 1, name: 9.0}])] == ["a.hot"]


def test_without_a_namespace_two_metrics_of_a_name_clash_and_it_is_said_how_names_are_added(tmp_path: Path) -> None:
    files = {"p.vitals": 'use "a.vitals"\nmetric loss = "my loss"', "a.vitals": f'metric loss = "l" {A_RULE}'}
    _, found = read(str(folder(tmp_path, files)))
    assert [each.code for each in found if each.severity.name == "ERROR"] == ["V310"]
    assert "metric NAME.loss = …" in found[0].help[0]


def test_options_that_a_further_name_does_not_write_stay_but_for_optional(tmp_path: Path) -> None:
    used = 'metric loss = "l" every 5 steps unit "nats" reduce max optional allow nonfinite ' + A_RULE
    files = {"p.vitals": 'use "a.vitals" as a metric a.loss = "my loss" unit "bits"', "a.vitals": used}
    (metric,) = load(folder(tmp_path, files)).policy.of(Metric)
    assert (metric.logged, metric.unit, metric.reduce) == (("my loss", "l"), "bits", "max")
    assert metric.allow_nonfinite and metric.every is not None and not metric.optional
