"""Rollback: the model goes back, the data does not; how often, how far, and when a person is asked instead."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from training_loops import Loop, account, answers, channel, request, same
from vitalsdsl_torch import Batches, BrokenOff, Guard, Limits, Paused

from vitalsdsl.acting.control import ControlFolder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITALS_HOME", str(tmp_path / "home"))


@pytest.fixture
def control(tmp_path: Path) -> Path:
    return tmp_path / "control"


def turn(loop: Loop) -> dict[str, Any]:
    (one,) = loop.said("turn")
    return one


def damage(folder: Path, checkpoint: str) -> None:
    path = folder / "checkpoints" / checkpoint / "model.pt"
    path.write_bytes(path.read_bytes()[:-1])


def test_everything_goes_back_but_the_data(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "run", bad=range(105, 110)).train(100)
    saved = torch.load(loop.folder / "checkpoints" / "step-00000080-0" / "model.pt", weights_only=True)
    loop = Loop(tmp_path / "run", bad=range(105, 110))
    positions = []
    for step in loop.guard.steps(130):
        batch = next(loop.data)
        positions.append(batch)
        loop.model(batch).backward()
        loop.optimizer.step()
        loop.scheduler.step()
        loop.optimizer.zero_grad()
        loop.guard.step({"loss": 10.0 if batch in loop.bad else 1.0})
        if step == 108 and loop.guard.done == 80:
            assert same(list(loop.model.state_dict().values()), list(saved.values()))
            assert loop.scheduler.last_epoch == 80
            assert loop.optimizer.state[loop.model.layer.bias]["step"] == 80
    # Tripped at step 108, which is batch 107; 20 steps' batches are passed over beyond it.
    assert positions[:8] == list(range(100, 108)) and positions[8:] == list(range(128, 178))
    assert turn(loop)["factor"] == 0.9 and loop.guard.metrics == {"vitals/attempt": 1.0, "vitals/lr_factor": 0.9}
    assert loop.guard.skipped == [(80, 128)]
    account(loop)


def test_the_rules_go_back_with_it_and_the_tags_too(tmp_path: Path) -> None:
    from vitalsdsl.acting.memory import Memory

    port = Memory()
    loop = Loop(tmp_path / "run", bad=range(105, 110), ports=[port]).train(150)
    assert [level.word for level in port.levels if level.word != "green"] == ["red"] and port.level.word == "green"
    assert [(t.attempt, t.step, t.to.word, t.reason) for t in port.transitions] == [
        (0, 108, "red", "condition"), (1, 80, "green", "superseded"),
    ]  # fmt: skip
    assert loop.guard.attempt == 1


def test_the_request_may_say_how_far_to_skip_and_how_much_to_lower_the_rate(tmp_path: Path) -> None:
    text = "rule hot { when loss > 5 for 3 steps -> red do rollback(lr: 70%, skip: 50 steps) }"
    loop = Loop(tmp_path / "run", text, range(105, 110)).train(130)
    assert (turn(loop)["position"], turn(loop)["factor"]) == (158, 0.7)
    account(loop)


def test_where_an_update_takes_several_batches_so_do_skipped_steps(tmp_path: Path, control: Path) -> None:
    loop = Loop(tmp_path / "run", control=control, poll=0.0)
    back = request("rollback", params={"skip_batches": 10})
    for step in loop.guard.steps(60):
        for _ in range(2):
            loop.model(next(loop.data)).backward()
        loop.optimizer.step()
        loop.optimizer.zero_grad()
        if step == 50:
            channel(control).ask(back)
        loop.guard.step({"loss": 1.0})
    assert turn(loop)["position"] == 100 + 10 * 2
    account(loop)


def test_right_after_a_stretch_that_is_passed_over_a_step_s_batches_are_those_that_it_took(
    tmp_path: Path, control: Path
) -> None:
    Loop(tmp_path / "run", bad=range(105, 110), keep=9).train(120)
    for name in ("step-00000080-0", "step-00000100-1", "step-00000120-1"):
        damage(tmp_path / "run", name)
    back = request("rollback", params={"skip_batches": 10})
    loop = Loop(tmp_path / "run", control=control, poll=0.0)
    loop.train(90, lambda step: channel(control).ask(back) if step == 81 else None)
    # Step 81 took batch 128, the first one behind those that are passed over; the second time twice as many are.
    assert loop.said("turn")[-1]["position"] == 129 + 2 * 10
    account(loop)


def test_a_process_that_has_made_no_step_knows_how_many_batches_one_takes(tmp_path: Path, control: Path) -> None:
    def train(loop: Loop, total: int) -> Loop:
        for _ in loop.guard.steps(total):
            for _ in range(3):
                loop.model(next(loop.data)).backward()
            loop.optimizer.step()
            loop.optimizer.zero_grad()
            loop.guard.step({"loss": 1.0})
        return loop

    train(Loop(tmp_path / "run"), 50)
    channel(control).ask(request("rollback", params={"skip_batches": 10}))
    loop = train(Loop(tmp_path / "run", control=control), 50)
    assert turn(loop)["position"] == 150 + 10 * 3
    account(loop)


def test_data_is_never_moved_back(tmp_path: Path, control: Path) -> None:
    loop = Loop(tmp_path / "run", control=control, poll=0.0, keep=9)

    def before(step: int) -> None:
        if step == 90:  # a watcher far behind: what it saw was at step 50
            channel(control).ask(request("rollback", trip_step=50, onset=48, rule="hot", segment=0))

    loop.train(100, before)
    assert (turn(loop)["step"], turn(loop)["tripped_at"], turn(loop)["position"]) == (20, 50, 90)
    account(loop)


def test_a_bad_window_s_known_end_is_where_the_data_goes_on(tmp_path: Path, control: Path) -> None:
    loop = Loop(tmp_path / "run", control=control, poll=0.0)
    back = request("rollback", params={"skip_until_data_pos": 148})
    loop.train(100, lambda step: channel(control).ask(back) if step == 90 else None)
    assert turn(loop)["position"] == 148
    account(loop)


def test_without_a_healthy_checkpoint_it_pauses(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "run", bad=range(15, 20))
    with pytest.raises(Paused):
        loop.train(100)
    assert loop.said("answer")[-1]["reason"] == "paused instead: there is no healthy checkpoint from before it began"


def test_without_one_and_without_leave_to_pause_it_trains_on(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "run", bad=range(15, 20), allow=("rollback",)).train(100)
    assert loop.seen[:100] == [1] * 100
    assert loop.said("answer")[-1]["state"] == "rejected"


def test_a_damaged_target_is_marked_and_the_next_older_taken(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "run", bad=range(105, 110))
    loop.train(
        150, lambda step: damage(loop.folder, "step-00000080-0") if step == 100 and not loop.guard.attempt else None
    )
    assert turn(loop)["step"] == 60 and loop.marks()["step-00000080-0"] == "corrupt"
    account(loop)


def test_a_drift_found_late_goes_back_to_before_it_began(tmp_path: Path, control: Path) -> None:
    loop = Loop(tmp_path / "run", control=control, poll=0.0, keep=9)
    back = request("rollback", trip_step=150, onset=85, rule="drift", segment=0)
    loop.train(160, lambda step: channel(control).ask(back) if step == 150 else None)
    assert turn(loop)["step"] == 60  # 80 is within the margin of the onset
    account(loop)


def test_in_the_grace_period_only_what_is_not_finite_is_acted_on(tmp_path: Path) -> None:
    text = "when loss > 5 for 2 steps -> red\nrule lost { when norm is nan -> red }"
    for name, norm, expected in (("nan", float("nan"), 81), ("finite", 1.0, 85)):
        loop = Loop(tmp_path / name, text, range(105, 300), limits=Limits(window=9), keep=9)
        turned: list[int] = []
        with pytest.raises(Paused):
            for _ in loop.guard.steps(200):
                batch = next(loop.data)
                loop.model(batch).backward()
                loop.optimizer.zero_grad()
                bad = batch in loop.bad
                attempt, done = loop.guard.attempt, loop.guard.done
                loop.guard.step({"loss": 10.0 if bad else 1.0, "norm": norm if bad and attempt and done == 81 else 1.0})
                if loop.guard.attempt != attempt:
                    turned.append(done)
        assert turned[1] == expected, name


def test_what_is_over_by_the_end_of_the_grace_period_is_let_be(tmp_path: Path) -> None:
    text = "when loss > 5 for 3 steps -> red"
    loop = Loop(tmp_path / "run", text, range(105, 132), grace=15, skip=20).train(150)
    assert loop.guard.attempt == 1
    assert loop.said("answer")[-1]["reason"] == "over: its rule was green again within the grace period"


def test_an_alarm_about_what_was_taken_back_is_stale(tmp_path: Path, control: Path) -> None:
    late = request("rollback", segment=0, rule="slow", trip_step=108, onset=106)
    loop = Loop(tmp_path / "run", bad=range(105, 110), control=control, poll=0.0)
    loop.train(150, lambda step: channel(control).ask(late) if loop.guard.attempt else None)
    assert loop.guard.attempt == 1
    assert answers(control)[late["id"]] == ("rejected", "stale_segment: it is about attempt 0, and this is 1")


def test_order_is_by_segment_and_not_by_clocks(tmp_path: Path, control: Path) -> None:
    loop = Loop(tmp_path / "run", control=control, poll=0.0)
    future = {**request("rollback", segment=0), "issued_at": 4e9, "expires_at": 5e9}
    past = {**request("rollback", segment=0), "issued_at": 1.0, "expires_at": 5e9}

    def before(step: int) -> None:
        if step == 50:
            channel(control).ask(past)
        if loop.guard.attempt == 1 and step == 45:
            channel(control).ask(future)

    loop.train(60, before)
    assert answers(control)[past["id"]][0] == "done" and answers(control)[future["id"]][0] == "rejected"


def test_two_watchers_of_one_policy_have_it_done_once(tmp_path: Path, control: Path) -> None:
    outside = ControlFolder(control / "small")
    loop = Loop(tmp_path / "run", bad=range(105, 110), control=control, poll=0.0, ports=[outside]).train(150)
    assert loop.guard.attempt == 1
    assert [state for state, _ in answers(control).values()] == ["done"]


def test_a_rollback_that_cannot_be_written_down_is_not_begun(
    tmp_path: Path, control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop(tmp_path / "run", control=control, poll=0.0)
    back = request("rollback")
    append = loop.guard._training.history.append

    def full(record: Any) -> None:
        if record["type"] == "turn":
            raise OSError(errno.ENOSPC, "No space left on device")
        append(record)

    monkeypatch.setattr(loop.guard._training.history, "append", full)
    loop.train(100, lambda step: channel(control).ask(back) if step == 50 else None)
    assert answers(control)[back["id"]] == ("failed", "No space left on device")
    assert loop.seen[:100] == [1] * 100


def test_a_state_that_cannot_be_put_back_ends_the_process_and_the_next_one_goes_on_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop(tmp_path / "run", bad=range(105, 110))

    def broken(state: Any) -> None:
        raise RuntimeError("half-way")

    monkeypatch.setattr(loop.optimizer, "load_state_dict", broken)
    with pytest.raises(BrokenOff) as ended:
        loop.train(150)
    assert ended.value.code == 76
    again = Loop(tmp_path / "run", bad=range(105, 110))
    # From step 60, whose batches 60 to 79 are trained again, and then on behind the stretch that is passed over.
    assert (again.guard.done, again.guard.attempt, again.data.position) == (60, 1, 60)
    account(again.train(150))
    assert len(again.said("turn")) == 1


@pytest.mark.parametrize("lines", [1, 2, 3])
def test_a_process_that_ends_within_a_rollback_is_carried_on_by_the_next(tmp_path: Path, lines: int) -> None:
    """Cut off after the first line of it (begun), the second (decided), the third (done)."""
    whole = Loop(tmp_path / "run", bad=range(105, 110)).train(120)
    history = tmp_path / "run" / "history.jsonl"
    records = history.read_bytes().splitlines(keepends=True)
    begun = next(n for n, line in enumerate(records) if json.loads(line).get("state") == "executing")
    history.write_bytes(b"".join(records[: begun + lines]))
    for path in (tmp_path / "run" / "checkpoints").glob("*-1"):
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    again = Loop(tmp_path / "run", bad=range(105, 110))
    id_ = json.loads(records[begun])["id"]
    state = again.guard._training.history.answers[id_]["state"]
    if lines == 1:
        assert (state, again.guard.done, again.data.position) == ("failed", 80, 80)
    else:
        assert (state, again.guard.done, again.data.position) == ("done", 80, 128)
        assert same(again.train(120).tensors(), whole.tensors())
    account(again.train(120) if lines == 1 else again)


def test_a_scaler_comes_back_with_the_scale_of_the_healthy_checkpoint(tmp_path: Path) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    loop = Loop(tmp_path / "run", bad=range(105, 110), scaler=scaler, data=Batches(range(400)))
    scales = []
    for step in loop.guard.steps(110):
        batch = next(loop.data)
        scaler.scale(loop.model(batch)).backward()
        scaler.step(loop.optimizer)
        scaler.update(new_scale=2.0**-14 if batch in loop.bad else 1024.0)  # it falls in the trouble
        loop.optimizer.zero_grad()
        loop.guard.step({"loss": 10.0 if batch in loop.bad else 1.0})
        scales.append((step, scaler.get_scale()))
    assert (107, 2.0**-14) in scales and (108, 1024.0) in scales


def test_two_guards_in_one_file_tree_do_not_hear_each_other(tmp_path: Path, control: Path) -> None:
    model = torch.nn.Linear(1, 1)
    other = Guard(
        None,
        tmp_path / "other",
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
        control=control,
        poll=0.0,
    )
    channel(control).ask(request("pause"))
    other.step({})
    assert [state for state, _ in answers(control).values()] == ["open"]
    other.close()


def test_what_waits_for_the_end_of_the_grace_period_says_so(tmp_path: Path, control: Path) -> None:
    loop = Loop(tmp_path / "run", bad=range(105, 110), control=control, poll=0.0)
    early = request("pause", segment=1, rule="hot", trip_step=82)
    seen: list[tuple[str, str]] = []

    def before(step: int) -> None:
        if loop.guard.attempt and step == 82:
            channel(control).ask(early)
        if loop.guard.attempt and step == 84:
            seen.append(answers(control)[early["id"]])

    with pytest.raises(Paused):
        loop.train(150, before)
    assert seen == [("accepted", "waits for the end of the grace period")]
    assert loop.guard.done == 86 and answers(control)[early["id"]] == ("done", "")


def test_groups_that_joined_the_optimizer_since_are_no_reason_to_end_in_the_middle(tmp_path: Path) -> None:
    """As when a further part of a model is thawed: the states before that fit no more, and are not damaged."""
    loop = Loop(tmp_path / "run", bad=range(105, 110))

    def thaw(step: int) -> None:
        if step == 103:
            loop.optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(2))]})
            loop.scheduler.base_lrs.append(0.01)
            loop.scheduler.lr_lambdas.append(lambda _: 1.0)

    with pytest.raises(Paused):
        loop.train(150, before=thaw)
    (said,) = [record["reason"] for record in loop.said("answer") if record["state"] == "done"]
    assert said.startswith(
        "paused instead: checkpoint step-00000080-0 is not one of this training: the groups of AdamW"
    )
    assert "corrupt" not in loop.marks().values() and loop.seen[:108] == [1] * 108
