"""What differs within two statements that are the same one, part by part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vitalsdsl.difference.expressions import in_words, unequal
from vitalsdsl.ground.quoting import quoted as in_quotes
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.formatter import BY_VALUE

Parts = list[tuple[str, str, str]]
"""What each part is called, and its text before and after. Without a text before, that after says all of it."""

_FEW = 2
"""Of so many changed numbers each is told by itself; of more, both conditions are shown."""


def _param(old: Any, new: Any) -> Parts:
    value, value_after = BY_VALUE.text(old.value), BY_VALUE.text(new.value)
    found = [("", value, value_after)] if value != value_after else []
    span, span_after = (_range(p) for p in (old, new))
    return found + ([("range", span, span_after)] if span != span_after else [])


def _range(param: rules.Param) -> str:
    if param.low is None or param.high is None:
        return "anything"
    return f"{BY_VALUE.text(param.low)} .. {BY_VALUE.text(param.high)}"


def _metric(old: Any, new: Any) -> Parts:
    def parts(metric: rules.Metric) -> dict[str, str]:
        return {
            "is logged as": ", ".join(map(quoted, metric.logged)),
            "every": BY_VALUE.text(metric.every) if metric.every is not None else "no cadence",
            "stale after": BY_VALUE.text(metric.stale_after)
            if metric.stale_after is not None
            else "no limit of its own",
            "unit": quoted(metric.unit),
            "reduce": metric.reduce,
            "optional": "yes" if metric.optional else "no",
            "allow nonfinite": "yes" if metric.allow_nonfinite else "no",
        }

    before, after = parts(old), parts(new)
    return [(part, before[part], after[part]) for part in before if before[part] != after[part]]


def _let(old: Any, new: Any) -> Parts:
    found = expression(old.expression, new.expression)
    return found + optional("on", old.on, new.on)


def _event(old: Any, new: Any) -> Parts:
    found = expression(old.condition, new.condition)
    return found + optional("for", old.for_, new.for_) + optional("apart", old.apart, new.apart)


def _phase(old: Any, new: Any) -> Parts:
    return expression(old.condition, new.condition)


def _profile(old: Any, new: Any) -> Parts:
    before, after = ({s.name: BY_VALUE.text(s.value) for s in p.settings} for p in (old, new))
    names = [*before, *(name for name in after if name not in before)]
    changed = [(n, before.get(n, "unset"), after.get(n, "unset")) for n in names if before.get(n) != after.get(n)]
    return changed or [("in the order", ", ".join(before), ", ".join(after))]


def _level(old: Any, new: Any) -> Parts:
    return [("", actions(old.actions), actions(new.actions))]


def _limit(old: Any, new: Any) -> Parts:
    before, after = (f"{limit.count} per {BY_VALUE.text(limit.per)}" for limit in (old, new))
    return [("", before, after)]


def _nonfinite(old: Any, new: Any) -> Parts:
    before, after = (guard.level.word if guard.level is not None else "off" for guard in (old, new))
    found = [("", before, after)] if before != after else []
    before, after = (actions(guard.actions) for guard in (old, new))
    return found + ([("does", before, after)] if before != after else [])


def _axis(old: Any, new: Any) -> Parts:
    return [("", quoted(old.metric), quoted(new.metric))]


def expression(old: ex.Node, new: ex.Node) -> Parts:
    """Two conditions or values: each changed amount by itself where there are few, or the whole of both."""
    if BY_VALUE.text(old) == BY_VALUE.text(new):
        return []
    leaves = unequal(old, new)
    if leaves is None or len(leaves) > _FEW or not all(leaf.is_amount for leaf in leaves):
        return [("is", BY_VALUE.text(old), BY_VALUE.text(new))]
    return [("", "", in_words(leaf)) for leaf in leaves]


def optional(part: str, old: ex.Node | None, new: ex.Node | None) -> Parts:
    """A span, length or name that need not be said."""
    without = {"for": "at once", "on": "at its own pace"}.get(part, f"no {part}")
    before, after = (f"{part} {BY_VALUE.text(node)}" if node is not None else without for node in (old, new))
    return [("", before, after)] if before != after else []


TELLING: dict[type[rules.Statement], Callable[[Any, Any], Parts]] = {
    rules.Param: _param,
    rules.Metric: _metric,
    rules.Let: _let,
    rules.Event: _event,
    rules.Phase: _phase,
    rules.Profile: _profile,
    rules.LevelDefault: _level,
    rules.Limit: _limit,
    rules.Nonfinite: _nonfinite,
    rules.Axis: _axis,
}


def actions(actions: Sequence[rules.Action] | None) -> str:
    """A list of actions as it is written."""
    return ", ".join(map(BY_VALUE.action, actions)) if actions else "nothing of its own"


def quoted(text: str | None) -> str:
    """A text in quotes."""
    return in_quotes(text) if text is not None else "none"
