"""The keys of the YAML form: what may stand where. The reader, its hints and the JSON Schema all look here."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple


class Shape(Enum):
    """What the value of a key looks like."""

    TEXT = auto()
    TEXTS = auto()
    NAME = auto()
    NAMES = auto()
    VERSION = auto()
    EXPRESSION = auto()
    LENGTH = auto()
    SPAN = auto()
    VALUE = auto()
    VALUES = auto()
    BOUNDS = auto()
    FLAG = auto()
    LEVEL = auto()
    ACTIONS = auto()
    REDUCE = auto()
    UNKNOWN = auto()
    LIMIT = auto()
    USE = auto()
    METRIC = auto()
    PARAM = auto()
    LET = auto()
    EVENT = auto()
    GUARD = auto()
    EACH = auto()
    CLAUSES = auto()
    RUNGS = auto()
    CLEAR = auto()
    RULE = auto()
    RULES = auto()
    OVERRIDE = auto()
    DISABLE = auto()
    PARTS = auto()


class Key(NamedTuple):
    """A key: the shape of its value and what it says. With `each`, it holds many of them, by name."""

    shape: Shape
    says: str
    each: bool = False


STATEMENTS: dict[str, Key] = {
    "use": Key(Shape.USE, "Other policies whose statements are brought in."),
    "axis": Key(Shape.TEXTS, "The logged metric that is the step."),
    "metrics": Key(Shape.METRIC, "Canonical names of metrics, and the names under which they are logged.", each=True),
    "params": Key(Shape.PARAM, "Values that an importer, a profile or the command line may set.", each=True),
    "lets": Key(Shape.LET, "Derived streams.", each=True),
    "events": Key(Shape.EVENT, "Named conditions whose edges are looked at.", each=True),
    "phases": Key(Shape.EXPRESSION, "Stretches of the run, each by its condition.", each=True),
    "levels": Key(Shape.ACTIONS, "What a level does unless a rung says otherwise.", each=True),
    "limits": Key(Shape.LIMIT, "Budgets of actions, such as `3 per 10000 steps`.", each=True),
    "nonfinite": Key(Shape.GUARD, "The built-in guard against NaN and infinite values: a level, or off."),
    "rules": Key(Shape.RULES, "The rules, by name; or a list, where some have none."),
    "override": Key(Shape.OVERRIDE, "Fields of imported rules that are replaced.", each=True),
    "disable": Key(Shape.DISABLE, "Rules that are switched off, each with the reason.", each=True),
    "profiles": Key(Shape.VALUES, "Named sets of param values.", each=True),
}
TOP: dict[str, Key] = {
    "vitals": Key(Shape.VERSION, "The version of the language: 1."),
    "policy": Key(Shape.NAME, "The policy's name."),
    "title": Key(Shape.TEXT, "What the policy is for, in a few words."),
    **STATEMENTS,
    "parts": Key(Shape.PARTS, "More statements, part by part, where their order matters."),
}
USE: dict[str, Key] = {
    "from": Key(Shape.TEXT, "A pack, a file or an artifact, such as `pack:core`."),
    "as": Key(Shape.NAME, "The namespace of what is brought in."),
    "with": Key(Shape.VALUES, "Values for its params."),
}
METRIC: dict[str, Key] = {
    "names": Key(Shape.TEXTS, "The names under which it is logged."),
    "every": Key(Shape.LENGTH, "How often it is logged."),
    "stale_after": Key(Shape.LENGTH, "When its newest value is too old to be read."),
    "unit": Key(Shape.TEXT, "Its unit, for people."),
    "reduce": Key(Shape.REDUCE, "What becomes of several points at one step."),
    "optional": Key(Shape.FLAG, "Its absence is no finding."),
    "allow_nonfinite": Key(Shape.FLAG, "NaN and infinite values are normal for it."),
}
PARAM: dict[str, Key] = {
    "value": Key(Shape.VALUE, "The value where nobody sets another."),
    "in": Key(Shape.BOUNDS, "The least and the greatest value."),
}
LET: dict[str, Key] = {
    "expr": Key(Shape.EXPRESSION, "What it is."),
    "on": Key(Shape.NAME, "The metric at whose points it is evaluated."),
}
EVENT: dict[str, Key] = {
    "if": Key(Shape.EXPRESSION, "The condition."),
    "for": Key(Shape.SPAN, "How long the condition must hold."),
    "apart": Key(Shape.LENGTH, "Edges closer together than this are one."),
}
RUNG: dict[str, Key] = {
    "level": Key(Shape.LEVEL, "How bad it is."),
    "after": Key(Shape.LENGTH, "How long after the clause has fired."),
    "do": Key(Shape.ACTIONS, "What is done, in place of the level's own actions."),
}
CLAUSE: dict[str, Key] = {
    "if": Key(Shape.EXPRESSION, "The condition."),
    "for": Key(Shape.SPAN, "How long the condition must hold."),
    "on": Key(Shape.NAME, "The metric at whose points the condition is evaluated."),
    **RUNG,
    "then": Key(Shape.RUNGS, "The rungs after the first."),
}
GUARD: dict[str, Key] = {key: RUNG[key] for key in ("level", "do")}
CLEAR: dict[str, Key] = {key: EVENT[key] for key in ("if", "for")}
DISABLE: dict[str, Key] = {
    "because": Key(Shape.TEXT, "Why."),
    "until": Key(Shape.TEXT, "The day on which this ends, such as 2027-01-15."),
}
BODY: dict[str, Key] = {
    "when": Key(Shape.CLAUSES, "When the rule fires: one condition or several."),
    "clear": Key(Shape.CLEAR, "When the rule clears, where that is not simply the condition gone for its span."),
    "cooldown": Key(Shape.LENGTH, "How long nothing is done again."),
    "inhibits": Key(Shape.NAMES, "Rules that are silent while this one fires."),
    "unknown": Key(Shape.UNKNOWN, "Whether an unknown condition holds or resets the span."),
    "because": Key(Shape.TEXT, "The message, with values in braces."),
    "try": Key(Shape.TEXTS, "What to look at first."),
    "owner": Key(Shape.TEXT, "Who cares."),
    "runbook": Key(Shape.TEXT, "Where to read on."),
    "shadow": Key(Shape.FLAG, "Evaluate and record, never act."),
    "disabled": Key(Shape.FLAG, "Do not evaluate."),
}
RULE: dict[str, Key] = {
    "title": Key(Shape.TEXT, "What is wrong, in a few words."),
    "in_phase": Key(Shape.NAMES, "The phases in which the rule is evaluated."),
    "each": Key(Shape.EACH, "One rule a member: the member's word, and the family."),
    **BODY,
}
LISTED_RULE: dict[str, Key] = {"name": Key(Shape.NAME, "The rule's name."), **RULE}
