"""Policies in git: which commit files are of, and a folder of rule files as it stood at a commit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from vitalsdsl.ground.errors import SourceError

TRANSPORTS = ("https", "ssh", "file")
"""How another repository may be reached. Others of git's own, such as `ext::`, run commands."""

PATIENCE = 60.0
"""Seconds for one command that reaches another repository."""

_ORDINARY = frozenset({"100644", "100755"})
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]*@")


def commit_of(*paths: str) -> str:
    """The commit of the repository around files, with `-dirty` where one of them differs from it; empty where the first
    is no file, or there is no repository or no git.

    Files outside of the first one's repository count as differing: no commit of it says what they were.
    """
    files = [Path(path) for path in paths]
    if not files or not files[0].is_file():
        return ""
    folder = files[0].parent
    commit = _asked(folder, "rev-parse", "HEAD")
    if not commit:
        return ""
    names = [str(file.resolve()) for file in files]
    changed = _asked(folder, "status", "--porcelain", "--", *names)
    return commit if changed == "" else f"{commit}-dirty"


def _asked(folder: Path, *words: str) -> str | None:
    try:
        return _git(folder, *words, patience=5.0).decode("utf-8", "replace").strip()
    except SourceError:
        return None


class Tree(Mapping[str, str]):
    """The ordinary files under a folder of a repository, as they stood at a commit: their texts by their path in it.

    Only the names are read beforehand. Raises SourceError for a file that is too large or is not UTF-8 text.
    """

    def __init__(self, folder: Path, commit: str, limit: int) -> None:
        self.commit = commit
        self._folder = folder
        self._limit = limit
        self._blobs: dict[str, tuple[str, int]] = {}
        for entry in _git(folder, "ls-tree", "-r", "-l", "-z", commit).decode("utf-8", "replace").split("\0"):
            facts, _, path = entry.partition("\t")
            mode, kind, blob, size = facts.split() if path else ("", "", "", "0")
            if kind == "blob" and mode in _ORDINARY:
                self._blobs[path] = (blob, int(size))

    def __getitem__(self, path: str) -> str:
        blob, size = self._blobs[path]
        if size > self._limit:
            raise SourceError(f"{path} has {size / 1e6:.1f} million bytes at {self.commit[:12]}: it is no rule file")
        try:
            return _git(self._folder, "cat-file", "blob", blob).decode("utf-8")
        except UnicodeDecodeError:
            raise SourceError(f"{path} is not UTF-8 text at {self.commit[:12]}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._blobs)

    def __len__(self) -> int:
        return len(self._blobs)


class Fetched(Tree):
    """Such files of another repository, out of a copy that goes away at `close`."""

    def __init__(self, url: str, revision: str, folder: PurePosixPath, limit: int) -> None:
        if url.partition("://")[0] not in TRANSPORTS:
            raise SourceError(f"git reaches other repositories by {', '.join(TRANSPORTS)}, not by `{url}`")
        self._copy = Path(tempfile.mkdtemp(prefix="vitals-git-"))
        try:
            _git(self._copy, "init", "--quiet", "--bare", ".")
            commit = _fetch(self._copy, url, revision)
            super().__init__(self._copy, f"{commit}:{folder}" if folder.parts else commit, limit)
            self.commit = commit
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        shutil.rmtree(self._copy, ignore_errors=True)


def at(path: Path, revision: str, limit: int) -> Tree:
    """The files of the folder of a path, as they stood at a revision of the repository around it."""
    _refuse_odd(revision)
    folder = path.parent
    if not folder.is_dir():
        raise SourceError(f"there is no folder {folder} here to ask git in")
    return Tree(folder, _resolved(folder, revision), limit)


def _fetch(copy: Path, url: str, revision: str) -> str:
    """The commit that a revision of another repository is. A branch, a tag or a whole id is fetched alone."""
    wanted = revision or "HEAD"
    _refuse_odd(wanted)
    try:
        _git(copy, "fetch", "--quiet", "--depth=1", "--no-tags", url, wanted, patience=PATIENCE)
        return _resolved(copy, "FETCH_HEAD")
    except SourceError:
        if re.fullmatch(r"[0-9a-f]{4,40}", wanted) is None:
            raise
    # The beginning of an id means something only to who has all of them.
    _git(copy, "fetch", "--quiet", url, "+refs/*:refs/*", patience=PATIENCE)
    return _resolved(copy, wanted)


def _refuse_odd(revision: str) -> None:
    if not revision or revision.startswith("-") or not revision.isprintable() or " " in revision:
        raise SourceError(f"`{revision}` is no revision: write a branch, a tag or a commit")


def _resolved(folder: Path, revision: str) -> str:
    try:
        return _git(folder, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").decode("ascii").strip()
    except SourceError as error:
        inside = _asked(folder, "rev-parse", "--git-dir")
        said = f"there is no revision `{revision}`" if inside else f"{folder} is in no git repository"
        raise SourceError(said) from error


def _git(folder: Path, *words: str, patience: float = 20.0) -> bytes:
    """What git answers. It never asks a person, and runs nothing but itself and ssh."""
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": ":".join(TRANSPORTS), "LC_ALL": "C"}
    environment.setdefault("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
    try:
        done = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, timeout=patience, check=False,
            stdin=subprocess.DEVNULL, env=environment,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise SourceError("git is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise SourceError(f"git did not answer within {patience:g} seconds") from error
    except OSError as error:
        raise SourceError(f"git cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it failed"]
        said = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1])
        raise SourceError("git says: " + _CREDENTIALS.sub("", said.partition(": ")[2] or said))
    return done.stdout
