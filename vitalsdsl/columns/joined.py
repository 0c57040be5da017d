"""Joined: a plan that all names of a run have come to, and from when on each of its parts was there.

The stream makes the members of a family as they are first logged. Here they are made before the run is looked at, in the
same order: what a member alone needs has no past from before it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from vitalsdsl.language import rules
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import operations as op
from vitalsdsl.nodes.signals import Root
from vitalsdsl.planning.plan import Plan

Pace = tuple[int, frozenset[str], bool]
"""From a stage on: the metrics at whose points a root is evaluated, and whether it is at every step whatever has one."""


class Joined:
    """A plan in stages: the first has no names, and at each one after it some come at once.

    >>> from vitalsdsl.policies.policy import load
    >>> joined = Joined(load("p", text="when any(act/layer_* > 5) -> red").policy, [["act/layer_0"], ["act/layer_1"]])
    >>> list(joined.members.values())
    [[1, 2]]
    """

    def __init__(
        self, policy: rules.Policy, names: Sequence[Sequence[str]], only: Collection[str] | None = None
    ) -> None:
        self.plan = Plan(policy, only)
        self.members: dict[nd.Node, list[int]] = {}
        """Of a function over a family the stage at which each of its inputs joined."""
        self.rests_on: dict[nd.Node, frozenset[int]] = {}
        """The references that a node rests on, as far as somebody has looked: the same in all runs."""
        self.costs: dict[nd.Node, int] = {}
        """How much there is to work out for a node, likewise."""
        self.kept: dict[Any, Any] = {}
        """What whoever evaluates it has found to be the same for many runs."""
        self._since: dict[Any, int] = {}
        self._paces: dict[Root, list[Pace]] = {}
        self._look(0)
        for stage, group in enumerate(names, start=1):
            self.plan.see_names(group)
            self._look(stage)

    def since(self, part: Any) -> int:
        """The stage from which on there is a root, a memory or a metric."""
        return self._since[part]

    def paces(self, root: Root) -> list[Pace]:
        """When a root is evaluated, from each stage on at which that changed."""
        return self._paces[root]

    def _look(self, stage: int) -> None:
        graph = self.plan.graph
        for parts in (graph.roots, graph.guards, graph.states, self.plan.metrics.nodes.values()):
            for part in parts:
                self._since.setdefault(part, stage)
        for node in graph.memo.values():
            if isinstance(node, (op.AggregateNode, op.Share)):
                joined = self.members.setdefault(node, [])
                joined += [stage] * (len(node.inputs) - len(joined))
        for root in (*graph.roots, *graph.guards):
            pace = graph.pace(root)
            known = self._paces.setdefault(root, [])
            if not known or known[-1][1:] != pace:
                known.append((stage, *pace))
