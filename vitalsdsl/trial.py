"""Trial: a policy over recorded runs, for what its lints ask of them: which rules are ever known, and which alarm."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vitalsdsl.columns.batch import Batch
from vitalsdsl.ground.points import Rewind, Row, RunInfo
from vitalsdsl.ground.survey import Surveyor
from vitalsdsl.language import rules
from vitalsdsl.lints.runs import Alarms, RuleSeen, Runs
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes.table import Table
from vitalsdsl.planning.sight import Sight
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.verdicts.verdict import RuleState, Transition

Unknown = tuple[str, str]


class Trial:
    """Takes runs one after the other, each in one pass, and keeps of each only what lints ask.

    >>> from vitalsdsl.policies.policy import load
    >>> trial = Trial(load("p", text="when loss > 3 -> red when mean(loss, 900 steps) > 9 -> red").policy)
    >>> trial.take(RunInfo("a"), [Row(step, {"loss": 4.0}) for step in range(50)], healthy=True)
    >>> for name, seen in trial.result().rules.items():
    ...     print(name, seen.known_in, seen.unknown, [(a.times, a.step, a.level) for a in seen.healthy])
    loss_red 1 ('', '') [(1, 0, 'red')]
    loss_red_2 0 ('mean(loss, 900 steps)', 'warming') []
    """

    def __init__(self, policy: rules.Policy) -> None:
        self._policy = policy
        self._batch = Batch(policy)
        self._surveyor = Surveyor()
        self._names = [rule.name for rule in policy.of(rules.Rule) if not rule.body.disabled]
        self._known = dict.fromkeys(self._names, 0)
        self._unknown: dict[str, Unknown] = {}
        self._alarms: dict[str, list[Alarms]] = {}
        self._healthy = 0

    def take(self, info: RunInfo, events: Iterable[Row | Rewind], healthy: bool = False) -> None:
        """One run, `healthy` or of whatever kind."""
        for _ in self.going_through(info, events, healthy):
            pass

    def going_through(
        self, info: RunInfo, events: Iterable[Row | Rewind], healthy: bool = False
    ) -> Iterator[Row | Rewind]:
        """As `take`, and each event is handed on once it has been looked at: for those who show how far it is."""
        if isinstance(events, Sequence):
            yield from self._surveyor.going_through(info, events)
            if self._in_columns(info, events, healthy):
                return
            for _ in self._step_by_step(info, events, healthy):
                pass
        else:
            yield from self._step_by_step(info, self._surveyor.going_through(info, events), healthy)

    def _in_columns(self, info: RunInfo, events: Sequence[Row | Rewind], healthy: bool) -> bool:
        """A run that is in memory, from whole columns; step by step only for the reasons of what was never known. False
        where columns do not say enough."""
        table = Table.of(events)
        known = self._batch.looked(table, info.total_steps) if table is not None and len(table) else None
        if known is None:
            return False
        risen = []
        if healthy:
            told = self._batch.transitions(events, info.name, info.total_steps, table, wordless=True)
            risen = [t for t in told if t.to > t.from_]
        waiting = [name for name in self._names if name not in known]
        stream = Stream(
            self._policy, info.name, total_steps=info.total_steps, only=waiting, keep_rows=False, quick=False
        )
        if waiting:
            for event in events:
                assert isinstance(event, Row)  # a run that goes back has no table
                stream.push_row(event)
            stream.finish()
        self._count(info, stream, set(waiting), risen, healthy)
        return True

    def _step_by_step(self, info: RunInfo, events: Iterable[Row | Rewind], healthy: bool) -> Iterator[Row | Rewind]:
        # Node by node: whether a condition is known is asked at every step, whatever surely stays green.
        stream = Stream(self._policy, info.name, total_steps=info.total_steps, keep_all=True, quick=False)
        waiting, risen = set(self._names), list[Transition]()
        for event in events:
            new = stream.rewind(event.step) if isinstance(event, Rewind) else stream.push_row(event)
            risen += [t for t in new if healthy and t.to > t.from_]
            if waiting:
                self._look(stream, waiting)
            yield event
        risen += [t for t in stream.finish() if healthy and t.to > t.from_]
        if stream.closed is None:
            return
        self._look(stream, waiting)
        self._count(info, stream, waiting, risen, healthy)

    def _count(self, info: RunInfo, stream: Stream, waiting: set[str], risen: list[Transition], healthy: bool) -> None:
        """A run has been gone through; `waiting` are the rules of which no condition was ever known."""
        for name in self._names:
            self._known[name] += name not in waiting
        for state in stream.plan.rules:
            if state.name in waiting:
                self._unknown[state.name] = _why(state)
        self._healthy += healthy
        self._add(info, risen)

    def _look(self, stream: Stream, waiting: set[str]) -> None:
        for state in stream.plan.rules:
            if state.name in waiting and (state.gate is None or state.gate.value):
                if any(clause.condition.value is not None for clause in state.clauses):
                    waiting.discard(state.name)

    def _add(self, info: RunInfo, risen: list[Transition]) -> None:
        of_rule: dict[str, list[Transition]] = {}
        for transition in risen:
            of_rule.setdefault(transition.rule, []).append(transition)
        for name, found in of_rule.items():
            times = sum(t.from_ == rules.Level.GREEN for t in found)
            level = max(t.to for t in found).word
            self._alarms.setdefault(name, []).append(Alarms(info.label, max(times, 1), found[0].step, level))

    def result(self) -> Runs:
        """What the runs taken so far say."""
        survey = self._surveyor.result()
        sight = Sight(self._policy, survey.metrics)
        seen = {}
        for rule in self._policy.of(rules.Rule):
            if not rule.body.disabled:
                known, healthy = self._known[rule.name], tuple(self._alarms.get(rule.name, ()))
                unknown = ("", "") if known else self._unknown.get(rule.name, ("", ""))
                seen[rule.name] = RuleSeen(known, unknown, sight.lacking(rule), healthy)
        guards = {name: RuleSeen(healthy=tuple(found)) for name, found in self._alarms.items() if name not in seen}
        return Runs(survey, {**seen, **guards}, self._healthy)


def _why(state: RuleState) -> Unknown:
    """The innermost of what is unknown in a rule's first condition, and the reason."""
    if state.gate is not None and not state.gate.value:
        return f"phase {state.gate.text}", "never on"
    if not state.clauses:
        return "", ""
    node: nd.Node = state.clauses[0].condition
    for _ in range(100):
        inner = next((n for n in node.inputs if n.is_unknown and not isinstance(n, nd.Constant)), None)
        if inner is None:
            break
        node = inner
    return node.text, node.why().value
