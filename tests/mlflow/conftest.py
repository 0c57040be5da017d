"""MLflow on sqlite files that are copies of one, and one server."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("mlflow") is None and not os.environ.get("CI"):
    collect_ignore_glob = ["test_*.py"]  # runs.py says that they are skipped

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

QUIET = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "2"}


class Server:
    """An `mlflow server` on a free port of the loopback, over a copy of the sqlite file."""

    def __init__(self, folder: Path, template: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(template, folder / "server.db")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.uri = f"http://127.0.0.1:{port}"
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("VITALS_", "MLFLOW_TRACKING"))}
        self.log = folder / "server.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{folder / 'server.db'}",
                 "--artifacts-destination", str(folder / "artifacts"), "--host", "127.0.0.1", "--port", str(port),
                 "--workers", "1"],
                cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.ready = False

    def wait(self) -> None:
        until = time.monotonic() + 120
        while not self.ready:
            assert self.process.poll() is None, self.log.read_text()
            if time.monotonic() > until:
                pytest.skip("`mlflow server` did not come up within two minutes on this machine")
            try:
                with urllib.request.urlopen(f"{self.uri}/health", timeout=1) as answer:
                    self.ready = answer.status == 200
            except OSError:
                time.sleep(0.1)

    def end(self, hard: bool = False) -> None:
        """End the server and its worker: the process group that was made for them, and nothing else."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL if hard else signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait(10)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sqlite file with MLflow's tables in it."""
    mlflow = importlib.import_module("mlflow")
    folder = tmp_path_factory.mktemp("template")
    file = folder / "mlflow.db"
    before = Path.cwd()
    os.chdir(folder)
    try:
        mlflow.MlflowClient(tracking_uri=f"sqlite:///{file}").search_experiments()
    finally:
        os.chdir(before)
    return file


@pytest.fixture(scope="module")
def server(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("server"), template)
    try:
        running.wait()
        yield running
    finally:
        running.end()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in, where nothing is attached, before and after."""
    import mlflow

    attaching = importlib.import_module("vitalsdsl_mlflow.attach")
    for name in [n for n in os.environ if n.startswith(("VITALS_", "MLFLOW_TRACKING"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("VITALS_HOME", str(tmp_path / "home"))
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    before = mlflow.get_tracking_uri()
    yield tmp_path
    while mlflow.active_run() is not None:
        mlflow.end_run()
    for attachment in list(attaching._attached):
        attachment.detach()
    mlflow.set_tracking_uri(before)
    os.environ.pop("MLFLOW_TRACKING_URI", None)


@pytest.fixture
def uri(folder: Path, template: Path) -> str:
    """A sqlite store of this test's own."""
    shutil.copy(template, folder / "mlflow.db")
    return f"sqlite:///{folder / 'mlflow.db'}"


@pytest.fixture
def client(uri: str) -> Any:
    """MLflow set to that store, with a client of it."""
    import mlflow

    mlflow.set_tracking_uri(uri)
    return mlflow.MlflowClient()
