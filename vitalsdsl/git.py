"""Which commit a policy file is of."""

from __future__ import annotations

import subprocess
from pathlib import Path


def commit_of(path: str) -> str:
    """The commit of the repository around a file, with `-dirty` where the file differs from it; empty where there is
    no repository, no git, or no such file."""
    file = Path(path)
    if not file.is_file():
        return ""
    commit = _git(file, "rev-parse", "HEAD")
    if commit and _git(file, "status", "--porcelain", "--", file.name):
        return f"{commit}-dirty"
    return commit


def _git(file: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", *words],
            cwd=file.parent,
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
