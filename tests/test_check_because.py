"""Names in messages: a typo there is found before the message is needed."""

from __future__ import annotations

import pytest

from vitalsdsl.ground.points import Row, RunInfo
from vitalsdsl.policies.policy import read
from vitalsdsl.trial import Trial

TEXT = 'rule high {{ when loss > 3 -> yellow because "{}" }}'


def codes(text: str, *logged: str) -> list[str]:
    def tries(policy):  # type: ignore[no-untyped-def]
        trial = Trial(policy)
        rows = [Row(step, dict.fromkeys(logged, 1.0 + step % 2)) for step in range(9)]
        list(trial.going_through(RunInfo("run"), rows, False))
        return trial.result()

    return [f"{d.code} {d.span.text}" for d in read("p", text=text, tries=tries if logged else None)[1]]


@pytest.mark.parametrize(
    ("field", "found"),
    [
        ("{los:.2f}", ["V319 los"]),
        ("{mean(los, 5 steps):.2f}", ["V319 los"]),
        ("{loss:.2f} at {lr}", []),
        ("{val_loss}", []),
        ("{loss2}", []),
    ],
)
def test_a_field_that_is_nearly_a_name_of_a_condition_is_found_by_the_text_alone(field: str, found: list[str]) -> None:
    assert codes(TEXT.format(field)) == found


@pytest.mark.parametrize(
    ("field", "found"),
    [("{xyz}", ["V301 xyz"]), ("{lr}", []), ("{loss} {step}", []), ("{log(xyz)}", ["V301 xyz"])],
)
def test_a_field_that_no_run_logs_is_found_beside_runs(field: str, found: list[str]) -> None:
    assert codes(TEXT.format(field), "loss", "lr") == found


def test_what_is_optional_may_be_unknown_in_a_message() -> None:
    assert codes('metric xyz = "xyz" optional\n' + TEXT.format("{xyz}"), "loss") == []


def test_a_member_is_no_metric() -> None:
    text = 'rule r each m in act/* { when m > 3 -> yellow because "{member} is {m:.3g}" }'
    assert codes(text, "act/0") == []
