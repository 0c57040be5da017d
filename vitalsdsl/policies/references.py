"""Where a policy is: a file, a pack, a commit in git, a run's own copy, or a place that an integration knows."""

from __future__ import annotations

import difflib
import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, Protocol

from vitalsdsl.ground.claims import in_full, is_address
from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.errors import MissingExtraError, SourceError, UsageError, VitalsError
from vitalsdsl.ground.source import Source
from vitalsdsl.language.parser import MAX_CHARACTERS
from vitalsdsl.policies.packs import pack, packs
from vitalsdsl.policies.policy_files import SUFFIXES, policy_file, read_file, refused

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from vitalsdsl.policies.git import Fetched, Tree

GROUP = "vitalsdsl.policies"
"""Entry points by scheme: each is called without arguments and gives a `Library`."""

ON_THE_RUN = "vitals/policy"
"""The folder of a run's files in which its policies are kept."""

LOCK = ".lock"
"""What a lock's name has more than that of its policy."""

_ELSEWHERE = Path("/vitals-at-a-commit")
"""The folder that files of a commit are in for each other's `use`; nothing is ever read from it."""

_SCHEME = re.compile(r"([a-z][a-z0-9+]+):(?!//[^/])(.*)", re.DOTALL)
_AT = re.compile(r"(.*\.(?:vitals|yaml|yml))@([^@]+)", re.DOTALL | re.IGNORECASE)


class Kept(NamedTuple):
    """A policy as a library keeps it. `file` is the name of its file, which says whether it is YAML; `digest` and
    `commit` are what was noted beside it, empty where nothing was."""

    text: str
    file: str
    digest: str = ""
    commit: str = ""


class Library(Protocol):
    """A place of policies. What goes wrong there is one clear line: SourceError for what is missing or is no policy,
    TrackerError where nobody answers, MissingExtraError without the package."""

    def get(self, reference: str) -> Kept:
        """The policy behind what stands after the colon."""

    def put(self, reference: str, kept: Kept) -> str:
        """Keep a policy there, unless one of this digest is there already; say in a few words where it is now.

        Raises UsageError where nothing can be kept under such a reference.
        """


@dataclass
class Opened:
    """A policy that was found: its text, the name of its file, what its `use` may reach, its lock, and what was noted
    of it where it is kept."""

    source: Source
    file: str
    folder: Path | None = None
    known: MutableMapping[str, Source] = field(default_factory=dict)
    lock: Source | Diagnostic | None = None
    digest: str = ""
    commit: str = ""


def schemes() -> dict[str, EntryPoint]:
    """The installed libraries, by the word before the colon."""
    # Loaded only here, as in `packs`: a `vitals check` of a file asks for none.
    return {point.name: point for point in import_module("importlib.metadata").entry_points(group=GROUP)}


def is_elsewhere(name: str) -> bool:
    """Whether a reference names something else than a file as it is now.

    >>> [is_elsewhere(name) for name in ("llm.vitals", "pack:core", "llm.vitals@v1", "mlflow:abc", "C:\\\\llm.vitals")]
    [False, True, True, True, False]
    """
    if _is(Path(name).is_file):
        return False
    return (
        name.startswith("git+")
        or is_address(name)
        or any(pattern.fullmatch(name) is not None for pattern in (_SCHEME, _AT))
    )


def library(reference: str) -> tuple[Library, str]:
    """The library of a reference, and what stands after the colon. Raises UsageError where there is none."""
    found = _SCHEME.fullmatch(reference)
    point = schemes().get(found[1]) if found is not None else None
    if found is None or point is None:
        known = ", ".join(f"{name}:…" for name in sorted(schemes())) or "none"
        raise UsageError(f"no policies are kept under `{reference}` (installed: {known})")
    try:
        opened: Library = point.load()()
    except ImportError as error:
        raise MissingExtraError(error.name or found[1], found[1]) from error
    return opened, found[2]


@contextmanager
def opened(name: str) -> Iterator[Opened | Diagnostic]:
    """A policy by its reference, or why it cannot be had. What it needs of other places is there within the `with`.

    - `llm.vitals`: a file; `use` reaches its own folder.
    - `pack:core`: an installed pack.
    - `llm.vitals@v1`, `git+https://host/repository.git//rules/llm.vitals@v1`: as it stood at a commit, with its folder.
    - a folder, such as that of a W&B run: the copy that is kept in it.
    - `SCHEME:…`, or the address of a run's page: what an integration reads. Such a policy stands alone, and `use` reaches
      packs.
    """
    closing: list[Callable[[], None]] = []
    try:
        try:
            found = _find(name, closing)
        except VitalsError as error:
            found = refused(name, "V074", f"{name} cannot be had: {_in_one_line(error)}", "")
        yield found
    finally:
        for close in closing:
            close()


def _in_one_line(error: VitalsError) -> str:
    said = " ".join(str(error).split())
    return said if len(said) <= 300 else said[:300] + "…"


def _find(name: str, closing: list[Callable[[], None]]) -> Opened | Diagnostic:
    if name.startswith("pack:"):
        return _pack(name)
    path = Path(name)
    if name.startswith("git+"):
        return _remote(name, closing)
    at = _AT.fullmatch(name)
    if at is not None and not _is(path.is_file) and _SCHEME.fullmatch(name) is None:
        tree: Tree = import_module(_GIT).at(Path(at[1]), at[2], 4 * MAX_CHARACTERS)
        return _of_tree(tree, Path(at[1]).name, at[2])
    if _is(path.is_dir) or (path.suffix == ".wandb" and _SCHEME.fullmatch(name) is None):
        return _folder(path)
    if _SCHEME.fullmatch(name) is not None and not _is(path.is_file):
        return _of_library(name)
    if not path.suffix and not _is(path.exists) or is_address(name):
        full = in_full(name)
        if full != name:
            return _of_library(full)
    source = policy_file(name)
    if isinstance(source, Diagnostic):
        return source
    lock = f"{name}{LOCK}"
    return Opened(source, name, path.parent, lock=read_file(lock) if _is(Path(lock).exists) else None)


