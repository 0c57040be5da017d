"""Put on the path of a training that `vitals run` starts: attaches the policy when the script imports wandb.

W&B has no entry point that would do it. Python imports one module of this name at its start; the one that would have
been imported without us is imported, too. Nothing may be raised from here.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from types import ModuleType
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - at the start of every Python: no more imports


class _Attaching(Loader):
    """Loads wandb as its own loader does, and then attaches."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        try:
            importlib.import_module("vitalsdsl_wandb.attach").arm()
        except Exception as error:  # the script must run whatever happens to us
            print(f"vitals: no policy is attached to W&B: {' '.join(str(error).split())}", file=sys.stderr)


class _Finder(MetaPathFinder):
    """Waits for the import of wandb."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "wandb":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Attaching(spec.loader)
        return spec


def _go_on() -> None:
    """Import the sitecustomize that ours stands before."""
    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]  # noqa: PTH100 - as above
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


if os.environ.get("VITALS_POLICY"):
    sys.meta_path.insert(0, _Finder())
_go_on()
