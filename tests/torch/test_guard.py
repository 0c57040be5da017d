"""What a guard does when it is asked, at the boundary between two steps: pause, stop, save, lower the rate, look closer."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from training_loops import ORANGE, RED, Counting, Loop, Shelf, account, answers, channel, policy, request, same
from vitalsdsl_torch import Batches, Ended, Guard, Paused, Stopped

from vitalsdsl.ground.errors import UsageError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITALS_HOME", str(tmp_path / "home"))


@pytest.fixture
def control(tmp_path: Path) -> Path:
    return tmp_path / "control"


def asking(control: Path, at: int, *requests: dict[str, Any]) -> Any:
    """Puts requests into the folder while a step is under way."""

    def before(step: int) -> None:
        if step == at:
            for one in requests:
                channel(control).ask(one)

    return before


def test_out_of_the_box_a_guard_only_notifies(tmp_path: Path, caplog: Any) -> None:
    loop = Loop(tmp_path / "run", ORANGE, range(105, 110), allow=()).train(150)
    assert loop.seen[:150] == [1] * 150 and loop.guard.attempt == 0
    assert "run small: step 108: orange: loss_orange" in caplog.text
    assert loop.said("answer") == []


def test_a_rule_s_pause_saves_and_ends_the_process_with_75(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "run", ORANGE, range(105, 110))
    with pytest.raises(Paused) as ended:
        loop.train(150)
    assert ended.value.code == 75 and isinstance(ended.value, SystemExit)
    assert loop.checkpoints()[-1] == "step-00000108-0"
    again = Loop(tmp_path / "run", ORANGE, range(105, 110))  # without a control folder that is the person's word
    assert (again.guard.done, again.data.position) == (108, 108)
    account(again.train(150))


def test_a_pause_of_the_training_s_own_rules_is_told_in_the_control_folder(
    tmp_path: Path, control: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Paused):
        Loop(tmp_path / "run", ORANGE, range(105, 110), control=control).train(150)
    (own,) = channel(control).own()
    assert (own.state, own.request["action"], own.request["rule"]) == ("done", "pause", "loss_orange")
    assert "waits for `vitals resume small`" in caplog.text


def test_a_paused_run_with_a_control_folder_waits_for_resume_even_if_started_again(
    tmp_path: Path, control: Path
) -> None:
    pause = request("pause")
    with pytest.raises(Paused):
        Loop(tmp_path / "run", control=control, poll=0.0).train(50, asking(control, 30, pause))
    with pytest.raises(Paused):
        Loop(tmp_path / "run", control=control)
    resume = request("resume")
    channel(control).ask(resume)
    account(Loop(tmp_path / "run", control=control).train(50))
    assert {id_: state for id_, (state, _) in answers(control).items()} == {pause["id"]: "done", resume["id"]: "done"}


def test_a_pause_that_is_held_goes_on_in_place_and_hears_requests_meanwhile(tmp_path: Path, control: Path) -> None:
    whole = Loop(tmp_path / "whole").train(30)
    loop = Loop(tmp_path / "run", control=control, poll=0.02, hold=30.0, allow=("pause", "lr"))
    pause, second, lower, resume = (
        request("pause"),
        request("pause"),
        request("lr_scale", params={"lr_factor": 0.8}),
        request("resume"),
    )

    def person() -> None:
        while answers(control).get(pause["id"], ("", ""))[0] != "done":
            time.sleep(0.01)
        for one in (second, lower):
            channel(control).ask(one)
        while answers(control)[lower["id"]][0] != "done":
            time.sleep(0.01)
        channel(control).ask(resume)

    thread = threading.Thread(target=person, daemon=True)
    thread.start()
    loop.train(30, asking(control, 30, pause))
    thread.join(60)
    assert same(loop.tensors(), whole.tensors())  # a pause changes nothing
    assert answers(control)[second["id"]] == ("done", "the run is paused already")
    assert loop.guard.metrics["vitals/lr_factor"] == 0.8


def test_a_pause_that_nobody_ends_is_bounded(tmp_path: Path, control: Path) -> None:
    loop = Loop(tmp_path / "run", control=control, poll=0.02, hold=0.2)
    began = time.monotonic()
    with pytest.raises(Paused):
        loop.train(50, asking(control, 10, request("pause")))
    assert 0.2 <= time.monotonic() - began < 5


def test_a_rollback_while_the_run_is_paused_is_done_and_the_run_stays_paused(tmp_path: Path, control: Path) -> None:
    loop = Loop(tmp_path / "run", control=control, poll=0.0, hold=1.0)

    def person() -> None:
        while not any(state == "done" for state, _ in answers(control).values()):
            time.sleep(0.01)
        channel(control).ask(request("rollback"))

    thread = threading.Thread(target=person, daemon=True)
    thread.start()
    with pytest.raises(Paused):
        loop.train(100, asking(control, 75, request("pause")))
    thread.join(60)
    (turn,) = loop.said("turn")
    assert (turn["step"], turn["attempt"]) == (60, 1)
    end = turn["trip_step"] + 20
    channel(control).ask(request("resume"))
    again = Loop(tmp_path / "run", control=control)
    assert (again.guard.done, again.data.position) == (60, end)
    account(again.train(100))


def test_stop_saves_and_ends_the_run_with_code_0(tmp_path: Path, control: Path) -> None:
    loop = Loop(tmp_path / "run", control=control, poll=0.0, allow=("stop",))
    with pytest.raises(Stopped) as ended:
        loop.train(50, asking(control, 33, request("stop")))
    assert ended.value.code == 0 and loop.checkpoints()[-1] == "step-00000033-0"


def test_of_several_interventions_the_strongest_is_done_and_the_others_are_answered(
    tmp_path: Path, control: Path
) -> None:
    stop, pause, back = request("stop"), request("pause"), request("rollback")
    loop = Loop(tmp_path / "run", control=control, poll=0.0, allow=("stop", "pause", "rollback"))
    with pytest.raises(Stopped):
        loop.train(50, asking(control, 33, pause, back, stop))
    said = answers(control)
    assert said[stop["id"]][0] == "done"
    assert said[pause["id"]] == said[back["id"]] == ("rejected", "superseded: stop is done at this step")


def test_a_checkpoint_on_request_and_a_closer_look_need_no_leave(tmp_path: Path, control: Path) -> None:
    loop = Loop(tmp_path / "run", control=control, poll=0.0, allow=())
    detailed = []
    save, look = (
        request("save", rule="hot", segment=0),
        request("request", params={"name": "detail", "steps": "5 steps"}),
    )
    ask = asking(control, 33, save, look)

    def before(step: int) -> None:
        detailed.extend([step] * loop.guard.detail)
        ask(step)

    loop.train(50, before)
    assert "step-00000033-0" in loop.checkpoints()
    assert detailed == [34, 35, 36, 37, 38]
    assert {state for state, _ in answers(control).values()} == {"done"}


def test_what_a_rule_had_saved_is_no_place_to_go_back_to(tmp_path: Path, control: Path) -> None:
    back = request("rollback")
    loop = Loop(tmp_path / "run", control=control, poll=0.0)

    def before(step: int) -> None:
        asking(control, 33, request("save", rule="hot", segment=0, trip_step=33, onset=33))(step)
        asking(control, 59, back)(step)

    loop.train(100, before)
    # 33 is suspect by birth, 40 within the onset's margin, 20 is before it
    assert [turn["step"] for turn in loop.said("turn")] == [20]


def test_nothing_is_done_inside_a_step(tmp_path: Path, control: Path) -> None:
    pause = request("pause")
    loop = Loop(tmp_path / "run", control=control, poll=0.0)
    seen = []

    def before(step: int) -> None:
        if step == 10:
            channel(control).ask(pause)
            loop.model(999)
            seen.append(answers(control)[pause["id"]][0])

    with pytest.raises(Paused):
        loop.train(50, before)
    assert seen == ["open"] and answers(control)[pause["id"]][0] == "done" and loop.guard.done == 10


@pytest.mark.parametrize(
    "fields, said",
    [
        ({"action": "rollback", "segment": 3}, "stale_segment: it is about attempt 3, and this is 0"),
        ({"action": "pause", "expires_at": 1.0}, "expired"),
        ({"action": "stop"}, "not_allowed: `stop` is not among what the guard allows"),
        ({"action": "lr_scale", "params": {"lr_factor": 0.5}}, "not_allowed: `lr` is not among what the guard allows"),
        ({"action": "resume"}, "the run is not paused"),
        ({"action": "dance"}, "not understood: nothing here is called `dance`"),
        ({"action": "rollback", "params": {"lr_factor": -1}}, "not understood: its lr_factor is no sensible factor"),
        ({"action": "rollback", "params": {"lr_factor": "NaN"}}, "not understood: its lr_factor is no sensible factor"),
        ({"action": "lr_scale"}, "not understood: it says no lr_factor"),
        (
            {"action": "rollback", "params": {"skip_batches": "1e999"}},
            "not understood: its skip_batches is no number of batches",
        ),
        ({"action": "rollback", "params": 7}, "not understood: its params are no object"),
        ({"action": "rollback", "segment": 0.5}, "not understood: its segment is no whole number"),
        ({"action": "rollback", "trip_step": "Infinity"}, "not understood: its trip_step is no whole number"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_refused_says_why_and_changes_nothing(
    tmp_path: Path, control: Path, fields: dict[str, Any], said: str
) -> None:
    one = request(**fields)
    loop = Loop(tmp_path / "run", control=control, poll=0.0).train(50, asking(control, 45, one))
    assert answers(control)[one["id"]] == ("rejected", said)
    assert same(loop.tensors(), Loop(tmp_path / "other").train(50).tensors())


def test_a_request_is_done_once_however_often_and_by_however_many_it_is_made(tmp_path: Path, control: Path) -> None:
    one = request("rollback")
    loop = Loop(tmp_path / "run", control=control, poll=0.0)

    def before(step: int) -> None:
        if step in (45, 70):
            for path in (channel(control).folder / "answers").glob("*"):
                path.unlink()  # a watcher that lost everything, and asks again
            channel(control).ask(one)

    loop.train(100, before)
    assert loop.guard.attempt == 1 and answers(control)[one["id"]][0] == "done"
    again = Loop(tmp_path / "run", control=control, poll=0.0).train(150, asking(control, 120, one))
    assert again.guard.attempt == 1


def test_a_request_in_the_last_step_is_done(tmp_path: Path, control: Path) -> None:
    pause = request("pause")
    with pytest.raises(Paused):  # although it is not yet time to look at the folder again
        Loop(tmp_path / "run", control=control, poll=600.0).train(30, asking(control, 30, pause))
    assert answers(control)[pause["id"]][0] == "done"


def test_a_rollback_after_the_last_step_is_trained_to_the_end(tmp_path: Path, control: Path) -> None:
    loop = Loop(tmp_path / "run", control=control, poll=600.0).train(95, asking(control, 95, request("rollback")))
    assert (loop.guard.attempt, loop.guard.done, loop.data.position) == (1, 95, 95 + 20 + 15)
    account(loop)


def test_a_damaged_request_hurts_no_other(tmp_path: Path, control: Path) -> None:
    pause = request("pause")

    def before(step: int) -> None:
        if step == 10:
            channel(control).ask(pause)
            (channel(control).folder / "requests" / "0.json").write_bytes(b'{"action": ')

    with pytest.raises(Paused):
        Loop(tmp_path / "run", control=control, poll=0.0).train(30, before)


def test_dry_run_says_what_it_would_do(tmp_path: Path, control: Path) -> None:
    back = request("rollback", trip_step=45)
    loop = Loop(tmp_path / "run", bad=range(70, 75), control=control, poll=0.0, dry_run=True)
    loop.train(100, asking(control, 45, back))
    assert answers(control)[back["id"]] == ("rejected", "dry run: it would go back to step 20 and go on at batch 65")
    assert [a["reason"] for a in loop.said("answer") if a["id"] != back["id"]] == [
        "dry run: it would go back to step 60 and go on at batch 93"
    ]
    assert loop.seen[:100] == [1] * 100


def test_red_pauses_where_only_pause_is_allowed(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "run", bad=range(70, 75), allow=("pause",))
    with pytest.raises(Paused):
        loop.train(100)
    assert "paused instead: the guard does not allow `rollback`" in [a["reason"] for a in loop.said("answer")]


def test_the_factor_holds_over_any_scheduler_is_applied_once_and_has_a_floor(tmp_path: Path, control: Path) -> None:
    used: list[float] = []
    model = Counting()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)  # goes by the rate that it finds
    data = Batches(range(100))
    options: dict[str, Any] = {
        "model": model,
        "optimizer": optimizer,
        "scheduler": scheduler,
        "data": data,
        "run": "small",
    }
    guard = Guard(None, tmp_path / "run", control=control, poll=0.0, allow=("lr",), every=5, **options)
    optimizer.register_step_pre_hook(lambda o, *_: used.append(o.param_groups[0]["lr"]))
    for step in guard.steps(12):
        model(next(data)).backward()
        optimizer.step()
        scheduler.step()
        optimizer.load_state_dict(optimizer.state_dict())  # which brings the schedule's rate back
        optimizer.zero_grad()
        if step in (4, 8):
            channel(control).ask(request("lr_scale", params={"lr_factor": 0.6}))
        guard.step({})
    factors = [1.0] * 4 + [0.6] * 4 + [0.5] * 4
    assert used == pytest.approx([0.9**step * factor for step, factor in enumerate(factors)])
    assert scheduler.get_last_lr() == pytest.approx([0.9**12])
    second = Guard(None, tmp_path / "run", control=control, every=5, **options)  # another guard of the same optimizer
    optimizer.step()
    assert used[-1] == pytest.approx(0.9**12 * 0.5)
    second.close()


def test_a_rate_that_is_a_tensor_is_changed_in_place(tmp_path: Path, control: Path) -> None:
    model = torch.nn.Linear(1, 1)
    rate = torch.tensor(1.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, foreach=False, capturable=False)
    guard = Guard(
        None, tmp_path / "run", model=model, optimizer=optimizer, control=control, allow=("lr",), poll=0.0, run="small"
    )
    channel(control).ask(request("lr_scale", params={"lr_factor": 0.5}))
    guard.step({})
    used = []
    optimizer.register_step_pre_hook(lambda o, *_: used.append(float(o.param_groups[0]["lr"])))
    model(torch.ones(1)).backward()
    optimizer.step()
    assert used == [0.5] and float(rate) == 1.0 and optimizer.param_groups[0]["lr"] is rate
    guard.close()


def test_nothing_but_the_documented_end_comes_out_of_a_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    loop = Loop(tmp_path / "run", bad=range(50, 60))

    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(loop.guard._training.ring, "settle", broken)
    loop.train(100)
    assert loop.seen[:100] == [1] * 100
    assert caplog.text.count("the guard of run small failed and is off; training goes on") == 1
    loop.guard.step({"loss": 1.0})  # after the end, too


def test_data_that_knows_no_place_is_wrapped_and_drawn_on(tmp_path: Path, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING):
        loop = Loop(tmp_path / "run", bad=range(70, 75), data=Batches(range(1000))).train(100)
    assert "20 batches are drawn and dropped" in caplog.text
    account(loop)


def test_epochs_follow_one_another_and_a_loader_s_own_state_is_used() -> None:
    class Loader(list):  # type: ignore[type-arg]
        told: list[int] = []
        at = 0

        class sampler:  # noqa: N801
            @staticmethod
            def set_epoch(epoch: int) -> None:
                Loader.told.append(epoch)

        def __iter__(self) -> Any:
            start, self.at = self.at, 0
            for n in range(start, len(self)):
                self.at = n + 1
                yield self[n]
            self.at = 0

        def state_dict(self) -> dict[str, int]:
            return {"at": self.at}

        def load_state_dict(self, state: dict[str, int]) -> None:
            self.at = state["at"]

    data = Batches(Loader("abc"))
    assert [next(data) for _ in range(5)] == list("abcab") and Loader.told == [0, 1]
    again = Batches(Loader("abc"))
    again.load_state_dict(data.state_dict())
    assert [next(again) for _ in range(2)] == list("ca") and again.position == 7 and again.epoch == 2
    assert list(Batches("ab", epochs=2)) == list("abab")
    with pytest.raises(UsageError, match="cannot go back to 2"):
        data.skip_to(2)
    with pytest.raises(StopIteration):
        next(Batches([]))


def test_a_guard_without_data_pauses_where_it_could_not_get_past_the_bad_batches(tmp_path: Path) -> None:
    model = Counting()
    shelf = Shelf()
    guard = Guard(policy(RED), tmp_path / "run",
                  model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), allow=("pause", "rollback"))  # fmt: skip
    with pytest.raises(Ended):
        for _ in guard.steps(100):
            guard.step({"loss": 10.0 if next(shelf) > 50 else 1.0})
    assert guard.done == 54
