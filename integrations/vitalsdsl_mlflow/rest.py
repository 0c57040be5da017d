"""MLflow's REST interface, one request at a time: who asks, how long it may take, and what a failure means.

Nothing here waits or tries again: who calls decides when to ask once more, and is told whether that can help.
"""

from __future__ import annotations

import base64
import configparser
import contextlib
import json
import os
import re
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from vitalsdsl.ground.errors import NotLetIn, TrackerError
from vitalsdsl.ground.retry_after import retry_after

CONNECT_S = 5.0
SILENCE_S = 20.0
"""Seconds to reach the server, and seconds for which an answer under way may be silent."""
ANSWER_S = 60.0
"""Seconds for a whole answer, however steadily it drips."""

_API = "/api/2.0/"


class NotThere(TrackerError):
    """The server says that what was asked for does not exist. Raised by `Rest`."""

    def __init__(self, message: str) -> None:
        super().__init__(message, is_final=True)


class NotOffered(TrackerError):
    """The server does not know the call: it is an older one, or another one. Raised by `Rest`."""


class Refused(TrackerError):
    """The server understood and refuses: a bad parameter, no permission. Raised by `Rest`."""

    def __init__(self, message: str) -> None:
        super().__init__(message, is_final=True)


def without_credentials(uri: str) -> str:
    """A tracking URI as it may be shown and compared.

    >>> without_credentials("https://ann:secret@host:5000/base/?token=x")
    'https://host:5000/base'
    """
    parts = urlsplit(uri)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))


class _Bearer(requests.auth.AuthBase):
    """A token as authentication, so that no other (a `.netrc` file) takes its place."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


_answering: dict[int, HTTPConnection] = {}
"""The connection that each thread waits on, so that an answer which drips for ever can be cut off."""


class _Connection(HTTPConnection):
    def getresponse(self) -> Any:
        _answering[threading.get_ident()] = self
        _acknowledge_at_once(self.sock)
        return super().getresponse()


class _SecureConnection(HTTPSConnection):
    def getresponse(self) -> Any:
        _answering[threading.get_ident()] = self
        _acknowledge_at_once(self.sock)
        return super().getresponse()


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


def _acknowledge_at_once(connection: Any) -> None:
    """A server of several workers sends an answer in two pieces and waits for the first to be acknowledged: 48 ms a
    request instead of 3, unless the kernel is told again before each answer."""
    if connection is not None and hasattr(socket, "TCP_QUICKACK"):
        with contextlib.suppress(OSError):  # it has gone already, which reading from it will say
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


class Rest:
    """One tracking server. Safe to share between threads: their requests are made one after the other.

    Credentials are those that MLflow itself takes: `MLFLOW_TRACKING_USERNAME` and `…_PASSWORD`, `~/.mlflow/credentials`,
    the tracking URI's own, `MLFLOW_TRACKING_TOKEN`, a client certificate; and the workspace's name.
    """

    def __init__(self, uri: str, *, silence: float = SILENCE_S, answer: float = ANSWER_S) -> None:
        self.uri = without_credentials(uri)
        self._limits = (CONNECT_S, silence)
        self._answer_s = answer
        self._lock = threading.Lock()
        self._given = uri
        self._session = _session(uri)

    def get(self, call: str, **parameters: Any) -> dict[str, Any]:
        """`GET /api/2.0/CALL`. Raises TrackerError, NotThere, NotOffered, Refused or NotLetIn."""
        return self._json("GET", _API + call, params=parameters)

    def post(self, call: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """`POST /api/2.0/CALL`. Raises as `get` does."""
        return self._json("POST", _API + call, json=dict(body))

    def version(self) -> tuple[int, ...]:
        """The release of MLflow that the server says it is; empty where it says nothing of the kind."""
        try:
            said = self._checked("GET", "/version").text
        except (NotOffered, NotThere, Refused):
            return ()
        found = re.match(r"(\d+)\.(\d+)\.(\d+)", said)
        return tuple(map(int, found.groups())) if found else ()

    def download(self, path: str) -> bytes:
        """The bytes of an artifact that the server hands out itself. Raises NotThere where there is none."""
        answer = self._checked("GET", _API + path)
        if _is_page(answer):  # of a gateway in between: taken for a list of alerts, it would be put in its place
            raise self._is_none_of_ours(answer)
        return answer.content

    def upload(self, path: str, content: bytes) -> None:
        """Put an artifact where the server keeps them."""
        self._checked("PUT", _API + path, data=content)

    def close(self) -> None:
        self._session.close()

    def _json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        answer = self._checked(method, path, **options)
        try:
            found = json.loads(answer.content)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._is_none_of_ours(answer)
        return found

    def _is_none_of_ours(self, answer: requests.Response) -> TrackerError:
        what = "with a web page" if _is_page(answer) else "with half an answer, or not in JSON"
        return TrackerError(f"{self.uri} answers {what}, where MLflow's tracking server should")

    def _checked(self, method: str, path: str, **options: Any) -> requests.Response:
        answer = self._asked(method, self.uri + path, options)
        if answer.status_code >= 400:
            raise self._failure(answer)
        return answer

    def _asked(self, method: str, url: str, options: dict[str, Any]) -> requests.Response:
        was_cut = threading.Event()
        with self._lock:
            limit = threading.Timer(self._answer_s, _cut, (threading.get_ident(), was_cut))
            limit.daemon = True
            limit.start()
            try:
                return self._session.request(method, url, timeout=self._limits, **options)
            except requests.Timeout:
                raise TrackerError(f"{self.uri} does not answer in time") from None
            except (requests.RequestException, OSError) as error:
                if was_cut.is_set():
                    raise TrackerError(f"{self.uri} answers too slowly") from None
                raise TrackerError(f"{self.uri} cannot be reached{_because(error)}") from None
            finally:
                limit.cancel()
                _answering.pop(threading.get_ident(), None)

    def _failure(self, answer: requests.Response) -> TrackerError:
        status = answer.status_code
        try:
            found = json.loads(answer.content)
        except ValueError:
            found = {}
        code = str(found.get("error_code", "")) if isinstance(found, dict) else ""
        words = " ".join(str(found.get("message", "")).split())[:300] if code else ""
        said = f": {words}" if words else ""
        if status in (401, 403):
            self._session.auth = _credentials(self._given)  # a file of them may have been renewed
            hint = "set MLFLOW_TRACKING_USERNAME and _PASSWORD, or MLFLOW_TRACKING_TOKEN"
            return NotLetIn(f"{self.uri} refuses: {hint}", is_unknown=status == 401)
        if code == "RESOURCE_DOES_NOT_EXIST":
            return NotThere(words or "it does not exist")
        if status in (404, 405, 501) and code in ("", "ENDPOINT_NOT_FOUND", "NOT_FOUND"):
            return NotOffered(f"{self.uri} does not offer this call of MLflow's interface (HTTP {status})")
        if status == 429:
            return TrackerError(f"{self.uri} asks for fewer requests", retry_after=_seconds(answer))
        if status >= 500 or not code:
            return TrackerError(f"{self.uri} fails (HTTP {status}){said}", retry_after=_seconds(answer))
        return Refused(f"{self.uri} refuses{said}")


def _cut(thread: int, was_cut: threading.Event) -> None:
    """End the answer that a thread waits for."""
    connection = _answering.get(thread)
    was_cut.set()
    if connection is not None and connection.sock is not None:
        with contextlib.suppress(OSError):  # it closed by itself meanwhile
            connection.sock.shutdown(socket.SHUT_RDWR)


def token_of(offset: int) -> str:
    """The page token that begins at a point's place in its metric's history, as MLflow's own servers write it."""
    return base64.b64encode(json.dumps({"offset": offset}).encode()).decode()


