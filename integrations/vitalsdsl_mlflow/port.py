"""A run of MLflow as dispatch sees it: tags, a record of alerts, the policy and the transitions as artifacts."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from vitalsdsl.rules import Level
from vitalsdsl.tracker import Ability, Alert, Port
from vitalsdsl.verdict import Transition
from vitalsdsl_mlflow.tap import ours

MAX_TAG = 8000
"""Longer tag values are cut off by MLflow without a word."""

Method = TypeVar("Method", bound=Callable[..., Any])


def _quietly(method: Method) -> Method:
    """Calls of ours to the store are not points of the run."""

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        before = getattr(ours, "busy", False)
        ours.busy = True
        try:
            return method(*args, **kwargs)
        finally:
            ours.busy = before

    return call  # type: ignore[return-value]


class MlflowPort(Port):
    """Acts on one run through the client of the store that the run is logged to."""

    name = "mlflow"
    can = frozenset({Ability.TAG, Ability.ALERT, Ability.RECORD, Ability.POLICY})

    def __init__(self, client: Any, run_id: str, policy_name: str, file_name: str, git: str) -> None:
        self._client = client
        self._run = run_id
        self._policy_name = policy_name
        self._file_name = file_name
        self._git = git
        self._firing: dict[str, str] = {}
        self._transitions: list[str] = []
        self._alerts: list[str] = []

    @_quietly
    def tag_level(self, level: Level) -> None:
        self._client.set_tag(self._run, "vitals.level", level.word)

    @_quietly
    def tag_rules(self, firing: Mapping[str, str]) -> None:
        for rule, shown in firing.items():
            if self._firing.get(rule) != shown:
                self._client.set_tag(self._run, _tag_name(rule), shown)
                self._firing[rule] = shown
        for rule in [rule for rule in self._firing if rule not in firing]:
            self._client.delete_tag(self._run, _tag_name(rule))
            del self._firing[rule]

    @_quietly
    def alert(self, alert: Alert) -> None:
        record = {"id": alert.id, "at": time.time(), "level": alert.level.word, "title": alert.title, "text": alert.text}
        line = json.dumps(record, ensure_ascii=False)
        if line not in self._alerts:
            self._alerts.append(line)
        self._client.log_text(self._run, "\n".join(self._alerts) + "\n", "vitals/alerts.jsonl")
        self._client.set_tag(self._run, "vitals.alert", f"{alert.title}: {alert.text}"[:MAX_TAG])

    @_quietly
    def record(self, transitions: Sequence[Transition]) -> None:
        known = set(self._transitions)
        lines = [json.dumps(t.as_dict(), ensure_ascii=False, allow_nan=False) for t in transitions]
        self._transitions += [line for line in lines if line not in known]
        self._client.log_text(self._run, "\n".join(self._transitions) + "\n", "vitals/transitions.jsonl")

    @_quietly
    def record_policy(self, text: str, digest: str) -> None:
        self._client.log_text(self._run, text, f"vitals/policy/{self._file_name}")
        self._client.set_tag(self._run, "vitals.policy", self._policy_name[:MAX_TAG])
        self._client.set_tag(self._run, "vitals.digest", digest)
        if self._git:
            self._client.set_tag(self._run, "vitals.git", self._git)


def _tag_name(rule: str) -> str:
    """A tag's name for a rule's: MLflow allows letters, digits and a few signs, at most 250 of them."""
    return "vitals.rule." + "".join(c if c.isalnum() or c in "_-. /" else "_" for c in rule)[:200]
