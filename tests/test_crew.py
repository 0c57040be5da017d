"""A few threads do what many runs ask for, and what hangs or waits keeps no other from being done."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from tests.acting import O, Y, change, dispatcher
from vitalsdsl.acting.crew import MOST, Crew
from vitalsdsl.acting.delivery import Retry
from vitalsdsl.acting.journal import Journal
from vitalsdsl.acting.memory import Memory

RULES = "rule a { when loss > 3 -> yellow }"


def test_many_runs_take_a_few_threads_and_the_order_of_each_is_kept() -> None:
    crew, at_work, most = Crew(), set[int](), [0]

    def watch(what: str) -> None:
        at_work.add(threading.get_ident())
        most[0] = max(most[0], sum(thread.name.startswith("vitals-") for thread in threading.enumerate()))

    ports = [Memory(watch=watch) for _ in range(60)]
    before = sum(thread.name.startswith("vitals-") for thread in threading.enumerate())
    acts = [dispatcher(RULES, port, start_worker=True, crew=crew) for port in ports]
    for step in range(1, 11):
        for one in acts:
            one.take([change("a", step, O if step % 2 else Y)])
    assert all(one.close(20.0) for one in acts)
    assert len(at_work) <= MOST and most[0] <= before + 2 * MOST
    for port in ports:
        assert [alert.transition.step for alert in port.alerts] == list(range(1, 11))
        assert port.transitions[-1].step == 10


def test_what_waits_for_its_retry_holds_no_thread() -> None:
    crew = Crew(most=1)
    slow = Retry(attempts=5, first=60.0, most=60.0)
    failing, sound = [Memory("shared", failures=-1) for _ in range(5)], Memory("shared")
    acts = [dispatcher(RULES, port, start_worker=True, crew=crew, retry=slow) for port in failing]
    for one in acts:
        one.take([change("a", 1, Y)])
    well = dispatcher(RULES, sound, start_worker=True, crew=crew)
    well.take([change("a", 1, Y)])
    assert well.close(10.0) and len(sound.alerts) == 1
    assert not any(one.close(0.05) for one in acts) and all(port.calls == 1 for port in failing)
    assert all(one._delivery.flush(5.0) for one in acts)  # at the end nobody waits for the minute of the retry


def test_a_port_that_hangs_holds_up_no_port_of_another_name_nor_others_of_its_own() -> None:
    crew = Crew()
    hanging, sound, other = Memory("same", delay=60.0), Memory("same"), Memory("other")
    acts = [dispatcher(RULES, port, start_worker=True, crew=crew) for port in (hanging, sound, other)]
    for one in acts:
        one.take([change("a", 1, Y)])
    assert acts[1].close(10.0) and acts[2].close(10.0)
    assert len(sound.alerts) == len(other.alerts) == 1 and not acts[0].close(0.0)
    hanging.release()


def test_what_is_called_for_while_all_hang_is_done_when_one_does_not() -> None:
    crew, gate, done = Crew(most=2), threading.Event(), threading.Event()
    for _ in range(2):
        crew.call("x", lambda: gate.wait(10.0) and None)
    crew.call("x", lambda: done.set())
    assert not done.wait(0.05)
    gate.set()
    assert done.wait(10.0)


def test_what_comes_due_is_done_though_the_thread_that_asked_for_it_hangs() -> None:
    crew, gate, due = Crew(most=2), threading.Event(), threading.Event()
    times: list[float] = []

    def again() -> float | None:
        times.append(time.monotonic())
        if len(times) == 1:
            crew.call("x", lambda: gate.wait(10.0) and None)
            return 0.05
        return due.set()

    crew.call("x", again)
    assert due.wait(10.0) and times[1] - times[0] >= 0.05
    gate.set()


def test_an_unfinished_journal_of_many_runs_is_written_whole(tmp_path: Path) -> None:
    crew = Crew()
    journals = [Journal(tmp_path / f"{n}" / "j") for n in range(40)]
    acts = [dispatcher(RULES, Memory(), journal=journal, start_worker=True, crew=crew) for journal in journals]
    for one in acts:
        one.take([change("a", 1, Y)])
    assert all(one.written(10.0) and one.close(10.0) for one in acts)
    assert all(not Journal(journal.path).unfinished("run") for journal in journals)
