"""request: ask the training side for something of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from vitalsdsl.actions.base import Accepts, Action, Effect, Parameter


class Request(Action):
    """Ask the training side for something that it knows by name, with whatever values it takes.

    What the name means, and whether it is allowed, is settled there. Numbers and ratios arrive as numbers, lengths as
    text (`500 steps`).
    """

    name = "request"
    effect = Effect.REQUEST
    parameters = (Parameter("name", Accepts.TEXT, keyword=False, required=True, example='"name"'),)
    takes_any_keyword = True
    asks = "request"

    @classmethod
    def check(cls, arguments: Mapping[str, Any]) -> str | None:
        if re.fullmatch(r"[A-Za-z_][\w.-]{0,63}", arguments["name"]):
            return None
        return "the name of a request is one word, such as `capture_activations`"

    @classmethod
    def requested(cls, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return dict(arguments)
