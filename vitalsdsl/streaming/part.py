"""A part of the graph that is evaluated node by node when it is asked for, and not at each step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from vitalsdsl.kernels.accepted import Accepted
from vitalsdsl.kernels.ahead import Ahead
from vitalsdsl.kernels.state import State
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import operations as op
from vitalsdsl.nodes.signals import Let, Root


class Part:
    """Some nodes, in order, and the windows that must have their points before these are read."""

    def __init__(self, nodes: Sequence[nd.Node], aheads: Mapping[State, Ahead]) -> None:
        self.nodes = list(nodes)
        self._runs = [node.run for node in nodes]
        self._hand_over = [ahead.hand_over for ahead in read_ahead(nodes, aheads)]

    def run(self, step: int, time: float) -> None:
        for hand_over in self._hand_over:
            hand_over()
        for run in self._runs:
            run(step, time)


class Answer(Part):
    """The value of one node, looked up at most once a step, and only where somebody asks."""

    def __init__(self, node: nd.Node, nodes: Sequence[nd.Node], aheads: Mapping[State, Ahead]) -> None:
        super().__init__(nodes, aheads)
        self._node = node
        self._step = -1

    def at(self, step: int, time: float) -> object:
        if step != self._step:
            self._step = step
            self.run(step, time)
        return self._node.value


def read_ahead(nodes: Iterable[nd.Node], aheads: Mapping[State, Ahead]) -> list[Ahead]:
    """Of which streams the windows are read."""
    states = [node.state for node in nodes if isinstance(node, nd.Function)]
    return list(dict.fromkeys(aheads[state] for state in states if state in aheads))


def below(node: nd.Node, through: Collection[nd.Node] = ()) -> list[nd.Node]:
    """A node and all that is evaluated with it; a root is by itself, but for those that one looks through."""
    found: list[nd.Node] = []
    open_ = [node] if node in through or not isinstance(node, Root) else []
    while open_:
        here = open_.pop()
        if here not in found and not isinstance(here, (nd.Constant, nd.MetricNode)):
            found.append(here)
            open_ += [inner for inner in here.inputs if inner in through or not isinstance(inner, Root)]
    return found


def names_only(order: Iterable[nd.Node]) -> set[Let]:
    """The lets among the nodes of a graph that are but names for what stands in them: nobody takes points from them or
    asks how old they are, and what they read is the same until a next point comes."""
    order = list(order)
    lets = {node for node in order if type(node) is Let and not (node.known or node.unknown_too or node.on is not None)}
    asked = {inner for node in order if isinstance(node, (op.Missing, nd.Fresh)) for inner in node.inputs}
    return {let for let in lets - asked if not any(_moves_on(node) for node in below(let, lets))}


def _moves_on(node: nd.Node) -> bool:
    """Whether it may have another value once its step is over."""
    is_reference = isinstance(node, nd.Function) and isinstance(node.state, Accepted)
    return is_reference or hasattr(node, "clock")
