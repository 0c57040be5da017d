"""From a path to the runs recorded there."""

from __future__ import annotations

import importlib
import io
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitalsdsl.ground.errors import MissingExtraError, SourceError, UsageError
from vitalsdsl.ground.points import Rewind, Row, RunInfo
from vitalsdsl.runs.sources import Recording, apart
from vitalsdsl_files.format import LAST_RESORT, BinaryFormat, Format, Pieces, Reading, together
from vitalsdsl_files.opening import HEAD, Joined, Log, encoding_of, head_of, pieces_of, start_of, text_of, unreadable
from vitalsdsl_files.registry import known
from vitalsdsl_files.segments import MODES, GoingBack, Part, Track, parts_of

if TYPE_CHECKING:
    from vitalsdsl.nodes.table import Piece

HELD = 1_000_000
"""How many values of a log are held in memory, so that it is read but once."""

SHORT = 100_000
"""How many values a log may have to be read row by row, without NumPy and pydantic, which take as long to load."""

_PLAIN = "utf-8-sig"
_STATE = "trainer_state.json"

_GENERAL = frozenset({_STATE, "metrics.csv", "metrics.jsonl", "progress.csv", "results.csv"})
"""What trainers call the log of any run."""
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")

FEW_ROWS = 20
"""Of no more rows it is not said that their step never moves."""


@dataclass(frozen=True)
class _Wish:
    """What the user asked for."""

    step_key: str | None
    on_decrease: str

    def mode(self, reading: Reading) -> str:
        """What a step that goes back is taken for in this log."""
        return "ignore" if self.on_decrease == "auto" and not reading.infers else self.on_decrease


@dataclass(frozen=True)
class _Anew:
    """Events that are read anew each time they are gone through."""

    begin: Callable[[], Iterator[Row | Rewind]]

    def __iter__(self) -> Iterator[Row | Rewind]:
        return self.begin()


@dataclass(frozen=True)
class _AnewInPieces(_Anew):
    """Those of a long log, which come many at once: `vitalsdsl.nodes.table.InPieces`."""

    together: Callable[[], Pieces]

    def pieces(self) -> Pieces:
        return self.together()


def read(
    path: str | os.PathLike[str], *, step_key: str | None = None, stdin: Any = None, on_decrease: str = "auto"
) -> list[Recording]:
    """The runs recorded in a file, in each file of a folder, or on stdin (`-`), in order.

    The format is found by content. `step_key` names the key that holds the step. `on_decrease` says what a step that
    goes back is taken for: `rewind`, `new` (a run of its own), `ignore` (rows are passed on as they are), or `auto`,
    which decides as `segments.parts_of` says and never for canonical JSON lines. What was decided is in the notes.
    A NaN in a log is a point; null, an empty cell and an absent key are none. A folder's own folders are not gone into.

    JSON lines on a pipe are read as they come, and `auto` takes nothing there for a rewind or a new run.

    Raises SourceError where there is no log to read, with the reason, and UsageError for an unknown `on_decrease`.

    >>> import io
    >>> [run] = read("-", stdin=io.StringIO('{"step": 1, "loss": 2.5}\\n{"rewind": 0}\\n'))
    >>> list(run.events)
    [Row(step=1, values={'loss': 2.5}, time=nan), Rewind(step=0)]
    """
    if on_decrease not in MODES:
        raise UsageError(f"`{on_decrease}` is not what a step that goes back can be: write one of {', '.join(MODES)}")
    wish = _Wish(step_key, on_decrease)
    if os.fspath(path) == "-":
        return _read_pipe(sys.stdin if stdin is None else stdin, "stdin", wish)
    parts = [Path(part) for part in apart(os.fspath(path))]
    if len(parts) > 1:
        return _read_log(_joined(parts), wish)
    [place] = parts
    try:
        if place.is_dir():
            return _read_folder(place, wish)
        if place.exists() and not place.is_file():
            return _read_pipe(place.open("rb"), place.name, wish, ours=True)
    except OSError as problem:
        raise unreadable(place.name, problem) from problem
    return [_by_folder(recording, place) for recording in _read_log(_log(place), wish)]


