"""What can go wrong between those who ask and a training, case by case: where each is tested, and here those of no other place.

- no healthy checkpoint: test_going_back.test_without_a_healthy_checkpoint_it_pauses
- a damaged target: test_going_back.test_a_damaged_target_is_marked_and_the_next_older_taken
- a target too far back: test_rollback_limits.test_far_back_a_person_is_asked
- a crash between loading and answering: test_going_back.test_a_process_that_ends_within_a_rollback_is_carried_on_by_the_next
- a state that cannot be put back: test_going_back.test_a_state_that_cannot_be_put_back_ends_the_process_and_the_next_one_goes_on_before_it
- a crash while saving: test_killed.test_killed_at_random_steps_of_saving_and_going_back
- ... of which a half is left: test_checkpoints.test_one_that_was_not_finished_counts_for_nothing
- a crash while pausing: test_failure_cases.test_a_process_that_ends_within_a_pause_has_paused_once
- ... again, at the next start: test_failure_cases.test_what_ends_the_process_twice_is_not_tried_a_third_time
- a crash before what a person asks for is decided: test_failure_cases.test_a_person_s_request_that_a_process_did_not_come_to_the_end_of_is_done_by_the_next
- a crash in a grace period: test_failure_cases.test_what_waits_for_the_end_of_a_grace_period_outlives_the_process
- a request made again: test_guard.test_a_request_is_done_once_however_often_and_by_however_many_it_is_made
- a late request: test_going_back.test_an_alarm_about_what_was_taken_back_is_stale
- requests in another order: test_going_back.test_order_is_by_segment_and_not_by_clocks
- ... about steps that a restart has kept, or lost: test_failure_cases.test_an_alarm_about_what_a_restart_has_kept_is_none_too_late
- a resume before its pause: test_failure_cases.test_a_word_to_go_on_that_comes_before_the_pause_does_not_end_it
- two watchers: test_going_back.test_two_watchers_of_one_policy_have_it_done_once
- clocks that differ: test_going_back.test_order_is_by_segment_and_not_by_clocks
- ranks at different steps: test_guard_ranks.test_ranks_that_are_not_at_the_same_step_end_and_say_which
- a rank that cannot go back: test_guard_ranks.test_where_one_rank_cannot_go_back_all_end_and_start_again_behind_the_bad_window
- a full disk at a checkpoint: test_checkpoints.test_a_full_disk_costs_checkpoints_and_not_the_training
- a full disk at a rollback: test_going_back.test_a_rollback_that_cannot_be_written_down_is_not_begun
- a full disk at a pause: test_failure_cases.test_a_pause_that_cannot_be_saved_is_none
- a request during an evaluation: test_failure_cases.test_a_request_during_an_evaluation_is_done_after_the_next_update
- a request in the last step: test_guard.test_a_request_in_the_last_step_is_done
- a pause while paused: test_guard.test_a_pause_that_is_held_goes_on_in_place_and_hears_requests_meanwhile
- a rollback while paused: test_guard.test_a_rollback_while_the_run_is_paused_is_done_and_the_run_stays_paused
- a scheduler wrapped twice: test_failure_cases.test_the_factor_is_applied_once_whatever_wraps_the_scheduler
- a scaler at its tiny scale: test_going_back.test_a_scaler_comes_back_with_the_scale_of_the_healthy_checkpoint
- a loader without a state: test_guard.test_data_that_knows_no_place_is_wrapped_and_drawn_on
- no data at all: test_guard.test_a_guard_without_data_pauses_where_it_could_not_get_past_the_bad_batches
- another number of ranks: test_guard_ranks.test_a_checkpoint_is_read_by_any_number_of_ranks
- metrics that lag behind the probation: test_going_back.test_a_drift_found_late_goes_back_to_before_it_began
- ... and behind a rollback: test_going_back.test_an_alarm_about_what_was_taken_back_is_stale
- a watcher that replays all it has read: test_failure_cases.test_a_watcher_that_has_lost_its_log_and_reads_all_anew_asks_for_nothing_twice
"""

from __future__ import annotations

import ast
import errno
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler
from training_loops import ORANGE, RED, Counting, Loop, account, answers, channel, policy, request, same
from vitalsdsl_torch import Batches, Guard, Paused
from vitalsdsl_torch.history import History
from vitalsdsl_torch.rules import Rules

from vitalsdsl.acting.control import ControlFolder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITALS_HOME", str(tmp_path / "home"))


@pytest.fixture
def control(tmp_path: Path) -> Path:
    return tmp_path / "control"


