"""The checkpoints that a transformers.Trainer makes of its own, beside the guard's: known, pruned and chosen by health."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from trainers import turns, verdict

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from test_huggingface import Trained, home  # noqa: E402, F401

SAVING = {"save_strategy": "steps", "save_steps": 20}


def states(out: Path) -> dict[str, str]:
    return {path.name: verdict(path / "vitals.json") for path in sorted(out.iterdir()) if path.is_dir()}


def test_each_says_what_is_known_of_it_and_what_was_taken_back_has_another_name(tmp_path: Path) -> None:
    Trained(tmp_path, bad=range(93, 96), max_steps=130, **SAVING).train()
    # Tripped at 96: back to 80, the newest healthy one then; none was made in between.
    assert states(tmp_path / "out") == {
        "checkpoint-20": "healthy", "checkpoint-40": "healthy", "checkpoint-60": "healthy", "checkpoint-80": "healthy",
        "checkpoint-100": "healthy", "checkpoint-120": "healthy", "checkpoint-130": "probation",
    }  # fmt: skip


def test_the_last_is_never_one_that_was_taken_back(tmp_path: Path) -> None:
    run = Trained(tmp_path, bad=range(98, 101), max_steps=101, save_strategy="steps", save_steps=10)
    run.train()
    (turn,) = turns(run.folder)
    assert turn["step"] == 80
    found = states(tmp_path / "out")
    assert found["taken-back-90-0"] == found["taken-back-100-0"] == "taken back"
    assert "checkpoint-100" in found and found["checkpoint-80"] == "healthy"


def test_their_pruning_spares_the_newest_healthy_one(tmp_path: Path) -> None:
    text = "rule hot { when loss > 5 -> yellow }"
    run = Trained(tmp_path, text, bad=range(45, 150), max_steps=140, save_total_limit=2, **SAVING).train()
    # All from 40 on lie within ten steps of a rule that has fired from 46 on.
    assert states(tmp_path / "out") == {"checkpoint-20": "healthy", "checkpoint-140": "suspect"}
    assert run.args.save_total_limit == 2


def test_one_in_probation_is_spared_so_that_there_will_be_a_healthy_one(tmp_path: Path) -> None:
    Trained(tmp_path, bad=(), max_steps=90, save_total_limit=1, save_strategy="steps", save_steps=5).train()
    # 90 is the newest, 75 healthy since 85, and 85 the next to become so: 80 had gone while 75 was that.
    assert states(tmp_path / "out") == {
        "checkpoint-75": "healthy", "checkpoint-85": "probation", "checkpoint-90": "probation",
    }  # fmt: skip


def test_the_best_is_none_that_is_suspect(tmp_path: Path) -> None:
    text = "rule hot { when loss > 5 -> yellow }"
    run = Trained(tmp_path, text, bad=range(58, 64), max_steps=100, evaluated=True, eval_strategy="steps", eval_steps=20,
                  load_best_model_at_end=True, metric_for_best_model="loss", greater_is_better=False, **SAVING)  # fmt: skip
    scores = iter([5.0, 4.0, 1.0, 3.0, 3.5])  # the best, by the trainer's own measure, is at step 60

    def evaluate(*given: Any, **named: Any) -> dict[str, float]:
        metrics = {"eval_loss": next(scores)}
        run.trainer.log(metrics)
        run.trainer.control = run.trainer.callback_handler.on_evaluate(
            run.args, run.trainer.state, run.trainer.control, metrics
        )
        return metrics

    run.trainer.evaluate = evaluate
    run.train()
    state = run.trainer.state
    assert states(tmp_path / "out")["checkpoint-60"] == "suspect"
    assert (state.best_global_step, state.best_metric) == (80, 3.0)
    assert state.best_model_checkpoint is not None and state.best_model_checkpoint.endswith("checkpoint-80")
    assert int(run.model.seen.sum()) == 80  # and that was loaded at the end


def test_the_guard_s_own_checkpoint_wins_over_the_trainer_s(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Trained(tmp_path, bad=(), max_steps=70, **SAVING).train()
    again = Trained(tmp_path, bad=(), max_steps=100, **SAVING).train(
        resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-20")
    )
    assert again.model.order == list(range(70, 100))
    assert "going on from the guard's checkpoints" in caplog.text


def test_a_guard_joins_a_run_that_goes_on_from_the_trainer_s_checkpoint(tmp_path: Path) -> None:
    first = Trained(tmp_path, bad=(), max_steps=60, samples=25, **SAVING).train()
    first.folder.rename(tmp_path / "elsewhere")
    second = Trained(tmp_path, bad=(), max_steps=90, samples=25, **SAVING).train(resume_from_checkpoint=True)
    assert second.model.order == [*range(10, 25), *range(15)]
    assert second.callback.guard.done == second.trainer.state.global_step == 90
    assert not second.args.ignore_data_skip


def test_a_suspect_one_is_not_taken_for_the_last_to_go_on_from(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = "rule hot { when loss > 5 -> yellow }"
    first = Trained(tmp_path, text, bad=range(55, 60), max_steps=60, **SAVING).train()
    first.folder.rename(tmp_path / "elsewhere")
    second = Trained(tmp_path, text, bad=(), max_steps=60, **SAVING).train(resume_from_checkpoint=True)
    assert second.model.order == list(range(40, 60)) and "checkpoint-60 is suspect: going on from" in caplog.text
