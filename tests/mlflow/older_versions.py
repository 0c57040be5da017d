"""Reads from the servers of several releases of MLflow: `python -m tests.mlflow.older_versions [VERSION…]`, or `make matrix`.

Each release gets an environment of its own, in a folder that is deleted afterwards, and its server is started there. Points
are logged through its REST interface, late and resumed ones among them; the feed must give each once, and in the order of
a recorded run. Run by hand, as it installs some 900 MB for each; not part of the tests.
"""

from __future__ import annotations

import math
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path

import requests
from vitalsdsl_mlflow.rest import Rest

from tests.mlflow.watching import feed_of, plain, points, watched, wave
from vitalsdsl.ground.points import Rewind

BEGAN = 1_700_000_000_000


VERSIONS = {"2.22.1": ["sqlalchemy<2.1"], "3.17.2": []}
"""What each needs beside itself: an older release breaks with libraries that are newer than it."""


def main(versions: Sequence[str]) -> None:
    for version in versions:
        with tempfile.TemporaryDirectory() as folder:
            venv.create(folder, with_pip=True)
            python = f"{folder}/bin/python"
            needs = [f"mlflow=={version}", *VERSIONS.get(version, [])]
            subprocess.run([python, "-m", "pip", "install", "--quiet", *needs], check=True)
            serve(python)


def serve(python: str) -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        uri = f"http://127.0.0.1:{port}"
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VITALS_POLICY")}
        command = [python, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{folder}/server.db",
                   "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]  # fmt: skip
        with (Path(folder) / "log").open("w") as log:
            server = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        try:
            until_it_answers(uri)
            check(uri)
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(20)


def until_it_answers(uri: str) -> None:
    end = time.monotonic() + 180
    while time.monotonic() < end:
        try:
            if requests.get(f"{uri}/health", timeout=2).status_code == 200:
                return
        except requests.RequestException:
            time.sleep(0.5)
    sys.exit("the server does not come up")


def check(uri: str) -> None:
    rest = Rest(uri)
    version = requests.get(f"{uri}/version", timeout=10).text
    run = rest.post("mlflow/runs/create", {"experiment_id": "0", "start_time": BEGAN})["run"]["info"]["run_id"]
    random_ = random.Random(0)
    logged = [(f"m{key}", wave(key, step), step, BEGAN + 500 * step) for step in range(300) for key in range(5)]
    logged += [("m0", math.nan, step, BEGAN + 400_000 + step) for step in range(150, 200)]
    logged.sort(key=lambda point: point[3] + random_.uniform(0, 4000))
    events, cursor = [], None
    feed = feed_of(uri, run)
    for at in range(0, len(logged), 150):
        metrics = [
            {"key": key, "value": value if math.isfinite(value) else str(value).replace("inf", "Infinity").replace("nan", "NaN"),
             "timestamp": timestamp, "step": step}
            for key, value, step, timestamp in logged[at : at + 150]
        ]  # fmt: skip
        rest.post("mlflow/runs/log-batch", {"run_id": run, "metrics": metrics})
        more, _, cursor = watched(lambda: feed, cursor=cursor, until=lambda batch: not batch.more)
        events += more
    rest.post("mlflow/runs/update", {"run_id": run, "status": "FINISHED", "end_time": BEGAN + 1})
    more, _, _ = watched(lambda: feed, cursor=cursor)
    events += more
    recorded, _, _ = watched(lambda: feed_of(uri, run, is_recorded=True))
    assert sum(points(events).values()) == len(logged), "a point is missing, or was given twice"
    assert plain(events) == plain(recorded), "live and recorded differ"
    assert Rewind(149) in events, "the resume was not found"
    print(f"MLflow {version}: {len(logged)} of {len(logged)} points, none twice, rows as recorded, the resume found")


if __name__ == "__main__":
    main(sys.argv[1:] or list(VERSIONS))
