"""What must be so of every policy over every run: however its points come, the same transitions; and columns that say at
each evaluation what the stream finds there."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from reference.generator import random_case

from vitalsdsl.columns.batch import Batch, Replayed
from vitalsdsl.columns.run_columns import CannotSay
from vitalsdsl.columns.screen import Screen
from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.nodes.table import Table
from vitalsdsl.policies.policy import LoadedPolicy, load
from vitalsdsl.runs.recorded import events
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.verdicts.verdict import Clause, RuleState, Transition

Events = list["Row | Rewind"]
EXTREMES = [math.nan, math.inf, -math.inf, 1e300, -1.7e308, 1e-300, 5e-324, 0.0, -0.0, 1e16, 1e16 + 2]


def case(seed: int) -> tuple[LoadedPolicy, Events]:
    """A random policy and a random run; of some the points are extreme, of some the clock stands still or is lost."""
    made, chance = random_case(seed), random.Random(seed)
    rows = list(events(made["rows"]))
    kind = seed % 5
    if kind == 1:
        rows = [_spoilt(row, chance) if isinstance(row, Row) else row for row in rows]
    elif kind == 2:
        rows = [_coarse(row) if isinstance(row, Row) else row for row in rows]
    return load("p", text=made["policy"]), rows


def _spoilt(row: Row, chance: random.Random) -> Row:
    values = {name: chance.choice(EXTREMES) if chance.random() < 0.1 else x for name, x in row.values.items()}
    return Row(row.step, values, math.nan if chance.random() < 0.1 else row.time)


def _coarse(row: Row) -> Row:
    """Of few different values, so that there are ties."""
    return Row(
        row.step, {name: round(2 * x) / 2 if math.isfinite(x) else x for name, x in row.values.items()}, row.time
    )


def broken(seed: int, count: Counter[str] | None = None) -> list[str]:
    """The laws that do not hold of one case; none should. `count` counts what was looked at."""
    return broken_of(*case(seed), seed, count)


def broken_of(loaded: LoadedPolicy, rows: Events, seed: int, count: Counter[str] | None = None) -> list[str]:
    """The same of any policy and run."""
    wanted = _told(streamed(loaded, rows))
    chance = random.Random(f"laws {seed}")
    ways: dict[str, Callable[[], Iterable[Transition]]] = {
        "batch": lambda: Batch(loaded.policy, loaded.digest).transitions(rows),
        "node by node": lambda: _go_on(_stream(loaded, quick=False), rows),
        "restored": lambda: _restored(loaded, rows, chance.randrange(len(rows) + 1)),
        "in pieces": lambda: _in_pieces(loaded, rows, chance),
    }
    found = [f"{name}: other transitions" for name, way in ways.items() if _told(way()) != wanted]
    batch = Batch(loaded.policy, loaded.digest)
    if _changes(batch.transitions(rows, wordless=True)) != _changes(streamed(loaded, rows)):
        found.append("batch without words: other changes")
    if _standing(Batch(loaded.policy, loaded.digest).replayed(rows)) != _standing(_replayed(loaded, rows)):
        found.append("batch: it stands otherwise at the end")
    return found + list(columns_that_differ(loaded, rows, Counter() if count is None else count))


def streamed(loaded: LoadedPolicy, rows: Events) -> list[Transition]:
    return _go_on(_stream(loaded), rows)


def _replayed(loaded: LoadedPolicy, rows: Events) -> Replayed:
    stream = _stream(loaded)
    transitions = _go_on(stream, rows)
    return Replayed(transitions, stream.level, stream.names, stream.late_points, stream.plan.graph.clock.counter)


def _standing(seen: Replayed) -> list[str]:
    counters = {name: seen.counter(name) for name in ("step", "elapsed", "epoch", "tokens", "progress")}
    return [seen.level.word, repr(sorted(seen.names)), str(seen.late_points), repr(counters)]


def _stream(loaded: LoadedPolicy, quick: bool = True) -> Stream:
    return Stream(loaded.policy, "run", loaded.digest, keep_all=True, quick=quick)


def _go_on(stream: Stream, rows: Events) -> list[Transition]:
    out: list[Transition] = []
    for event in rows:
        out += stream.rewind(event.step) if isinstance(event, Rewind) else stream.push_row(event)
    return out + stream.finish()


def _told(transitions: Iterable[Transition]) -> list[str]:
    """All that a transition says: NaN is told as a word, so that it is like itself."""
    return [repr(transition) for transition in transitions]


def _changes(transitions: Iterable[Transition]) -> list[str]:
    return [repr(replace(one, message="", values={}, margin=0.0)) for one in transitions]


def _restored(loaded: LoadedPolicy, rows: Events, at: int) -> list[Transition]:
    """By two streams, the second taking up what the first has saved; all rows, where a later rewind needs the first's."""
    if any(isinstance(event, Rewind) for event in rows[at:]):
        return streamed(loaded, rows)
    first, second, out = _stream(loaded), _stream(loaded), []
    for event in rows[:at]:
        out += first.rewind(event.step) if isinstance(event, Rewind) else first.push_row(event)
    second.load(json.loads(json.dumps(first.save())))
    return out + _go_on(second, rows[at:])


