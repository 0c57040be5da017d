"""Calls as nodes: functions of the moment, functions with a memory, references, and functions over a family."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from vitalsdsl.ground.types import Extent, Kind
from vitalsdsl.kernels.accepted import Accepted
from vitalsdsl.kernels.state import State
from vitalsdsl.language import expressions as ex
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.language.scope import Meaning, arguments_by_name
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import operations as op
from vitalsdsl.nodes.graph import in_order
from vitalsdsl.nodes.past import stream_of, subscribe
from vitalsdsl.nodes.setting import Owner, Setting
from vitalsdsl.nodes.signals import Event, Reference
from vitalsdsl.ops import base
from vitalsdsl.ops.base import Takes

if TYPE_CHECKING:
    from vitalsdsl.planning.compiler import Compiler


def streams_of_call(node: ex.Call) -> list[ex.Expression]:
    """The arguments that change with the run."""
    function = base.registry().get(node.function)
    if function is None or issubclass(function, base.Elementwise):
        return [argument.value for argument in node.arguments]
    given = arguments_by_name(node, function)
    places = [p.name for p in function.parameters if p.takes in (Takes.STREAM, Takes.CONDITION)]
    return [given[name] for name in places if name in given]


@dataclass
class _Bound:
    """A call's arguments sorted out: streams to follow, an event, a freezing condition, and what is fixed at load."""

    sources: list[nd.Node] = field(default_factory=list)
    event: Event | None = None
    unless: ex.Expression | None = None
    fixed: dict[str, Any] = field(default_factory=dict)


def call(compiler: Compiler, node: ex.Call, setting: Setting) -> nd.Node:
    """The node of a call, by what kind of function it is."""
    aggregate = aggregate_of(node)
    if aggregate is not None:
        return _aggregate(compiler, node, aggregate, setting)
    function = base.registry()[node.function]
    if function.name == "share":
        return _share(compiler, node, function, setting)
    if issubclass(function, base.Elementwise):
        inputs = [compiler.expression(a.value, setting) for a in node.arguments]
        build = op.ElementwiseCondition if function.result is Kind.CONDITION else op.Elementwise
        return build(expression_text(node), inputs, function.value)
    assert issubclass(function, base.Stateful)
    bound = _bind(compiler, node, function, setting)
    if any(p.takes is Takes.FREEZING for p in function.parameters):
        return _reference(compiler, node, function, bound, setting)
    return _stateful(compiler, node, function, bound)


def _bind(compiler: Compiler, node: ex.Call, function: type[base.Function], setting: Setting) -> _Bound:
    bound = _Bound()
    given = arguments_by_name(node, function)
    for parameter in function.parameters:
        value = given.get(parameter.name)
        takes = parameter.takes
        if value is None:
            if parameter.default is not None:
                bound.fixed[parameter.name] = parameter.default
        elif takes in (Takes.STREAM, Takes.CONDITION):
            bound.sources.append(compiler.expression(value, setting))
        elif takes is Takes.EVENT:
            bound.event = compiler.event_like(value, setting)
        elif takes is Takes.FREEZING:
            bound.unless = value
        elif takes is Takes.ORIGIN and _is_event(compiler, value):
            bound.event = compiler.event_like(value, setting)
            bound.fixed[parameter.name] = "event"
        elif takes in (Takes.EXTENT, Takes.ORIGIN):
            bound.fixed[parameter.name] = compiler.extent(value, parameter.units[0])
        elif takes is Takes.WORD:
            assert isinstance(value, ex.Name)
            bound.fixed[parameter.name] = value.path
        else:
            bound.fixed[parameter.name] = _constant(compiler, value, setting)
    bound.fixed = compiler.shared.same(bound.fixed)
    return bound


def _is_event(compiler: Compiler, node: ex.Expression) -> bool:
    return isinstance(node, ex.Name) and compiler.scope.meaning(node) in (Meaning.EVENT, Meaning.PHASE)


def _constant(compiler: Compiler, node: ex.Expression, setting: Setting) -> float:
    made = compiler.expression(node, setting)
    for inner in in_order([made]):
        inner.run(0, math.nan)
    return float(made.value)


# -------------------------------------------------------------------- functions with a memory


def _stateful(compiler: Compiler, node: ex.Call, function: type[base.Stateful], bound: _Bound) -> nd.Node:
    streams: list[nd.Node] = [stream_of(compiler, source) for source in bound.sources]
    key = (function.sharing(bound.fixed), *streams, bound.event)
    memo = compiler.graph.memo
    if key not in memo:
        memo[key] = function.new(bound.fixed)
        compiler.graph.states.append(memo[key])
        _connect(compiler, memo[key], bound)
    state = memo[key]
    inputs, pacers = list(streams), list(streams)
    if bound.event is not None:
        inputs.append(bound.event)
        if not streams:
            pacers.append(bound.event)
    kind = nd.ConditionFunction if function.result is Kind.CONDITION else nd.Function
    is_plain = getattr(function.reader, "__func__", None) is base.Windowed.reader.__func__  # type: ignore[attr-defined]
    read = None if is_plain else function.reader(state, bound.fixed)
    made = kind(expression_text(node), inputs, pacers, state, read, streams, _call(compiler, function, bound))
    made.event = bound.event if function.points_at_edges else None
    return made


