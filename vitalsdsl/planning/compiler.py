"""Expressions to nodes: names are resolved here, once, and each thing asked for twice becomes one node."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from vitalsdsl.ground.types import STEPS, TIME, Extent
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.language.scope import Meaning, fill_family, implicit_subject, match_family
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import operations as op
from vitalsdsl.nodes.graph import Graph
from vitalsdsl.nodes.holding import Span
from vitalsdsl.nodes.past import at_end, at_event, at_step, before
from vitalsdsl.nodes.setting import Owner, Setting
from vitalsdsl.nodes.signals import Event, Freeze, Held, Let, Phase, Probe, Reference, Root, Then, ThenNo
from vitalsdsl.ops import base
from vitalsdsl.planning.calls import aggregate_of, call, has_family, streams_of_call
from vitalsdsl.planning.intake import Metrics
from vitalsdsl.planning.shared import Shared

_ONCE = Span()


class Compiler:
    """Makes the nodes of one policy in one graph."""

    def __init__(self, shared: Shared, graph: Graph) -> None:
        self.shared = shared
        self.scope = scope = shared.scope
        self.graph = graph
        self.metrics = Metrics(scope)
        self._building: set[str] = set()
        self._open: list[nd.Fresh] = []

    def let(self, let: rules.Let, setting: Setting) -> Let:
        key = ("let", let.name, setting.star)
        if key not in self.graph.memo:
            self._enter(f"let {let.name}")
            inner = Setting(star=setting.star)
            source = self.expression(let.expression, inner)
            on = self.metric_of(let.on, inner) if let.on is not None else None
            root = Let(source, on)
            root.text = fill_family(let.name, setting.star) if setting.star is not None else let.name
            self.graph.keep(key, root)
            self._building.discard(f"let {let.name}")
        found: Let = self.graph.memo[key]
        return found

    def event(self, event: rules.Event) -> Event:
        key = ("event", event.name)
        if key not in self.graph.memo:
            self._enter(f"event {event.name}")
            span = self.span(event.for_)
            owner = Owner(f"event {event.name}", span.doubled())
            source = self.expression(event.condition, Setting(owner=owner))
            apart = self.extent(event.apart) if event.apart is not None else None
            root = Event(event.name, source, span, self.graph.clock, apart)
            self.graph.keep(key, root)
            self.freeze(owner, [(source, None)])
            self._building.discard(f"event {event.name}")
        found: Event = self.graph.memo[key]
        return found

    def phase(self, phase: rules.Phase) -> Phase:
        key = ("phase", phase.name)
        if key not in self.graph.memo:
            self._enter(f"phase {phase.name}")
            owner = Owner(f"phase {phase.name}")
            source = self.expression(phase.condition, Setting(owner=owner))
            root = Phase(phase.name, source, self.graph.clock)
            self.graph.keep(key, root)
            self.freeze(owner, [(source, None)])
            self._building.discard(f"phase {phase.name}")
        found: Phase = self.graph.memo[key]
        return found

    def _enter(self, name: str) -> None:
        if name in self._building:
            raise RecursionError(f"{name} depends on itself")  # the checker refuses such a policy (V507)
        self._building.add(name)

    def freeze(self, owner: Owner, conditions: Iterable[tuple[nd.Node, nd.Node | None]]) -> None:
        """Let the owner's conditions freeze the references that stand in it."""
        owner.conditions = list(conditions)
        for reference, extent in owner.waiting:
            self.freeze_by_owner(reference, extent, owner)
        owner.waiting.clear()

    def freeze_by_owner(self, reference: Reference, extent: Extent, owner: Owner) -> None:
        """Let the owner's conditions freeze one reference, as soon as there are any."""
        if owner.conditions is None:
            owner.waiting.append((reference, extent))
            return
        limits = [Extent(4 * extent.size, extent.unit), *owner.limits]
        for condition, on in owner.conditions:
            self.freezes(reference, condition, limits, on)

    def freezes(self, reference: Reference, condition: nd.Node, limits: list[Extent], on: nd.Node | None) -> None:
        freeze = Freeze(condition, reference.accepted, limits, self.graph.clock, on)
        reference.freezes.append(freeze)
        self.graph.roots.append(freeze)

    def extent(self, node: ex.Expression, bare: str = STEPS) -> Extent:
        """A length, a length param, or a bare number of the unit that its place says."""
        if isinstance(node, ex.Name):
            return self.extent(self.scope.params[node.path].value, bare)
        if isinstance(node, ex.Length):
            return self.shared.same(Extent(node.size, TIME if node.is_time else node.unit))
        if isinstance(node, ex.Number):
            return self.shared.same(Extent(node.value, bare))
        raise TypeError(f"{type(node).__name__} is no length")

    def span(self, node: ex.For | None) -> Span:
        if node is None:
            return _ONCE
        return self.shared.same(Span([self.extent(length) for length in node.lengths], node.k, node.n))

    def metric_of(self, name: ex.Name, setting: Setting) -> nd.MetricNode | Let:
        """The stream of a name, as `on` names one too: a metric, a member, or a let."""
        path = self.path(name, setting)
        if self.scope.meaning(name if path == name.path else path) is Meaning.LET:
            return self.let_of(path)
        return self.metrics.node(path)

    def path(self, name: ex.Name, setting: Setting) -> str:
        if name.path == setting.member and setting.member_path is not None and not name.quoted:
            return setting.member_path
        return name.path

    def watch(self, node: ex.Expression, join: Callable[[str], None]) -> None:
        """Have `join` called once for each member of the families in an expression."""
        once = _once(join)
        for path in self.families(node):
            self.metrics.watch(path, once)

    def families(self, node: ex.Expression) -> list[str]:
        """The metric families behind an expression, through lets, leaving out those of inner aggregates."""
        found: list[str] = []
        stack: list[ex.Node] = [node]
        while stack:
            here = stack.pop()
            if isinstance(here, ex.Family):
                let = self.scope.lets.get(here.path)
                if let is not None and let.family:
                    stack.append(let.expression)
                elif here.path not in found:
                    found.append(here.path)
            elif here is node or not (isinstance(here, ex.Call) and aggregate_of(here) is not None):
                stack.extend(reversed(list(here.children())))
        return found

    def expression(self, node: ex.Expression, setting: Setting) -> nd.Node:
        """The node of an expression where it stands."""
        key: Any = (expression_text(node), *self._dependence(node, setting))
        if key not in self.graph.memo:
            made = _BUILD[type(node)](self, node, setting)
            self.graph.memo.setdefault(key, made)
            if isinstance(made, Root) and made not in self.graph.roots:
                self.graph.roots.append(made)
        known: nd.Node = self.graph.memo[key]
        return known

    def _dependence(self, node: ex.Expression, setting: Setting) -> tuple[Any, ...]:
        """What else than its text tells one expression from another: only what it really looks at."""
        star = setting.star if has_family(node) else None
        member = None
        owners: list[Any] = []
        for inner in node.walk():
            if isinstance(inner, ex.Name) and inner.path == setting.member:
                member = setting.member_path
            elif isinstance(inner, ex.Call) and inner.function in ("usual", "noise") and setting.owner is not None:
                named = any(a.keyword == "unless" for a in inner.arguments)
                owners.append(tuple(setting.owner.limits) if named else setting.owner.name)
        return star, member, tuple(owners) if owners else None

    def prepare(self, node: ex.Expression, setting: Setting) -> None:
        """Compile now what in an expression is the same for all members: it has a past when the first one is logged.

        `setting` is that of a member yet to come. A reference that the member's own rule will freeze is begun without.
        """
        if isinstance(node, (ex.Family, ex.Length)) or (isinstance(node, ex.Name) and node.path == setting.member):
            return
        if not self._awaits_member(node, setting):
            self.expression(node, setting)
        elif isinstance(node, ex.Call):
            for argument in streams_of_call(node):
                self.prepare(argument, setting)
        else:
            for child in node.children():
                if isinstance(child, ex.Expression):
                    self.prepare(child, setting)

    def _awaits_member(self, node: ex.Expression, setting: Setting) -> bool:
        if has_family(node) or any(self._lacks_subject(n) for n in _outside_comparisons(node)):
            return True
        return any(isinstance(n, ex.Name) and n.path == setting.member for n in node.walk())

    def _keep(self, key: Any, root: Root) -> Root:
        self.graph.memo[key] = root
        self.graph.roots.append(root)
        return root

    def _number(self, node: ex.Number, setting: Setting) -> nd.Node:
        return nd.Constant(node.text, node.value)

    def _length(self, node: ex.Length, setting: Setting) -> nd.Node:
        return nd.Constant(expression_text(node), node.size)

    def _name(self, node: ex.Name, setting: Setting) -> nd.Node:
        meaning = self.scope.meaning(node, setting.member)
        if meaning is Meaning.PARAM:
            value = self.scope.params[node.path].value
            return nd.Constant(node.path, value.size if isinstance(value, ex.Length) else value.value)
        if meaning is Meaning.COUNTER:
            return nd.CounterNode(node.path, self.graph.clock)
        if meaning is Meaning.EVENT:
            return self.event(self.scope.events[node.path])
        if meaning is Meaning.PHASE:
            phase = self.phase(self.scope.phases[node.path])
            return nd.ShownCondition(node.path, phase, sets_pace=False)
        return self._fresh(self.metric_of(node, setting))

    def let_of(self, path: str) -> Let:
        let = self.scope.lets.get(path)
        if let is not None and not let.family:
            return self.let(let, Setting())
        family = self.scope.let_family(path)
        assert family is not None
        return self.let(family[0], Setting(star=family[1]))

    def _family(self, node: ex.Family, setting: Setting) -> nd.Node:
        assert setting.star is not None
        path = fill_family(node.path, setting.star)
        if match_family(node.path, path) is None:
            return nd.Constant(path, math.nan)
        return self._fresh(self.member_of(node.path, setting.star))

    def member_of(self, family: str, star: str) -> nd.MetricNode | Let:
        """The stream of one member of a family, of metrics or of lets."""
        let = self.scope.lets.get(family)
        if let is not None and let.family:
            return self.let(let, Setting(star=star))
        return self.metrics.node(fill_family(family, star))

    def _fresh(self, node: nd.Node) -> nd.Node:
        """The node as a plain name reads it: unknown once it is stale, where the policy says when that is."""
        key = ("fresh", node)
        if key not in self.graph.memo:
            fresh = nd.Fresh(node)
            is_open = self._stale_limits(node, fresh.limits, set())
            if is_open:
                self._open.append(fresh)
            self.graph.memo[key] = fresh if is_open or fresh.limits else node
        found: nd.Node = self.graph.memo[key]
        return found

    def members_joined(self) -> None:
        """Let the metrics that have joined a family make stale what reads the family."""
        for fresh in self._open:
            fresh.limits.clear()
            self._stale_limits(fresh.source, fresh.limits, set())

    def _stale_limits(self, node: nd.Node, limits: list[nd.Limit], seen: set[int]) -> bool:
        """Collect how old each metric behind a node may be; whether more metrics may come to stand behind it."""
        if id(node) in seen:
            return False
        seen.add(id(node))
        if isinstance(node, nd.MetricNode):
            declared, _ = self.metrics.declared(node.name)
            if declared is not None:
                extent = None
                if declared.stale_after is not None:
                    extent = self.extent(declared.stale_after)
                elif declared.every is not None:
                    every = self.extent(declared.every)
                    extent = Extent(2 * every.size, every.unit)
                if extent is not None:
                    limits.append((node, extent.size, extent.unit == TIME))
            return False
        below = node.pacers if isinstance(node, Root) and node.on is not None else node.inputs
        inner_open = [self._stale_limits(inner, limits, seen) for inner in below]
        return isinstance(node, (op.AggregateNode, op.Share)) or True in inner_open

    def _negative(self, node: ex.Negative, setting: Setting) -> nd.Node:
        return op.Negative(expression_text(node), [self.expression(node.operand, setting)])

    def _arithmetic(self, node: ex.Arithmetic, setting: Setting) -> nd.Node:
        operands = [self.expression(operand, setting) for operand in node.operands]
        if len(operands) == 2:
            return op.Arithmetic(expression_text(node), node.operator, *operands)
        return op.ArithmeticChain(expression_text(node), node.operators, operands)

    def _comparison(self, node: ex.Comparison, setting: Setting) -> nd.Node:
        operands = [self.expression(self._with_subject(node, o), setting) for o in node.operands]
        links: list[nd.Node] = []
        for symbol, left, right in zip(node.operators, operands, operands[1:]):
            links.append(op.Comparison(self.shared.same(f"{left.text} {symbol} {right.text}"), symbol, left, right))
        return links[0] if len(links) == 1 else op.And(expression_text(node), links)

    def _with_subject(self, comparison: ex.Comparison, operand: ex.Expression) -> ex.Expression:
        """The operand with `baseline(500)` written out as `baseline(grad_norm, 500 steps)`.

        A comparison inside it, as in `fraction(loss > 2 * baseline(500), 50 steps) > 30%`, has a subject of its own.
        """
        if not any(self._lacks_subject(n) for n in _outside_comparisons(operand)):
            return operand
        subject = implicit_subject(comparison, operand, self.scope)
        assert subject is not None
        full: ex.Expression = _map(operand, lambda n: _insert_subject(n, subject) if self._lacks_subject(n) else n)
        return full

    @staticmethod
    def _lacks_subject(node: ex.Node) -> bool:
        if not isinstance(node, ex.Call):
            return False
        function = base.registry().get(node.function)
        if function is None or not function.implicit_subject:
            return False
        return sum(a.keyword is None for a in node.arguments) < len(function.positional())

    def _not(self, node: ex.Not, setting: Setting) -> nd.Node:
        return op.Not(expression_text(node), [self.expression(node.operand, setting)])

    def _and(self, node: ex.And, setting: Setting) -> nd.Node:
        return op.And(expression_text(node), [self.expression(part, setting) for part in node.operands])

    def _or(self, node: ex.Or, setting: Setting) -> nd.Node:
        return op.Or(expression_text(node), [self.expression(part, setting) for part in node.operands])

    def _is(self, node: ex.Is, setting: Setting) -> nd.Node:
        target = node.operand
        if isinstance(target, ex.Family):
            assert setting.star is not None
            path = fill_family(target.path, setting.star)
        else:
            assert isinstance(target, ex.Name)
            path = self.path(target, setting)
        return op.Is(expression_text(node), self.metrics.node(path), node.state, node.negated)

    def _missing(self, node: ex.Missing, setting: Setting) -> nd.Node:
        extent = self.extent(node.length)
        target = self.metric_of(node.target, setting)
        declared, _ = self.metrics.declared(target.text)
        every = declared is not None and declared.every is not None
        by_time = extent.unit == TIME
        return op.Missing(expression_text(node), target, extent.size, by_time, self.graph.clock, every)

    def _stalled(self, node: ex.Stalled, setting: Setting) -> nd.Node:
        stalled = op.Stalled(expression_text(node), self.extent(node.length).size)
        self.graph.stalled.append(stalled)
        return stalled

    def _held(self, node: ex.Held, setting: Setting) -> nd.Node:
        source = self.expression(node.condition, setting)
        return Held(expression_text(node), source, self.span(node.span_), self.graph.clock)

    def _at_least(self, node: ex.AtLeast, setting: Setting) -> nd.Node:
        inputs = [self.expression(c, setting) for c in node.conditions]
        return op.AtLeast(expression_text(node), inputs, node.count)

    def event_like(self, node: ex.Expression, setting: Setting) -> Event:
        """A named event, or the edges of a raw condition."""
        if isinstance(node, ex.Name) and self.scope.meaning(node, setting.member) is Meaning.EVENT:
            return self.event(self.scope.events[node.path])
        if isinstance(node, ex.Name) and self.scope.meaning(node, setting.member) is Meaning.PHASE:
            return self.phase(self.scope.phases[node.path])
        source = self.expression(node, setting)
        key = ("edges", source)
        if key not in self.graph.memo:
            self.graph.keep(key, Event(source.text, source, Span(), self.graph.clock))
        found: Event = self.graph.memo[key]
        return found

    def _then(self, node: ex.Then, setting: Setting) -> nd.Node:
        first = self.event_like(node.first, setting)
        source = self.expression(node.second, setting)
        second: Event | Probe
        if isinstance(source, Event):
            second = source
        else:
            key = ("probe", source)
            if key not in self.graph.memo:
                self.graph.keep(key, Probe(source))
            second = self.graph.memo[key]
        build = ThenNo if node.absent else Then
        return build(expression_text(node), first, second, self.extent(node.within))


