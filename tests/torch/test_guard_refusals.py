"""What a guard refuses before training begins, each in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from training_loops import RED, Loop, Shelf
from vitalsdsl_torch import Guard

from vitalsdsl.ground.errors import UsageError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITALS_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("name", [".", "lock", "progress", "history.jsonl", "checkpoints"])
def test_a_folder_that_cannot_be_one_is_said_in_a_line(tmp_path: Path, name: str) -> None:
    where = tmp_path / "run" / name
    where.parent.mkdir(exist_ok=True)
    where.write_text("a file") if name in (".", "checkpoints") else where.mkdir()
    with pytest.raises(UsageError, match=r"a guard cannot keep its files in .*: (File exists|Is a directory)$"):
        Loop(tmp_path / "run")


class Recipe(torch.nn.Module):
    """A model whose state holds an object of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def get_extra_state(self) -> Any:
        return Path("recipe")

    def set_extra_state(self, state: Any) -> None: ...


class Adapter(torch.nn.Module):
    """A model whose state leaves out what it was made from."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.adapter = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)

    def state_dict(self, *given: Any, **named: Any) -> Any:
        return {name: value for name, value in super().state_dict(*given, **named).items() if "base" not in name}


class Shell(torch.optim.Optimizer):
    """An optimizer as a library wraps it."""

    def __init__(self, inside: Any) -> None:
        self.inside = inside

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.inside, name)


@pytest.mark.parametrize(
    "model, optimizer, said",
    [
        (Recipe(), {}, "the state_dict of the model holds more than tensors and plain data"),
        (Adapter(), {}, "the model's state_dict lacks `base.weight`"),
        ([torch.nn.Linear(2, 1)], {}, "the model is a list: several go into one torch.nn.ModuleDict"),
        (torch.nn.Linear(2, 1), {"make": Shell}, "Shell takes no hooks"),
        (torch.nn.Linear(2, 1), {"make": lambda inside: []}, "a guard takes an optimizer"),
        (torch.nn.Linear(2, 1), {"fields": {"rule": Path("x")}}, "the state_dict of the optimizer holds more"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_what_could_not_be_put_back_is_refused_at_the_start(
    tmp_path: Path, model: Any, optimizer: Any, said: str
) -> None:
    parameters = torch.nn.ModuleList(model if isinstance(model, list) else [model]).parameters()
    inside = torch.optim.SGD([{"params": list(parameters), **optimizer.get("fields", {})}], lr=0.1)
    with pytest.raises(UsageError, match=said):
        Guard("pack:core", tmp_path / "run", model=model, optimizer=optimizer.get("make", lambda one: one)(inside))


@pytest.mark.parametrize(
    "options, said",
    [
        ({"allow": ("pose",)}, "not 'pose'"),
        ({"allow": "pause"}, "not 'pause' alone"),
        ({"allow": None}, "not None"),
        ({"every": 0}, "`every` must be 1 or more"),
        ({"every": 2.5}, "`every` must be 1 or more, a whole number, not 2.5"),
        ({"keep": None}, "`keep` must be 1 or more, a whole number, not None"),
        ({"skip": -1}, "`skip` must be 0 or more"),
        ({"poll": -1.0}, "`poll` must be 0 or more, not -1.0"),
        ({"poll": float("nan")}, "`poll` must be 0 or more, not nan"),
        ({"extra": {"scheduler": Shelf()}}, "there is one of that name already"),
        ({"extra": [Shelf()]}, "objects by name"),
        ({"data": [1, 2]}, "wrap a loader"),
        ({"hold": 5.0}, "takes a control channel"),
        ({"text": None}, "without a policy"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_work_is_said_before_training(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Loop(tmp_path / "run", **{"text": RED, **options})
