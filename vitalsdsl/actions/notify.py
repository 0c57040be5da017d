"""notify: tell one channel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from vitalsdsl.actions.base import Accepts, Action, Effect, Parameter


class Notify(Action):
    """The alert's message to a channel, by the name that the channel has in the user's own configuration.

    A rule file never holds an address, a secret or a command: what looks like one is an error.
    """

    name = "notify"
    effect = Effect.NOTIFY
    parameters = (Parameter("channel", Accepts.TEXT, keyword=False, required=True, example='"channel"'),)

    @classmethod
    def check(cls, arguments: Mapping[str, Any]) -> str | None:
        if re.fullmatch(r"#?\w[\w .-]{0,63}", arguments["channel"]):
            return None
        return "a channel is a short name from your own configuration, never an address or a command"
