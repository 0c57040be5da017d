"""What reads otherwise than it was meant, and would be silent: a name nobody logs is unknown for ever."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from vitalsdsl.ground.diagnostic import Diagnostic, Severity
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.scope import COUNTERS, Meaning
from vitalsdsl.lints.base import Lint, Looked

_FIGURES = re.compile(r"\s*-?\d[\d_.,]*(?:[eE][+-]?\d+)?\s*%?\s*")


_VALUES = {
    **dict.fromkeys(("NaN", "Nan", "NAN", "None", "none", "null", "NULL"), "write `loss is nan`"),
    **dict.fromkeys(("Inf", "INF", "infinity", "Infinity"), "write `loss is inf`"),
    **dict.fromkeys(("true", "True", "TRUE"), "write the condition alone"),
    **dict.fromkeys(("false", "False", "FALSE"), "write `not` before the condition"),
}
"""Words for values in other languages, and how the language says it."""


class ValueAsName(Lint):
    """Quotes make a name of anything: `loss > "3"` compares with a metric that is logged as `3`, and `NaN` is a name too."""

    code = "V008"
    bad = 'when loss > "3" -> yellow'
    good = "when loss > 3 -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for name in at.all(ex.Name):
            if at.scope.meaning(name) is not Meaning.METRIC or name.path in at.scope.metrics:
                continue
            if name.quoted and _FIGURES.fullmatch(name.path):
                yield self.found(f'`"{name.path}"` is the name of a metric, not a number', name.span, "in quotes",
                                 f"write `{name.path.strip()}`")  # fmt: skip
            elif name.path in _VALUES and not name.quoted:
                yield self.found(f"`{name.path}` is read as the name of a metric", name.span, "a name",
                                 _VALUES[name.path])  # fmt: skip


class HyphenAsMinus(Lint):
    """`eval-loss` subtracts `loss` from `eval`. Where nothing else in the policy knows both, it was meant as one name."""

    code = "V307"
    severity = Severity.INFO
    bad = "when eval-loss > 3 -> yellow"
    good = 'when "eval-loss" > 3 -> yellow'

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        runs = [run for node in at.all(ex.Arithmetic) for run in _hyphenated(node)]
        if not runs:
            return
        known = Counter(name.path for name in at.all(ex.Name))
        known.subtract(Counter(name.path for run in runs for name in run))
        declared = {*at.scope.names(), *COUNTERS, *(r.each.member for r in at.enabled() if r.each is not None)}
        for run in runs:
            if not all(name.path in declared or known[name.path] > 0 for name in run):
                written = "-".join(name.path for name in run)
                apart = " - ".join(name.path for name in run)
                yield self.found(f"`{written}` is read as `{apart}`", run[0].span.to(run[-1].span), "a difference",
                                 f'if it is one metric, write `"{written}"`; if not, put blanks round the minus')  # fmt: skip


def _hyphenated(node: ex.Arithmetic) -> Iterator[list[ex.Name]]:
    """The longest stretches of bare names with nothing but a hyphen between them."""
    run: list[ex.Name] = []
    for operator, operand in zip(("", *node.operators), node.operands):
        name = operand if isinstance(operand, ex.Name) and not operand.quoted and not operand.grouped else None
        tight = name is not None and operator == "-" and bool(run) and run[-1].span.end + 1 == name.span.start
        if not tight:
            if len(run) > 1:
                yield run
            run = []
        if name is not None:
            run.append(name)
    if len(run) > 1:
        yield run


class StarInName(Lint):
    """`metric act = "act/*"` names one metric that is logged with a star in its name; a family has one on both sides."""

    code = "V308"
    bad = 'metric act = "act/*"\nwhen act > 3 -> yellow'
    good = 'metric act/* = "act/*"\nwhen any(act/* > 3) -> yellow'

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for metric in at.policy.of(rules.Metric):
            starred = next((logged for logged in metric.logged if "*" in logged), None)
            if starred is not None and not metric.family:
                stars = "/".join("*" * starred.count("*"))
                yield self.found(f"`{metric.name}` is one metric, logged with a `*` in its name", metric.span,
                                 "no family", f'a family is written `metric {metric.name}/{stars} = "{starred}"`')  # fmt: skip


_SAID = "every alert says it already: leave it out"
_VALUE = "name the metric itself, such as `{{{0}}}`"
_NO_METRICS = {
    **dict.fromkeys(
        "level name rule_name title message severity run run_name run_id policy time timestamp date".split(), _SAID
    ),
    **dict.fromkeys("value metric_value current threshold".split(), _VALUE),
    "member": "`{{member}}` is for rules with `each m in FAMILY`",
}
"""What other tools put into a message so, and what to write here; `{0}` is a metric of the rule."""


class WordInMessage(Lint):
    """In a message `{level}` shows a metric called `level`. Rule, level, step, run and time are in every alert already."""

    code = "V309"
    bad = 'rule a "t" { when loss > 3 -> yellow because "{level}: loss is {value}" }'
    good = 'rule a "t" { when loss > 3 -> yellow because "loss is {loss}" }'

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        read = {name.path for name in at.all(ex.Name)}
        for rule in at.enabled():
            parts = rule.body.because.parts if rule.body.because is not None else ()
            for part in parts:
                name = part.expression if isinstance(part, rules.TemplateField) else None
                if not isinstance(name, ex.Name) or name.quoted or name.path not in _NO_METRICS or name.path in read:
                    continue
                own = at.scope.meaning(name) is not Meaning.METRIC or name.path in at.scope.metrics
                if not own and (rule.each is None or name.path not in ("member", rule.each.member)):
                    metric = next((n.path for n in at.within(rule.body.clauses[0].condition, ex.Name)), "loss")
                    help_ = _NO_METRICS[name.path].format(metric)
                    yield self.found(f"`{{{name.path}}}` shows a metric called `{name.path}`", name.span,
                                     "is it logged?", help_)  # fmt: skip
