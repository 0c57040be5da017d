"""A policy as objects: what the statements of a `.vitals` file (or its YAML twin) say, frozen, each with its place."""

from __future__ import annotations

from enum import IntEnum
from typing import Literal, TypeVar

from vitalsdsl.ground.source import Source
from vitalsdsl.language.expressions import Expression, Family, For, Length, Name, Node, Number


class Level(IntEnum):
    """How bad it is; they compare by severity."""

    GREEN = 0
    YELLOW = 1
    ORANGE = 2
    RED = 3

    @classmethod
    def parse(cls, word: str) -> Level:
        """A colour, or the synonym that other tools use for it.

        >>> Level.parse("critical").word
        'orange'
        """
        return _LEVEL_WORDS[word]

    @property
    def word(self) -> str:
        return self.name.lower()


_LEVEL_WORDS = {
    "green": Level.GREEN,
    "ok": Level.GREEN,
    "yellow": Level.YELLOW,
    "warning": Level.YELLOW,
    "orange": Level.ORANGE,
    "critical": Level.ORANGE,
    "red": Level.RED,
    "fatal": Level.RED,
}
LEVEL_WORDS = tuple(_LEVEL_WORDS)


class TemplateField(Node):
    """`{grad_norm:.2f}` in a message: an expression, and how its number is written."""

    expression: Expression
    format: str = ""


class Template(Node):
    """The text of `because`: words and fields in turn. `text` is as written."""

    text: str
    parts: tuple[str | TemplateField, ...]


class ActionText(Node):
    """`"channel"` in `notify("channel")`."""

    text: str


class ActionArgument(Node):
    """A number, ratio, length, word or text given to an action."""

    value: Expression | ActionText
    keyword: str | None = None


class Action(Node):
    """`rollback(lr: 90%, skip: 500 steps)`; what the words mean is dispatch's business."""

    name: str
    arguments: tuple[ActionArgument, ...] = ()


class Rung(Node):
    """`-> red after 700 steps do rollback`. Without `after` it is taken when the clause fires."""

    level: Level
    after: Expression | None = None
    actions: tuple[Action, ...] | None = None


class Clause(Node):
    """`when COND for SPAN on METRIC` and its rungs."""

    condition: Expression
    for_: For | None = None
    on: Name | None = None
    rungs: tuple[Rung, ...] = ()


class Clear(Node):
    """`clear when COND for SPAN`, or `clear for SPAN` (then without a condition)."""

    condition: Expression | None = None
    for_: For | None = None


class Each(Node):
    """`each m in act/layer_*`."""

    member: str
    family: Family


class RuleBody(Node):
    """What stands between the braces of a rule or an override; None where it is not said."""

    clauses: tuple[Clause, ...] = ()
    clear: Clear | None = None
    cooldown: Expression | None = None
    inhibits: tuple[Name, ...] | None = None
    unknown: Literal["hold", "reset"] | None = None
    because: Template | None = None
    try_: tuple[str, ...] | None = None
    owner: str | None = None
    runbook: str | None = None
    shadow: bool = False
    disabled: bool = False


class Statement(Node):
    """Anything that stands at the top of a policy file."""


class Setting(Node):
    """`k = 2.5` in a `profile` or after `with`."""

    name: str
    value: Number | Length


class Use(Statement):
    """`use "pack:core" as core with k = 2.5`."""

    reference: str
    namespace: str | None = None
    values: tuple[Setting, ...] = ()


class Axis(Statement):
    """`axis "train/global_step"`: the logged metric that is the step."""

    metric: str


class Metric(Statement):
    """`metric loss = "train/loss", "loss" every 1 steps`: one canonical name for what frameworks log under many."""

    name: str
    logged: tuple[str, ...]
    family: bool = False
    every: Expression | None = None
    stale_after: Expression | None = None
    unit: str | None = None
    reduce: Literal["last", "mean", "max", "min"] = "last"
    optional: bool = False
    allow_nonfinite: bool = False


class Param(Statement):
    """`param k = 3 in 1.5 .. 10`: fixed when the policy is loaded."""

    name: str
    value: Number | Length
    low: Number | Length | None = None
    high: Number | Length | None = None


class Let(Statement):
    """`let gap = val_loss - mean(loss, 200 steps) on val_loss`: a derived stream, or a family of them."""

    name: str
    expression: Expression
    on: Name | None = None
    family: bool = False


class Event(Statement):
    """`event spike = loss > 1.5 * usual(loss, 500 steps) apart 50 steps`."""

    name: str
    condition: Expression
    for_: For | None = None
    apart: Expression | None = None


class Phase(Statement):
    """`phase startup = step < 1000`."""

    name: str
    condition: Expression


class LevelDefault(Statement):
    """`level orange do alert, tag, pause`."""

    level: Level
    actions: tuple[Action, ...]


class Limit(Statement):
    """`limit rollback 3 per 10000 steps`."""

    action: str
    count: int
    per: Expression


class Nonfinite(Statement):
    """`nonfinite -> orange do pause`, or `nonfinite off` (level None)."""

    level: Level | None
    actions: tuple[Action, ...] | None = None


class Rule(Statement):
    """`rule NAME "title" in phase P each m in FAMILY { … }`. A top-level `when` is a rule with no written name."""

    name: str
    title: str | None = None
    phases: tuple[Name, ...] = ()
    each: Each | None = None
    body: RuleBody
    written: bool = True
    origin: str | None = None


class Override(Statement):
    """`override core.spike { cooldown 500 steps }`."""

    rule: Name
    body: RuleBody


class Disable(Statement):
    """`disable core.spike because "…" until "2027-01-15"`."""

    rule: Name
    because: str
    until: str | None = None


class Profile(Statement):
    """`profile careful { k = 2 }`: a named set of param values."""

    name: str
    settings: tuple[Setting, ...]


StatementType = TypeVar("StatementType", bound=Statement)


class Policy(Node):
    """A whole policy: its name, and its statements in the order in which they were written."""

    source: Source
    version: int = 1
    name: str | None = None
    title: str | None = None
    statements: tuple[Statement, ...] = ()

    def of(self, kind: type[StatementType]) -> tuple[StatementType, ...]:
        """The statements of one kind, in order."""
        return tuple(s for s in self.statements if isinstance(s, kind))
