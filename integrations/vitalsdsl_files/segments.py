"""What is made of a step that goes back: a rewind, a new run, or a second writer of the same file."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from vitalsdsl.ground.points import Rewind, Row

MODES = ("auto", "rewind", "new", "ignore")
SMALL = 0.05
"""The share of the steps that may be repeated after a resume, and that a new run may begin after the first one did."""

_REWIND = -1
_SHARED = 4
"""How many steps there must be again, at least, to look like several writers."""


class Track:
    """The steps of a log, and which rows hold the same metrics: all that is kept of it to see where it goes back."""

    def __init__(self) -> None:
        self.steps = array("q")
        self.kinds = array("q")
        self.rows = 0

    def add(self, event: Row | Rewind) -> None:
        self.steps.append(event.step)
        if isinstance(event, Rewind):
            self.kinds.append(_REWIND)
        else:
            self.rows += 1
            self.kinds.append(kind_of(event.values))

    def extend(self, steps: Sequence[int], kinds: Sequence[int]) -> None:
        """So many rows at once."""
        self.steps.extend(steps)
        self.kinds.extend(kinds)
        self.rows += len(steps)


def kind_of(names: Iterable[str]) -> int:
    """A number for the metrics of a row, whatever their order."""
    return hash(frozenset(names)) & 0x7FFFFFFFFFFFFFFF


@dataclass
class Part:
    """One run in a log: the events from `start` up to `stop`, less `dropped`, with `rewinds` before some of them."""

    start: int
    stop: int
    rewinds: dict[int, int] = field(default_factory=dict)
    dropped: frozenset[int] = frozenset()
    notes: list[str] = field(default_factory=list)
    is_all: bool = False
    """Whether it is the whole log, as it stands."""


def parts_of(track: Track, mode: str) -> list[Part]:
    """The runs in a log.

    A step goes back where it is below an earlier one and its row's metrics had gone further, or the rows after it stay
    below too; a late evaluation does not. With `auto`:

    - steps that nearly all are there twice, or as often as each other, close together, with the same metrics, were
      written by as many processes: the first row of each is kept;
    - a step that repeats less than 5% of the way so far is a resume: a rewind to just before it;
    - a step that is back at about the first one (within 5% of the way) begins a new run;
    - any other is a rewind too, to an older checkpoint.

    `rewind` and `new` take each for that, `ignore` passes rows on as they are.
    """
    dropped, writers = _written_again(track) if mode == "auto" else (frozenset[int](), 1)
    parts = [Part(0, len(track.steps), dropped=dropped)]
    if dropped:
        times, who = ("twice", "two") if writers == 2 else (f"{writers} times", f"{writers}")
        parts[0].notes.append(
            f"the same steps with the same metrics are there {times} ({len(dropped)} rows), as when {who} processes "
            "write one file: the first row of each is read"
        )
    backs: list[tuple[int, int]] = []
    for at, newest, step, verdict in _returns(track, dropped, mode):
        if verdict == "new":
            _tell(parts[-1], backs, mode)
            backs = []
            parts[-1].stop = at
            parts.append(Part(at, len(track.steps), dropped=dropped))
            parts[-1].notes.append(f"the step goes back from {newest} to {step}, read as the begin of a new run")
            continue
        backs.append((newest, step))
        if verdict == "rewind":
            parts[-1].rewinds[at] = step - 1
    _tell(parts[-1], backs, mode)
    parts[0].is_all = len(parts) == 1 and not dropped and not parts[0].rewinds
    return parts


def _tell(part: Part, backs: list[tuple[int, int]], mode: str) -> None:
    if backs:
        what = (
            "its rows are passed on as they are" if mode == "ignore" else "read as a resume, which replaces those steps"
        )
        part.notes.append(_goes_back(*backs[0], len(backs), what))


def _goes_back(newest: int, step: int, times: int, what: str) -> str:
    more = {1: "", 2: " and once more"}.get(times, f" and {times - 1} times more")
    return f"the step goes back from {newest} to {step}{more}: {what}"


class GoingBack:
    """Counts where the step goes back in a log whose rows are passed on as they come, and are not kept: where a row is
    below an earlier one of the same metrics."""

    def __init__(self) -> None:
        self._newest = 0
        self._latest: dict[int, int] = {}
        self._first: tuple[int, int] | None = None
        self._times = 0

    def add(self, event: Row | Rewind) -> None:
        if isinstance(event, Rewind):
            self._latest = {kind: min(step, event.step) for kind, step in self._latest.items()}
            self._newest = min(self._newest, event.step)
            return
        kind = hash(frozenset(event.values))
        if event.step < self._latest.get(kind, event.step):
            self._times += 1
            self._first = self._first or (self._newest, event.step)
            self._latest = {one: min(step, event.step - 1) for one, step in self._latest.items()}
            self._newest = event.step
        self._latest[kind] = event.step
        self._newest = max(self._newest, event.step)

    def note(self) -> str:
        """What there is to say of it at the end; empty where it never went back."""
        return _goes_back(*self._first, self._times, "its rows are passed on as they are") if self._first else ""


def _returns(track: Track, dropped: frozenset[int], mode: str) -> Iterator[tuple[int, int, int, str]]:
    """Where the step goes back: the event, the newest step so far, the step, and what it is taken for."""
    first: int | None = None
    newest = 0
    latest: dict[int, int] = {}
    for at, (step, kind) in enumerate(zip(track.steps, track.kinds, strict=True)):
        if at in dropped:
            continue
        if kind == _REWIND:
            newest = min(newest, step)
            latest = {one: min(last, step) for one, last in latest.items()}
            continue
        if first is None:
            first = newest = step
        elif step < newest and (latest.get(kind, step) > step or _stays_below(track, at, newest)):
            verdict = _verdict(first, newest, step) if mode == "auto" else mode
            yield at, newest, step, verdict
            first, newest = (step if verdict == "new" else first), step
            latest = {} if verdict == "new" else {one: min(last, step - 1) for one, last in latest.items()}
        newest = max(newest, step)
        latest[kind] = max(latest.get(kind, step), step)


def _stays_below(track: Track, at: int, newest: int) -> bool:
    following = track.steps[at : at + 3]
    return (
        len(following) == 3
        and _REWIND not in track.kinds[at : at + 3]
        and following[0] <= following[1] <= following[2] < newest
    )


def _verdict(first: int, newest: int, step: int) -> str:
    if newest - step < SMALL * newest:
        return "rewind"
    return "new" if step - first <= SMALL * (newest - first) else "rewind"


def _written_again(track: Track) -> tuple[frozenset[int], int]:
    """The rows after the first of steps that several processes wrote, and how many those were; none where that is not
    what the log looks like.
    """
    if track.rows < len(track.steps) or not _repeats(track):
        return frozenset(), 1
    seen: dict[tuple[int, int], list[int]] = {}
    for at, key in enumerate(zip(track.steps, track.kinds, strict=True)):
        seen.setdefault(key, []).append(at)
    writers = Counter(map(len, seen.values())).most_common(1)[0][0]
    shared = [places for places in seen.values() if 1 < len(places) <= writers]
    more = sum(len(places) > writers for places in seen.values())
    if len(shared) < _SHARED or len(shared) * 3 < len(seen) * 2 or more > SMALL * len(seen):
        return frozenset(), 1
    apart = sorted(places[1] - places[0] for places in shared)
    if apart[len(apart) // 2] > max(1, len(seen) // 4):
        return frozenset(), 1
    return frozenset(at for places in seen.values() for at in places[1:]), writers


def _repeats(track: Track) -> bool:
    """Whether steps come again often enough to look closer, which takes memory: most logs go forward throughout."""
    latest: dict[int, int] = {}
    again = 0
    for step, kind in zip(track.steps, track.kinds, strict=True):
        newest = latest.get(kind)
        if newest is not None and step <= newest:
            again += 1
        else:
            latest[kind] = step
    return again >= _SHARED
