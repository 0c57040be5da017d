"""Dispatch: what is done about transitions. Verdicts say what is true; this says who is told, and what is asked for."""

from __future__ import annotations

import atexit
import logging
import math
import os
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

from vitalsdsl.acting import messages
from vitalsdsl.acting.crew import Crew
from vitalsdsl.acting.decision import Decider, Decision, Surroundings, allowed, reached
from vitalsdsl.acting.delivery import Delivery, Job, Retry
from vitalsdsl.acting.journal import Journal
from vitalsdsl.acting.landing import Landed, landing
from vitalsdsl.acting.ledger import Record, silence
from vitalsdsl.acting.provisions import Provisions
from vitalsdsl.acting.tracker import Ability, Alert, PolicyCopy, Port
from vitalsdsl.actions.base import Effect, registry
from vitalsdsl.ground.errors import PolicyError, UsageError
from vitalsdsl.ground.points import RunInfo
from vitalsdsl.ground.types import EPOCHS, TOKENS
from vitalsdsl.language import rules
from vitalsdsl.language.rules import Level
from vitalsdsl.verdicts.verdict import Transition

logger = logging.getLogger("vitalsdsl")

REQUEST_LIFETIME = 600.0
"""Seconds after which the training side refuses a request that nobody has taken."""

CHECK_AFTER = 5.0
"""Seconds after the last thing was recorded when the run's own lists are looked at once more, where another may have
written them at the same instant."""

SHOW_EVERY = 30.0
"""Seconds for which tags and lists may wait, at most, while a run catches up on its history."""

_MOST_SKEW = 7 * 86400.0
"""Seconds by which the clocks of two machines may differ; times of points that are further off are none."""

_AT_EXIT = 5.0


