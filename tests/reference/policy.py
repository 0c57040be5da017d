"""From the text of a policy file to a plain model: declarations, rules and expression nodes."""

from __future__ import annotations

import functools
import pathlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import lark

from .values import Length, Part, Span, number_of

LEVELS = ("green", "yellow", "orange", "red")
SYNONYMS = {"ok": "green", "warning": "yellow", "critical": "orange", "fatal": "red"}


@dataclass(eq=False)
class Node:
    """One node of an expression; compared by identity, since the same text in two places has two histories."""

    kind: str
    args: tuple[Any, ...] = ()
    named: dict[str, Node] = field(default_factory=dict)
    subject: Node | None = None  # of a `baseline` whose subject was left out

    def children(self) -> Iterator[Node]:
        """The nodes directly below, in the order of the text; what stands in `unless:` and `from:` last."""
        for arg in self.args:
            if isinstance(arg, Node):
                yield arg
            elif isinstance(arg, tuple):
                yield from (a for a in arg if isinstance(a, Node))
        yield from self.named.values()


@dataclass(eq=False)
class Metric:
    name: str
    logged: list[str]
    every: Length | None = None
    stale: Length | None = None
    reduce: str = "last"
    allow_nonfinite: bool = False


@dataclass(eq=False)
class Let:
    name: str
    node: Node
    on: str | None = None


@dataclass(eq=False)
class Event:
    """An event, or a phase, which is an event without span or `apart`."""

    name: str
    node: Node
    span: Span | None = None
    apart: Length | None = None
    is_phase: bool = False


@dataclass(eq=False)
class Rung:
    level: int
    after: Length | None


@dataclass(eq=False)
class Clause:
    node: Node
    span: Span | None
    on: str | None
    rungs: list[Rung]


@dataclass(eq=False)
class Rule:
    name: str
    clauses: list[Clause] = field(default_factory=list)
    clear_when: Node | None = None
    clear_when_span: Span | None = None
    clear_for: Span | None = None
    unknown_reset: bool = False
    phases: list[str] = field(default_factory=list)
    each: tuple[str, str] | None = None
    disabled: bool = False
    shadow: bool = False


@dataclass(eq=False)
class Policy:
    metrics: dict[str, Metric] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    lets: dict[str, Let] = field(default_factory=dict)
    events: dict[str, Event] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)
    statements: list[Any] = field(default_factory=list)  # lets, events and rules in file order
    guard: int | None = 2

    def length(self, value: Length | str) -> Length:
        """A length param stands wherever a length may."""
        if isinstance(value, Length):
            return value
        found = self.params[value]
        return found if isinstance(found, Length) else Length(found, "steps")


def _string(token: str) -> str:
    return str(token)[1:-1] if token.startswith('"') else str(token)


def _level(word: str) -> int:
    return LEVELS.index(SYNONYMS.get(str(word), str(word)))


class _Build(lark.Transformer):  # type: ignore[type-arg]
    """Bottom-up: lark's tree to nodes and statements."""

    def __default__(self, data: Any, children: list[Any], meta: Any) -> Any:
        return Node(str(data), tuple(children))

    def num(self, c: list[Any]) -> Node:
        return Node("num", (number_of(c[0]),))

    pct = num

    def length(self, c: list[Any]) -> Node:
        return Node("length", (Length.of(number_of(c[0]), str(c[1])),))

    def length_param(self, c: list[Any]) -> str:
        return str(c[0])

    def target(self, c: list[Any]) -> Node:
        return Node("name", (_string(c[0]),))

    def family(self, c: list[Any]) -> Node:
        return Node("family", (str(c[0]),))

    def div(self, c: list[Any]) -> Node:
        return Node("div", (c[0], c[2]))

    def cmp(self, c: list[Any]) -> Node:
        return Node("cmp", (tuple(str(op) for op in c[1::2]), tuple(c[::2])))

    def is_state(self, c: list[Any]) -> Node:
        return Node("is", (c[0], str(c[1]), False))

    def is_not_state(self, c: list[Any]) -> Node:
        return Node("is", (c[0], str(c[1]), True))

    def at_least(self, c: list[Any]) -> Node:
        return Node("at_least", (int(number_of(c[0])), tuple(c[1:])))

    def at_step(self, c: list[Any]) -> Node:
        return Node("at_step", (c[0], number_of(c[1])))

    def arg(self, c: list[Any]) -> tuple[str | None, Node]:
        node = Node("held", (c[1], c[2])) if len(c) > 2 else c[1]
        return (None if c[0] is None else str(c[0])), node

    def call(self, c: list[Any]) -> Node:
        args = [a for a in c[1:] if a is not None]
        named = {k: n for k, n in args if k}
        if "by" in named:
            named["by"] = Node("word", named["by"].args)
        return Node("call", (str(c[0]), tuple(n for k, n in args if k is None)), named)

    def span_of_lengths(self, c: list[Any]) -> tuple[Any, ...]:
        return tuple(_dur(d) for d in c if d is not None)

    def span_k_of_n(self, c: list[Any]) -> tuple[Part]:
        return (Part(number_of(c[1]), "samples", int(number_of(c[0]))),)

    def value(self, c: list[Any]) -> Any:
        return c[0]