def _once(join: Callable[[str], None]) -> Callable[[str], None]:
    seen: set[str] = set()

    def joined(star: str) -> None:
        if star not in seen:
            seen.add(star)
            join(star)

    return joined


def _insert_subject(call: Any, subject: ex.Name) -> ex.Expression:
    first = ex.Argument.build(call.span, value=subject)
    return ex.Call.build(call.span, function=call.function, arguments=(first, *call.arguments), grouped=call.grouped)


def _outside_comparisons(node: ex.Node) -> Iterator[ex.Node]:
    if not isinstance(node, ex.Comparison):
        yield node
        for child in node.children():
            yield from _outside_comparisons(child)


def _map(node: Any, change: Callable[[Any], Any]) -> Any:
    """The expression with each node outside inner comparisons changed, innermost first."""
    if isinstance(node, ex.Comparison):
        return node
    fields: dict[str, Any] = {}
    for name, value in node.__dict__.items():
        if isinstance(value, ex.Node):
            fields[name] = _map(value, change)
        elif isinstance(value, tuple) and any(isinstance(v, ex.Node) for v in value):
            fields[name] = tuple(_map(v, change) if isinstance(v, ex.Node) else v for v in value)
        else:
            fields[name] = value
    return change(type(node).build(**fields))


_BUILD: dict[type[ex.Expression], Callable[[Compiler, Any, Setting], nd.Node]] = {
    ex.Number: Compiler._number,
    ex.Length: Compiler._length,
    ex.Name: Compiler._name,
    ex.Family: Compiler._family,
    ex.Negative: Compiler._negative,
    ex.Arithmetic: Compiler._arithmetic,
    ex.Comparison: Compiler._comparison,
    ex.Not: Compiler._not,
    ex.And: Compiler._and,
    ex.Or: Compiler._or,
    ex.Is: Compiler._is,
    ex.Missing: Compiler._missing,
    ex.Stalled: Compiler._stalled,
    ex.Held: Compiler._held,
    ex.AtLeast: Compiler._at_least,
    ex.Then: Compiler._then,
    ex.Before: before,
    ex.AtStep: at_step,
    ex.AtEvent: at_event,
    ex.AtEnd: at_end,
    ex.Call: call,
}
