"""Push: points in, transitions out, a step at a time. The same points give the same transitions however they come."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from vitalsdsl.ground.errors import StateError
from vitalsdsl.ground.points import Row
from vitalsdsl.language import rules
from vitalsdsl.language.rules import Level
from vitalsdsl.nodes import base as nd
from vitalsdsl.planning.plan import Plan
from vitalsdsl.streaming.history import History, OpenStep, Snapshot
from vitalsdsl.streaming.quick import Quick
from vitalsdsl.streaming.state import put_back, state_of
from vitalsdsl.verdicts.verdict import Past, RuleState, Transition
from vitalsdsl.verdicts.wording import describe

logger = logging.getLogger("vitalsdsl")


class Stream:
    """One run under one policy.

    `push` adds points to a step, `close` closes it; a point of a later step closes the one before. Each returns the
    transitions of the steps that it closed. Nothing is shared between streams.

    For rewinds it keeps the last few thousand points; with `keep_all` every one, without `keep_rows` none at all: then
    another stream that is given the run's rows anew must `replace` it. With `only`, it evaluates so many of the rules.
    Without `quick` every step is evaluated node by node: slower, with less memory, and the same.
    """

    def __init__(
        self,
        policy: rules.Policy,
        run: str = "run",
        digest: str = "",
        keep_all: bool = False,
        total_steps: float = math.nan,
        keep_rows: bool = True,
        only: Collection[str] | None = None,
        quick: bool = True,
    ) -> None:
        self.policy = policy
        self._only = only
        self._is_quick = quick
        self.run = run
        self.digest = digest
        self.attempt = 0
        self.late_points = 0
        self.history_lost = False
        self.closed: int | None = None
        self._keep_all = keep_all
        self._keep_rows = keep_rows
        self._total_steps = total_steps
        self._begin()

    def _begin(self) -> None:
        self.plan = Plan(self.policy, self._only)
        if not self._is_quick:
            self.plan.spare()
        self.plan.graph.clock.total_steps = self._total_steps
        self._open: OpenStep | None = None
        self._late: list[tuple[str, float, int, float]] = []
        self._seen: dict[str, float] = {}
        self._history = History(self._keep_all) if self._keep_rows else None
        self._fresh: frozenset[str] | None = None
        self._quick = Quick(self.plan) if self._is_quick else None
        self._lately: tuple[Collection[str], int] = ((), -1)
        """The names of the newest step that went through generated code, which has not been noted in `_seen`."""
        self._touched: list[RuleState] | None = None
        self.closed = None

    def begin_after(self, plan: Plan, clock: nd.Clock, seen: Mapping[str, int]) -> None:
        """Begin at the step after that of a clock, with a plan whose parts stand where they would then; `seen` is the step
        of each logged name's newest point."""
        for name in nd.Clock.__slots__:
            setattr(plan.graph.clock, name, getattr(clock, name))
        self.plan, self.closed, self._seen = plan, clock.step, dict(seen)
        self._quick = Quick(plan) if self._is_quick else None
        if not self._is_quick:
            plan.spare()

    @property
    def total_steps(self) -> float:
        """How many steps the run plans, as far as that is known beside its points; NaN where it is not."""
        return self._total_steps

    @total_steps.setter
    def total_steps(self, steps: float) -> None:
        self._total_steps = steps
        if steps == steps:
            self.plan.graph.clock.total_steps = steps

    @property
    def level(self) -> Level:
        """The highest level of the run's rules."""
        return max((rule.level for rule in self.plan.rules), default=Level.GREEN)

    @property
    def newest_step(self) -> int | None:
        """The step that is open, or else the one that closed last."""
        return self._open.step if self._open is not None else self.closed

    @property
    def names(self) -> Collection[str]:
        """The names under which something was logged in the steps that have closed."""
        return self._seen.keys()

    @property
    def code(self) -> Mapping[tuple[str, ...], str]:
        """The Python that was written for steps with certain names."""
        return {} if self._quick is None else self._quick.sources

    # ---------------------------------------------------------------- points

    def push(self, values: Mapping[str, float], step: int, time: float = math.nan) -> list[Transition]:
        """Points of one step. A later step than the open one closes that; an earlier one is late."""
        out: list[Transition] = []
        opened = self._open
        if opened is None or step != opened.step:
            if opened is not None and step < opened.step or self.closed is not None and step <= self.closed:
                self._push_late(values, step, time)
                return out
            if opened is not None:
                out = self.close()
            if not self._late:
                opened = self._open = OpenStep(step, time, dict(values))
                opened.time = time
                return out
            opened = self._open = OpenStep(step, time)
            for name, value, own, at in self._late:
                opened.add(name, value, own, at)
            self._late.clear()
        if not values and time == time:
            opened.time = time if opened.time != opened.time else max(opened.time, time)
        opened.extend(values, time)
        return out

    def _push_late(self, values: Mapping[str, float], step: int, time: float) -> None:
        """A point whose step has closed counts at the step now open if it is its metric's newest; else it is counted."""
        self._note_seen()
        for name, value in values.items():
            newest = self._seen.get(name, -math.inf)
            if self._open is not None and name in self._open.values:
                newest = max(newest, self._open.values[name][1])
            newest = max([newest, *(own for other, _, own, _ in self._late if other == name)])
            if step <= newest:
                self.late_points += 1
            elif self._open is not None:
                self._open.add(name, value, step, time)
            else:
                self._late.append((name, value, step, time))

    @contextlib.contextmanager
    def many(self, names: Collection[str]) -> Iterator[None]:
        """While it is given many steps at once, most of them with these names: generated code takes them in where the stream
        has none, and is given back after. What comes of it is the same."""
        if self._is_quick or self.closed is None:
            yield
            return
        self._is_quick, self._quick = True, Quick(self.plan)
        self._history = self._history or History(keep_all=False)
        self._history.begin_at(Snapshot(self.closed, self._state(to_keep=True)))
        if self._seen.keys() >= set(names):
            self._quick.expect(names)
        try:
            yield
        finally:
            self._stand_aside()
            self._is_quick, self._quick = False, None
            if not self._keep_rows:
                self._history = None

    def close(self) -> list[Transition]:
        """Close the open step: everything is evaluated here, never in between."""
        opened, self._open = self._open, None
        if opened is None:
            return []
        transitions = self._evaluate(opened)
        if self._history is not None:
            self._history.add(opened)
            if self._history.wants_snapshot:
                self._history.take(Snapshot(opened.step, self._state(to_keep=True)))
        return transitions

    def finish(self) -> list[Transition]:
        """The end of the run: closes the open step."""
        return self.close()

    def _evaluate(self, opened: OpenStep) -> list[Transition]:
        plan, clock = self.plan, self.plan.graph.clock
        step, time = opened.step, opened.time
        out = self.tick(opened.began) if plan.graph.stalled else []
        for node in plan.graph.stalled:
            node.now = False
        if clock.time == clock.time and not time >= clock.time:
            time = clock.time
        clock.step, clock.time = step, time
        if clock.first_step is None:
            clock.first_step = step
        if clock.first_time != clock.first_time:
            clock.first_time = time
        before, self.closed = self.closed, step
        if self._quick is not None:
            layout = self._quick.layout(opened.plain) if opened.plain is not None else None
            if layout is not None and opened.plain is not None:
                if layout.is_stale:
                    self._note_seen()
                self._lately = opened.plain, step
                try:
                    touched = self._touched = self._quick.step(layout, step, time, opened.plain) or []
                except Exception as error:  # ours, and the graph can do without it
                    return out + self._go_on_without(error, before, opened)
                return out + self._settle(touched, step, time) if touched else out
            self._stand_aside()
        fresh = self._fresh = self._take_in(opened, step, time)
        self._touched = None
        for due in plan.graph.schedule(fresh):
            due.run(step, time)
        for reference in plan.graph.references:
            reference.close(step, time)
        return out + self._settle(plan.rules, step, time)

    def _go_on_without(self, error: Exception, before: int | None, opened: OpenStep) -> list[Transition]:
        """Generated code has failed with a step half taken in: from the points that are kept, have the graph do it, and all
        steps to come. Raises the error where none are kept."""
        assert self._quick is not None
        where = self._quick.failed_at(error)
        if self._history is None or before is None:
            logger.error("vitals: evaluation failed at `%s`, step %s of run %s", where, opened.step, self.run)
            raise error
        logger.warning(
            "vitals: generated code failed at `%s`, step %s of run %s; the rules go on without it",
            where, opened.step, self.run, exc_info=error,
        )  # fmt: skip
        self._is_quick = False
        self._restart(before)
        return self._evaluate(opened)

    def _stand_aside(self) -> None:
        """Have the graph take over from what was generated."""
        if self._quick is not None:
            self._quick.stand_aside()
        self._note_seen()

    def _note_seen(self) -> None:
        names, step = self._lately
        if names:
            self._seen.update(dict.fromkeys(names, step))
            self._lately = (), step

    def _take_in(self, opened: OpenStep, step: int, time: float) -> frozenset[str]:
        """Hand the step's values to the metrics that they feed; which metrics have a point."""
        plan, seen = self.plan, self._seen
        new = [name for name in opened.values if name not in seen]
        if new:
            seen.update(dict.fromkeys(new, -math.inf))
            plan.see_names(new)
            if self._quick is not None:
                self._quick.forget()
        fresh = []
        counters = plan.graph.clock.counters
        for name, (value, own) in opened.values.items():
            if own > seen[name]:
                seen[name] = own
            for intake in plan.metrics.routes.get(name, ()):
                if intake.bound is None:
                    intake.bound = next(n for n in intake.names if n in opened.values)
                if intake.bound != name:
                    continue
                if name in opened.repeats:
                    value = intake.take(opened.repeats[name])
                if intake.is_counter:
                    counters[intake.metric.name] = value
                else:
                    intake.metric.receive(step, time, value, own)
                    fresh.append(intake.metric.name)
        return frozenset(fresh)

    def _settle(self, touched: Iterable[RuleState], step: int, time: float) -> list[Transition]:
        changed = []
        for rule in touched:
            change = rule.settle()
            if change is not None:
                changed.append((rule, change))
        if not changed:
            return []
        changed.sort(key=lambda pair: _place(pair[0]))
        return [describe(self, rule, change, step, time) for rule, change in changed]

    def bring_up(self, node: nd.Node, step: int, time: float) -> None:
        """Have what stands below a condition say what is so at this step: below an event or let that the step did not
        call for stands what that saw last. What was evaluated stays as it was."""
        graph = self.plan.graph
        if self._touched is not None and self._quick is not None:
            left = self._quick.behind(node)
        else:
            left = graph.behind(node, set(graph.silent() if self._fresh is None else graph.due(self._fresh)))
        for each in left:
            each.run(step, time)

    # ---------------------------------------------------------------- the clock

    def tick(self, now: float) -> list[Transition]:
        """Wall time goes by without a step: `stalled` is looked at once more, at the newest closed step."""
        clock = self.plan.graph.clock
        if self.closed is None or clock.time != clock.time:
            return []
        silent = now - clock.time
        due = [node for node in self.plan.graph.stalled if not node.now and silent >= node.limit]
        if not due:
            return []
        for node in due:
            node.now = True
        self._stand_aside()
        self._fresh = self._touched = None
        for each in self.plan.graph.silent():
            each.run(clock.step, clock.time)
        return self._settle(self.plan.rules, clock.step, clock.time)

    # ---------------------------------------------------------------- going back

    def rewind(self, to: int) -> list[Transition]:
        """The run went back to a step: from here on it is as if no later point had been seen."""
        out = self.close()
        self.attempt += 1
        if self.closed is None or to >= self.closed:
            return out
        before = self._standing()
        self._restart(to)
        return out + self._differences(before, to)

    def replace(self, old: Stream, to: int) -> list[Transition]:
        """Take the place of a stream that did not keep its rows: its run went back to a step, and this one has been
        given the run's rows up to there again. What changed thereby, and by the old stream's last step."""
        self.close()
        out = old.close()
        self.attempt = old.attempt + 1
        return out + self._differences(old._standing(), to)

    def _standing(self) -> dict[tuple[str, str | None], RuleState]:
        return {(rule.name, rule.member): rule for rule in self.plan.rules}

    def _differences(self, before: Mapping[tuple[str, str | None], RuleState], to: int) -> list[Transition]:
        out, after = [], self._standing()
        for key, rule in sorted(before.items(), key=lambda pair: _place(pair[1])):
            now = after.get(key)
            level = now.level if now is not None else Level.GREEN
            if rule.level != level:
                onset = now.onset if now is not None else None
                out.append(self._superseded(rule.name, rule.member, rule.level, level, onset, to))
        return out

    def take_up(self, past: Past, step: int) -> list[Transition]:
        """A run that was watched before goes on at a step, here: at or before its newest change that is an attempt of
        its own. A rule that stood at another level than it has here comes to this one, at the step before."""
        self.attempt = max(self.attempt, past.attempt + (step <= past.step))
        known, out = self._standing(), []
        for key, before in past.levels.items():
            rule = known.get(key)
            level, onset = (rule.level, rule.onset) if rule is not None else (Level.GREEN, None)
            if level != before:
                out.append(self._superseded(*key, before, level, onset, step - 1))
        return out

    def reads(self, names: Iterable[str]) -> bool:
        """Whether one of the logged names is read by the policy."""
        return any(self.plan.metrics.reads(name) for name in names)

    def newest(self, name: str) -> float:
        """The step of the newest closed point of a logged name."""
        self._note_seen()
        return self._seen.get(name, -math.inf)

    def _superseded(
        self, rule: str, member: str | None, before: Level, level: Level, onset: int | None, step: int
    ) -> Transition:
        return Transition(
            self.run, self.attempt, rule, member, step, onset, before, level, "superseded",
            f"as it was at step {step}", policy=self.policy.name or "", digest=self.digest,
            time=self.plan.graph.clock.time,
        )  # fmt: skip

    def _restart(self, to: int) -> None:
        """From the newest snapshot at or before a step, go through the points that came after it."""
        past = self._history.up_to(to) if self._history is not None else None
        self._begin()
        if past is None:
            self.history_lost = True
            return
        if past.newest is not None:
            self._restore(past.newest.state)
        self._history = past
        for row in past.after(past.newest):
            self._evaluate(row)

    # ---------------------------------------------------------------- state

    def save(self) -> dict[str, Any]:
        """Everything that this stream remembers, as plain data that JSON can hold (NaN and Infinity as Python writes
        them). The open step is part of it. Points kept for rewinds are not: a restored stream keeps them anew."""
        opened = self._open
        return {
            "version": 1,
            "digest": self.digest,
            "attempt": self.attempt,
            "late_points": self.late_points,
            "late": [list(late) for late in self._late],
            "open": None if opened is None else [
                opened.step, opened.began, opened.time, {k: list(v) for k, v in opened.values.items()}, opened.repeats
            ],
            "state": self._state(),
        }  # fmt: skip

    def load(self, saved: Mapping[str, Any]) -> None:
        """Take up a state that `save` gave, for the same policy; after it everything goes on as if never interrupted."""
        try:
            if saved["version"] != 1:
                raise StateError(f"saved rule state of version {saved['version']}: this is version 1")
            if saved["digest"] != self.digest:
                raise StateError("saved rule state belongs to another policy: its digest differs")
            self._begin()
            self._restore(saved["state"])
            self.attempt = saved["attempt"]
            self.late_points = saved["late_points"]
            self._late = [(late[0], late[1], late[2], late[3]) for late in saved["late"]]
            if saved["open"] is not None:
                step, began, time, values, repeats = saved["open"]
                opened = self._open = OpenStep(step, began)
                opened.time, opened.repeats = time, repeats
                opened.values.update({name: (value[0], value[1]) for name, value in values.items()})
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
            raise StateError("saved rule state is damaged") from error
        if self.closed is not None and self._history is not None:
            self._history.begin_at(Snapshot(self.closed, self._state(to_keep=True)))

    def _state(self, to_keep: bool = False) -> dict[str, Any]:
        """As plain data, or else to be kept in this process."""
        self._note_seen()
        if self._quick is not None:
            self._quick.hand_over()
        return {"closed": self.closed, "seen": dict(self._seen), **state_of(self.plan, to_keep)}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.closed, self._seen = state["closed"], dict(state["seen"])
        if not isinstance(self.closed, (int, type(None))):
            raise TypeError(self.closed)
        self.plan.see_names(list(self._seen))
        put_back(self.plan, state)
        self.total_steps = self._total_steps

    def push_row(self, row: Row) -> list[Transition]:
        return self.push(row.values, row.step, row.time)


def _place(rule: RuleState) -> tuple[int, str]:
    return rule.index, rule.member or ""
