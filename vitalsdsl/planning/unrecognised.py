"""Whether the metrics without which a policy sees little, the loss and the gradient norm, are logged under a name it knows.

A pack calls them `optional`, since it is for any run. A run that logs its loss under a name of its own would so be green
for ever, unless it is said.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from vitalsdsl.ground.likely_names import CENTRAL, likely
from vitalsdsl.planning.logged import Read, Reads

MOST_ALTERNATIVES = 3


@dataclass(frozen=True)
class Unrecognised:
    """A central metric that a policy reads and a run does not log: what it is called by people, what to say of it, and the
    reads that are so blind."""

    metric: str
    told: str
    reads: tuple[Read, ...]


def unrecognised(reads: Reads, logged: Collection[str]) -> list[Unrecognised]:
    """The loss and the gradient norm, where a policy's packs read them and a run that logs these names has neither under a
    known name. Of a gradient norm only where the run seems to log one; of a loss also where nothing looks like it, unless
    losses without a total (of an actor, a discriminator) are read instead. Nothing of a run that logs nothing.

    >>> from vitalsdsl.policies.policy import load
    >>> reads = Reads(load("pack:core").policy)
    >>> [one.told for one in unrecognised(reads, ["my.loss", "lr"])]
    ['no rule looks at the loss; it is probably `my.loss`: write `metric core.loss = "my.loss"` beside `use "pack:core" as core`']
    >>> unrecognised(reads, ["loss"])
    []
    """
    found: list[Unrecognised] = []
    for metric in CENTRAL if logged else ():
        named = [read for read in reads.metrics if not read.family and read.path.rpartition(".")[2] == metric]
        blind = tuple(read for read in named if read.optional)
        if not blind or any(read.is_among(logged) for read in named):
            continue
        near = likely(metric, [name for name in logged if not reads.takes(name)])
        if near or metric == "loss" and not _has_parts(reads, logged):
            found.append(Unrecognised(metric, _told(metric, near, blind, reads, logged), blind))
    return found


def otherwise_lacking(reads: Reads, logged: Collection[str], blind: Collection[Unrecognised]) -> list[Read]:
    """What else a run never logs, though the policy reads it: nothing of what a pack would look at as well, once it is said
    that the loss or the gradient norm goes by another name."""
    told = {read.path for one in blind for read in one.reads}
    return [read for read in reads.never_logged(logged) if read.path not in told and not (blind and read.optional)]


def _has_parts(reads: Reads, logged: Collection[str]) -> bool:
    parts = (read for read in reads.metrics if read.path.endswith("_loss") and not read.path.endswith("val_loss"))
    return any(read.is_among(logged) for read in parts)


def _told(metric: str, near: list[str], blind: tuple[Read, ...], reads: Reads, logged: Collection[str]) -> str:
    said = {"loss": "the loss", "grad_norm": "the gradient norm"}[metric]
    if not near:
        names = "1 name" if len(logged) == 1 else f"{len(logged):,} names"
        return f"no loss was recognised among {names}: no rule looks at it; `vitals names RUN` lists them"
    space = reads.pack.rpartition(":")[2] if reads.pack else ""
    written = " and ".join(f"`{reads.further_name(read, near[0], space)}`" for read in blind)
    beside = f' beside `use "{reads.pack}" as {space}`' if space else ""
    others = ", ".join(f"`{name}`" for name in near[1 : 1 + MOST_ALTERNATIVES])
    return (
        f"no rule looks at {said}; it is probably `{near[0]}`{f' (or {others})' if others else ''}: "
        f"write {written}{beside}"
    )
