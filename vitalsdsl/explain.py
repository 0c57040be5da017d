"""A rule in plain English, and what it saw at one step of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.language.guards import named
from vitalsdsl.language.rules import Level
from vitalsdsl.language.scope import Meaning, Scope, arguments_by_name, implicit_subject
from vitalsdsl.nodes import base as nd
from vitalsdsl.ops import base
from vitalsdsl.ops.base import Takes
from vitalsdsl.planning.calls import aggregate_of
from vitalsdsl.planning.logged import WHY_UNKNOWN
from vitalsdsl.planning.warmup import Earliest
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.verdicts.verdict import Clause, Gate, RuleState
from vitalsdsl.verdicts.wording import distance

_COMPARED = {">": "above", "<": "below", ">=": "at or above", "<=": "at or below", "==": "equal to", "!=": "not"}
_ARITHMETIC = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}


# -------------------------------------------------------------------- in plain English


def in_english(rule: rules.Rule, scope: Scope) -> list[str]:
    """What a rule does, sentence by sentence: when it fires, climbs and clears, what it needs first, and its latency."""
    lines = []
    for clause in rule.body.clauses:
        lines += _clause(clause, rule, scope)
    if rule.phases:
        lines.insert(0, f"Looked at only in phase {' or '.join(p.path for p in rule.phases)}.")
    if rule.each is not None:
        lines.insert(0, f"For each member of {rule.each.family.path} by itself, called {rule.each.member} here.")
    if rule.body.shadow:
        lines.append("In shadow: it is evaluated and recorded, and never acts.")
    return [*lines, *_where(rule, scope)]


def _where(rule: rules.Rule, scope: Scope) -> list[str]:
    """What the rule's events, lets and phases are, each once, those in them included."""
    body = rule.body
    parts: list[ex.Node] = [*rule.phases, *(c.condition for c in body.clauses)]
    parts += [body.clear.condition] if body.clear is not None and body.clear.condition is not None else []
    parts += [p.expression for p in body.because.parts if isinstance(p, rules.TemplateField)] if body.because else []
    said, lines, seen = _Said(scope), [], set[str]()
    while parts:
        for name in named(parts.pop(0)):
            part = scope.part(name)
            if part is None or part.name in seen:
                continue
            seen.add(part.name)
            what = part.expression if isinstance(part, rules.Let) else part.condition
            on = f", looked at where {part.on.path} has a point" if isinstance(part, rules.Let) and part.on else ""
            span = part.for_ if isinstance(part, rules.Event) else None
            apart = part.apart if isinstance(part, rules.Event) else None
            text = said.value(what) if isinstance(part, rules.Let) else said.condition(what)
            text += f" {_for(span, said)}" if span is not None else ""
            text += f", no two beginnings within {said.length(apart)}" if apart is not None else ""
            lines.append(f"where {part.name} = {text}{on}")
            parts.append(what)
    return lines


def _clause(clause: rules.Clause, rule: rules.Rule, scope: Scope) -> list[str]:
    said = _Said(scope)
    first = clause.rungs[0]
    how_long = f" {_for(clause.for_, said)}" if clause.for_ is not None else ""
    on = f", looked at where {clause.on.path} has a point" if clause.on is not None else ""
    lines = [f"Fires {first.level.word} when {said.condition(clause.condition)}{how_long}{on}."]
    for rung in clause.rungs[1:]:
        assert rung.after is not None
        lines.append(f"Goes {rung.level.word} where that still holds {said.length(rung.after)} after it fired.")
    lines.append(_clears(clause, rule.body.clear, said))
    lines += _latency(clause, rule, scope)
    return lines


def _clears(clause: rules.Clause, clear: rules.Clear | None, said: _Said) -> str:
    if clear is not None and clear.condition is not None:
        span = f" {_for(clear.for_, said)}" if clear.for_ is not None else ""
        return f"Goes back to green when {said.condition(clear.condition)}{span}."
    span_node = clear.for_ if clear is not None else clause.for_
    if span_node is None:
        return "Goes back to green at the first evaluation at which it is false."
    if span_node.n:
        k, n = span_node.k, span_node.n
        return f"Goes back to green when it is false, as at {max(k, n - k + 1)} of the last {n} evaluations."
    return f"Goes back to green when it has been false {_for(span_node, said)}. Unknown values change nothing."


def _for(span: ex.For, said: _Said) -> str:
    if span.n:
        return f"at {span.k} of the last {span.n} evaluations"
    return "for " + " and ".join(said.length(length) for length in span.lengths)


