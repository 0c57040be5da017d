"""The checkpoints of a run: when one is made, which are known to be healthy, and which may go."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from vitalsdsl_torch import checkpoint
from vitalsdsl_torch.checkpoint import Checkpoint
from vitalsdsl_torch.history import History, Incident

logger = logging.getLogger("vitalsdsl")

PROBATION, HEALTHY, SUSPECT, CORRUPT = "probation", "healthy", "suspect", "corrupt"
TAKEN_BACK = "taken back"


class Ring:
    """Complete checkpoints of a folder and their states.

    One is made every `every` steps and waits in probation for `probation` steps, since trouble shows later than it
    begins. It becomes healthy if until then no rule had its onset from `margin` steps before it on, and none that was
    open reached over it; else suspect. Trouble that is found later, and began earlier, makes a healthy one suspect.

    `keep` are kept, and for good each that falls on a multiple of `milestone` steps, and what a person has pinned. The
    newest healthy one is never removed, nor the newest of all. While a rule is not green nothing healthy is removed;
    suspect ones only once there are twice `keep`, since a disk must not fill for a rule that stays yellow.
    """

    def __init__(
        self, root: Path, history: History, *, every: int, keep: int, milestone: int, probation: int, margin: int
    ) -> None:
        self._root = root
        self._history = history
        self._every, self._keep, self._milestone = every, keep, milestone
        self._probation, self._margin = probation, margin
        root.mkdir(parents=True, exist_ok=True)
        self._settled = (-1, -1)
        self._next_verdict = 0
        checkpoint.sweep(root)
        self.all = checkpoint.found(root)

    def is_due(self, step: int) -> bool:
        return step % self._every == 0 or step % self._milestone == 0

    def state(self, one: Checkpoint) -> str:
        return self._history.marks.get(one.id, one.born)

    def add(self, saved: Checkpoint) -> None:
        """One more is complete; one of its name, which was there before, is no more."""
        self.all = [one for one in self.all if one.id != saved.id] + [saved]
        if self.state(saved) != saved.born:
            self._mark(saved, saved.born)

    def mark_corrupt(self, one: Checkpoint, why: str) -> None:
        logger.warning("vitals: checkpoint %s cannot be used: %s", one.id, why)
        self._mark(one, CORRUPT)

    def _mark(self, one: Checkpoint, state: str) -> None:
        self._history.note({"type": "mark", "checkpoint": one.id, "state": state})

    def on_line(self) -> list[Checkpoint]:
        """Those that led to the present state of the run, the newest first."""
        line = [one for one in self.all if self._history.is_on_line(one.attempt, one.step)]
        return sorted(line, key=lambda one: (one.step, one.attempt), reverse=True)

    def healthy(self) -> Iterator[Checkpoint]:
        """Those that are healthy and led here, the newest first."""
        return (one for one in self.on_line() if self.state(one) == HEALTHY)

    def usable(self) -> Iterator[Checkpoint]:
        """Those from which a process that was restarted can go on, the newest first: whatever the rules think of
        them, they are where the run was."""
        return (one for one in self.on_line() if self.state(one) != CORRUPT)

    def settle(self, step: int) -> None:
        """The run has come to a step, and its incidents are known: decide on states, then remove what may go."""
        if self._settled == (self._history.version, len(self.all)) and step < self._next_verdict:
            return
        for one in self.on_line():
            state = self.state(one)
            if state not in (PROBATION, HEALTHY):
                continue
            known = self.health(one.step, one.attempt, step)
            if known == SUSPECT or known == HEALTHY != state:
                self._mark(one, known)
        self._prune()
        waiting = [one.step + self._probation for one in self.on_line() if self.state(one) == PROBATION]
        self._next_verdict = min(waiting, default=step + self._probation)
        self._settled = (self._history.version, len(self.all))

    def health(self, step: int, attempt: int, now: int) -> str:
        """What is known of the state after a step, once the run has come to step `now`."""
        if not self._history.is_on_line(attempt, step):
            return TAKEN_BACK
        if any(self._taints(incident, step) for incident in self._history.incidents):
            return SUSPECT
        return HEALTHY if now >= step + self._probation else PROBATION

    def _taints(self, incident: Incident, step: int) -> bool:
        if not self._history.is_on_line(incident.attempt, incident.onset):
            return False
        near = step - self._margin < incident.onset <= step + self._probation
        over = incident.onset <= step and (incident.until is None or step <= incident.until)
        return near or over

    def _prune(self) -> None:
        is_open = bool(self._history.open_incidents)
        while (victim := self._victim(is_open)) is not None:
            victim.remove()
            self.all.remove(victim)

    def _victim(self, is_open: bool) -> Checkpoint | None:
        """The next to go. What was taken back goes first, then suspect ones, the youngest first, then the oldest."""
        line = self.on_line()
        kept = set(line[:1]) | set(list(self.healthy())[:1])
        free = [
            one
            for one in self.all
            if one not in kept
            and one.id not in self._history.pinned
            and (one.step % self._milestone or one not in line)
        ]
        abandoned = [one for one in free if one not in line]
        counted = [one for one in self.all if one.step % self._milestone and one.id not in self._history.pinned]
        if is_open:
            suspect = [one for one in free if self.state(one) in (SUSPECT, CORRUPT)]
            return max(suspect, key=_age) if suspect and len(counted) > 2 * self._keep else None
        if len(counted) <= self._keep and not abandoned:
            return None
        if abandoned:
            return min(abandoned, key=_age)
        bad = [one for one in free if self.state(one) in (SUSPECT, CORRUPT)]
        return max(bad, key=_age) if bad else min(free, key=_age, default=None)


def _age(one: Checkpoint) -> tuple[int, int]:
    return one.step, one.attempt
