"""`E before D`, `E at EVENT` and their like as nodes: an expression as it was."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vitalsdsl.ground.types import SAMPLES
from vitalsdsl.kernels import lag
from vitalsdsl.kernels.state import State
from vitalsdsl.kernels.trail import Ring
from vitalsdsl.kernels.window import Window
from vitalsdsl.language import expressions as ex
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.language.scope import Meaning
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes.setting import Setting
from vitalsdsl.nodes.signals import EdgeFeed, Event, Feed, Phase

if TYPE_CHECKING:
    from vitalsdsl.planning.compiler import Compiler

Make = Callable[["float | None"], State]


def before(compiler: Compiler, node: ex.Before, setting: Setting) -> nd.Node:
    """By a length, or before an event's newest edge."""
    shift = node.shift
    if isinstance(shift, ex.Name) and compiler.scope.meaning(shift) is not Meaning.PARAM:
        return _remember(compiler, node, node.operand, setting, lag.BeforeEdge, compiler.event_like(shift, setting))
    extent = compiler.extent(shift)
    if extent.unit == SAMPLES:
        return _remember(compiler, node, node.operand, setting, functools.partial(lag.SampleLag, int(extent.size)))
    return _remember(compiler, node, node.operand, setting, functools.partial(lag.Lag, extent))


def at_step(compiler: Compiler, node: ex.AtStep, setting: Setting) -> nd.Node:
    """At a step that the policy names."""
    return _remember(compiler, node, node.operand, setting, functools.partial(lag.AtStep, node.step.value))


def at_event(compiler: Compiler, node: ex.AtEvent, setting: Setting) -> nd.Node:
    """At the close of the step of an event's newest edge."""
    return _remember(compiler, node, node.operand, setting, lag.AtEdge, compiler.event_like(node.event, setting))


def at_end(compiler: Compiler, node: ex.AtEnd, setting: Setting) -> nd.Node:
    """Before the phase first ended."""
    phase = compiler.phase(compiler.scope.phases[node.phase.path])
    make = functools.partial(lag.BeforeEdge, once=True)
    return _remember(compiler, node, node.operand, setting, make, phase=phase)


def _remember(
    compiler: Compiler,
    node: ex.Expression,
    operand: ex.Expression,
    setting: Setting,
    make: Make,
    event: Event | None = None,
    phase: Phase | None = None,
) -> nd.Node:
    source = compiler.expression(operand, setting)
    state = make(None if source.is_condition else math.nan)
    compiler.graph.states.append(state)
    feed = subscribe(compiler, source, state)
    inputs, pacers = [feed], [feed]
    if event is not None:
        event.listeners.append(state)
        inputs.append(event)
        pacers.append(event)
    if phase is not None:
        phase.ends.append(state)
        inputs.append(phase)
    kind = nd.ConditionFunction if source.is_condition else nd.Function
    return kind(expression_text(node), inputs, pacers, state, state.read, [feed])


def subscribe(
    compiler: Compiler, source: nd.Node, state: State, push: Callable[[int, float, Any], None] | None = None
) -> nd.Node:
    """Have a stream's points pushed into a state; the node that a reader of the state must wait for."""
    push = push or state.push
    stream = stream_of(compiler, source)
    if isinstance(state, Window) and state.shares:
        state.share(compiler.graph.rings.setdefault((stream, state.unit), Ring(state.unit)))
    if isinstance(stream, nd.MetricNode):
        stream.subscribers.append(push)
    else:
        (stream.unknown_too if state.takes_unknown else stream.known).append(push)
    return stream


def stream_of(compiler: Compiler, source: nd.Node) -> nd.MetricNode | Feed:
    """What hands out an argument's points: the metric or let itself, or a feed of its own for any other expression."""
    stream = source.source if isinstance(source, nd.Fresh) else source
    if isinstance(stream, (nd.MetricNode, Feed)):
        return stream
    memo = compiler.graph.memo
    key = ("feed", source)
    if key not in memo:
        event = source.event if isinstance(source, nd.Function) else None
        compiler.graph.keep(key, Feed(source) if event is None else EdgeFeed(source, event))
    feed: Feed = memo[key]
    return feed
