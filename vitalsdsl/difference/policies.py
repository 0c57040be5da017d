"""What differs between two policies, in words: from what they mean, never from how they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vitalsdsl.difference.reach import Reach
from vitalsdsl.difference.statements import TELLING, actions, expression, optional, quoted
from vitalsdsl.language import rules, sentences
from vitalsdsl.language.digest import KINDS, reading_order
from vitalsdsl.language.formatter import BY_VALUE
from vitalsdsl.language.lines import statement_lines
from vitalsdsl.language.renaming import replaced

_WORDS: dict[type[rules.Statement], str] = {
    rules.Axis: "axis",
    rules.Metric: "metric",
    rules.Param: "param",
    rules.Let: "let",
    rules.Event: "event",
    rules.Phase: "phase",
    rules.LevelDefault: "level",
    rules.Limit: "limit",
    rules.Nonfinite: "nonfinite",
    rules.Rule: "rule",
    rules.Profile: "profile",
}

_KINDS = tuple(kind for kind in KINDS if kind in _WORDS)


@dataclass(frozen=True)
class Change:
    """One difference. `kind` is `added`, `removed` or `changed`; `what` and `name` are the statement, `part` is the part
    of it, `before` and `after` are its texts; `read_by` are the rules that it reaches; `says` is all of it in words."""

    kind: str
    what: str
    name: str
    says: str
    part: str = ""
    before: str = ""
    after: str = ""
    read_by: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {"type": "difference", **asdict(self), "read_by": list(self.read_by)}


def differences(before: rules.Policy, after: rules.Policy) -> list[Change]:
    """All differences in meaning between two policies whose `use` is resolved; none exactly where their digests agree.

    >>> from vitalsdsl.policies.policy import load
    >>> old, new = (load("p", text=f"when loss > {k} * baseline(500) -> orange").policy for k in ("3", "2.5"))
    >>> [change.says for change in differences(old, new)]
    ['loss_orange: orange from 3x to 2.5x baseline']
    """
    found = list(_heads(before, after))
    reaches = Reach(before), Reach(after)
    for kind in _KINDS:
        found += _of_kind(before, after, kind, reaches)
    return found + list(_orders(before, after))


def _heads(before: rules.Policy, after: rules.Policy) -> Iterator[Change]:
    for part, old, new in (("name", before.name, after.name), ("title", before.title, after.title)):
        if old != new:
            yield _changed("policy", after.name or "", part, quoted(old), quoted(new), f"the policy's {part}")


def _of_kind(
    before: rules.Policy, after: rules.Policy, kind: type[rules.Statement], reaches: tuple[Reach, Reach]
) -> Iterator[Change]:
    old, new = _by_name(before, kind), _by_name(after, kind)
    what = _WORDS[kind]
    for name, statement in old.items():
        if name not in new:
            read = _readers(reaches[0], statement)
            says = f"removed {_summary(statement)}" if not name else f"removed {what} {name}"
            yield Change("removed", what, name, says + _readers_said(read), before=_text(statement), read_by=read)
    for name, statement in new.items():
        read = _readers(reaches[1], statement)
        if name not in old:
            says = f"added {_summary(statement)}{_readers_said(read)}"
            yield Change("added", what, name, says, after=_text(statement), read_by=read)
        elif _text(old[name]) != _text(statement):
            yield from _within(what, name, old[name], statement, read)


def _by_name(policy: rules.Policy, kind: type[rules.Statement]) -> dict[str, rules.Statement]:
    """Statements by what makes two of them the same one; what may come several times has its place with its name."""
    found: dict[str, rules.Statement] = {}
    for statement in policy.of(kind):
        name = _name(statement)
        place = 2
        while name in found:
            name, place = f"{_name(statement)} ({place})", place + 1
        found[name] = statement
    return found


def _name(statement: rules.Statement) -> str:
    if isinstance(statement, rules.LevelDefault):
        return statement.level.word
    if isinstance(statement, rules.Limit):
        return statement.action
    return str(getattr(statement, "name", ""))


def _text(statement: rules.Statement) -> str:
    return "\n".join("  " * line.depth + line.text for line in statement_lines(BY_VALUE, statement))


def _summary(statement: rules.Statement) -> str:
    """A statement in a line; of a rule only where it goes."""
    if not isinstance(statement, rules.Rule):
        return " ".join(_text(statement).split("\n  ")).replace("\n", " ")
    clauses = (_clause_text(clause) for clause in statement.body.clauses)
    more = (word for word in ("shadow", "disabled") if getattr(statement.body, word))
    return f"rule {statement.name}: " + "; ".join([*clauses, *more])


def _clause_text(clause: rules.Clause) -> str:
    head, rungs = sentences.clause(BY_VALUE, clause)
    return " ".join([head, *rungs])


# -------------------------------------------------------------------- inside of one statement


def _within(
    what: str, name: str, old: rules.Statement, new: rules.Statement, read: tuple[str, ...]
) -> Iterator[Change]:
    if isinstance(old, rules.Rule) and isinstance(new, rules.Rule):
        yield from _Rules(old, new).changes()
        return
    subject = f"{what} {name}".rstrip()
    for part, before, after in TELLING[type(old)](old, new):
        words = [part, before, "->", after] if before else [part, after]
        says = f"{subject}: {' '.join(word for word in words if word)}{_readers_said(read)}"
        yield Change("changed", what, name, says, part, before, after, read)


# -------------------------------------------------------------------- inside of a rule


class _Rules:
    """Two rules of one name."""

    def __init__(self, old: rules.Rule, new: rules.Rule) -> None:
        self.old, self.new = old, new

    def changes(self) -> Iterator[Change]:
        found = [*self._scope(), *self._clauses(), *self._parts()]
        is_bare = sentences.is_oneliner(self.new)
        yield from found or [self._one("form", "", "", f"its name is {'no longer' if is_bare else 'now'} written down")]

    def _one(self, part: str, before: str, after: str, says: str = "") -> Change:
        name = self.new.name
        return _changed("rule", name, part, before, after, f"{name}: {part}", says and f"{name}: {says}")

    def _scope(self) -> Iterator[Change]:
        old, new = self.old, self.new
        if old.title != new.title:
            yield self._one("title", quoted(old.title), quoted(new.title))
        phases, after = (", ".join(p.path for p in r.phases) or "all" for r in (old, new))
        if phases != after:
            yield self._one("phase", phases, after)
        each, after = (f"{r.each.member} in {r.each.family.path}" if r.each else "no member" for r in (old, new))
        if each != after:
            yield self._one("each", each, after)

    def _parts(self) -> Iterator[Change]:
        before, after = (sentences.parts(BY_VALUE, r.body) for r in (self.old, self.new))
        for part in dict.fromkeys([*before, *after]):
            old, new = before.get(part, ""), after.get(part, "")
            if old == new:
                continue
            says = f"now {new}" if not old else f"no longer {old}" if not new else f"{old} -> {new}"
            yield self._one(part, old, new, says)

    def _clauses(self) -> Iterator[Change]:
        pairs, removed, added = _paired(self.old.body.clauses, self.new.body.clauses)
        for old in removed:
            text = _clause_text(old)
            yield self._one("when", text, "", f"no longer {text}")
        for new in added:
            text = _clause_text(new)
            yield self._one("when", "", text, f"now also {text}")
        for old, new in pairs:
            yield from self._clause(old, new)
        if not removed and not added and [new for _, new in pairs] != list(self.new.body.clauses):
            yield self._one("order", "", "", "its `when` clauses stand in another order")

    def _clause(self, old: rules.Clause, new: rules.Clause) -> Iterator[Change]:
        level = old.rungs[0].level.word if old.rungs else "when"
        before, after = BY_VALUE.text(old.condition), BY_VALUE.text(new.condition)
        for part, was, now in expression(old.condition, new.condition):
            says = f"{level} {now}" if not part else f"{level} when {was} -> when {now}"
            yield self._one("condition", before, after, says)
        for part, mine, theirs in (("for", old.for_, new.for_), ("on", old.on, new.on)):
            for _, was, now in optional(part, mine, theirs):
                yield self._one(part, was, now, f"{level} {was} -> {now}")
        yield from self._rungs(old.rungs, new.rungs)

    def _rungs(self, old: Sequence[rules.Rung], new: Sequence[rules.Rung]) -> Iterator[Change]:
        if len(old) == len(new) == 1 and old[0].level != new[0].level:
            before, after = old[0].level.word, new[0].level.word
            yield self._one("level", before, after, f"level {before} -> {after}")
            old = (replaced(old[0], level=new[0].level),)
        before_by, after_by = ({r.level: r for r in rungs} for rungs in (old, new))
        for level in sorted({*before_by, *after_by}):
            was, now = before_by.get(level), after_by.get(level)
            if was is None or now is None:
                text = sentences.rung(BY_VALUE, was or now)  # type: ignore[arg-type]
                says = f"no longer {text}" if now is None else f"now also {text}"
                yield self._one("rung", text if was else "", text if now else "", says)
                continue
            for _, before, after in optional("after", was.after, now.after):
                yield self._one("after", before, after, f"{level.word} {before} -> {after}")
            before, after = _does(was), _does(now)
            if before != after:
                yield self._one("do", before, after, f"{level.word} does {before} -> {after}")


def _does(rung: rules.Rung) -> str:
    return actions(rung.actions) if rung.actions else "what its level does"


Clauses = list[rules.Clause]


def _paired(
    old: Sequence[rules.Clause], new: Sequence[rules.Clause]
) -> tuple[list[tuple[rules.Clause, rules.Clause]], Clauses, Clauses]:
    """Clauses of two rules that are the same one: of equal text, then of one condition, then of one level; or each
    the only one."""
    left, right = list(old), list(new)
    pairs: list[tuple[rules.Clause, rules.Clause]] = []
    alikes: list[Callable[[rules.Clause], object]] = [
        _clause_text,
        lambda c: BY_VALUE.text(c.condition),
        lambda c: [r.level for r in c.rungs][:1],
    ]
    if len(old) == len(new) == 1:
        alikes.append(lambda c: None)
    for alike in alikes:
        for mine in list(left):
            theirs = next((c for c in right if alike(c) == alike(mine)), None)
            if theirs is not None:
                pairs.append((mine, theirs))
                left.remove(mine)
                right.remove(theirs)
    order = {id(clause): place for place, clause in enumerate(old)}
    return sorted(pairs, key=lambda pair: order[id(pair[0])]), left, right


# -------------------------------------------------------------------- order, and who is reached


def _orders(before: rules.Policy, after: rules.Policy) -> Iterator[Change]:
    """Statements of one kind stand in another order; or, where none do, things are first read in another one."""
    found = False
    for kind in _KINDS:
        old, new = _common(list(_by_name(before, kind)), list(_by_name(after, kind)))
        if old != new:
            found = True
            yield _order(_WORDS[kind], f"the {_WORDS[kind]}s", old, new)
    first, second = _common(reading_order(before.statements), reading_order(after.statements))
    if first != second and not found:
        yield _order("reading", "what is read first, and so the guards", first, second)


def _common(old: Sequence[str], new: Sequence[str]) -> tuple[list[str], list[str]]:
    both = set(old) & set(new)
    return [name for name in old if name in both], [name for name in new if name in both]


def _order(what: str, subject: str, before: Sequence[str], after: Sequence[str]) -> Change:
    place = next(at for at, (old, new) in enumerate(zip(before, after)) if old != new)
    old, new = (
        ", ".join(names[place : place + 3]) + ("…" if len(names) > place + 3 else "") for names in (before, after)
    )
    return _changed(
        what, "", "order", ", ".join(before), ", ".join(after), "", f"{subject} come in another order: {old} -> {new}"
    )


def _readers(reach: Reach, statement: rules.Statement) -> tuple[str, ...]:
    if isinstance(statement, (rules.Metric, rules.Param, rules.Let, rules.Event, rules.Phase)):
        return reach.of(statement.name)
    return ()


def _readers_said(read: tuple[str, ...]) -> str:
    if not read:
        return ""
    more = f" and {len(read) - 3} more" if len(read) > 3 else ""
    return f" (read by {', '.join(read[:3])}{more})"


def _changed(what: str, name: str, part: str, before: str, after: str, subject: str, says: str = "") -> Change:
    return Change("changed", what, name, says or f"{subject} {before} -> {after}", part, before, after)