def _in_pieces(loaded: LoadedPolicy, rows: Events, chance: random.Random) -> list[Transition]:
    """Each row in chunks of any size."""
    pieces: Events = []
    for event in rows:
        if isinstance(event, Rewind):
            pieces.append(event)
            continue
        items = list(event.values.items())
        while len(items) > 1 and chance.random() < 0.7:
            size = chance.randint(1, len(items) - 1)
            pieces.append(Row(event.step, dict(items[:size]), event.time))
            items = items[size:]
        pieces.append(Row(event.step, dict(items), event.time))
    return _go_on(_stream(loaded), pieces)


# -------------------------------------------------------------------- columns against the stream


def columns_that_differ(loaded: LoadedPolicy, rows: Events, count: Counter[str]) -> Iterator[str]:
    table = Table.of(rows)
    if table is None:
        return
    joined, begins = Batch(loaded.policy, loaded.digest).laid_out(table)
    if joined is None or joined.plan.graph.stalled:
        return
    seen = _seen(loaded, rows)
    screen = Screen(joined, begins, table)
    for rule in joined.plan.rules:
        for n, clause in enumerate(rule.clauses):
            count["conditions"] += 1
            try:
                said = screen.can_be(clause)
            except CannotSay as why:
                count[f"left to the stream: {why}"] += 1
                continue
            at, values = seen.get((rule.name, rule.member, n), ([], []))
            where = screen.evaluations(clause).tolist()
            if where != at:
                yield f"{rule.name} {rule.member}: evaluated at other rows"
                continue
            count["sure"] += said.is_certain
            for row, value in zip(at, values):
                if not _is_among(said, row, value):
                    yield f"{rule.name} {rule.member} `{clause.text}`: {value} at row {row} is not what columns say"
                    break


def _is_among(said: Any, row: int, value: bool | None) -> bool:
    column = said.unknown if value is None else said.true if value else said.false
    return bool(column if column.ndim == 0 else column[row])


def _seen(loaded: LoadedPolicy, rows: Events) -> dict[tuple[str, str | None, int], tuple[list[int], list[Any]]]:
    """Of each condition the rows at which the stream evaluates it, and what it finds."""
    stream, found = _stream(loaded, quick=False), {}
    graph = stream.plan.graph
    schedule = graph.schedule
    due: set[Any] = set()

    def watched(fresh: frozenset[str]) -> list[Any]:
        nodes = schedule(fresh)
        due.update(nodes)
        return nodes

    graph.schedule = watched  # type: ignore[method-assign]
    row = -1
    for event in [*rows, None]:
        due.clear()
        before = stream.closed
        if event is None:
            stream.finish()
        else:
            assert isinstance(event, Row)
            stream.push_row(event)
        if stream.closed != before:
            row += 1
            for rule in stream.plan.rules:
                _note(rule, due, row, found)
    return found


def _note(rule: RuleState, due: set[Any], row: int, found: dict[Any, Any]) -> None:
    for n, clause in enumerate(rule.clauses):
        assert isinstance(clause, Clause)
        if clause in due:
            at, values = found.setdefault((rule.name, rule.member, n), ([], []))
            at.append(row)
            values.append(clause.condition.value)
