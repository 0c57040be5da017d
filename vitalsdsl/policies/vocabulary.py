"""What a used file defines for those who want it, and this policy does not want."""

from __future__ import annotations

from vitalsdsl.language import rules
from vitalsdsl.language.guards import named
from vitalsdsl.language.renaming import replaced
from vitalsdsl.language.scope import Scope

_PARTS = (rules.Let, rules.Event, rules.Phase)


def without_unnamed(policy: rules.Policy) -> rules.Policy:
    """The policy without the lets, events and phases that came by `use` and that nothing names.

    A pack of shared names would otherwise have every policy that uses it evaluate them all, and guard their metrics. What
    the policy's own file defines stays, named or not.
    """
    scope = Scope.of(policy)
    kept = {id(s) for s in policy.statements if not isinstance(s, _PARTS) or s.span.source is policy.source}
    waiting = [s for s in policy.statements if id(s) in kept]
    while waiting:
        for name in named(waiting.pop()):
            part = scope.part(name)
            if part is not None and id(part) not in kept:
                kept.add(id(part))
                waiting.append(part)
    if len(kept) == len(policy.statements):
        return policy
    return replaced(policy, statements=tuple(s for s in policy.statements if id(s) in kept))
