"""The text that nanoGPT and modded-nanogpt print: `iter 10: loss 9.9, time 80ms`, `step:10/1390 val_loss:4.2`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from vitalsdsl_files.format import Reading
from vitalsdsl_files.patterns import pattern
from vitalsdsl_files.printed import NUMBER, Lines, Printed, leading

_HEAD = pattern(r"(?:^|(?<=[\s\]>]))(?:iter|step)\s+(\d+):\s+(?=\S)")
_TIGHT = pattern(r"(?:^|(?<=[\s\]>]))step:(\d+)(?:/(\d+))?\s+(?=[A-Za-z_]\w*:)")
_SPACED_FIELD = pattern(rf"([A-Za-z][\w/]*(?: [A-Za-z][\w/]*)?)[ :=]+({NUMBER})", re.IGNORECASE)
_TIGHT_FIELD = pattern(rf"([A-Za-z_]\w*):({NUMBER})", re.IGNORECASE)


class NanoGpt(Printed):
    """One row a line, under the names that are printed.

    `iter 10: loss 9.9, time 80ms, mfu 14%` gives `loss`, `time` and `mfu`; `step 10: train loss 9.8, val loss 9.9` gives
    `train loss` and `val loss`; `step:10/1390 train_loss:4.1 train_time:512ms` what stands before the colons, and the
    run's length. Units are not converted: a `time` in ms stays in ms.
    """

    name = "nanoGPT text"
    marks = pattern(
        r"(?:^|[\s\]>])(?:(?:iter|step)\s+\d+:\s+(?:train |val )?loss\b"
        r"|step:\d+(?:/\d+)?[ \t]+(?:\w+:\S*[ \t]+){0,20}(?:train_|val_)?loss:)"
    )

    def rows(self, lines: Lines, reading: Reading) -> Iterator[Mapping[str, object]]:
        for text in lines:
            if (head := _HEAD.search(text)) is not None:
                fields = {name.strip(): leading(value) for name, value in _SPACED_FIELD.findall(text[head.end() :])}
            elif (head := _TIGHT.search(text)) is not None:
                fields = {name: leading(value) for name, value in _TIGHT_FIELD.findall(text[head.end() :])}
                if head[2]:
                    reading.total_steps = float(head[2])
            else:
                continue
            if fields:
                yield {"step": head[1], **fields}


FORMAT = NanoGpt()
