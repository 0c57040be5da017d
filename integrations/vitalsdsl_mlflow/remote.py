"""A run of MLflow as a feed: what came since the cursor, each point once, in the order in which it was logged."""

from __future__ import annotations

import math
import threading
import time as clock
from collections.abc import Callable, Sequence
from typing import Any

from vitalsdsl.acting.tracker import Port
from vitalsdsl.ground.errors import RunGone, TrackerError
from vitalsdsl.ground.points import RunInfo
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl.watching.feeds import Batch, Cursor
from vitalsdsl_mlflow.events import Events
from vitalsdsl_mlflow.fleet import Wish
from vitalsdsl_mlflow.known import MOST_OF_ONE, Known, Metric
from vitalsdsl_mlflow.moves import Move, Told, moves
from vitalsdsl_mlflow.recent import Placed, placed
from vitalsdsl_mlflow.rows import SYSTEM, LoggedPoint
from vitalsdsl_mlflow.stores import ENDED, Snapshot, Store

BATCH = 10_000
PAGE = 25_000
HELD = 200_000
"""How many points stand in memory, at most, while long histories of many metrics are brought into one order."""

SETTLE_S = 5.0
"""A point is given once one has come that is so many seconds newer, by the run's own clock: points that are logged
asynchronously arrive in any order, but not so late."""

QUIET_S = 2.0
"""Where nothing has come for so long, between two readings, what is there is all there is."""

INTERVAL_S = 5.0
"""Seconds between two readings: a tracking server has others to serve."""

WORK_S = 20.0
"""For how long one reading goes on fetching, before it says that there is more."""

LOOK_BACK = 4
"""How many given points of a metric are fetched again, to find some that came late; more for a while where some did."""

_UNKNOWN: Cursor = {"version": 0}
"""What no cursor equals."""

PortMaker = Callable[[Snapshot, LoadedPolicy], Sequence[Port]]


def _no_ports(snapshot: Snapshot, policy: LoadedPolicy) -> Sequence[Port]:
    return ()


