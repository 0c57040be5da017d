"""A guard in a Lightning trainer: the same decisions as in a plain loop, and the trainer's own counts in step."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader
from trainers import BATCHES, SMALL, Counted, Numbers, account, policy, turns, verdict
from training_loops import RED, Loop, channel, request

pl = pytest.importorskip("lightning.pytorch")

from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: E402
from lightning.pytorch.loggers import CSVLogger  # noqa: E402
from lightning.pytorch.strategies import SingleDeviceStrategy  # noqa: E402
from vitalsdsl_torch.lightning import GuardCallback  # noqa: E402

from vitalsdsl.ground.errors import UsageError  # noqa: E402

ORANGE = "rule hot { when loss > 5 for 3 steps -> orange }"
YELLOW = "rule hot { when loss > 5 -> yellow }"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITALS_HOME", str(tmp_path / "home"))
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Module(pl.LightningModule):  # type: ignore[misc, name-defined]
    """The counted model, stepped by the trainer or, `by_hand`, by itself."""

    def __init__(self, bad: Any, loss: float, scores: Any, by_hand: bool, each: str) -> None:
        super().__init__()
        self.net = Counted(bad, loss)
        self.automatic_optimization = not by_hand
        self.each = each
        self.scores = iter(scores)
        self.used: list[tuple[int, float]] = []

    def on_train_start(self) -> None:
        self.trainer.optimizers[0].register_step_pre_hook(
            lambda one, *_: self.used.append((self.trainer.global_step, one.param_groups[0]["lr"]))
        )

    def training_step(self, number: Any, at: int) -> Any:
        loss = self.net(number)["loss"]
        self.log("train_loss", loss)
        if not self.automatic_optimization:
            optimizer = self.optimizers()
            self.manual_backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        return loss

    def validation_step(self, number: Any, at: int) -> None:
        self.log("val_loss", next(self.scores))

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step / 100))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": self.each}}


class Fitted:
    """A small training, made anew with the same seed each time, as a script that is started again."""

    def __init__(
        self, folder: Path, text: str = RED, bad: Any = range(105, 110), loss: float = 10.0, *, samples: int = BATCHES,
        guard: Any = None, shuffled: bool = False, by_hand: bool = False, each: str = "step", scores: Any = (),
        callbacks: Any = (), workers: int = 0, **arguments: Any,
    ) -> None:  # fmt: skip
        pl.seed_everything(0, verbose=False)
        torch.set_num_threads(1)
        self.folder = folder / "run"
        self.module = Module(bad, loss, scores, by_hand, each)
        self.net = self.module.net
        self.loader = DataLoader(Numbers(samples), shuffle=shuffled, num_workers=workers)
        self.scores = list(scores)
        self.callback = GuardCallback(
            policy(text), self.folder, run="small", **{**SMALL, "allow": ("pause", "rollback"), **(guard or {})}
        )
        self.trainer = pl.Trainer(
            accelerator="cpu", enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
            callbacks=[self.callback, *callbacks],
            **{"logger": False, "enable_checkpointing": bool(callbacks), "num_sanity_val_steps": 0, **arguments},
        )  # fmt: skip

    def fit(self, **named: Any) -> Fitted:
        held = DataLoader(Numbers(1)) if self.scores else None
        self.trainer.fit(self.module, self.loader, held, **named)
        return self


@pytest.mark.parametrize("by_hand", [False, True])
def test_it_decides_as_in_a_plain_loop_and_the_trainer_counts_what_is_in_the_model(
    tmp_path: Path, by_hand: bool
) -> None:
    run = Fitted(tmp_path, max_steps=150, by_hand=by_hand).fit()
    plain = Loop(tmp_path / "plain", bad=range(105, 110)).train(150)
    assert turns(run.folder) == turns(plain.folder) and len(turns(run.folder)) == 1
    assert run.trainer.global_step == run.callback.guard.done == 150
    account(run.folder, run.net.seen, 198)
    assert run.net.order == [*range(108), *range(128, 198)]


def test_with_accumulation_an_update_s_batches_are_passed_over_together(tmp_path: Path) -> None:
    run = Fitted(tmp_path, bad=range(200, 220), max_steps=60, accumulate_grad_batches=4, guard={"every": 10}, workers=1)
    run.fit()
    (turn,) = turns(run.folder)
    assert (turn["trip_step"], turn["tripped_at"], turn["position"], turn["since"]) == (53, 212, 292, 160)
    account(run.folder, run.net.seen, 292 + 20 * 4)
    assert run.trainer.global_step == 60


def test_the_rate_at_each_update_is_the_schedule_s_times_the_factor(tmp_path: Path) -> None:
    run = Fitted(tmp_path, max_steps=150).fit()
    expected = [0.1 / (1 + step / 100) for step in range(108)]
    expected += [0.9 * 0.1 / (1 + step / 100) for step in range(80, 150)]
    assert [step for step, _ in run.module.used] == [*range(108), *range(80, 150)]
    assert [rate for _, rate in run.module.used] == pytest.approx(expected)


def test_a_nan_is_seen_and_taken_back(tmp_path: Path) -> None:
    text = "rule broken { when loss is nan -> red }"
    run = Fitted(tmp_path, text, range(105, 106), math.nan, max_steps=120).fit()
    (turn,) = turns(run.folder)
    assert (turn["trip_step"], turn["step"]) == (106, 80)
    assert all(torch.isfinite(one).all() for one in run.module.parameters())


def test_paused_it_ends_with_75_and_started_again_it_goes_on(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        Fitted(tmp_path, ORANGE, bad=range(105, 108), max_steps=150).fit()
    assert ended.value.code == 75
    again = Fitted(tmp_path, ORANGE, bad=range(105, 108), max_steps=150).fit()
    assert again.net.order == list(range(108, 150)) and again.trainer.global_step == 150
    assert Fitted(tmp_path, ORANGE, max_steps=150).fit().net.order == []


def test_a_run_that_was_ended_and_started_again_is_the_same_bit_for_bit(tmp_path: Path) -> None:
    whole = Fitted(tmp_path / "whole", bad=(), max_steps=120, samples=50, shuffled=True).fit()
    stop = "rule half { when loss > 0 and step == 70 -> yellow do stop }"
    part = Fitted(tmp_path, stop, bad=(), max_steps=120, samples=50, shuffled=True, guard={"allow": ("stop",)})
    with pytest.raises(SystemExit) as ended:
        part.fit()
    assert ended.value.code == 0
    rest = Fitted(tmp_path, bad=(), max_steps=120, samples=50, shuffled=True).fit()
    assert part.net.order + rest.net.order == whole.net.order
    assert all(torch.equal(a, b) for a, b in zip(whole.module.parameters(), rest.module.parameters()))
    assert rest.trainer.current_epoch == whole.trainer.current_epoch


def test_by_steps_it_ends_with_so_many_in_the_model_though_that_takes_more_epochs(tmp_path: Path) -> None:
    run = Fitted(tmp_path, max_steps=150, samples=150).fit()
    assert run.trainer.global_step == 150
    assert run.net.order == [*range(108), *range(128, 150), *range(48)]


def test_by_epochs_it_ends_with_the_data_and_fewer_updates(tmp_path: Path) -> None:
    run = Fitted(tmp_path, max_epochs=2, samples=75, bad=range(70, 75), each="epoch", guard={"allow": ("rollback",)})
    run.fit()
    (turn,) = turns(run.folder)  # at batch 73: to step 60, past 20 more, which is in the second epoch
    assert (turn["step"], turn["position"]) == (60, 93)
    assert run.trainer.global_step == 60 + (150 - 93) and run.trainer.current_epoch == 2
    assert run.net.order == [*range(73), *range(18, 75)]
    # The scheduler that steps with epochs has stepped at the end of the first, though that was passed over.
    assert [round(rate, 6) for _, rate in run.module.used[72:74]] == [0.1, round(0.9 * 0.1 / 1.01, 6)]


def test_a_rollback_at_the_last_step_is_made_and_training_goes_on(tmp_path: Path) -> None:
    run = Fitted(tmp_path, max_steps=108).fit()
    assert len(turns(run.folder)) == 1 and run.trainer.global_step == 108
    account(run.folder, run.net.seen, 128 + 28)


def test_what_validation_says_is_judged_once_with_the_next_update(tmp_path: Path) -> None:
    text = "rule worse { when val_loss > 2 for 1 samples -> yellow do stop }"
    run = Fitted(
        tmp_path, text, bad=(), max_steps=90, scores=[1.0, 3.0], val_check_interval=30, guard={"allow": ("stop",)}
    )
    with pytest.raises(SystemExit):
        run.fit()
    assert run.callback.guard.done == 61


def test_the_control_folder_is_heard(tmp_path: Path) -> None:
    control = tmp_path / "control"
    channel(control).ask(request("stop"))
    run = Fitted(tmp_path, bad=(), max_steps=90, guard={"control": control, "poll": 0.0, "allow": ("stop",)})
    with pytest.raises(SystemExit) as ended:
        run.fit()
    assert ended.value.code == 0 and run.callback.guard.done == 1


def test_the_collectors_measure_and_the_loggers_get_it(tmp_path: Path) -> None:
    plain = Fitted(tmp_path / "plain", bad=(), max_steps=20).fit()
    logger = CSVLogger(tmp_path / "logs")
    run = Fitted(tmp_path, bad=(), max_steps=20, guard={"vitals": True}, logger=logger, log_every_n_steps=10).fit()
    head = (Path(logger.log_dir) / "metrics.csv").read_text("utf-8").partition("\n")[0]
    assert {"param_norm", "grad_nonfinite", "vitals/attempt", "train_loss"} <= set(head.split(","))
    assert all(torch.equal(a, b) for a, b in zip(plain.module.parameters(), run.module.parameters()))


def test_what_cannot_work_is_said_before_the_first_batch(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no argument `alow`"):
        GuardCallback("llm.vitals", tmp_path, alow=("pause",))
    run = Fitted(tmp_path, max_steps=10, guard={"every": 0})
    with pytest.raises(UsageError, match="`every` must be 1 or more"):
        run.fit()
    assert run.net.order == []


def test_a_model_that_is_wrapped_by_others_is_refused(tmp_path: Path) -> None:
    class Wrapping(SingleDeviceStrategy):  # type: ignore[misc]
        """As DeepSpeed and FSDP do it."""

        def setup(self, trainer: Any) -> None:
            super().setup(trainer)
            self.model = torch.nn.Sequential(self.model)

    run = Fitted(tmp_path, max_steps=10, strategy=Wrapping(torch.device("cpu")))
    with pytest.raises(UsageError, match="that each process has whole"):
        run.fit()
    assert run.net.order == []


def test_a_fault_in_what_is_ours_switches_the_guard_off_and_nothing_else(tmp_path: Path) -> None:
    run = Fitted(tmp_path, max_steps=12, bad=())
    run.callback._settle = lambda: 1 / 0  # type: ignore[method-assign, assignment]
    assert run.fit().trainer.global_step == 12


# -------------------------------------------------------------------- the trainer's own checkpoints


def saved(folder: Path) -> dict[str, str]:
    return {path.stem: verdict(path.with_name(f"{path.name}.vitals.json")) for path in sorted(folder.glob("*.ckpt"))}


def keeping(folder: Path, **named: Any) -> Any:
    return ModelCheckpoint(folder, filename="{step}", every_n_train_steps=20, **named)


def test_their_pruning_spares_the_newest_healthy_one(tmp_path: Path) -> None:
    keep = keeping(tmp_path / "theirs", save_top_k=2, monitor="step", mode="max")
    Fitted(tmp_path, YELLOW, bad=range(45, 150), max_steps=140, callbacks=[keep]).fit()
    assert saved(tmp_path / "theirs") == {"step=20": "healthy", "step=120": "suspect", "step=140": "suspect"}


def test_what_was_taken_back_has_another_name_and_is_not_the_best(tmp_path: Path) -> None:
    keep = keeping(tmp_path / "theirs", save_top_k=3, monitor="step", mode="max", save_last=True)
    run = Fitted(tmp_path, bad=range(99, 102), loss=8.0, max_steps=110, callbacks=[keep]).fit()
    (turn,) = turns(run.folder)
    assert turn["step"] == 80
    found = saved(tmp_path / "theirs")
    assert {name: state for name, state in found.items() if name.startswith("taken-back")} == {
        "taken-back-0-step=100": "taken back", "taken-back-0-last": "taken back",
    }  # fmt: skip
    assert "taken-back" not in keep.best_model_path and Path(keep.best_model_path).exists()


def test_the_best_is_none_that_is_suspect(tmp_path: Path) -> None:
    keep = ModelCheckpoint(tmp_path / "theirs", filename="{step}", save_top_k=3, monitor="val_loss", mode="min")
    Fitted(tmp_path, YELLOW, bad=range(58, 64), max_steps=100, scores=[5.0, 4.0, 1.0, 3.0, 3.5], val_check_interval=20,
           callbacks=[keep]).fit()  # fmt: skip
    assert saved(tmp_path / "theirs")["step=60"] == "suspect"
    assert Path(keep.best_model_path).stem == "step=80" and keep.best_model_score == 3.0


def test_the_guard_s_own_checkpoint_wins_over_the_trainer_s(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Fitted(tmp_path, bad=(), max_steps=70, callbacks=[keeping(tmp_path / "theirs")]).fit()
    again = Fitted(tmp_path, bad=(), max_steps=100, callbacks=[keeping(tmp_path / "theirs")])
    again.fit(ckpt_path=str(tmp_path / "theirs" / "step=60.ckpt"))
    assert again.net.order == list(range(70, 100)) and again.trainer.global_step == 100
    assert "going on from the guard's checkpoints" in caplog.text


def test_a_guard_joins_a_run_that_goes_on_from_the_trainer_s_checkpoint(tmp_path: Path) -> None:
    first = Fitted(tmp_path, bad=(), max_steps=60, callbacks=[keeping(tmp_path / "theirs")]).fit()
    first.folder.rename(tmp_path / "elsewhere")
    second = Fitted(tmp_path, bad=(), max_steps=90, callbacks=[keeping(tmp_path / "theirs")])
    second.fit(ckpt_path=str(tmp_path / "theirs" / "step=60.ckpt"))
    assert second.callback.guard.done == second.trainer.global_step == 90
