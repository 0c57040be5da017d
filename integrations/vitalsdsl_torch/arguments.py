"""What a guard is given: whether it can work with that, said in one line where it cannot."""

from __future__ import annotations

import numbers
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from vitalsdsl.acting.control import CONTROL_VARIABLE, Control, control_of, is_folder
from vitalsdsl.ground.errors import UsageError
from vitalsdsl_torch.data import Seekable
from vitalsdsl_torch.mailbox import Mailbox

ACTIONS = ("checkpoint", "detail", "lr", "pause", "rollback", "stop")
"""What a guard can do, by the names that policies use; `detail` is `request("detail", steps: …)`."""


def told(error: Exception, root: Path) -> Exception:
    """What is raised at the start: of a folder that cannot be used one line says so."""
    if not isinstance(error, OSError):
        return error
    where = error.filename or root
    told = UsageError(f"a guard cannot keep its files in {root}: {where}: {error.strerror or error}")
    told.__cause__ = error
    return told


def check_numbers(kind: Any, least: int = 1, **given: Any) -> None:
    for name, number in given.items():
        if not isinstance(number, kind) or isinstance(number, bool) or not number >= least:
            whole = ", a whole number" * (kind is numbers.Integral)
            raise UsageError(f"`{name}` must be {least} or more{whole}, not {number!r}")


def check(allow: Collection[str], data: Any) -> None:
    if allow is None:
        raise UsageError("`allow` takes the actions that are allowed, () for none, not None")
    words = [allow] if isinstance(allow, str) else list(allow)
    for word in words:
        if word not in ACTIONS or isinstance(allow, str):
            raise UsageError(
                f"`allow` takes some of {', '.join(ACTIONS)}, not {word!r}" + " alone" * isinstance(allow, str)
            )
    if data is not None and not isinstance(data, Seekable):
        raise UsageError("`data` needs `position` and `skip_to`: wrap a loader as vitalsdsl_torch.Batches(loader)")


def channel_of(run: str | None, root: Path, control: str | os.PathLike[str] | None, poll: float) -> Control | None:
    """The control channel, if there is one. A folder is looked at between two steps, a tracker by a thread."""
    where = os.fspath(control or os.environ.get(CONTROL_VARIABLE, ""))
    if not where:
        return None
    if is_folder(where):
        return control_of(run or root.name, where)
    if run is None:
        raise UsageError(f"with `{where}` as its control channel a guard has to know the tracker's own id: run=RUN_ID")
    return Mailbox(control_of(run, where), poll)
