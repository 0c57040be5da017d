"""One run over a validation set: its loss, its size, and a fingerprint of what it holds."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from vitalsdsl_torch.collectors.tally import Number, held

logger = logging.getLogger("vitalsdsl")

_FACTOR = 6364136223846793005
_MIXERS = (-4658895280553007687, -7723592293110705685)  # those of splitmix64, as int64 has them
_BITS = 32
"""Of the fingerprint: few enough for every tracker to keep them exactly."""


class Validation:
    """Adds up the batches of one run over a validation set; a new one for each run.

    ```python
    validation = Validation("hard", tokenizer=tokenizer)
    with torch.no_grad():
        for batch in loader:
            loss = model(**batch).loss
            validation.add(loss, tokens=(batch["labels"] != -100).sum(), ids=batch["input_ids"], mask=batch["attention_mask"])
    wandb.log(vitals.step() | validation.metrics())
    ```

    `name` tells several sets apart: `val_loss/hard`. `tokenizer`, one with `get_vocab` or any text that stands for it,
    goes into the fingerprint, so that the same words under another vocabulary are another set.
    """

    def __init__(self, name: str = "", *, tokenizer: Any = "") -> None:
        self._end = f"/{name}" if name else ""
        self._tokenizer = tokenizer
        self._loss: Any = 0.0
        self._weight: Any = 0
        self._has_loss = False
        self._samples = 0
        self._print: Any = 0
        self._has_ids = True

    def add(
        self,
        loss: Number | None = None,
        *,
        tokens: Number | None = None,
        samples: int | None = None,
        ids: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> None:
        """Count one batch. Tensors stay on their device, and nothing of it is raised.

        `loss` is its mean over its `tokens` valid ones; without tokens its samples weigh it. `samples` are by default the
        rows of `ids`: whole numbers, a row a sample. Where the `mask` is 0 they are padding, which does not count
        in the fingerprint.
        """
        try:
            with torch.no_grad():
                self._add(loss, tokens, samples, ids, mask)
        except Exception as problem:  # whatever it is: an evaluation is not ended by what only counts it
            self._has_ids = False
            logger.warning("a batch of the validation set%s could not be counted: %s", self._end, problem)

    def _add(self, loss: Any, tokens: Any, samples: Any, ids: Tensor | None, mask: Tensor | None) -> None:
        if samples is None:
            samples = len(ids) if ids is not None else 1
        self._samples += samples
        if loss is not None:
            weight = held(tokens) if tokens is not None else samples
            value = held(loss)
            value = value.double() if isinstance(value, Tensor) and value.device.type != "mps" else value
            # Of a batch without a token the mean is NaN, and says nothing.
            product = torch.where(weight != 0, value * weight, 0.0) if isinstance(weight, Tensor) else value * weight
            self._loss = self._loss + (product if isinstance(weight, Tensor) or weight else 0.0)
            self._weight = self._weight + weight
            self._has_loss = True
        if ids is None:
            self._has_ids = False
        elif self._has_ids:
            self._print = self._print + _hashes(ids, mask).sum()

    def metrics(self) -> dict[str, float]:
        """What was added up, to be logged. Waits for the device; empty where nothing was added.

        `val_loss` is Σ loss × tokens / Σ tokens, NaN where there was no token; absent where no loss was given.
        `val_samples` counts samples. `val_fingerprint` is a whole number below 2^32: the same
        for the same samples in any order and in batches of any size and padding, another (but once in 4 billion) if a
        word, a sample or the tokenizer is another; absent unless every batch was added with its `ids`.
        """
        if not self._samples:
            return {}
        found = {f"val_samples{self._end}": float(self._samples)}
        if self._has_loss:
            weight = float(self._weight)
            found[f"val_loss{self._end}"] = float(self._loss) / weight if weight else float("nan")
        if self._has_ids:
            text = f"{_text(self._tokenizer)} {self._samples} {int(self._print)}"
            digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_BITS // 8).digest()
            found[f"val_fingerprint{self._end}"] = float(int.from_bytes(digest, "big"))
        return found


def _hashes(ids: Any, mask: Any) -> Any:
    """One int64 a row, of its words and their order; int64 overflows as it should."""
    if ids.is_floating_point():
        raise TypeError("ids are whole numbers")
    rows = ids.detach().reshape(len(ids), -1).long()
    used = torch.ones_like(rows) if mask is None else mask.detach().reshape(rows.shape).ne(0).long()
    # The n-th word that is no padding has the n-th power, wherever the padding stands.
    powers = torch.full((rows.shape[1] + 1,), _FACTOR, dtype=torch.int64, device=rows.device).cumprod(0)
    hashes = (_mixed(rows + 1) * powers[used.cumsum(1)] * used).sum(1) + used.sum(1)
    return _mixed(hashes)


def _mixed(values: Any) -> Any:
    """Spread, so that sums of them tell apart what they are sums of; as splitmix64 does."""
    for shift, factor in zip((30, 27), _MIXERS):
        values = (values ^ (values >> shift)) * factor
    return values ^ (values >> 31)


def _text(tokenizer: Any) -> str:
    vocabulary: Callable[[], dict[str, int]] | None = getattr(tokenizer, "get_vocab", None)
    return str(sorted(vocabulary().items())) if callable(vocabulary) else str(tokenizer)
