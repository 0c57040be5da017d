"""How far trainings are: one line, rewritten in place on a terminal, and a line now and then elsewhere."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterable
from typing import TextIO

SELDOM = 100
"""Steps between two lines where nothing can be rewritten."""

_STEP = re.compile(r"step (\d+)\b")


class Progress:
    """What trainings that go on at the same time say of their steps. Safe to use from their threads.

    >>> progress = Progress(340, sys.stdout)
    >>> progress.follow("poisoned", ["step 90  loss 2.1", "a word of MLflow's", "step 100  loss 2.0", "step 110  loss 1.9"])
      … poisoned: step 100 of 340
    """

    def __init__(self, steps: int, out: TextIO | None = None) -> None:
        self._steps = steps
        self._out = out if out is not None else sys.stderr
        self._is_live = self._out.isatty()
        self._lock = threading.Lock()
        self._at: dict[str, int] = {}
        self._shown = 0

    def begins(self, name: str) -> None:
        """A training has been started: its first step may take some seconds."""
        with self._lock:
            self._at[name] = 0
            self._draw()

    def follow(self, name: str, lines: Iterable[str]) -> None:
        """Read what a training prints, to its end."""
        for line in lines:
            found = _STEP.match(line)
            if found is not None:
                self._saw(name, int(found[1]))

    def _saw(self, name: str, step: int) -> None:
        with self._lock:
            before, self._at[name] = self._at.get(name, 0), step
            if self._is_live:
                self._draw()
            elif step // SELDOM > before // SELDOM:
                self._out.write(f"  … {name}: step {step} of {self._steps}\n")
                self._out.flush()

    def clear(self) -> None:
        """Leave the line to others."""
        with self._lock:
            if self._shown:
                self._out.write("\r" + " " * self._shown + "\r")
                self._out.flush()
            self._at.clear()
            self._shown = 0

    def _draw(self) -> None:
        if not self._is_live:
            return
        text = "  … " + ", ".join(
            f"{name}: {f'step {at} of {self._steps}' if at else 'starting'}" for name, at in self._at.items()
        )
        self._out.write("\r" + text.ljust(self._shown))
        self._out.flush()
        self._shown = len(text)