class RunFeed:
    """One run, read on from a cursor out of any of MLflow's stores.

    Points are given by time, step, metric and value, as they are found again in a recorded run; for that the newest are
    held back for a moment, and the newest step until another begins, unless the run has ended. With `is_recorded` nothing
    is held back, as nothing more is waited for. A point that comes later than that is still given, once.
    """

    def __init__(
        self,
        store: Store,
        snapshot: Snapshot,
        step_key: str | None = None,
        *,
        is_recorded: bool = False,
        ports: PortMaker = _no_ports,
        now: Callable[[], float] = clock.time,
    ) -> None:
        self._store = store
        self._snapshot = snapshot
        self._told = Told(snapshot)
        self._is_idle = threading.Lock()
        self._step_key = step_key
        self._is_recorded = is_recorded
        self._ports = ports
        self._now = now
        self._cursor: Cursor | None = _UNKNOWN
        self._begin()

    def _begin(self) -> None:
        self._known = Known()
        self._events = Events(self._step_key)
        self._mark: Any = None
        self._status = ""
        self._started = 0
        self._audits: list[str] = []
        self._is_sample = False
        self._turn = 0
        self._has_moved = True
        self._audited_at = -math.inf
        self._look_back = LOOK_BACK
        self._quiet: list[float] = [-1, 0.0]
        self._whole_to = 0
        self._held_to = 0
        self._has_looked = False
        self._has_more = False
        self._left_out: set[str] = set()
        self._notes: list[str] = []

    # ---------------------------------------------------------------- the run

    @property
    def uri(self) -> str:
        return f"mlflow:{self._store.uri}/{self._snapshot.run_id}"

    @property
    def reference(self) -> str:
        return f"mlflow:{self._store.reference(self._snapshot)}"

    @property
    def info(self) -> RunInfo:
        run = self._snapshot
        return RunInfo(run.run_id, run.total_steps, self._store.page_url(run), title=run.tags.get("mlflow.runName", ""))

    @property
    def interval(self) -> float:
        return INTERVAL_S

    def ports(self, policy: LoadedPolicy) -> Sequence[Port]:
        return self._ports(self._snapshot, policy)

    # ---------------------------------------------------------------- one of a fleet

    def told(self, snapshot: Snapshot, *, may_audit: bool = True) -> Sequence[Wish]:
        """How the run stands, as a search over many runs found it: a reading that follows at once need not ask.

        Gives what that will ask for (nothing while another reading is under way): whoever asks for it in its stead is to
        say what came by `handed`. With `may_audit` false it does not look for points that came unnoticed.
        """
        if not self._is_idle.acquire(blocking=False):
            return ()
        try:
            self._told.tell(snapshot, may_audit)
            if not self._known.is_whole or self._mark is not None:
                return ()
            asking = [move for move in moves(self._known, snapshot) if not move.is_next]
            steps = [(move.metric, move.steps(self._look_back)) for move in asking]
            return [Wish(snapshot.run_id, m.key, *s, max(1, m.stride)) for m, s in steps if s is not None]
        finally:
            self._is_idle.release()

    def handed(self, wish: Wish, points: Sequence[LoggedPoint]) -> None:
        """What came of a wish: all points of the metric at these steps."""
        self._told.hand(wish, points)

    @property
    def audit_due(self) -> tuple[bool, float]:
        """The least first: runs whose points have stopped, and that have waited longest."""
        return self._has_moved, self._audited_at

    def close(self) -> None:
        """Nothing is open: the store belongs to the target."""

    # ---------------------------------------------------------------- reading

    def read(self, cursor: Cursor | None) -> Batch:
        """What came after the cursor. Raises TrackerError, with nothing lost; RunGone for a run that was deleted."""
        with self._is_idle:
            return self._read(cursor)

    def _read(self, cursor: Cursor | None) -> Batch:
        if cursor != self._cursor:
            self._restore(cursor)
            self._cursor = cursor
        until = clock.monotonic() + WORK_S
        self._has_looked = False
        done = self._fill(until)
        if done and not self._has_more:
            if not self._audits:
                self._look()
            done = self._fill(until) and self._audit(until)
        if not done:
            return self._batch([], more=True)
        if self._known.count != self._quiet[0]:
            self._quiet = [self._known.count, self._now()]
        self._cursor = _UNKNOWN  # should giving fail, the next reading begins at its cursor anew
        given, more = self._give()
        return self._batch(given, more=more)

    def _batch(self, given: Sequence[Placed], *, more: bool) -> Batch:
        events = self._events.add([point.point() for point in given])
        notes = (*self._events.notes(), *self._notes)
        self._notes = []
        self._has_more = more and bool(given)  # without points it is fetching that goes on
        self._cursor = self._save()
        is_over = self._snapshot.is_over and not more and not self._known.held
        return Batch(events, self._cursor, more, is_over, notes)

    # ---------------------------------------------------------------- looking for what is new

    def _look(self) -> None:
        """How the run stands now, and which metrics have something new."""
        told = self._told.still(self._known)
        if told is not None and self._known.is_newer(told.latest):
            self._told.forget()
            told = None
        held = self._known.held[-1].timestamp if self._known.held else 0
        run = told or self._store.run(self._snapshot.run_id)
        if run.is_deleted:
            raise RunGone(f"the run {run.run_id} has been deleted")
        before = self._status
        changed = before != "" and ((before in ENDED) != run.is_over or self._started != run.started)
        if self._known.is_whole:
            self._look_for_points(run, is_first=before == "", changed=changed)
            self._status, self._started = run.status, run.started
        elif self._mark is None:
            self._look_at_latest(run)
        self._told.forget()
        self._snapshot, self._has_looked = run, True
        latest = max((point.timestamp for point in run.latest.values()), default=0)
        # The latest points of a run that went back stand still. Then it is known whole up to what was held before it was
        # asked how it stands; where a search has told that, up to what was held a look before.
        self._whole_to = max(self._whole_to, latest, self._held_to if told else held)
        self._held_to = held

    def _look_for_points(self, run: Snapshot, *, is_first: bool, changed: bool) -> None:
        mark = self._store.mark(run.run_id)
        if mark is None:
            moved = self._look_at_latest(run)
            if changed:
                self._audits, self._is_sample = sorted(self._known.metrics), False
            elif not is_first and not self._is_recorded and self._told.may_audit:
                self._audit_in_turn(moved)
                self._audited_at = clock.monotonic()
        elif self._mark is None:
            self._mark = mark
            for key in self._store.run(run.run_id).latest:  # asked after the mark, so that no metric is missed
                self._known.metric(key)
        else:
            points, self._mark = self._store.fresh(run.run_id, self._mark)
            for point in points:
                self._known.metric(point.key, is_whole=True)
                self._known.hold(placed(point), is_new=True)

    def _look_at_latest(self, run: Snapshot) -> bool:
        """Fetch what the metrics whose latest point is another have since; whether there was any."""
        moved, late = False, self._known.late
        for move in moves(self._known, run):
            metric = move.metric
            moved = moved or metric.latest != move.latest
            if move.is_next:
                self._known.hold(move.latest)
                metric.followed += 1
            elif metric.is_whole:
                self._fetch(move)
            metric.latest = move.latest
        self._look_back = MOST_OF_ONE if self._known.late > late else max(LOOK_BACK, self._look_back // 2)
        self._has_moved = moved
        return moved

    def _fetch(self, move: Move) -> None:
        """What has come of a metric that was whole: by its steps, where that can be asked for; else by its place."""
        metric, steps, points = move.metric, move.steps(self._look_back), None
        if steps is not None:
            points = self._told.points(metric.key, *steps)
            if points is None:
                points = self._store.since(self._snapshot.run_id, metric.key, *steps)
        metric.fetched(points or ())
        if points is None:
            self._read_end(metric, PAGE, to_the_end=True)
            return
        for point in points:
            self._known.hold(placed(point))

    def _audit_in_turn(self, moved: bool) -> None:
        """Look at the end of one metric's history, each reading another's: a resumed run that logs its steps again does
        not move the latest points. Where nothing moved, at the longest history, too. What is found has all looked at."""
        keys = sorted(self._known.metrics)
        if not keys:
            return
        self._turn = (self._turn + 1) % len(keys)
        due = {keys[self._turn]}
        if not moved:
            due.add(max(keys, key=lambda key: self._known.metrics[key].given))
        self._audits, self._is_sample = sorted(due), True

    def _audit(self, until: float) -> bool:
        """Look at the ends of the histories that are due; whether that was done in time. What fails goes on there."""
        while self._audits and clock.monotonic() < until:
            key = self._audits[-1]
            found = self._read_end(self._known.metrics[key], PAGE, to_the_end=True)
            self._audits.pop()
            if found and self._is_sample:
                self._audits, self._is_sample = [other for other in sorted(self._known.metrics) if other != key], False
        return not self._audits

    # ---------------------------------------------------------------- fetching by place

    def _fill(self, until: float) -> bool:
        """Fetch on what is not whole until something of each metric is held; whether that was done in time."""
        for metric in list(self._known.metrics.values()):
            if not metric.is_whole and not metric.held:
                if clock.monotonic() > until:
                    return False
                self._page(metric)
        return True

    def _page(self, metric: Metric) -> None:
        limit = max(4 * MOST_OF_ONE, min(PAGE, HELD // max(1, len(self._known.metrics))))
        while not metric.is_whole and not metric.held:
            self._read_end(metric, limit)

    def _read_end(self, metric: Metric, limit: int, *, to_the_end: bool = False) -> bool:
        """Fetch a metric's points from the newest given one on; whether there was one that should have been told of: of a
        step up to that of the latest point. (What comes in the moment between is of a later one.)

        The page begins a few points earlier. Where more than these few are from before the newest given point, some came
        late: then it begins earlier still, until it shows which.
        """
        known, found = self._known, False
        newest = math.inf if metric.latest is None else metric.latest.step
        back = min(len(metric.recent), self._look_back)
        while True:
            points = [placed(point) for point in self._tail(metric, metric.given - back, limit)]
            found = sum(known.hold(point) and point.step <= newest for point in points) > 0 or found
            surplus = sum(map(known.is_late, points)) - back - known.late_of(metric.key)
            if surplus <= 0:
                break
            if back == len(metric.recent):
                self._leave_out(metric, surplus)
                break
            back = min(len(metric.recent), 4 * back + 4)
        offset = metric.given - back + len(points)
        metric.is_whole = len(points) < limit
        while to_the_end and not metric.is_whole:
            points = [placed(point) for point in self._tail(metric, offset, limit)]
            found = sum(known.hold(point) and point.step <= newest for point in points) > 0 or found
            offset += len(points)
            metric.is_whole = len(points) < limit
        return found

    def _tail(self, metric: Metric, offset: int, limit: int) -> Sequence[LoggedPoint]:
        return self._store.tail(self._snapshot.run_id, metric.key, offset, limit, self._mark)

    def _leave_out(self, metric: Metric, count: int) -> None:
        metric.given += count
        if metric.key not in self._left_out:
            self._left_out.add(metric.key)
            self._notes.append(f"some points of `{metric.key}` came too late to be told from those before: left out")

    # ---------------------------------------------------------------- giving

    def _give(self) -> tuple[list[Placed], bool]:
        """The points whose time has come, up to the row that is not closed yet; whether there are more of them."""
        known, newest_before = self._known, self._known.newest_given
        until = self._settled_until()
        taken: list[Placed] = []
        while known.held and known.held[0].timestamp <= until and len(taken) < BATCH:
            point = known.take()
            taken.append(point)
            metric = known.metrics[point.key]
            if not metric.held and not metric.is_whole:
                self._page(metric)
        more = len(taken) == BATCH or (bool(taken) and not known.is_whole)
        if not taken or (not known.held and until == math.inf):
            return taken, more
        late = sum(newest_before is not None and point <= newest_before for point in taken)
        cut = max(late, _begin_of_last_row(taken))
        if cut == 0 and len(taken) == BATCH:
            return taken, more
        rest = taken[cut:]
        kept = taken[:cut]
        known.put_back(rest, max([point for point in (newest_before, *kept[-1:]) if point is not None], default=None))
        return kept, more and bool(kept)

    def _settled_until(self) -> float:
        """The time, in milliseconds, up to which points may be given: not beyond what all metrics are known to, as one that
        was fetched later, or whose question failed, has points there that nobody knows of yet."""
        known = self._known
        is_quiet = known.is_whole and self._has_looked and self._now() - self._quiet[1] >= QUIET_S
        if self._is_recorded or self._snapshot.is_over or is_quiet:
            return math.inf
        newest = self._whole_to
        if self._mark is not None:  # all metrics are known up to the mark, and none beyond
            newest = max(newest, known.held[-1].timestamp if known.held else 0)
        return newest - 1000 * SETTLE_S

    # ---------------------------------------------------------------- the cursor

    def _save(self) -> dict[str, Any]:
        return {
            "version": 2,
            **self._known.save(self._events.tops),
            "events": self._events.save(),
            "mark": self._mark,
            "status": self._status,
            "started": self._started,
            "audits": bool(self._audits),
            "turn": self._turn,
            "quiet": list(self._quiet),
        }

    def _restore(self, cursor: Cursor | None) -> None:
        self._begin()
        if cursor is None:
            return
        try:
            if cursor["version"] != 2:
                raise KeyError("version")
            self._known, tops = Known.load(cursor)
            self._events.load(cursor["events"], tops, {m.key: m.given for m in self._known.metrics.values()})
            self._mark, self._status, self._started = cursor["mark"], cursor["status"], cursor["started"]
            self._turn, self._quiet = cursor["turn"], list(cursor["quiet"])
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            raise TrackerError(f"the place kept for run {self._snapshot.run_id} is damaged", is_final=True) from None
        if cursor["audits"]:
            self._audits = sorted(self._known.metrics)


def _begin_of_last_row(points: Sequence[Placed]) -> int:
    """Where the last step begins, which more points may come to. A run without steps has rows of no such kind."""
    steps = [point.step for point in points if not point.key.startswith(SYSTEM)]
    if not steps or not any(steps):
        return len(points)
    at = len(points)
    while at and (points[at - 1].step == steps[-1] or points[at - 1].key.startswith(SYSTEM)):
        at -= 1
    return at
