"""A guarded training in the hands of a trainer, in several gloo processes or one, on the same data."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch.utils.data import DataLoader, DistributedSampler
from trainers import SMALL, Numbers, policy


class Shared(torch.nn.Module):
    """A linear layer whose loss on some samples is their mean, in however many processes they lie.

    The loss of bad samples is 10, or what is said, above that of the others.
    """

    accepts_loss_kwargs = False

    def __init__(self, bad: Any, loss: float) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.bad, self.loss = frozenset(bad), loss
        self.order: list[int] = []

    def forward(self, number: Any, **_: Any) -> Any:
        samples = [int(one) for one in number]
        if self.training:
            self.order += samples
        words = torch.stack([torch.randn(4, generator=torch.Generator().manual_seed(one)) for one in samples])
        said = torch.tensor([self.loss if one in self.bad else 1.0 for one in samples])
        noise = self.layer(words).squeeze(1).pow(2)
        return {"loss": (0.1 * noise + said).mean() if said.isfinite().all() else (noise * said).mean()}


def environment() -> tuple[int, int]:
    """Rank and count, said in the environment too, as `torchrun` does it."""
    if not distributed.is_initialized():
        return 0, 1
    rank, count = distributed.get_rank(), distributed.get_world_size()
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count), LOCAL_WORLD_SIZE=str(count),
                      MASTER_ADDR="localhost", MASTER_PORT="1", OMP_NUM_THREADS="1")  # fmt: skip
    return rank, count


def options(text: str, guard: Any) -> dict[str, Any]:
    named = {**SMALL, "allow": ("pause", "rollback"), "rank_timeout": 30.0, **(guard or {})}
    return {"policy": policy(text), "run": "small", **named}


def told_of(model: Shared, guard: Any) -> dict[str, Any]:
    return {
        "order": model.order, "weight": model.layer.weight.detach().clone(), "done": guard.done,
        "skipped": guard.skipped, "attempt": guard.attempt,
    }  # fmt: skip


def transformed(
    folder: str, text: str, bad: Any = (), loss: float = 10.0, *, samples: int = 1_000, shuffled: bool = False,
    guard: Any = None, fails: int = -1, evaluated: Any = (), **arguments: Any,
) -> dict[str, Any]:  # fmt: skip
    """By a `transformers.Trainer`. On the rank that `fails` the guard's callback does, once a step has been made."""
    import transformers
    from vitalsdsl_torch.huggingface import GuardCallback

    rank, count = environment()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Shared(bad, loss)
    args = transformers.TrainingArguments(
        str(Path(folder).parent / "out"), use_cpu=True, ddp_backend="gloo" if count > 1 else None, report_to=[], disable_tqdm=True, optim="sgd",
        train_sampling_strategy="random" if shuffled else "sequential", learning_rate=0.1, label_names=["labels"],
        **{"per_device_train_batch_size": 2 // count, "logging_steps": 10, "save_strategy": "no", **arguments},
    )  # fmt: skip
    trainer = transformers.Trainer(
        model, args, train_dataset=Numbers(samples), eval_dataset=Numbers(1) if evaluated else None,
        data_collator=lambda rows: {"number": torch.tensor(rows), "labels": torch.tensor(rows)},
    )  # fmt: skip
    callback = GuardCallback(folder=folder, **options(text, guard))
    scores = iter(evaluated)

    def evaluate(*given: Any, **named: Any) -> dict[str, float]:
        metrics = {"eval_loss": next(scores)}
        trainer.log(metrics)
        trainer.control = trainer.callback_handler.on_evaluate(args, trainer.state, trainer.control, metrics)
        return metrics

    if evaluated:
        trainer.evaluate = evaluate
    if fails == rank:
        callback._step_ends = lambda *_: 1 / 0  # type: ignore[method-assign, assignment]
    trainer.add_callback(callback)
    trainer.train()
    state = trainer.state
    log = [{name: value for name, value in row.items() if "per_second" not in name and "runtime" not in name}
           for row in state.log_history]  # fmt: skip
    return {**told_of(model, callback.guard), "step": state.global_step, "epoch": state.epoch, "log": log,
            "best": Path(state.best_model_checkpoint or "").name}  # fmt: skip


def fitted(
    folder: str, text: str, bad: Any = (), loss: float = 10.0, *, samples: int = 1_000, shuffled: bool = False,
    guard: Any = None, fails: int = -1, scores: Any = (), **arguments: Any,
) -> dict[str, Any]:  # fmt: skip
    """By a Lightning trainer, as `transformed`. Where there are `scores`, validation says one each twenty updates."""
    import lightning.pytorch as pl
    from lightning.pytorch.callbacks import ModelCheckpoint
    from vitalsdsl_torch.lightning import GuardCallback

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    _, count = environment()
    pl.seed_everything(0, verbose=False)
    torch.set_num_threads(1)

    class Module(pl.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = Shared(bad, loss)
            self.scores = iter(scores)

        def training_step(self, number: Any, at: int) -> Any:
            return self.net(number)["loss"]

        def validation_step(self, number: Any, at: int) -> None:
            self.log("val_loss", next(self.scores))

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.05)

    module = Module()
    callback = GuardCallback(folder=folder, **options(text, guard))
    keep = ModelCheckpoint(
        Path(folder).parent / "out", filename="{step}", save_top_k=2,
        **{"monitor": "val_loss", "mode": "min"} if scores else {"monitor": "step", "mode": "max", "every_n_train_steps": 10},
    )  # fmt: skip
    if scores:
        arguments["val_check_interval"] = 20
    trainer = pl.Trainer(
        accelerator="cpu", strategy="ddp" if count > 1 else "auto", devices=count, enable_progress_bar=False, logger=False,
        enable_model_summary=False, num_sanity_val_steps=0, callbacks=[callback, keep], **arguments,
    )  # fmt: skip
    if fails == trainer.global_rank:
        callback._look = lambda *_: 1 / 0  # type: ignore[method-assign, assignment]
    # The trainer's own sampler, of many, shuffles in any case.
    sampler = DistributedSampler(Numbers(samples), shuffle=False) if count > 1 and not shuffled else None
    loader = DataLoader(Numbers(samples), batch_size=2 // count, shuffle=shuffled, sampler=sampler)
    trainer.fit(module, loader, DataLoader(Numbers(count)) if scores else None)
    return {**told_of(module.net, callback.guard), "step": trainer.global_step, "epoch": trainer.current_epoch,
            "best": Path(keep.best_model_path).name, "kept": sorted(Path(one).name for one in keep.best_k_models)}  # fmt: skip
