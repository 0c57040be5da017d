"""One checkpoint on disk: a folder that is there whole or not at all, and can prove that it is as it was written."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from vitalsdsl_torch.durable import digest_of, json_bytes, sync, write

COMPLETE = "COMPLETE"
MANIFEST = "manifest.json"
_UNDER_WAY = ".writing-"


@dataclass(frozen=True)
class Checkpoint:
    """The state after `step` updates, in an attempt; `position` is how many batches had been drawn by then, None where
    the guard was given no data. `born` is the state it had at birth: probation, or suspect."""

    id: str
    folder: Path
    step: int
    attempt: int
    position: int | None
    born: str

    def damage(self) -> str:
        """What is not as it was written, in a few words; nothing where all is well. Reads every byte."""
        try:
            manifest = (self.folder / MANIFEST).read_bytes()
            if digest_of(self.folder / MANIFEST) != (self.folder / COMPLETE).read_text("utf-8").strip():
                return f"{MANIFEST} has changed"
            for name, said in json.loads(manifest)["files"].items():
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
    id_ = f"step-{about['step']:08d}-{about['attempt']}"
    draft, folder = root / f"{_UNDER_WAY}{id_}", root / id_
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        files = {}
        for name, part in parts.items():
            path = draft / f"{name}.pt"
            _save_part(part, path)
            files[path.name] = {"bytes": path.stat().st_size, "sha256": digest_of(path)}
        write(draft / MANIFEST, json_bytes({"version": 1, "id": id_, **about, "files": files}))
        write(draft / COMPLETE, digest_of(draft / MANIFEST).encode())
        sync(draft)
        if folder.exists():  # of the same step and attempt, and so the same state: a restart has come by here again
            _read(folder, id_).remove()
        draft.rename(folder)
        sync(root)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return _read(folder, id_)


def _save_part(part: Any, path: Path) -> None:
    try:
        torch.save(part, path)
    except RuntimeError as error:  # in this form torch tells of a disk that is full
        raise OSError(str(error).splitlines()[0]) from error
    sync(path)


def found(root: Path) -> list[Checkpoint]:
    """The checkpoints of a folder that are complete, in the order of attempt and step."""
    out = []
    for folder in root.glob("step-*"):
        if (folder / COMPLETE).exists():
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                out.append(_read(folder, folder.name))
    return sorted(out, key=lambda c: (c.attempt, c.step))


def sweep(root: Path) -> None:
    """Remove what an earlier process did not finish writing, or removing."""
    for folder in [*root.glob(f"{_UNDER_WAY}*"), *root.glob("step-*")]:
        if folder.is_dir() and (folder.name.startswith(_UNDER_WAY) or not (folder / COMPLETE).exists()):
            shutil.rmtree(folder, ignore_errors=True)


def _read(folder: Path, id_: str) -> Checkpoint:
    try:
        said = json.loads((folder / MANIFEST).read_text("utf-8"))
        return Checkpoint(id_, folder, said["step"], said["attempt"], said["position"], said["born"])
    except ValueError:
        # Damaged, yet complete: the name says where it belongs, so that it is found out and marked when it is chosen.
        _, step, attempt = id_.split("-")
        return Checkpoint(id_, folder, int(step), int(attempt), None, "probation")
