"""Checkpoints that several ranks write and read together, with torch.distributed.checkpoint."""

from __future__ import annotations

import logging
import pickle
import shutil
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.tensor import DTensor, Replicate

from vitalsdsl_torch import checkpoint
from vitalsdsl_torch.checkpoint import SHARDS, Checkpoint
from vitalsdsl_torch.contents import Contents, State, is_sharded
from vitalsdsl_torch.durable import sync
from vitalsdsl_torch.ranks import Ranks

logger = logging.getLogger("vitalsdsl")

# Not torch's own `get_optimizer_state_dict`: where an optimizer has no state (plain SGD has none, ever) it makes
# it take a step, which counts for every hook on it.


def save(root: Path, about: Mapping[str, Any], staged: State, contents: Contents, ranks: Ranks) -> Checkpoint | None:
    """Write a checkpoint together: tensors of model and optimizers once, whichever rank has them, and of each rank what
    is its own. The first one writes the manifest when all have confirmed theirs, and gets the checkpoint.

    Raises on all ranks where one cannot write, and leaves nothing behind then.
    """
    group, draft = ranks.writing, checkpoint.draft_of(root, about)
    tensors, own = _divided(staged, contents)
    try:
        _agreed(group, lambda: checkpoint.begin(root, about) if ranks.leads else None)
        _save_tensors(tensors, draft / SHARDS, group)
        written = _agreed(group, lambda: _save_own(own, staged, draft, ranks))
        files = {name: said for one in written for name, said in one.items()}
        (saved, *_) = _agreed(
            group, lambda: checkpoint.finish(root, {**about, "ranks": ranks.count}, files) if ranks.leads else None
        )
    except BaseException:
        if ranks.leads:
            shutil.rmtree(draft, ignore_errors=True)
        raise
    return saved if ranks.leads else None


def _agreed(group: Any, act: Callable[[], Any]) -> list[Any]:
    """Each rank does its own; gives what all returned, or raises on all what one raised."""
    mine: Any
    try:
        mine = act()
    except OSError as error:
        mine = error
    except Exception as error:
        mine = RuntimeError(type(error).__name__)
    found: list[Any] = [None] * distributed.get_world_size(group)
    distributed.all_gather_object(found, mine, group=group)
    for one in found:
        if isinstance(one, Exception):
            raise one
    return found


def _save_tensors(tensors: dict[str, Any], folder: Path, group: Any) -> None:
    # Buffers may differ between ranks: the lowest one's is what one process would have.
    planner = DefaultSavePlanner(flatten_state_dict=False, dedup_save_to_lowest_rank=True)
    try:
        dcp.save(tensors, storage_writer=dcp.FileSystemWriter(folder), planner=planner, process_group=group)
    except CheckpointException as error:
        raise OSError(_cause(error)) from error


def _cause(error: CheckpointException) -> str:
    """What one of the ranks said, in a line: it is no `Exception`, and must not get past one that is to be caught."""
    (cause, _), *_ = error.failures.values()
    return getattr(cause, "strerror", None) or (str(cause).splitlines() or [type(cause).__name__])[0]


def _save_own(own: State, staged: State, draft: Path, ranks: Ranks) -> dict[str, Any]:
    files = checkpoint.save_part(own, draft, f"rank-{ranks.rank}")
    shards = list((draft / SHARDS).glob(f"__{ranks.rank}_*"))
    if ranks.leads:
        files |= checkpoint.save_part(staged["rules"], draft, "rules")
        shards.append(draft / SHARDS / ".metadata")
        sync(draft / SHARDS)
    for path in shards:
        files |= checkpoint.entry(draft, path)
    return files


# -------------------------------------------------------------------- what is whose


def _divided(staged: State, contents: Contents) -> tuple[dict[str, Any], State]:
    """The tensors by name (`model/NAME`, `optimizer/N/NAME/KEY`), and what a rank writes by itself."""
    tensors = {f"model/{name}": value for name, value in staged["model"].items() if isinstance(value, torch.Tensor)}
    own: State = {
        "rest": staged["rest"], "data": staged["data"], "groups": {}, "values": {},
        "model": {name: value for name, value in staged["model"].items() if name not in contents.parameters and not is_sharded(value)},
    }  # fmt: skip
    for at, optimizer in enumerate(contents.optimizers):
        state, names = staged["optimizer"][str(at)], contents.parameter_names(optimizer)
        own["groups"][str(at)] = state["param_groups"]
        own["values"][str(at)] = {}
        for index, values in state["state"].items():
            own["values"][str(at)][index] = {k: v for k, v in values.items() if not isinstance(v, torch.Tensor)}
            for key, value in values.items():
                if isinstance(value, torch.Tensor):
                    tensors[f"optimizer/{at}/{names[index]}/{key}"] = value
    return tensors, own


