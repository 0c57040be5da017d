"""Message channels: the ports behind the names for `notify`, as the user's configuration has them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib.metadata import entry_points

from vitalsdsl.configuration import Channel, configuration
from vitalsdsl.errors import MissingExtraError, VitalsError
from vitalsdsl.tracker import Port

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


def configured_ports() -> list[Port]:
    """The channels of the configuration that holds here, for a training: what is wrong with it is said, not raised."""
    try:
        return channel_ports(configuration().channels)
    except VitalsError as error:
        logger.warning("vitals: no messages are sent: %s", error)
        return []
