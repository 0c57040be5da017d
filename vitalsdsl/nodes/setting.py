"""Where an expression stands: what decides what its names and references mean there."""

from __future__ import annotations

from dataclasses import dataclass, field

from vitalsdsl.ground.types import Extent
from vitalsdsl.nodes.base import Node
from vitalsdsl.nodes.signals import Reference


@dataclass
class Owner:
    """The rule or event in which references stand: its conditions freeze them, its spans say for how long.

    References that are made before the conditions wait for them; those of members that join later find them here.
    """

    name: str
    limits: list[Extent] = field(default_factory=list)
    waiting: list[tuple[Reference, Extent]] = field(default_factory=list)
    conditions: list[tuple[Node, Node | None]] | None = None
    begun_by: str | None = None
    """Of a member that joins later: the owner under which its references have learnt so far."""


@dataclass(frozen=True)
class Setting:
    """Where an expression stands: what `*` is, what an `each` calls its member, and which rule or event it is in."""

    star: str | None = None
    member: str | None = None
    member_path: str | None = None
    owner: Owner | None = None

    def names(self) -> tuple[str | None, str | None, str | None]:
        return self.star, self.member, self.member_path