class Dispatcher:
    """What becomes of one run's transitions, by a policy, through the ports of its trackers.

    `take` decides, and returns at once: it waits for no disk and no network and never raises. Threads write the journal
    and ask the ports: its own, or those of a `crew` that dispatchers of many runs share. A forked child of the process
    decides and does nothing.

    `allow` names the actions that may be done at all (by default every one: pause, rollback and their like are only
    requests, granted or refused by the training side). With `dry_run` all is decided, as the ports would have it if there
    are any, and nothing done or written.
    `failing` is what was said of ports that fail for now; dispatchers of many runs that share it say it once.
    `counters` gives the run's `epoch` and `tokens`, for cooldowns and limits measured in those. Raises PolicyError
    where the policy's actions make no sense, UsageError for an unknown name in `allow` and for two ports of one name.

    A crash of the process loses at most decisions that were not yet on disk (milliseconds old); nothing had been done
    about those. Intents on disk that were not carried out are carried out at the next start, under the same id, unless
    they have expired. At the exit of the process a dispatcher that was not closed gets five seconds.

    >>> from vitalsdsl.acting.memory import Memory
    >>> from vitalsdsl.language.parser import parse
    >>> from vitalsdsl.ground.source import Source
    >>> policy = parse(Source("spikes", "rule spike { when loss > 3 -> orange }")).policy
    >>> port = Memory()
    >>> dispatcher = Dispatcher(policy, [port], Journal(), RunInfo("run"), start_worker=False)
    >>> spike = Transition("run", 0, "spike", None, 2, 2, Level.GREEN, Level.ORANGE, "condition")
    >>> for decision in dispatcher.take([spike]):
    ...     print(decision.text)
    alert, tag, ask for pause
    >>> dispatcher.close(1.0)
    True
    >>> port.level.word, port.requests[0].action, port.firing
    ('orange', 'pause', {'spike': 'orange@2'})
    """

    def __init__(
        self,
        policy: rules.Policy,
        ports: Sequence[Port],
        journal: Journal,
        run: RunInfo,
        *,
        allow: Collection[str] | None = None,
        dry_run: bool = False,
        clock: Callable[[], float] = time.time,
        counters: Callable[[], Mapping[str, float]] | None = None,
        retry: Retry | None = None,
        request_lifetime: float = REQUEST_LIFETIME,
        start_worker: bool = True,
        failing: set[tuple[str, str]] | None = None,
        crew: Crew | None = None,
    ) -> None:
        provisions = Provisions(policy)
        if any(d.is_error for d in provisions.diagnostics):
            raise PolicyError(provisions.diagnostics)
        self._provisions = provisions
        named = _named_apart(ports)
        self._ports = {} if dry_run else named
        self._listeners = {a: tuple(name for name, port in named.items() if a in port.can) for a in Ability}
        self._dry = dry_run
        self._journal = journal.scratch() if dry_run else journal
        self._run = run
        self._clock = clock
        self._counters = counters
        self._lifetime = request_lifetime
        self._pid = os.getpid()
        self._failed = False
        self._shown: tuple[Level, dict[str, str]] | None = None
        self._recorded: float | None = None
        self._unshown: list[Transition] = []
        self._shown_at = time.monotonic()
        heard = [named[name] for name in self._listeners[Ability.NOTIFY]]
        surroundings = Surroundings(
            run.name, allowed(allow), self._listeners, reached(heard), dry_run, dry_run and not named, request_lifetime
        )
        self._decider = Decider(provisions, self._journal.ledger(run.name), surroundings)
        works = (crew or Crew()) if start_worker and not dry_run else None
        self._delivery = Delivery(self._journal, retry or Retry(), clock, works, failing)
        self._at_exit = partial(_close, weakref.ref(self))
        atexit.register(self._at_exit)
        if counters is None:
            self._warn_of_units()
        if not dry_run:
            self._resume()

    def take(
        self,
        transitions: Sequence[Transition],
        *,
        newest: float = math.nan,
        is_history: bool = False,
        is_behind: bool = False,
    ) -> list[Decision]:
        """Decide what to do about transitions, in their order; it is done elsewhere, and later.

        `newest` is what time it is for the run, where that may be long after these transitions, or by another clock: what
        is asked of the training side too late is not asked for. What `is_history` only shows in the tags. While the run
        `is_behind`, tags and lists wait for where it stands in the end, but for half a minute at most: `heed` is to follow.
        """
        if os.getpid() != self._pid:
            return []
        try:
            with self._journal.lock:
                return self._take(transitions, newest, is_history, is_behind)
        except Exception:  # a health rule must never end a training run
            if not self._failed:
                self._failed = True
                logger.exception("vitals: deciding about transitions failed; training goes on")
            return []

    def silence(self, rule: str, reason: str, until: float | None = None, author: str = "") -> None:
        """Hear nothing of a rule, or of all that a pattern (`act_*`) matches, until a unix time (None: for good).

        A time that has passed ends the silence. Silences outlast restarts.
        """
        if os.getpid() != self._pid:
            return
        record = silence(self._run.name, rule, reason, until, self._clock(), author)
        with self._journal.lock:
            self._journal.remember(record)
            self._submit([record], self._tag_jobs())

    def heed(self) -> None:
        """What has to be seen to now and then. Tags that have changed without a transition are set right: a silence has
        come, or is over. What was recorded is looked at once more, some seconds after the last of it."""
        if os.getpid() != self._pid or not (self._shown or self._unshown):
            return
        with self._journal.lock:
            if self._unshown or self._decider.shown(self._clock()) != self._shown:
                self._submit([], self._showing())
            if self._recorded is None:
                return
            if not self._delivery.is_idle:
                self._recorded = time.monotonic()
            elif time.monotonic() - self._recorded >= CHECK_AFTER:
                self._recorded = None
                self._submit([], self._completing([port for port in self._able(Ability.RECORD) if port.is_contested]))

    def check_again(self) -> None:
        """The run is over: what stands in its lists is looked at once more, by `heed`, also where nothing new has been
        recorded. Another writer may have taken lines away since the last look."""
        if self._journal.ledger(self._run.name).seen and any(p.is_contested for p in self._able(Ability.RECORD)):
            self._recorded = time.monotonic()

    @property
    def is_idle(self) -> bool:
        """Whether all that was decided is done, or given up."""
        return os.getpid() != self._pid or self._delivery.is_idle

    @property
    def is_unchecked(self) -> bool:
        """Whether something was recorded that is to be looked at once more, by `heed`."""
        return self._recorded is not None

    def record_policy(self, policy: PolicyCopy, landed: Landed | None = None) -> None:
        """Keep a copy of the policy with the run. What is among `landed` is not done again, and what is done is added to
        it, in the thread of its port."""
        if os.getpid() == self._pid:
            able = self._able(Ability.POLICY)
            jobs = [Job(port, "keep the policy", partial(port.record_policy, policy)) for port in able]
            # The tags as well, green though they be: a run that is well is told from one that is not watched.
            jobs += self._tag_jobs()
            if landed is not None:
                jobs = landing(jobs, landed)
            self._submit([], jobs)

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until all that was decided is done; False where the time was too short."""
        return os.getpid() != self._pid or self._delivery.flush(timeout)

    def written(self, timeout: float = 10.0) -> bool:
        """Wait until what was decided is on disk, so that it will be done whatever happens to this process."""
        return os.getpid() != self._pid or self._delivery.written(timeout)

    def close(self, timeout: float = 10.0) -> bool:
        """The end of the run: finish what can be finished in time. The rest waits in the journal for the next start."""
        if os.getpid() != self._pid:
            return True
        atexit.unregister(self._at_exit)
        with self._journal.lock:
            if self._unshown:
                self._submit([], self._showing())
        return self._delivery.close(timeout)

    # ---------------------------------------------------------------- from decisions to jobs

    def _take(
        self, transitions: Sequence[Transition], newest: float, is_history: bool, is_behind: bool
    ) -> list[Decision]:
        clock = self._clock()
        counters = self._counters() if self._counters is not None and transitions else {}
        decisions: list[Decision] = []
        records: list[Record] = []
        jobs: list[Job] = []
        fresh: list[Transition] = []
        for _, step in groupby(transitions, key=lambda t: (t.attempt, t.step)):
            told: list[_Told] = []
            for decision, record in self._decider.decide(list(step), clock, counters, newest, is_history):
                decisions.append(decision)
                if record is not None:
                    if self._run.title:
                        record["title"] = self._run.title
                    records.append(record)
                    fresh.append(decision.transition)
                    if record["type"] == "intent":
                        record["issued"] = newest if abs(newest - clock) <= _MOST_SKEW else clock
                        told.append(_Told(record, decision.transition))
            jobs += self._jobs(told)
        if fresh:
            self._unshown += fresh
            waits = is_behind and time.monotonic() - self._shown_at < SHOW_EVERY
            self._submit(records, jobs if waits else jobs + self._showing())
        return decisions

    def _submit(self, records: list[Record], jobs: list[Job]) -> None:
        if (records or jobs) and not self._dry:
            self._delivery.submit(records, jobs)

    def _able(self, ability: Ability) -> Iterable[Port]:
        return (self._ports[name] for name in self._listeners[ability] if name in self._ports)

    def _showing(self) -> list[Job]:
        """Where the run stands now, and what has come of it since this was last shown."""
        fresh, self._unshown = tuple(self._unshown), []
        self._shown_at = time.monotonic()
        jobs = []
        for port in self._able(Ability.RECORD) if fresh else ():
            jobs.append(Job(port, "record transitions", port.record, newest="transitions", items=fresh))
            if port.is_contested:
                self._recorded = time.monotonic()
        return jobs + self._tag_jobs()

    def _tag_jobs(self) -> list[Job]:
        level, firing = self._shown = self._decider.shown(self._clock())
        return [
            Job(port, "tag the run", partial(port.tag, level, firing), newest="tags")
            for port in self._able(Ability.TAG)
        ]

    def _jobs(self, told: Sequence[_Told]) -> list[Job]:
        """The jobs that come of the intents of one step, what expires first. Of what a step says to one channel there
        is one message, however many rules say it."""
        jobs: list[Job] = []
        shared: dict[tuple[str, str], list[tuple[_Told, int]]] = {}
        for one in told:
            for at, deed in enumerate(one.record["deeds"]):
                effect = registry()[deed["action"]].effect
                for name in deed["ports"]:
                    if name not in self._ports or (one.left is not None and (at, name) not in one.left):
                        continue
                    port = self._ports[name]
                    if effect is Effect.NOTIFY:
                        shared.setdefault((name, deed["arguments"]["channel"]), []).append((one, at))
                    else:
                        expires = one.record["at"] + self._lifetime if effect is Effect.REQUEST else float("inf")
                        together = effect is Effect.ALERT and port.takes_together
                        act = partial(self._alerts, port) if together else partial(self._post, port, one, at)
                        job = self._job(port, [(one, at)], act, expires)
                        jobs.append(replace(job, newest="alerts", items=((one, at),)) if together else job)
        for (name, channel), deeds in shared.items():
            tell = partial(self._notify, self._ports[name], channel, deeds)
            jobs.append(self._job(self._ports[name], deeds, tell))
        return sorted(jobs, key=lambda job: job.expires)

    def _job(
        self, port: Port, deeds: Sequence[tuple[_Told, int]], act: Callable[[], object], expires: float = float("inf")
    ) -> Job:
        first, at = deeds[0]
        lines = tuple((one.record["id"], number) for one, number in deeds)
        return Job(port, f"post `{first.record['deeds'][at]['text']}`", act, lines, self._run.name, expires)

    def _post(self, port: Port, one: _Told, at: int) -> None:
        """One deed by one port, put into words only now: in the port's thread, not in the training loop's."""
        if messages.asked_of(one.record, at).action.effect is Effect.REQUEST:
            port.request(messages.request(one.record, at, one.transition, self._lifetime))
        else:
            port.alert(self._alert(one, at))

    def _alerts(self, port: Port, told: Sequence[tuple[_Told, int]]) -> None:
        port.alert_all([self._alert(one, at) for one, at in told])

    def _notify(self, port: Port, channel: str, told: Sequence[tuple[_Told, int]]) -> str | None:
        return port.notify(channel, messages.together([self._alert(one, at) for one, at in told], self._run))

    def _alert(self, one: _Told, at: int) -> Alert:
        return messages.alert(one.record, at, one.transition, self._provisions.of(one.transition.rule), self._run)

    # ---------------------------------------------------------------- the start

    def _resume(self) -> None:
        """Carry out what an earlier process had decided and not done, and set the tags and the lists right."""
        jobs: list[Job] = []
        for record, left in self._journal.unfinished(self._run.name):
            try:
                jobs += self._jobs([_Told(record, messages.transition_of(record), left)])
            except (KeyError, TypeError, ValueError):  # a line that a later version wrote, or that was damaged
                logger.warning("vitals: an unfinished line of the journal %s cannot be read", self._journal.path)
        if self._journal.ledger(self._run.name).seen:
            jobs += self._tag_jobs() + self._completing(self._able(Ability.RECORD))
        self._submit([], jobs)

    def _completing(self, ports: Iterable[Port]) -> list[Job]:
        return [
            Job(port, "complete the lists of the run", partial(self._complete, port), newest="lists") for port in ports
        ]

    def _complete(self, port: Port) -> None:
        """All of the journal that the run's own lists must hold, without the alerts that are on their way: to be called
        in the port's thread."""
        transitions: list[Transition] = []
        alerts: list[Alert] = []
        records = list(self._journal.decisions(self._run.name))
        under_way = {record["id"]: left for record, left in self._journal.unfinished(self._run.name)}
        for record in records:
            try:
                transition, left = messages.transition_of(record), under_way.get(record["id"], ())
                transitions.append(transition)
                deeds = ((at, d) for at, d in enumerate(record.get("deeds", ())) if (at, port.name) not in left)
                shown = [at for at, d in deeds if port.name in d["ports"] and _is_alert(d)]
                alerts += [self._alert(_Told(record, transition), at) for at in shown[:1]]
            except (KeyError, TypeError, ValueError):  # as above; earlier versions did not write down all of it
                continue
        if transitions:
            port.complete(transitions, alerts)

    def _warn_of_units(self) -> None:
        for name, provision in self._provisions.rules.items():
            if provision.cooldown is not None and provision.cooldown.unit in (EPOCHS, TOKENS):
                logger.warning("vitals: the cooldown of %s is in %s, which are not known here: it does not apply",
                               name, provision.cooldown.unit)  # fmt: skip
        for budget in self._provisions.budgets:
            if budget.per.unit in (EPOCHS, TOKENS):
                logger.warning("vitals: `limit %s`: %s are not known here, so it holds for the whole run",
                               budget.text, budget.per.unit)  # fmt: skip


@dataclass(frozen=True)
class _Told:
    """An intent with its transition. `left` is what of it is still to be done, where that is not all."""

    record: Record
    transition: Transition
    left: Collection[tuple[int, str]] | None = None


def _named_apart(ports: Sequence[Port]) -> dict[str, Port]:
    named: dict[str, Port] = {}
    for port in ports:
        if named.setdefault(port.name, port) is not port:
            raise UsageError(f"two ports are called `{port.name}`: the journal could not tell them apart")
    return named


def _is_alert(deed: Mapping[str, Any]) -> bool:
    return registry()[deed["action"]].effect is Effect.ALERT


def _close(dispatcher: weakref.ref[Dispatcher]) -> None:
    alive = dispatcher()
    if alive is not None:
        alive.close(_AT_EXIT)
