"""What the trials over a whole watcher share: a tracking server, runs that are logged, who is told, and the reckoning."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import requests

from tests.mlflow.conftest import Server
from tests.trials import compressed
from vitalsdsl.__main__ import main
from vitalsdsl.ground.home import file_name

ROOT = Path(__file__).parents[2]

POLICY = """\
vitals 1
policy trial "For trials"

metric loss = "train/loss"
metric grad = "train/grad_norm"

rule hot {
  when loss > 3 for 2 steps -> orange do alert, tag, notify("hook"), pause -> red after 4 steps do alert, tag, notify("hook"), rollback(lr: 90%)
  because "loss is {loss:.2f}, said 'hot' <b>&amp;</b>"
}
rule steep { when grad > 2 * baseline(grad, 30 steps) for 3 steps -> yellow do alert, tag, notify("hook") }
"""


_SHOWN = 10
"""So many transitions are shown of a discrepancy."""

TOGETHER = uuid.UUID("0b8f3c58-64d3-5a47-9d0c-0a3b3f0d8a55")
"""Of what the id of a message is made that tells of several rules: receivers know them by it."""


def told(seconds: float, text: str) -> None:
    print(f"{seconds:7.1f} s  {text}", flush=True)


# -------------------------------------------------------------------- a training


def losses(seed: int, steps: int) -> list[dict[str, float]]:
    """Calm, with bad stretches of which some come to red."""
    dice, rows, bad = random.Random(seed), list[dict[str, float]](), 0
    for _ in range(steps):
        if bad == 0 and len(rows) > 40 and dice.random() < 0.03:
            bad = dice.randint(2, 12)
        rows.append({
            "train/loss": dice.uniform(4, 6) if bad else dice.uniform(0.5, 2),
            "train/grad_norm": dice.uniform(9, 12) if bad > 2 else dice.uniform(0.9, 1.1),
        })  # fmt: skip
        bad = max(0, bad - 1)
    return rows


class Training(threading.Thread):
    """Logs one run to an MLflow server, a step every `pause` seconds, over no proxy. `skew` seconds are on its clock."""

    def __init__(self, uri: str, experiment: str, seed: int, steps: int, pause: float, skew: float = 0.0) -> None:
        super().__init__(daemon=True)
        self._uri = uri
        self._rows = losses(seed, steps)
        self._pause = pause
        self._skew = skew
        self._session = requests.Session()
        made = self._post(
            "runs/create",
            {"experiment_id": experiment, "start_time": self._now(), "run_name": f'run {seed} "quoted" <i>\n`x`'},
        )
        self.run_id = made["run"]["info"]["run_id"]

    def _now(self) -> int:
        return int(1000 * (time.time() + self._skew))

    def _post(self, call: str, body: Mapping[str, Any]) -> Any:
        answer = self._session.post(f"{self._uri}/api/2.0/mlflow/{call}", json=body, timeout=60)
        answer.raise_for_status()
        return answer.json()

    def run(self) -> None:
        due = time.monotonic()
        for step, row in enumerate(self._rows):
            metrics = [{"key": k, "value": v, "timestamp": self._now(), "step": step} for k, v in row.items()]
            self._post("runs/log-batch", {"run_id": self.run_id, "metrics": metrics})
            due += self._pause
            time.sleep(max(0.0, due - time.monotonic()))
        self._post("runs/update", {"run_id": self.run_id, "status": "FINISHED", "end_time": self._now()})


# -------------------------------------------------------------------- who is told


class Hook:
    """A webhook: what came, by the id of the message. `status` is what it answers with."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.status = 200
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if hook.status == 200:
                    hook.received.append(json.loads(body))
                self.send_response(hook.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *words: object) -> None: ...

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}/hook"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()


# -------------------------------------------------------------------- a watcher

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.trials.compressed", "vitalsdsl.cli.watch", "vitalsdsl_notify.port"])


