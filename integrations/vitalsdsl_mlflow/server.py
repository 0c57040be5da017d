"""A tracking server as a store: its REST interface, without MLflow."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vitalsdsl.ground.errors import RunGone, TrackerError
from vitalsdsl.watching.feeds import Wanted
from vitalsdsl_mlflow.rest import NotOffered, NotThere, Refused, Rest, token_of
from vitalsdsl_mlflow.rows import LoggedPoint
from vitalsdsl_mlflow.stores import Snapshot, fits, number_of

PAGE = 25_000
"""Points in one page of a metric's history, at most: MLflow's own limit."""

SAMPLED = 2_500
"""Above so many points the server gives a sample of an interval instead of all of it."""

RUNS_PAGE = 1_000

SAMPLES_POINTS = (3, 17, 2)
"""From this release on the server is known to sample the points of each run by their number. Before, it sampled the steps
of all runs together, and of a sample it could lose nearly all: what it gives is whole where so many steps cannot be."""

_TAG_NAME = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-. :/"


class Server:
    """One tracking server."""

    def __init__(self, rest: Rest) -> None:
        self.rest = rest
        self._has_intervals = True
        self._has_offsets = True
        self._samples_points: bool | None = None

    @property
    def uri(self) -> str:
        return self.rest.uri

    def run(self, run_id: str) -> Snapshot:
        try:
            return snapshot_of(self.rest.get("mlflow/runs/get", run_id=run_id).get("run"))
        except NotThere as error:
            raise RunGone(f"there is no run {run_id} at {self.uri}") from error

    def experiment(self, name: str) -> str:
        try:
            found = self.rest.get("mlflow/experiments/get-by-name", experiment_name=name)
        except NotThere:
            if not name.isdigit():
                raise NotThere(f"there is no experiment called `{name}` at {self.uri}") from None
            try:
                found = self.rest.get("mlflow/experiments/get", experiment_id=name)
            except NotThere:
                raise NotThere(f"there is no experiment called `{name}`, nor with that id, at {self.uri}") from None
        experiment = found.get("experiment")
        if not isinstance(experiment, dict) or "experiment_id" not in experiment:
            raise TrackerError(f"{self.uri} says nothing of the experiment `{name}`")
        return str(experiment["experiment_id"])

    def experiments(self, pattern: str) -> list[str]:
        begin = re.split(r"[*?\[]", pattern)[0]
        body: dict[str, Any] = {"max_results": 1000, "view_type": "ACTIVE_ONLY"}
        if begin.isascii() and begin.isprintable() and not set(begin) & set("'\"\\"):
            body["filter"] = f"name LIKE '{begin}%'"  # more than is meant, where the text has a sign of LIKE itself
        found = self._pages("mlflow/experiments/search", body, "experiments")
        return [str(e["experiment_id"]) for e in found if fits(str(e.get("name", "")), pattern)]

    def search(self, experiments: Sequence[str], wanted: Wanted) -> list[Snapshot]:
        active = ["attributes.status = 'RUNNING'"]
        ended = [f"attributes.end_time > {1000 * wanted.ended_after:.0f}"] if wanted.ended_after < math.inf else []
        found: dict[str, Snapshot] = {}
        for terms in [[]] if wanted.finished else [active, ended] if ended else [active]:
            for snapshot in self._search(experiments, [*terms, *_tag_terms(wanted)]):
                if snapshot.has(wanted):
                    found[snapshot.run_id] = snapshot
        return sorted(found.values(), key=lambda snapshot: snapshot.started)

    def _search(self, experiments: Sequence[str], terms: Sequence[str]) -> list[Snapshot]:
        body: dict[str, Any] = {
            "experiment_ids": list(experiments),
            "filter": " and ".join(terms),
            "run_view_type": "ACTIVE_ONLY",
            "max_results": RUNS_PAGE,
            "order_by": ["attributes.start_time ASC"],
        }
        return [snapshot_of(run) for run in self._pages("mlflow/runs/search", body, "runs")]

    def _pages(self, call: str, body: dict[str, Any], what: str) -> Iterator[Any]:
        while True:
            page = self.rest.post(call, body)
            yield from page.get(what, ())
            if not page.get("next_page_token"):
                return
            body = {**body, "page_token": page["next_page_token"]}

    def page_url(self, snapshot: Snapshot) -> str:
        return f"{self.uri}/#/experiments/{snapshot.experiment_id}/runs/{snapshot.run_id}"

    def reference(self, snapshot: Snapshot) -> str:
        return self.page_url(snapshot)

    def tail(self, run_id: str, key: str, offset: int, limit: int, mark: Any) -> list[LoggedPoint]:
        limit = min(limit, PAGE)
        if self._has_offsets or not offset:
            try:
                return self._page(run_id, key, limit, token_of(offset) if offset else "")[0]
            except Refused:
                if not offset:
                    raise
                self._has_offsets = False
        return self._walked(run_id, key, offset, limit)

    def _walked(self, run_id: str, key: str, offset: int, limit: int) -> list[LoggedPoint]:
        """From the beginning of the history on by the server's own tokens, where it takes none of ours."""
        found: list[LoggedPoint] = []
        token, passed = "", 0
        while True:
            points, token = self._page(run_id, key, PAGE, token)
            found += points[max(0, offset - passed) :]
            passed += len(points)
            if not token or len(found) >= limit:
                return found[:limit]

    def _page(self, run_id: str, key: str, limit: int, token: str) -> tuple[list[LoggedPoint], str]:
        asked = {"run_id": run_id, "metric_key": key, "max_results": limit} | ({"page_token": token} if token else {})
        try:
            found = self.rest.get("mlflow/metrics/get-history", **asked)
        except NotThere as error:
            raise RunGone(f"there is no run {run_id} at {self.uri}") from error
        return _points(found, key), str(found.get("next_page_token") or "")

    def since(self, run_id: str, key: str, first: int, last: int) -> list[LoggedPoint] | None:
        """By halves, where the server would give a sample."""
        try:
            found = self._interval([run_id], key, first, last)
        except NotThere as error:
            raise RunGone(f"there is no run {run_id} at {self.uri}") from error
        if found is None:
            return None
        points = _points(found, key)
        if len(points) < SAMPLED:
            return points
        if first == last:
            return None
        middle = (first + last) // 2
        lower, upper = self.since(run_id, key, first, middle), self.since(run_id, key, middle + 1, last)
        return None if lower is None or upper is None else lower + upper

    def since_of(self, runs: Sequence[str], key: str, first: int, last: int) -> dict[str, list[LoggedPoint]]:
        try:
            found = self._interval(runs, key, first, last)
        except (NotThere, Refused):  # for one of them: the reading of each says for which
            return {}
        if found is None:
            return {}
        points: dict[str, list[LoggedPoint]] = {run: [] for run in runs}
        for metric, point in zip(found.get("metrics", ()), _points(found, key)):
            if metric.get("run_id") not in points:
                raise TrackerError(
                    f"the tracking server answers with points of `{key}` of a run that was not asked for"
                )
            points[metric["run_id"]].append(point)
        return {run: of_run for run, of_run in points.items() if len(of_run) < SAMPLED}

    def _interval(self, runs: Sequence[str], key: str, first: int, last: int) -> dict[str, Any] | None:
        """None where the server does not know the call, or where it cannot be told whether it gave all."""
        if not self._has_intervals or (last - first >= SAMPLED and not self._is_sampled_by_points()):
            return None
        try:
            return self.rest.get("mlflow/metrics/get-history-bulk-interval", run_ids=list(runs), metric_key=key,
                                 start_step=first, end_step=last, max_results=SAMPLED)  # fmt: skip
        except NotOffered:
            self._has_intervals = False
            return None

    def _is_sampled_by_points(self) -> bool:
        if self._samples_points is None:
            self._samples_points = self.rest.version() >= SAMPLES_POINTS
        return self._samples_points

    def mark(self, run_id: str) -> None:
        return None

    def fresh(self, run_id: str, mark: Any) -> tuple[Sequence[LoggedPoint], Any]:
        raise TrackerError("a tracking server does not keep the order of arrival")

    def close(self) -> None:
        self.rest.close()