def load(one: Checkpoint, contents: Contents, rank: int) -> State:
    """The state that a rank goes on with, in memory of its own, whatever number of ranks wrote it.

    Of what each rank wrote for itself, a rank that was not there yet takes the first one's; not the random generators.
    """
    own = one.read(f"rank-{rank if rank < one.ranks else 0}")
    if rank >= one.ranks:
        own["rest"]["random"] = None
    tensors = _load_tensors(one.folder / SHARDS, contents)
    state: State = {
        "model": {name.removeprefix("model/"): t for name, t in tensors.items() if name.startswith("model/")} | own["model"],
        "optimizer": {}, "rest": own["rest"], "data": own["data"], "rules": one.read("rules"),
    }  # fmt: skip
    for at, groups in own["groups"].items():
        state["optimizer"][at] = {"state": dict(own["values"][at]), "param_groups": groups}
    index = {
        (str(at), name): position
        for at, optimizer in enumerate(contents.optimizers)
        for position, name in enumerate(contents.parameter_names(optimizer))
    }
    for name, tensor in tensors.items():
        if name.startswith("optimizer/"):
            at, rest = name.removeprefix("optimizer/").split("/", 1)
            parameter, key = rest.rsplit("/", 1)
            if (at, parameter) in index and at in state["optimizer"]:
                state["optimizer"][at]["state"].setdefault(index[at, parameter], {})[key] = tensor
    return state


def _load_tensors(folder: Path, contents: Contents) -> dict[str, Any]:
    reader = _Reader(folder)
    live = {f"model/{name}": value for name, value in contents.model.state_dict().items()}
    for at, optimizer in enumerate(contents.optimizers):
        held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        live |= {f"optimizer/{at}/{n}": p for n, p in zip(contents.parameter_names(optimizer), held)}
    tensors: dict[str, Any] = {}
    for name, said in reader.read_metadata().state_dict_metadata.items():
        like: Any = live.get(name, live.get(name.rsplit("/", 1)[0]))
        if is_sharded(like) and like.shape == said.size:
            tensors[name] = like.detach().to("cpu", said.properties.dtype, copy=True)
        else:
            tensors[name] = torch.empty(said.size, dtype=said.properties.dtype)
    with warnings.catch_warnings():  # that each rank reads for itself is meant
        warnings.simplefilter("ignore", UserWarning)
        planner = DefaultLoadPlanner(flatten_state_dict=False)
        try:
            dcp.load(tensors, storage_reader=reader, planner=planner, no_dist=True)
        except CheckpointException as error:
            raise OSError(_cause(error)) from error
    return tensors


def spread(state: State, contents: Contents, rank: int) -> State:
    """The state that one process saved, as one of several ranks goes on with it."""
    model = {name: _as(value, contents.parameters.get(name)) for name, value in state["model"].items()}
    optimizers = {}
    for at, optimizer in enumerate(contents.optimizers):
        held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        saved = state["optimizer"][str(at)]
        moments = {
            index: {key: _as(value, held[index]) for key, value in values.items()}
            for index, values in saved["state"].items()
        }
        optimizers[str(at)] = {**saved, "state": moments}
    rest = state["rest"] if rank == 0 else {**state["rest"], "random": None}
    return {**state, "model": model, "optimizer": optimizers, "rest": rest}


def _as(whole: Any, like: Any) -> Any:
    """A tensor, sharded as a parameter is that it belongs to."""
    if not is_sharded(like) or not isinstance(whole, torch.Tensor) or whole.shape != like.shape:
        return whole
    mesh: Any = like.device_mesh
    everywhere = [Replicate()] * mesh.ndim  # each rank has read the whole: nothing is sent
    return DTensor.from_local(whole.to(mesh.device_type), mesh, everywhere, run_check=False).redistribute(
        mesh, like.placements
    )


class _Reader(dcp.FileSystemReader):  # type: ignore[misc]
    """Reads the list of tensors without running what stands in it: a pickle of a few known classes."""

    def read_metadata(self, *_: Any, **__: Any) -> Metadata:
        with (Path(self.path) / ".metadata").open("rb") as file:
            found: Metadata = _Unpickler(file).load()
        if found.storage_meta is not None:
            found.storage_meta.load_id = self.load_id
        return found


_PLACE = "torch.distributed.checkpoint."
_KNOWN = frozenset({
    (f"{_PLACE}metadata", "Metadata"), (f"{_PLACE}metadata", "MetadataIndex"), (f"{_PLACE}metadata", "StorageMeta"),
    (f"{_PLACE}metadata", "TensorStorageMetadata"), (f"{_PLACE}metadata", "TensorProperties"),
    (f"{_PLACE}metadata", "BytesStorageMetadata"), (f"{_PLACE}metadata", "ChunkStorageMetadata"),
    (f"{_PLACE}metadata", "_MEM_FORMAT_ENCODING"), (f"{_PLACE}filesystem", "_StorageInfo"),
    ("torch", "Size"), ("torch.serialization", "_get_layout"), ("pathlib", "PosixPath"), ("pathlib", "WindowsPath"),
    ("pathlib._local", "PosixPath"), ("pathlib._local", "WindowsPath"), ("collections", "OrderedDict"),
})  # fmt: skip


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name) if (module, name) in _KNOWN or module == "torch" else None
        if (module, name) in _KNOWN or isinstance(found, torch.dtype):
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is not part of a checkpoint")
