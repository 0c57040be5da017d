"""What a policy says about acting: read once, so that deciding is looking up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from vitalsdsl.actions.base import Effect, registry
from vitalsdsl.actions.reading import Asked, Params, asked, default_actions, read_actions
from vitalsdsl.ground.diagnostic import Diagnostic, Severity
from vitalsdsl.ground.types import EPOCHS, STEPS, TIME, TOKENS, Extent
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.formatter import AS_WRITTEN
from vitalsdsl.language.rules import Level

_UNITS = {"steps": STEPS, "epochs": EPOCHS, "tokens": TOKENS} | dict.fromkeys(ex.SECONDS, TIME)


class Provision(NamedTuple):
    """What one rule says about acting. `rungs` are its own actions by clause and rung, where it names any."""

    shadow: bool = False
    cooldown: Extent | None = None
    inhibited_by: tuple[str, ...] = ()
    rungs: Mapping[tuple[int, int], tuple[Asked, ...]] = MappingProxyType({})
    statement: rules.Rule | None = None


@dataclass(frozen=True)
class Budget:
    """`limit rollback 3 per 10000 steps`."""

    action: str
    count: int
    per: Extent
    text: str


GUARD = "nonfinite("
"""How the names of the built-in rules begin."""

NO_PROVISION = Provision()


class Provisions:
    """A policy, as far as it is about acting; `diagnostics` is what is wrong with that part of it.

    Which actions a transition asks for: those of its rung, else of its level by `level … do`, else the level's default.
    The guard's are alert and tag, and what `nonfinite -> … do` adds. What changes the run is never done in silence:
    alert and tag go with pause, rollback, stop and lr even where a `do` leaves them out.
    """

    def __init__(self, policy: rules.Policy) -> None:
        self.diagnostics: list[Diagnostic] = []
        self._params: Params = {param.name: param for param in reversed(policy.of(rules.Param))}
        self.levels = {level: default_actions(level) for level in Level}
        for level_default in reversed(policy.of(rules.LevelDefault)):
            self.levels[level_default.level] = self._announced(self._actions(level_default.actions))
        self.rules = self._rules(policy.of(rules.Rule))
        self.budgets = tuple(b for b in map(self._budget, policy.of(rules.Limit)) if b is not None)
        guard = next(iter(policy.of(rules.Nonfinite)), None)
        self.guard = self._announced(self._actions(guard.actions or ()) if guard is not None else ())
        self.guard += tuple(a for a in (asked("alert"), asked("tag")) if a.name not in {x.name for x in self.guard})

    @property
    def channels(self) -> frozenset[str]:
        """The channels that it names."""
        rungs = (actions for provision in self.rules.values() for actions in provision.rungs.values())
        asked = (a for actions in (*rungs, *self.levels.values(), self.guard) for a in actions)
        return frozenset(a.arguments["channel"] for a in asked if a.action.effect is Effect.NOTIFY)

    def of(self, rule: str) -> Provision:
        return self.rules.get(rule, NO_PROVISION)

    def actions(self, rule: str, level: Level, clause: int, rung: int) -> tuple[Asked, ...]:
        """What the level that a rule has come to asks for; `clause` and `rung` are those that brought it there."""
        if level is Level.GREEN:
            return ()
        if rule not in self.rules and rule.startswith(GUARD):
            return self.guard
        own = self.of(rule).rungs.get((clause, rung))
        return own if own is not None else self.levels[level]

    def shows(self, rule: str, level: Level, clause: int, rung: int) -> bool:
        """Whether a rule shows in the run's tags at the level that it has come to."""
        if self.of(rule).shadow:
            return False
        return any(a.action.effect is Effect.TAG for a in self.actions(rule, level, clause, rung))

    # ---------------------------------------------------------------- reading

    def _rules(self, statements: tuple[rules.Rule, ...]) -> dict[str, Provision]:
        inhibitors: dict[str, list[str]] = {}
        for rule in statements:
            if rule.body.shadow or rule.body.disabled:
                continue
            for name in rule.body.inhibits or ():
                if name.path != rule.name:
                    inhibitors.setdefault(name.path, []).append(rule.name)
        return {rule.name: self._provision(rule, tuple(inhibitors.get(rule.name, ()))) for rule in statements}

    def _provision(self, rule: rules.Rule, inhibited_by: tuple[str, ...]) -> Provision:
        body = rule.body
        own: dict[tuple[int, int], tuple[Asked, ...]] = {}
        for clause_at, clause in enumerate(body.clauses):
            for rung_at, rung in enumerate(clause.rungs):
                if rung.actions is not None:
                    own[clause_at, rung_at] = self._announced(self._actions(rung.actions))
        cooldown = self._extent(body.cooldown, "a cooldown") if body.cooldown is not None else None
        return Provision(body.shadow, cooldown, inhibited_by, own, statement=rule)

    def _actions(self, actions: tuple[rules.Action, ...]) -> tuple[Asked, ...]:
        found, diagnostics = read_actions(actions, self._params)
        self.diagnostics += diagnostics
        return found

    @staticmethod
    def _announced(actions: tuple[Asked, ...]) -> tuple[Asked, ...]:
        if not any(a.action.announced for a in actions):
            return actions
        named = {a.name for a in actions}
        return tuple(asked(name) for name in ("alert", "tag") if name not in named) + actions

    def _budget(self, limit: rules.Limit) -> Budget | None:
        if limit.action not in registry():
            action = rules.Action.build(limit.span, name=limit.action)
            self.diagnostics += [
                Diagnostic(d.code, d.severity, d.message, limit.span, d.label, d.help)
                for d in read_actions((action,))[1]
            ]
            return None
        per = self._extent(limit.per, "a limit")
        text = f"{limit.count} {limit.action} per {AS_WRITTEN.text(limit.per)}"
        return Budget(limit.action, limit.count, per, text) if per is not None else None

    def _extent(self, written: ex.Expression, what: str) -> Extent | None:
        value = written
        if isinstance(value, ex.Name) and value.path in self._params:
            value = self._params[value.path].value
        if isinstance(value, ex.Length) and value.unit in _UNITS:
            return Extent(value.size, _UNITS[value.unit])
        text = AS_WRITTEN.text(written)
        label = "samples of what?" if isinstance(value, ex.Length) else ""
        message = f"{what} is a number of steps, epochs or tokens, or a time, not `{text}`"
        self.diagnostics.append(
            Diagnostic("V084", Severity.ERROR, message, written.span, label, ("such as `500 steps` or `6 h`",))
        )
        return None
