"""What a policy does, in plain English: the actions of each level, whom they reach, and what holds them back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vitalsdsl.acting.provisions import Provisions
from vitalsdsl.actions.base import Effect
from vitalsdsl.actions.reading import Asked
from vitalsdsl.language import rules
from vitalsdsl.language.formatter import AS_WRITTEN
from vitalsdsl.language.rules import Level


def of_rule(rule: rules.Rule, provisions: Provisions) -> list[str]:
    """What becomes of a rule's levels, sentence by sentence; nothing where it never acts.

    >>> from vitalsdsl.language.parser import parse
    >>> from vitalsdsl.ground.source import Source
    >>> text = 'rule hot { when loss > 3 -> red do notify("ops"), pause cooldown 50 steps }'
    >>> policy = parse(Source("p", text)).policy
    >>> print(*of_rule(policy.of(rules.Rule)[0], Provisions(policy)), sep="\\n")
    On red: alert, tag, notify("ops"), ask for pause.
    Then it is told no more for 50 steps, unless it gets worse.
    """
    if rule.body.shadow or rule.body.disabled:
        return []
    lines = [
        f"On {level.word}: {' or, by another clause, '.join(map(in_words, does))}."
        for level, does in asked_at(rule, provisions).items()
    ]
    if rule.body.cooldown is not None:
        lines.append(f"Then it is told no more for {AS_WRITTEN.text(rule.body.cooldown)}, unless it gets worse.")
    if rule.body.inhibits:
        held = ", ".join(name.path for name in rule.body.inhibits)
        lines.append(f"While it is not green, nobody is told of {held}.")
    return lines


def of_policy(policy: rules.Policy, provisions: Provisions) -> list[str]:
    """What holds for all rules: the built-in guard of every metric, the limits, and the channels that are told."""
    guard = next(iter(policy.of(rules.Nonfinite)), None)
    level = guard.level if guard is not None else Level.ORANGE
    lines = []
    if level is not None:
        lines.append(f"On NaN or infinity in any metric that is read: {level.word}: {in_words(provisions.guard)}.")
    for limit in policy.of(rules.Limit):
        lines.append(f"At most {limit.count} {limit.action} per {AS_WRITTEN.text(limit.per)}.")
    channels = sorted(provisions.channels)
    if channels:
        lines.append(f"Messages go to {', '.join(channels)}, by the addresses in vitals.toml.")
    return lines


def asked_at(rule: rules.Rule, provisions: Provisions) -> dict[Level, list[Sequence[Asked]]]:
    """The actions of each level that a rule can come to, the mildest first: several sets where its clauses differ."""
    found: dict[Level, list[Sequence[Asked]]] = {}
    for at, clause in enumerate(rule.body.clauses):
        for rung_at, rung in enumerate(clause.rungs):
            actions = provisions.actions(rule.name, rung.level, at, rung_at)
            known = found.setdefault(rung.level, [])
            if [a.text for a in actions] not in [[a.text for a in other] for other in known]:
                known.append(actions)
    return dict(sorted(found.items()))


def as_data(rule: rules.Rule, provisions: Provisions) -> dict[str, Any]:
    """The actions by level, as they are written, for tools; of clauses that differ, all of them."""
    if rule.body.shadow or rule.body.disabled:
        return {}
    return {
        level.word: list(dict.fromkeys(action.text for actions in does for action in actions))
        for level, does in asked_at(rule, provisions).items()
    }


def in_words(actions: Sequence[Asked]) -> str:
    """What is done itself, and what is only asked of the training side, which may refuse."""
    done = [a.text for a in actions if a.action.effect is not Effect.REQUEST]
    asked = [f"ask for {a.text}" for a in actions if a.action.effect is Effect.REQUEST]
    return ", ".join(done + asked) or "nothing"
