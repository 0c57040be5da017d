"""Spans (section 6 of the page): how long a condition has been true, fed one known evaluation at a time."""

from __future__ import annotations

from .values import Part, Span


class Tracker:
    """The span of one condition. Unknown is simply not fed: it neither extends nor resets."""

    def __init__(self, span: Span | None) -> None:
        self.span = span or ()
        self.forget()

    def forget(self) -> None:
        """As if the condition had never been evaluated."""
        self.onset: float | None = None
        self.onset_time: float | None = None
        self.true = 0
        self.known: list[bool] = []
        self.holds = False

    def feed(self, value: bool, step: float, time: float | None) -> bool:
        """Whether the condition holds here for its span; without one, one true evaluation suffices."""
        self.known.append(value)
        if not value:
            self.onset, self.onset_time, self.true, self.holds = None, None, 0, False
            return False
        if self.onset is None:
            self.onset, self.onset_time = step, time
        self.true += 1
        self.holds = all(self._part(part, step, time) for part in self.span)
        return self.holds

    def _part(self, part: Part, step: float, time: float | None) -> bool:
        if part.k is not None:  # k or more of the last n known ones, this one included
            return sum(self.known[-int(part.amount) :]) >= part.k
        if part.unit == "samples":
            return self.true >= part.amount
        if part.unit == "steps":
            assert self.onset is not None
            return step - self.onset + 1 >= part.amount
        if part.unit == "s":
            return time is not None and self.onset_time is not None and time - self.onset_time >= part.amount
        raise NotImplementedError(f"a span in {part.unit}")


def clearing(span: Span | None) -> Span | None:
    """False for as long as its `for`; with `k of n samples`: at max(k, n − k + 1) of the last n known evaluations."""
    if span is None:
        return None
    return tuple(p if p.k is None else Part(p.amount, p.unit, int(max(p.k, p.amount - p.k + 1))) for p in span)
