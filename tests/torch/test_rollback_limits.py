"""Rollbacks that are not made: too many, too far, past too much data; and what a person is told then."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from training_loops import Loop, account, answers, channel, request
from vitalsdsl_torch import Limits, Paused
from vitalsdsl_torch.history import Turn


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITALS_HOME", str(tmp_path / "home"))


@pytest.fixture
def control(tmp_path: Path) -> Path:
    return tmp_path / "control"


def turned(trip: int, lived: int, passed: int = 0) -> Turn:
    return Turn(1, 0, "", "", 0, passed, 0, trip, 1.0, lived, 1)


def reason(control: Path, one: dict[str, Any]) -> str:
    return answers(control)[one["id"]][1]


def test_the_same_trouble_again_goes_further_back_and_skips_more_then_pauses(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "run", bad=range(105, 600), limits=Limits(window=9, total=9), keep=9)
    with pytest.raises(Paused):
        loop.train(200)
    first, second = loop.said("turn")
    assert (first["step"], first["position"], first["factor"]) == (80, 128, 0.9)
    # In attempt 1 batch 128 comes in step 81, it trips in step 83, and waits for the end of the grace period at 85.
    assert (second["step"], second["ladder"], second["factor"]) == (60, 2, pytest.approx(0.72))
    assert second["position"] == second["tripped_at"] + 2 * 20
    assert loop.said("answer")[-1]["reason"] == "paused instead: going back twice did not get the run past this"
    account(loop)


def test_so_many_rollbacks_within_so_many_steps_and_no_more(tmp_path: Path, control: Path) -> None:
    def loop(**options: Any) -> list[int]:
        made = Loop(
            tmp_path / str(options),
            control=control / str(options),
            poll=0.0,
            keep=9,
            limits=Limits(near=5, floor=0.1, **options),
        )

        def before(step: int) -> None:
            if step in (50, 90, 130, 170) and made.guard.done >= sum(t["trip_step"] > 0 for t in made.said("turn")):
                channel(control / str(options)).ask({**request("rollback"), "id": f"at {step}"})

        with pytest.raises(Paused):
            made.train(300, before)
        return [t["trip_step"] for t in made.said("turn")]

    assert loop(total=3, window=9) == [50, 90, 130]
    assert loop(total=9, window=2) == [50, 90]
    assert loop(total=9, window=1, per=1_000) == [50]


def test_limits_by_themselves() -> None:
    limits = Limits()
    before = [turned(1_000, 1_000), turned(9_000, 9_000)]
    assert limits.spent(before, 20_000, 20_000, 1.0) == ""
    assert "3 times" in limits.spent([*before, before[1]], 20_000, 20_000, 1.0)
    assert limits.spent(before, 13_000, 13_000, 1.0) == ""
    assert "2 times within 5000 steps" in limits.spent([turned(8_999, 8_999), before[1]], 13_000, 13_000, 1.0)
    assert [limits.ladder(before, trip) for trip in (9_501, 9_500, 1_500)] == [1, 2, 2]
    assert "at 50% already" in limits.spent(before, 20_000, 20_000, 0.5)


@pytest.mark.parametrize(
    "trips, times",
    [
        ([1_000], [1]),
        ([1_000, 1_500], [1, 2]),
        ([1_000, 1_501], [1, 1]),
        ([1_000, 1_400, 1_800], [1, 2, 3]),  # it never came 500 steps past where it was in trouble before
        ([1_400, 900, 1_450], [1, 2, 3]),  # nor here, where the furthest counts
        ([1_000, 1_400, 1_901], [1, 2, 1]),
    ],
)
def test_the_same_trouble_is_what_comes_before_the_run_is_past_it(trips: list[int], times: list[int]) -> None:
    turns = [turned(trip, trip) for trip in trips]
    assert [Limits().ladder(turns[:at], trip) for at, trip in enumerate(trips)] == times


@pytest.mark.parametrize(
    "steps, batches_a_step, most",
    [(100_000, 1, 1_000), (100_000, 4, 4_000), (10_000, 1, 600), (0, 2, 1_200)],  # a hundredth, or 3 times 200 steps'
)
def test_a_hundredth_of_the_data_may_be_passed_over(steps: float, batches_a_step: int, most: int) -> None:
    limits, before = Limits(), [turned(1, 1, passed=300), turned(9, 9, passed=100)]
    assert limits.too_much(before, most - 400, steps, 200, batches_a_step) == ""
    said = limits.too_much(before, most - 399, steps, 200, batches_a_step)
    assert said == (
        f"it would pass over {most - 399} batches beside the 400 that were, and of this run no more than {most} may be"
    )
    assert limits.too_much([turned(1, 1, passed=9_999)], 0, steps, 200, batches_a_step) == ""


def test_what_was_trained_and_taken_back_is_not_passed_over() -> None:
    # From the checkpoint at batch 100 to 400 nothing is in the model; up to 350 it was.
    assert Turn(1, 0, "", "", 100, 400, 310, 310, 1.0, 350, 1, drawn=350).passed_over == 50
    assert Turn(1, 0, "", "", 100, 400, 310, 310, 1.0, 350, 1).passed_over == 90  # as older versions wrote it


@pytest.mark.parametrize(
    "until, limits, said",
    [
        (150, Limits(), ""),
        (151, Limits(), "paused instead: it would pass over 61 batches, and of this run no more than 60 may be"),
        (151, Limits(passed=0.61), ""),  # of the 100 that `steps` is to make
    ],
)
def test_past_too_much_data_a_person_is_asked(
    tmp_path: Path, control: Path, until: int, limits: Limits, said: str
) -> None:
    back = request("rollback", params={"skip_until_data_pos": until})
    loop = Loop(tmp_path / "run", control=control, poll=0.0, limits=limits)
    with pytest.raises(Paused) if said else contextlib.nullcontext():
        loop.train(100, lambda step: channel(control).ask(back) if step == 90 else None)
    assert reason(control, back) == said
    assert loop.guard.skipped == ([] if said else [(80, until)])
    account(loop)


@pytest.mark.parametrize("at, said", [(90, ""), (91, "step-00000080-0 would do, and is 11 steps back")])
def test_far_back_a_person_is_asked(tmp_path: Path, control: Path, at: int, said: str) -> None:
    back = request("rollback")
    loop = Loop(tmp_path / "run", control=control, poll=0.0, limits=Limits(back=10))
    with pytest.raises(Paused) if said else contextlib.nullcontext():
        loop.train(100, lambda step: channel(control).ask(back) if step == at else None)
    assert said in reason(control, back) and loop.guard.attempt == (not said)


@pytest.mark.parametrize("rule, attempt", [({}, 1), ({"rule": "hot", "segment": 0}, 0)])
def test_a_checkpoint_that_a_person_names_may_be_as_far_as_it_is(
    tmp_path: Path, control: Path, rule: dict[str, Any], attempt: int
) -> None:
    back = request("rollback", params={"target": "step:40"}, **rule)
    loop = Loop(tmp_path / "run", control=control, poll=0.0, keep=9, limits=Limits(back=10))
    with pytest.raises(Paused) if rule else contextlib.nullcontext():
        loop.train(90, lambda step: channel(control).ask(back) if step == 75 else None)
    assert loop.guard.attempt == attempt


class FromStep:
    """Trouble that no batch brings: from a step on."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.loop: Loop

    def __contains__(self, batch: int) -> bool:
        return self.loop.guard.done + 1 >= self.step


def test_other_data_and_the_same_step_is_said_to_be_a_matter_of_the_state(tmp_path: Path) -> None:
    bad: Any = FromStep(106)
    bad.loop = loop = Loop(tmp_path / "run", bad=bad, limits=Limits(window=9, total=9), keep=9)
    with pytest.raises(Paused):
        loop.train(200)
    said = [a["reason"] for a in loop.said("answer") if a["state"] == "done"]
    about = "other data, and about the same step as before (108): the trouble is in the state, not in the data"
    assert said == ["", about, f"paused instead: going back twice did not get the run past this; {about}"]
    account(loop)


def test_batches_that_were_passed_over_once_are_so_for_good(tmp_path: Path) -> None:
    Loop(tmp_path / "run", bad=range(105, 110), keep=9).train(130)
    for path in (tmp_path / "run" / "checkpoints").glob("*/model.pt"):
        if path.parent.name > "step-00000060-0":
            path.write_bytes(b"")
    again = Loop(tmp_path / "run", bad=range(105, 110))
    assert (again.guard.done, again.data.position) == (60, 60)  # from before the stretch that was passed over
    account(again.train(130))
    assert again.guard.skipped[0] == (80, 128) and not any(again.seen[80:128])