def _by_folder(recording: Recording, place: Path) -> Recording:
    """A run in a file that is called so for every run is called as its folder is; a checkpoint's, as what it is of."""
    name, sign, number = recording.info.name.partition("#")
    if name not in _GENERAL:
        return recording
    folders = [folder.name for folder in place.absolute().parents]
    own = next((folder for folder in folders if folder and not _CHECKPOINT.fullmatch(folder)), name)
    return replace(recording, info=replace(recording.info, name=f"{own}{sign}{number}"))


def _log(place: Path) -> Log:
    return Log(place.name, lambda: place.open("rb"))


def _read_folder(folder: Path, wish: _Wish) -> list[Recording]:
    inside = sorted(folder.iterdir(), key=lambda place: place.name)
    recordings: list[Recording] = []
    skipped: list[str] = []
    for log in map(_joined, logs_in([place for place in inside if not place.is_dir()])):
        try:
            recordings += [_by_folder(recording, folder / log.name) for recording in _read_log(log, wish)]
        except (SourceError, MissingExtraError) as problem:
            skipped.append(str(problem))
    left_out = "; ".join(skipped[:5]) + (f"; and {len(skipped) - 5} more" if len(skipped) > 5 else "")
    if not recordings:
        folders = [f"`{place.name}`" for place in inside if place.is_dir()][:5]
        hint = f"; read one of its folders instead: {', '.join(folders)}" if folders else ""
        raise SourceError(f"no training log lies in `{folder}`" + (f": {left_out}" if left_out else "") + hint)
    if skipped:
        first = recordings[0]
        notes = (*first.info.notes, f"left out of `{folder.name}`: {left_out}")
        recordings[0] = replace(first, info=replace(first.info, notes=notes))
    return recordings


def logs_in(files: Sequence[Path]) -> list[tuple[Path, ...]]:
    """The files of one folder as logs, in their order: those of a format that joins them are one."""
    logs: list[tuple[Path, ...]] = []
    joined: dict[BinaryFormat, int] = {}
    for place in files:
        try:
            found = _binary(_log(place))
        except SourceError:
            found = None  # reading it says what is wrong
        if found is None or not found.joins:
            logs.append((place,))
        elif found in joined:
            logs[joined[found]] += (place,)
        else:
            joined[found] = len(logs)
            logs.append((place,))
    return logs


def folders_in(files: Sequence[Path], folders: Sequence[Path]) -> list[Path]:
    """Those of one folder's folders that are worth looking into: of a Trainer's checkpoints (`checkpoint-500`, …) the newest
    alone, since its `trainer_state.json` repeats the rows of all before it, and none beside such a file."""
    saved = {folder: int(found[1]) for folder in folders if (found := _CHECKPOINT.fullmatch(folder.name))}
    states = {folder: number for folder, number in saved.items() if (folder / _STATE).is_file()}
    newest = max(states, key=lambda folder: states[folder], default=None)
    if any(file.name == _STATE for file in files):
        newest = None
    return [folder for folder in folders if folder not in states or folder == newest]


def _joined(files: Sequence[Path]) -> Log:
    """Files as one log. Several are called as their folder is."""
    first, *more = map(_log, files)
    return Log(files[0].parent.resolve().name, first.open, tuple(log.open for log in more)) if more else first


def _read_log(log: Log, wish: _Wish) -> list[Recording]:
    formats, _, notes = known()
    if (binary := _binary(log)) is not None:
        return _runs(binary, log, wish, notes)
    head = head_of(log)
    failure: SourceError | None = None
    for one in _candidates(log, head, formats):
        try:
            return _runs(one, log, wish, notes)
        except SourceError as problem:
            failure = failure or problem
    names = ", ".join(one.name for one in formats)
    raise failure or SourceError(f"`{log.name}` is in no known log format ({names})")


def _binary(log: Log) -> BinaryFormat | None:
    start = start_of(log)
    return next((one for one in known()[1] if one.recognises(start)), None)


