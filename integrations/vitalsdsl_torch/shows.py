"""What a training shows its vitals, because it cannot be seen from outside: batches, and the routing of experts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from vitalsdsl_torch.collectors.batch import Batch
from vitalsdsl_torch.collectors.routing import Routing


class Shows:
    """The calls of `Vitals` with which a loop shows something. Nothing is kept of it but numbers."""

    def batch(
        self,
        input_ids: Tensor | None = None,
        *,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        pad_id: int | None = None,
        ignore_index: int = -100,
        **others: object,
    ) -> None:
        """Show a micro-batch, for the metrics `batch/…`: `vitals.batch(**batch)`, at any time before `Vitals.step`.

        Rows are sequences. Tensors stay on their device; on the host it costs least. What else a batch holds is not
        looked at.
        """
        self._show(Batch(input_ids, attention_mask, labels, pad_id, ignore_index))

    def routing(
        self,
        counts: Tensor | Sequence[float],
        *,
        layer: int = 0,
        dropped: Tensor | float | None = None,
        logits: Tensor | None = None,
    ) -> None:
        """Show how one layer's router spread a micro-batch, for the metrics `moe/…` where they cannot be seen.

        `counts` says how often each expert was chosen, `dropped` how many choices found no place; `logits`, one
        row a word and one column an expert, are those of the router. What is shown of a layer takes the place of
        what its router was seen to do.
        """
        self._show(Routing(torch.as_tensor(counts), layer, dropped, logits))

    def _show(self, what: object) -> None:
        raise NotImplementedError
