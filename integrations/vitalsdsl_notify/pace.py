"""How many messages a channel gets: what is too many is held back, counted, and told as one when there is room again."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from vitalsdsl.acting.tracker import Alert
from vitalsdsl.ground.errors import VitalsError
from vitalsdsl.language.rules import Level
from vitalsdsl_notify.sender import Sender

logger = logging.getLogger("vitalsdsl")

_DIGESTS = uuid.UUID("b3a1d0f2-0b0e-5c55-8a53-6f0b5a1d8e94")
_LISTED = 10
_TRY_AGAIN = 60.0


@dataclass
class _Held:
    """What was held back since the last message. Of many, the first and the worst are listed."""

    since: float = 0.0
    count: int = 0
    runs: dict[str, None] = field(default_factory=dict)
    listed: list[Alert] = field(default_factory=list)

    def add(self, alert: Alert, now: float) -> None:
        self.since = self.since if self.count else now
        self.count += 1
        self.runs.setdefault(alert.transition.run)
        self.listed = sorted([*self.listed, alert], key=lambda a: -a.level)[:_LISTED]

    @property
    def text(self) -> str:
        """`7 more since 14:02, see run-a, run-b`."""
        runs = list(self.runs)[:3] + (["…"] if len(self.runs) > 3 else [])
        return f"{self.count} more since {time.strftime('%H:%M', time.localtime(self.since))}, see {', '.join(runs)}"

    def as_alert(self) -> Alert:
        """All of it as one message."""
        worst = self.listed[0]
        lines = [self.text, *(alert.title for alert in self.listed)]
        if self.count > len(self.listed):
            lines.append(f"and {self.count - len(self.listed)} more")
        title = f"{worst.level.word}: {self.count} message{'s' * (self.count != 1)} held back"
        id_ = str(uuid.uuid5(_DIGESTS, " ".join([*(alert.id for alert in self.listed), str(self.count)])))
        return replace(worst, id=id_, title=title, text="\n".join(lines))


class Paced:
    """One channel: at most `most` messages within `seconds`, red ones always. Safe to use from several threads.

    What is held back is told with the next message, or by itself once there is room; at the latest by `close`. Counts
    are those of this process: one that starts anew begins at none.
    """

    def __init__(
        self, channel: str, sender: Sender, most: int, seconds: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._channel = channel
        self._sender = sender
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._sent: deque[float] = deque()
        self._held = _Held()
        self._timer: threading.Timer | None = None
        self._complained = False

    def tell(self, alert: Alert) -> str | None:
        """Send a message, or hold it back, and then say so in a few words.

        Raises TrackerError where the channel fails; nothing of what is held back is lost by that.
        """
        with self._lock:
            now = self._clock()
            self._forget(now)
            if alert.level < Level.RED and len(self._sent) >= self._most:
                self._held.add(alert, now)
                self._set_timer(self._opens(now))
                return f"held back: {self._most} messages in {self._seconds:g} s have gone to `{self._channel}`"
            told = replace(alert, text=f"{alert.text}\n{self._held.text}") if self._held.count else alert
            self._sender.send(told)
            self._told(now)
            return None

    def open(self) -> None:
        """Tell by itself what is held back, if there is room by now."""
        with self._lock:
            self._timer = None
            now = self._clock()
            self._forget(now)
            if self._held.count and len(self._sent) >= self._most:
                self._set_timer(self._opens(now))
            elif self._held.count and not self._told_as_one(now):
                self._set_timer(_TRY_AGAIN)

    def close(self) -> None:
        """The end: what is held back is told now, room or not."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._held.count:
                self._told_as_one(self._clock())

    def _told_as_one(self, now: float) -> bool:
        try:
            self._sender.send(self._held.as_alert())
        except VitalsError as error:
            if not self._complained:
                self._complained = True
                logger.warning("vitals: %d messages that were held back are not told: %s", self._held.count, error)
            return False
        self._told(now)
        return True

    def _told(self, now: float) -> None:
        self._sent.append(now)
        self._held = _Held()
        self._complained = False

    def _forget(self, now: float) -> None:
        while self._sent and not 0 <= now - self._sent[0] < self._seconds:  # a clock may be set back
            self._sent.popleft()

    def _opens(self, now: float) -> float:
        """In how many seconds there is room again."""
        room_at = self._sent[-self._most] + self._seconds
        return max(0.0, room_at - now)

    def _set_timer(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = threading.Timer(seconds, self.open)
            self._timer.daemon = True
            self._timer.start()
