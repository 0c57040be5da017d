"""W&B's runs by reference: those that were, for replay, and those that go on, for watching. wandb is not needed."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from fnmatch import fnmatchcase
from typing import Any

from vitalsdsl.ground.errors import RunGone, SourceError, TrackerError
from vitalsdsl.ground.points import Rewind, Row, number
from vitalsdsl.runs.sources import Recording
from vitalsdsl.watching.feeds import Cursor, Target, Wanted
from vitalsdsl.watching.watcher import MANY
from vitalsdsl_wandb.address import Address, parse
from vitalsdsl_wandb.facts import when
from vitalsdsl_wandb.feed import WandbFeed
from vitalsdsl_wandb.graphql import GraphQL
from vitalsdsl_wandb.pages import ProjectPages, Told

ACTIVE = ("running", "pending", "preempting", "preempted")
"""The states of runs that go on. What else starts is seen by when it was made."""

OVERLAP = timedelta(minutes=10)
"""How far back a project is looked at again: runs may show up out of the order in which they were made."""

_PER_PAGE = 100
_CONFIGS = 25
_ATTEMPTS = 6
_LONGEST_WAIT = 60.0
_UNSURE_WAIT = 1.0

_sleep = time.sleep

_RUNS = """query Runs($entity: String!, $project: String!, $filters: JSONString, $order: String, $cursor: String, \
$perPage: Int!) { project(name: $project, entityName: $entity) { runs(filters: $filters, order: $order, \
after: $cursor, first: $perPage) { edges { node { name state createdAt tags historyLineCount } } pageInfo { endCursor hasNextPage } } } }"""


_PROJECTS = """query GetProjects($entity: String, $cursor: String, $perPage: Int = 50) { models(entityName: $entity, \
after: $cursor, first: $perPage) { edges { node { name } } pageInfo { endCursor hasNextPage } } }"""


# ---------------------------------------------------------------- runs that were


def read(rest: str, step_key: str | None = None) -> list[Recording]:
    """The runs behind `ENTITY/PROJECT` or `ENTITY/PROJECT/RUN`, every row of them, the oldest run first.

    A run that goes on is read as far as it is. A server that is busy or away is asked again for some minutes. Raises
    SourceError where a run is not there or the server does not answer, UsageError where the reference means nothing.
    """
    found = target(rest, Wanted(finished=True, step_key=step_key))
    try:
        feeds = _patiently(found.find)
        return [_recording(feed) for feed in feeds if isinstance(feed, WandbFeed)]
    except TrackerError as error:
        raise SourceError(f"wandb:{rest} cannot be read: {error}") from error
    finally:
        found.close()


def _recording(feed: WandbFeed) -> Recording:
    events: list[Row | Rewind] = []
    notes: dict[str, None] = {}
    cursor: Cursor | None = None
    while True:
        batch = _patiently(lambda at=cursor: feed.read(at))
        events += batch.events
        notes |= dict.fromkeys(batch.notes)
        cursor = batch.cursor
        if feed.is_unsure:
            _sleep(_UNSURE_WAIT)
        elif not batch.more:
            break
    info = feed.info
    return Recording(replace(info, notes=tuple(notes)), events)


def _patiently(ask: Any) -> Any:
    """An answer, though the server may be away for a while."""
    for attempt in range(_ATTEMPTS):
        try:
            return ask()
        except TrackerError as error:
            if error.is_final or attempt == _ATTEMPTS - 1:
                raise
            pause = error.retry_after if error.retry_after is not None else 2.0**attempt
            if pause > _LONGEST_WAIT:
                raise
            _sleep(pause)
    raise AssertionError  # the loop ends by returning or raising


# ---------------------------------------------------------------- runs that go on


def target(rest: str, wanted: Wanted) -> Target:
    """What `ENTITY/PROJECT` (or a pattern of projects), `ENTITY/PROJECT/RUN` or a page's address points at. Nothing is asked
    yet.

    A tag that is wanted with a value is looked for as `name:value` and `name=value`. A run that is named itself is
    found whatever its state. Raises UsageError where the reference means nothing.
    """
    address = parse(rest)
    client = GraphQL()
    if address.page:
        address.check(client.server)
    if address.run:
        return RunTarget(client, address, wanted)
    return ProjectsTarget(client, address, wanted) if address.is_pattern else ProjectTarget(client, address, wanted)


class RunTarget:
    """One run, named by its id."""

    def __init__(self, client: GraphQL, address: Address, wanted: Wanted) -> None:
        self._client = client
        self._address = address
        self._wanted = wanted
        self._feed: WandbFeed | None = None

    @property
    def is_open(self) -> bool:
        return False

    @property
    def tells_feeds(self) -> bool:
        return False

    def find(self) -> Sequence[WandbFeed]:
        if self._feed is None:
            nodes = _details(self._client, self._address, [self._address.run])
            node = nodes.get(self._address.run)
            if node is None:
                raise RunGone(f"there is no run {self._address.run} in {_project(self._address)}")
            if not _has_tags(node, self._wanted.tags):
                return []
            self._feed = WandbFeed(self._client, self._address, self._wanted, node)
        return [self._feed]

    def close(self) -> None:
        self._client.close()


class ProjectTarget:
    """The runs of a project: those that go on, those that start, and with `finished` those that were.

    The first look goes through all that go on, and what was made since somebody looked before. Every later one is a
    single question: what goes on, and what was made since the newest run that was seen, so that a run that lasts less
    than the time between two looks is found too. A run that has ended is found until all of it has been read, and again
    when it is resumed. What had ended before the first look of all is left alone.

    The same question says how many rows each run has: of many runs, those that have no new ones are not asked about, and
    the others some at a time.
    """

    def __init__(self, client: GraphQL, address: Address, wanted: Wanted) -> None:
        self._client = client
        self._address = address
        self._wanted = wanted
        self._feeds: dict[str, tuple[str, WandbFeed]] = {}
        self._pages = ProjectPages(client, address)
        self._newest: datetime | None = None
        self._since = _time(wanted.ended_after)
        self._begun = [uri.rpartition("/")[2] for uri in sorted(wanted.begun) if uri.startswith(f"{address.uri}/")]
        self._done: set[str] = set()

    @property
    def is_open(self) -> bool:
        return True

    @property
    def tells_feeds(self) -> bool:
        return len(self._feeds) >= MANY

    def find(self) -> Sequence[WandbFeed]:
        is_first = self._newest is None
        newest = self._look_for_newest() if self._newest is None else self._newest
        listed = self._list(self._filters(newest, is_first))
        nodes = [node for node in listed if _has_tags(node, self._wanted.tags) and not self._is_done(node)]
        active = {str(node["name"]) for node in nodes if node.get("state") in ACTIVE}
        fresh = {str(node["name"]): str(node.get("createdAt")) for node in nodes if node["name"] not in self._feeds}
        begun = [name for name in self._begun if name not in fresh]
        details = _details(self._client, self._address, [*begun, *fresh])
        for name in (*begun, *fresh):
            if name in details or name in begun:  # one that is gone says so when it is read
                address = Address(self._address.entity, self._address.project, name)
                feed = WandbFeed(self._client, address, self._wanted, details.get(name), self._pages)
                self._feeds[name] = (fresh.get(name, ""), feed)
        self._begun = []
        self._since = newest if self._since is None else self._since
        self._newest = max([newest, *(when(node.get("createdAt")) or newest for node in nodes)])
        self._let_go(active)
        if self.tells_feeds:
            self._tell(nodes)
        return [feed for _, feed in sorted(self._feeds.values(), key=lambda one: (one[0], one[1].uri))]

    def close(self) -> None:
        self._client.close()

    def _tell(self, nodes: Sequence[Mapping[str, Any]]) -> None:
        """Tell the feeds how their runs stand, and where those that have something new find it."""
        stand: dict[str, tuple[str, int | None]] = {}
        for node in nodes:
            lines = number(node.get("historyLineCount"))
            stand[node["name"]] = str(node.get("state")), None if lines is None else int(lines)
        feeds = [(name, self._feeds[name][1]) for name in stand if name in self._feeds]
        wanted = [feed.wish for name, feed in feeds if feed.wish is not None and not feed.is_quiet(*stand[name])]
        pages = self._pages.share(wanted)
        for name, feed in feeds:
            feed.told(Told(*stand[name], pages.get(name)))

    def _let_go(self, active: set[str]) -> None:
        """Forget runs whose end has been read, unless those are wanted too."""
        for name, (_, feed) in list(self._feeds.items()):
            if feed.is_over and name not in active and not self._wanted.finished:
                del self._feeds[name]
                self._done.add(name)
        self._done -= active

    def _is_done(self, node: Mapping[str, Any]) -> bool:
        """Whether a run has ended and has been read to its end, or had ended when nobody watched yet."""
        if node.get("state") in ACTIVE or self._wanted.finished:
            return False
        made = when(node.get("createdAt"))
        is_old = self._since is not None and made is not None and made <= self._since
        return is_old and node["name"] not in self._feeds or node["name"] in self._done

    def _look_for_newest(self) -> datetime:
        """When the newest run was made: by the server's clock, not by ours."""
        nodes, _ = self._page({}, "-created_at", None, 1)
        made = when(nodes[0].get("createdAt")) if nodes else None
        # Without a run, and so without a time of the server's: anything that will be made is new.
        return made or datetime(2000, 1, 1, tzinfo=timezone.utc)

    def _filters(self, newest: datetime, is_first: bool) -> dict[str, Any]:
        active = {"state": {"$in": list(ACTIVE)}}
        since = newest - OVERLAP if self._since is None or not is_first else self._since
        made = {"createdAt": {"$gte": since.strftime("%Y-%m-%dT%H:%M:%SZ")}}
        if is_first and self._since is None:
            states: list[dict[str, Any]] = [] if self._wanted.finished else [active]
        elif is_first and self._wanted.finished:
            states = []
        else:
            states = [{"$or": [active, made]}]
        tags = [{"tags": {"$in": _spellings(name, value)}} for name, value in self._wanted.tags.items() if value]
        return {"$and": [*states, *tags]} if states or tags else {}

    def _list(self, filters: dict[str, Any]) -> Iterator[dict[str, Any]]:
        seen: set[str] = set()
        cursor: str | None = None
        while True:
            nodes, info = self._page(filters, "+created_at", cursor, _PER_PAGE)
            for node in nodes:
                if node["name"] not in seen:
                    seen.add(node["name"])
                    yield node
            before, cursor = cursor, info.get("endCursor")
            if not info.get("hasNextPage") or not nodes or cursor in (None, before):
                return

    def _page(
        self, filters: dict[str, Any], order: str, cursor: str | None, count: int
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        asked = {"entity": self._address.entity, "project": self._address.project, "order": order, "cursor": cursor,
                 "perPage": count, "filters": json.dumps(filters)}  # fmt: skip
        project = self._client.ask(_RUNS, asked).get("project")
        if not isinstance(project, dict):
            text = f"there is no project {_project(self._address)} at W&B {self._client.server.host}, or the key"
            raise TrackerError(f"{text} does not reach it", is_final=True)
        runs = project.get("runs")
        if not isinstance(runs, dict) or not isinstance(runs.get("edges"), list):
            raise TrackerError("W&B answers with a list of runs that is none")
        nodes = [edge.get("node") for edge in runs["edges"] if isinstance(edge, dict)]
        info = runs.get("pageInfo")
        return [n for n in nodes if isinstance(n, dict) and n.get("name")], info if isinstance(info, dict) else {}


class ProjectsTarget:
    """The runs of all projects of an entity whose names fit a pattern (`llm-*`), those of projects that come later too.

    The question for the projects is that of wandb's own client; what a deployment makes of it was tried on no real one.
    """

    def __init__(self, client: GraphQL, address: Address, wanted: Wanted) -> None:
        self._client = client
        self._address = address
        self._wanted = wanted
        self._projects: dict[str, ProjectTarget] = {}
        self._looked = math.inf

    @property
    def is_open(self) -> bool:
        return True

    @property
    def tells_feeds(self) -> bool:
        return any(project.tells_feeds for project in self._projects.values())

    def find(self) -> Sequence[WandbFeed]:
        began = self._client.clock or time.time()
        names = sorted(name for name in self._names() if fnmatchcase(name, self._address.project))
        # All runs of a project that was not there at the last look are new.
        wanted = replace(self._wanted, ended_after=min(self._wanted.ended_after, self._looked))
        for name in set(names) - set(self._projects):
            self._projects[name] = ProjectTarget(self._client, Address(self._address.entity, name), wanted)
        self._projects = {name: self._projects[name] for name in names}
        found = [feed for project in self._projects.values() for feed in project.find()]
        self._looked = began - OVERLAP.total_seconds() if self._looked == math.inf else self._looked
        return found

    def close(self) -> None:
        self._client.close()

    def _names(self) -> Iterator[str]:
        cursor: str | None = None
        while True:
            asked = {"entity": self._address.entity, "cursor": cursor, "perPage": _PER_PAGE}
            models = self._client.ask(_PROJECTS, asked).get("models")
            if not isinstance(models, dict) or not isinstance(models.get("edges"), list):
                text = (
                    f"W&B {self._client.server.host} has no entity {self._address.entity}, or the key does not reach it"
                )
                raise TrackerError(text, is_final=True)
            nodes = [edge.get("node") for edge in models["edges"] if isinstance(edge, dict)]
            yield from (str(node["name"]) for node in nodes if isinstance(node, dict) and node.get("name"))
            info = models.get("pageInfo")
            before, cursor = cursor, info.get("endCursor") if isinstance(info, dict) else None
            if not (isinstance(info, dict) and info.get("hasNextPage")) or cursor in (None, before):
                return


def _details(client: GraphQL, address: Address, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The tags, the configuration and the name of runs, by their ids; those that are not there left out. Some at a time: a
    configuration can be large."""
    found: dict[str, dict[str, Any]] = {}
    for start in range(0, len(names), _CONFIGS):
        some = names[start : start + _CONFIGS]
        parts = " ".join(
            f"r{at}: run(name: {json.dumps(name)}) {{ tags config displayName }}" for at, name in enumerate(some)
        )
        asked = {"entity": address.entity, "project": address.project}
        question = f"query Configs($entity: String!, $project: String!) {{ project(name: $project, entityName: $entity) {{ {parts} }} }}"
        project = client.ask(question, asked).get("project")
        if not isinstance(project, dict):
            text = f"there is no project {_project(address)} at W&B {client.server.host}, or the key does not reach it"
            raise TrackerError(text, is_final=True)
        found |= {name: run for at, name in enumerate(some) if isinstance(run := project.get(f"r{at}"), dict)}
    return found


def _time(unix: float) -> datetime | None:
    return datetime.fromtimestamp(unix, timezone.utc) if math.isfinite(unix) else None


def _has_tags(node: Mapping[str, Any], wanted: Mapping[str, str | None]) -> bool:
    tags = [str(tag) for tag in node.get("tags") or ()]
    for name, value in wanted.items():
        if value is not None:
            fits = any(tag in _spellings(name, value) for tag in tags)
        else:
            fits = any(tag == name or tag.startswith((f"{name}:", f"{name}=")) for tag in tags)
        if not fits:
            return False
    return True


def _spellings(name: str, value: str) -> list[str]:
    """W&B's tags are plain words: how a name with a value is written as one."""
    return [f"{name}:{value}", f"{name}={value}"]


def _project(address: Address) -> str:
    return f"{address.entity}/{address.project}"
