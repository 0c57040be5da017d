"""Tasks over the cores of one machine: in batches, each result as it comes, and no task takes others down with it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection

from vitalsdsl.backtesting.judging import Judged, Task, judge

BATCH_BYTES = 2_000_000
"""How much of logs a batch holds: some tenths of a second of work, beside which sending it is nothing."""

BATCH_TASKS = 64
AHEAD = 2
"""How many batches a worker: one at work, one waiting."""

DIED = "the process that read it died: it may need more memory than there is"


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def judged(tasks: Sequence[Task], jobs: int) -> Iterator[Judged]:
    """What comes of each task, in the order in which they are done. With one job, in this process.

    A worker that dies, as the system ends one that takes too much memory, costs the task that it died of.
    """
    batches = batched(tasks, jobs)
    if jobs == 1 or len(tasks) == 1:
        for task in tasks:
            yield judge(task)
        return
    while batches:
        suspects, batches = yield from _through(batches, min(jobs, len(batches)), AHEAD)
        alone = [[task] for task in suspects]  # one of them has done it: one after the other, so that it shows which
        while alone:
            died, alone = yield from _through(alone, 1, 1)
            for task in died:
                yield Judged(task.index, why=DIED)


def batched(tasks: Sequence[Task], jobs: int) -> list[list[Task]]:
    """Neighbours together, to a size at which a worker is busy for a while, and so that no worker is without for long.

    Runs of trackers, whose size is not known, are a batch each.
    """
    total = sum(task.place.size for task in tasks)
    room = min(BATCH_BYTES, total // (4 * jobs) + 1)
    batches: list[list[Task]] = []
    size = 0
    for task in tasks:
        own = task.place.size or room
        if not batches or size + own > room or len(batches[-1]) == BATCH_TASKS:
            batches.append([])
            size = 0
        batches[-1].append(task)
        size += own
    return batches


def _through(
    batches: list[list[Task]], jobs: int, ahead: int
) -> Generator[Judged, None, tuple[list[Task], list[list[Task]]]]:
    """The results of batches. Returns the tasks that were at work when a worker died, and the batches that still wait."""
    waiting = list(reversed(batches))
    at_work: dict[Future[list[Judged]], list[Task]] = {}
    context = multiprocessing.get_context("spawn")  # the same on every system, and safe where threads run
    ours, theirs = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(jobs, context, _begin, (ours,))
    try:
        while waiting or at_work:
            while waiting and len(at_work) < ahead * jobs:
                batch = waiting[-1]
                at_work[pool.submit(_batch, batch)] = waiting.pop()
            for done in wait(at_work, return_when=FIRST_COMPLETED).done:
                yield from done.result()
                del at_work[done]
    except BrokenProcessPool:
        return [task for batch in at_work.values() for task in batch], list(reversed(waiting))
    finally:
        theirs.close()
        pool.shutdown(cancel_futures=True)
        ours.close()
    return [], []


def _batch(tasks: list[Task]) -> list[Judged]:
    return [judge(task) for task in tasks]


def _begin(parent: Connection) -> None:
    """A worker leaves Ctrl-C to its parent, and ends with it, or when that has no more use for it: the parent holds the
    other end of the pipe, and never writes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        parent.recv()
    os._exit(0)
