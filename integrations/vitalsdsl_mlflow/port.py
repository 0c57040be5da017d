"""A run of MLflow as dispatch sees it: tags, a record of alerts, the policy and the transitions as artifacts."""

from __future__ import annotations

import functools
import os
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from vitalsdsl.acting.tracker import Ability, Alert, PolicyCopy, Port, facts, kept_as
from vitalsdsl.ground.json_line import json_line
from vitalsdsl.language.rules import Level
from vitalsdsl.verdicts.verdict import Transition
from vitalsdsl_mlflow.headline import Headline, as_tag
from vitalsdsl_mlflow.names import ALERTS, MAX_TAG, RULE, TRANSITIONS, alert_line, id_in, tag_name
from vitalsdsl_mlflow.quiet import quiet
from vitalsdsl_mlflow.tap import ours

Method = TypeVar("Method", bound=Callable[..., Any])


class _Gate:
    """Counts the calls of ours that are under way, and lets a fork wait for them, for a moment.

    A child that is forked in the middle of one would inherit the locks of MLflow, of its database and of the import
    system as our thread holds them, and hang at its own first call.
    """

    patience = 0.5

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._changed = threading.Condition()
        self._under_way = 0
        self._forking = 0

    def enter(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._forking, 2 * self.patience)
            self._under_way += 1

    def leave(self) -> None:
        with self._changed:
            self._under_way = max(0, self._under_way - 1)
            self._changed.notify_all()

    def before_fork(self) -> None:
        with self._changed:
            self._forking += 1
            self._changed.wait_for(lambda: not self._under_way, self.patience)

    def after_fork(self) -> None:
        with self._changed:
            self._forking = max(0, self._forking - 1)
            self._changed.notify_all()


_gate = _Gate()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_gate.before_fork, after_in_parent=_gate.after_fork, after_in_child=_gate.reset)


def _quietly(method: Method) -> Method:
    """Calls of ours to the store are not points of the run."""

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        before = getattr(ours, "busy", False)
        _gate.enter()
        ours.busy = True
        try:
            return method(*args, **kwargs)
        finally:
            ours.busy = before
            _gate.leave()

    return call  # type: ignore[return-value]


class MlflowPort(Port):
    """Acts on one run through the client of the store that the run is logged to."""

    name = "mlflow"
    can = frozenset({Ability.TAG, Ability.ALERT, Ability.RECORD, Ability.POLICY})

    def __init__(self, client: Any, run_id: str) -> None:
        self._client = client
        self._run = run_id
        self._policies: dict[str, PolicyCopy] = {}
        self._shown: dict[str, str] | None = None
        self._lines: dict[str, list[str]] = {}
        self._headline = Headline()

    @_quietly
    def tag_level(self, level: Level) -> None:
        self._headline.stands(level)
        self._client.set_tag(self._run, "vitals.level", level.word)

    @_quietly
    def tag_rules(self, firing: Mapping[str, str]) -> None:
        if self._shown is None:
            tags = self._client.get_run(self._run).data.tags
            self._shown = {name: value for name, value in tags.items() if name.startswith(RULE)}
        wanted = {tag_name(rule): shown[:MAX_TAG] for rule, shown in firing.items()}
        for name, shown in wanted.items():
            if self._shown.get(name) != shown:
                self._client.set_tag(self._run, name, shown)
                self._shown[name] = shown
        for name in [name for name in self._shown if name not in wanted]:
            self._delete_tag(name)
            del self._shown[name]

    def _delete_tag(self, name: str) -> None:
        try:
            self._client.delete_tag(self._run, name)
        except Exception as error:  # its own class is MLflow's, which is not imported here; gone already is as good
            if getattr(error, "error_code", "") != "RESOURCE_DOES_NOT_EXIST":
                raise

    @_quietly
    def alert(self, alert: Alert) -> None:
        self._add(ALERTS, {alert.id: alert_line(alert)})
        if self._headline.takes(alert.level):
            self._client.set_tag(self._run, "vitals.alert", as_tag(alert)[:MAX_TAG])

    @_quietly
    def record(self, transitions: Sequence[Transition]) -> None:
        self._add(TRANSITIONS, {t.id: json_line(t.as_dict()) for t in transitions})

    @_quietly
    def complete(self, transitions: Sequence[Transition], alerts: Sequence[Alert]) -> None:
        self._add(TRANSITIONS, {t.id: json_line(t.as_dict()) for t in transitions})
        self._add(ALERTS, {alert.id: alert_line(alert) for alert in alerts})

    def _add(self, path: str, lines: Mapping[str, str]) -> None:
        """Add lines to an artifact, by their ids: those that are there already stay as they are."""
        there = self._lines_of(path)
        known = {id_in(line) for line in there}
        new = [line for known_as, line in lines.items() if known_as not in known]
        if new:
            self._client.log_text(self._run, "".join(line + "\n" for line in (*there, *new)), path)
            there += new

    def _lines_of(self, path: str) -> list[str]:
        """The lines of one of our artifacts: a run that is resumed has those of earlier processes."""
        if path not in self._lines:
            lines: list[str] = []
            if any(file.path == path for file in self._client.list_artifacts(self._run, "vitals")):
                with tempfile.TemporaryDirectory() as folder, quiet():
                    text = Path(self._client.download_artifacts(self._run, path, folder)).read_text("utf-8")
                lines = [line for line in text.split("\n") if line]
            self._lines[path] = lines
        return self._lines[path]

    @_quietly
    def record_policy(self, policy: PolicyCopy) -> None:
        name = kept_as(policy, self._policies.values())
        self._client.log_text(self._run, policy.text, f"vitals/policy/{name}")
        self._policies[policy.digest] = policy
        for fact, value in facts(self._policies.values()).items():
            if value:
                self._client.set_tag(self._run, f"vitals.{fact}", value[:MAX_TAG])
