"""What the ranks of a training tell each other at a measured step: one row of numbers each, in one collective."""

from __future__ import annotations

import itertools
import logging
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from vitalsdsl.ground.errors import UsageError
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.norms import numbers

logger = logging.getLogger("vitalsdsl")

ROWS = "rows of the ranks"
_COUNTED = ("tokens", "samples")
_made = itertools.count()


class Exchange:
    """One row of numbers a rank, with the same columns on all, and what follows from all rows together.

    The row is of a fixed size, whatever failed on a rank or is missing there, so that no rank waits for what another does
    not send. Rows are told at steps that follow from the step's number and from earlier rows alone, so all ranks tell
    theirs at the same steps. Where not all of them have made one, with the same settings, none is told by any.

    All ranks tell, so that all agree; `group` says whose rows count on this one. With `counts` false none does: then rows are told
    only where parameters are sharded, `is_sharded`. `columns` are the names of the numbers.
    """

    def __init__(
        self, group: Any | None, counts: bool, is_sharded: bool, columns: Sequence[str], setting: object
    ) -> None:
        spread = torch.distributed
        is_started = spread.is_available() and spread.is_initialized()
        if group is not None and not is_started:
            raise UsageError("`process_group` is given, but torch.distributed is not initialised")
        size = spread.get_world_size() if is_started else 1
        self.ranks = size if counts or is_sharded else 1
        self._rank = spread.get_rank() if is_started else 0
        self._counted = spread.get_process_group_ranks(group) if group is not None else range(size)
        if self._rank not in self._counted:
            raise UsageError(f"this rank, {self._rank}, is not of the `process_group` that is given")
        self._counts = counts
        self._columns = ("setting", *dict.fromkeys(columns))
        self._setting = float(zlib.crc32(repr(setting).encode()))
        self._is_settled = self.ranks == 1
        self._last: dict[str, tuple[float, float]] = {}
        if self.ranks > 1:
            self._name = f"vitals/{next(_made)}"
            self._store = _store()
            if self._store is not None:
                self._store.add(self._name, 1)

    def tell(self, moment: Moment, row: Mapping[str, Any], device: torch.device) -> bool:
        """Send this rank's row, for all to be heard after the read; what is not in it is 0. False where none is told."""
        try:
            if self._are_all_there(device):
                values = [self._setting, *(row.get(name, 0.0) for name in self._columns[1:])]
                moment.send(ROWS, self._gathered(values, device))
        except Exception as problem:  # such as a process group that was ended before the training
            self._stand_alone(f"the ranks cannot be reached: {problem}")
        return self.ranks > 1

    def _are_all_there(self, device: torch.device) -> bool:
        """Whether all ranks have made one with the same settings: seen once, and for good.

        Whichever rank looks first decides for all, so that they agree also where one is being made at this moment.
        """
        if not self._is_settled:
            self._is_settled = True
            if self._store is not None:
                seen = "all" if self._store.add(self._name, 0) >= self.ranks else "some"
                if self._store.compare_set(f"{self._name}/decided", "", seen) == b"some":
                    self._stand_alone("not all ranks have made a `Vitals`")
                    return False
            if len(set(self._gathered([self._setting], device).flatten().tolist())) > 1:
                self._stand_alone("the ranks have made their `Vitals` with different collectors or cadences")
        return self.ranks > 1

    def _stand_alone(self, why: str) -> None:
        self.ranks, self._counted = 1, [self._rank]
        logger.warning("%s: what is measured is that of each rank", why)

    def _gathered(self, values: Sequence[Any], device: torch.device) -> Tensor:
        device = _reachable(device)
        row = numbers([0.0 if isinstance(one, Tensor) else one for one in values], device)
        for place, one in enumerate(values):
            if isinstance(one, Tensor):
                row[place].copy_(one.detach().reshape(()), non_blocking=True)
        # A sum in which all but one term is 0 is a gathering that every backend knows.
        rows = torch.zeros((self.ranks, len(values)), dtype=torch.float64, device=device)
        rows[self._rank] = row
        torch.distributed.all_reduce(rows)
        return rows

    def heard(self, moment: Moment) -> list[dict[str, float]]:
        """After the read: the rows of all ranks. Those that count here are in `moment.ranks`."""
        received, width = moment.received(ROWS), len(self._columns)
        rows = [dict(zip(self._columns, received[at : at + width])) for at in range(0, len(received), width)]
        if rows and self._counts:
            moment.ranks = [rows[rank] for rank in self._counted]
            self._last = {name: (sum(one[name] for one in moment.ranks), rows[self._rank][name]) for name in _COUNTED}
        return rows

    def totals(self, own: Mapping[str, float]) -> dict[str, float]:
        """Counters over all ranks: as last told, and for the steps since as though all had counted what this one has."""
        shares = len(self._counted) if self._counts else 1
        told = {name: self._last.get(name, (0.0, 0.0)) for name in own}
        return {name: told[name][0] + shares * (number - told[name][1]) for name, number in own.items()}

    def share(self, totals: Mapping[str, float]) -> dict[str, float]:
        """This rank's share of such counters."""
        self._last.clear()
        shares = len(self._counted) if self._counts else 1
        return {name: number / shares for name, number in totals.items()}


def failure_of(collector: str) -> str:
    """The column in which a rank tells that it has switched this collector off."""
    return f"{collector} is off"


def _store() -> Any | None:
    """What the ranks met through. It has no public name; without it they are taken to have made all that this one has."""
    try:
        return torch.distributed.distributed_c10d._get_default_store()
    except Exception:
        return None


def _reachable(device: torch.device) -> torch.device:
    """The device, where the backend reaches it; else one that it reaches."""
    reached = torch.distributed.get_backend_config()
    if f"{device.type}:" in reached:
        return device
    return torch.device("cpu" if "cpu:" in reached else "cuda")
