"""A guard in a Lightning trainer, by one line: `Trainer(callbacks=[GuardCallback("llm.vitals", "runs/first")])`."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

try:
    import lightning.pytorch as pl
    from lightning.pytorch.callbacks import ModelCheckpoint
except ImportError as missing:
    raise ImportError("this needs lightning: pip install 'vitalsdsl[lightning]'") from missing

from vitalsdsl.ground.errors import UsageError
from vitalsdsl.policies.policy import LoadedPolicy, as_policy
from vitalsdsl_torch import checkpoint
from vitalsdsl_torch.adopted import UNFIT, Adopted
from vitalsdsl_torch.contents import beside, is_sharded
from vitalsdsl_torch.guard import Guard, check_options
from vitalsdsl_torch.lightning_state import Counters, Place
from vitalsdsl_torch.ring import TAKEN_BACK
from vitalsdsl_torch.vitals import Vitals

logger = logging.getLogger("vitalsdsl")

_TAKEN_BACK = "taken-back-"


class GuardCallback(pl.Callback):
    """A `Guard` in a Lightning trainer, with the arguments of `Guard` but those that the trainer knows.

    ```python
    trainer = Trainer(callbacks=[GuardCallback("llm.vitals", "runs/first", allow=("pause", "rollback"))])
    trainer.fit(model)
    ```

    Judged at each update are `loss` (of that update), `grad_norm` (before clipping), `learning_rate`, `epoch`, and what the
    module logs, by its name there; what validation logs is judged with the next update. The guard acts where the batch of
    an update ends. With `vitals` the collectors' metrics (docs/vitals.md) are judged as well, and given to the trainer's
    loggers each `log_every_n_steps` updates, with `vitals/attempt` and `vitals/lr_factor`.

    The page docs/trainers.md says what becomes of steps, epochs, the data and the trainer's own checkpoints.

    Raises UsageError and PolicyError here for what cannot work whatever the trainer, and in `Trainer.fit`, before the
    first batch, for what `Guard` refuses. From then on nothing but `SystemExit` is raised into the trainer.
    """

    def __init__(
        self,
        policy: str | os.PathLike[str] | LoadedPolicy | None,
        folder: str | os.PathLike[str],
        *,
        vitals: bool = False,
        **options: Any,
    ) -> None:
        check_options("GuardCallback", options)
        self._policy = as_policy(policy) if policy is not None else None
        self._folder = Path(folder).absolute()
        self._options = options
        self._has_vitals = vitals
        self.guard: Guard | None = None
        """The guard of the training that is under way, or was last."""

    # ---------------------------------------------------------------- around a training

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.ckpt_path and checkpoint.found(self._folder / "checkpoints"):
            if trainer.is_global_zero:
                logger.warning("vitals: going on from the guard's checkpoints, not from %s", trainer.ckpt_path)
            trainer._checkpoint_connector._loaded_checkpoint = {}

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not _is_whole(trainer, pl_module):
            raise UsageError("a guard takes a model that each process has whole: one process or DistributedDataParallel, "
                             "without DeepSpeed, FSDP or parts of it in parallel")  # fmt: skip
        self._place, self._counters = Place(trainer), Counters(trainer)
        self._place.watch()
        self._is_off = False
        self._loss: list[Any] = []
        self._norm: Any = None
        self._rate = math.nan
        self._late: dict[str, Any] = {}
        self._beside: dict[str, float] = {}
        self._spared: set[Path] = set()
        self._verdicts: dict[str, str] = {}
        schedulers = {f"scheduler {at}": one.scheduler for at, one in enumerate(trainer.lr_scheduler_configs)}
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        options = dict(self._options)
        extra = beside({"trainer": self._counters, **schedulers}, options.pop("extra", None))
        self._vitals: Vitals | None = None
        if self._has_vitals:
            self._vitals = extra["vitals"] = Vitals(pl_module, trainer.optimizers[0], scaler=scaler)
        total = float(trainer.estimated_stepping_batches)
        self.guard = Guard(
            self._policy, self._folder, model=pl_module, optimizer=trainer.optimizers, scaler=scaler, data=self._place,
            extra=extra, start=trainer.global_step,
            **{"total_steps": total if math.isfinite(total) else math.nan, **options},
        )  # fmt: skip
        self._counters.is_under_way = True
        self._stepped = trainer.global_step
        self._adopted = Adopted(self.guard.run, self.guard.health)  # of use on the rank that decides
        for one in trainer.checkpoint_callbacks:
            if getattr(one, "dirpath", None) and self.guard.leads:
                self._adopted.find(Path(one.dirpath).absolute().glob("*.ckpt"))
        self.guard.attend(self._settle, self._verdicts.update)
        self._save, self._remove = trainer.save_checkpoint, trainer.strategy.remove_checkpoint
        trainer.save_checkpoint = self._saved
        trainer.strategy.remove_checkpoint = self._removed

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._safely(self._place.watch)  # where the loaders are made anew each few epochs

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self.guard is not None:
            self.guard.save()
            self._safely(self._rate_all, trainer)
        self._leave(trainer)

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        if isinstance(exception, SystemExit):
            # The other processes end as this one does, and their launcher would kill it for that.
            getattr(trainer.strategy.launcher, "procs", []).clear()
        self._leave(trainer)

    def _leave(self, trainer: pl.Trainer) -> None:
        if self.guard is None:
            return
        self.guard.close()
        if self._vitals is not None:
            self._vitals.detach()
        for holder, name in ((trainer, "save_checkpoint"), (trainer.strategy, "remove_checkpoint")):
            vars(holder).pop(name, None)

    # ---------------------------------------------------------------- what a training says

    def on_before_optimizer_step(self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: Any) -> None:
        self._safely(self._look, pl_module, optimizer)

    def _look(self, module: Any, optimizer: Any) -> None:
        self._rate = float(optimizer.param_groups[0]["lr"])
        grads = [one.grad for one in module.parameters() if one.grad is not None]
        self._norm = torch.nn.utils.get_total_norm(grads) if grads else None

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.sanity_checking and self.guard is not None:
            self._safely(self._hear, trainer)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._safely(self._hear, trainer)

    def _hear(self, trainer: pl.Trainer) -> None:
        """What the module has logged in the loop that is under way, and nowhere before."""
        said = trainer._logger_connector.metrics["callback"]
        self._late |= {name: float(one) for name, one in said.items() if torch.as_tensor(one).numel() == 1}

    def _metrics(self, trainer: pl.Trainer, is_automatic: bool) -> dict[str, Any]:
        """Those of the update that was made: the only place where the device is waited for."""
        self._hear(trainer)
        out: dict[str, Any] = {"learning_rate": self._rate, "epoch": self._passed(trainer), **self._late}
        if self._loss:
            # The trainer has divided each by their number where it steps itself.
            out["loss"] = float(sum(self._loss)) / (1 if is_automatic else len(self._loss))
        if self._norm is not None:
            out["grad_norm"] = float(self._norm)
        self._loss, self._norm, self._late = [], None, {}
        return out

    def _passed(self, trainer: pl.Trainer) -> float:
        in_epoch, length = trainer.fit_loop.epoch_loop.batch_progress.current.ready, trainer.num_training_batches
        return float(trainer.current_epoch + (in_epoch / length if 0 < length < math.inf else 0.0))

    # ---------------------------------------------------------------- at the boundaries of steps

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        metrics = self._safely(self._batch_ends, trainer, pl_module, outputs)
        if trainer.global_step == self._stepped or self.guard is None:
            return
        attempt = self.guard.attempt
        self.guard.step(metrics or {})  # where all ranks meet: none stays away from it, whatever failed
        if trainer.max_steps != -1 and trainer.global_step >= trainer.max_steps:
            self.guard.is_over(self.guard.done)
        self._stepped = trainer.global_step
        self._safely(self._update_ends, trainer, self.guard.attempt != attempt)

    def _batch_ends(self, trainer: pl.Trainer, module: pl.LightningModule, outputs: Any) -> dict[str, Any]:
        """Gives the metrics of an update, where one was made."""
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if isinstance(loss, torch.Tensor):
            self._loss.append(loss.detach())
        if self._vitals is not None:
            self._vitals.micro_batch()
        if trainer.global_step == self._stepped or self.guard is None:
            return {}
        if self._vitals is not None:
            if self.guard.detail:
                self._vitals.detail(steps=1, every=1)
            measured = self._vitals.step(epoch=self._passed(trainer), data_pos=self._place.position)
            self._beside |= measured
            self._late |= measured
        return self._metrics(trainer, module.automatic_optimization)

    def _update_ends(self, trainer: pl.Trainer, went_back: bool) -> None:
        assert self.guard is not None
        if went_back:
            self._late.clear()
            self._place.end_epoch()
        if trainer.log_every_n_steps and self.guard.done % trainer.log_every_n_steps == 0:
            beside, self._beside = self._beside | self.guard.metrics, {}
            for one in trainer.loggers:
                one.log_metrics(beside, step=trainer.fit_loop.epoch_loop._batches_that_stepped)
        self._rate_all(trainer)

    def _safely(self, act: Callable[..., Any], *arguments: Any) -> Any:
        """What it gives; None where it fails, and where anything has before."""
        if self._is_off:
            return None
        try:
            return act(*arguments)
        except Exception:  # as in Guard: nothing may end a training run
            self._is_off = True
            logger.exception("vitals: the guard of %s failed and is off; training goes on", self._folder)
            if self.guard is not None:
                self.guard.fail()
            return None

    # ---------------------------------------------------------------- the trainer's own checkpoints

    def _saved(self, filepath: Any, *given: Any, **named: Any) -> None:
        """In place of the trainer's `save_checkpoint`."""
        self._save(filepath, *given, **named)
        assert self.guard is not None
        path = Path(filepath).absolute()
        self._verdicts.pop(str(path), None)  # of one that had its name
        if self.guard.leads:
            self._safely(self._adopted.add, path, self.guard.done, self.guard.attempt)

    def _removed(self, filepath: Any) -> None:
        """In place of the strategy's `remove_checkpoint`: one that is worth keeping goes once another is."""
        path = Path(filepath).absolute()
        if self.guard is None or not self.guard.leads:
            self._remove(filepath)
        elif path in self._adopted.worth_keeping():
            self._spared.add(path)
        else:
            self._remove(filepath)
            self._safely(self._adopted.forget, path)

    def _settle(self) -> dict[str, str] | None:
        """Asked by the guard on the rank that decides: what is known of which, as far as it has not been heard."""
        self._adopted.settle()
        states = self._adopted.states
        for one in self._adopted.taken_back():
            if not one.path.name.startswith(_TAKEN_BACK):  # so that it is no `last`, nor any other to go on from
                self._adopted.rename(one, one.path.with_name(f"{_TAKEN_BACK}{one.attempt}-{one.path.name}"))
        for path in self._spared - self._adopted.worth_keeping():
            self._spared.discard(path)
            self._remove(path)
        return {path: state for path, state in states.items() if self._verdicts.get(path) != state} or None

    def _state(self, path: str) -> str:
        """What all ranks have heard of one."""
        return self._verdicts.get(str(Path(path).absolute()), "") if path else ""

    def _rate_all(self, trainer: pl.Trainer) -> None:
        """On each rank, by what all have heard: what was taken back is not to be chosen, or pruned, by those who made it,
        and what is suspect is not the best."""
        for callback in trainer.checkpoint_callbacks:
            if not isinstance(callback, ModelCheckpoint):
                continue
            for known in [one for one in callback.best_k_models if self._state(one) == TAKEN_BACK]:
                del callback.best_k_models[known]
            for name in ("best_model_path", "last_model_path", "kth_best_model_path"):
                if self._state(getattr(callback, name)) == TAKEN_BACK:
                    setattr(callback, name, "")
                    if callback.best_k_models and not callback.best_model_path:
                        self._choose_best(callback)
            if self._state(callback.best_model_path) in UNFIT:
                self._choose_best(callback)

    def _choose_best(self, callback: Any) -> None:
        """The best one turned out to be suspect: take the best of the others that the callback keeps."""
        fit = {path: score for path, score in callback.best_k_models.items() if self._state(path) not in UNFIT}
        said = callback.best_model_path
        callback.best_model_path = (min if callback.mode == "min" else max)(fit, key=fit.__getitem__) if fit else ""
        callback.best_model_score = fit.get(callback.best_model_path)
        if said and self.guard is not None and self.guard.leads:
            logger.warning(
                "vitals: %s is suspect, not the best any more; now: %s", said, callback.best_model_path or "none"
            )


def _is_whole(trainer: pl.Trainer, module: pl.LightningModule) -> bool:
    """Whether each process has all of the model, and trains it on batches of its own."""
    model = trainer.strategy.model
    if any(is_sharded(one) for one in module.parameters()):
        return False
    return isinstance(model, DistributedDataParallel) or (trainer.world_size == 1 and model is module)
