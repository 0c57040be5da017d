"""Definitions made of definitions: how deep they may go, and that going through them stays cheap."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from vitalsdsl import PolicyError, load, replay
from vitalsdsl.cli.app import vitals
from vitalsdsl.policies.policy import read

KINDS = {"let": ("x", "a{} + 1"), "event": ("x > 2", "a{}"), "phase": ("x > 2", "a{}")}


def chain(kind: str, count: int, body: str = "") -> str:
    """Definitions a0, a1, …, each made of the one before, and a rule about the last."""
    first, made = KINDS[kind]
    lines = [
        f"{kind} a0 = {first}",
        *(f"{kind} a{i} = {(body or made).replace('{}', str(i - 1))}" for i in range(1, count)),
    ]
    return "\n".join([*lines, f"when a{count - 1}{' > 50' if kind == 'let' else ' and x > 0'} -> orange"])


ROWS = [{"step": step, "x": float(step)} for step in range(1, 60)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_hundred_definitions_can_be_made_one_of_the_other(kind: str) -> None:
    # x + 99 > 50 from the first step; x > 2 from step 3
    assert [t.step for t in replay(load("p", text=chain(kind, 100)), ROWS)] == [1 if kind == "let" else 3]


@pytest.mark.parametrize("count", [101, 3_000])
@pytest.mark.parametrize("kind", KINDS)
def test_more_are_a_finding_with_its_place(kind: str, count: int) -> None:
    found = [d for d in read("p", text=chain(kind, count))[1] if d.is_error]
    assert [(d.code, d.span.position) for d in found] == [("V032", (101, 1))]
    with pytest.raises(PolicyError, match="more than 100 definitions"):
        load("p", text=chain(kind, count))


@pytest.mark.parametrize("command", ["check", "explain", "replay"])
def test_every_command_says_so_alike(command: str, tmp_path: Path) -> None:
    policy, rows = tmp_path / "p.vitals", tmp_path / "run.jsonl"
    policy.write_text(chain("let", 400))
    rows.write_text('{"step": 1, "x": 2.0}\n')
    result = CliRunner().invoke(vitals, [command, str(policy), *([] if command == "check" else [str(rows)])])
    assert result.exit_code in (1, 2)
    assert "V032" in result.output and ":101:1" in result.output


@pytest.mark.parametrize(
    ("body", "count"), [("1 + " * 1 + "(1 + " * 30 + "a{}" + ")" * 30, 9), ("abs(" * 30 + "a{}" + ")" * 30, 9)]
)
def test_deep_expressions_in_deep_definitions_add_up(body: str, count: int) -> None:
    found = [d for d in read("p", text=chain("let", count, body))[1] if d.is_error]
    assert [d.code for d in found] == ["V032"]
    assert "written out" in found[0].message


def far_down(frames: int, act: Callable[[], Any]) -> Any:
    return act() if frames == 0 else far_down(frames - 1, act)


def test_what_is_allowed_is_read_and_evaluated_deep_inside_another_program() -> None:
    text = chain("let", 100, "mean(a{}, 2 steps)")
    assert far_down(250, lambda: replay(load("p", text=text), ROWS)) == []


DOUBLED = {"let": "a{} + a{}", "event": "a{} or a{}", "phase": "a{} or a{}"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_definition_that_is_named_twice_is_gone_through_once(kind: str, tmp_path: Path) -> None:
    text = (
        chain(kind, 60, DOUBLED[kind])
        + f"\nphase late = step > 5\nrule r in phase late {{ when a59{' > 3' * (kind == 'let')} and x > 1 -> yellow }}"
    )
    began = time.process_time()
    replay(load("p", text=text), ROWS)
    (tmp_path / "p.vitals").write_text(text)
    (tmp_path / "run.jsonl").write_text("\n".join(json.dumps(row) for row in ROWS))
    for source in ([], [str(tmp_path / "run.jsonl")]):
        assert CliRunner().invoke(vitals, ["explain", str(tmp_path / "p.vitals"), *source]).exit_code == 0
    assert time.process_time() - began < 5  # twice as long with each definition, it would be 2 ** 60