def _session(uri: str) -> requests.Session:
    session = requests.Session()
    adapter = HTTPAdapter(max_retries=0)
    adapter.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
    session.mount("http://", adapter)
    session.mount("https://", adapter)
    session.headers["User-Agent"] = "vitalsdsl"
    session.auth = _credentials(uri)
    workspace = os.environ.get("MLFLOW_WORKSPACE", "").strip()
    if workspace and workspace != "default":
        session.headers["X-MLFLOW-WORKSPACE"] = workspace
    if os.environ.get("MLFLOW_TRACKING_INSECURE_TLS", "").strip().lower() in ("true", "1"):
        session.verify = False
    elif bundle := os.environ.get("MLFLOW_TRACKING_SERVER_CERT_PATH"):
        session.verify = bundle
    session.cert = os.environ.get("MLFLOW_TRACKING_CLIENT_CERT_PATH") or None
    return session


def _credentials(uri: str) -> requests.auth.AuthBase | None:
    stored: Mapping[str, str] = {}
    file = Path("~/.mlflow/credentials").expanduser()
    if file.is_file():
        config = configparser.ConfigParser(interpolation=None)
        try:
            config.read(file, "utf-8")
        except (configparser.Error, UnicodeDecodeError):
            raise Refused("~/.mlflow/credentials cannot be read: it should hold a section [mlflow]") from None
        stored = dict(config.items("mlflow")) if config.has_section("mlflow") else {}
    parts = urlsplit(uri)
    user = os.environ.get("MLFLOW_TRACKING_USERNAME") or stored.get("mlflow_tracking_username") or parts.username
    password = os.environ.get("MLFLOW_TRACKING_PASSWORD") or stored.get("mlflow_tracking_password") or parts.password
    if user and password:
        return requests.auth.HTTPBasicAuth(user.encode("utf-8"), password.encode("utf-8"))
    token = os.environ.get("MLFLOW_TRACKING_TOKEN")
    return _Bearer(token) if token else None


def _seconds(answer: requests.Response) -> float | None:
    return retry_after(answer.headers.get("Retry-After", ""), answer.headers.get("Date", ""))


def _is_page(answer: requests.Response) -> bool:
    return "html" in answer.headers.get("Content-Type", "") or answer.content[:200].lstrip()[:1] == b"<"


def _because(error: BaseException) -> str:
    """Why, in words for people, where the chain of causes has some."""
    seen: BaseException | None = error
    for _ in range(8):
        if seen is None:
            break
        if isinstance(seen, ConnectionRefusedError):
            return ": nothing listens there"
        if isinstance(seen, socket.gaierror):
            return ": there is no such host"
        if "CERTIFICATE_VERIFY_FAILED" in str(seen):
            return ": its certificate is not trusted"
        inner = seen.args[0] if seen.args and isinstance(seen.args[0], BaseException) else None
        seen = getattr(seen, "reason", None) if isinstance(getattr(seen, "reason", None), BaseException) else (
            inner or seen.__cause__ or seen.__context__)  # fmt: skip
    return ""