def watching(
    words: list[str], factors: tuple[float, float], environment: dict[str, str], folder: Path, out: Path, log: Path
) -> None:
    """`vitals` in a process of its own, forked off one that has imported all of it: starts cost seconds otherwise."""
    for stream, path in ((sys.stdout, out), (sys.stderr, log)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), stream.fileno())
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    compressed.shorten(*factors)
    sys.argv = ["vitals", *words]
    main()


@dataclass
class Watcher:
    """`vitals watch` as a process, again and again over one home."""

    folder: Path
    target: str
    environment: dict[str, str]
    home: str = "home"
    control: str = ""
    factor: float = 60.0
    asked: float = compressed.MOST
    more: tuple[str, ...] = ()
    process: ForkServerProcess | None = None
    most_kb: int = 0

    def start(self) -> None:
        words = ["watch", str(self.folder / "trial.vitals"),
                 self.target, "--home", str(self.folder / self.home),
                 "--control", self.control or str(self.folder / "control"),
                 "--format", "jsonl", *self.more]  # fmt: skip
        self.process = _FORKS.Process(
            target=watching, args=(words, (self.factor, self.asked), self.environment, self.folder, self.out, self.log),
            daemon=True,  # it ends with who started it
        )  # fmt: skip
        self.process.start()

    @property
    def log(self) -> Path:
        return self.folder / f"{self.home}.log"

    @property
    def out(self) -> Path:
        return self.folder / f"{self.home}.out"

    def lines(self) -> list[str]:
        """What people were told, without the times."""
        text = self.log.read_text("utf-8") if self.log.exists() else ""
        return [line[21:] if line[:2] == "20" else line for line in text.splitlines()]

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.is_alive()

    def kill(self) -> bool:
        assert self.process is not None
        alive = self.process.is_alive()
        self.process.kill()
        self.process.join()
        return alive

    def end(self) -> int | None:
        """Ctrl-C, in effect; gives the exit code, None where the process does not end in two minutes."""
        assert self.process is not None
        self.process.terminate()
        self.process.join(120)
        return self.process.exitcode

    def weigh(self) -> int:
        """The memory of the process now, in kB."""
        assert self.process is not None
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return 0
        found = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)
        self.most_kb = max(self.most_kb, found)
        return found

    def journal(self, run: str) -> list[dict[str, Any]]:
        path = self.folder / self.home / file_name(run) / "trial.journal.jsonl"
        text = path.read_text("utf-8") if path.exists() else ""
        found = []
        for line in text.splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:  # cut off by a kill
                continue
        return found

    def is_settled(self, runs: list[str]) -> bool:
        """Whether every deed that the journals tell of has come to its end."""
        return all(not unfinished(self.journal(run)) for run in runs)


def unfinished(records: list[dict[str, Any]]) -> set[tuple[str, int, str]]:
    left: set[tuple[str, int, str]] = set()
    for record in records:
        if record["type"] == "intent":
            left |= {(record["id"], at, port) for at, deed in enumerate(record["deeds"]) for port in deed["ports"]}
    for record in records:
        if record["type"] in ("done", "failed"):
            left.discard((record["id"], record["deed"], record["port"]))
    return left


# -------------------------------------------------------------------- the scene


def template(folder: Path) -> Path:
    """A sqlite file with MLflow's tables in it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "mlflow.db"
    code = f"import mlflow; mlflow.MlflowClient(tracking_uri='sqlite:///{file}').search_experiments()"
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True)
    return file


@contextmanager
def mlflow_server(folder: Path) -> Iterator[Server]:
    signal.signal(signal.SIGTERM, lambda *words: sys.exit(1))  # so that the server ends with who started it
    server = Server(folder / "server", template(folder / "template"))
    try:
        server.wait()
        yield server
    finally:
        server.end()


def environment(folder: Path, hook: Hook, **more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("VITALS_", "MLFLOW_", "WANDB_"))}
    paths = [str(ROOT), str(ROOT / "integrations"), str(ROOT / "rules"), str(ROOT / "tests")]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), "HOOK_URL": hook.url, "HOOK_SECRET": "a secret",
            "XDG_CONFIG_HOME": str(folder / "config"), "HOME": str(folder), **more}  # fmt: skip


def prepare(folder: Path) -> None:
    """The policy and the configuration of a trial."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / "trial.vitals").write_text(POLICY, "utf-8")
    (folder / "vitals.toml").write_text(
        '[channels.hook]\nurl = "env:HOOK_URL"\nsecret = "env:HOOK_SECRET"\nat_most = "999999 per minute"\n', "utf-8"
    )


