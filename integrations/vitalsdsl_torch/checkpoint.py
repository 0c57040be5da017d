"""One checkpoint on disk: a folder that is there whole or not at all, and can prove that it is as it was written."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from vitalsdsl_torch.durable import digest_of, json_bytes, sync, write

COMPLETE = "COMPLETE"
MANIFEST = "manifest.json"
SHARDS = "shards"
_UNDER_WAY = ".writing-"
_NAME = re.compile(r"step-(\d{8,})-(\d+)")
"""What a checkpoint is called, by step and attempt. Whatever else lies there, `step-1000` too, is somebody else's."""


@dataclass(frozen=True)
class Checkpoint:
    """The state after `step` updates, in an attempt; `position` is how many batches had been drawn by then, None where
    the guard was given no data. `born` is the state it had at birth: probation, or suspect; `ranks` how many processes
    wrote it."""

    id: str
    folder: Path
    step: int
    attempt: int
    position: int | None
    born: str
    ranks: int = 1

    @property
    def is_sharded(self) -> bool:
        """Whether its tensors lie where torch.distributed.checkpoint puts them."""
        return (self.folder / SHARDS).is_dir()

    def damage(self, rank: int = 0, ranks: int = 1) -> str:
        """What is not as it was written, in a few words; nothing where all is well. Reads every byte, or of several
        ranks this one's share of them."""
        try:
            manifest = (self.folder / MANIFEST).read_bytes()
            if digest_of(self.folder / MANIFEST) != (self.folder / COMPLETE).read_text("utf-8").strip():
                return f"{MANIFEST} has changed"
            for name, said in sorted(json.loads(manifest)["files"].items())[rank::ranks]:
                path = self.folder / name
                if path.stat().st_size != said["bytes"] or digest_of(path) != said["sha256"]:
                    return f"{name} has changed"
        except (OSError, ValueError, KeyError, TypeError) as error:
            return str(getattr(error, "strerror", None) or "it cannot be read")
        return ""

    def read(self, part: str) -> Any:
        """One part of the state, on the CPU. Nothing in the file is run: it holds tensors and plain data only."""
        return torch.load(self.folder / f"{part}.pt", map_location="cpu", weights_only=True)

    def remove(self) -> None:
        """Take it off the disk. Interrupted, it is no checkpoint any more."""
        (self.folder / COMPLETE).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def save(root: Path, about: Mapping[str, Any], parts: Mapping[str, Any]) -> Checkpoint:
    """Write a checkpoint: the parts, then the manifest with the sha256 of each, then COMPLETE, then its name.

    `about` says step, attempt, position and the state it is born with. Raises OSError, and leaves nothing behind then.
    """
    draft = begin(root, about)
    try:
        files: dict[str, Any] = {}
        for name, part in parts.items():
            files |= save_part(part, draft, name)
        return finish(root, about, files)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def draft_of(root: Path, about: Mapping[str, Any]) -> Path:
    """The folder in which a checkpoint lies as long as it is written."""
    return root / f"{_UNDER_WAY}{_id(about)}"


def _id(about: Mapping[str, Any]) -> str:
    return f"step-{about['step']:08d}-{about['attempt']}"


def begin(root: Path, about: Mapping[str, Any]) -> Path:
    """Its empty folder. Raises OSError."""
    draft = draft_of(root, about)
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    return draft


def save_part(part: Any, draft: Path, name: str) -> dict[str, Any]:
    """Write a part down to the disk; gives what the manifest says of it. Raises OSError."""
    path = draft / f"{name}.pt"
    try:
        torch.save(part, path)
    except RuntimeError as error:  # in this form torch tells of a disk that is full
        raise OSError(str(error).splitlines()[0]) from error
    sync(path)
    return entry(draft, path)


def entry(draft: Path, path: Path) -> dict[str, Any]:
    """What the manifest says of a file."""
    name = path.relative_to(draft).as_posix()
    return {name: {"bytes": path.stat().st_size, "sha256": digest_of(path)}}


def finish(root: Path, about: Mapping[str, Any], files: Mapping[str, Any]) -> Checkpoint:
    """All parts are there: write the manifest, COMPLETE, and give the folder its name. Raises OSError."""
    id_, draft = _id(about), draft_of(root, about)
    folder = root / id_
    write(draft / MANIFEST, json_bytes({"version": 1, "id": id_, **about, "files": files}))
    write(draft / COMPLETE, digest_of(draft / MANIFEST).encode())
    sync(draft)
    if folder.exists():  # of the same step and attempt, and so the same state: a restart has come by here again
        read(root, id_).remove()
    draft.rename(folder)
    sync(root)
    return read(root, id_)


def found(root: Path) -> list[Checkpoint]:
    """The checkpoints of a folder that are complete, in the order of attempt and step."""
    out = []
    for folder in root.glob("step-*"):
        if _NAME.fullmatch(folder.name) and (folder / COMPLETE).exists():
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                out.append(read(root, folder.name))
    return sorted(out, key=lambda c: (c.attempt, c.step))


def sweep(root: Path) -> None:
    """Remove what an earlier process did not finish writing, or removing; nothing else that lies there."""
    for folder in root.glob("*step-*"):
        is_begun = folder.name.startswith(_UNDER_WAY) and _NAME.fullmatch(folder.name.removeprefix(_UNDER_WAY))
        is_going = _NAME.fullmatch(folder.name) and not (folder / COMPLETE).exists()
        if folder.is_dir() and (is_begun or is_going):
            shutil.rmtree(folder, ignore_errors=True)


SEEN_WITHIN = 10.0
"""After how many seconds a file is there that another machine wrote, or never."""


def is_seen(path: Path) -> bool:
    """Whether a file is there, if need be a little later: a file system between machines takes its time."""
    end = time.monotonic() + SEEN_WITHIN
    while not path.exists():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def read(root: Path, id_: str) -> Checkpoint:
    """A checkpoint by its id, as its manifest says. Raises OSError where there is none."""
    folder = root / id_
    try:
        said = json.loads((folder / MANIFEST).read_text("utf-8"))
        return Checkpoint(id_, folder, said["step"], said["attempt"], said["position"], said["born"], said.get("ranks", 1))  # fmt: skip
    except ValueError:
        # Damaged, yet complete: the name says where it belongs, so that it is found out and marked when it is chosen.
        _, step, attempt = id_.split("-")
        return Checkpoint(id_, folder, int(step), int(attempt), None, "probation")