def _candidates(log: Log, head: str, formats: Iterable[Format]) -> Iterator[Format]:
    """The formats that a log may be in, the likeliest first: by its beginning, by what comes later, the last resorts."""
    begun: list[Format] = []
    for one in formats:
        if one.recognises(head):
            begun.append(one)
            if one.priority >= LAST_RESORT:
                yield one
    waiting = [one for one in formats if one.anywhere and one not in begun]
    later: list[Format] = []
    for piece in pieces_of(log):
        found = [one for one in waiting if one.recognises(piece)]
        later += found
        waiting = [one for one in waiting if one not in found]
        if not waiting or any(one.priority >= LAST_RESORT for one in found):
            break
    last = [one for one in begun if one.priority < LAST_RESORT]
    yield from sorted([*later, *last], key=lambda one: -one.priority)


def _runs(found: Format | BinaryFormat, log: Log, wish: _Wish, notes: Iterable[str]) -> list[Recording]:
    """The runs in a log: held if it is small, else read again when their events are wanted."""
    reading = Reading(log.name, wish.step_key, notes=list(notes))
    track, held, room = Track(), list[Row | Rewind](), min(SHORT, HELD)
    with closing(_events(found, log, reading)) as events:
        for event in events:
            track.add(event)
            held.append(event)
            room -= _size(event)
            if room < 0:
                break
    kept: Sequence[Row | Rewind] | None = held
    if room < 0:  # it is no short one: begun anew, many rows at once
        reading = Reading(log.name, wish.step_key, notes=list(notes))
        track, pieces, room = Track(), list["Piece | Sequence[Row | Rewind]"](), HELD
        with closing(_pieces(found, log, reading)) as coming:
            for piece in coming:
                _in_columns().follow(track, [piece])
                room -= _in_columns().size_of(piece)
                if room >= 0:
                    pieces.append(piece)
                elif wish.mode(reading) == "ignore":
                    return [_as_it_comes(reading, lambda again: _pieces(found, log, again))]
        kept = _in_columns().Held(pieces) if room >= 0 else None
    if not track.rows:
        raise SourceError(f"`{log.name}` has no rows")
    if track.rows > max(FEW_ROWS, len(set(track.kinds))) and min(track.steps) == max(track.steps):
        reading.notes.append(f"all {track.rows:,} rows are at step {track.steps[0]}, and count as one")
    parts = parts_of(track, wish.mode(reading))
    return [_recording(at, part, reading, _part_events(found, log, part, kept, wish)) for at, part in enumerate(parts)]


def _size(event: Row | Rewind) -> int:
    return 1 if isinstance(event, Rewind) else 1 + len(event.values)


def _recording(at: int, part: Part, reading: Reading, events: Iterable[Row | Rewind]) -> Recording:
    name = reading.name if at == 0 else f"{reading.name}#{at + 1}"
    return Recording(RunInfo(name, reading.total_steps, notes=(*reading.notes, *part.notes)), events)


def _part_events(
    found: Format | BinaryFormat, log: Log, part: Part, held: Sequence[Row | Rewind] | None, wish: _Wish
) -> Iterable[Row | Rewind]:
    if held is not None:
        return tuple(_within(part, iter(held))) if isinstance(held, list) or not part.is_all else held

    def pieces() -> Pieces:
        return _pieces(found, log, Reading(log.name, wish.step_key))

    if part.is_all:
        return _AnewInPieces(lambda: _in_columns().rows_in(pieces()), pieces)
    return _Anew(lambda: _within(part, _in_columns().rows_in(pieces())))


def _within(part: Part, events: Iterator[Row | Rewind]) -> Iterator[Row | Rewind]:
    for at, event in enumerate(islice(events, part.start, part.stop), part.start):
        if at in part.rewinds:
            yield Rewind(part.rewinds[at])
        if at not in part.dropped:
            yield event


def _events(found: Format | BinaryFormat, log: Log, reading: Reading) -> Generator[Row | Rewind, None, None]:
    try:
        if isinstance(found, BinaryFormat):
            with ExitStack() as stack:
                files = [stack.enter_context(begin()) for begin in (log.open, *log.more)]
                yield from found.read(files, reading)
            return
        with text_of(log.open(), log.name, reading.notes.append) as text:
            yield from found.read(text, reading)
    except OSError as problem:
        raise unreadable(log.name, problem) from problem


