"""The rule files below a folder: what `vitals check .`, `fmt .` and `test .` go through."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from vitalsdsl.ground.errors import UsageError
from vitalsdsl.ground.source import is_yaml
from vitalsdsl.policies.policy_files import SUFFIXES, is_suite

_SKIPPED = frozenset({"node_modules", "__pycache__"})
_POLICY_IN_YAML = re.compile(rb"^vitals\s*:", re.MULTILINE)
_HEAD = 4096


def named(names: Iterable[str], find: Callable[[str], list[str]], what: str) -> list[str]:
    """The names as they are, each folder among them as the files that are found in it.

    Raises UsageError where a folder holds none; `what` says of what.
    """
    out: list[str] = []
    for name in names:
        if Path(name).is_dir():
            found = find(name)
            if not found:
                raise UsageError(f"{name} is a folder without any {what}")
            out += found
        else:
            out.append(name)
    return list(dict.fromkeys(out))


def policies_in(folder: str) -> list[str]:
    """The `.vitals` files below a folder, and the YAML files that say `vitals:`."""
    return [str(path) for path in _files(folder) if path.suffix.lower() in SUFFIXES and _is_policy(path)]


def suites_in(folder: str) -> list[str]:
    """The `.vtest.yaml` files below a folder."""
    return [str(path) for path in _files(folder) if is_suite(path.name)]


def _is_policy(path: Path) -> bool:
    if not is_yaml(path.name):
        return True
    try:
        with path.open("rb") as file:
            return not is_suite(path.name) and _POLICY_IN_YAML.search(file.read(_HEAD)) is not None
    except OSError:
        return False


def _files(folder: str) -> Iterator[Path]:
    """All files, in order; hidden folders, virtual environments and what tools keep for themselves are left out."""
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if not (f.startswith(".") or f in _SKIPPED or _is_environment(here, f)))
        yield from (Path(here, file) for file in sorted(files))


def _is_environment(here: str, folder: str) -> bool:
    return Path(here, folder, "pyvenv.cfg").is_file()
