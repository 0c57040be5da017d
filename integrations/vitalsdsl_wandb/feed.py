"""One run of W&B, read on from outside by plain questions: every row once, however it is asked for."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vitalsdsl.acting.tracker import Port
from vitalsdsl.ground.errors import RunGone, TrackerError
from vitalsdsl.ground.points import Rewind, RunInfo, planned_steps
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl.watching.feeds import Batch, Cursor, Wanted
from vitalsdsl_wandb.address import Address
from vitalsdsl_wandb.facts import definitions, last_step, parse_config, when
from vitalsdsl_wandb.graphql import FEW, MOST_BYTES, GraphQL, TooLarge
from vitalsdsl_wandb.kept import KeptRow, KeptRows, axis_steps, parse_rows
from vitalsdsl_wandb.outside import OutsidePort
from vitalsdsl_wandb.pages import PARTS, ProjectPages, Steps, Told
from vitalsdsl_wandb.progress import Mark, Progress

FINAL = frozenset({"finished", "failed", "killed"})
LOST = frozenset({"crashed", "preempted"})
"""What W&B calls a run that it hears nothing of. It may come back: a network that fails looks like that too."""

LOST_FOR = 3600.0
"""Seconds without a sign of life after which a run that W&B calls lost is over."""

INTERVAL = 15.0
"""Seconds: runs send what they log that often, so asking more often shows nothing more."""

READ_ANYWAY = 300.0
"""Seconds after which a run is read though a list of runs counts no new rows of it: its history may have been rewritten."""

SLOWER = 4
"""Where the server says that few questions are left, they come so many times slower."""

MOST_POINTS = 10_000
_MOST_ASKED = 6
_MOST_DOUBTS = 3
_LARGE = 16 * 2**20
_WIDEST = 2**31 - 1

_PAGE = f"""query HistoryPage($entity: String!, $project: String!, $run: String!, $minStep: Int64!, $maxStep: Int64!, \
$pageSize: Int!, $first: Boolean!) {{ project(name: $project, entityName: $entity) {{ run(name: $run) {{ {PARTS} \
config @include(if: $first) \
history(minStep: $minStep, maxStep: $maxStep, samples: $pageSize) }} }} }}"""


@dataclass
class _Page:
    """One answer: what there is from `low` up to `high`, and where the history ends (None: not known)."""

    low: int
    high: int
    run: dict[str, Any]
    rows: list[KeptRow]
    bad: int
    last: int | None
    size: int
    times: dict[int, list[float | None]] = field(default_factory=dict)


def _range(progress: Progress) -> tuple[int, int]:
    """The steps that reading on asks for: at the end of the history, the newest rows once more."""
    low = progress.tail[0].step if progress.is_at_end and progress.marks else progress.next
    return low, progress.next + progress.width


class WandbFeed:
    """A run of W&B.

    Pages go by ranges of steps, and are never sampled: as many rows are allowed as there are steps. A range without
    rows is asked for again, twice as wide, up to the last step that W&B names. At the end of the history the newest
    rows are asked for again each time, to see what came late, and whether the history was cut or written anew (a
    rewind). Who reads anew from the begin is told again of the rewinds that this feed, or its cursor, knows of.
    """

    def __init__(
        self,
        client: GraphQL,
        address: Address,
        wanted: Wanted,
        details: Mapping[str, object] | None = None,
        listed: ProjectPages | None = None,
    ) -> None:
        details = details if details is not None else {}
        self._listed = listed
        self._told: Told | None = None
        self._quiet_at: tuple[str, int | None] | None = None
        self._read = -math.inf
        self.wish: Steps | None = None
        """The steps that the next reading will ask for; None where it is not at the end of the history."""
        self._client = client
        self._wanted = wanted
        self._config = parse_config(details.get("config"))
        title = details.get("displayName")
        self._title = title if isinstance(title, str) else ""
        self.address = address
        self.is_over = False
        """Whether the newest reading came to the end of a run that has ended."""
        self._rewinds: list[list[int]] = []
        self.is_unsure = False
        """Whether the newest reading found the server at odds with itself: the next one may find more."""

    @property
    def uri(self) -> str:
        return self.address.uri

    @property
    def reference(self) -> str:
        return self.address.uri

    @property
    def interval(self) -> float:
        return INTERVAL * (SLOWER if self._client.remaining < FEW else 1)

    @property
    def info(self) -> RunInfo:
        url = self.address.url(self._client.server)
        return RunInfo(self.address.run, planned_steps(self._config), url, title=self._title)

    def ports(self, policy: LoadedPolicy) -> Sequence[Port]:
        return [OutsidePort(self._client, self.address, may_stop=self._wanted.may_stop)]

    def close(self) -> None:
        """The connection belongs to the target."""

    def told(self, told: Told) -> None:
        """How the run stands by a list of runs: for the next reading, which then may have nothing to ask."""
        self._told = told

    def is_quiet(self, state: str, lines: int | None) -> bool:
        """Whether the newest reading found nothing when the run stood like this, so that there is nothing to be read now."""
        if self._listed is None or not self._listed.counts_hold or lines is None or state in FINAL | LOST:
            return False
        return self._quiet_at == (state, lines) and time.monotonic() - self._read < READ_ANYWAY

    def read(self, cursor: Cursor | None) -> Batch:
        progress = Progress.of(cursor) if cursor is not None else Progress(rewinds=[*self._rewinds])
        told, self._told = self._told, None
        if told is not None and progress.is_at_end and self.is_quiet(told.state, told.lines):
            return Batch((), progress.cursor())
        batch = self._read_on(progress, told)
        self._note(progress, told, batch)
        return batch

    def _note(self, progress: Progress, told: Told | None, batch: Batch) -> None:
        """Keep what spares the next reading its question."""
        stood = (told.state, told.lines) if told is not None else None
        is_at_end = progress.is_at_end and not self.is_unsure
        if batch.events and self._listed is not None and stood is not None and stood == self._quiet_at:
            self._listed.counts_hold = False
        self._quiet_at = stood if is_at_end and not batch.events else None
        self._read = time.monotonic()
        self.wish = Steps(self.address.run, *_range(progress)) if is_at_end else None

    def _read_on(self, progress: Progress, told: Told | None) -> Batch:
        self._rewinds = progress.rewinds
        notes: list[str] = []
        self.is_unsure = False
        for _ in range(_MOST_ASKED):
            page = self._page(progress, told)
            told = None
            if progress.is_at_end:
                gone_back = self._gone_back(progress, page)
                if gone_back is not None:
                    return gone_back
            rows = self._given(progress, page, notes)
            is_reached = self._is_reached(progress, page, rows, notes)
            if is_reached:
                rows.rewind_before(math.inf)
            if rows.events or is_reached or self.is_unsure:
                notes += rows.notes
                return self._batch(progress, page, rows, is_reached, notes)
            progress.width = min(2 * progress.width, _WIDEST)
        return Batch((), progress.cursor(), more=True, notes=tuple(notes))

    # ---------------------------------------------------------------- asking

    def _page(self, progress: Progress, told: Told | None) -> _Page:
        low, high = _range(progress)
        if told is not None and told.pages is not None:
            run = told.pages.take(Steps(self.address.run, low, high))
            if run is not None:
                return self._page_of(run, low, high)
        while True:
            most = _LARGE if progress.width > 1 else MOST_BYTES
            try:
                return self._ask(low, progress.next + progress.width, most=most, first=not progress.marks)
            except TooLarge:
                if progress.width == 1:
                    raise
                progress.width = max(1, progress.width // 8)

    def _ask(self, low: int, high: int, *, most: int = MOST_BYTES, first: bool = False) -> _Page:
        where = self.address
        asked = {"entity": where.entity, "project": where.project, "run": where.run, "first": first,
                 "minStep": low, "maxStep": high, "pageSize": min(high - low, _WIDEST)}  # fmt: skip
        project = self._client.ask(_PAGE, asked, most=most).get("project")
        run = project.get("run") if isinstance(project, dict) else None
        if not isinstance(run, dict):
            raise RunGone(f"run {where.run} is not, or no longer, in {where.entity}/{where.project}")
        if first and run.get("config"):
            self._config = parse_config(run["config"])
        return self._page_of(run, low, high)

    def _page_of(self, run: dict[str, Any], low: int, high: int) -> _Page:
        lines = run.get("history")
        if lines is not None and not isinstance(lines, list):
            raise TrackerError("W&B answers with a history that is none")
        rows, bad, times = parse_rows(lines or (), low)
        rows = [row for row in rows if low <= row.step < high]
        size = sum(len(line) for line in lines or () if isinstance(line, str))
        return _Page(low, high, run, rows, bad, last_step(run), size, times)

    # ---------------------------------------------------------------- what is new

    def _given(self, progress: Progress, page: _Page, notes: list[str]) -> KeptRows:
        """The rows that have not been given yet, as many as make one batch."""
        if page.bad:
            notes.append(f"{page.bad} rows of the run cannot be read and are left out")
        known, start, is_cut = progress.known, progress.next, False
        rows = KeptRows(progress, self._wanted.step_key, definitions(self._config))
        for row in page.rows:
            if row.step in known:
                continue
            is_cut = rows.points > 0 and rows.points + len(row.data) > MOST_POINTS
            if is_cut:
                break
            rows.give(row)
        if rows.events:
            rows.settle()
            # As many steps as hold about one batch, and no answer that is too large, judged by those that were just read.
            end = progress.next if is_cut or page.last is None else min(page.high, page.last + 1)
            full = max(rows.points / MOST_POINTS, 2 * page.size / _LARGE)
            progress.width = max(1, min(int((end - start) / full), 8 * progress.width, _WIDEST))
        return rows

    def _is_reached(self, progress: Progress, page: _Page, rows: KeptRows, notes: list[str]) -> bool:
        """Whether all has been given that W&B says there is."""
        if page.last is None:
            return not rows.events
        if progress.next > page.last or page.last == progress.conceded:
            return True
        if page.high <= page.last or rows.events:
            return False
        # W&B names a step and does not give it: its answers are of different age, or the row is lost.
        self.is_unsure = True
        progress.doubts += 1
        if progress.doubts <= _MOST_DOUBTS:
            return False
        progress.doubts, progress.conceded, self.is_unsure = 0, page.last, False
        notes.append(f"W&B names step {page.last}, but does not give its row")
        return True

    def _batch(self, progress: Progress, page: _Page, rows: KeptRows, is_reached: bool, notes: list[str]) -> Batch:
        state = str(page.run.get("state") or "")
        is_final = state in FINAL
        if state in LOST and is_reached:
            beat = when(page.run.get("heartbeatAt"))
            is_final = beat is not None and self._client.clock - beat.timestamp() > LOST_FOR
            end = "and is taken for ended" if is_final else "reading goes on in case it comes back"
            notes.append(f"W&B calls the run {state}, {end}")
        if not self.is_unsure:
            progress.doubts = 0
            progress.is_at_end = is_reached
        self.is_over = is_final and is_reached and not rows.events and progress.is_ending
        progress.is_ending = is_final and is_reached
        more = not is_reached and not self.is_unsure
        return Batch(rows.events, progress.cursor(), more, self.is_over, tuple(dict.fromkeys(notes)))

    # ---------------------------------------------------------------- a history that went back

    def _gone_back(self, progress: Progress, page: _Page) -> Batch | None:
        """A rewind, where rows that were given were cut off or written anew; nothing in it where that is unsure yet."""
        tail = progress.tail
        there = [mark for mark in tail if mark.step in page.times]
        anew = [mark for mark in there if not mark.is_same(page.times[mark.step])]
        if anew:
            return self._rewind(progress, anew[0].step - 1, page)
        cut = [mark for mark in tail if mark.step not in page.times]
        if not cut or page.last is None or tail[-1].step <= page.last or tail[-1] not in cut:
            return None
        progress.doubts += 1
        if progress.doubts < 2:
            # An answer that is older than the one before looks the same; it is not asked for twice in one breath.
            self.is_unsure = True
            return Batch((), progress.cursor())
        return self._rewind(progress, page.last, page)

    def _rewind(self, progress: Progress, limit: int, page: _Page) -> Batch:
        mark = next((m for m in reversed(progress.marks) if m.step <= limit and self._stands(m, page)), None)
        if mark is not None:
            self._refine(progress, mark, limit)
            mark = progress.marks[-1]
        at = progress.back_to(mark)
        note = f"the history went back to W&B's step {mark.step if mark is not None else 'of its begin'}"
        return Batch((Rewind(at),), progress.cursor(), more=True, notes=(note,))

    def _refine(self, progress: Progress, mark: Mark, limit: int) -> None:
        """Drop the marks that do not stand; put one on the newest row behind `mark` that was there before: it is older
        than the mark that came next. (A rewind further than that would undo, and tell again, what still holds.)"""
        at = progress.marks.index(mark)
        later = progress.marks[at + 1]
        del progress.marks[at + 1 :]
        if later.time is None or later.step == mark.step + 1:
            return
        try:
            rows = self._ask(mark.step + 1, min(later.step, limit + 1), most=_LARGE).rows
        except TooLarge:
            return
        kept = [row for row in rows if row.time is not None and row.time < later.time]
        if kept:
            steps = [mark.at, *axis_steps(kept, progress.axis.get("key"))]
            progress.marks.append(Mark(kept[-1].step, kept[-1].time, steps[-1], mark.count + len(kept)))

    def _stands(self, mark: Mark, page: _Page) -> bool:
        """Whether a row is still the one that was given."""
        times = page.times if mark.step >= page.low else self._ask(mark.step, mark.step + 1).times
        return mark.step in times and mark.is_same(times[mark.step])
