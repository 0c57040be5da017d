"""The REST client: who it says it is, and what becomes of an answer that is none."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from vitalsdsl_mlflow.rest import Rest
from vitalsdsl_mlflow.server import Server
from vitalsdsl_mlflow.targets import store_of

from tests.mlflow.faults import FaultyServer
from vitalsdsl.ground.errors import RunGone, TrackerError, UsageError

NAMES = ("USERNAME", "PASSWORD", "TOKEN", "INSECURE_TLS", "CLIENT_CERT_PATH", "SERVER_CERT_PATH", "URI")


@pytest.fixture(autouse=True)
def _nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    monkeypatch.delenv("MLFLOW_WORKSPACE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def faulty() -> Iterator[FaultyServer]:
    with FaultyServer("http://127.0.0.1:9").running() as running:
        running.fault = lambda number: "page"
        yield running


def headers_of(server: FaultyServer, uri: str = "") -> dict[str, str]:
    with pytest.raises(TrackerError):
        Rest(uri or server.uri).get("mlflow/runs/get", run_id="x")
    return server.asked[-1]


def basic(words: str) -> str:
    return "Basic " + base64.b64encode(words.encode()).decode()


def test_nobody_is_named_where_no_credentials_are_set(faulty: FaultyServer) -> None:
    sent = headers_of(faulty)
    assert "Authorization" not in sent
    assert "X-MLFLOW-WORKSPACE" not in sent


def test_name_and_password_go_before_the_token(faulty: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "a-token")
    assert headers_of(faulty)["Authorization"] == "Bearer a-token"
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ann")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "pä:ss")
    assert headers_of(faulty)["Authorization"] == basic("ann:pä:ss")


def test_credentials_are_read_from_mlflows_own_file(faulty: FaultyServer, tmp_path: Path) -> None:
    (tmp_path / ".mlflow").mkdir()
    file = tmp_path / ".mlflow" / "credentials"
    file.write_text("[mlflow]\nmlflow_tracking_username = bob\nmlflow_tracking_password = 50%\n")
    assert headers_of(faulty)["Authorization"] == basic("bob:50%")
    file.write_text("no section\n")
    with pytest.raises(TrackerError, match="cannot be read"):
        Rest(faulty.uri)


def test_a_token_is_not_replaced_by_a_netrc_file(
    faulty: FaultyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login eve password x\n")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "a-token")
    assert headers_of(faulty)["Authorization"] == "Bearer a-token"


def test_the_workspace_is_named(faulty: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_WORKSPACE", "team-a")
    assert headers_of(faulty)["X-MLFLOW-WORKSPACE"] == "team-a"


def test_credentials_in_the_address_are_used_and_never_shown(faulty: FaultyServer) -> None:
    uri = faulty.uri.replace("http://", "http://ann:secret@")
    assert headers_of(faulty, uri)["Authorization"] == basic("ann:secret")
    with pytest.raises(TrackerError) as caught:
        Rest(uri).get("mlflow/runs/get", run_id="x")
    assert "secret" not in str(caught.value)
    assert Rest(uri).uri == faulty.uri


def failure(server: FaultyServer, fault: str) -> TrackerError:
    server.fault = lambda number: fault
    with pytest.raises(TrackerError) as caught:
        Rest(server.uri).get("mlflow/runs/get", run_id="x")
    message = str(caught.value)
    assert not any(word in message for word in ("Traceback", "urllib3", "HTTPConnectionPool", "JSONDecode", "<html"))
    return caught.value


@pytest.mark.parametrize(
    ("fault", "is_final", "retry_after", "words"),
    [
        ("429", False, None, "fewer requests"),
        ("429 later", False, 7.0, "fewer requests"),
        ("500", False, None, "HTTP 500"),
        ("503", False, None, "HTTP 503"),
        ("404", False, None, "does not offer"),
        ("401", True, None, "MLFLOW_TRACKING_USERNAME"),
        ("403", True, None, "MLFLOW_TRACKING_USERNAME"),
        ("page", False, None, "web page"),
        ("hang up", False, None, "cannot be reached"),
    ],
)
def test_every_failure_says_whether_to_try_again(
    faulty: FaultyServer, fault: str, is_final: bool, retry_after: float | None, words: str
) -> None:
    error = failure(faulty, fault)
    assert (error.is_final, error.retry_after) == (is_final, retry_after)
    assert words in str(error)


def test_a_server_that_is_down_is_said_to_be_down() -> None:
    with pytest.raises(TrackerError, match="nothing listens there") as caught:
        Rest("http://127.0.0.1:9").get("mlflow/runs/get", run_id="x")
    assert not caught.value.is_final


def test_a_host_that_there_is_not_is_named() -> None:
    with pytest.raises(TrackerError, match=r"nowhere\.invalid:5000 cannot be reached"):
        Rest("http://nowhere.invalid:5000").get("mlflow/runs/get", run_id="x")


def test_an_answer_that_drips_is_cut_off_in_time() -> None:
    run = b'{"run": {"info": {"run_id": "x"}, "data": {}}}' + b" " * 1000
    with FaultyServer("").running() as server:
        server._forwarded = lambda request, body: (200, run)  # type: ignore[method-assign]
        server.fault = lambda number: "drip"
        began = time.monotonic()
        with pytest.raises(TrackerError, match="too slowly"):
            Rest(server.uri, answer=1.0).get("mlflow/runs/get", run_id="x")
        assert time.monotonic() - began < 8
        server.fault = lambda number: ""
        assert Server(Rest(server.uri)).run("x").run_id == "x"


def test_half_an_answer_is_none() -> None:
    with FaultyServer("").running() as server:
        server._forwarded = lambda request, body: (200, b'{"run": {}}')  # type: ignore[method-assign]
        server.fault = lambda number: "half"
        with pytest.raises(TrackerError) as caught:
            Rest(server.uri).get("mlflow/runs/get", run_id="x")
        assert not caught.value.is_final


@pytest.mark.parametrize(
    "answer", [b"{}", b'{"run": 3}', b'{"run": {"info": {}}}', b'{"run": {"info": [], "data": {}}}']
)
def test_an_answer_that_is_no_run_is_refused(answer: bytes) -> None:
    with FaultyServer("").running() as server:
        server._forwarded = lambda request, body: (200, answer)  # type: ignore[method-assign]
        with pytest.raises(TrackerError, match="no run"):
            Server(Rest(server.uri)).run("x")


def test_a_run_that_is_not_there_is_gone() -> None:
    with FaultyServer("").running() as server:
        missing = b'{"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no"}'
        server._forwarded = lambda request, body: (404, missing)  # type: ignore[method-assign]
        with pytest.raises(RunGone):
            Server(Rest(server.uri)).run("x")


def test_a_server_that_takes_no_token_of_ours_is_read_from_the_beginning() -> None:
    import json
    from urllib.parse import parse_qs, urlsplit

    def history(request: object, body: object) -> tuple[int, bytes]:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}  # type: ignore[attr-defined]
        token = asked.get("page_token", "page-0")
        if not token.startswith("page-"):
            return 400, b'{"error_code": "INVALID_PARAMETER_VALUE", "message": "page_token"}'
        page = int(token.removeprefix("page-"))
        points = [{"key": "k", "value": float(n), "timestamp": n, "step": n} for n in range(10 * page, 10 * page + 10)]
        return 200, json.dumps({"metrics": points, "next_page_token": f"page-{page + 1}" if page < 9 else ""}).encode()

    with FaultyServer("").running() as server:
        server._forwarded = history  # type: ignore[assignment]
        store = Server(Rest(server.uri))
        assert [point.step for point in store.tail("x", "k", 0, 5, None)][:5] == [0, 1, 2, 3, 4]
        assert [point.step for point in store.tail("x", "k", 37, 15, None)] == list(range(37, 52))
        assert store.tail("x", "k", 100, 5, None) == []


@pytest.mark.parametrize("uri", ["postgresql://u:p@h/d", "databricks", "databricks://profile"])
def test_a_store_that_cannot_be_read_from_outside_is_named(uri: str) -> None:
    with pytest.raises(UsageError) as caught:
        store_of(uri)
    assert "u:p" not in str(caught.value)
