"""Plan: a checked policy to what is evaluated, for one run. Parsing and checking are over; names are resolved once.

Members of families join as they are first logged.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from vitalsdsl.ground.types import Extent
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.guards import read_metrics, taken_over
from vitalsdsl.language.rules import Level
from vitalsdsl.language.scope import fill_family, match_family
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes.graph import Graph
from vitalsdsl.nodes.holding import Span
from vitalsdsl.nodes.setting import Owner, Setting
from vitalsdsl.planning.compiler import Compiler
from vitalsdsl.planning.shared import Shared
from vitalsdsl.verdicts.verdict import Clause, ClearWhen, Gate, Guard, RuleState

_GUARDS_LAST = 1_000_000
"""The place of the first guard: behind all rules that a policy can have."""


class Plan:
    """The graph of one policy for one run, its rules' states, and the guards; with `only` those of so many rules, with
    what they rest on."""

    def __init__(self, policy: rules.Policy, only: Collection[str] | None = None) -> None:
        self.policy = policy
        self._only = only
        shared = Shared.of(policy)
        self.scope = shared.scope
        self.graph = Graph()
        self.compiler = Compiler(shared, self.graph)
        self.metrics = self.compiler.metrics
        self.rules: list[RuleState] = []
        self.rule_of: dict[str, rules.Rule] = {}
        self.fields: dict[tuple[str, str | None], list[tuple[nd.Node, str]]] = {}
        """The values in each rule's message, with how they are written."""
        guard = next(iter(policy.of(rules.Nonfinite)), None)
        self._guard_level = Level.ORANGE if guard is None else guard.level
        self._taken = taken_over(policy, self._guard_level)
        for statement in policy.statements:
            self._statement(statement)
        self.rule_of = shared.rules(self.rule_of)
        self._arrange()

    def _statement(self, statement: rules.Statement) -> None:
        if isinstance(statement, rules.Rule) and not statement.body.disabled:
            self._rule(statement)
        elif self._only is not None:
            return  # what the rules rest on is made for them
        elif isinstance(statement, rules.Let):
            self._let(statement)
        elif isinstance(statement, rules.Event):
            self.compiler.event(statement)
        elif isinstance(statement, rules.Phase):
            self.compiler.phase(statement)

    def _let(self, let: rules.Let) -> None:
        if let.family:

            def join(star: str) -> None:
                self.compiler.let(let, Setting(star=star))

            self.compiler.prepare(let.expression, Setting())
            self.compiler.watch(let.expression, join)
        else:
            self.compiler.let(let, Setting())

    def see_names(self, names: Sequence[str]) -> None:
        """Names are logged for the first time: let them join the families that they belong to."""
        joined = [self.metrics.see(name) for name in names]  # each name must be seen, whatever the first one says
        if True in joined:
            self._arrange()

    def spare(self) -> None:
        """Forget how nodes were made, which only what joins later would ask for, and columns."""
        if not self.metrics.awaits_names:
            self.graph.memo.clear()

    def _arrange(self) -> None:
        self._add_guards()
        self.compiler.members_joined()
        self.graph.arrange()

    # ---------------------------------------------------------------- rules

    def _rule(self, rule: rules.Rule) -> None:
        index = len(self.rule_of)
        self.rule_of[rule.name] = rule
        if self._only is not None and rule.name not in self._only:
            return
        each = rule.each
        if each is None:
            self._rule_state(rule, index, Setting(), None)
            return

        def join(star: str) -> None:
            path = fill_family(each.family.path, star)
            self._rule_state(rule, index, Setting(star, each.member, path), path)

        self._prepare(rule, Setting(member=each.member, owner=self._owner(rule, None)))
        self.compiler.watch(each.family, join)

    def _prepare(self, rule: rules.Rule, setting: Setting) -> None:
        """What all members will read alike has its past from the start of the run."""
        body = rule.body
        conditions = [clause.condition for clause in body.clauses]
        if body.clear is not None and body.clear.condition is not None:
            conditions.append(body.clear.condition)
        if body.because is not None:
            conditions += [part.expression for part in body.because.parts if isinstance(part, rules.TemplateField)]
        for condition in conditions:
            if not (isinstance(condition, ex.Name) and condition.path == "member"):
                self.compiler.prepare(condition, setting)
        for clause in body.clauses:
            if clause.on is not None:
                self.compiler.prepare(clause.on, setting)

    def _owner(self, rule: rules.Rule, member: str | None) -> Owner:
        """The rule, or one member of it, as the owner of references; for how long its spans let it freeze them."""
        body, compiler = rule.body, self.compiler
        limits = [extent for clause in body.clauses for extent in compiler.span(clause.for_).doubled()]
        afters = [compiler.extent(r.after) for c in body.clauses for r in c.rungs if r.after is not None]
        limits += [Extent(2 * e.size, e.unit) for e in afters]
        if body.clear is not None:
            limits += compiler.span(body.clear.for_).doubled()
        return Owner(f"rule {rule.name} {member}", limits, begun_by=f"rule {rule.name} None" if member else None)

    def _rule_state(self, rule: rules.Rule, index: int, setting: Setting, member: str | None) -> None:
        body, compiler = rule.body, self.compiler
        spans = [compiler.span(clause.for_) for clause in body.clauses]
        afters = [[compiler.extent(r.after) if r.after is not None else None for r in c.rungs] for c in body.clauses]
        owner = self._owner(rule, member)
        setting = replace(setting, owner=owner)
        gate = self._gate(rule.phases)
        clauses = [
            self._clause(clause, span, after, rule, setting, gate)
            for clause, span, after in zip(body.clauses, spans, afters)
        ]
        if body.clear is not None and body.clear.condition is not None:
            condition = compiler.expression(body.clear.condition, setting)
            self.graph.roots.append(ClearWhen(condition, clauses))
        if body.because is not None:
            fields = [part for part in body.because.parts if isinstance(part, rules.TemplateField)]
            self.fields[rule.name, member] = [(self._field(part, setting), part.format) for part in fields]
        compiler.freeze(owner, [(clause.condition, clause.on) for clause in clauses])
        self.rules.append(RuleState(rule.name, index, clauses, member, gate))

    def _clause(
        self,
        clause: rules.Clause,
        span: Span,
        after: Sequence[Extent | None],
        rule: rules.Rule,
        setting: Setting,
        gate: Gate | None,
    ) -> Clause:
        clear = rule.body.clear
        waits = clear is not None and clear.condition is not None
        clear_span = self.compiler.span(clear.for_) if clear is not None and (waits or clear.for_ is not None) else None
        node = Clause(
            self.compiler.expression(clause.condition, setting),
            span,
            [rung.level for rung in clause.rungs],
            after,
            self.graph.clock,
            on=self.compiler.metric_of(clause.on, setting) if clause.on is not None else None,
            gate=gate,
            clear=clear_span,
            waits_for_clear=waits,
            unknown_resets=rule.body.unknown == "reset",
        )
        # Nothing changes these: all clauses of all runs that look alike have the same.
        node.levels, node.after = self.compiler.shared.same(node.levels), self.compiler.shared.same(node.after)
        if node.pacers == node.inputs:
            node.pacers = node.inputs
        self.graph.roots.append(node)
        return node

    def _gate(self, phases: Sequence[ex.Name]) -> Gate | None:
        if not phases:
            return None
        key = ("gate", *(name.path for name in phases))
        if key not in self.graph.memo:
            self.graph.keep(key, Gate([self.compiler.phase(self.scope.phases[name.path]) for name in phases]))
        found: Gate = self.graph.memo[key]
        return found

    def _field(self, part: rules.TemplateField, setting: Setting) -> nd.Node:
        name = part.expression
        if isinstance(name, ex.Name) and name.path == "member" and setting.member_path is not None:
            made = nd.Constant("member", math.nan)
            made.value = setting.member_path
            return made
        return self.compiler.expression(part.expression, setting)

    # ---------------------------------------------------------------- guards

    def _add_guards(self) -> None:
        if self._guard_level is None:
            return
        known = {rule.guard.metric.name: rule for rule in self.rules if rule.guard is not None}
        names = read_metrics(self.policy, self.scope, self.metrics.members)
        told: set[str] = set()
        for place, name in enumerate(names, start=_GUARDS_LAST):
            if name in told:
                continue
            same = self.metrics.same_as(name)
            guarded = next((known[each] for each in sorted(same) if each in known), None)
            asked = self._only is not None and f"nonfinite({name})" in self._only
            if guarded is not None:
                guarded.index = place
            elif asked or self._only is None and not same.isdisjoint(self.metrics.nodes):
                # Which of several names is made first may be a matter of when members join: the guard is that of the first.
                self.metrics.node(name)
                self._add_guard(name, place, self._guard_level)
            else:
                continue
            told |= same

    def _add_guard(self, name: str, place: int, level: Level) -> None:
        declared, _ = self.metrics.declared(name)
        if declared is not None and declared.allow_nonfinite:
            return
        same = self.metrics.same_as(name)
        nan = not any(takes and _covers(path, same) for path, takes, _ in self._taken)
        infinite = not any(takes and _covers(path, same) for path, _, takes in self._taken)
        if nan or infinite:
            guard = Guard(self.metrics.nodes[name], nan, infinite)
            self.graph.guards.append(guard)
            self.rules.append(RuleState(f"nonfinite({name})", place, guard=guard, guard_level=level))


def _covers(path: str, names: Collection[str]) -> bool:
    return any(path == name or match_family(path, name) is not None for name in names)
