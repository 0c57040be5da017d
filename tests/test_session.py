"""What a monitor tells the people of a run, and how it and `replay` are called."""

from __future__ import annotations

import inspect
import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vitalsdsl as vitals
from vitalsdsl.attaching.session import EARLY, Monitor
from vitalsdsl.planning.logged import Reads


def watched(policy: str, logged: dict[str, float], steps: int, **options: float) -> Monitor:
    monitor = vitals.watch(vitals.load("p", text=policy), "r7", **options)  # type: ignore[arg-type]
    for step in range(steps):
        monitor.log(logged, step=step)
    return monitor


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


LOS = "when los > 3 -> orange"
RENAMED = 'metric loss = "train_loss" when loss > 3 -> orange'
ENDS = {
    "a typo": (LOS, "los (read by los_orange); did you mean `loss`?"),
    "a longer name in the log": (
        "when grad_norm > 3 -> orange",
        'grad_norm (read by grad_norm_orange); write `metric grad_norm = "train/grad_norm"`',
    ),
    "a declared metric": (RENAMED, 'loss (read by loss_orange); write `metric loss = "train_loss", "loss"`'),
    "nothing near": ("when throughput < 3 -> orange", "throughput (read by throughput_orange)"),
    "through a let and an event": (
        "let gap = los - 1 event e = gap > 3 rule r { when e -> orange }",
        "los (read by r); did you mean `loss`?",
    ),
    "a let that no rule reads": ("let gap = los - 1", "los (read by let gap); did you mean `loss`?"),
    "a family": ("rule r each m in act/* { when m > 3 -> orange }", "act/* (read by r)"),
    "optional, and all that there is": (
        'metric lr = "lr" optional when lr > 3 -> orange',
        "lr (read by lr_orange)",
    ),
    "two": (
        "rule a { when los > 3 or xyz > 3 -> red }",
        "los (read by a), xyz (read by a); los: did you mean `loss`?",
    ),
    "many readers": (
        " ".join(f"rule r{n} {{ when xyz > 3 -> red }}" for n in range(5)),
        "xyz (read by r0, r1, r2 and 2 more)",
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_end_of_a_run_names_what_it_never_logged(name: str, caplog: pytest.LogCaptureFixture) -> None:
    policy, told = ENDS[name]
    monitor = watched(policy, {"loss": 1.0, "train/grad_norm": 1.0}, 3)
    assert said(caplog) == []
    monitor.finish()
    monitor.finish()
    assert said(caplog) == [f"vitals: run r7: never logged: {told}"]


QUIET = {
    "all of it is logged": "when loss > 3 -> orange",
    "an optional metric beside one that is logged": 'metric los = "los" optional when los > 3 or loss > 3 -> orange',
    "a disabled rule": "rule r { when los > 3 -> orange disabled }",
    "one of several names": 'metric x = "los", "loss" when x > 3 -> orange',
    "the run's own step": "when step > 3 -> orange",
}


@pytest.mark.parametrize("name", QUIET)
def test_nothing_is_said_where_nothing_is_amiss(name: str, caplog: pytest.LogCaptureFixture) -> None:
    watched(QUIET[name], {"loss": 1.0}, EARLY + 1).finish()
    assert said(caplog) == []


def test_it_is_said_once_early_but_not_of_what_is_not_yet_due(caplog: pytest.LogCaptureFixture) -> None:
    policy = 'metric val = "eval/loss" every 500 steps ' + LOS + " when val > 3 -> red"
    monitor = watched(policy, {"loss": 1.0}, 3 * EARLY)
    assert monitor.never_logged == ["los", "val"]
    first = "vitals: run r7: not logged in the first 100 steps: los (read by los_orange); did you mean `loss`?"
    assert said(caplog) == [first]
    monitor.log({"los": 1.0}, step=3 * EARLY)
    monitor.finish()
    assert monitor.never_logged == ["val"]
    assert said(caplog) == [first, "vitals: run r7: never logged: val (read by val_red)"]


def test_a_run_that_logged_nothing_is_not_told_off(caplog: pytest.LogCaptureFixture) -> None:
    watched(LOS, {}, 0).finish()
    assert said(caplog) == []


LATE = "phase late = progress > 50% rule r in phase late { when loss > 3 -> orange }"


def test_a_counter_that_was_never_known_is_named_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    watched(LATE, {"loss": 1.0}, 3).finish()
    watched("when loss > 3 for 2 epochs -> red", {"loss": 1.0}, 3).finish()
    assert said(caplog) == [
        "vitals: run r7: never known: progress (this run does not say how long it is)",
        "vitals: run r7: never known: epoch (this run does not log it)",
    ]
    caplog.clear()
    watched(LATE, {"loss": 1.0}, 3, total_steps=9).finish()
    watched(LATE, {"loss": 1.0, "max_steps": 9}, 3).finish()
    assert said(caplog) == []


@pytest.mark.parametrize(("times", "counted"), [(1, "1 point came"), (2, "2 points came")])
def test_steps_that_went_back_are_reported_at_the_end(
    times: int, counted: str, caplog: pytest.LogCaptureFixture
) -> None:
    monitor = watched("when loss > 3 -> orange", {"loss": 1.0}, 9)
    for step in range(times):
        monitor.log({"loss": 9.0}, step=step)
    monitor.finish()
    [told] = said(caplog)
    assert counted in told and told.endswith("no rule has read them")


# ---------------------------------------------------------------- what a transition says

SHOWN = {
    "NaN is shown as it is": ("when loss is not finite -> red because {because}", math.nan, "{loss} {loss:.2f}", "nan nan"),
    "so is an infinity": ("when loss is not finite -> red because {because}", -math.inf, "{loss} {loss:.2f}", "-inf -inf"),
    "what is made of it is unknown": (
        "let twice = loss * 2 rule r { when loss is not finite -> red because {because} }", math.nan,
        "{twice} {loss + 1}", "unknown (nonfinite) unknown (nonfinite)"),
    "what was never logged is unknown": ("when loss is nan -> red because {because}", math.nan, "{lr}", "unknown (absent)"),
    "a stale one too": (
        'metric old = "old" stale after 1 steps when loss is nan -> red because {because}', math.nan, "{old}",
        "unknown (stale)"),
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_a_message_shows_a_metric_s_own_point(name: str) -> None:
    policy, value, because, text = SHOWN[name]
    body = policy.partition("when")
    rule = policy if "rule r" in policy else f"{body[0]}rule r {{ when{body[2]} }}"
    rows = [{"step": 0, "loss": 1.0, "old": 2.0}, {"step": 5, "loss": value}]
    loaded = vitals.load("p", text=rule.replace("{because}", f'"{because}"'))
    assert [t.message for t in vitals.replay(loaded, rows) if t.rule == "r"] == [text]


def test_coming_back_does_not_repeat_the_rule_s_name() -> None:
    policy = vitals.load(
        "p", text="phase early = step < 3 rule r in phase early { when loss > 3 -> red } when loss > 3 -> red"
    )
    rows = [{"step": s, "loss": x} for s, x in ((0, 9.0), (1, 1.0), (2, 9.0), (3, 1.0))]
    back = [(t.step, t.rule, t.message) for t in vitals.replay(policy, rows) if not t.to]
    assert back == [(1, "r", "back to green"), (1, "loss_red", "back to green"), (3, "r", "out of phase"),
                    (3, "loss_red", "back to green")]  # fmt: skip


# ---------------------------------------------------------------- how it is called


def test_a_policy_is_a_path_or_one_that_was_loaded(tmp_path: Path) -> None:
    path = tmp_path / "p.vitals"
    path.write_text("when loss > 3 -> orange")
    rows = [{"step": 1, "loss": 9.0}]
    for policy in (path, str(path), vitals.load(path)):
        assert [t.to.word for t in vitals.watch(policy).log({"loss": 9.0}, step=1)] == ["orange"]
        assert [t.to.word for t in vitals.replay(policy, rows)] == ["orange"]
    with pytest.raises(vitals.PolicyError, match="cannot be read"):
        vitals.watch(tmp_path / "none.vitals")


def test_the_options_of_watch_are_spelt_out_and_those_of_a_monitor() -> None:
    ours, monitors = inspect.signature(vitals.watch).parameters, inspect.signature(Monitor).parameters
    assert set(ours) == set(monitors) - {"past"}  # what went before is known to those who attach to a run
    assert all(str(ours[name].default) == str(monitors[name].default) for name in ours)
    assert "total_steps" in ours and all(p.kind is not p.VAR_KEYWORD for p in ours.values())
    assert math.isnan(ours["total_steps"].default)


def test_all_that_a_policy_reads_is_listed_in_its_order() -> None:
    policy = vitals.load(
        "p", text='metric b = "x/b" when a > 1 and any(f/* > 1) -> red when b > mean(a, 5 steps) -> red'
    )
    assert [(r.path, r.names, r.family) for r in Reads(policy.policy).metrics] == [
        ("a", ("a",), False),
        ("f/*", ("f/*",), True),
        ("b", ("x/b",), False),
    ]


# ---------------------------------------------------------------- what is given to it


def test_a_masked_entry_of_a_column_is_no_point() -> None:
    """What NumPy masks has a number all the same, often 0."""
    loss = np.ma.array([4.0, 5.0, 9.0, 2.0], mask=[False, True, False, False])
    found = vitals.replay(vitals.load("p", text="when loss < 3 -> red"), {"step": [1, 2, 3, 4], "loss": loss})
    assert [t.step for t in found] == [4]


@pytest.mark.parametrize("step", [1.5, math.nan, math.inf, "a", True], ids=str)
def test_a_step_that_is_no_whole_number_is_refused_in_words(step: Any) -> None:
    policy = vitals.load("p", text="when loss < 3 -> red")
    for ask in (
        lambda: vitals.watch(policy).log({"loss": 1.0}, step=step),
        lambda: vitals.watch(policy).rewind(step),
        lambda: vitals.replay(policy, [{"step": step, "loss": 1.0}]),
        lambda: vitals.replay(policy, [{"rewind": step}]),
    ):
        with pytest.raises(vitals.UsageError, match="whole"):
            ask()
