"""The text that DeepSpeed prints by itself: `step=10, skipped=2, lr=[0.0001], mom=[…]`, and its loss scale."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from vitalsdsl_files.format import LAST_RESORT, Reading
from vitalsdsl_files.patterns import pattern
from vitalsdsl_files.printed import NUMBER, Lines, Printed, leading, pairs

_STEP = pattern(r"\bstep=(\d+), skipped=(\d+), lr=\[([^\]]*)\]")
_TIMER = pattern(r"\bepoch=\d+/micro_step=\d+/global_step=(\d+), ")
_PIPE = pattern(rf"\bsteps: (\d+) loss: ({NUMBER}) iter time \(s\): ({NUMBER}) samples/sec: ({NUMBER})", re.IGNORECASE)
_SCALE = pattern(
    rf"(?:Attempted loss scale: [\d.eE+]+, reducing to|(?:Reducing|Increasing) dynamic loss scale from [\d.eE+]+ to) ({NUMBER})"
)


class DeepSpeed(Printed):
    """One row for each `step=N, skipped=…, lr=[…]`, `steps: N loss: …` and `…/global_step=N, …SamplesPerSec=…`.

    `lr` is that of the first group, `lr/1` and so on those of the others. Lines that tell of a new loss scale have no
    step: the last one becomes `loss_scale` of the next row with `skipped`. Read only where no line with metrics of the
    training itself is found.
    """

    name = "DeepSpeed text"
    priority = LAST_RESORT - 10
    marks = pattern(r"\bstep=\d+, skipped=\d+, lr=\[|\bsteps: \d+ loss: \S+ iter time \(s\):")

    def rows(self, lines: Lines, reading: Reading) -> Iterator[Mapping[str, object]]:
        scale: float | None = None
        latest = "0"
        for text in lines:
            for line in _SCALE.finditer(text):
                scale = leading(line[1])
            if (found := _STEP.search(text)) is not None:
                latest = found[1]
                row = {"step": latest, "skipped": leading(found[2]), **_rates(found[3])}
                if scale is not None:
                    row["loss_scale"] = scale
                    scale = None
                yield row
            elif (found := _PIPE.search(text)) is not None:
                latest = found[1]
                numbers = map(leading, found.groups()[1:])
                yield {"step": latest, **dict(zip(("loss", "iter time (s)", "samples/sec"), numbers, strict=True))}
            elif (found := _TIMER.search(text)) is not None:
                yield {"step": found[1], **pairs(text[found.end() :])}
        if scale is not None:
            yield {"step": latest, "loss_scale": scale}


def _rates(text: str) -> dict[str, object]:
    rates = [leading(one) for one in text.split(",")]
    return {("lr" if at == 0 else f"lr/{at}"): rate for at, rate in enumerate(rates) if rate is not None}


FORMAT = DeepSpeed()
