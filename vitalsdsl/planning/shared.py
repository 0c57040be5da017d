"""What all plans of one policy have in common: a process that watches hundreds of runs has hundreds of plans of few."""

from __future__ import annotations

import weakref
from typing import Any, TypeVar

from vitalsdsl.language import rules
from vitalsdsl.language.scope import Scope

T = TypeVar("T")


class Shared:
    """The names of one policy, and what is fixed in it: of things that look alike all plans have the same one.

    >>> from vitalsdsl.policies.policy import load
    >>> policy = load("p", text="when loss > 3 -> yellow").policy
    >>> shared = Shared.of(policy)
    >>> Shared.of(policy) is shared, shared.same((500.0, "steps")) is shared.same((500.0, "steps"))
    (True, True)
    """

    def __init__(self, policy: rules.Policy) -> None:
        self.scope = Scope.of(policy)
        self._kept: dict[str, Any] = {}

    @classmethod
    def of(cls, policy: rules.Policy) -> Shared:
        """That of a policy, for as long as there is this."""
        found = _known.get(id(policy))
        if found is None:
            found = _known[id(policy)] = cls(policy)
            weakref.finalize(policy, _known.pop, id(policy), None)
        return found

    def same(self, value: T) -> T:
        """A thing that nothing changes, as the first plan had it: what is written alike is alike, 1 and 1.0 are not."""
        found: T = self._kept.setdefault(repr(value), value)
        return found

    def rules(self, known: dict[str, rules.Rule]) -> dict[str, rules.Rule]:
        """Rules by their names, likewise: the names say which they are."""
        found: dict[str, rules.Rule] = self._kept.setdefault(f"rules {list(known)!r}", known)
        return found


_known: dict[int, Shared] = {}
