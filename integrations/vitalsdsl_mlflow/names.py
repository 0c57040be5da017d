"""Under which names things of ours stand on a run of MLflow: its tags, its artifacts, the lines in those."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
import time

from vitalsdsl.acting.tracker import Alert
from vitalsdsl.ground.json_line import json_line

RULE = "vitals.rule."
"""What the tags of rules begin with."""

ALERTS = "vitals/alerts.jsonl"
TRANSITIONS = "vitals/transitions.jsonl"

REQUEST, ANSWER = "vitals.request.", "vitals.answer."
"""What the tags of the control channel begin with."""

MAX_TAG = 8000
"""Longer tag values are cut off by MLflow without a word."""

_LONGEST_NAME = 200

_GUARD = re.compile(r"nonfinite\((.*)\)", re.DOTALL)


def tag_name(rule: str) -> str:
    """A tag's name for a rule's: MLflow allows letters, digits and a few signs, at most 250 of them, and no path that
    could be written shorter. What has to be changed ends in a sum of the whole, so that no two rules share a tag.

    >>> tag_name("loss_high"), tag_name("nonfinite(train/loss)"), tag_name("nonfinite(mem (GB))")
    ('vitals.rule.loss_high', 'vitals.rule.nonfinite train/loss', 'vitals.rule.nonfinite mem _GB_-6639f381')
    """
    # MLflow takes no parentheses. A space in their place is free: no rule that somebody wrote has one in its name.
    guarded = _GUARD.fullmatch(rule)
    plain = f"nonfinite {guarded[1]}" if guarded is not None else rule
    name = re.sub(r"[^\w\-. /]", "_", plain)
    if posixpath.normpath(name) != name or name.startswith(("/", "..")) or name != name.strip():
        name = name.strip().replace("/", "_").replace("..", "_")
    if name == plain and len(name) <= _LONGEST_NAME and (guarded is not None or not rule.startswith("nonfinite ")):
        return RULE + name
    return f"{RULE}{name[:_LONGEST_NAME].rstrip()}-{hashlib.sha256(rule.encode('utf-8', 'replace')).hexdigest()[:8]}"


def alert_line(alert: Alert) -> str:
    """An alert as a line of their list."""
    told = {"id": alert.id, "at": time.time(), "level": alert.level.word, "title": alert.title, "text": alert.text}
    return json_line(told)


def id_in(line: str) -> object:
    """The id in a line of an artifact; None in one that was cut off."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record.get("id") if isinstance(record, dict) else None
