"""Check: what makes a policy meaningless, each with its place and its mend. Every finding here is an error."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from vitalsdsl.ground.diagnostic import Diagnostic, in_order
from vitalsdsl.ground.types import SAMPLES, STEPS, TIME
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import names, rules
from vitalsdsl.language.arguments import families, stars
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.language.kinds import Kinds, Where
from vitalsdsl.language.nesting import too_deep
from vitalsdsl.language.scope import COUNTERS, Meaning, Scope
from vitalsdsl.language.units import LASTS


def check(policy: rules.Policy, broken_names: frozenset[str] = frozenset()) -> list[Diagnostic]:
    """All errors of a policy whose `use` statements are resolved. `broken_names` are those of statements that could not
    be parsed: nothing is said of them."""
    return in_order(_Checker(policy, broken_names).run())


class _Checker:
    def __init__(self, policy: rules.Policy, broken: frozenset[str]) -> None:
        self.policy = policy
        self.scope = Scope.of(policy)
        self.broken = broken
        self.found: list[Diagnostic] = []
        self.kinds = Kinds(self.scope, self.found, broken)
        self.units = self.kinds.units
        self.report = self.kinds.report

    def run(self) -> list[Diagnostic]:
        names.duplicates(self.policy, self.report)
        names.circles(self.scope, self.report)
        if too_deep(self.policy, self.scope, self.report):
            return self.found  # what follows goes down into definitions
        names.inhibition(self.policy, self.scope, self.broken, self.report)
        for statement in self.policy.statements:
            if isinstance(statement, rules.Rule):
                self._rule(statement)
            elif isinstance(statement, rules.Let):
                self._let(statement)
            elif isinstance(statement, rules.Event):
                self.kinds.condition(statement.condition, Where("event"), top=True)
                self.kinds.span(statement.for_)
                self.units.length(statement.apart, "apart", (STEPS, SAMPLES, TIME))
            elif isinstance(statement, rules.Phase):
                self.kinds.condition(statement.condition, Where("phase"), top=True)
            elif isinstance(statement, rules.Metric):
                self._metric(statement)
            elif isinstance(statement, rules.Param):
                self._param(statement)
            elif isinstance(statement, rules.Profile):
                self._profile(statement)
            elif isinstance(statement, rules.Limit):
                self._no_empty_length(statement.per, "a limit")
        return self.found

    # ---------------------------------------------------------------- statements

    def _metric(self, metric: rules.Metric) -> None:
        self.units.length(metric.every, "every", (STEPS, TIME))
        self.units.length(metric.stale_after, "stale after", (STEPS, TIME))
        for logged in metric.logged:
            if metric.family and stars(logged) != stars(metric.name):
                self.report("V043", f'`{metric.name}` and "{logged}" differ in their `*`', metric.span,
                            "what would stand for what?", "as many `*` on both sides")  # fmt: skip
            if not logged.strip():
                self.report("V010", "a logged name cannot be empty", metric.span, "nothing between the quotes")

    def _param(self, param: rules.Param) -> None:
        if param.low is None or param.high is None:
            return
        low, value, high = (self.units.size_of(n) for n in (param.low, param.value, param.high))
        shown = f"{expression_text(param.low)} .. {expression_text(param.high)}"
        if not self.units.one_unit([param.value, param.low, param.high]):
            self.report("V003", f"param `{param.name}` and its range are in different units", param.span,
                        "one unit, please", f"`{expression_text(param.value)}` in `{shown}`")  # fmt: skip
        elif low > high:
            self.report("V504", f"the range of param `{param.name}` is empty", param.low.span.to(param.high.span),
                        "nothing lies between", "the smaller end first")  # fmt: skip
        elif not low <= value <= high:
            self.report("V504", f"the default of param `{param.name}` is outside its own range", param.value.span,
                        f"not in {shown}", "move the default, or widen the range")  # fmt: skip

    def _profile(self, profile: rules.Profile) -> None:
        """Its values are held to the params again when it is taken; here it is said beforehand."""
        seen: set[str] = set()
        for setting in profile.settings:
            if setting.name in seen:
                self.report("V014", f"`{setting.name}` is set twice in one profile", setting.span, "a second time",
                            "keep one")  # fmt: skip
            seen.add(setting.name)
            param = self.scope.params.get(setting.name)
            if param is not None:
                self._setting(profile, setting, param)
            elif setting.name not in self.broken:
                name = ex.Name.build(setting.span, path=setting.name)
                self.kinds.nearest("V311", "param", name, self.scope.params, "unknown param",
                                   f"define it: `param {setting.name} = {expression_text(setting.value)}`")  # fmt: skip

    def _setting(self, profile: rules.Profile, setting: rules.Setting, param: rules.Param) -> None:
        if not self.units.one_unit([param.value, setting.value]):
            message = f"param `{param.name}` is set to `{expression_text(setting.value)}`"
            self.report("V312", message, setting.value.span, "another unit",
                        f"its default is `{expression_text(param.value)}`")  # fmt: skip
        elif param.low is not None and param.high is not None:
            low, value, high = (self.units.size_of(n) for n in (param.low, setting.value, param.high))
            if not low <= value <= high:
                shown = f"{expression_text(param.low)} .. {expression_text(param.high)}"
                message = f"profile `{profile.name}` sets `{param.name}` outside its range"
                self.report("V504", message, setting.value.span, f"not in {shown}", "move it, or widen the range")

    def _let(self, let: rules.Let) -> None:
        expression = let.expression
        if let.family and next(families(expression), None) is None:
            self.report("V043", f"`{let.name}` is a family, and nothing on the right side is", let.span,
                        "no `*` there", "members come from the families that it is made of")  # fmt: skip
        elif isinstance(expression, ex.Length):
            text = expression_text(expression)
            self.report("V003", f"`{text}` is a length, not a number", expression.span, "never changes",
                        f"write `param {let.name} = {text}`")  # fmt: skip
        else:
            self.kinds.number(expression, Where("let", family=let.name if let.family else None))
        self._on(let.on, None)

    # ---------------------------------------------------------------- rules

    def _rule(self, rule: rules.Rule) -> None:
        body = rule.body
        if rule.each is not None:
            self._each(rule.each)
        for phase in rule.phases:
            if phase.path not in self.scope.phases and phase.path not in self.broken:
                names.unknown(self.report, "phase", phase, self.scope.phases)
        if not body.clauses and rule.name not in self.broken:
            self.report("V034", f"rule `{rule.name}` has no `when`", rule.span, "it can never fire",
                        "add `when … -> …`")  # fmt: skip
        where = Where("rule", member=rule.each.member if rule.each is not None else None)
        for clause in body.clauses:
            self._whole(clause.condition, where, "when")
            self.kinds.span(clause.for_)
            self._on(clause.on, where.member)
            self._rungs(clause.rungs)
        if body.clear is not None:
            if body.clear.condition is not None:
                self._whole(body.clear.condition, where, "clear when")
            self.kinds.span(body.clear.for_)
        self._no_empty_length(body.cooldown, "cooldown")
        if body.because is not None:
            self._message(body.because, where)

    def _each(self, each: rules.Each) -> None:
        if each.member in COUNTERS or each.member in set(self.scope.names()):
            what = self.scope.meaning(each.member).value
            self.report("V313", f"`{each.member}` is already a {what}", each.span, "what would it mean inside?",
                        f"write `each member in {each.family.path}`, or another word")  # fmt: skip

    def _whole(self, node: ex.Expression, where: Where, what: str) -> None:
        self.kinds.condition(node, where, top=True)
        inner = node
        while isinstance(inner, ex.Not) and isinstance(inner.operand, ex.Not):
            inner = inner.operand.operand
        if isinstance(inner, ex.Call) and inner.function == "surely":
            self.report("V045", f"`surely(…)` cannot be the whole of a `{what}`", node.span, "never unknown",
                        "write the condition itself; `surely` is for a witness beside it")  # fmt: skip

    def _message(self, because: rules.Template, where: Where) -> None:
        for part in because.parts:
            if not isinstance(part, rules.TemplateField):
                continue
            expression = part.expression
            if not (where.member is not None and isinstance(expression, ex.Name) and expression.path == "member"):
                self.kinds.any_kind(expression, where)

    def _on(self, name: ex.Name | None, member: str | None) -> None:
        if name is None or name.path in self.broken:
            return
        meaning = self.scope.meaning(name, member)
        if meaning not in (Meaning.METRIC, Meaning.MEMBER, Meaning.LET):
            self.report("V315", f"`on` names a metric, and `{name.path}` is a {meaning.value}", name.span,
                        "has no points", "name the metric whose points set the pace")  # fmt: skip

    def _rungs(self, rungs: Sequence[rules.Rung]) -> None:
        if rungs and rungs[0].after is not None:
            self.report("V408", "the first rung is taken when the rule fires", rungs[0].after.span,
                        "no `after` here", "say how long in `for`")  # fmt: skip
        for before, rung in pairwise(rungs):
            if rung.after is None:
                self.report("V408", "a later rung says how much later", rung.span, "after how long?",
                            f"write `-> {rung.level.word} after 100 steps`")  # fmt: skip
            if rung.level <= before.level:
                self.report("V408", f"`{rung.level.word}` is no step up from `{before.level.word}`", rung.span,
                            "levels rise along a ladder", "the milder level first")  # fmt: skip
            if rung.after is not None and before.after is not None and before is not rungs[0]:
                self._later(before.after, rung.after)
        for rung in rungs:
            self.units.length(rung.after, "after", LASTS)

    def _later(self, early: ex.Expression, late: ex.Expression) -> None:
        if not self.units.one_unit([early, late]):
            self.report("V408", "the rungs of one ladder count in one unit", late.span,
                        f"before, it was `{expression_text(early)}`")  # fmt: skip
        elif self.units.size_of(late) <= self.units.size_of(early):
            self.report("V408", "each rung comes later than the one before", late.span,
                        f"not later than `{expression_text(early)}`",
                        "`after` counts from where the rule fires")  # fmt: skip

    def _no_empty_length(self, node: ex.Expression | None, what: str) -> None:
        """Whether the unit fits a cooldown or a limit is judged where it is acted on (V084)."""
        if isinstance(node, ex.Length):
            self.units.length(node, what, LASTS)
