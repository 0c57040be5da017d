"""Requests to a training: from its own policy or a control folder, which are refused, and how each is answered."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vitalsdsl.acting.control import ABOUT, Control
from vitalsdsl.acting.tracker import Ability, Port, Request
from vitalsdsl.ground.errors import VitalsError
from vitalsdsl.ground.points import number
from vitalsdsl_torch.history import OVER, History
from vitalsdsl_torch.mailbox import Mailbox

logger = logging.getLogger("vitalsdsl")

WORDS = {
    "stop": "stop", "rollback": "rollback", "pause": "pause", "lr_scale": "lr", "save": "checkpoint",
    "capture": "detail", "detail": "detail", "resume": "resume",
}  # fmt: skip
"""What a request may ask, and the action's name in a policy. The order is that of precedence."""

OURS = "of this process"
"""The mark of a request that did not come by the folder."""

RANK = {word: at for at, word in enumerate(dict.fromkeys(WORDS.values()))}


@dataclass(frozen=True)
class Asked:
    """A request as it is understood. `segment` is None in a person's own, which holds whatever the attempt. `is_ours`
    is what the policy of this process asks: it can be asked whether it still holds."""

    id: str
    action: str
    segment: int | None = None
    rule: str = ""
    trip_step: int | None = None
    onset: int | None = None
    expires_at: float = math.inf
    params: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    is_ours: bool = False

    @property
    def is_about_nonfinite(self) -> bool:
        """Whether a NaN or an infinity is the reason: that needs no baseline, and never goes away by itself."""
        values = self.evidence.get("values", {})
        found = values.values() if isinstance(values, Mapping) else ()
        return self.rule.startswith("nonfinite(") or any(
            (x := number(v)) is not None and not math.isfinite(x) for v in found
        )


def understood(request: Mapping[str, Any]) -> Asked:
    """A request from what stands in a file. Raises ValueError with the reason where it makes no sense."""
    params = request.get("params") or {}
    if not isinstance(params, Mapping):
        raise ValueError("its params are no object")
    action = request["action"]
    if action == "request":
        action = params.get("name")
    if action not in WORDS:
        raise ValueError(f"nothing here is called `{action}`")
    factor = number(params.get("lr_factor", 0.9 if action == "rollback" else 1.0))
    if factor is None or not 0 < factor < math.inf or action == "rollback" and factor > 1:
        raise ValueError("its lr_factor is no sensible factor")
    if action == "lr_scale" and "lr_factor" not in params:
        raise ValueError("it says no lr_factor")
    for name in ("skip_batches", "skip_until_data_pos"):
        if params.get(name) is not None and not 0 <= _or_nan(params[name]) < math.inf:
            raise ValueError(f"its {name} is no number of batches")
    expires = number(request.get("expires_at"))
    evidence, rule = request.get("evidence"), str(request.get("rule") or "")
    return Asked(
        str(request["id"]),
        WORDS[action],
        _whole(request, "segment"),
        rule if request.get("member") is None else f"{rule}[{request['member']}]",
        _whole(request, "trip_step"),
        _whole(request, "onset"),
        math.inf if expires is None else expires,
        {**params, "lr_factor": factor},
        str(request.get("reason") or ""),
        evidence if isinstance(evidence, Mapping) else {},
        bool(request.get(OURS)),
    )


def _or_nan(value: object) -> float:
    found = number(value)
    return math.nan if found is None else found


def _whole(request: Mapping[str, Any], name: str) -> int | None:
    value = request.get(name)
    if value is None:
        return None
    found = number(value)
    if found is None or not math.isfinite(found) or found != int(found):
        raise ValueError(f"its {name} is no whole number")
    return int(found)


class Inbox(Port):
    """The port by which the policy of this process asks. It only keeps requests until the next step boundary."""

    name = "guard"
    can = frozenset({Ability.REQUEST})

    def __init__(self) -> None:
        self._waiting: list[Mapping[str, Any]] = []
        self._changed = threading.Condition()

    def request(self, request: Request) -> None:
        self.put({**request.as_dict(), OURS: True})

    def put(self, request: Mapping[str, Any]) -> None:
        """The same, of one that was written down."""
        with self._changed:
            self._waiting.append(request)
            self._changed.notify_all()

    def taken(self, expected: int, timeout: float) -> list[Mapping[str, Any]]:
        """What has come; waits a little for what was decided just now and is on its way over the journal's disk."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) >= expected, timeout)
            out, self._waiting = self._waiting, []
        return out


class Desk:
    """Where requests come in and answers go out. Each request is answered for good once; a repeat gets that answer."""

    def __init__(self, history: History, channel: Control | None, poll: float) -> None:
        self.inbox = Inbox()
        self.channel = channel
        self._history = history
        self._poll = poll
        self._looked = -math.inf
        self._complained = False

    def new(self, expected: int = 0, timeout: float = 2.0, at_once: bool = False) -> list[Mapping[str, Any]]:
        """Requests that have no final answer, the oldest first. The folder is looked at every `poll` seconds only."""
        found = self.inbox.taken(expected, timeout) if expected else self.inbox.taken(0, 0.0)
        now = time.monotonic()
        if self.channel is not None and (at_once or now >= self._looked + self._poll):
            self._looked = now
            for asked in self.channel.asked():
                known = self._history.answers.get(asked.request["id"])
                if known is None or known["state"] not in OVER:
                    found.append(asked.request)
                elif asked.state != known["state"]:
                    self._tell(known)
        fresh = {r["id"]: r for r in found}
        known_ids = self._history.answers
        return [r for id_, r in fresh.items() if id_ not in known_ids or known_ids[id_]["state"] not in OVER]

    def answer(self, id_: str, state: str, step: int, reason: str = "", **result: Any) -> None:
        """Say what becomes of a request. Raises OSError where that cannot be written down, for `executing` only: what
        could be done twice must not be begun."""
        record = {
            "type": "answer", "id": id_, "state": state, "at_step": step, "at": time.time(), "reason": reason,
            "attempt": self._history.attempt, "result": result,
        }  # fmt: skip
        if state == "executing":
            self._history.append(record)
        else:
            self._history.note(record)
        self._tell(record)

    def received(self, id_: str, step: int, state: str = "received", reason: str = "") -> None:
        """Say that a request lies here, or is accepted. It stands in the folder only: nothing hangs on it."""
        self._tell({"id": id_, "state": state, "at_step": step, "at": time.time(), "reason": reason})

    def close(self) -> None:
        """Deliver what is still to be told."""
        if isinstance(self.channel, Mailbox):
            self.channel.close()

    def _tell(self, record: Mapping[str, Any]) -> None:
        if self.channel is None:
            return
        answer = {name: value for name, value in record.items() if name != "type"}
        own = self._history.asked.get(str(record["id"]))
        if own is not None:  # nobody else has asked, and whoever reads the answer wants to know what it is about
            answer |= {name: own[name] for name in ABOUT if own.get(name) is not None}
        try:
            self.channel.answer(str(record["id"]), answer)
        except VitalsError as error:
            if not self._complained:
                self._complained = True
                logger.warning("vitals: requests cannot be answered: %s", error)
