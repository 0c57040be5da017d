"""What the rules of a run knew when it ended, kept for the process that resumes it."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitalsdsl.ground.home import file_name

logger = logging.getLogger("vitalsdsl")


def state_path(home: Path, run: str, policy: str) -> Path:
    """Where it is kept, beside the journal."""
    return home / file_name(run) / f"{file_name(policy)}.state.json"


def save(path: Path, state: Mapping[str, Any]) -> None:
    """Write a state, whole or not at all. Where that fails the run can still be resumed: its rules start anew then."""
    draft = path.with_name(f".{uuid.uuid4().hex}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(state), "utf-8")
        draft.replace(path)
    except OSError as error:
        logger.warning("vitals: the rules' state is not kept (%s): resumed, they start anew", error.strerror or error)


def take(path: Path) -> dict[str, Any] | None:
    """Take a state out, if there is one that can be read: what comes after it makes it old, so it is there once."""
    try:
        text = path.read_text("utf-8")
        path.unlink()
        state = json.loads(text)
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) else None
