"""Calm: streams over which nothing can happen for a chunk of points to come, as long as these lie where most do.

What the windows will come to then lies between bounds, and these are far from every threshold more often than not. So of the
next points nothing is asked but whether they lie there; sums are brought up to date when the chunk is over, or as soon as
one does not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vitalsdsl.kernels.pieces import InShortWindow
from vitalsdsl.nodes import base as nd
from vitalsdsl.streaming.followers import Unit
from vitalsdsl.streaming.glance import Stream
from vitalsdsl.streaming.intake_writer import if_, in_order_windows
from vitalsdsl.streaming.part import below


@dataclass
class Calm:
    """Streams that are calm together, with the rules that look at them and at nothing else."""

    number: int
    streams: list[Stream]
    units: list[int] = field(default_factory=list)
    never: list[str] = field(default_factory=list)
    """When each of the rules cannot fire in the chunk to come."""

    def lines(
        self, quick: Iterable[str], taken: Sequence[str], tests: Sequence[str], awake: Sequence[str]
    ) -> list[str]:
        """The lines of all of it: `quick` where the streams are calm; else they are taken in and the rules are tested."""
        n = self.number
        within = [f"lowest__{stream.name} <= {stream.name} <= highest__{stream.name}" for stream in self.streams]
        behind = [
            f"sum__{x}, squares__{x}, low__{x}, high__{x}, rows__{x}, counts__{x} = "
            f"resume__{x}(sum__{x}, squares__{x}, low__{x}, high__{x})"
            for x in (stream.name for stream in self.streams)
        ]
        missing = " or ".join(f"{x} - {x} != 0.0" for x in (stream.name for stream in self.streams))
        behind += if_(f"restart or {missing}", f"again_{n} = step")  # all others are where they were
        return [
            *if_(f"step <= calm_{n} and not restart and {' and '.join(within)}", *quick),
            "else:",
            *_inside(if_(f"lapsed_{n}", f"calm_{n}, lapsed_{n} = -1, False", *behind)),
            *_inside(taken),
            *_inside(tests),
            *_inside(if_(f"step >= again_{n} and not ({' or '.join(awake)})", *self._outlook())),
        ]

    def _outlook(self) -> list[str]:
        n, names = self.number, [stream.name for stream in self.streams]
        lines = []
        for stream in self.streams:
            windows = list(stream.windows.values())
            ends = [end for window in windows for end in window.ends]
            ends += [end for window in windows for end in window.ends_of_shares]
            lines.append(
                f"{', '.join([f'more__{stream.name}', *ends])}, = outlook__{stream.name}(missing__{stream.name})"
            )
        more = f"more__{names[0]}" if len(names) == 1 else f"min({', '.join(f'more__{name}' for name in names)})"
        lines += [f"more = {more}", f"again_{n} = step + (more or 1) * stride"]
        then = []
        for stream in self.streams:
            x = stream.name
            then += [
                f"down, up = lowest__{x} - pivot__{x}, highest__{x} - pivot__{x}",
                f"fall__{x}, rise__{x} = more * min(0.0, down), more * max(0.0, up)",
                f"spread__{x} = more * max(down * down, up * up)",
            ]
            for settled in in_order_windows(stream):
                then += if_(f"{settled.stands} < again_{n}", settled.settle())
            for window in stream.windows.values():
                then += [f"{name} = {code}" for name, code in window.outlook.items()]
        stand = [f"{each.stands} >= again_{n}" for stream in self.streams for each in in_order_windows(stream)]
        nevers = [*stand, *self.never]
        sure = [f"    {never}{'' if place == len(nevers) - 1 else ' and'}" for place, never in enumerate(nevers)]
        then += ["if (", *sure, "):", f"    calm_{n}, lapsed_{n} = again_{n}, True"]
        return [*lines, *if_("more", *then)]


def calm_streams(
    streams: Collection[Stream],
    units: Sequence[Unit],
    nevers: Sequence[str | None],
    elsewhere: Iterable[nd.Node],
    lets: Collection[nd.Node],
) -> list[Calm]:
    """Streams whose windows are all prepared for long, and that nothing looks at but rules of which it can be said that they
    will not fire. Those that one rule looks at go together."""
    looked_at = {inner for node in elsewhere for inner in node.inputs}
    reads = [_metrics(unit, lets) for unit in units]
    able: dict[nd.Node, Stream] = {
        stream.node: stream
        for stream in streams
        if stream.is_ahead
        and stream.node not in looked_at
        and not any(isinstance(window, InShortWindow) for window in stream.windows.values())
    }
    found: list[Calm] = []
    for group in _together(able, reads):
        mine = [n for n, read in enumerate(reads) if not read.isdisjoint(group)]
        said = [nevers[n] for n in mine]
        if mine and all(reads[n] <= group for n in mine) and None not in said:
            never = [each for each in said if each is not None]
            found.append(Calm(len(found) + 1, [able[node] for node in able if node in group], mine, never))
    return found


def _together(able: Mapping[nd.Node, Stream], reads: Sequence[set[nd.Node]]) -> Iterator[set[nd.Node]]:
    """Groups of metrics, none of which is looked at together with one of another."""
    left = list(able)
    while left:
        group = {left[0]}
        while True:
            more = {node for read in reads if not read.isdisjoint(group) for node in read} | group
            if more == group:
                break
            group = more
        left = [node for node in left if node not in group]
        if group <= set(able):
            yield group


def _metrics(unit: Unit, lets: Collection[nd.Node]) -> set[nd.Node]:
    """The metrics, and whatever else has a pace of its own, that a rule looks at."""
    nodes = [inner for condition in unit.conditions for inner in below(condition, lets)]
    known = set(nodes)
    inputs = {inner for node in [*nodes, *unit.roots] for inner in node.inputs} | set(unit.conditions)
    return {node for node in inputs - known - set(unit.roots) if not isinstance(node, nd.Constant)}


def _inside(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]
