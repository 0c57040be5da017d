"""A reference that learns the trouble before the rule can fire, and a `k of n` that flaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.lints.base import Lint, Looked
from vitalsdsl.lints.looked import conjuncts

_REFERENCES = ("usual", "noise")


class Relearning(Lint):
    """A frozen reference lets the new level in after 4 x its window, or twice the `for` of the event it stands in.

    A rule that waits longer on such an event (`when spike for 3000 steps`, of a `usual` over 500) never fires: by then the
    spike is what is usual. Put the `for` on the event, or take a longer window. And `for 2 of 3 samples` fires and clears
    on single points: take a longer n.
    """

    code = "V211"
    bad = "event spike = loss > 1.5 * usual(loss, 500 steps)\nwhen spike for 3000 steps -> orange"
    good = "event spike = loss > 1.5 * usual(loss, 500 steps)\nwhen spike for 1000 steps -> orange"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for rule, clause in at.clauses:
            span = clause.for_
            if span is None:
                continue
            for part in conjuncts(clause.condition):
                event = at.scope.events.get(part.path) if isinstance(part, ex.Name) and not part.quoted else None
                if event is not None:
                    yield from self._event(event, span, at)
            if (span.k, span.n) == (2, 3) and rule.body.clear is None:
                yield self.found("2 of 3 fires and clears on single points", span.span, "it flaps",
                                 "write `4 of 6 samples`, or give the rule a `clear for`")  # fmt: skip

    def _event(self, event: rules.Event, waits: ex.For, at: Looked) -> Iterator[Diagnostic]:
        references = [n for n in event.condition.walk() if isinstance(n, ex.Call) and n.function in _REFERENCES]
        for length in waits.lengths:
            extent = at.extent(length)
            for node in references:
                window = at.window(node)
                if window is None or extent is None or window[1] != extent[1] or "unless" in at.given(node):
                    continue
                frozen = max(4 * window[0], 2 * (at.lasts(event.for_, extent[1]) or 0.0))
                if extent[0] > frozen:
                    unit = "s" if extent[1] == "time" else extent[1]
                    yield self.found(
                        f"`{expression_text(node)}` in `{event.name}` has learnt the trouble before this fires",
                        length.span, f"frozen for {frozen:g} {unit} at most",
                        f"put the `for` on the event, or take a window of {-(-extent[0] // 4):g} {unit} or more",
                    )  # fmt: skip
                    return
