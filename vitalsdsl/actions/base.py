"""What an action is: one class in one file, found by its file, known to the checker and to dispatch alike."""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Mapping
from enum import Enum
from typing import Any, ClassVar, NamedTuple


class Effect(Enum):
    """What an action comes down to, for those who carry it out."""

    TAG = "tag"
    ALERT = "alert"
    NOTIFY = "notify"
    REQUEST = "request"


class Accepts(Enum):
    """What may stand at the place of an argument."""

    TEXT = "a text in quotes"
    RATIO = "a ratio"
    STEPS = "a number of steps"


class Parameter(NamedTuple):
    """One argument of an action. With `keyword` it is written `name: value`; with a default it may be left out.

    `most` is the greatest value that makes sense; none may be zero or less.
    """

    name: str
    accepts: Accepts
    keyword: bool = True
    required: bool = False
    default: Any = None
    most: float = math.inf
    example: str = ""

    def written(self) -> str:
        text = f"{self.name}: {self.example}" if self.keyword else self.example
        return text if self.required else f"[{text}]"


class Action:
    """The base of all actions. A subclass's docstring is its page.

    `rank` orders the interventions, of which one step asks for one at most; 0 is none. What is `announced` is never
    done in silence: alert and tag go with it even where a rule does not name them. `asks` is the word of the run's
    control channel for it, where its effect is a request.
    """

    name: ClassVar[str]
    effect: ClassVar[Effect]
    parameters: ClassVar[tuple[Parameter, ...]] = ()
    takes_any_keyword: ClassVar[bool] = False
    rank: ClassVar[int] = 0
    announced: ClassVar[bool] = False
    asks: ClassVar[str] = ""

    @classmethod
    def signature(cls) -> str:
        """As it is written: `rollback([lr: 90%], [skip: 500 steps])`."""
        inside = [p.written() for p in cls.parameters] + (["key: value, …"] if cls.takes_any_keyword else [])
        return f"{cls.name}({', '.join(inside)})" if inside else cls.name

    @classmethod
    def keywords(cls) -> dict[str, Parameter]:
        return {p.name: p for p in cls.parameters if p.keyword}

    @classmethod
    def check(cls, arguments: Mapping[str, Any]) -> str | None:
        """What is wrong with arguments of the right kinds, in one sentence; None where nothing is."""
        return None

    @classmethod
    def requested(cls, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The `params` of the request that it becomes, as plain data."""
        return {}


ACTIONS: dict[str, type[Action]] = {}


def registry() -> dict[str, type[Action]]:
    """All actions by name, from the files of this package.

    >>> [name for name, action in registry().items() if action.rank]
    ['pause', 'rollback', 'stop']
    """
    if not ACTIONS:
        package = __name__.rpartition(".")[0]
        for module in sorted(pkgutil.iter_modules(importlib.import_module(package).__path__), key=lambda m: m.name):
            for value in vars(importlib.import_module(f"{package}.{module.name}")).values():
                if isinstance(value, type) and issubclass(value, Action) and "name" in value.__dict__:
                    ACTIONS[value.name] = value
    return ACTIONS
