"""What can safely be done on a run of W&B from outside: tags, alerts, and the stop button."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from vitalsdsl.acting.tracker import Ability, Alert, Port, Request
from vitalsdsl.ground.errors import RunGone, TrackerError
from vitalsdsl.language.rules import Level
from vitalsdsl_wandb.address import Address, parse
from vitalsdsl_wandb.graphql import GraphQL
from vitalsdsl_wandb.port import severity, short_title, with_level
from vitalsdsl_wandb.server import find_key

logger = logging.getLogger("vitalsdsl")

STOP = "stop"
_TRIES = 3

_RUN = """query Run($entity: String!, $project: String!, $run: String!) { project(name: $project, entityName: $entity) { \
run(name: $run) { id state stopped tags } } }"""

_TAGS = """mutation UpsertBucket($id: String!, $tags: [String!]) { upsertBucket(input: {id: $id, tags: $tags}) { \
bucket { id } } }"""

_ALERT = """mutation NotifyScriptableRunAlert($entityName: String!, $projectName: String!, $runName: String!, \
$title: String!, $text: String!, $severity: AlertSeverity = INFO, $waitDuration: Duration) { \
notifyScriptableRunAlert(input: {entityName: $entityName, projectName: $projectName, runName: $runName, \
title: $title, text: $text, severity: $severity, waitDuration: $waitDuration}) { success } }"""

_STOP = """mutation StopRun($id: ID!) { stopRun(input: {id: $id}) { success } }"""

_NO_WAIT = 1
"""Milliseconds between two alerts of one title; W&B takes 0 for its default."""


class OutsidePort(Port):
    """Acts on one run that another process trains and logs.

    A run of W&B belongs to the process that logs it: configuration and summary are sent whole, again and again, from
    there, and a second process that joined the run would write over its rows. So nothing is written here but

    - tags: `vitals:orange` and its like, read, written and read again; other people's tags stay. W&B takes only the
      whole list, so a tag that somebody sets in the very moment between reading and writing can be lost;
    - alerts, with their id at the end of the text, by which a repeat can be told;
    - with `may_stop`, W&B's own stop button, for the request `stop` only. The trainer hears of it some 30 s later as
      an interrupt from the keyboard, which it may swallow: the run then goes on.

    Transitions, the policy and the list of firing rules are not put on the run: the watcher's own store keeps them.
    """

    name = "wandb"

    def __init__(self, client: GraphQL, address: Address, *, may_stop: bool = False) -> None:
        self._client = client
        self._address = address
        self._alerted: set[str] = set()
        self.can = frozenset({Ability.TAG, Ability.ALERT, *((Ability.REQUEST,) if may_stop else ())})

    def tag_level(self, level: Level) -> None:
        for _ in range(_TRIES):
            run = self._run(can_wait=True)
            before = list(run.get("tags") or ())
            after = list(with_level(before, level))
            if sorted(before) == sorted(after):
                return
            self._client.ask(_TAGS, {"id": run["id"], "tags": after})
            found = list(self._run().get("tags") or ())
            if set(found) == set(with_level(found, level)):
                return
        raise TrackerError(f"the tag of run {self._address.run} does not stay: somebody else writes its tags too")

    def tag_rules(self, firing: Mapping[str, str]) -> None:
        """Nothing: from outside there is no place for them that the run's own process does not write over."""

    def alert(self, alert: Alert) -> None:
        if alert.id in self._alerted:
            return
        where = self._address
        asked = {
            "entityName": where.entity,
            "projectName": where.project,
            "runName": where.run,
            "title": short_title(alert.title),
            "text": f"{alert.text}\n\nid: {alert.id}",
            "severity": severity(alert.level),
            "waitDuration": _NO_WAIT,
        }
        self._check(self._client.ask(_ALERT, asked), "notifyScriptableRunAlert", "send the alert")
        self._alerted.add(alert.id)

    def request(self, request: Request) -> None:
        if request.action != STOP:
            text = f"W&B has a button to stop a run and none to {request.action}: that needs the training side"
            raise TrackerError(text, is_final=True)
        run = self._run()
        if run.get("stopped") or run.get("state") != "running":
            return
        self._check(self._client.ask(_STOP, {"id": run["id"]}), "stopRun", "stop the run")
        run = self._run()
        if not run.get("stopped") and run.get("state") == "running":
            raise TrackerError(f"W&B took the request to stop run {self._address.run}, but does not show it")
        logger.warning("vitals: asked W&B to stop run %s (rule %s): it ends at its next report, unless it swallows "
                       "the interrupt", self._address.run, request.rule)  # fmt: skip

    def _run(self, *, can_wait: bool = False) -> dict[str, Any]:
        where = self._address
        asked = {"entity": where.entity, "project": where.project, "run": where.run}
        project = self._client.ask(_RUN, asked, can_wait=can_wait).get("project")
        run = project.get("run") if isinstance(project, dict) else None
        if not isinstance(run, dict) or not run.get("id"):
            raise RunGone(f"run {where.run} is not, or no longer, in {where.entity}/{where.project}")
        return run

    def _check(self, answer: Mapping[str, Any], field: str, what: str) -> None:
        done = answer.get(field)
        if not isinstance(done, dict) or done.get("success") is not True:
            raise TrackerError(
                f"W&B did not {what} (run {self._address.run}): are alerts and rights switched on there?"
            )


def ports_of(uri: str, *, may_stop: bool = False) -> tuple[OutsidePort, ...]:
    """The port of a run that was met elsewhere (in a file of this disk), by its `wandb:ENTITY/PROJECT/RUN`; none where
    there is no key for its server, which is nothing to be said aloud: the run is watched without."""
    client = GraphQL()
    try:
        find_key(client.server)
    except TrackerError:
        return ()
    return (OutsidePort(client, parse(uri.removeprefix("wandb:")), may_stop=may_stop),)
