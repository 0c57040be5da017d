"""Mutants that no test notices, as `survivors.yaml` lists them: those that none can, and those that none does yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ruamel.yaml import YAML

FILE = Path(__file__).with_name("survivors.yaml")


class Survivors:
    """`equivalent`: pack to mutant to the reason why no test can notice it; `open`: pack to mutants not noticed yet."""

    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        self._yaml = YAML()
        self._yaml.width = 1000
        self._whole = self._yaml.load(file.read_text())

    @property
    def equivalent(self) -> dict[str, dict[str, str]]:
        return {pack: dict(known) for pack, known in self._whole["equivalent"].items()}

    @property
    def open(self) -> dict[str, list[str]]:
        return {pack: list(known) for pack, known in self._whole["open"].items()}

    def known(self, pack: str) -> set[str]:
        """All that are listed of a pack."""
        return {*self.equivalent.get(pack, {}), *self.open.get(pack, [])}

    def note(self, found: Mapping[str, Sequence[str]]) -> None:
        """Write down what no test notices yet in these packs, in the place of what stood there of them."""
        now = {**self.open, **{pack: list(texts) for pack, texts in found.items()}}
        self._whole["open"] = {pack: texts for pack, texts in sorted(now.items()) if texts}
        with self._file.open("w") as out:
            self._yaml.dump(self._whole, out)
