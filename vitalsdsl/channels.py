"""Message channels: the ports behind the names for `notify`, as the user's configuration has them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points

from vitalsdsl.acting.provisions import Provisions
from vitalsdsl.acting.tracker import Ability, Port
from vitalsdsl.configuration import Channel, configuration, looked_in
from vitalsdsl.ground.errors import MissingExtraError, VitalsError
from vitalsdsl.language import rules

logger = logging.getLogger("vitalsdsl")

GROUP = "vitalsdsl.channels"


def channel_ports(channels: Mapping[str, Channel]) -> list[Port]:
    """The port that reaches these channels; none where there are none.

    Raises MissingExtraError where the package that sends messages is not installed, UsageError where a secret that a
    channel names cannot be had.
    """
    if not channels:
        return []
    points = list(entry_points(group=GROUP))
    if not points:
        raise MissingExtraError("apprise", "notify")
    try:
        return [point.load()(channels) for point in points]
    except ImportError as error:
        raise MissingExtraError(error.name or "apprise", "notify") from error


class PlannedChannels(Port):
    """The channels of a dry run: their names, and nobody behind them. No secret is needed."""

    name = "channels"
    can = frozenset({Ability.NOTIFY})

    def __init__(self, channels: Iterable[str]) -> None:
        self.channels = frozenset(channels)


def channels_for(policies: Iterable[rules.Policy], channels: Mapping[str, Channel]) -> dict[str, Channel]:
    """Of some channels those that policies name: the secrets of the others are not needed. One that a policy names and
    that is not there is said."""
    named = frozenset().union(*(Provisions(policy).channels for policy in policies))
    for name in sorted(named - set(channels)):
        logger.warning("vitals: no channel `%s`%s: messages to it reach nobody", name, looked_in())
    return {name: channel for name, channel in channels.items() if name in named}


def configured_ports(policy: rules.Policy) -> list[Port]:
    """The channels of the configuration that holds here, for a training: what is wrong with one of them is said, not
    raised, and the others are used."""
    usable: dict[str, Channel] = {}
    try:
        for name, channel in channels_for([policy], configuration().channels).items():
            try:
                channel_ports({name: channel})
                usable[name] = channel
            except VitalsError as error:
                logger.warning("vitals: no messages are sent to `%s`: %s", name, error)
        return channel_ports(usable)
    except VitalsError as error:
        logger.warning("vitals: no messages are sent: %s", error)
        return []
