"""Small wrongs done to a pack, each of which the pack's own tests should notice.

A threshold 30 % higher or lower, a comparison turned round, a part of a condition left out, a span or a window half or twice
as long: done to the objects of a loaded policy, in a rule or in a param, let, event or phase that it reads. A mutant that no test notices says that the tests hold
its number or its direction by nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.language.renaming import replaced
from vitalsdsl.language.scope import match_family

FACTORS = (1.3, 0.7)
TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "!=", "!=": "=="}
SCALING = ("greatest", "least")
"""Functions whose plain numbers are thresholds; those of others, such as the q of `quantile`, are no amounts."""
TOLERANCE = "tol"
"""The one keyword of others whose number is a threshold."""

_KINDS = (rules.Param, rules.Let, rules.Event, rules.Phase, rules.Rule)
_Key = tuple[type[rules.Statement], str]
_Node = TypeVar("_Node", bound=ex.Node)


@dataclass(frozen=True)
class Site:
    """One wrong in one node: `place` is its position among the nodes of its statement."""

    place: int
    text: str
    change: Callable[[ex.Node], ex.Node]


@dataclass(frozen=True)
class Mutant:
    """A policy with one wrong. `rules` are those that it can reach; `text` names it, once in a pack."""

    text: str
    statement: _Key
    site: Site
    rules: frozenset[str]

    def of(self, policy: rules.Policy) -> rules.Policy:
        """The wrong done to a policy of the same text, whatever values its params have."""
        return replaced(policy, statements=tuple(self._changed(s) for s in policy.statements))

    def _changed(self, statement: rules.Statement) -> rules.Statement:
        if _key(statement) != self.statement:
            return statement
        target = list(statement.walk())[self.site.place]
        return _with(statement, target, self.site.change(target))


def _with(node: _Node, old: ex.Node, new: ex.Node) -> _Node:
    """The node with one node inside it another: what lies beside it stays the same object."""
    fields = {}
    for name, value in node.__dict__.items():
        if isinstance(value, ex.Node):
            fields[name] = new if value is old else _with(value, old, new)
        elif isinstance(value, tuple):
            fields[name] = tuple(
                (new if item is old else _with(item, old, new)) if isinstance(item, ex.Node) else item for item in value
            )
    changed = {name: value for name, value in fields.items() if not _is_same(value, node.__dict__[name])}
    return replaced(node, **changed) if changed else node


def _is_same(value: object, before: object) -> bool:
    if isinstance(value, tuple) and isinstance(before, tuple):
        return all(a is b for a, b in zip(value, before))
    return value is before


def _key(statement: rules.Statement) -> _Key:
    return type(statement), getattr(statement, "name", None) or ""


def mutants(policy: rules.Policy, foreign: bool = False) -> list[Mutant]:
    """All mutants of a policy, in the order of its text. What no rule reads has none; what the policy uses of other files
    has them where it is asked for `foreign` ones."""
    reach = Reach(policy)
    found: list[Mutant] = []
    told: dict[str, int] = {}
    for statement in policy.statements:
        touched = reach.rules_of(statement)
        if not touched or not (foreign or statement.span.source is policy.source):
            continue
        for site in _sites(statement):
            text = f"{_key(statement)[1]}: {site.text}"
            told[text] = told.get(text, 0) + 1
            if told[text] > 1:
                text += f" ({told[text]})"
            found.append(Mutant(text, _key(statement), site, touched))
    return found


class Reach:
    """Which rules read a statement, directly or through others."""

    def __init__(self, policy: rules.Policy) -> None:
        self._statements = [s for s in policy.statements if isinstance(s, _KINDS)]
        families = [s for s in self._statements if isinstance(s, rules.Let) and s.family]
        named = {s.name: s for s in self._statements if not isinstance(s, rules.Rule)}
        self._reads: dict[_Key, set[_Key]] = {}
        for statement in self._statements:
            paths = {n.path for n in statement.walk() if isinstance(n, (ex.Name, ex.Family))}
            direct = {_key(named[p]) for p in paths if p in named}
            direct |= {_key(f) for f in families for p in paths if match_family(f.name, p) is not None}
            self._reads[_key(statement)] = direct - {_key(statement)}
        self._below = {key: self._all(key) for key in self._reads}

    def _all(self, key: _Key) -> frozenset[_Key]:
        seen, waiting = {key}, [key]
        while waiting:
            for other in self._reads[waiting.pop()] - seen:
                seen.add(other)
                waiting.append(other)
        return frozenset(seen)

    def rules_of(self, statement: rules.Statement) -> frozenset[str]:
        """The enabled rules that a statement can reach."""
        key = _key(statement)
        return frozenset(
            s.name for s in self._statements
            if isinstance(s, rules.Rule) and not s.body.disabled and key in self._below[_key(s)]
        )  # fmt: skip

    def only(self, policy: rules.Policy, names: frozenset[str]) -> rules.Policy:
        """The policy with these rules, what they read, its metrics, and no guard."""
        needed = set().union(*(self._below[rules.Rule, name] for name in names))
        kept = [s for s in policy.statements
                if not isinstance(s, (*_KINDS, rules.Nonfinite)) or _key(s) in needed]  # fmt: skip
        off = rules.Nonfinite.build(policy.span, level=None, actions=None)
        return replaced(policy, statements=(*kept, off))


def _roots(statement: rules.Statement) -> Iterator[ex.Node]:
    """The parts of a statement on which verdicts depend; not its messages, actions and cooldown."""
    if isinstance(statement, rules.Rule):
        for clause in statement.body.clauses:
            yield clause.condition
            if clause.for_ is not None:
                yield clause.for_
            yield from (rung.after for rung in clause.rungs if rung.after is not None)
        clear = statement.body.clear
        yield from (part for part in (clear and clear.condition, clear and clear.for_) if part is not None)
    elif isinstance(statement, rules.Param):
        yield statement.value
    elif isinstance(statement, rules.Let):
        yield statement.expression
    elif isinstance(statement, (rules.Event, rules.Phase)):
        yield statement.condition
        if isinstance(statement, rules.Event):
            yield from (part for part in (statement.for_, statement.apart) if part is not None)


def _sites(statement: rules.Statement) -> Iterator[Site]:
    places = {id(node): place for place, node in enumerate(statement.walk())}
    for root in _roots(statement):
        context = expression_text(root) if isinstance(root, ex.Expression) else ""
        for node in _inside(root):
            for text, change in _changes(node):
                where = f" in {context}" if context and node is not root else ""
                yield Site(places[id(node)], text + where, change)


def _inside(node: ex.Node) -> Iterator[ex.Node]:
    """The nodes that can be wronged."""
    yield node
    if isinstance(node, (ex.Length, ex.AtStep)):
        return
    if isinstance(node, ex.Call):
        for argument in node.arguments:
            is_amount = node.function in SCALING or argument.keyword == TOLERANCE
            if is_amount or not isinstance(argument.value, ex.Number):
                yield from _inside(argument.value)
        return
    for child in node.children():
        yield from _inside(child)


def _changes(node: ex.Node) -> Iterator[tuple[str, Callable[[ex.Node], ex.Node]]]:
    if isinstance(node, ex.Number):
        for factor in FACTORS if node.value else ():
            yield f"{node.text} times {factor}", _times(factor)
    elif isinstance(node, ex.Length):
        amount = node.amount.value
        if amount > 1 or node.is_time:
            yield f"{expression_text(node)} halved", lambda n: _resized(n, 0.5)
        yield f"{expression_text(node)} doubled", lambda n: _resized(n, 2.0)
    elif isinstance(node, ex.Comparison):
        yield f"`{expression_text(node)}` turned", _turned
    elif isinstance(node, (ex.And, ex.Or)):
        for place, part in enumerate(node.operands):
            yield f"`{expression_text(part)}` left out", _without(place)
    elif isinstance(node, ex.Is):
        yield f"`{expression_text(node)}` turned", lambda n: replaced(_as(ex.Is, n), negated=not _as(ex.Is, n).negated)
    elif isinstance(node, ex.For) and node.n:
        if node.k > 1:
            yield f"{node.k} of {node.n} one less", lambda n: replaced(_as(ex.For, n), k=_as(ex.For, n).k - 1)
        if node.k < node.n:
            yield f"{node.k} of {node.n} one more", lambda n: replaced(_as(ex.For, n), k=_as(ex.For, n).k + 1)
    elif isinstance(node, ex.AtLeast):
        for more, word in ((-1, "less"), (1, "more")):
            if 1 <= node.count + more <= len(node.conditions):
                yield f"{node.count} of the conditions, one {word}", _counted(more)


def _times(factor: float) -> Callable[[ex.Node], ex.Node]:
    def change(node: ex.Node) -> ex.Node:
        number = _as(ex.Number, node)
        return replaced(number, value=number.value * factor, text=repr(number.value * factor), ratio=False)

    return change


def _without(place: int) -> Callable[[ex.Node], ex.Node]:
    def change(node: ex.Node) -> ex.Node:
        assert isinstance(node, (ex.And, ex.Or))
        left = node.operands[:place] + node.operands[place + 1 :]
        return replaced(node, operands=left) if len(left) > 1 else left[0]

    return change


def _counted(more: int) -> Callable[[ex.Node], ex.Node]:
    return lambda node: replaced(_as(ex.AtLeast, node), count=_as(ex.AtLeast, node).count + more)


def _resized(node: ex.Node, factor: float) -> ex.Node:
    length = _as(ex.Length, node)
    size = length.amount.value * factor
    size = size if length.is_time else float(max(1, int(size)))
    return replaced(length, amount=replaced(length.amount, value=size, text=f"{size:g}"))


def _turned(node: ex.Node) -> ex.Node:
    comparison = _as(ex.Comparison, node)
    return replaced(comparison, operators=tuple(TURNED[o] for o in comparison.operators))


def _as(kind: type[_Node], node: ex.Node) -> _Node:
    assert isinstance(node, kind)
    return node