def _dur(value: Any) -> Length | str:
    """A `dur` is a length node or the name of a length param."""
    return value if isinstance(value, str) else value.args[0]


def _plain(value: Any) -> Any:
    """The value of a param: a number or a Length."""
    if value.kind == "negative":
        return -_plain(value.args[0])
    return value.args[0]


@functools.lru_cache(maxsize=1)
def _parser() -> lark.Lark:
    text = pathlib.Path(__file__).with_name("grammar.lark").read_text()
    return lark.Lark(text, parser="lalr")


def _span(policy: Policy, value: Any) -> Span | None:
    if value is None:
        return None
    parts = []
    for part in value:
        if not isinstance(part, Part):
            length = policy.length(part)
            part = Part(length.amount, length.unit)
        parts.append(part)
    return tuple(parts)


def _settle_nodes(policy: Policy, node: Node) -> None:
    """Resolve spans and lengths given as params, and the subjects that `baseline` left out (innermost first)."""
    for child in node.children():
        _settle_nodes(policy, child)
    if node.kind == "held":
        node.args = (node.args[0], _span(policy, node.args[1]))
    if node.kind in ("missing", "stalled", "then_", "then_no", "before"):
        *rest, last = node.args
        if isinstance(last, Node) and last.kind == "length":
            last = last.args[0]
        elif isinstance(last, str) and last not in policy.events:
            last = policy.length(last)
        node.args = (*rest, last)
    if node.kind == "cmp":
        operands = node.args[1]
        for i, operand in enumerate(operands):
            other = operands[i - 1] if i else operands[1]
            for call in _walk(operand):
                if call.kind == "call" and call.args[0] == "baseline" and len(call.args[1]) == 1:
                    call.subject = call.subject or _bare(policy, other)


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children():
        yield from _walk(child)


def _bare(policy: Policy, node: Node) -> Node | None:
    """One bare metric or let, scaled by constants at most."""
    if node.kind in ("name", "family") and node.args[0] not in policy.params:
        return node
    if node.kind in ("mul", "div"):
        for one, other in (node.args, node.args[::-1])[: 2 if node.kind == "mul" else 1]:
            if all(n.kind in ("num", "mul", "div", "neg") or _is_param(policy, n) for n in _walk(other)):
                return _bare(policy, one)
    return _bare(policy, node.args[0]) if node.kind == "neg" else None


def _is_param(policy: Policy, node: Node) -> bool:
    return node.kind == "name" and node.args[0] in policy.params


COUNTERS = ("step", "progress", "elapsed", "epoch", "tokens")


def _named(policy: Policy, node: Node) -> str | None:
    """SUBJECT: the first metric, let or event named in the condition, counters left out."""
    for found in _walk(node):
        name = found.args[0] if found.kind in ("name", "family") else None
        event = policy.events.get(str(name))
        if name and name not in policy.params and name not in COUNTERS and not (event and event.is_phase):
            return str(name)
    return None


