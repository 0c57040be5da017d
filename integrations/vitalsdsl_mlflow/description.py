"""Our part of a run's description: a few lines between two marks, in a text that belongs to other people."""

from __future__ import annotations

import re
from collections.abc import Mapping

from vitalsdsl_mlflow.names import RULE

DESCRIPTION = "mlflow.note.content"
"""The tag that MLflow's pages show as the run's description, in Markdown."""

ROOM = 8000
"""Longer descriptions are cut off by MLflow without a word."""

MOST = 2000
BEGIN = "<!-- vitals: begin -->"
END = "<!-- vitals: end -->"

_ALERT = 600
_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#|!~$&])")
_OURS = re.compile(re.escape(BEGIN) + r".*?" + re.escape(END), re.DOTALL)


def summary(policy: str, tags: Mapping[str, str]) -> list[str]:
    """The lines to show, the most important first: level and policy, the rules that fire, the newest alert.

    They are what the run's own tags say, so that the two never differ, whoever wrote them. All but the first are items of
    a list: Markdown runs lines of a text together.

    >>> for line in summary("llm", {"vitals.level": "red", "vitals.alert": "red: hot at step 7: loss is 9\\ndoes: tag"}):
    ...     print(line)
    **vitals: red** under llm
    - Newest alert: red: hot at step 7: loss is 9
      - does: tag
    """
    lines = [f"**vitals: {plain(tags.get('vitals.level', 'green'))}** under {plain(tags.get('vitals.policy', policy))}"]
    lines += [f"- {plain(name[len(RULE) :])}: {plain(tags[name])}" for name in sorted(tags) if name.startswith(RULE)]
    alert = [text for line in tags.get("vitals.alert", "")[:_ALERT].split("\n") if (text := plain(line))]
    return lines + [f"  - {text}" if at else f"- Newest alert: {text}" for at, text in enumerate(alert)]


def plain(text: str) -> str:
    r"""A text in one line that Markdown shows as it is, whatever is in it.

    >>> plain("a <b>\nof `x`")
    'a \\<b\\> of \\`x\\`'
    """
    short = " ".join(text.split())[:_ALERT]
    return _SPECIAL.sub(r"\\\1", "".join(letter for letter in short if letter.isprintable()))


def described(before: str, lines: list[str]) -> str | None:
    """A description with our lines in it, in place of those that were there, or else at its end.

    What other people wrote is kept to the letter; of ours as many lines are shown as there is room for, and None says
    that there is room for none.

    >>> print(described("By hand.", ["**vitals: green** under llm"]))
    By hand.
    <BLANKLINE>
    <!-- vitals: begin -->
    **vitals: green** under llm
    <!-- vitals: end -->
    """
    found = _OURS.search(before)
    if found is not None:
        head, tail = before[: found.start()], before[found.end() :]
    else:
        head, tail = (f"{before}\n\n" if before else ""), ""
    room = min(MOST, ROOM - len(head) - len(tail)) - len(BEGIN) - len(END) - 2
    shown: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        shown.append(line)
    if not shown:
        return None
    return "\n".join((head + BEGIN, *shown, END + tail))
