"""The port behind the channels of vitals.toml."""

from __future__ import annotations

import atexit
import importlib
import os
import weakref
from collections.abc import Mapping

from vitalsdsl.acting.tracker import Ability, Alert, Port
from vitalsdsl.configuration import Channel
from vitalsdsl.ground.errors import UsageError
from vitalsdsl_notify.pace import Paced
from vitalsdsl_notify.secret import secret
from vitalsdsl_notify.sender import Sender
from vitalsdsl_notify.webhook import Webhook


class Channels(Port):
    """Message channels by name, each with an address and a pace of its own. One port may serve any number of runs.

    Raises UsageError where an address or a secret cannot be had or is of no use, never with a word of it; ImportError
    where a package is not installed that a channel needs.
    """

    name = "channels"
    can = frozenset({Ability.NOTIFY})

    def __init__(self, channels: Mapping[str, Channel]) -> None:
        self._paced = {name: Paced(name, _sender(name, channel), *channel.rate) for name, channel in channels.items()}
        self.channels = frozenset(self._paced)
        self._pid = os.getpid()
        atexit.register(_close, weakref.ref(self))

    def notify(self, channel: str, alert: Alert) -> str | None:
        """Send a message, or hold it back where the channel has had its share: that is told with a later one."""
        return self._paced[channel].tell(alert)

    def close(self) -> None:
        """Tell what is held back. Done by itself at the end of the process, but not of one that was forked off."""
        if os.getpid() == self._pid:
            for paced in self._paced.values():
                paced.close()


def channels(configured: Mapping[str, Channel]) -> Channels:
    """The port for these channels: what `vitalsdsl.channels` asks for."""
    return Channels(configured)


def _sender(name: str, channel: Channel) -> Sender:
    address = secret(channel.url, name)
    if any(c.isspace() or not c.isprintable() for c in address):
        raise UsageError(f"channel `{name}`: its address holds white space or other signs that no address has")
    if channel.secret is not None:
        return Webhook(name, address, secret(channel.secret, name))
    services = importlib.import_module("vitalsdsl_notify.services")  # apprise is slow to load
    service: Sender = services.Service(name, address)
    return service


def _close(port: weakref.ref[Channels]) -> None:
    alive = port()
    if alive is not None:
        alive.close()