def _connect(compiler: Compiler, state: State, bound: _Bound) -> None:
    for source, push in zip(bound.sources, (state.push, state.push_second)):
        subscribe(compiler, source, state, _as_number(push) if source.is_condition else push)
    if bound.event is not None:
        bound.event.listeners.append(state)


def _as_number(push: Callable[[int, float, float], None]) -> Callable[[int, float, bool], None]:
    def pushed(step: int, time: float, value: bool) -> None:
        push(step, time, float(value))

    return pushed


# -------------------------------------------------------------------- references


def _reference(
    compiler: Compiler, node: ex.Call, function: type[base.Stateful], bound: _Bound, setting: Setting
) -> nd.Node:
    """`usual` and `noise`: one memory for all with the same stream, window and freezing conditions."""
    owner = setting.owner or Owner("let")
    extent: Extent = bound.fixed["W"]
    source = bound.sources[0]
    stream = stream_of(compiler, source)
    frozen_by: Any = owner.name
    if bound.unless is not None:
        frozen_by = (expression_text(bound.unless), tuple(owner.limits), setting.names())
    key = ("reference", stream, extent, frozen_by)
    memo = compiler.graph.memo
    if key not in memo:
        state = memo[key] = function.new(bound.fixed)
        assert isinstance(state, Accepted)
        begun = memo.get(("reference", stream, extent, owner.begun_by)) if bound.unless is None else None
        if begun is not None:
            state.load(begun.save())
        compiler.graph.states.append(state)
        subscribe(compiler, source, state)
        reference = Reference(state)
        compiler.graph.references.append(reference)
        if bound.unless is None:
            compiler.freeze_by_owner(reference, extent, owner)
        else:
            _unless(compiler, reference, extent, bound.unless, owner, setting)
    state = memo[key]
    read, call = function.reader(state, bound.fixed), _call(compiler, function, bound)
    return nd.Function(expression_text(node), [stream], [stream], state, read, [stream], call)


def _call(compiler: Compiler, function: type[base.Stateful], bound: _Bound) -> tuple[Any, dict[str, Any]]:
    return compiler.shared.same((function, bound.fixed))


def _unless(
    compiler: Compiler, reference: Reference, extent: Extent, unless: ex.Expression, owner: Owner, setting: Setting
) -> None:
    limits = [Extent(4 * extent.size, extent.unit), *owner.limits]
    condition: nd.Node
    if _is_event(compiler, unless):
        event = compiler.event_like(unless, setting)
        limits += event.holding.span.doubled()
        condition = event.source
    else:
        condition = compiler.expression(unless, setting)
    compiler.freezes(reference, condition, limits, None)


# -------------------------------------------------------------------- families


def aggregate_of(node: ex.Call) -> type[base.Aggregate] | None:
    """The function over members that a call means: one argument, with a family in it."""
    function = base.aggregates().get(node.function)
    if function is None or len(node.arguments) != 1:
        return None
    return function if has_family(node.arguments[0].value) else None


def has_family(node: ex.Node) -> bool:
    """Whether an expression is another one for each member: a family in it that no function over members takes."""
    if isinstance(node, ex.Family):
        return True
    if isinstance(node, ex.Call) and (node.function == "share" or aggregate_of(node) is not None):
        return False
    return any(has_family(child) for child in node.children())


def _aggregate(compiler: Compiler, node: ex.Call, function: type[base.Aggregate], setting: Setting) -> nd.Node:
    argument = node.arguments[0].value
    build = op.AggregateCondition if function.result is Kind.CONDITION else op.AggregateNode
    made = build(expression_text(node), function.value, function.name in ("any", "all", "count"))

    def join(star: str) -> None:
        made.join(star, compiler.expression(argument, replace(setting, star=star)))

    compiler.prepare(argument, setting)
    compiler.watch(argument, join)
    return made


def _share(compiler: Compiler, node: ex.Call, function: type[base.Function], setting: Setting) -> nd.Node:
    made = op.Share(expression_text(node), function.value)  # type: ignore[attr-defined]
    families: Sequence[ex.Expression] = [argument.value for argument in node.arguments]
    for family, members in zip(families, (made.parts, made.of)):
        assert isinstance(family, ex.Family)
        compiler.watch(family, _joiner(compiler, made, family.path, members))
    return made


def _joiner(compiler: Compiler, made: op.Share, path: str, members: list[op.Stream]) -> Callable[[str], None]:
    def join(star: str) -> None:
        member = compiler.member_of(path, star)
        members.append(member)
        made.inputs.append(member)

    return join
