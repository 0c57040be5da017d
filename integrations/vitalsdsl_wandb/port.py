"""A run of W&B as dispatch sees it: one tag, two summary keys, a history key, alerts, the policy and the transitions as
files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vitalsdsl.acting.tracker import Ability, Alert, PolicyCopy, Port, facts, kept_as
from vitalsdsl.ground.json_line import json_line
from vitalsdsl.language.rules import Level
from vitalsdsl.verdicts.verdict import Transition
from vitalsdsl_wandb.rows import LEVEL
from vitalsdsl_wandb.tap import note

TAG = "vitals:"
MAX_TITLE = 63
"""W&B wants titles below 64 characters, and does not shorten them."""

NO_WAIT = 0.001
"""Seconds between two alerts of one title. W&B takes 0 for a minute."""

_ALERT_LEVELS = {Level.GREEN: "INFO", Level.YELLOW: "INFO", Level.ORANGE: "WARN", Level.RED: "ERROR"}


class WandbPort(Port):
    """Acts on one run of this process through its `Run`, which only queues for W&B's own process: nothing here waits
    for the network.

    Transitions go to the run's file `vitals/transitions.jsonl`, which W&B uploads whenever it grows; an offline run
    keeps it in its folder, for `wandb sync`. Alerts of an offline run are kept likewise. Tags are W&B's whole list,
    read and written back: a tag that the script adds in the same instant may be lost, as with two writers of its own.
    """

    name = "wandb"
    can = frozenset({Ability.TAG, Ability.ALERT, Ability.RECORD, Ability.POLICY})

    def __init__(self, wandb: Any, run: Any) -> None:
        self._wandb = wandb
        self._run = run
        self._policies: dict[str, PolicyCopy] = {}
        self._alerted: set[str] = set()
        self._recorded: set[str] = set()
        self._is_saved = False
        self._level = Level.GREEN

    def tag_level(self, level: Level) -> None:
        before = tuple(self._run.tags or ())
        after = with_level(before, level)
        if before != after:
            self._run.tags = after
        self._run.summary["vitals.level"] = level.word
        if level is not self._level:
            self._level = level
            note(self._run, {LEVEL: int(level)})

    def tag_rules(self, firing: Mapping[str, str]) -> None:
        # One text: a mapping would become a key for each rule, and those that are quiet again could not be taken away.
        self._run.summary["vitals.rules"] = ", ".join(f"{rule} {shown}" for rule, shown in firing.items())

    def alert(self, alert: Alert) -> None:
        if alert.id in self._alerted:
            return
        self._run.alert(short_title(alert.title), alert.text, severity(alert.level), NO_WAIT)
        self._alerted.add(alert.id)

    def record(self, transitions: Sequence[Transition]) -> None:
        path = Path(self._run.dir) / "vitals" / "transitions.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = [t for t in transitions if t.id not in self._recorded]
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(json_line(t.as_dict()) + "\n" for t in fresh))
        self._recorded.update(t.id for t in fresh)
        if not self._is_saved:
            self._run.save(str(path), base_path=self._run.dir, policy="live")
            self._is_saved = True

    def record_policy(self, policy: PolicyCopy) -> None:
        # In the run's own files, too: there it is at hand while the run is offline, and without asking for artifacts.
        path = Path(self._run.dir) / "vitals" / "policy" / kept_as(policy, self._policies.values())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(policy.text, "utf-8")
        self._run.save(str(path), base_path=self._run.dir, policy="now")
        self._policies[policy.digest] = policy
        self._run.config.update({"vitals": facts(self._policies.values())}, allow_val_change=True)
        name = re.sub(r"[^A-Za-z0-9_.-]", "-", policy.name)[:100] or "policy"
        artifact = self._wandb.Artifact(name, type="vitals-policy", metadata=facts([policy]))
        with artifact.new_file(policy.file_name, encoding="utf-8") as file:
            file.write(policy.text)
        self._run.log_artifact(artifact)


def with_level(tags: Iterable[str], level: Level) -> tuple[str, ...]:
    """A run's tags with the one of ours that says its level, and no other of those."""
    return (*(tag for tag in tags if not _is_ours(tag)), TAG + level.word)


def short_title(title: str) -> str:
    """A title as W&B wants it."""
    return title if len(title) <= MAX_TITLE else title[: MAX_TITLE - 1] + "…"


def severity(level: Level) -> str:
    """A level in W&B's words."""
    return _ALERT_LEVELS[level]


def _is_ours(tag: str) -> bool:
    return tag.startswith(TAG) and tag[len(TAG) :] in {level.word for level in Level}
