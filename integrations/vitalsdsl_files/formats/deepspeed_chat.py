"""The text of DeepSpeed-Chat's third stage: `epoch: 0|step: 3|ppo_ep: 1|act_loss: 0.1|…`, and the reward below it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from vitalsdsl_files.epochs import counted_on
from vitalsdsl_files.format import Reading
from vitalsdsl_files.patterns import pattern
from vitalsdsl_files.printed import NUMBER, Lines, Printed, to_float

_STEP = pattern(r"\bepoch: *(\d+) *\| *step: *(\d+) *\| *ppo[ _]ep(?:och)?: *\d+ *\|(.*)", re.IGNORECASE)
_FIELD = pattern(rf"([a-z][a-z _]*): *({NUMBER})", re.IGNORECASE)
_REWARD = pattern(rf"\b(average reward score(?:/ema)?): *({NUMBER})", re.IGNORECASE)


class DeepSpeedChat(Printed):
    """One row for each `epoch: E|step: N|ppo_ep: …`, with the losses as they are called there, and the rewards that are
    printed by themselves before the next one. A step that begins anew with each epoch is counted on.
    """

    name = "DeepSpeed-Chat text"
    marks = pattern(r"(?i)\bepoch: *\d+ *\| *step: *\d+ *\| *ppo[ _]ep(?:och)?:")

    def rows(self, lines: Lines, reading: Reading) -> Iterator[Mapping[str, object]]:
        return counted_on(_told(lines), reading, "step", "epoch")


def _told(lines: Lines) -> Iterator[Mapping[str, object]]:
    row: dict[str, object] = {}
    for text in lines:
        if (found := _STEP.search(text)) is not None:
            if row:
                yield row
            row = {"step": found[2], "epoch": found[1]}
            row |= {name.strip(): to_float(value) for name, value in _FIELD.findall(found[3])}
        elif row:
            row |= {name: to_float(value) for name, value in _REWARD.findall(text)}
    if row:
        yield row


FORMAT = DeepSpeedChat()
