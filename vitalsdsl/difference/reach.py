"""Which rules a metric, param, let, event or phase reaches."""

from __future__ import annotations

from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.scope import match_family

_BETWEEN = (rules.Let, rules.Event, rules.Phase)


class Reach:
    """The rules of a policy by what they read, through lets, events and phases too.

    >>> from vitalsdsl.policies.policy import load
    >>> policy = load("p", text="param k = 3  let a = k * loss  event e = a > 1  when e and b > 1 -> red").policy
    >>> reach = Reach(policy)
    >>> reach.of("k"), reach.of("b"), reach.of("nothing")
    (('e_red',), ('e_red',), ())
    """

    def __init__(self, policy: rules.Policy) -> None:
        self._families = [
            s.name for s in policy.statements if isinstance(s, (rules.Metric, rules.Let)) and s.family
        ]  # fmt: skip
        self._direct = {s.name: self._named(s) for s in policy.statements if isinstance(s, _BETWEEN)}
        self._rules: dict[str, list[str]] = {}
        for rule in policy.of(rules.Rule):
            for name in self._all(self._named(rule)):
                self._rules.setdefault(name, []).append(rule.name)

    def of(self, name: str) -> tuple[str, ...]:
        """The names of the rules, in their order."""
        return tuple(self._rules.get(name, ()))

    def _named(self, statement: rules.Statement) -> set[str]:
        found = {node.path for node in statement.walk() if isinstance(node, (ex.Name, ex.Family))}
        return found | {f for f in self._families for path in found if match_family(f, path) is not None}

    def _all(self, direct: set[str]) -> set[str]:
        seen: set[str] = set()
        waiting = list(direct)
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += self._direct.get(name, ())
        return seen
