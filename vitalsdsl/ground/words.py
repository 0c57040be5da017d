"""The words of the language: what begins a statement or a part of a rule, what no bare name can be, what is planned."""

from __future__ import annotations

TOTAL_STEPS = ("total_steps", "max_steps", "train/total_steps")
"""Under which names a run says how many steps are planned, for `progress`: in its metrics, params or configuration."""

STATEMENTS = (
    "policy use axis metric param let event phase level limit nonfinite rule when override disable profile".split()
)
RULE_PARTS = "when clear cooldown inhibits unknown because try owner runbook shadow disabled".split()
LEVELS = "green yellow orange red ok warning critical fatal".split()
RESERVED = frozenset(
    "vitals policy use as with axis metric every reduce unit optional stale after allow nonfinite param let on event"
    " apart phase level limit per rule in each when clear for cooldown inhibits unknown because try owner runbook"
    " shadow disabled override disable until profile do of within then no or and not is missing stalled before at"
    " step end off hold reset nan inf finite".split()
) - {"step", "end", "level", "unit", "per", "hold", "reset", "off", "policy", "use", "owner", "param"}
"""Words that cannot be bare metric names, since a sentence with them would read otherwise."""
