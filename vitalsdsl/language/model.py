"""What the objects of a policy are: pydantic models, and in the program `vitals` plain objects with the same fields.

To load pydantic takes longer than to check a policy, and the program hands no object to anybody: it makes lines, pages
and messages of them. So `__main__` says so before it loads the language; whoever imports vitalsdsl has pydantic models.
"""

from __future__ import annotations

import importlib
from typing import Any, ClassVar, NamedTuple

_plain = False


def plain_ones() -> None:
    """No pydantic models in this process, from now on. Said too late, it changes nothing."""
    global _plain
    _plain = True


def base() -> type:
    """What each node of a policy stands on."""
    return Plain if _plain else importlib.import_module("pydantic").BaseModel


class Field(NamedTuple):
    """What is said of a field in its class."""

    annotation: str
    default: Any

    def is_required(self) -> bool:
        return self.default is ...

    def get_default(self) -> Any:
        return self.default


class Plain:
    """As much of a pydantic model as parsers use, by the same names. It is built from what is right, and checks nothing."""

    __slots__ = ("__dict__", "__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__")

    model_fields: ClassVar[dict[str, Field]] = {}

    def __init_subclass__(cls) -> None:
        own = {name: Field(kind, cls.__dict__.get(name, ...)) for name, kind in cls.__annotations__.items()}
        cls.model_fields = {**cls.model_fields, **own}
