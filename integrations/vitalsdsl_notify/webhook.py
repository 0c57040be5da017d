"""A webhook of one's own: the message as signed JSON."""

from __future__ import annotations

import json
import time

import requests

from vitalsdsl import __version__
from vitalsdsl.acting.tracker import Alert
from vitalsdsl.ground.errors import TrackerError, UsageError
from vitalsdsl.ground.retry_after import retry_after
from vitalsdsl_notify.plain import shortened
from vitalsdsl_notify.quiet import quiet
from vitalsdsl_notify.sender import Sender, refusal
from vitalsdsl_notify.signing import HEADER, sign

_TIMEOUT = 10.0
_MOST = 50_000


class Webhook(Sender):
    """Posts `{"type": "message", "id": …, "level": …, "title": …, "text": …, "transition": {…}}`, signed anew each time.

    `transition` is the JSON line of the worst of the transitions that the message tells of. Redirects are not followed.
    Raises UsageError, without a word of the address, where that is none.
    """

    def __init__(self, channel: str, address: str, secret: str) -> None:
        if not address.startswith(("https://", "http://")):
            raise UsageError(f"channel `{channel}`: a webhook's address begins with https://")
        self._channel = channel
        self._address = address
        self._secret = secret

    def send(self, alert: Alert) -> None:
        data = {
            "type": "message", "id": alert.id, "level": alert.level.word, "title": alert.title,
            "text": shortened(alert.text, _MOST), "transition": alert.transition.as_dict(),
        }  # fmt: skip
        body = json.dumps(data, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"vitalsdsl/{__version__}",
            HEADER: sign(body, self._secret, int(time.time())),
        }
        trouble = ""
        with quiet():
            try:
                answer = requests.post(
                    self._address, data=body, headers=headers, timeout=_TIMEOUT, allow_redirects=False
                )
            except requests.RequestException as error:
                trouble = type(error).__name__
        if trouble:  # raised out here: the error that was caught names the address
            raise TrackerError(f"channel `{self._channel}` does not answer ({trouble})")
        if not 200 <= answer.status_code < 300:
            wait = retry_after(answer.headers.get("Retry-After", ""), answer.headers.get("Date", ""))
            raise refusal(self._channel, answer.status_code, wait)