def test_every_case_names_a_test() -> None:
    named = re.findall(r": (test_\w+)\.(test_\w+)$", str(__doc__), re.MULTILINE)
    assert len(named) == str(__doc__).count("\n- ")
    for module, name in named:
        tree = ast.parse(Path(__file__).with_name(f"{module}.py").read_text("utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name


@pytest.mark.parametrize("last", ["executing", "paused", "done"])
def test_a_process_that_ends_within_a_pause_has_paused_once(tmp_path: Path, last: str) -> None:
    """Cut off after the line that says it is begun, that it is, or that it is done: what is saved stands at the step of the
    pause, where its rule has tripped already and will not do so again."""
    with pytest.raises(Paused):
        Loop(tmp_path / "run", ORANGE, range(105, 110)).train(150)
    cut(tmp_path / "run", last)
    loop = Loop(tmp_path / "run", ORANGE, range(105, 110))
    if last == "executing":
        with pytest.raises(Paused):
            loop.train(150)
        assert loop.guard.done == 109
        loop = Loop(tmp_path / "run", ORANGE, range(105, 110))
    loop.train(150)
    assert len(loop.said("paused")) == 1 and loop.said("answer")[-1]["state"] == "done"
    account(loop)


def cut(folder: Path, last: str) -> None:
    """A history as it was when its process had written a line of this type, or an answer of this state."""
    path = folder / "history.jsonl"
    records = path.read_bytes().splitlines(keepends=True)
    words = [json.loads(line) for line in records]
    at = next(n for n, word in enumerate(words) if last in (word["type"], word.get("state")))
    path.write_bytes(b"".join(records[: at + 1]))


def test_what_ends_the_process_twice_is_not_tried_a_third_time(tmp_path: Path) -> None:
    with pytest.raises(Paused):
        Loop(tmp_path / "run", ORANGE, range(105, 110)).train(150)
    cut(tmp_path / "run", "executing")
    path = tmp_path / "run" / "history.jsonl"
    path.write_bytes(path.read_bytes() + path.read_bytes().splitlines(keepends=True)[-1])
    loop = Loop(tmp_path / "run", ORANGE, range(105, 110)).train(150)
    assert loop.said("paused") == [] and loop.said("answer")[-1]["state"] == "failed"


def test_a_person_s_request_that_a_process_did_not_come_to_the_end_of_is_done_by_the_next(
    tmp_path: Path, control: Path
) -> None:
    back = request("rollback")
    Loop(tmp_path / "run", control=control, poll=0.0).train(
        100, lambda step: channel(control).ask(back) if step == 95 else None
    )
    cut(tmp_path / "run", "executing")
    again = Loop(tmp_path / "run", control=control, poll=0.0).train(150)
    assert len(again.said("turn")) == 1 and answers(control)[back["id"]][0] == "done"
    account(again)


def test_what_waits_for_the_end_of_a_grace_period_outlives_the_process(tmp_path: Path, control: Path) -> None:
    options: dict[str, Any] = {"bad": range(105, 135), "grace": 15, "control": control, "poll": 0.0, "keep": 9}
    loop = Loop(tmp_path / "run", **options)
    steps = iter(loop.guard.steps(150))
    while loop.guard.attempt == 0 or loop.guard.done < 84:  # it has tripped again at 83, which is acted on after 95
        batch, _ = next(loop.data), next(steps)
        loop.model(batch).backward()
        loop.optimizer.step()
        loop.scheduler.step()
        loop.optimizer.zero_grad()
        if loop.guard.attempt and loop.guard.done == 83:
            channel(control).ask(request("save"))
        loop.guard.step({"loss": 10.0 if batch in loop.bad else 1.0})
    assert loop.checkpoints()[-1] == "step-00000084-1"
    loop.guard._lock.close()
    again = Loop(tmp_path / "run", **{**options, "bad": range(105, 160)})
    assert again.guard.done == 84
    again.train(150)
    assert [turn["trip_step"] for turn in again.said("turn")] == [108, 83]


@pytest.mark.parametrize("tripped, said", [(35, ""), (45, "stale_segment: it is about attempt 0, and this is 1")])
def test_an_alarm_about_what_a_restart_has_kept_is_none_too_late(
    tmp_path: Path, control: Path, tripped: int, said: str
) -> None:
    """The process ends in step 50, and goes on after 40, before a watcher far behind has come so far."""
    first = Loop(tmp_path / "run")
    steps = iter(first.guard.steps(100))
    for _ in range(50):
        next(steps)
        first.model(next(first.data)).backward()
        first.optimizer.step()
        first.guard.step({"loss": 1.0})
    first.guard._lock.close()
    late = request("rollback", rule="hot", segment=0, trip_step=tripped, onset=tripped)
    loop = Loop(tmp_path / "run", control=control, poll=0.0)
    assert (loop.guard.attempt, loop.guard.done) == (1, 40)
    loop.train(70, lambda step: channel(control).ask(late) if step == 55 else None)
    assert answers(control)[late["id"]][1] == said and loop.guard.attempt == (1 if said else 2)
    account(loop)


def test_a_word_to_go_on_that_comes_before_the_pause_does_not_end_it(tmp_path: Path, control: Path) -> None:
    early, pause = request("resume"), request("pause")
    loop = Loop(tmp_path / "run", control=control, poll=0.0)

    def before(step: int) -> None:
        if step in (20, 30):
            channel(control).ask(early if step == 20 else pause)

    with pytest.raises(Paused):
        loop.train(50, before)
    assert answers(control)[early["id"]] == ("rejected", "the run is not paused")
    assert answers(control)[pause["id"]][0] == "done" and loop.guard.done == 30


def test_a_pause_that_cannot_be_saved_is_none(tmp_path: Path, control: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pause, save = request("pause"), torch.save

    def full(part: Any, path: Any) -> None:
        if "step-00000033" in str(path):
            raise OSError(errno.ENOSPC, "No space left on device")
        save(part, path)

    monkeypatch.setattr(torch, "save", full)
    loop = Loop(tmp_path / "run", control=control, poll=0.0)
    loop.train(50, lambda step: channel(control).ask(pause) if step == 33 else None)
    assert answers(control)[pause["id"]] == ("failed", "No space left on device")
    account(loop)


def test_a_request_during_an_evaluation_is_done_after_the_next_update(tmp_path: Path, control: Path) -> None:
    back = request("rollback")
    loop = Loop(tmp_path / "run", control=control, poll=0.0)
    held_out = Batches(range(900, 1_000))

    def before(step: int) -> None:
        if step == 70 and not loop.guard.attempt:  # the boundary after step 69 is past
            channel(control).ask(back)
            state = {name: value.clone() for name, value in loop.model.state_dict().items()}
            with torch.no_grad():
                for batch in range(10):
                    loop.model.layer(torch.ones(1, 2) * next(held_out) * batch)
            assert answers(control)[back["id"]][0] == "open" and loop.guard.attempt == 0
            assert same(list(state.values()), list(loop.model.state_dict().values()))

    loop.train(90, before)
    (turn,) = loop.said("turn")
    assert (turn["trip_step"], turn["position"]) == (70, 70 + 20) and answers(control)[back["id"]][0] == "done"
    account(loop)


def half(optimizer: Any) -> Any:
    return lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)


@pytest.mark.parametrize(
    "wrapped",
    [
        half,
        lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.ConstantLR(o, 0.5, 3), half(o)], milestones=[3]),
        lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.ExponentialLR(o, 0.9), lr_scheduler.ExponentialLR(o, 0.8)]),
        lambda o: (half(o), half(o))[1],
    ],
    ids=["one", "in turn", "one on another", "made twice"],
)  # fmt: skip
def test_the_factor_is_applied_once_whatever_wraps_the_scheduler(
    tmp_path: Path, control: Path, wrapped: Callable[[Any], Any]
) -> None:
    """Against the same schedule as it is; three guards follow one another, of one optimizer."""

    def rates(is_guarded: bool) -> list[float]:
        model = Counting()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        options: dict[str, Any] = {"model": model, "optimizer": optimizer, "scheduler": wrapped(optimizer)}
        found: list[float] = []
        for total in (4, 8, 12):
            guard = Guard(None, tmp_path / str(is_guarded), data=Batches(range(100)), control=control, poll=0.0, every=2,
                          allow=("lr",), run="small", **options)  # fmt: skip
            if total == 4:  # behind the guard's own
                optimizer.register_step_pre_hook(lambda o, *_: found.append(o.param_groups[0]["lr"]))
            for step in guard.steps(total):
                model(step).backward()
                optimizer.step()
                options["scheduler"].step()
                optimizer.zero_grad()
                if is_guarded and step == 2:
                    channel(control).ask(request("lr_scale", params={"lr_factor": 0.8}))
                guard.step({})
        return found

    plain = rates(False)
    assert len(plain) == 12 and len(set(plain)) > 4
    assert rates(True) == pytest.approx(plain[:2] + [0.8 * rate for rate in plain[2:]])


def test_a_watcher_that_has_lost_its_log_and_reads_all_anew_asks_for_nothing_twice(
    tmp_path: Path, control: Path
) -> None:
    def watch(number: int) -> None:
        """Another watcher, with a journal of its own, reads what was logged before the run went back."""
        place = tmp_path / f"watcher{number}"
        place.mkdir()
        nothing = History(place / "history.jsonl")
        rules = Rules(policy(RED), "small", place, nothing, [ControlFolder(control / "small")], ("rollback",), 200.0)
        for step in range(1, 109):
            rules.log({"loss": 10.0 if step > 105 else 1.0}, step)
        rules.finish()
        nothing.close()

    loop = Loop(tmp_path / "run", text="when norm > 5 -> yellow", bad=range(105, 110), control=control, poll=0.0)

    def before(step: int) -> None:
        if step == 108 and not loop.guard.attempt:
            watch(1)
        if step == 100 and loop.guard.attempt:
            watch(2)

    loop.train(130, before)
    assert [state for state, _ in answers(control).values()] == ["done"] and loop.guard.attempt == 1
    account(loop)