def _is(question: Callable[[], bool]) -> bool:
    try:
        return question()
    except (OSError, ValueError):  # no file can have such a name
        return False


def _pack(name: str) -> Opened | Diagnostic:
    known = packs()
    listed = ", ".join(f"`{n}`" for n in known) or "none"
    hint = near(name.removeprefix("pack:"), known) or f"installed packs: {listed}"
    source = pack(name.removeprefix("pack:"))
    return Opened(source, name) if source else refused(name, "V070", f"no pack called `{name[5:]}` is installed", hint)


def _of_library(name: str) -> Opened:
    there, rest = library(name)
    kept = there.get(rest)
    return Opened(Source(_shown(name, kept.file), kept.text), kept.file, digest=kept.digest, commit=kept.commit)


def _shown(name: str, file: str) -> str:
    """The reference as messages show it: it ends in what says which form the text is in."""
    return name if name.lower().endswith(PurePosixPath(file).suffix.lower()) else f"{name}/{file}"


def kept_in(path: Path) -> Kept:
    """The copy that is kept in the folder of a run, or beside its file, for libraries whose runs have folders.

    Raises SourceError where there is none, or several.
    """
    found = _folder(path)
    if isinstance(found, Diagnostic):
        raise SourceError(": ".join((found.message, *found.help)))
    return Kept(found.source.text, found.file)


def _folder(path: Path) -> Opened | Diagnostic:
    """A run that is a folder of its own keeps its policy in its files."""
    start = path if path.is_dir() else path.parent
    places = [place for top in (start, start / "files") if (place := top / ON_THE_RUN).is_dir()]
    files = [f for place in places for f in sorted(place.iterdir()) if f.suffix in SUFFIXES and f.is_file()]
    if len(files) == 1:
        source = read_file(str(files[0]))
        return source if isinstance(source, Diagnostic) else Opened(source, files[0].name)
    if files:
        names = ", ".join(str(file) for file in files)
        return refused(str(path), "V074", f"{path} was watched by several policies", f"name one of them: {names}")
    if path.is_dir() and not (path / "files").is_dir():
        return refused(str(path), "V071", f"{path} is a folder", "name a file in it")
    help_ = "it was not watched, or by a version that kept none"
    return refused(str(path), "V074", f"no policy is kept in {path}", help_)


# -------------------------------------------------------------------- git

_GIT = "vitalsdsl.policies.git"
"""What starts git is loaded only where a policy is in it."""


def _remote(name: str, closing: list[Callable[[], None]]) -> Opened:
    url, inside, revision = _parts(name)
    tree: Fetched = import_module(_GIT).Fetched(url, revision, inside.parent, 4 * MAX_CHARACTERS)
    closing.append(tree.close)
    return _of_tree(tree, inside.name, revision or tree.commit[:12])


def _parts(name: str) -> tuple[str, PurePosixPath, str]:
    """The address of a repository, the path in it, and the revision.

    >>> _parts("git+ssh://git@host/team/rules.git//llm/p.vitals@v1")
    ('ssh://git@host/team/rules.git', PurePosixPath('llm/p.vitals'), 'v1')
    """
    scheme, _, rest = name.removeprefix("git+").partition("://")
    address, double, path = rest.rpartition("//")
    path, at, revision = path.partition("@")
    inside = PurePosixPath(path)
    if not double or not address or not inside.name or inside.is_absolute() or ".." in inside.parts:
        raise UsageError("it is written git+https://host/repository.git//folder/policy.vitals@revision")
    if at and not revision:
        raise UsageError("nothing stands behind the `@`: write a branch, a tag or a commit")
    return f"{scheme}://{address}", inside, revision


def _of_tree(tree: Tree, file: str, revision: str) -> Opened:
    if file not in tree:
        raise SourceError(f"there is no file {file} in that folder at {revision}")
    files = _Files(tree, revision)
    lock = f"{file}{LOCK}"
    known: MutableMapping[str, Source] = ChainMap({}, files)
    return Opened(
        Source(f"{revision}:{file}", tree[file]),
        file,
        _ELSEWHERE,
        known,
        Source(f"{revision}:{lock}", tree[lock]) if lock in tree else None,
        commit=tree.commit,
    )


class _Files(dict[str, Source]):
    """Rule files of a commit, by the path that a `use` comes to; each is read when it is first used."""

    def __init__(self, tree: Mapping[str, str], revision: str) -> None:
        super().__init__()
        self._tree = tree
        self._revision = revision
        self._paths = {str((_ELSEWHERE / path).resolve()): path for path in tree if path.endswith(SUFFIXES)}

    def __contains__(self, key: object) -> bool:
        return key in self._paths

    def __missing__(self, key: str) -> Source:
        path = self._paths[key]
        self[key] = Source(f"{self._revision}:{path}", self._tree[path])
        return self[key]


def near(name: str, known: Iterable[str]) -> str:
    """A question after the nearest of the known names; empty where none is near."""
    found = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean `{found[0]}`?" if found else ""
