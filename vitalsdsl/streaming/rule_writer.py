"""Writes the lines in which conditions are compared, and in which those who look at them are told."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from vitalsdsl.streaming.followers import Onlookers, Unit
from vitalsdsl.streaming.glance import Glance
from vitalsdsl.streaming.intake_writer import if_
from vitalsdsl.verdicts.verdict import RuleState


class RuleWriter:
    """Writes them for one function. `bind` gives a value a name there; each of the `units` is a rule."""

    def __init__(self, bind: Callable[[str, Any], str], glance: Glance, units: Sequence[Unit]) -> None:
        self._bind = bind
        self._glance = glance
        self._units = units
        self._written: set[str] = set()
        """What has a line already, of that which is worked out before it is compared."""
        self._restless: list[str] = []
        self._still: list[str] = []
        """The names of the steps up to which rules need not be told again."""
        self._inside: list[str] = []
        """The names of what gates say."""
        self.was: list[str] = []
        """The names of what conditions were when they were told last."""

    def test(self, n: int, unit: Unit) -> list[str]:
        """The lines of a rule: it is looked at where its conditions are not surely false or unknown."""
        rule = unit.rule
        lines = [f"# {rule.name}" if rule.member is None else f"# {rule.name}: {rule.member}"]
        run = self._bind(f"unit_{n}", unit.run)
        if unit.quiet is None:
            return [*lines, f"{run}(step, time)"]
        self._restless.append(f"awake_{n} = {self._bind(f'restless_{n}', unit.is_restless)}()")
        lines += self._worked_out(unit.quiet, *(test for said in unit.said for test in (said.true, said.false)))
        if rule.gate is not None:
            lines += self._at_gate(n, rule, f"awake_{n} = True", *([f"still_{n} = -1"] if unit.said else []))
        inside = f"inside_{n} and " if unit.waits_outside else ""
        return [*lines, *if_(f"awake_{n} or {inside}not ({unit.quiet})", *self._look(n, unit))]

    def _look(self, n: int, unit: Unit) -> list[str]:
        """What each of its conditions is, where that is sure, it is told; again only where that may change anything. Else it
        is evaluated."""
        evaluate = f"awake_{n} = unit_{n}(step, time)"
        if not unit.said:
            return [evaluate]
        see = self._bind(f"see_{n}", unit.see)
        places = [str(n)] if len(unit.said) == 1 else [f"{n}_{place}" for place in range(1, len(unit.said) + 1)]
        self._still.append(f"still_{n}")
        self.was += [f"was_{at}" for at in places]
        surely = " and ".join(f"(is_{at} or {each.false})" for at, each in zip(places, unit.said))
        moved = " or ".join([f"step > still_{n}", *(f"was_{at} is not is_{at}" for at in places)])
        return [
            *(f"is_{at} = {each.true}" for at, each in zip(places, unit.said)),
            *if_(f"not ({surely})", evaluate, f"still_{n} = -1"),
            f"elif {moved}:",
            *(f"    was_{at} = is_{at}" for at in places),
            f"    awake_{n}, still_{n} = {see}(step, time, {', '.join(f'is_{at}' for at in places)})",
        ]

    def wake(self, young: Sequence[str]) -> list[str]:
        """The lines that have all rules looked at which rest on certain windows: for one of them it is no longer too early."""
        rest = [n for n, unit in enumerate(self._units) if unit.quiet and any(each in unit.quiet for each in young)]
        awake, still = [f"awake_{n}" for n in rest], [f"still_{n}" for n in rest if self._units[n].said]
        return [f"{' = '.join(names)} = {value}" for names, value in ((awake, True), (still, -1)) if names]

    def tell(self, n: int, onlookers: Onlookers) -> list[str]:
        """The lines of those who look at a condition that is no rule's: they are told at each step."""
        surely = onlookers.said
        assert surely is not None
        tell, look = self._bind(f"tell_{n}", onlookers.are_told), self._bind(f"look_{n}", onlookers.look)
        return [
            *self._worked_out(surely.false, surely.true),
            f"# {onlookers.roots[0].text}",
            *if_(surely.false, f"{tell}(step, time, False)"),
            *if_(surely.true, f"{tell}(step, time, True)", word="elif"),
            *if_("", f"{look}(step, time)", word="else"),
        ]

    def restart(self) -> list[str]:
        """The lines for a step before which something else has come, once all others are written."""
        return [
            *self._restless,
            *([f"{' = '.join(self._still)} = -1"] if self._still else []),
            *([f"{' = '.join(self._inside)} = True"] if self._inside else []),  # a gate that is shut is looked at
        ]

    def touch_at_gate(self, n: int, rule: RuleState) -> list[str]:
        """The lines of a rule of which no condition is due: its phase may begin or end all the same."""
        return [f"# {rule.name}", *self._at_gate(n, rule, f"touched.append({self._bind(f'rule_{n}', rule)})")]

    def _at_gate(self, n: int, rule: RuleState, *then: str) -> list[str]:
        """Where a rule's phase begins or ends."""
        gate = self._bind(f"gate_{n}", rule.gate)
        self._inside.append(f"inside_{n}")
        return if_(f"inside_{n} is not {gate}.value", f"inside_{n} = {gate}.value", *then)

    def _worked_out(self, *tests: str) -> list[str]:
        """The lines for what tests compare that has to be worked out before."""
        lines: list[str] = []
        for name, code in self._glance.lines.items():
            if name not in self._written and any(re.search(rf"\b{name}\b", test) for test in tests):
                self._written.add(name)
                lines += [*self._worked_out(code), f"{name} = {code}"]
        return lines
