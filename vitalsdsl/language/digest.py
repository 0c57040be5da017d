"""What a policy means, as one text, and its fingerprint: equal for two files that differ in their looks only."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules, sentences
from vitalsdsl.language.formatter import BY_VALUE, name_text
from vitalsdsl.language.lines import statement_lines
from vitalsdsl.ops.base import Takes, registry

KINDS: tuple[type[rules.Statement], ...] = (
    rules.Use,
    rules.Axis,
    rules.Metric,
    rules.Param,
    rules.Let,
    rules.Event,
    rules.Phase,
    rules.LevelDefault,
    rules.Limit,
    rules.Nonfinite,
    rules.Rule,
    rules.Override,
    rules.Disable,
    rules.Profile,
)
"""The kinds of statements, in the order in which they are usually written."""

_READING = (rules.Let, rules.Event, rules.Phase, rules.Rule)


def canonical(policy: rules.Policy) -> str:
    """All that a policy means, in the language itself: comments, looks, file name and place are gone.

    Statements may stand in any order, so they are sorted by their kind; within a kind the order is kept, as transitions
    of one step come in file order. The last line names what is read, in the order in which it is first read, since the
    built-in guards come in that order. Messages, titles and the policy's name are part of the meaning: people see them.

    >>> from vitalsdsl.language.parser import parse
    >>> from vitalsdsl.ground.source import Source
    >>> print(canonical(parse(Source("a.vitals", "when (loss>20k) # so high\\n for 1 step -> fatal")).policy), end="")
    vitals 1
    when loss > 20000 for 1 steps -> red
    # reads loss
    """
    lines = ["vitals 1"]
    if policy.name is not None:
        lines.append(sentences.policy_line(policy))
    for kind in KINDS:
        for statement in policy.of(kind):
            lines += ["  " * line.depth + line.text for line in statement_lines(BY_VALUE, statement)]
    order = ", ".join(reading_order(policy.statements))
    return "\n".join([*lines, f"# reads {order}" if order else "# reads nothing"]) + "\n"


def digest(policy: rules.Policy) -> str:
    """The fingerprint of a policy's meaning: `sha256:` and 64 hexadecimal digits."""
    hashlib = importlib.import_module("hashlib")  # by those who ask for one: `vitals check` does not
    return f"sha256:{hashlib.sha256(canonical(policy).encode('utf-8', 'surrogatepass')).hexdigest()}"


def reading_order(statements: tuple[rules.Statement, ...]) -> list[str]:
    """What must keep its place among statements of other kinds: names at their first reading, and, where a `use` comes
    after something that reads, each `use` and rule too."""
    found: dict[str, None] = {}
    late = _late_use(statements)
    places: dict[type[rules.Statement], int] = {rules.Use: 0, rules.Rule: 0}
    for statement in statements:
        kind = type(statement)
        if late and kind in places:
            places[kind] += 1
            found[f"{kind.__name__.lower()} {places[kind]}"] = None
        found.update(dict.fromkeys(_read(statement)))
    return list(found)


def _late_use(statements: tuple[rules.Statement, ...]) -> bool:
    reading = False
    for statement in statements:
        if reading and isinstance(statement, rules.Use):
            return True
        reading = reading or isinstance(statement, _READING)
    return False


def _read(statement: rules.Statement) -> Iterator[str]:
    """The names that a statement reads, as the guard sees them, in the order in which it reads them."""
    if isinstance(statement, rules.Rule):
        if statement.body.disabled:
            return
        each = statement.each
        nodes: list[ex.Node | None] = []
        for clause in statement.body.clauses:
            nodes += [clause.condition, clause.on]
        nodes.append(statement.body.clear.condition if statement.body.clear is not None else None)
        for name in _names(nodes):
            yield each.family.path if each is not None and name == each.member else name
    elif isinstance(statement, rules.Let):
        yield from _names([statement.expression, statement.on])
    elif isinstance(statement, (rules.Event, rules.Phase)):
        yield from _names([statement.condition])


def _names(nodes: list[ex.Node | None]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ex.Name):
            yield name_text(node.path, node.quoted)
        elif isinstance(node, ex.Family):
            yield node.path
        elif isinstance(node, ex.Call):
            function = registry().get(node.function)
            words = {k for k, p in function.keywords().items() if p.takes is Takes.WORD} if function else set()
            yield from _names([a.value for a in node.arguments if a.keyword not in words])
        elif node is not None:
            yield from _names(list(node.children()))
