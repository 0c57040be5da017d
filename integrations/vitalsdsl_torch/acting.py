"""What is done about requests, between two updates: which are refused, which one comes first, and each to its end."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection
from typing import Any, NoReturn

from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.ground.points import number
from vitalsdsl_torch.exits import Ended, Paused, Stopped
from vitalsdsl_torch.limits import Limits
from vitalsdsl_torch.requests import RANK, Asked, Desk, understood
from vitalsdsl_torch.ring import SUSPECT
from vitalsdsl_torch.rollback import NotPossible, planned, result
from vitalsdsl_torch.training import Training

logger = logging.getLogger("vitalsdsl")

INTERVENTIONS = frozenset({"stop", "rollback", "pause"})
"""Of these one boundary sees one at most."""

_HARMLESS = frozenset({"checkpoint", "detail"})
_DETAIL_STEPS = 100


class Acting:
    """Takes requests at step boundaries and carries them out.

    `allow` are the actions that may change the training. `grace` is for how many steps after a rollback only what is
    not finite is acted on: the rest waits, and is done after that if it still holds. `skip` is how many steps' batches
    a rollback passes over. With `hold` a pause waits for a person for that many seconds, in place; else it ends the
    process. `leave` is called before the process is ended.
    """

    def __init__(
        self,
        training: Training,
        desk: Desk,
        limits: Limits,
        allow: Collection[str],
        run: str,
        *,
        dry_run: bool,
        skip: int,
        grace: int,
        hold: float | None,
        poll: float,
        leave: Callable[[], None],
    ) -> None:
        self._training, self._desk, self._limits = training, desk, limits
        self._allow = frozenset(allow) | _HARMLESS
        self._run = run
        self._dry, self._skip, self._grace, self._hold, self._poll = dry_run, skip, grace, hold, poll
        self._leave = leave
        self._waiting: dict[str, Asked] = {}

    @property
    def _history(self) -> Any:
        return self._training.history

    # ---------------------------------------------------------------- at the start of a process

    def begin(self) -> None:
        """Say what became of what an earlier process had begun; if the run was paused, wait for a person's word."""
        turns = {turn.request: turn for turn in self._history.rollbacks}
        for id_ in self._history.unfinished:
            turn = turns.get(id_)
            if turn is not None:
                self._answer(id_, "done", "finished by the process that was started next", checkpoint=turn.checkpoint,
                             restored_step=turn.step, segment=turn.attempt, data_pos_after=turn.position)  # fmt: skip
            elif id_ in self._history.carried_out:
                self._answer(id_, "done", "finished by the process that was started next")
            elif not self._is_taken_up(id_):
                self._answer(id_, "failed", "the process ended before it was done")
        if self._history.is_paused:
            if self._desk.channel is None:
                self._history.note({"type": "resumed", "request": ""})  # starting it again is the person's word
            else:
                self._wait()

    def _is_taken_up(self, id_: str) -> bool:
        """Whether a request that an earlier process did not come to the end of is done at the next boundary: once more
        only, in case it was this that ended the process.

        One that lies in the channel is heard there again. One of the policy's own is, where its rule has tripped on the
        way to the checkpoint from which the run goes on, and so will not do so again.
        """
        history, rules = self._history, self._training.rules
        if history.begun[id_] > 1:
            return False
        request = history.asked.get(id_)
        if request is None:
            return self._desk.channel is not None
        one = understood(request)
        tripped = self._training.done if one.trip_step is None else one.trip_step
        if rules is None or tripped > self._training.done or not rules.is_firing(one.rule):
            return False
        self._desk.inbox.put({**request, "segment": history.attempt, "expires_at": None})
        return True

    # ---------------------------------------------------------------- at a step boundary

    def take(self, expected: int = 0, at_once: bool = False) -> None:
        """Carry out what is asked now. `expected` requests of this process's own policy are on their way. With
        `at_once` the control folder is looked at, however short ago it was."""
        asked = self._accepted(expected, at_once) + self._no_longer_waiting()
        if not asked:
            return
        asked.sort(key=lambda one: RANK[one.action])
        first = next((one for one in asked if one.action in INTERVENTIONS), None)
        for one in asked:
            if one is first:
                continue
            if one.action in INTERVENTIONS or first is not None and first.action != "pause":
                assert first is not None
                self._answer(one.id, "rejected", f"superseded: {first.action} is done at this step")
            else:
                self._carry_out(one)
        if first is not None:
            self._carry_out(first)

    def _accepted(self, expected: int = 0, at_once: bool = False) -> list[Asked]:
        out = []
        for request in self._desk.new(expected, at_once=at_once):
            id_ = str(request["id"])
            if id_ in self._waiting:
                continue
            self._desk.received(id_, self._training.done)
            try:
                one = understood(request)
            except (ValueError, KeyError, TypeError) as error:
                self._answer(id_, "rejected", f"not understood: {error}")
                continue
            if one.is_ours and id_ not in self._history.asked:
                self._history.note({"type": "asked", "request": request})
            refusal = self._refusal(one)
            if not one.is_ours and one.rule and one.segment is not None and not self._is_stale(one):
                self._heard_of(one)
            if refusal:
                self._answer(one.id, "rejected", refusal)
            elif self._is_in_grace(one):
                self._waiting[one.id] = one
                self._desk.received(id_, self._training.done, "accepted", "waits for the end of the grace period")
            else:
                self._desk.received(id_, self._training.done, "accepted")
                out.append(one)
        return out

    def _heard_of(self, one: Asked) -> None:
        """What another watcher's rule tells of the run: how long it lasts is not known here."""
        at = self._training.done if one.trip_step is None else one.trip_step
        onset = at if one.onset is None else one.onset
        self._history.note({"type": "incident", "rule": one.rule, "attempt": one.segment, "onset": onset})
        self._history.note({"type": "over", "rule": one.rule, "step": at})
        self._training.ring.settle(self._training.done)

    def _refusal(self, one: Asked) -> str:
        if self._is_stale(one):
            return f"stale_segment: it is about attempt {one.segment}, and this is {self._history.attempt}"
        if one.action == "resume":  # a person's clock may be any: it holds for as long as the run is paused
            return "" if self._history.is_paused else "the run is not paused"
        if one.expires_at < time.time():
            return "expired"
        is_pause_instead = one.action == "rollback" and "pause" in self._allow
        if one.action not in self._allow and not is_pause_instead:
            return f"not_allowed: `{one.action}` is not among what the guard allows"
        if self._dry:
            return f"dry run: {self._would(one)}"
        return ""

    def _is_stale(self, one: Asked) -> bool:
        """Whether it is about what is no more: the run has gone back since, or has lost the step in a restart."""
        if one.segment is None or one.segment == self._history.attempt:
            return False
        since = [turn for turn in self._history.turns if turn.attempt > one.segment]
        return not since or any(
            turn.is_rollback or one.trip_step is None or one.trip_step > turn.step for turn in since
        )

    def _would(self, one: Asked) -> str:
        if one.action != "rollback" or one.action not in self._allow:
            return f"it would {one.action} after step {self._training.done}"
        try:
            turn = planned(one, self._training, self._limits, self._skip).turn
        except NotPossible as why:
            return f"it would pause: {why}"
        self._training.forget()
        return f"it would go back to step {turn.step} and go on at batch {turn.position}"

    def _is_in_grace(self, one: Asked) -> bool:
        rollbacks = self._history.rollbacks
        if not rollbacks or not one.rule or one.is_about_nonfinite or one.action not in INTERVENTIONS:
            return False
        if self._training.rules is not None and self._training.rules.is_urgent:
            return False
        return bool(rollbacks[-1].step < self._training.done <= rollbacks[-1].step + self._grace)

    def _no_longer_waiting(self) -> list[Asked]:
        """What waited for the end of a grace period, and still holds."""
        out = []
        for one in list(self._waiting.values()):
            if self._is_in_grace(one) and not self._refusal(one):
                continue
            del self._waiting[one.id]
            rules = self._training.rules
            refusal = self._refusal(one)
            if not refusal and rules is not None and one.is_ours and not rules.is_firing(one.rule):
                refusal = "over: its rule was green again within the grace period"
            if refusal:
                self._answer(one.id, "rejected", refusal)
            else:
                out.append(one)
        return out

    # ---------------------------------------------------------------- one request, to its end

    def _carry_out(self, one: Asked) -> None:
        try:
            self._answer(one.id, "executing")
        except OSError as error:  # then it might be done once more by the next process
            self._answer(one.id, "failed", f"it cannot be written down: {error.strerror or error}")
            return
        why = printable(one.reason or one.rule) or "a person asks for it"
        logger.warning("vitals: step %d: %s: %s", self._training.done, one.action, why)
        try:
            getattr(self, f"_{one.action}")(one)
        except Ended:
            raise
        except OSError as error:
            self._answer(one.id, "failed", str(error.strerror or error))
        except Exception as error:  # a request must never end a training run
            logger.exception("vitals: %s failed; training goes on", one.action)
            self._answer(one.id, "failed", type(error).__name__)

    def _answer(self, id_: str, state: str, reason: str = "", **result: Any) -> None:
        self._desk.answer(id_, state, self._training.done, reason, **result)

    def _checkpoint(self, one: Asked) -> None:
        saved = self._training.save(SUSPECT if one.rule else "probation")
        self._answer(one.id, "done", checkpoint=saved.id)

    def _detail(self, one: Asked) -> None:
        said = str(one.params.get("steps", _DETAIL_STEPS)).split()
        steps = number(said[0]) if said else None
        until = self._training.done + int(steps if steps is not None and 0 < steps < math.inf else _DETAIL_STEPS)
        self._training.look_closer(until)
        self._answer(one.id, "done", until_step=until)

    def _lr(self, one: Asked) -> None:
        before = self._history.factor
        after = self._limits.lowered(before, one.params["lr_factor"])
        self._history.append({"type": "factor", "factor": after, "request": one.id})
        self._training.scale()
        self._answer(one.id, "done", lr_before=before, lr_after=after)

    def _stop(self, one: Asked) -> NoReturn:
        saved = self._training.save(SUSPECT)
        self._answer(one.id, "done", checkpoint=saved.id)
        self._leave()
        raise Stopped

    def _pause(self, one: Asked, why: str = "") -> None:
        if self._history.is_paused:
            self._answer(one.id, "done", "the run is paused already")
            return
        saved = self._training.save(SUSPECT)
        self._history.append({"type": "paused", "request": one.id})
        self._answer(one.id, "done", why, checkpoint=saved.id, paused=True)
        self._wait()

    def _rollback(self, one: Asked) -> None:
        before = self._history.factor
        self._training.settle()
        try:
            if "rollback" not in self._allow:
                raise NotPossible("the guard does not allow `rollback`")
            plan = planned(one, self._training, self._limits, self._skip)
        except NotPossible as why:
            if "pause" in self._allow:
                self._pause(one, f"paused instead: {why}")
            else:
                self._answer(one.id, "rejected", str(why))
            return
        self._training.go_back(plan.turn, plan.target)
        said = f"back at step {plan.turn.step}, going on at batch {plan.turn.position}"
        logger.warning("vitals: %s", "; ".join(filter(None, (said, plan.remark))))
        self._answer(one.id, "done", plan.remark, **result(plan, before))

    def _resume(self, one: Asked) -> None:
        self._history.append({"type": "resumed", "request": one.id})
        self._answer(one.id, "done")

    # ---------------------------------------------------------------- while the run is paused

    def _wait(self) -> None:
        """Hear what is asked until somebody says `resume`; where nobody does in time, end the process."""
        end = time.monotonic() + (self._hold or 0.0)
        with self._training.busy():
            while True:
                for one in sorted(self._accepted(at_once=True), key=lambda one: RANK[one.action]):
                    self._carry_out(one)
                if not self._history.is_paused:
                    return
                left = end - time.monotonic()
                if left <= 0:
                    break
                self._training.still_waiting()
                time.sleep(min(self._poll, left))
        if self._desk.channel is None:
            how = "it goes on where it is started again"
        else:
            how = f"started again, it waits for `vitals resume {self._run}` (with the same --control)"
        logger.warning(
            "vitals: paused after step %d, which is saved; the process ends with code 75: %s", self._training.done, how
        )
        self._leave()
        raise Paused
