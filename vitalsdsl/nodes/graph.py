"""The shared graph of one run: which nodes there are, in what order they run, and which of them a step calls for."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Any

from vitalsdsl.kernels.state import State
from vitalsdsl.kernels.trail import Ring
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import operations as op
from vitalsdsl.nodes.signals import Reference, Root

_MOST_SCHEDULES = 512

_AT_HAND = (Root, nd.MetricNode, nd.Constant)
"""What has its value without being evaluated together with what stands on it."""


class Graph:
    """Nodes by what they mean, so that two rules that ask for the same thing share one.

    `roots` are evaluated at their own pace; everything else goes with them. What has a memory is listed in the order in
    which it was made, which is the same for the same policy and the same names: so it can be saved as lists.
    """

    def __init__(self) -> None:
        self.clock = nd.Clock()
        self.roots: list[Root] = []
        self.guards: list[Root] = []
        """Roots, too, but made in another order where names come at once that first came one by one: saved by name."""
        self.states: list[State] = []
        self.references: list[Reference] = []
        self.stalled: list[op.Stalled] = []
        self.memo: dict[Any, Any] = {}
        self.order: list[nd.Node] = []
        self.rings: dict[tuple[nd.Node, str], Ring] = {}
        """Of a stream the points that its windows of one unit share."""
        self._paces: dict[Root, tuple[frozenset[str], bool]] = {}
        """Which metrics each root reads, and whether it is due at every step whatever has a point."""
        self._schedules: dict[frozenset[str], list[nd.Node]] = {}

    def keep(self, key: Any, root: Root) -> Root:
        self.memo[key] = root
        self.roots.append(root)
        return root

    def arrange(self) -> None:
        """Find the order in which nodes run and what each reads, and forget schedules made before."""
        self.order = in_order([*self.roots, *self.guards])
        reads: dict[nd.Node, tuple[frozenset[str], bool]] = {}
        for node in self.order:
            names, always = node.own_reads(), node.needs_every_step()
            for pacer in node.pacers:
                more, every = reads[pacer]
                names, always = names | more, always or every
            if isinstance(node, Root) and node.on is not None:
                always = False
            reads[node] = _pace(names, always)
        self._paces = {node: reads[node] for node in self.order if isinstance(node, Root)}
        self._schedules.clear()

    def pace(self, root: Root) -> tuple[frozenset[str], bool]:
        """The metrics at whose points a root is evaluated; with none, or where the second is true, at every step."""
        return self._paces[root]

    def schedule(self, fresh: frozenset[str]) -> list[nd.Node]:
        """The nodes that run, in order, at a closed step at which these metrics have a point."""
        found = self._schedules.get(fresh)
        if found is None:
            if len(self._schedules) >= _MOST_SCHEDULES:
                self._schedules.clear()
            found = self._schedules[fresh] = self.due(fresh)
        return found

    def due(self, fresh: frozenset[str]) -> list[nd.Node]:
        """The nodes that run at a closed step at which these metrics have a point."""
        needed: set[nd.Node] = set()
        for node in reversed(self.order):
            if isinstance(node, Root):
                names, always = self._paces[node]
                due = always or not names or not names.isdisjoint(fresh)
            else:
                due = node in needed
            if due:
                needed.add(node)
                needed.update(inner for inner in node.inputs if not isinstance(inner, Root))
        return [node for node in self.order if node in needed and not isinstance(node, (nd.Constant, nd.MetricNode))]

    def silent(self) -> list[nd.Node]:
        """What runs when the clock finds the run silent: `stalled`, and all that stands on it."""
        touched: set[nd.Node] = set(self.stalled)
        for node in self.order:
            if not touched.isdisjoint(node.inputs):
                touched.add(node)
        return [node for node in self.order if node in touched]

    def behind(self, node: nd.Node, done: Collection[nd.Node]) -> list[nd.Node]:
        """What is evaluated for a node that nothing else calls for, such as a value in a message; without what is done."""
        return [each for each in in_order([node]) if not isinstance(each, _AT_HAND) and each not in done]


@functools.lru_cache(maxsize=4_096)
def _pace(names: frozenset[str], always: bool) -> tuple[frozenset[str], bool]:
    """The same one for all that read alike, in all runs."""
    return names, always


def in_order(roots: Sequence[nd.Node]) -> list[nd.Node]:
    """All nodes below these, each after its inputs."""
    order: list[nd.Node] = []
    done: set[nd.Node] = set()
    for root in roots:
        stack: list[tuple[nd.Node, int]] = [(root, 0)]
        while stack:
            node, at = stack.pop()
            if node in done:
                continue
            if at < len(node.inputs):
                stack.append((node, at + 1))
                stack.append((node.inputs[at], 0))
            else:
                done.add(node)
                order.append(node)
    return order
