"""What `wandb:…` refers to: a path on this disk, or a run or project on the server."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from vitalsdsl.ground.claims import is_address
from vitalsdsl.ground.errors import MissingExtraError, UsageError
from vitalsdsl.runs.sources import Recording
from vitalsdsl.watching.feeds import Target, Wanted
from vitalsdsl_wandb import places, recorded
from vitalsdsl_wandb.address import is_page, run_page
from vitalsdsl_wandb.framing import HEADER, MAGIC
from vitalsdsl_wandb.server import find_server
from vitalsdsl_wandb.tail import LocalTarget

_REMOTE = "vitalsdsl_wandb.remote"


def read(rest: str, *, step_key: str | None = None) -> list[Recording]:
    """The recorded runs behind what stands after `wandb:`. Raises SourceError, UsageError."""
    if is_path(rest):
        return list(recorded.read(rest, step_key=step_key))
    found: list[Recording] = _remote().read(rest, step_key)
    return found


def target(rest: str, wanted: Wanted) -> Target:
    """The runs to watch behind what stands after `wandb:`. Raises UsageError.

    W&B's own folder need not be there yet: the first run makes it.
    """
    if not is_path(rest):
        found: Target = _remote().target(rest, wanted)
        return found
    place = Path(rest).expanduser()
    if not place.exists() and not (place.name in places.FOLDERS and place.parent.is_dir()):
        raise UsageError(f"there is no `{rest}`")
    if place.exists() and not place.is_dir() and not places.is_run_file(place):
        raise UsageError(f"`{rest}` is neither a `.wandb` file nor a folder with runs of W&B")
    return LocalTarget(place, wanted)


def is_path(rest: str) -> bool:
    """Whether this names something on this disk: it is there, or it is written as a path."""
    return rest.startswith((".", "/", "~")) or rest.endswith(places.SUFFIX) or Path(rest).exists()


def claims(reference: str) -> str | None:
    """A path to runs of W&B, or to where its own folder will be, or the address of a page: the same with its scheme.
    Raises UsageError where a page of W&B's is that of no project and no run."""
    if is_address(reference):
        return f"wandb:{run_page(reference)}" if is_page(reference, find_server()) else None
    place = Path(reference).expanduser()
    try:
        is_ours = _holds_runs(place) if place.exists() else place.name in places.FOLDERS and place.parent.is_dir()
    except (OSError, ValueError):  # no path can be written so, or it must not be looked at
        return None
    if not is_ours:
        return None
    return f"wandb:{reference}" if is_path(reference) else f"wandb:./{reference}"


def _holds_runs(place: Path) -> bool:
    if not place.is_dir():
        return places.is_run_file(place)
    has_own = place.name in places.FOLDERS or any((place / name).is_dir() for name in places.FOLDERS)
    return has_own or recognises(place, b"")


def recognises(place: Path, head: bytes) -> bool:
    """Whether a file begins as W&B's run files do, or a folder is that of a run, or one with such folders."""
    if place.is_file():
        return head.startswith(HEADER.pack(*MAGIC, 0)[:6])
    return any(places.is_run_file(child) or places.names_a_run(child) for child in place.iterdir())


def _remote() -> Any:
    """What reads from a server, loaded only where it is needed: for files, no library for HTTP has to be there."""
    try:
        return importlib.import_module(_REMOTE)
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "requests", "wandb") from error
