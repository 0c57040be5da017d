"""The names of a policy: each defined once, none by itself, and rules that silence one another without going round."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping

from vitalsdsl.ground.source import Span
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.formatter import name_text
from vitalsdsl.language.guards import named
from vitalsdsl.language.scope import COUNTERS, Meaning, Scope

Report = Callable[..., None]

_NAMED = (rules.Metric, rules.Param, rules.Let, rules.Event, rules.Phase)
_USUAL_PHASES = {"late": "progress >= 80%", "end": "progress >= 80%", "settled": "step >= 1000", "main": "step >= 1000"}
"""What phases of such a name are: of any other, the start of a run is an example."""
_LOGGED_COUNTERS = frozenset(name for name, logged in COUNTERS.items() if logged)


def duplicates(policy: rules.Policy, report: Report) -> None:
    """What is defined twice, or said twice where once is all that makes sense."""
    seen: dict[tuple[str, object], rules.Statement] = {}
    for statement in policy.statements:
        kind, key = _table_of(statement)
        if key is None:
            continue
        if kind == "name" and statement.name in COUNTERS:  # type: ignore[attr-defined]
            _counter(report, statement)
        earlier = seen.setdefault((kind, key), statement)
        if earlier is statement:
            continue
        line, _ = earlier.span.position
        if kind == "once":
            report("V014", f"`{key}` is said twice", statement.span, "a second time", f"keep this or line {line}")
        else:
            _twice(report, str(key), statement.span, type(statement).__name__.lower(), earlier)


def _table_of(statement: rules.Statement) -> tuple[str, str | None]:
    """What kind of name a statement takes, and which; no name where it may stand as often as one likes."""
    if isinstance(statement, _NAMED):
        return "name", statement.name
    if isinstance(statement, (rules.Rule, rules.Profile)):
        return type(statement).__name__, statement.name
    if isinstance(statement, rules.LevelDefault):
        return "once", f"level {statement.level.word}"
    if isinstance(statement, (rules.Axis, rules.Nonfinite)):
        return "once", type(statement).__name__.lower()
    return "", None


def _counter(report: Report, statement: rules.Statement) -> None:
    name, what = statement.name, type(statement).__name__.lower()  # type: ignore[attr-defined]
    if not (isinstance(statement, rules.Metric) and name in _LOGGED_COUNTERS):
        report(
            "V317", f"`{name}` is a counter of the run itself", statement.span, "taken", f"give the {what} another name"
        )


def _twice(report: Report, name: str, place: Span, what: str, earlier: rules.Statement) -> None:
    before = type(earlier).__name__.lower()
    line, _ = earlier.span.position
    article = "an" if before == "event" else "a"
    message = f"a second {what} called `{name}`" if before == what else f"`{name}` is already {article} {before}"
    report("V313", message, place, "taken", f"take another name; `{name}` is defined in line {line}")


def circles(scope: Scope, report: Report) -> None:
    """Lets, events and phases that depend on themselves."""
    uses: dict[str, list[str]] = {}
    statements: dict[str, rules.Let | rules.Event | rules.Phase] = {**scope.lets, **scope.events, **scope.phases}
    for name, statement in statements.items():
        if isinstance(statement, rules.Let):
            read = list(named(statement.expression)) + ([statement.on] if statement.on is not None else [])
        else:
            read = list(named(statement.condition))
        uses[name] = [other for node in read if (other := target(node, scope)) is not None]
    for circle in _circles(uses):
        statement = statements[circle[0]]
        help_ = "take one of these out of the other"
        if len(circle) == 1 and isinstance(statement, rules.Event) and _only_unless(statement):
            help_ = "leave out `unless`: an event's own condition freezes its references already"
        elif len(circle) == 1:
            what = type(statement).__name__.lower()
            help_ = f"if a metric is meant that is logged as `{circle[0]}`, name the {what} otherwise"
        chain = " -> ".join([*circle, circle[0]])
        report("V507", f"`{circle[0]}` depends on itself", statement.span, chain, help_)


def target(node: ex.Name | ex.Family, scope: Scope) -> str | None:
    """The let, event or phase that a name in an expression stands for."""
    if isinstance(node, ex.Family):
        let = scope.lets.get(node.path)
        return let.name if let is not None and let.family else None
    meaning = scope.meaning(node)
    if meaning in (Meaning.EVENT, Meaning.PHASE):
        return node.path
    if meaning is not Meaning.LET or node.path in scope.lets:
        return node.path if meaning is Meaning.LET else None
    member = scope.let_family(node.path)
    return member[0].name if member is not None else None


def _only_unless(event: rules.Event) -> bool:
    """Whether an event names itself only in `unless:`."""
    arguments = [n for n in event.condition.walk() if isinstance(n, ex.Argument) and n.keyword == "unless"]
    excused = {id(n) for a in arguments for n in a.value.walk()}
    own = [n for n in event.condition.walk() if isinstance(n, ex.Name) and n.path == event.name and not n.quoted]
    return all(id(n) in excused for n in own)


def inhibition(policy: rules.Policy, scope: Scope, broken: frozenset[str], report: Report) -> None:
    """Rules that silence rules that are not there, or one another in a circle."""
    silences: dict[str, list[str]] = {}
    places: dict[str, Span] = {}
    for rule in policy.of(rules.Rule):
        for name in rule.body.inhibits or ():
            if name.path == rule.name:
                report("V405", f"rule `{rule.name}` inhibits itself", name.span, "itself", "take it out")
            elif name.path in scope.rules:
                silences.setdefault(rule.name, []).append(name.path)
                places.setdefault(rule.name, name.span)
            elif name.path not in broken and not name.path.startswith("nonfinite("):
                unknown(report, "rule", name, scope.rules)
    for circle in _circles(silences):
        chain = " -> ".join([*circle, circle[0]])
        report("V405", "these rules inhibit one another in a circle", places[circle[0]], chain,
               "the graver rule inhibits the lesser, never the other way round")  # fmt: skip


def unknown(report: Report, what: str, name: ex.Name, known: Mapping[str, object]) -> None:
    """Report a name that has to be defined and is not."""
    near = difflib.get_close_matches(name.path, list(known), 1)
    listed = ", ".join(f"`{k}`" for k in list(known)[:5])
    otherwise = f"there are {listed}" if known else f"there is no {what} at all"
    if what == "phase":
        otherwise = f"define it: `phase {name_text(name.path)} = {_USUAL_PHASES.get(name.path, 'step < 1000')}`"
        otherwise += f"; {listed} {'are' if len(known) > 1 else 'is'} defined" if known else ""
    help_ = f"did you mean `{near[0]}`?" if near else otherwise
    report("V314", f"there is no {what} `{name.path}`", name.span, f"unknown {what}", help_)


def _circles(uses: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """Circles in a graph, each name in at most one of them."""
    done: set[str] = set()
    for start in uses:
        path: dict[str, None] = {}
        stack: list[Iterator[str]] = [iter([start])]
        while stack:
            name = next(stack[-1], None)
            if name is None:
                stack.pop()
                if path:
                    done.add(path.popitem()[0])
            elif name in path:
                names = list(path)
                done.update(names)
                yield names[names.index(name) :]
                break
            elif name not in done and name in uses:
                path[name] = None
                stack.append(iter(uses[name]))
