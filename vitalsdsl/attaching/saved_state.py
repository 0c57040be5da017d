"""What the rules of a run knew, kept for the process that resumes it: with a checksum, and in a file of its own."""

from __future__ import annotations

import json
import logging
import uuid
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitalsdsl.ground.errors import StateError
from vitalsdsl.ground.home import file_name

logger = logging.getLogger("vitalsdsl")

_SUM = "checksum"


def sealed(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state with its checksum."""
    return {**state, _SUM: _checksum(state)}


def unsealed(state: object) -> dict[str, Any]:
    """A state as it was sealed. Raises StateError where it is none, or is not what it was."""
    if not isinstance(state, Mapping):
        raise StateError("saved rule state is damaged: it is no mapping")
    inside = {key: value for key, value in state.items() if key != _SUM}
    if _SUM in state and state[_SUM] != _checksum(inside):
        raise StateError("saved rule state is damaged: it is not as it was saved")
    return inside


def _checksum(state: Mapping[str, Any]) -> int:
    try:
        return zlib.crc32(json.dumps(state, sort_keys=True).encode("utf-8", "surrogatepass"))
    except (TypeError, ValueError, RecursionError) as error:
        raise StateError("saved rule state is damaged: it holds what no state does") from error


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
    """Take a state out, if there is one that can be read: what comes after it makes it old, so it is there once. Of one
    that cannot be read it is said that the rules start anew."""
    try:
        text = path.read_text("utf-8")
        path.unlink()
        state = json.loads(text)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError):
        state = None
    if not isinstance(state, dict):
        logger.warning("vitals: %s is damaged: the rules of its run start anew", path)
        return None
    return state
