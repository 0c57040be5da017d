"""The checkpoints in the folder of a `transformers.Trainer`: named, pruned and chosen by what is known of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from vitalsdsl_torch.adopted import UNFIT, Adopted

_FOLDER = "checkpoint-"
_TAKEN_BACK = "taken-back-"


class Best(NamedTuple):
    """What a trainer takes for its best checkpoint: by which value, of which step, and where it lies."""

    metric: float | None = None
    step: int | None = None
    path: str | None = None


class Folders:
    """Those of a trainer, on the rank that writes them. `limit` is how many are to stay; None or 0 is all."""

    def __init__(self, trainer: Any, adopted: Adopted, limit: int | None) -> None:
        self._trainer, self._adopted, self._limit = trainer, adopted, limit
        adopted.find([*self._all(_FOLDER), *self._all(_TAKEN_BACK)])

    def _all(self, prefix: str) -> list[Path]:
        return folders_in(self._trainer.args.output_dir, prefix)

    def saved(self, step: int, attempt: int) -> None:
        """The trainer has just made one."""
        self._adopted.add(Path(self._trainer.args.output_dir).absolute() / f"{_FOLDER}{step}", step, attempt)

    def prune(self) -> None:
        if self._limit is None or self._limit <= 0:
            return
        best = self._trainer.state.best_model_checkpoint
        kept = {Path(best).absolute()} if best is not None else set()
        line = [*self._all(_TAKEN_BACK), *self._all(_FOLDER)]
        for path in self._adopted.victims(line, self._limit, kept):
            self._adopted.remove(path)

    def settle(self) -> Best | None:
        """See what is known of each now: which one is to be the best, where the one that was turned out to be unfit."""
        if self._adopted.settle():
            for one in self._adopted.taken_back():
                if one.path.name.startswith(_FOLDER):  # by that name the trainer would take it for its last
                    self._adopted.rename(one, one.path.with_name(f"{_TAKEN_BACK}{one.step}-{one.attempt}"))
        best = self._trainer.state.best_model_checkpoint
        if best is None or self._adopted.state(Path(best).absolute()) not in UNFIT:
            return None
        return self._best()

    def _best(self) -> Best:
        """The best of those that are fit, by what was logged of them."""
        args = self._trainer.args
        name = str(args.metric_for_best_model)
        name = name if name.startswith("eval_") else f"eval_{name}"
        paths = {step_of(path): path for path in self._all(_FOLDER) if self._adopted.state(path) not in UNFIT}
        log = self._trainer.state.log_history
        rated = [(row[name], row["step"]) for row in log if name in row and row["step"] in paths]
        if not rated:
            return Best()
        metric, step = (max if args.greater_is_better else min)(rated)
        return Best(metric, step, str(paths[step]))


def folders_in(output_dir: str, prefix: str = _FOLDER) -> list[Path]:
    """The checkpoints that lie in a trainer's folder, the oldest first."""
    found = Path(output_dir).absolute().glob(f"{prefix}*")
    return sorted((path for path in found if step_of(path) is not None), key=lambda path: step_of(path) or 0)


def step_of(path: Path) -> int | None:
    said = re.fullmatch(rf"(?:{_FOLDER}|{_TAKEN_BACK})(\d+)(?:-\d+)?", path.name)
    return int(said[1]) if said and path.is_dir() else None