def _pieces(
    found: Format | BinaryFormat, log: Log, reading: Reading
) -> Generator[Piece | Sequence[Row | Rewind], None, None]:
    if isinstance(found, BinaryFormat):
        yield from together(_events(found, log, reading))
        return
    try:
        with text_of(log.open(), log.name, reading.notes.append) as text:
            yield from found.pieces(text, reading)
    except OSError as problem:
        raise unreadable(log.name, problem) from problem


def _in_columns() -> Any:
    """What wants NumPy, and long logs alone want."""
    return importlib.import_module("vitalsdsl_files.in_columns")


def _as_it_comes(reading: Reading, pieces: Callable[[Reading], Pieces]) -> Recording:
    """One run whose events are not looked at beforehand. What shows later is noted later."""
    late: list[str] = []
    said = tuple(reading.notes)

    def noted(again: Reading) -> None:
        late.extend(note for note in again.notes if note not in said and note not in late)

    def begin() -> Iterator[Row | Rewind]:
        again, going_back = Reading(reading.name, reading.step_key, reading.live), GoingBack()
        try:
            for piece in pieces(again):
                for event in piece if isinstance(piece, Sequence) else piece.rows():
                    going_back.add(event)
                    yield event
        finally:
            again.notes += [note] if (note := going_back.note()) else []
            noted(again)

    def in_pieces() -> Pieces:
        again = Reading(reading.name, reading.step_key)
        try:
            yield from pieces(again)
        finally:
            noted(again)

    info = RunInfo(reading.name, reading.total_steps, notes=said)
    return Recording(info, _Anew(begin) if reading.live else _AnewInPieces(begin, in_pieces), late)


def _read_pipe(stream: Any, name: str, wish: _Wish, ours: bool = False) -> list[Recording]:
    """A log that can be read but once: row by row where its format allows, else whole. `ours`: closed at its end."""
    binary = getattr(stream, "buffer", stream)
    if isinstance(binary, io.TextIOBase):
        binary = io.BytesIO(binary.read().encode("utf-8", "replace"))
    take = getattr(binary, "read1", binary.read)
    start = b""
    while len(start) < HEAD and (part := take(HEAD - len(start))):
        start += part
        found = _live_format(start) if b"\n" in part and wish.on_decrease in ("auto", "ignore") else None
        if found is not None:
            pipe = Joined(start, binary, lambda: None, (binary,) if ours else ())
            return [_piped(found, pipe, Reading(name, wish.step_key, live=True), stream)]
    data = start + binary.read()
    if ours:
        binary.close()
    return _read_log(Log(name, lambda: io.BytesIO(data)), wish)


def _live_format(start: bytes) -> Format | None:
    """The format of a pipe that begins so, where its rows can be read as they come."""
    if encoding_of(start) != _PLAIN:
        return None
    head = start.decode(_PLAIN, "replace")
    first = next((one for one in known()[0] if one.recognises(head)), None)
    return first if first is not None and first.live else None


def _piped(found: Format, pipe: Joined, reading: Reading, stream: Any) -> Recording:
    reading.notes.extend(known()[2])
    text = io.TextIOWrapper(io.BufferedReader(pipe), encoding=_PLAIN, errors="replace")
    events = found.read(text, reading)
    first = next(events, None)
    if first is None:
        raise SourceError(f"`{reading.name}` has no rows")
    if reading.infers:
        reading.notes.append("it is read as it comes: where the step goes back, rows are passed on as they are")
    waiting = [(chain([first], events), stream)]  # the caller's stream is held: let go of, it would close itself

    def once(again: Reading) -> Pieces:
        if not waiting:
            raise SourceError(f"`{reading.name}` can be read only once")
        coming, _held = waiting.pop()
        try:
            yield from ([event] for event in coming)
        finally:
            again.notes = reading.notes

    return replace(_as_it_comes(reading, once), is_pipe=True)
