"""A guard in a transformers.Trainer: the same decisions as in a plain loop, and the trainer's own counts in step."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from trainers import BATCHES, SMALL, Counted, Numbers, account, policy, turns
from training_loops import RED, Loop, channel, request

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from vitalsdsl_torch.huggingface import GuardCallback  # noqa: E402

from vitalsdsl.ground.errors import UsageError  # noqa: E402

ORANGE = "rule hot { when loss > 5 for 3 steps -> orange }"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITALS_HOME", str(tmp_path / "home"))


class Trained:
    """A small training, made anew with the same seed each time, as a script that is started again."""

    def __init__(
        self, folder: Path, text: str = RED, bad: Any = range(105, 110), loss: float = 10.0, *,
        samples: int = BATCHES, guard: Any = None, shuffled: bool = False, evaluated: bool = False, **arguments: Any,
    ) -> None:  # fmt: skip
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.folder = folder / "run"
        self.model = Counted(bad, loss)
        self.args = transformers.TrainingArguments(
            str(folder / "out"), use_cpu=True, report_to=[], disable_tqdm=True,
            **{"per_device_train_batch_size": 1, "logging_steps": 10, "save_strategy": "no", "label_names": ["labels"], **arguments},
        )  # fmt: skip

        class Ordered(transformers.Trainer):  # type: ignore[misc, name-defined]
            def _get_train_sampler(self, *given: Any) -> Any:
                if shuffled:
                    return super()._get_train_sampler(*given)
                return torch.utils.data.SequentialSampler(self.train_dataset)

        self.trainer = Ordered(
            self.model, self.args, data_collator=lambda rows: {"number": torch.tensor(rows), "labels": torch.tensor(rows)},
            train_dataset=Numbers(samples), eval_dataset=Numbers(1) if evaluated else None,
        )  # fmt: skip
        self.callback = GuardCallback(
            policy(text), self.folder, run="small", **{**SMALL, "allow": ("pause", "rollback"), **(guard or {})}
        )
        self.trainer.add_callback(self.callback)

    def train(self, **named: Any) -> Trained:
        self.trainer.train(**named)
        return self

    def logged(self, name: str) -> dict[int, float]:
        return {row["step"]: row[name] for row in self.trainer.state.log_history if name in row}


def test_it_decides_as_in_a_plain_loop_and_the_trainer_counts_what_is_in_the_model(tmp_path: Path) -> None:
    run = Trained(tmp_path, max_steps=150, learning_rate=0.1).train()
    plain = Loop(tmp_path / "plain", bad=range(105, 110)).train(150)
    assert turns(run.folder) == turns(plain.folder) and len(turns(run.folder)) == 1
    assert run.trainer.state.global_step == run.callback.guard.done == 150
    account(run.folder, run.model.seen, 198)
    assert run.model.order == [*range(108), *range(128, 198)]
    # The trainer's log has no line of what was taken back, and its means are those of good steps.
    assert list(run.logged("loss")) == list(range(10, 151, 10)) and max(run.logged("loss").values()) < 1.1
    assert run.logged("vitals/attempt")[150] == 1.0 and run.logged("train_loss")[150] < 1.1
    assert run.trainer.state.epoch == pytest.approx(0.198)
    assert type(run.trainer).__name__ == "Ordered" and run.trainer.args.save_total_limit is None


def test_with_accumulation_an_update_s_batches_are_passed_over_together(tmp_path: Path) -> None:
    run = Trained(tmp_path, bad=range(200, 220), max_steps=60, gradient_accumulation_steps=4,
                  guard={"every": 10}, dataloader_num_workers=1)  # fmt: skip
    run.train()
    (turn,) = turns(run.folder)
    # Bad are the updates 51 to 55; the third is 53, behind 212 batches. 20 updates' batches are 80.
    assert (turn["trip_step"], turn["tripped_at"], turn["position"], turn["since"]) == (53, 212, 292, 160)
    account(run.folder, run.model.seen, 292 + 20 * 4)
    assert run.trainer.state.global_step == 60 and torch.count_nonzero(run.model.seen) == 240


def test_the_rate_at_each_update_is_the_schedule_s_times_the_factor(tmp_path: Path) -> None:
    run = Trained(tmp_path, max_steps=150, learning_rate=0.1, warmup_steps=10)
    used: list[tuple[int, float]] = []

    class Rates(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
        def on_train_begin(self, args: Any, state: Any, control: Any, optimizer: Any = None, **named: Any) -> None:
            optimizer.optimizer.register_step_pre_hook(
                lambda one, *_: used.append((state.global_step, one.param_groups[0]["lr"]))
            )

    run.trainer.add_callback(Rates())
    run.train()

    def scheduled(step: int) -> float:
        return 0.1 * (step / 10 if step < 10 else (150 - step) / 140)

    expected = [scheduled(step) for step in range(108)] + [0.9 * scheduled(step) for step in range(80, 150)]
    assert [step for step, _ in used] == [*range(108), *range(80, 150)]
    assert [rate for _, rate in used] == pytest.approx(expected)


def test_a_nan_is_seen_that_the_trainer_hides_from_its_own_log(tmp_path: Path) -> None:
    text = "rule broken { when loss is nan -> red }"
    run = Trained(tmp_path, text, range(105, 106), math.nan, max_steps=120, logging_nan_inf_filter=True).train()
    (turn,) = turns(run.folder)
    assert (turn["trip_step"], turn["step"]) == (106, 80)
    assert all(math.isfinite(value) for value in run.logged("loss").values())
    assert all(torch.isfinite(one).all() for one in run.model.parameters())


def test_paused_it_ends_with_75_and_started_again_it_goes_on(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        Trained(tmp_path, ORANGE, bad=range(105, 108), max_steps=150, shuffled=False).train()
    assert ended.value.code == 75
    again = Trained(tmp_path, ORANGE, bad=range(105, 108), max_steps=150).train()
    assert again.model.order == list(range(108, 150))
    assert [int(n) for n in again.model.seen] == [int(at < 150) for at in range(BATCHES)]
    assert list(again.logged("loss")) == list(range(10, 151, 10))  # those of the first process too
    assert Trained(tmp_path, ORANGE, max_steps=150).train().model.order == []  # nothing is left to do


def test_a_run_that_was_ended_and_started_again_is_the_same_bit_for_bit(tmp_path: Path) -> None:
    whole = Trained(tmp_path / "whole", bad=(), max_steps=120, samples=50, shuffled=True, num_train_epochs=9).train()
    stop = "rule half { when loss > 0 and step == 70 -> yellow do stop }"
    part = Trained(tmp_path, stop, bad=(), max_steps=120, samples=50, shuffled=True, guard={"allow": ("stop",)})
    with pytest.raises(SystemExit) as ended:
        part.train()
    assert ended.value.code == 0
    rest = Trained(tmp_path, bad=(), max_steps=120, samples=50, shuffled=True).train()
    assert part.model.order + rest.model.order == whole.model.order
    assert all(torch.equal(a, b) for a, b in zip(whole.model.parameters(), rest.model.parameters()))
    assert rest.trainer.state.epoch == whole.trainer.state.epoch
    assert rest.logged("loss") == whole.logged("loss") and rest.logged("train_loss") == whole.logged("train_loss")


def test_by_steps_it_ends_with_so_many_in_the_model_though_that_takes_more_epochs(tmp_path: Path) -> None:
    run = Trained(tmp_path, max_steps=150, samples=150).train()
    assert run.trainer.state.global_step == 150
    assert run.model.order == [*range(108), *range(128, 150), *range(48)]


def test_by_epochs_it_ends_with_the_data_and_fewer_updates(tmp_path: Path) -> None:
    run = Trained(tmp_path, num_train_epochs=2, samples=75, bad=range(70, 75), save_strategy="epoch",
                  guard={"allow": ("rollback",)}).train()  # fmt: skip
    (turn,) = turns(run.folder)  # at batch 73: to step 60, past 20 more, which is in the second epoch
    assert (turn["step"], turn["position"]) == (60, 93)
    assert run.trainer.state.global_step == 60 + (150 - 93) and run.trainer.state.epoch == 2.0
    assert run.model.order == [*range(73), *range(18, 75)]


def test_a_rollback_at_the_last_step_is_made_and_training_goes_on(tmp_path: Path) -> None:
    run = Trained(tmp_path, max_steps=108, save_strategy="steps", save_steps=50).train()
    assert len(turns(run.folder)) == 1 and run.trainer.state.global_step == 108
    account(run.folder, run.model.seen, 128 + 28)


def test_what_is_evaluated_at_a_step_is_judged_at_that_step(tmp_path: Path) -> None:
    text = "rule worse { when eval_loss > 0 for 1 samples -> yellow do stop }"
    run = Trained(tmp_path, text, bad=(), max_steps=90, evaluated=True, eval_strategy="steps", eval_steps=30,
                  guard={"allow": ("stop",)})  # fmt: skip
    with pytest.raises(SystemExit):
        run.train()
    assert run.callback.guard.done == 30 and run.logged("eval_loss").keys() == {30}


def test_the_control_folder_is_heard(tmp_path: Path) -> None:
    control = tmp_path / "control"
    channel(control).ask(request("stop"))
    run = Trained(tmp_path, bad=(), max_steps=90, guard={"control": control, "poll": 0.0, "allow": ("stop",)})
    with pytest.raises(SystemExit) as ended:
        run.train()
    assert ended.value.code == 0 and run.callback.guard.done == 1


def test_the_collectors_measure_and_the_trainer_logs_it(tmp_path: Path) -> None:
    plain = Trained(tmp_path / "plain", bad=(), max_steps=20).train()
    run = Trained(tmp_path, bad=(), max_steps=20, guard={"vitals": True}).train()
    assert {"param_norm", "clip_coef", "vitals/attempt"} <= run.trainer.state.log_history[0].keys()
    assert run.logged("grad_norm") == plain.logged("grad_norm") and run.logged("loss") == plain.logged("loss")
    assert all(torch.equal(a, b) for a, b in zip(plain.model.parameters(), run.model.parameters()))


def test_what_cannot_work_is_said_before_the_first_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no argument `alow`"):
        GuardCallback("llm.vitals", tmp_path, alow=("pause",))
    run = Trained(tmp_path, max_steps=10, guard={"every": 0})
    with pytest.raises(UsageError, match="`every` must be 1 or more"):
        run.train()
    assert run.model.order == []
    run = Trained(tmp_path / "parts", max_steps=10)

    class Sharded(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
        def on_train_begin(self, *given: Any, **named: Any) -> None:
            run.trainer.is_fsdp_enabled = True

    run.trainer.callback_handler.callbacks.insert(0, Sharded())
    with pytest.raises(UsageError, match="that each process has whole"):
        run.train()
    assert run.model.order == []


def test_a_fault_in_what_is_ours_switches_the_guard_off_and_nothing_else(tmp_path: Path) -> None:
    run = Trained(tmp_path, max_steps=12, bad=())
    run.callback._settle = lambda: 1 / 0  # type: ignore[method-assign, assignment]
    assert run.train().trainer.state.global_step == 12
