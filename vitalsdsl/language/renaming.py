"""The names of an imported policy under its namespace, and rules under other names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.scope import match_family
from vitalsdsl.ops.base import Takes, registry

NodeType = TypeVar("NodeType", bound=ex.Node)
StatementType = TypeVar("StatementType", bound=rules.Statement)

_VALUES = (rules.Metric, rules.Param, rules.Let, rules.Event, rules.Phase)


class Renaming:
    """New names for what statements define, wherever they name it: in expressions, message values, phases, inhibits.

    Rules have names of their own: a rule and a metric may both be called `loss`, and only one of them is meant. What the
    statements do not define keeps its name: it is a metric under its logged name.
    """

    def __init__(self, statements: Iterable[rules.Statement], namespace: str) -> None:
        statements = list(statements)
        self._namespace = namespace
        self._rules = {s.name: self._lifted(s.name) for s in statements if isinstance(s, rules.Rule)}
        self._values = {s.name for s in statements if isinstance(s, _VALUES)}
        # In quotes a name is a metric or a let, whatever else is called so.
        self._logged = {s.name for s in statements if isinstance(s, (rules.Metric, rules.Let))}
        self._families = [s.name for s in statements if isinstance(s, (rules.Metric, rules.Let)) and s.family]

    def _lifted(self, name: str) -> str:
        return f"{self._namespace}.{name}"

    def _is_value(self, node: ex.Name | ex.Family) -> bool:
        if isinstance(node, ex.Name) and node.quoted:
            return node.path in self._logged
        return node.path in self._values or any(match_family(f, node.path) is not None for f in self._families)

    def __call__(self, statement: StatementType) -> StatementType:
        kept, rule_names = _words(statement), _rule_names(statement)

        def change(node: Any) -> Any:
            if isinstance(node, (ex.Name, ex.Family)):
                if id(node) in rule_names:
                    return replaced(node, path=self._rules.get(node.path, node.path))
                return node if id(node) in kept or not self._is_value(node) else self._moved(node)
            if isinstance(node, (rules.Rule, rules.Profile, *_VALUES)) or (
                isinstance(node, rules.Setting) and node.name in self._values
            ):
                return replaced(node, name=self._lifted(node.name))
            return node

        return mapped(statement, change)

    def _moved(self, node: NodeType) -> NodeType:
        return replaced(node, path=self._lifted(node.path))  # type: ignore[attr-defined]


def with_rule_names(statement: StatementType, names: Mapping[str, str]) -> StatementType:
    """The statement with some rules under other names, also where it changes or inhibits them."""
    targets = _rule_names(statement)

    def change(node: Any) -> Any:
        if isinstance(node, ex.Name) and id(node) in targets:
            return replaced(node, path=names.get(node.path, node.path))
        return replaced(node, name=names.get(node.name, node.name)) if isinstance(node, rules.Rule) else node

    return mapped(statement, change) if names else statement


def _rule_names(statement: rules.Statement) -> set[int]:
    """The names in a statement that are names of rules."""
    found = {id(statement.rule)} if isinstance(statement, (rules.Override, rules.Disable)) else set()
    if isinstance(statement, (rules.Rule, rules.Override)):
        found |= {id(name) for name in statement.body.inhibits or ()}
    return found


def _words(statement: rules.Statement) -> set[int]:
    """The names in a statement that mean nothing outside of it: its member, and words such as `by: median`."""
    each = statement.each if isinstance(statement, rules.Rule) else None
    found: set[int] = set()
    for node in statement.walk():
        if isinstance(node, ex.Call):
            function = registry().get(node.function)
            words = {k for k, p in function.keywords().items() if p.takes is Takes.WORD} if function else set()
            found |= {id(a.value) for a in node.arguments if a.keyword in words}
        elif each is not None and isinstance(node, ex.Name) and node.path == each.member and not node.quoted:
            found.add(id(node))
        elif each is not None and isinstance(node, rules.TemplateField) and _is_member(node.expression):
            found.add(id(node.expression))
    return found


def _is_member(node: ex.Expression) -> bool:
    return isinstance(node, ex.Name) and node.path == "member"


def replaced(node: NodeType, **fields: Any) -> NodeType:
    """The node with some fields of its own."""
    return type(node).build(**{**node.__dict__, **fields})


def mapped(node: NodeType, change: Callable[[Any], Any]) -> NodeType:
    """The node with each node in it changed, innermost first."""
    fields: dict[str, Any] = {}
    for name, value in node.__dict__.items():
        if isinstance(value, ex.Node):
            fields[name] = mapped(value, change)
        elif isinstance(value, tuple) and any(isinstance(item, ex.Node) for item in value):
            fields[name] = tuple(mapped(item, change) if isinstance(item, ex.Node) else item for item in value)
    out: NodeType = change(replaced(node, **fields) if fields else node)
    return out
