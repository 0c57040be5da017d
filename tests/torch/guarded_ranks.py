"""A guarded training in several gloo processes, each of which can tell afterwards how it went."""

from __future__ import annotations

import importlib
import json
import logging
import multiprocessing
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from killed_training import die_at
from torch import distributed
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from training_loops import BATCHES, RED, SMALL, Shelf, channel, policy, request
from vitalsdsl_torch import Guard, checkpoint
from vitalsdsl_torch.exits import BROKEN_OFF


class Wide(torch.nn.Module):
    """Two layers whose sizes no number of ranks divides, with a buffer that says which batches went in."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 7)
        self.last = torch.nn.Linear(7, 1)
        self.register_buffer("seen", torch.zeros(BATCHES, dtype=torch.int64))

    def forward(self, batch: int) -> Any:
        self.seen[batch] += 1
        words = torch.randn(4, 3, generator=torch.Generator().manual_seed(batch))
        return self.last(torch.relu(self.first(words))).pow(2).mean()


def wrapped(kind: str, model: Any) -> Any:
    if kind == "ddp":
        return DistributedDataParallel(model)
    if kind == "fsdp":
        fully_shard(model.first)
        return fully_shard(model)
    return model


class Told(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class RankLoop:
    """The training of one rank. All ranks train on the same batches, so that the mean of their gradients is exactly what
    one process has."""

    def __init__(self, folder: Path, kind: str, text: str = RED, bad: range = range(0), **options: Any) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.folder, self.kind, self.bad = folder, kind, bad
        self.rank = distributed.get_rank() if distributed.is_initialized() else 0
        self.model = wrapped(kind, Wide())
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.data = options.pop("data", None) or Shelf()
        self.guard = Guard(
            policy(text), folder, model=self.model, optimizer=self.optimizer, data=self.data, run="small",
            **{**SMALL, "allow": ("pause", "rollback"), "rank_timeout": 20.0, **options},
        )  # fmt: skip

    def train(self, total: int, before: Callable[[RankLoop, int], Any] = lambda loop, step: None) -> RankLoop:
        """To a step; `before` each boundary something may happen, and tell other metrics."""
        for step in self.guard.steps(total):
            batch = next(self.data)
            self.model(batch).backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            other = before(self, step)
            self.guard.step(other or {"loss": 10.0 if batch in self.bad else 1.0})
        return self

    def tensors(self) -> dict[str, Any]:
        """Parameters and moments, whole ones."""
        found = dict(getattr(self.model, "module", self.model).state_dict())
        for at, state in enumerate(self.optimizer.state.values()):
            found |= {f"{at}/{name}": value for name, value in state.items()}
        return {name: t.full_tensor() if hasattr(t, "full_tensor") else t.clone() for name, t in found.items()}


def played(out: str, rank: int, play: Callable[..., Any], arguments: dict[str, Any]) -> int:
    """Play a part; how it ended and what was said meanwhile lies in files afterwards. Gives the exit code."""
    told = Told()
    logging.getLogger("vitalsdsl").addHandler(told)
    code, error, result = 0, "", None
    try:
        result = play(**arguments)
    except SystemExit as over:
        code = int(over.code or 0)
    except Exception as raised:
        code, error = 1, f"{type(raised).__name__}: {raised}"
    logging.getLogger("vitalsdsl").removeHandler(told)
    Path(out, f"{rank}.json").write_text(json.dumps({"code": code, "error": error, "lines": told.lines}), "utf-8")
    torch.save(result, Path(out, f"{rank}.pt"))
    return code


def mother(out: str, modules: list[str], pipes: list[Any]) -> None:
    """A process that loads what takes long, once for all ranks, and gives birth to them then."""
    for name in modules:
        importlib.import_module(name)
    ranks = [
        multiprocessing.get_context("fork").Process(target=on_rank, args=(rank, len(pipes), out, pipe), daemon=True)
        for rank, pipe in enumerate(pipes)
    ]
    for one in ranks:
        one.start()
    for pipe in pipes:
        pipe.close()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # which ends the ranks
    for one in ranks:
        one.join()


def on_rank(rank: int, count: int, out: str, orders: Any) -> None:
    """A process: plays what comes by its pipe, until that is None; or until one ends it."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ["VITALS_HOME"] = str(Path(out) / "home")
    torch.set_num_threads(1)
    if count > 1:
        meeting = f"file://{Path(out) / 'meeting'}"
        distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=count)
    code = 0
    for place, play, arguments in iter(orders.recv, None):
        code = played(place, rank, play, arguments)
        orders.send(code)
        if code == BROKEN_OFF:  # as a script does: then the others miss this one
            break
    os._exit(code)