def parse(text: str) -> Policy:
    """The model of one policy file."""
    tree = _Build().transform(_parser().parse(text))
    items = [c for c in tree.args if c.kind != "header"]
    policy = Policy()
    for item in items:  # statements stand in any order: what others name comes first
        if item.kind == "param":
            policy.params[str(item.args[0])] = _plain(item.args[1])
        if item.kind in ("event", "phase"):
            policy.events[str(item.args[0])] = Event(str(item.args[0]), item.args[1], is_phase=item.kind == "phase")
    taken = {str(item.args[0]) for item in items if item.kind == "rule"}
    for item in items:
        _statement(policy, item, taken)
    for item in items:
        if item.kind == "disable":
            for rule in policy.rules:
                rule.disabled |= rule.name == item.args[0].args[0]
    return policy


def _statement(policy: Policy, item: Node, taken: set[str]) -> None:
    if item.kind == "metric":
        _metric(policy, item)
    elif item.kind == "let_":
        name, node, on = item.args
        _settle_nodes(policy, node)
        policy.lets[str(name)] = let = Let(str(name), node, on.args[0] if on else None)
        policy.statements.append(let)
    elif item.kind in ("event", "phase"):
        event = policy.events[str(item.args[0])]
        _settle_nodes(policy, event.node)
        if item.kind == "event":
            event.span = _span(policy, item.args[2])
            event.apart = policy.length(_dur(item.args[3])) if item.args[3] is not None else None
        policy.statements.append(event)
    elif item.kind == "nonfinite_level":
        policy.guard = _level(item.args[1])
    elif item.kind == "nonfinite_off":
        policy.guard = None
    elif item.kind in ("rule", "oneliner"):
        rule = _rule(policy, item) if item.kind == "rule" else _one_liner(policy, item, taken)
        policy.rules.append(rule)
        policy.statements.append(rule)


def _metric(policy: Policy, item: Node) -> None:
    strings = [_string(a) for a in item.args[1:] if not isinstance(a, Node)]
    metric = Metric(str(item.args[0]), strings)
    for option in item.args[1:]:
        if not isinstance(option, Node):
            continue
        if option.kind in ("every", "stale"):
            setattr(metric, option.kind, policy.length(_dur(option.args[0])))
        elif option.kind == "reduce":
            metric.reduce = str(option.args[0])
        elif option.kind == "allow_nonfinite":
            metric.allow_nonfinite = True
    if metric.stale is None and metric.every is not None:  # "default twice `every`, where that is given"
        metric.stale = Length(2 * metric.every.amount, metric.every.unit)
    policy.metrics[metric.name] = metric


def _clause(policy: Policy, when: Node) -> Clause:
    node, span, on, *rungs = when.args
    _settle_nodes(policy, node)
    return Clause(node, _span(policy, span), on.args[0] if on else None, [_rung(policy, r) for r in rungs])


def _rung(policy: Policy, rung: Node) -> Rung:
    _, level, after, *_ = rung.args
    return Rung(_level(level), None if after is None else policy.length(_dur(after)))


def _one_liner(policy: Policy, item: Node, taken: set[str]) -> Rule:
    """Its name is `SUBJECT_LEVEL`, made unique among all rules by `_2`, `_3` in file order."""
    clause = _clause(policy, item.args[0])
    subject = re.sub(r"[^A-Za-z0-9_]", "_", _named(policy, clause.node) or "rule")
    stem = name = f"{subject}_{LEVELS[clause.rungs[0].level]}"
    count = 1
    while name in taken:
        count += 1
        name = f"{stem}_{count}"
    taken.add(name)
    return Rule(name, [clause])


def _rule(policy: Policy, item: Node) -> Rule:
    rule = Rule(str(item.args[0]))
    for part in item.args[2:]:
        if part.kind == "in_phase":
            rule.phases += [str(n) for n in part.args]
        elif part.kind == "each":
            rule.each = (str(part.args[0]), str(part.args[1]))
        elif part.kind == "when_":
            rule.clauses.append(_clause(policy, part))
        elif part.kind == "clear":
            _settle_nodes(policy, part.args[0])
            rule.clear_when, rule.clear_when_span = part.args[0], _span(policy, part.args[1])
        elif part.kind == "clear_for":
            rule.clear_for = _span(policy, part.args[0])
        elif part.kind == "unknown":
            rule.unknown_reset = str(part.args[0]) == "reset"
        elif part.kind in ("disabled", "shadow"):
            setattr(rule, part.kind, True)
    return rule