def _tag_terms(wanted: Wanted) -> list[str]:
    """What the server itself can sift; names and values that its language cannot write are left to `Snapshot.has`."""
    terms = []
    for name, value in wanted.tags.items():
        if all(letter in _TAG_NAME for letter in name) and value and value.isascii() and value.isprintable():
            if not set(value) & set("'\"\\%"):
                terms.append(f"tags.`{name}` = '{value}'")
    return terms


def snapshot_of(run: Any) -> Snapshot:
    """A run of MLflow's JSON. Raises TrackerError where it is none."""
    try:
        info, data = run["info"], run.get("data", {})
        latest = {point.key: point for point in map(_point, data.get("metrics", ()))}
        return Snapshot(
            run_id=str(info.get("run_id") or info["run_uuid"]),
            experiment_id=str(info.get("experiment_id", "")),
            status=str(info.get("status", "RUNNING")),
            started=int(info.get("start_time") or 0),
            ended=int(info.get("end_time") or 0),
            is_deleted=info.get("lifecycle_stage") == "deleted",
            artifact_uri=str(info.get("artifact_uri", "")),
            tags={str(tag["key"]): str(tag.get("value", "")) for tag in data.get("tags", ())},
            params={str(param["key"]): str(param.get("value", "")) for param in data.get("params", ())},
            latest=latest,
        )
    except (KeyError, TypeError, AttributeError, ValueError):
        raise TrackerError("the tracking server answers with something that is no run") from None


def _points(found: Mapping[str, Any], key: str) -> list[LoggedPoint]:
    try:
        return [_point(metric) for metric in found.get("metrics", ())]
    except (KeyError, TypeError, AttributeError, ValueError):
        raise TrackerError(f"the tracking server answers with something that is no history of `{key}`") from None


def _point(metric: Any) -> LoggedPoint:
    value = number_of(metric.get("value", 0.0))
    key = sys.intern(str(metric["key"]))  # one text for all points of a metric: thousands stand in memory
    return LoggedPoint(key, value, int(metric.get("step") or 0), int(metric.get("timestamp") or 0))
