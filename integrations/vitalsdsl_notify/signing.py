"""How the body of a webhook is signed, and how its receiver checks that.

The header `Vitals-Signature` reads `t=TIMESTAMP,v1=SIGNATURE`: unix seconds, and the hexadecimal HMAC-SHA256, under the
secret of both sides, of the timestamp, a full stop, and the bytes of the body.
"""

from __future__ import annotations

import hashlib
import hmac
import re

HEADER = "Vitals-Signature"

TOLERANCE = 300.0
"""Seconds by which a signature may be older or newer than the receiver's clock, so that none can be used again."""


def sign(body: bytes, secret: str, timestamp: int) -> str:
    """The value of the header.

    >>> sign(b"{}", "s", 1)
    't=1,v1=b253639bcd705ed1cda3073f66104f16988bd40272584dea7d0d345ae93e61cc'
    """
    found = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"t={timestamp},v1={found.hexdigest()}"


def verify(header: str, body: bytes, secret: str, now: float, tolerance: float = TOLERANCE) -> bool:
    """Whether a body came, at about this unix time, from one who has the secret. Bad headers are False, not an error.

    A receiver reads the raw bytes of the body, before any JSON, and drops what it has seen: the body's `id` is the same
    when a message is sent again.

    >>> verify(sign(b"{}", "s", 1000), b"{}", "s", now=1100.0)
    True
    >>> verify(sign(b"{}", "s", 1000), b"[]", "s", now=1100.0)
    False
    """
    found = re.fullmatch(r"t=(\d{1,12}),v1=[0-9a-f]{64}", header)
    if found is None or not abs(now - int(found[1])) <= tolerance:
        return False
    return hmac.compare_digest(header.encode(), sign(body, secret, int(found[1])).encode())
