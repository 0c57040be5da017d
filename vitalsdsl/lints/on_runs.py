"""What rules do on recorded runs: never anything, alarms in good health, hundreds of members."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.source import Span
from vitalsdsl.ground.types import Reason
from vitalsdsl.language import rules
from vitalsdsl.lints.base import Lint, Looked

if TYPE_CHECKING:
    from vitalsdsl.lints.runs import Alarms

MOST_MEMBERS = 500
MOST_SHOWN = 3

_WHY = {
    Reason.WARMING.value: "no run goes on for long enough: ask for less, or count samples",
    Reason.TOO_FEW.value: "no run logs enough of it: ask for fewer points",
    Reason.ABSENT.value: "no run has it: `vitals names SOURCE` lists what there is",
    Reason.STALE.value: "it is always too old where it is read: look at `stale after` and `every`",
    Reason.NONFINITE.value: "it is never a finite number",
    Reason.UNDEFINED.value: "it cannot be computed: a division by zero, or a log of zero",
    "never on": "no run comes into this phase",
}


_SAID = {
    Reason.WARMING.value: "is still warming up at the end",
    Reason.TOO_FEW.value: "has too few points",
    "never on": "is never on",
}


class DeadRule(Lint):
    """A rule whose condition was never known, true or false, in any of the runs: it can never say anything.

    Its reference wants more of a run than there ever is, or its phase never comes. A rule that merely never fires is fine,
    and nothing is said of it.
    """

    code = "V605"
    logged = ({"loss": ("2 x300", 1)},)
    bad = "when loss > 3 * baseline(loss, 5000 steps) for 20 steps -> yellow"
    good = "when loss > 3 * baseline(loss, 100 steps) for 20 steps -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        if at.runs is None or not at.runs.count:
            return
        for rule in at.enabled():
            seen = at.runs.rules.get(rule.name)
            if seen is None or seen.known_in or not at.is_own(rule) or self._is_told(seen.lacking, at):
                continue
            text, reason = seen.unknown
            label = f"`{text}` {_SAID.get(reason, f'is {reason}')}" if text else "never known"
            yield self.found(f"`{rule.name}` was never known in these runs ({at.runs.told()})",
                             rule.body.clauses[0].condition.span, label, _WHY.get(reason, "look at it with `vitals explain`"))  # fmt: skip

    def _is_told(self, lacking: Iterable[str], at: Looked) -> bool:
        """Whether it is for want of metrics: that is another finding, or none where they are optional."""
        return any(name not in ("epoch", "tokens") for name in lacking)


class FiredInHealth(Lint):
    """A rule that would have alarmed on runs that are known to be healthy (`--healthy SOURCE…`): a false alarm a time.

    Raise its threshold, lengthen its `for`, or leave out the phase in which such things are normal. Rules that are used are
    told of at their `use`.
    """

    code = "V604"
    logged = ({"loss": ("2 x100, 4 x30, 2 x100", 1)},)
    bad = "when loss > 3 for 20 steps -> orange"
    good = "when loss > 3 for 50 steps -> orange"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        if at.runs is None or not at.runs.healthy:
            return
        by_name = {rule.name: rule for rule in at.enabled()}
        for name, seen in at.runs.rules.items():
            if not seen.healthy:
                continue
            rule = by_name.get(name)
            place = self._guarded(name, at) if rule is None else _place(rule, at)
            times = sum(alarms.times for alarms in seen.healthy)
            runs = f"{len(seen.healthy)} of {at.runs.healthy} healthy run{'s' * (at.runs.healthy != 1)}"
            told = f"`{name}` would have fired {times} time{'s' * (times != 1)} in {runs}"
            first = seen.healthy[0]
            yield self.found(told, place, f"{first.level} at step {first.step} of {first.run}",
                                 *self._more(seen.healthy, rule))  # fmt: skip

    def _more(self, healthy: Sequence[Alarms], rule: rules.Rule | None) -> Iterator[str]:
        others = [f"{a.run} ({a.level} at step {a.step})" for a in healthy[1 : 1 + MOST_SHOWN]]
        if others:
            more = len(healthy) - 1 - len(others)
            yield f"also {', '.join(others)}{f' and {more} more' if more else ''}"
        if rule is None:
            yield "say `allow nonfinite` in its `metric`, if it is not finite in good health"
        else:
            yield "raise its threshold or lengthen its `for`; `vitals explain POLICY RUN --step N` shows the margin"

    def _guarded(self, name: str, at: Looked) -> Span:
        """Where the metric of a guard is declared or first named in the policy's own file, or else the `use` it is from."""
        path = name.removeprefix("nonfinite(").removesuffix(")")
        declared, node = at.scope.metrics.get(path), at.read_here.get(path)
        if declared is not None and at.is_own(declared):
            return declared.span
        return node.span if node is not None else place_of_use(rf"\bas\s+{re.escape(path.split('.')[0])}\b", at)


def _place(rule: rules.Rule, at: Looked) -> Span:
    """A rule's first condition; of one that is used, the text of its `use`."""
    return rule.body.clauses[0].condition.span if at.is_own(rule) else place_of_use(re.escape(rule.origin or "use"), at)


def place_of_use(pattern: str, at: Looked) -> Span:
    """Where a `use` says this; the first one, or else the beginning of the file, where none does."""
    source = at.policy.source
    found = re.search(pattern, source.text) or re.search(r"\buse\b", source.text)
    return source.span(found.start(), found.end()) if found is not None else source.span(0, 0)


class ManyMembers(Lint):
    """`each` over a family of hundreds has a state, and may have an alarm, for each of them.

    Take a number over the family (`max(grad/*)`), or a family of fewer.
    """

    code = "V306"
    logged = ({f"act/{layer}": ("1 x3", 1) for layer in range(MOST_MEMBERS + 1)},)
    bad = 'rule high "an activation is high" each m in act/* { when m > 3 -> yellow }'
    good = 'rule high "an activation is high" { when max(act/*) > 3 -> yellow }'

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for rule in at.enabled() if at.runs is not None else ():
            if rule.each is None or not at.is_own(rule) or at.runs is None:
                continue
            most = max((len(at.logged(rule.each.family.path, run)) for run in at.runs.survey.runs), default=0)
            if most > MOST_MEMBERS:
                yield self.found(f"`{rule.name}` looks at each of {most:,} members", rule.each.family.span, "many",
                                 "take `max` or `any` over the family, or fewer of its members")  # fmt: skip
