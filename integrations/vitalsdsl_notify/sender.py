"""What the ways to send a message have in common."""

from __future__ import annotations

from vitalsdsl.acting.tracker import Alert
from vitalsdsl.ground.errors import TrackerError

_TRANSIENT = frozenset({408, 409, 423, 425, 429})


class Sender:
    """Sends messages to one address, one at a time."""

    def send(self, alert: Alert) -> None:
        """Send a message. Raises TrackerError, final or not, and never with the address in its text."""
        raise NotImplementedError


def refusal(channel: str, status: int, wait: float | None = None) -> TrackerError:
    """The error that an HTTP status stands for: what a later try may mend, or a refusal for good.

    >>> refusal("team", 404).is_final, refusal("team", 503).is_final, refusal("team", 429, 7.0).retry_after
    (True, False, 7.0)
    """
    if status >= 500 or status in _TRANSIENT:
        return TrackerError(f"channel `{channel}` cannot take messages now ({status})", retry_after=wait)
    return TrackerError(f"channel `{channel}` refuses messages ({status}): its address holds no longer", is_final=True)