def replayed(folder: Path, env: Mapping[str, str], reference: str) -> list[dict[str, Any]]:
    """The transitions of a finished run, as `vitals replay` gives them."""
    words = [sys.executable, "-m", "vitalsdsl", "replay", str(folder / "trial.vitals"), reference, "--format", "jsonl"]
    done = subprocess.run(words, cwd=folder, env=dict(env), capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [line for line in lines if line.get("type") == "transition"]


def levels(transitions: list[dict[str, Any]]) -> dict[str, int]:
    """Where the rules stand after these transitions: 0 for green to 3 for red."""
    return {t["rule"]: ["green", "yellow", "orange", "red"].index(t["to"]) for t in transitions}


def repeated(ids: list[str]) -> set[str]:
    """What stands more than once in a list."""
    return {id_ for id_, count in Counter(ids).items() if count > 1}


def acts(transition: Mapping[str, Any]) -> bool:
    """Whether people are told of it."""
    order = ["green", "yellow", "orange", "red"]
    return order.index(transition["to"]) > order.index(transition["from"]) and transition["reason"] != "superseded"


def all_clears(transitions: list[dict[str, Any]]) -> set[str]:
    """The ids of the transitions by which people hear that it is over: every rule that they were told of is green."""
    told: set[str] = set()
    standing: set[str] = set()
    due = set()
    for step in steps_of(transitions):
        for t in step:
            (standing.discard if t["to"] == "green" else standing.add)(t["rule"])
            if acts(t):
                told.add(t["rule"])
        greens = [t["id"] for t in step if t["to"] == "green"]
        if told and greens and not told & standing:
            due.add(greens[0])
            told.clear()
    return due


def joined(transitions: list[dict[str, Any]], due: set[str]) -> dict[str, set[str]]:
    """The ids of messages that tell a channel what several rules say at one step, with those that each stands for."""
    several = [{t["id"] for t in step} & due for step in steps_of(transitions)]
    return {str(uuid.uuid5(TOGETHER, " ".join(sorted(ids)))): ids for ids in several if len(ids) > 1}


def steps_of(transitions: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    return [list(step) for _, step in groupby(transitions, key=lambda t: (t["attempt"], t["step"]))]


@dataclass
class Reckoning:
    """What is wrong at the end of a trial, in words; and what was counted."""

    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    evidence: list[dict[str, Any]] = field(default_factory=list)
    """What the journals say of the run that is reckoned now: shown with what is wrong about it."""

    def expect(self, is_so: bool, text: str, ids: Iterable[str] = ()) -> None:
        """`ids` are the transitions that it is about: their lines are shown."""
        if is_so:
            return
        about = set(sorted(ids)[:_SHOWN])
        lines = [json.dumps(record, ensure_ascii=False)[:700] for record in self.evidence if record.get("id") in about]
        self.wrong.append(
            "\n".join((text, *(f"      {id_}" for id_ in sorted(about)), *(f"      | {x}" for x in lines)))
        )
        print(f"  WRONG: {self.wrong[-1]}", flush=True)

    def judged(self, watcher: Watcher, run: str, wanted: list[dict[str, Any]]) -> None:
        """Each transition of the replay was decided by this home, once, and no other."""
        decided = [r for r in watcher.journal(run) if r["type"] in ("intent", "noted")]
        ids = [r["id"] for r in decided]
        self.counts["transitions"] += len(wanted)
        self.counts["decided twice"] += len(ids) - len(set(ids))
        missing, more = [t["id"] for t in wanted if t["id"] not in ids], set(ids) - {t["id"] for t in wanted}
        where = f"{watcher.home}: run {run}"
        self.expect(not missing, f"{where}: {len(missing)} transitions of the replay were not decided", missing)
        self.expect(not more, f"{where}: {len(more)} transitions that the replay does not have", more)

    def asked(
        self, control: Path, run: str, wanted: list[dict[str, Any]], tags: Mapping[str, str] | None = None
    ) -> None:
        """One request for each transition to orange or red: files, or tags of the run, whose names are their ids."""
        folder = control / file_name(run) / "requests"
        if tags is None:
            found = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]
        else:
            found = [json.loads(text) for name, text in tags.items() if name.startswith("vitals.request.")]
        due = Counter((t["step"], t["attempt"]) for t in wanted if acts(t) and t["to"] in ("orange", "red"))
        have = Counter((r["trip_step"], r["segment"]) for r in found)
        self.counts["requests"] += len(found)
        wrong = {*(have - due), *(due - have)}
        self.expect(have == due, f"run {run}: requests {sorted((have - due).elements())} too many, "
                                 f"{sorted((due - have).elements())} too few",
                    [t["id"] for t in wanted if (t["step"], t["attempt"]) in wrong])  # fmt: skip

    def told(self, where: str, ids: list[str], wanted: list[dict[str, Any]], run: str) -> None:
        """Every alert at least once; repeats are counted."""
        due = {t["id"] for t in wanted if acts(t)} | all_clears(wanted)
        heard = {id_: {id_} for id_ in due} | joined(wanted, due)
        strange = set(ids) - set(heard)
        lost = due - {one for id_ in ids for one in heard.get(id_, ())}
        self.counts[f"alerts due ({where})"] += len(due)
        self.counts[f"alerts repeated ({where})"] += len(ids) - len(set(ids))
        self.expect(not lost, f"{where}: run {run}: {len(lost)} of {len(due)} alerts never came", lost)
        self.expect(not strange, f"{where}: run {run}: alerts that nobody had to get", strange)

    def show(self) -> int:
        for what, count in sorted(self.counts.items()):
            print(f"  {what}: {count}")
        for text in self.wrong:
            print(f"  WRONG: {text}")
        print("  all is as it should be" if not self.wrong else f"  {len(self.wrong)} things are wrong")
        return bool(self.wrong)


def tags_of(uri: str, run: str) -> dict[str, str]:
    found = requests.get(f"{uri}/api/2.0/mlflow/runs/get", params={"run_id": run}, timeout=60).json()
    return {tag["key"]: tag["value"] for tag in found["run"]["data"]["tags"]}


def artifact(uri: str, run: str, path: str) -> list[dict[str, Any]]:
    """The lines of one of our artifacts, as the server hands it out; none where it is not there."""
    found = requests.get(f"{uri}/api/2.0/mlflow/runs/get", params={"run_id": run}, timeout=60).json()
    place = found["run"]["info"]["artifact_uri"].removeprefix("mlflow-artifacts:/")
    answer = requests.get(f"{uri}/api/2.0/mlflow-artifacts/artifacts/{place}/{path}", timeout=60)
    return [json.loads(line) for line in answer.text.split("\n") if line] if answer.status_code == 200 else []


def wait_for(watched: Watcher, condition: Any, seconds: float, what: str) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if not watched.is_alive:
            print(f"  (the watcher has ended: {watched.lines()[-3:]})")
            return False
        if time.monotonic() > end:
            print(f"  (waited {seconds:.0f} s in vain for {what})", flush=True)
            return False
        time.sleep(0.2)
    return True