def context() -> Any:
    """Processes that have torch loaded when they begin: loading it takes seconds."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(
        ["torch", "torch._dynamo", "torch.distributed.fsdp", "vitalsdsl_torch.guard", "vitalsdsl_torch.shards", "vitalsdsl.language.parser"]
    )  # fmt: skip
    return found


class Outcome:
    """How a part ended on each rank: exit codes, log lines, errors, and what it gave back."""

    def __init__(self, out: Path, count: int) -> None:
        read = [json.loads(path.read_text("utf-8")) if path.exists() else {} for path in (out / f"{r}.json" for r in range(count))]  # fmt: skip
        self.codes = [one.get("code") for one in read]
        self.lines = [one.get("lines", []) for one in read]
        self.errors = [one.get("error", "") for one in read]
        self.results = [torch.load(path) if path.exists() else None for path in (out / f"{r}.pt" for r in range(count))]


class Company:
    """Processes of one group, which play one part after another together. `modules` are loaded before they are begun."""

    def __init__(self, place: Path, count: int, modules: list[str] | None = None) -> None:
        place.mkdir(parents=True)
        self.place, self.count = place, count
        self._played = 0
        pipes = [context().Pipe() for _ in range(count)]
        self._ends = [mine for mine, _ in pipes]
        self.processes = [
            context().Process(target=on_rank, args=(rank, count, str(place), theirs)) for rank, (_, theirs) in enumerate(pipes)
        ]  # fmt: skip
        if modules is not None:
            self.processes = [context().Process(target=mother, args=(str(place), modules, [one for _, one in pipes]))]
        for process in self.processes:
            process.start()
        for _, theirs in pipes:
            theirs.close()

    def begin(self, play: Callable[..., Any], **arguments: Any) -> Path:
        out = self.place / str(self._played)
        self._played += 1
        out.mkdir()
        for end in self._ends:
            end.send((str(out), play, arguments))
        return out

    def end(self, out: Path) -> Outcome:
        """Waits for all: a process that was killed has no code."""
        for end in self._ends:
            try:
                if not end.poll(120):
                    raise AssertionError(f"a rank hangs in {out}")
                end.recv()
            except (EOFError, ConnectionResetError):
                pass
        return Outcome(out, self.count)

    def play(self, play: Callable[..., Any], **arguments: Any) -> Outcome:
        return self.end(self.begin(play, **arguments))

    def dismiss(self) -> None:
        for process in self.processes:
            process.terminate()
            process.join()


def run(place: Path, count: int, play: Callable[..., Any], **arguments: Any) -> Outcome:
    """A part in processes of its own."""
    company = Company(place / uuid.uuid4().hex, count)
    try:
        return company.play(play, **arguments)
    finally:
        company.dismiss()


# -------------------------------------------------------------------- what is played


def told_of(loop: RankLoop) -> dict[str, Any]:
    guard = loop.guard
    return {
        "tensors": loop.tensors(), "done": guard.done, "attempt": guard.attempt, "skipped": guard.skipped,
        "position": loop.data.position, "factor": guard.metrics["vitals/lr_factor"],
    }  # fmt: skip


def plain(folder: str, kind: str, total: int, **options: Any) -> dict[str, Any]:
    return told_of(RankLoop(Path(folder), kind, **options).train(total))


def single(folder: str, meeting: str, **options: Any) -> dict[str, Any]:
    """One process, in a group of one."""
    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=0, world_size=1)
    try:
        return plain(folder, **options)
    finally:
        distributed.destroy_process_group()


def stalled(folder: str, kind: str, until: str) -> None:
    """The last rank comes to a boundary only when the first one has ended."""

    def before(loop: RankLoop, step: int) -> None:
        while loop.rank and step == 5 and not Path(until).exists():
            time.sleep(0.05)

    RankLoop(Path(folder), kind, rank_timeout=5.0).train(10, before)


def die(folder: str, kind: str, total: int, rank: int, at: int, **options: Any) -> dict[str, Any]:
    """One rank is killed right before a boundary."""

    def before(loop: RankLoop, step: int) -> None:
        if loop.rank == rank and step == at:
            os.kill(os.getpid(), signal.SIGKILL)

    return told_of(RankLoop(Path(folder), kind, **options).train(total, before))


def deadly(folder: str, kind: str, total: int, rank: int, write: int, **options: Any) -> dict[str, Any]:
    """One rank is killed at one of its writes to the disk."""
    if distributed.get_rank() == rank:
        die_at(write)
    return plain(folder, kind, total, **options)


def spoiled(folder: str, kind: str, total: int, rank: int, at: int, **options: Any) -> dict[str, Any]:
    """The loss of one rank is NaN once."""

    def before(loop: RankLoop, step: int) -> Any:
        return {"loss": float("nan")} if loop.rank == rank and step == at else None

    return told_of(RankLoop(Path(folder), kind, **options).train(total, before))


def asked(
    folder: str, kind: str, total: int, at: int, control: str, ask: dict[str, Any], **options: Any
) -> dict[str, Any]:
    """A person asks for something while a step is under way."""

    def before(loop: RankLoop, step: int) -> None:
        if loop.rank == 0 and step == at:
            channel(Path(control)).ask(ask)

    return told_of(RankLoop(Path(folder), kind, control=control, poll=0.0, **options).train(total, before))


def held(folder: str, kind: str, total: int, at: int, control: str, **options: Any) -> dict[str, Any]:
    """A pause is held in place, until a person says `resume` after the third time that the others were told to wait."""
    loop = RankLoop(Path(folder), kind, control=control, poll=0.01, hold=100.0, **options)
    waited = []
    tell = loop.guard._ranks.wait

    def wait() -> None:
        waited.append(1)
        if len(waited) == 3:
            channel(Path(control)).ask(request("resume"))
        tell()

    loop.guard._ranks.wait = wait  # type: ignore[method-assign]

    def before(loop: RankLoop, step: int) -> None:
        if loop.rank == 0 and step == at:
            channel(Path(control)).ask(request("pause"))

    return {**told_of(loop.train(total, before)), "position": loop.data.position}


class Broken(Shelf):
    """Data that cannot tell its place any more, from a batch on."""

    def __init__(self, until: int) -> None:
        self._until = until
        super().__init__()

    @property
    def position(self) -> int:
        if self._at >= self._until:
            raise RuntimeError("no place")
        return self._at

    @position.setter
    def position(self, at: int) -> None:
        self._at = at

    def __next__(self) -> int:
        self._at += 1
        return self._at - 1


def failing(folder: str, kind: str, total: int, rank: int, at: int) -> Any:
    """The guard of one rank fails: of the first in its rules, of another in what it tells."""
    own = distributed.get_rank() == rank
    loop = RankLoop(Path(folder), kind, data=Broken(at) if own and rank else Shelf())
    if own and rank == 0:
        log = loop.guard._training.rules.log  # type: ignore[union-attr]

        def broken(metrics: Any, step: int) -> int:
            if step == at:
                raise RuntimeError("no verdict")
            return log(metrics, step)

        loop.guard._training.rules.log = broken  # type: ignore[union-attr, method-assign]
    loop.train(total)
    return {"tensors": loop.tensors(), "done": loop.guard.done}


def apart(folder: str, kind: str) -> Any:
    """The last rank counts a step that the others have not made."""
    loop = RankLoop(Path(folder), kind)

    def before(loop: RankLoop, step: int) -> None:
        if loop.rank == distributed.get_world_size() - 1 and step == 5:
            loop.guard._member.advance()

    loop.train(10, before)


def elsewhere(folder: str, kind: str) -> Any:
    """Each rank has a folder of its own."""
    checkpoint.SEEN_WITHIN = 0.2  # here it is seen at once, or never
    RankLoop(Path(folder, str(distributed.get_rank())), kind)


def otherwise(folder: str) -> Any:
    """Each rank has a model of its own."""
    rank = distributed.get_rank()
    model = torch.nn.ModuleDict({f"part{rank}": torch.nn.Linear(2, 2)})
    Guard(policy(RED), folder, model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))


def unfit(folder: str, kind: str, total: int, **options: Any) -> Any:
    """The last rank cannot put a checkpoint back."""
    loop = RankLoop(Path(folder), kind, **options)
    if loop.rank:
        loop.guard._member.contents.apply = None  # type: ignore[method-assign, assignment]
    loop.train(total)


class Stateful(Shelf):
    """Data with a state of its own."""

    def state_dict(self) -> dict[str, int]:
        return {"at": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.position = state["at"]


def stateful(folder: str, kind: str, total: int) -> dict[str, Any]:
    return told_of(RankLoop(Path(folder), kind, data=Stateful()).train(total))


def rates(folder: str, kind: str, total: int, **options: Any) -> list[float]:
    """The rate that each update took."""
    loop, used = RankLoop(Path(folder), kind, **options), []
    loop.optimizer.register_step_pre_hook(lambda o, *_: used.append(o.param_groups[0]["lr"]))
    loop.train(total)
    return used
