"""A policy as YAML, in one style, with the comments above the statement that they are about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from vitalsdsl.ground.quoting import quoted as in_quotes
from vitalsdsl.language import rules
from vitalsdsl.language.comments import Remarks
from vitalsdsl.language.digest import KINDS, reading_order
from vitalsdsl.language.formatter import AS_WRITTEN
from vitalsdsl.language.rules import Statement
from vitalsdsl.language.sentences import is_oneliner
from vitalsdsl.language.yaml.text import Entries, Entry, Quoted, dump, word

_text = AS_WRITTEN.text


def written(policy: rules.Policy) -> str:
    """The text of the YAML form.

    Statements stand by kind. Where that would change the order in which metrics are first read (and so the order of the
    built-in guards), lets, events, phases and rules stand in `parts`, in their own order.
    """
    remarks = Remarks.of(policy)
    blocks = [[*remarks.top, "vitals: 1", *_names(policy)]]
    plain, parts = _arranged(policy.statements)
    blocks += [_section(kind, group, remarks, 0) for kind, group in _by_kind(plain)]
    if parts:
        lines = ["parts:"]
        for part in parts:
            sections = [_section(kind, group, remarks, 2) for kind, group in _by_kind(part)]
            lines += [f"  - {sections[0][0].lstrip()}", *sections[0][1:]]
            for section in sections[1:]:
                lines += section
        blocks.append(lines)
    if remarks.tail:
        blocks.append(list(remarks.tail))
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _names(policy: rules.Policy) -> Iterable[str]:
    if policy.name is not None:
        yield f"policy: {word(policy.name)}"
    if policy.title is not None:
        yield f"title: {dump(Quoted(policy.title))[0]}"


def _by_kind(statements: Sequence[Statement]) -> list[tuple[type[Statement], list[Statement]]]:
    groups: dict[type[Statement], list[Statement]] = {}
    for statement in statements:
        groups.setdefault(type(statement), []).append(statement)
    return list(groups.items())


def _arranged(statements: tuple[Statement, ...]) -> tuple[list[Statement], list[list[Statement]]]:
    """What stands at the top, in order; and the parts, if the order of the statements needs them."""
    order = reading_order(statements)
    for key in (KINDS.index, [kind for kind, _ in _by_kind(statements)].index):
        arranged = sorted(statements, key=lambda s, place=key: place(type(s)))  # type: ignore[misc]
        if reading_order(tuple(arranged)) == order:
            return arranged, []
    moved = (rules.Use, rules.Let, rules.Event, rules.Phase, rules.Rule)
    parts: list[list[Statement]] = []
    for statement in statements:
        if not isinstance(statement, moved):
            continue
        seen = [type(s) for s in parts[-1]] if parts else []
        if not parts or (type(statement) in seen and seen[-1] is not type(statement)):
            parts.append([])
        parts[-1].append(statement)
    top = [s for s in statements if not isinstance(s, moved)]
    return sorted(top, key=lambda s: KINDS.index(type(s))), parts


# -------------------------------------------------------------------- sections


def _section(kind: type[Statement], group: Sequence[Statement], remarks: Remarks, depth: int) -> list[str]:
    """The lines of all statements of one kind."""
    name, write = _SECTIONS[kind]
    comments = [tuple(remarks.about.get(s, ())) for s in group]
    indent = "  " * depth
    if kind in (rules.Axis, rules.Nonfinite) and len(group) == 1:
        value = dump(write(group[0])[1], depth + 1)
        lines = [f"{name}: {value[0]}".rstrip(), *value[1:]]
        return [indent + line for line in (*comments[0], *lines)]
    pairs = [write(statement) for statement in group]
    keys = [key for key, _ in pairs if key is not None]
    listed = len(set(keys)) < len(pairs)
    entries: list[Entry] = []
    for (key, value), above in zip(pairs, comments):
        if listed and key is not None:
            value = _listed(kind, key, value)
        entries.append(Entry(value, None if listed else key, above))
    value = dump(Entries(tuple(entries), apart=kind in (rules.Rule, rules.Override)), depth + 1)
    return [f"{indent}{name}:", *value[1:]]


def _listed(kind: type[Statement], key: str, value: Any) -> Any:
    """A named entry as an item of a list."""
    if kind is not rules.Rule:
        return {key: value}
    return Entries((Entry(key, "name"), *value.entries))


def _use(node: rules.Use) -> tuple[None, Any]:
    found: dict[str, Any] = {"from": Quoted(node.reference)}
    if node.namespace is not None:
        found["as"] = node.namespace
    if node.values:
        found["with"] = _settings(node.values)
    return None, found if len(found) > 1 else found["from"]


def _axis(node: rules.Axis) -> tuple[None, Any]:
    return None, Quoted(node.metric)


def _metric(node: rules.Metric) -> tuple[str, Any]:
    names: list[str] | str = node.logged[0] if len(node.logged) == 1 else list(node.logged)
    found: dict[str, Any] = {"names": names}
    for key, length in (("every", node.every), ("stale_after", node.stale_after)):
        if length is not None:
            found[key] = _text(length)
    if node.unit is not None:
        found["unit"] = Quoted(node.unit)
    if node.reduce != "last":
        found["reduce"] = node.reduce
    for key, flag in (("optional", node.optional), ("allow_nonfinite", node.allow_nonfinite)):
        if flag:
            found[key] = True
    looks_otherwise = not node.family and set(node.name) & set('*{"')
    return in_quotes(node.name) if looks_otherwise else node.name, found if len(found) > 1 else names


def _param(node: rules.Param) -> tuple[str, Any]:
    value = _text(node.value)
    if node.low is None or node.high is None:
        return node.name, value
    return node.name, {"value": value, "in": [_text(node.low), _text(node.high)]}


def _let(node: rules.Let) -> tuple[str, Any]:
    expression = Quoted(_text(node.expression))
    return node.name, expression if node.on is None else {"expr": expression, "on": _text(node.on)}


def _event(node: rules.Event) -> tuple[str, Any]:
    found: dict[str, Any] = {"if": Quoted(_text(node.condition))}
    if node.for_ is not None:
        found["for"] = _text(node.for_)
    if node.apart is not None:
        found["apart"] = _text(node.apart)
    return node.name, found if len(found) > 1 else found["if"]


def _phase(node: rules.Phase) -> tuple[str, Any]:
    return node.name, Quoted(_text(node.condition))


def _level(node: rules.LevelDefault) -> tuple[str, Any]:
    return node.level.word, _actions(node.actions)


def _limit(node: rules.Limit) -> tuple[str, Any]:
    return node.action, f"{node.count} per {_text(node.per)}"


def _nonfinite(node: rules.Nonfinite) -> tuple[None, Any]:
    if node.level is None:
        return None, "off"
    if node.actions is None:
        return None, node.level.word
    return None, {"level": node.level.word, "do": _actions(node.actions)}


def _disable(node: rules.Disable) -> tuple[str, Any]:
    if node.until is None:
        return _text(node.rule), Quoted(node.because)
    return _text(node.rule), {"because": Quoted(node.because), "until": Quoted(node.until)}


def _profile(node: rules.Profile) -> tuple[str, Any]:
    return node.name, _settings(node.settings)


def _settings(settings: Iterable[rules.Setting]) -> Any:
    settings = tuple(settings)
    found = {s.name: _text(s.value) for s in settings}
    return found if len(found) == len(settings) else [{s.name: _text(s.value)} for s in settings]


def _actions(actions: Iterable[rules.Action]) -> list[str]:
    return [AS_WRITTEN.action(action) for action in actions]


# -------------------------------------------------------------------- rules


def _rule(node: rules.Rule) -> tuple[str | None, Any]:
    if is_oneliner(node):
        return None, _clause(node.body.clauses[0])
    found: dict[str, Any] = {}
    if node.title is not None:
        found["title"] = Quoted(node.title)
    if node.phases:
        found["in_phase"] = [_text(phase) for phase in node.phases]
    if node.each is not None:
        found["each"] = {node.each.member: Quoted(node.each.family.path)}
    return node.name, _block({**found, **_body(node.body)})


def _override(node: rules.Override) -> tuple[str, Any]:
    return _text(node.rule), _block(_body(node.body))


def _block(fields: dict[str, Any]) -> Entries:
    return Entries(tuple(Entry(value, key) for key, value in fields.items()))


def _body(body: rules.RuleBody) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if body.clauses:
        found["when"] = Entries(tuple(Entry(_clause(clause)) for clause in body.clauses))
    if body.clear is not None:
        found["clear"] = _clear(body.clear)
    if body.cooldown is not None:
        found["cooldown"] = _text(body.cooldown)
    if body.inhibits is not None:
        found["inhibits"] = [_text(name) for name in body.inhibits]
    if body.unknown is not None:
        found["unknown"] = body.unknown
    if body.because is not None:
        found["because"] = Quoted(AS_WRITTEN.template(body.because))
    if body.try_ is not None:
        found["try"] = [Quoted(text) for text in body.try_]
    for key, text in (("owner", body.owner), ("runbook", body.runbook)):
        if text is not None:
            found[key] = Quoted(text)
    for key, flag in (("shadow", body.shadow), ("disabled", body.disabled)):
        if flag:
            found[key] = True
    return found


def _clear(node: rules.Clear) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if node.condition is not None:
        found["if"] = Quoted(_text(node.condition))
    if node.for_ is not None:
        found["for"] = _text(node.for_)
    return found


def _clause(node: rules.Clause) -> dict[str, Any]:
    found: dict[str, Any] = {"if": Quoted(_text(node.condition))}
    if node.for_ is not None:
        found["for"] = _text(node.for_)
    if node.on is not None:
        found["on"] = _text(node.on)
    found.update(_rung(node.rungs[0]))
    if len(node.rungs) > 1:
        found["then"] = [_rung(rung) for rung in node.rungs[1:]]
    return found


def _rung(node: rules.Rung) -> dict[str, Any]:
    found: dict[str, Any] = {"level": node.level.word}
    if node.after is not None:
        found["after"] = _text(node.after)
    if node.actions is not None:
        found["do"] = _actions(node.actions)
    return found


_SECTIONS: dict[type[Statement], tuple[str, Callable[[Any], tuple[str | None, Any]]]] = {
    rules.Use: ("use", _use),
    rules.Axis: ("axis", _axis),
    rules.Metric: ("metrics", _metric),
    rules.Param: ("params", _param),
    rules.Let: ("lets", _let),
    rules.Event: ("events", _event),
    rules.Phase: ("phases", _phase),
    rules.LevelDefault: ("levels", _level),
    rules.Limit: ("limits", _limit),
    rules.Nonfinite: ("nonfinite", _nonfinite),
    rules.Rule: ("rules", _rule),
    rules.Override: ("override", _override),
    rules.Disable: ("disable", _disable),
    rules.Profile: ("profiles", _profile),
}
