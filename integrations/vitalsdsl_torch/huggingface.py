"""A guard in a `transformers.Trainer`, by one line: `trainer.add_callback(GuardCallback("llm.vitals", "runs/first"))`."""

from __future__ import annotations

import functools
import logging
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from torch.nn.parallel import DistributedDataParallel

try:
    import transformers
    from transformers import Trainer, TrainerCallback
    from transformers.trainer_utils import get_last_checkpoint
except ImportError as missing:
    raise ImportError("this needs transformers and accelerate: pip install 'vitalsdsl[hf]'") from missing

from vitalsdsl.ground.errors import UsageError
from vitalsdsl.policies.policy import LoadedPolicy, as_policy
from vitalsdsl_torch import checkpoint
from vitalsdsl_torch.adopted import UNFIT, Adopted, state_in
from vitalsdsl_torch.contents import beside, is_sharded
from vitalsdsl_torch.guard import Guard, check_options
from vitalsdsl_torch.trainer_folders import Best, Folders, folders_in
from vitalsdsl_torch.trainer_state import Counters, Loader, Stream
from vitalsdsl_torch.vitals import Vitals

logger = logging.getLogger("vitalsdsl")


class GuardCallback(TrainerCallback):
    """A `Guard` in a `transformers.Trainer`, with the arguments of `Guard` but those that the trainer knows.

    ```python
    trainer.add_callback(GuardCallback("llm.vitals", "runs/first", allow=("pause", "rollback")))
    trainer.train()
    ```

    Judged at each update are `loss` (of that update, NaN where it is), `grad_norm` (before clipping), `learning_rate` and
    `epoch`, and whatever else the trainer logs, evaluations too. The guard acts when the trainer asks for the next batch:
    then what is due at a step has been logged, evaluated and saved. With `vitals` the collectors' metrics (docs/vitals.md)
    are judged as well, and logged with the trainer's own; so are `vitals/attempt` and `vitals/lr_factor`.

    The page docs/trainers.md says what becomes of steps, epochs, the data and the trainer's own checkpoints.

    Raises UsageError and PolicyError here for what cannot work whatever the trainer, and in `Trainer.train`, before its
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
        self._trainer: Any = None
        self.guard: Guard | None = None
        """The guard of the training that is under way, or was last."""
        _introduce()

    # ---------------------------------------------------------------- around a training

    def train(self, trainer: Any, train: Callable[..., Any], resume: Any, *rest: Any, **named: Any) -> Any:
        """Run `Trainer.train` under guard. The trainer's class is its own again afterwards, and so are its arguments."""
        own, arguments = type(trainer), trainer.args
        before = arguments.save_total_limit, arguments.ignore_data_skip
        self._trainer, self.guard = trainer, None
        self._vitals: Vitals | None = None
        self._is_due = self._is_off = self._skips = False
        self._loss: Any = None
        self._norm: Any = None
        self._rate = math.nan
        self._late: dict[str, Any] = {}
        self._beside: dict[str, float] = {}
        trainer.__class__ = type(own.__name__, (_Guarded, own), {"vitals_guard": self, "__module__": own.__module__})
        try:
            return train(trainer, self._from(resume), *rest, **named)
        finally:
            trainer.__class__ = own
            arguments.save_total_limit, arguments.ignore_data_skip = before
            if self.guard is not None:
                self.guard.close()
            if self._vitals is not None:
                self._vitals.detach()
            self._trainer = None

    def _from(self, resume: Any) -> Any:
        """From which of the trainer's own checkpoints to go on: from none where the guard has its own."""
        if not resume:
            return resume
        if checkpoint.found(self._folder / "checkpoints"):
            self._warn("going on from the guard's checkpoints, not from the trainer's")
            return None
        arguments = self._trainer.args
        if resume is True:
            last = get_last_checkpoint(arguments.output_dir)
            sound = [path for path in folders_in(arguments.output_dir) if state_in(path) not in UNFIT]
            if last is not None and state_in(Path(last)) in UNFIT and sound:
                self._warn("%s is %s: going on from %s", last, state_in(Path(last)), sound[-1])
                resume = str(sound[-1])
        self._skips = not arguments.ignore_data_skip
        arguments.ignore_data_skip = True  # the data is gone through here, where it is known what is passed over
        return resume

    def stream_of(self, loader: Any) -> Any:
        self._stream = Stream(loader)
        return Loader(loader, self._batches)

    def bounds(self, epochs: float, updates: int, max_steps: int) -> None:
        """How long the training is to be: the epochs it may take, the updates in each, and of all."""
        arguments = self._trainer.args
        self._epochs = epochs
        self._stream.group(updates, arguments.gradient_accumulation_steps)
        if arguments.max_steps <= 0:
            self._stream.end = self._stream.after(max_steps)

    def on_train_begin(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        trainer = self._trainer
        if trainer is None:
            raise UsageError("a GuardCallback is for `Trainer.train` of transformers, and was called from elsewhere")
        if state.is_hyper_param_search:
            raise UsageError("a guard is for one training: trials of a search cannot share its folder")
        if trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled or not _is_whole(trainer):
            raise UsageError("a guard takes a model that each process has whole: one process or DistributedDataParallel, "
                             "without DeepSpeed, FSDP or parts of it in parallel")  # fmt: skip
        state.num_train_epochs = self._epochs
        if self._skips:
            self._stream.skip_to(self._stream.after(state.global_step))
        options = dict(self._options)
        extra = beside({"trainer": Counters(trainer)}, options.pop("extra", None))
        optimizer = getattr(trainer.optimizer, "optimizer", trainer.optimizer)  # accelerate's has no hooks
        scaler = getattr(trainer.accelerator, "scaler", None)
        if self._has_vitals:
            self._vitals = extra["vitals"] = Vitals(trainer.model, optimizer, scaler=scaler)
        self.guard = Guard(
            self._policy, self._folder, model=trainer.model, optimizer=optimizer, scheduler=trainer.lr_scheduler,
            scaler=scaler, data=self._stream, extra=extra, start=state.global_step,
            **{"total_steps": state.max_steps, **options},
        )  # fmt: skip
        if self._vitals is not None:
            self._vitals.follow(self.guard)
        self._folders = None
        if self.guard.leads:
            self._folders = Folders(trainer, Adopted(self.guard.run, self.guard.health), args.save_total_limit)
            args.save_total_limit = None  # from here on it is pruned here
        self.guard.attend(self._settle, self._hear_best)
        if self.guard.done >= state.max_steps:
            self._warn("all %d steps are trained", state.max_steps)
            self._stream.end = 0
        self._arrive()

    def _arrive(self) -> None:
        """The run has come to another step than the trainer counted to."""
        self._trainer.state.epoch = self._stream.passed
        self._epoch = self._stream.epoch
        self._late.clear()

    # ---------------------------------------------------------------- what a training says

    def trained(self, loss: Any) -> None:
        """A batch went through forward and backward; this is its share of the update's loss."""
        self._loss = loss if self._loss is None else self._loss + loss
        if self._vitals is not None:
            self._vitals.micro_batch()

    def clip(self, norm: Callable[[], Any]) -> Any:
        """Clip the gradients, by the collectors where they are to measure them before it."""
        return norm() if self._vitals is None else self._vitals.clip_grad_norm_(self._trainer.args.max_grad_norm)

    def clipped(self, norm: Any) -> None:
        self._norm = norm

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        self._rate = self._trainer.optimizer.param_groups[0]["lr"]

    def logs(self, logs: Mapping[str, Any]) -> dict[str, Any]:
        """What the trainer logs, with what is to be logged beside it."""
        known = {"loss", "learning_rate", "epoch"} | ({"grad_norm"} if self._norm is not None else set())
        self._late |= {name: value for name, value in logs.items() if name not in known}
        if "loss" not in logs or self.guard is None:
            return dict(logs)
        beside, self._beside = self._beside, {}
        return {**logs, **{name: value for name, value in beside.items() if name not in logs}, **self.guard.metrics}

    def _metrics(self) -> dict[str, Any]:
        """Those of the update that was made: the only place where the device is waited for."""
        assert self.guard is not None
        if self._vitals is not None and self.guard.detail:
            self._vitals.detail(steps=1, every=1)
        out = {**self._late, "learning_rate": float(self._rate), "epoch": self._trainer.state.epoch}
        for name, value in (("loss", self._loss), ("grad_norm", self._norm)):
            if value is not None:
                out[name] = float(value)
        self._late, self._loss, self._norm = {}, None, None
        return out

    # ---------------------------------------------------------------- at the boundaries of steps and epochs

    def on_step_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        self._is_due = True
        self._safely(self._step_ends, state, control)
        if control.should_training_stop:
            self._boundary()  # which is behind it, unless something failed on the way

    def _step_ends(self, state: Any, control: Any) -> None:
        stream = self._stream
        state.epoch = stream.passed
        if self._vitals is not None:
            measured = self._vitals.step(epoch=state.epoch, data_pos=stream.position)
            self._beside |= measured
            self._late |= measured
        if stream.epoch != self._epoch:
            self._epoch = stream.epoch
            control.should_epoch_stop = True
        if stream.is_over:
            self._ends(control)
        if control.should_training_stop:
            self._last(state, control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        self._safely(self._epoch_ends, state, control)

    def _epoch_ends(self, state: Any, control: Any) -> None:
        if self._stream.is_over and not control.should_training_stop:
            self._ends(control)
        if control.should_training_stop:
            self._last(state, control)
        if control.should_training_stop and self.guard is not None:
            self.guard.save()
            self.guard.close()

    def _ends(self, control: Any) -> None:
        """The data is at its end: what the trainer does at the last step is due."""
        control.should_training_stop = True
        control.should_save |= self._trainer.args.save_strategy == "steps"
        control.should_evaluate |= self._trainer.args.eval_strategy == "steps"

    def _last(self, state: Any, control: Any) -> None:
        """The trainer wants to end: judge its last step now, and if the run goes back then it goes on."""
        assert self.guard is not None
        attempt = self.guard.attempt
        self._boundary()
        self.guard.is_over(state.max_steps)
        if self.guard.attempt != attempt and not self._stream.is_over:
            control.should_training_stop = control.should_log = control.should_evaluate = control.should_save = False
            self._arrive()

    def _batches(self) -> Iterator[Any]:
        """What the trainer draws in an epoch of its own."""
        while True:
            self._boundary()
            try:
                yield next(self._stream)
            except StopIteration:
                return

    def _boundary(self) -> None:
        """Where all ranks meet: none stays away from it, whatever failed."""
        if not self._is_due or self.guard is None:
            return
        self._is_due = False
        attempt = self.guard.attempt
        self.guard.step(self._safely(self._metrics) or {})
        if self.guard.attempt != attempt:
            self._safely(self._arrive)

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

    def _warn(self, text: str, *arguments: Any) -> None:
        if self._trainer.args.process_index == 0:
            logger.warning(f"vitals: {text}", *arguments)

    # ---------------------------------------------------------------- the trainer's own checkpoints

    def on_save(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        self._safely(self._saved, state.global_step)

    def _saved(self, step: int) -> None:
        assert self.guard is not None
        if self._folders is not None:
            self._folders.saved(step, self.guard.attempt)
        self.guard.settle()
        if self._folders is not None:
            self._folders.prune()

    def _settle(self) -> Best | None:
        """Asked by the guard on the rank that decides."""
        return self._folders.settle() if self._folders is not None else None

    def _hear_best(self, best: Best) -> None:
        """Told by the guard on each rank: the best one turned out to be unfit, and this is the best of the others."""
        state = self._trainer.state
        self._warn("%s is suspect and not the best any more; now: %s", state.best_model_checkpoint, best.path)
        state.best_metric, state.best_global_step, state.best_model_checkpoint = best


class _Guarded:
    """What a trainer does otherwise while it is guarded: it is put before the trainer's own class for that time."""

    vitals_guard: GuardCallback

    def get_train_dataloader(self) -> Any:
        return self.vitals_guard.stream_of(super().get_train_dataloader())  # type: ignore[misc]

    def set_initial_training_values(self, *given: Any, **named: Any) -> Any:
        epochs, updates, *others = super().set_initial_training_values(*given, **named)  # type: ignore[misc]
        self.vitals_guard.bounds(epochs, updates, others[-1])
        # After a rollback more batches are needed than the trainer counts on: it ends by its steps, or with the data.
        return (sys.maxsize, updates, *others)

    def training_step(self, *given: Any, **named: Any) -> Any:
        loss = super().training_step(*given, **named)  # type: ignore[misc]
        self.vitals_guard.trained(loss)
        return loss

    def _clip_grad_norm(self, model: Any) -> Any:
        return self.vitals_guard.clip(lambda: super(_Guarded, self)._clip_grad_norm(model))  # type: ignore[misc]

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        norm = super()._get_grad_norm(model, grad_norm=grad_norm)  # type: ignore[misc]
        self.vitals_guard.clipped(norm)
        return norm

    def log(self, logs: dict[str, Any], *given: Any, **named: Any) -> None:
        super().log(self.vitals_guard.logs(logs), *given, **named)  # type: ignore[misc]


def _is_whole(trainer: Any) -> bool:
    """Whether each process has all of the model, and trains it on batches of its own."""
    if trainer.args.world_size == 1:
        return True
    is_split = any(is_sharded(one) for one in trainer.model.parameters())
    return isinstance(trainer.model_wrapped, DistributedDataParallel) and not is_split


def _introduce() -> None:
    """Have `Trainer.train` tell a guard among the callbacks which trainer it is in, which transformers does not."""
    if not hasattr(Trainer, "_get_grad_norm"):
        raise UsageError(f"transformers {transformers.__version__} is too old for a guard: 5.12 or newer is needed")
    original = Trainer.train
    if hasattr(original, "tells_guards"):
        return

    @functools.wraps(original)
    def train(self: Any, resume_from_checkpoint: Any = None, *rest: Any, **named: Any) -> Any:
        guards = [one for one in self.callback_handler.callbacks if isinstance(one, GuardCallback)]
        if len(guards) > 1:
            raise UsageError("a trainer takes one GuardCallback, and this has more")
        if not guards:
            return original(self, resume_from_checkpoint, *rest, **named)
        return guards[0].train(self, original, resume_from_checkpoint, *rest, **named)

    train.tells_guards = True  # type: ignore[attr-defined]
    Trainer.train = train