class _Said:
    """Expressions as a person would read them out."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def length(self, node: ex.Expression) -> str:
        if isinstance(node, ex.Name) and node.path in self.scope.params:
            return f"{expression_text(self.scope.params[node.path].value)} ({node.path})"
        return expression_text(node)

    def condition(self, node: ex.Expression) -> str:
        if isinstance(node, ex.Comparison):
            return self._comparison(node)
        if isinstance(node, (ex.And, ex.Or)):
            word = "and" if isinstance(node, ex.And) else "or"
            return f" {word} ".join(self._part(part, node) for part in node.operands)
        if isinstance(node, ex.Not):
            return f"it is not so that {self.condition(node.operand)}"
        if isinstance(node, ex.Is):
            state = {"nan": "NaN", "inf": "infinite", "finite": "finite"}[node.state]
            return f"{self.value(node.operand)} is {'not ' * node.negated}{state}"
        if isinstance(node, ex.Missing):
            return f"{node.target.path} has had no point for {self.length(node.length)}"
        if isinstance(node, ex.Stalled):
            return f"no step has closed for {self.length(node.length)}"
        if isinstance(node, ex.Held):
            return f"({self.condition(node.condition)} {_for(node.span_, self)})"
        if isinstance(node, ex.AtLeast):
            return f"at least {node.count} of these hold: " + "; ".join(map(self.condition, node.conditions))
        if isinstance(node, ex.Then):
            first, second, within = self._moment(node.first), self.condition(node.second), self.length(node.within)
            if node.absent:
                return f"{first} began and for {within} since then it was never so that {second}"
            return f"{second}, at most {within} after {first} began"
        if isinstance(node, ex.Name):
            event = self.scope.meaning(node) is Meaning.EVENT
            return f"the event {node.path} is on" if event else f"the run is in phase {node.path}"
        return self.value(node)

    def _moment(self, node: ex.Expression) -> str:
        """What begins: an event by its name."""
        return f"`{node.path}`" if isinstance(node, ex.Name) else f"({self.condition(node)})"

    def _part(self, node: ex.Expression, outer: ex.Expression) -> str:
        text = self.condition(node)
        return f"({text})" if isinstance(node, (ex.And, ex.Or)) and type(node) is not type(outer) else text

    def _comparison(self, node: ex.Comparison) -> str:
        operands = [self.value(o, implicit_subject(node, o, self.scope)) for o in node.operands]
        if len(operands) == 3 and node.operators[0] in ("<", "<=") and node.operators[1] in ("<", "<="):
            return f"{operands[1]} is between {operands[0]} and {operands[2]}"
        links = zip(operands, node.operators, operands[1:])
        return " and ".join(f"{left} is {_COMPARED[symbol]} {right}" for left, symbol, right in links)

    def value(self, node: ex.Expression, subject: ex.Name | None = None) -> str:
        if isinstance(node, ex.Arithmetic):
            first, *rest = (self.value(operand, subject) for operand in node.operands)
            return first + "".join(f" {_ARITHMETIC[symbol]} {text}" for symbol, text in zip(node.operators, rest))
        if isinstance(node, ex.Negative):
            return f"minus {self.value(node.operand, subject)}"
        if isinstance(node, ex.Before):
            shift = node.shift
            return f"{self.value(node.operand)} as it was {self.length(shift)} before"
        if isinstance(node, ex.Call):
            return self._call(node, subject)
        if isinstance(node, ex.Name) and node.path in self.scope.params:
            return f"{expression_text(self.scope.params[node.path].value)} ({node.path})"
        return expression_text(node)

    def _call(self, node: ex.Call, subject: ex.Name | None) -> str:
        aggregate = aggregate_of(node)
        if aggregate is not None:
            inner = node.arguments[0].value
            said = self.condition(inner) if aggregate.name in ("any", "all", "count") else self.value(inner)
            return f"{aggregate.name} of the members: {said}"
        function = base.registry().get(node.function)
        if function is None or not function.phrase:
            return expression_text(node)
        given = arguments_by_name(node, function)
        if subject is not None and len([a for a in node.arguments if a.keyword is None]) < len(function.positional()):
            given = {"x": subject, **dict(zip([p.name for p in function.positional()[1:]], given.values()))}
        words = {p.name: self._argument(p, given.get(p.name)) for p in function.parameters}
        return function.phrase.format(**words)

    def _argument(self, parameter: base.Parameter, node: ex.Expression | None) -> str:
        if node is None:
            return parameter.default_text() if parameter.default is not None else "the start"
        if parameter.takes in (Takes.EXTENT, Takes.ORIGIN):
            return f"{expression_text(node)} steps" if isinstance(node, ex.Number) else self.length(node)
        if parameter.takes in (Takes.CONDITION, Takes.EVENT, Takes.FREEZING):
            return node.path if isinstance(node, ex.Name) else self.condition(node)
        return self.value(node)


# -------------------------------------------------------------------- warm-up and latency


def _latency(clause: rules.Clause, rule: rules.Rule, scope: Scope) -> list[str]:
    """What a clause needs before it can know, and how soon it can fire: lower bounds, all of them."""
    need = Earliest(scope).known(clause.condition).lived()
    after, first = Earliest(scope, warm_up=False).fires(clause, rule), Earliest(scope).fires(clause, rule)
    lines = [f"Needs {need} of the run before it can know."] if need else []
    soon = f"{after} after the trouble begins" if after else "at the first point of trouble"
    steps = math.ceil(first.steps)
    late = f", and not before step {steps} counted from the first point" if steps else ""
    return [*lines, f"Earliest detection: {soon}{late}."]


# -------------------------------------------------------------------- at a step


@dataclass(frozen=True)
class Seen:
    """One sub-expression at a step: its depth in the tree, text, value as text, and the reason where it is unknown."""

    depth: int
    text: str
    value: str
    reason: str


def at_step(stream: Stream, rule: RuleState) -> Iterator[tuple[str, list[Seen]]]:
    """For each clause of a rule, its state in a line and the value of every sub-expression at the newest closed step."""
    step, time = stream.closed or 0, stream.plan.graph.clock.time
    outside = _outside(rule.gate) if rule.gate is not None and not rule.gate.value else None
    for clause in rule.clauses:
        yield outside or _state(clause, step, time), list(_tree(clause.condition, 0, set(), set()))
    if rule.guard is not None:
        yield f"{rule.guard.metric.name} is watched for NaN and ±inf", list(_tree(rule.guard.metric, 0, set(), set()))


def _outside(gate: Gate) -> str:
    """Why a rule is not looked at: none of its phases is known to be true."""
    said = []
    for phase in gate.phases:
        if phase.value is not None:
            said.append(f"phase {phase.text} is off")
            continue
        counters = [n.text for n in _behind(phase) if isinstance(n, nd.CounterNode) and n.is_unknown]
        why = ", ".join(f"{name}: {WHY_UNKNOWN[name]}" for name in counters if name in WHY_UNKNOWN)
        said.append(f"phase {phase.text} is unknown ({why or phase.source.why().value})")
    return "not looked at: " + " and ".join(said)


def _behind(node: nd.Node) -> Iterator[nd.Node]:
    """A node and all that it reads."""
    seen, stack = set[nd.Node](), [node]
    while stack:
        here = stack.pop()
        if here not in seen:
            seen.add(here)
            yield here
            stack += here.inputs


def _state(clause: Clause, step: int, time: float) -> str:
    margin = distance(clause.condition)
    said = f", margin {margin:+.3g}" if math.isfinite(margin) else ""
    if clause.level is not Level.GREEN:
        return f"firing {clause.level.word} since its onset at step {clause.onset}{said}"
    progress = clause.holding.progress(step, time)
    if clause.holding.onset is not None and progress:
        return f"pending {progress}{said}"
    return f"not firing{said}"


def _tree(node: nd.Node, depth: int, above: set[nd.Node], opened: set[nd.Node]) -> Iterator[Seen]:
    """A node and what it is made of. What a definition is made of is shown where it first comes: `opened` are those."""
    reason = node.why().value if node.is_unknown else ""
    seen = Seen(depth, node.text, _shown(node), reason)
    yield seen
    if isinstance(node, (nd.MetricNode, nd.Constant)) or node in above or node in opened or depth > 40:
        return
    if node.is_root:
        opened.add(node)
    told: set[tuple[int, str, str]] = set()
    for inner in node.inputs:
        if isinstance(inner, nd.Constant):
            continue
        for each in _tree(inner, depth + 1, above | {node}, opened):
            # What a part reads through a step of the evaluator's own is that part once more.
            line = (each.depth, each.text, each.value)
            if line not in told and (each.text, each.value) != (seen.text, seen.value):
                told.add(line)
                yield each


def _shown(node: nd.Node) -> str:
    value = node.value
    if node.is_unknown:
        return "unknown"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}"
