"""The collector of what a batch is made of: lengths, padding, labels, repetition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vitalsdsl_torch.collectors.base import Collector
from vitalsdsl_torch.collectors.moment import Moment
from vitalsdsl_torch.collectors.watched import Watched

GRAM = 4
"""Words of which repetition is told, as in seq-rep-4."""
WORDS = 1 << 13
"""Words of one micro-batch that are looked at for repetition."""
_FACTOR = 6364136223846793005  # an odd number without structure: sums of its powers tell n-grams apart


@dataclass(frozen=True)
class Batch:
    """What the user showed of a micro-batch: see `Vitals.batch`."""

    ids: Tensor | None
    mask: Tensor | None
    labels: Tensor | None
    pad: int | None
    ignored: int


class BatchContent(Collector):
    """What the batch is made of: how long its sequences are, how much of it is padding, how many labels count.

    Over all micro-batches of the step that `Vitals.batch` was called for. A word is padding where the attention mask is 0,
    or without a mask where it is the pad id; with neither nothing is known of padding. Spikes of the
    gradient that fall on extreme lengths, much padding or much repetition come from the data.
    """

    name = "batch"
    every = 1
    cost = "a few passes over the ids, and a sort of up to 8,192 of them"
    needs = "`Vitals.batch`"
    metrics = {
        "batch/max_len": "words of the longest sequence, padding left out",
        "batch/min_len": "words of the shortest",
        "batch/pad_frac": "share of the words that are padding, 0 to 1; absent where neither mask nor pad id is given",
        "batch/valid_frac": "share of the labels that count in the loss (that are not -100), 0 to 1",
        "batch/ngram_rep": "share of the runs of 4 words that stood in their sequence before, 0 to 1 (seq-rep-4, "
        "https://arxiv.org/abs/1908.04319), on evenly spaced sequences of up to 8,192 words; NaN where there is no run",
    }
    on_skipped = True

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._seen: dict[str, list[Any]] = {}

    def shown(self, moment: Moment, what: object) -> None:
        if isinstance(what, Batch):
            for name, number in _numbers(what):
                self._seen.setdefault(name, []).append(number)

    def close(self, moment: Moment) -> None:
        for name, numbers in self._seen.items():
            of_all = torch.stack([one.to(numbers[0].device) for one in numbers])
            how = {"longest": of_all.amax, "shortest": of_all.amin}.get(name, of_all.sum)
            moment.send(f"batch {name}", how(0))
        self._seen = {}

    def report(self, moment: Moment) -> Iterator[tuple[str, float]]:
        yield from (("batch/max_len", value) for value in moment.received("batch longest"))
        yield from (("batch/min_len", value) for value in moment.received("batch shortest"))
        for name, metric in (("padding", "pad_frac"), ("labels", "valid_frac"), ("runs", "ngram_rep")):
            if received := moment.received(f"batch {name}"):
                part, whole = received
                yield f"batch/{metric}", part / whole if whole else float("nan")


def _numbers(batch: Batch) -> Iterator[tuple[str, Any]]:
    """Lengths, and pairs of a part and its whole, of one micro-batch; all still on its device."""
    ids = _rows(batch.ids)
    used = mask.ne(0) if (mask := _rows(batch.mask)) is not None else None
    if used is None and ids is not None and batch.pad is not None:
        used = ids != batch.pad
    if used is not None:
        lengths = used.sum(1)
        yield "padding", _pair((~used).sum(), used.numel())
    elif ids is not None:
        lengths = torch.full((len(ids),), ids.shape[1], device=ids.device)
    if (used is not None or ids is not None) and len(lengths):
        yield "longest", lengths.max()
        yield "shortest", lengths.min()
    if batch.labels is not None:
        yield "labels", _pair(batch.labels.ne(batch.ignored).sum(), batch.labels.numel())
    if ids is not None and ids.numel() and not ids.is_floating_point():
        yield "runs", _repeated(ids, used if used is not None and used.shape == ids.shape else None)


def _rows(tensor: Tensor | None) -> Tensor | None:
    """One row a sequence. A mask of pairs (four dimensions) tells no lengths."""
    if tensor is None or tensor.dim() not in (1, 2):
        return None
    return tensor.detach() if tensor.dim() == 2 else tensor.detach()[None]


def _pair(part: Any, whole: Any) -> Any:
    """Both as one tensor, without a copy from the host that would be waited for."""
    counted = part.double() if part.device.type != "mps" else part.float()
    return torch.stack([counted, torch.full_like(counted, whole) if isinstance(whole, int) else whole.to(counted)])


def _repeated(ids: Any, used: Any) -> Any:
    """How many of the runs of words were there before, and how many runs there are."""
    ids = ids[:, :WORDS]
    spacing = -(-ids.numel() // WORDS)
    ids, used = ids[::spacing].long(), None if used is None else used[::spacing, :WORDS]
    runs = max(0, ids.shape[1] - GRAM + 1)
    grams = ids.new_zeros((len(ids), runs))
    is_whole = torch.ones_like(grams, dtype=torch.bool)
    for place in range(GRAM):
        grams = grams * _FACTOR + ids[:, place : place + runs] + 1
        if used is not None:
            is_whole &= used[:, place : place + runs]
    # What holds padding is sorted to the end as one run, and counts nowhere.
    none = torch.iinfo(torch.int64).max
    ordered = grams.masked_fill(~is_whole, none).sort(1).values
    again = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != none)
    return _pair(again.sum(), is_whole.sum())
