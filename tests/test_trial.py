"""Laws over the conformance cases: what is said of a rule on a run agrees with what the rule does there."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from cases import CASES, load, policy_of
from same_verdicts import case

from vitalsdsl.ground.points import Rewind, Row, RunInfo, number
from vitalsdsl.language.rules import Policy, Rule
from vitalsdsl.lints.base import run_lints
from vitalsdsl.lints.runs import Runs
from vitalsdsl.trial import Trial


def events(rows: list[dict[str, Any]]) -> list[Row | Rewind]:
    found: list[Row | Rewind] = []
    for row in rows:
        if "rewind" in row:
            found.append(Rewind(row["rewind"]))
            continue
        values = {k: x for k, v in row.items() if k not in ("step", "_time") and (x := number(v)) is not None}
        time = number(row.get("_time"))
        found.append(Row(row["step"], values, math.nan if time is None else time))
    return found


def tried(path: Path) -> tuple[Policy, Runs]:
    case = load(path)
    policy = policy_of(case["policy"])
    trial = Trial(policy)
    trial.take(RunInfo("run"), events(case["rows"]), healthy=True)
    return policy, trial.result()


@pytest.mark.parametrize("path", CASES[::2], ids=lambda p: p.stem)
def test_a_rule_that_fires_was_known_and_lacked_nothing(path: Path) -> None:
    policy, runs = tried(path)
    fires = {transition["rule"] for transition in load(path)["expect"] if transition["from"] == "green"}
    assert {name for name, seen in runs.rules.items() if seen.healthy} >= fires
    for rule in policy.of(Rule):
        seen = runs.rules[rule.name]
        if rule.name in fires:
            assert (seen.known_in, seen.lacking) == (1, frozenset())


@pytest.mark.parametrize("path", CASES[1::8], ids=lambda p: p.stem)
def test_no_lint_calls_a_rule_dead_that_fires_or_a_name_unseen_that_is_logged(path: Path) -> None:
    policy, runs = tried(path)
    places = {rule.name: rule.span for rule in policy.of(Rule) if runs.rules[rule.name].healthy}
    for found in run_lints(policy, runs=runs):
        if found.code == "V605":
            assert not any(span.start <= found.span.start < span.end for span in places.values())
        if found.code == "V301":
            assert found.span.text.strip('"') not in runs.survey.metrics


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_columns_say_of_a_run_what_going_through_it_says(first: int) -> None:
    for seed in range(first, first + 20):
        loaded, events = case(seed)
        whole, single = Trial(loaded.policy), Trial(loaded.policy)
        for healthy in (True, False):
            whole.take(RunInfo("r"), list(events), healthy)
            single.take(RunInfo("r"), iter(events), healthy)
        assert whole.result().rules == single.result().rules, f"seed {seed}"
