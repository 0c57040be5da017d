"""The names of an imported policy under its namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from vitalsdsl import expressions as ex
from vitalsdsl import rules

NodeType = TypeVar("NodeType", bound=ex.Node)

_DEFINED_NAME = (rules.Metric, rules.Param, rules.Let, rules.Event, rules.Phase, rules.Rule, rules.Profile)


def renamed(statements: Iterable[rules.Statement], namespace: str) -> list[rules.Statement]:
    """The statements with all that they define called `NAMESPACE.name`, wherever they name it: in expressions, message
    values, phases and inhibits. What they do not define keeps its name."""
    statements = list(statements)
    defined = {s.name for s in statements if isinstance(s, _DEFINED_NAME)}

    def change(node: Any) -> Any:
        if isinstance(node, (ex.Name, ex.Family)) and node.path in defined and not getattr(node, "quoted", False):
            return replaced(node, path=f"{namespace}.{node.path}")
        if isinstance(node, _DEFINED_NAME):
            return replaced(node, name=f"{namespace}.{node.name}")
        if isinstance(node, rules.Setting) and node.name in defined:
            return replaced(node, name=f"{namespace}.{node.name}")
        return node

    return [_with_members(statement, change) for statement in statements]


def _with_members(statement: rules.Statement, change: Callable[[Any], Any]) -> rules.Statement:
    """A rule's own member name hides a definition of the same name."""
    member = statement.each.member if isinstance(statement, rules.Rule) and statement.each is not None else None

    def guarded(node: Any) -> Any:
        return node if isinstance(node, ex.Name) and node.path == member else change(node)

    return mapped(statement, guarded)


def replaced(node: NodeType, **fields: Any) -> NodeType:
    """The node with some fields of its own."""
    return type(node).model_construct(**{**node.__dict__, **fields})


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
