"""The server of W&B, asked by plain HTTP: one question, one answer, or one clear line about why there is none."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from typing import Any

import requests
import urllib3

from vitalsdsl.ground.errors import NotLetIn, TrackerError
from vitalsdsl.ground.points import number
from vitalsdsl.ground.retry_after import retry_after, unix_time
from vitalsdsl_wandb.server import Key, Server, find_key, find_server

CONNECT = 10.0
TIMEOUT = 30.0
"""Seconds for a whole answer, however it drips."""

FEW = 100
"""So few questions left (of a thousand) are kept for what cannot wait."""

MOST_BYTES = 64 * 2**20
"""Answers that are larger are not taken in."""


class TooLarge(TrackerError):
    """An answer has more bytes than were to be taken in: ask for less."""


class Refused(TrackerError):
    """The server answers, and has no answer to this question."""


class GraphQL:
    """Asks one deployment of W&B. Safe to use from several threads; it never waits on its own.

    Where the server, or its own key, is found is decided at the first question. Every failure is a TrackerError: with
    `retry_after` where the server says how long it wants to be left alone, or where its limit is used up; final where
    the key is refused. No text holds the key.
    """

    def __init__(self) -> None:
        self._server: Server | None = None
        self._key: Key | None = None
        self._is_refused = False
        self._session = requests.Session()
        self._quiet_until = 0.0
        self._reset = 0.0
        self.remaining = math.inf
        """How many questions the server has left for us, where it says so (of a thousand)."""
        self.clock = 0.0
        """The server's own time at its newest answer, unix seconds; 0 before the first."""

    @property
    def server(self) -> Server:
        if self._server is None:
            self._server = find_server()
        return self._server

    def ask(
        self, question: str, variables: Mapping[str, Any], *, most: int = MOST_BYTES, can_wait: bool = False
    ) -> dict[str, Any]:
        """The `data` of an answer. What `can_wait` is not asked while few questions are left: the others come first.

        Raises TrackerError, TooLarge beyond `most` bytes."""
        server = self.server
        if self._key is None or self._is_refused:
            self._key, self._is_refused = find_key(server), False
        is_short = can_wait and self.remaining < FEW
        left = max(self._quiet_until, self._reset if is_short else 0.0) - time.monotonic()
        if left > 0:
            raise TrackerError(f"W&B at {server.host} wants to be left alone for a while", retry_after=left)
        try:
            response = self._session.post(
                f"{server.base}/graphql",
                json={"query": question, "variables": dict(variables)},
                auth=("api", self._key.value),
                headers={"User-Agent": "vitalsdsl"},
                timeout=(CONNECT, TIMEOUT),
                allow_redirects=False,
                stream=True,
            )
            with response:
                body = _whole(response, most)
        except requests.exceptions.SSLError as error:
            raise TrackerError(f"W&B at {server.host}: its certificate is not trusted here") from error
        except (requests.Timeout, urllib3.exceptions.TimeoutError, TimeoutError) as error:
            raise TrackerError(f"W&B at {server.host} does not answer in time") from error
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise TrackerError(f"W&B at {server.host} cannot be reached, or breaks off its answer") from error
        return self._data(server, response, body)

    def close(self) -> None:
        """Give back the connections."""
        self._session.close()

    # ---------------------------------------------------------------- answers

    def _data(self, server: Server, response: requests.Response, body: bytes) -> dict[str, Any]:
        status, headers = response.status_code, response.headers
        self.clock = unix_time(headers.get("Date", "")) or self.clock
        wait = _wait(headers)
        remaining = number(headers.get("RateLimit-Remaining", ""))
        self.remaining = math.inf if remaining is None else remaining
        if wait is not None:
            self._reset = time.monotonic() + wait
        if wait is not None and (status == 429 or self.remaining <= 0):
            self._quiet_until = self._reset
        if status == 429:
            raise TrackerError(f"W&B at {server.host} is asked too often", retry_after=wait)
        if status in (401, 403):
            self._is_refused = True  # and the key looked for anew: the netrc file may have been renewed
            text = "it may have expired, or not reach this project (WANDB_API_KEY, or the netrc file)"
            raise NotLetIn(f"W&B at {server.host} refuses the key: {text}", is_unknown=status == 401)
        if status >= 500 or status in (408, 425):
            raise TrackerError(f"W&B at {server.host} fails ({status})", retry_after=wait)
        if status == 400:
            said = f"W&B at {server.host} does not take the question ({status}): {self._said(body)}"
            raise Refused(said, is_final=True)
        if status != 200:
            raise NotLetIn(f"W&B at {server.host} does not take the question ({status}): is WANDB_BASE_URL right?")
        try:
            answer = json.loads(body)
        except ValueError as error:
            raise TrackerError(f"W&B at {server.host} gives half an answer, or one that is no JSON") from error
        data = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(data, dict) or (answer.get("errors") and not any(data.values())):
            raise Refused(f"W&B at {server.host} gives no data: {self._said(body)}")
        return data

    def _said(self, body: bytes) -> str:
        """What the server says went wrong, as one short line without the key."""
        try:
            said = json.loads(body)["errors"][0]["message"]
        except (ValueError, LookupError, TypeError):
            return "it does not say why"
        text = " ".join(str(said).split())[:200]
        return text.replace(self._key.value, "(a key)") if self._key is not None else text


def _whole(response: requests.Response, most: int) -> bytes:
    """The body, as far as it comes in time. What drips byte by byte is never silent, so the clock is watched here."""
    until = time.monotonic() + TIMEOUT
    parts: list[bytes] = []
    size = 0
    while part := response.raw.read1(2**16, decode_content=True):
        parts.append(part)
        size += len(part)
        if size > most:
            raise TooLarge("an answer of W&B is too large")
        if time.monotonic() > until:
            raise TimeoutError
    return b"".join(parts)


def _wait(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to be left alone, where it says so: it has a header of its own for its limit, too."""
    said = retry_after(headers.get("Retry-After", ""), headers.get("Date", ""))
    return retry_after(headers.get("RateLimit-Reset", "")) if said is None else said
