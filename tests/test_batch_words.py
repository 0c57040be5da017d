"""What batch says of a change is what the stream says of it: messages, values and margins, of references above all, which
have learnt more by the time they are told."""

from __future__ import annotations

import random

import pytest
from same_verdicts import streamed

from vitalsdsl.columns.batch import Batch
from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.policies.policy import load
from vitalsdsl.verdicts.verdict import Transition


def told(transitions: list[Transition]) -> list[str]:
    return [repr(transition) for transition in transitions]


@pytest.mark.parametrize("field", ["usual(loss, 5 steps)", "loss / noise(loss, 7 steps)", "mean(loss, 3 steps)", "loss > 1",
                                   "loss before 2 steps", "usual(other, 5 samples)", "other", "step"])  # fmt: skip
@pytest.mark.parametrize("condition", ["loss > 1.1", "loss > 1.1 * usual(loss, 5 steps)"])
def test_messages_tell_what_the_stream_tells(condition: str, field: str) -> None:
    loaded = load("p", text=f'rule r {{ when {condition} -> red  because "{{{field}}}" }}')
    dice = random.Random(1)
    rows: list[Row | Rewind] = []
    for step in range(200):
        values = {"loss": dice.gauss(1, 0.1)}
        rows.append(Row(step, values | ({"other": dice.random()} if step % 3 == 0 else {})))
    wanted = told(streamed(loaded, rows))
    assert len(wanted) > 5 and told(Batch(loaded.policy, loaded.digest).transitions(rows)) == wanted


def at_random(chance: random.Random) -> tuple[str, list[Row | Rewind]]:
    """A rule that reads references in its conditions, its recovery and its message, some at other steps than others."""

    def window() -> str:
        return chance.choice(["5 steps", "6 samples", "9 steps"])

    def condition(metric: str) -> str:
        return chance.choice(
            [
                f"{metric} > usual({metric}, {window()}) + {chance.choice([0.5, 1, 2])} * noise({metric}, {window()})",
                f"{metric} > 1.1 * usual({metric}, {window()})",
                f"{metric} > 1.15",
                f"usual({metric}, {window()}) < {metric} and other > usual(other, 5 samples)",
                "spike",
                "above > 0.1",
                "(loss > 1.1 * usual(loss, 5 steps) for 2 samples)",
            ]
        )

    clauses = "  ".join(
        f"when {condition(chance.choice(['loss', 'other']))}{chance.choice(['', ' for 2 samples', ' for 2 of 3 samples'])}"
        f"{chance.choice(['', '', ' on other'])} -> {level}"
        for level in chance.sample(["yellow", "orange", "red"], chance.choice([1, 2]))
    )
    because = chance.choice(
        ["", '  because "{usual(loss, 5 steps)} {above}"', '  because "{loss - usual(loss, 6 samples)}"',
         '  because "{usual(loss, 5 steps) before spike}"']
    )  # fmt: skip
    clear = chance.choice(["", "  clear for 3 samples", "  clear when loss < usual(loss, 9 steps)"])
    text = f"""
        event spike = loss > 1.2 * usual(loss, 9 steps)
        phase late = other < 1.1
        let above = loss - usual(loss, 9 steps, unless: spike)
        rule r{chance.choice(["", " in phase late"])} {{ {clauses}{clear}{because} }}
        when loss > 1.3 * usual(loss, 9 steps) -> yellow
    """
    rows: list[Row | Rewind] = []
    for step in range(160):
        values = {}
        if chance.random() < 0.9:
            values["loss"] = chance.gauss(1, 0.1)
        if chance.random() < 0.4:
            values["other"] = chance.gauss(1, 0.1)
        rows.append(Row(step, values, 10.0 * step))
    return text, rows


@pytest.mark.parametrize("seed", range(60))
def test_references_are_told_as_the_stream_tells_them(seed: int) -> None:
    text, rows = at_random(random.Random(seed))
    loaded = load("p", text=text)
    assert told(Batch(loaded.policy, loaded.digest).transitions(rows)) == told(streamed(loaded, rows))


def test_zero_is_told_without_a_sign() -> None:
    """Which of 0 and -0 a window of both gives is a matter of the order in which equal points are looked at."""
    text = (
        'rule r { when y > median(x, 4 samples) -> red because "{median(x, 4 samples)} {y - y} {min(x, 4 samples)}" }'
    )
    loaded = load("p", text=text)
    rows: list[Row | Rewind] = [Row(n, {"x": (0.0, -0.0)[n // 2 % 2], "y": float(n % 2)}) for n in range(40)]
    told = streamed(loaded, rows)
    assert "-0" not in repr(told) and len(told) > 30
    assert repr(Batch(loaded.policy, loaded.digest).transitions(rows)) == repr(told)
