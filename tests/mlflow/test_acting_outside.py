"""What is left on a run by a watcher that is not its own process."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from vitalsdsl_mlflow.description import BEGIN, DESCRIPTION, END, ROOM, described, plain
from vitalsdsl_mlflow.filestore import FileStore
from vitalsdsl_mlflow.hands import ClientHands, FolderHands, RestHands
from vitalsdsl_mlflow.headline import as_tag
from vitalsdsl_mlflow.outside import OutsidePort, ports_for
from vitalsdsl_mlflow.port import MAX_TAG, MlflowPort
from vitalsdsl_mlflow.rest import NotOffered, Refused, Rest
from vitalsdsl_mlflow.server import Server
from vitalsdsl_mlflow.stores import Snapshot
from vitalsdsl_mlflow.targets import store_of

from tests.mlflow.growing_server import GrowingServer
from tests.mlflow.runs import POLICY, load_policy, policy_file, recorded, vitals_tags
from tests.trials.proxy import Fault, Proxy
from vitalsdsl.acting.tracker import Ability, Alert, PolicyCopy
from vitalsdsl.ground.errors import TrackerError
from vitalsdsl.language.rules import Level
from vitalsdsl.policies.policy import LoadedPolicy, load
from vitalsdsl.verdicts.verdict import Transition


def change(step: int, rule: str = "loss_high") -> Transition:
    return Transition("run", 0, rule, None, step, step, Level.GREEN, Level.ORANGE, "condition", "a\u2028b")


def an_alert(number: int, text: str = "text") -> Alert:
    return Alert(f"id-{number}", "title", text, Level.RED, change(number))


class Run:
    """A run in memory; `meddle` is done after every write, as another writer would."""

    has_artifacts = True

    def __init__(self) -> None:
        self.there: dict[str, str] = {}
        self.files: dict[str, str] = {}
        self.writes = 0
        self.meddle: Any = lambda: None

    def tags(self) -> Mapping[str, str]:
        return dict(self.there)

    def set_tag(self, name: str, value: str) -> None:
        self.there[name] = value[:MAX_TAG]
        self._written()

    def delete_tag(self, name: str) -> None:
        self.there.pop(name, None)
        self._written()

    def set_tags(self, values: Mapping[str, str | None]) -> None:
        for name, value in values.items():
            if value is None:
                self.delete_tag(name)
            else:
                self.set_tag(name, value)

    def read(self, path: str) -> str | None:
        return self.files.get(path)

    def write(self, path: str, text: str) -> None:
        self.files[path] = text
        self._written()

    def _written(self) -> None:
        self.writes += 1
        self.meddle()


def port(run: Run, policy: LoadedPolicy | None = None) -> OutsidePort:
    return OutsidePort(run, policy or load_policy())


def act(port: OutsidePort) -> None:
    """Everything that dispatch asks of a port."""
    port.record_policy(PolicyCopy("watched", POLICY, "sha256:1", "watched.vitals", "abc-dirty"))
    port.alert(an_alert(1))
    port.record([change(1), change(2)])
    port.tag(Level.RED, {"loss_high": "red@6"})


@pytest.fixture(params=["server", "sqlite", "files"])
def real(
    request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Any, str, OutsidePort, LoadedPolicy]:
    """A client, a run, and what acts on it from outside: over a server, in a sqlite file, in a folder."""
    import mlflow

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    if request.param == "server":
        uri = request.getfixturevalue("server").uri
    elif request.param == "sqlite":
        uri = request.getfixturevalue("uri")
    else:
        monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # for the client; what acts from outside asks none
        uri = f"file://{folder}/mlruns"
    client = mlflow.MlflowClient(tracking_uri=uri)
    run = client.create_run(client.create_experiment(f"acting {folder}")).info.run_id
    policy = load(policy_file(folder))
    store = store_of(uri)
    (found,) = ports_for(store, uri, store.run(run), policy)
    assert isinstance(found, OutsidePort)
    return client, run, found, policy


def test_a_run_has_the_same_on_it_as_from_its_own_process(real: tuple[Any, str, OutsidePort, LoadedPolicy]) -> None:
    client, run, outside, policy = real
    assert outside.can == {Ability.TAG, Ability.ALERT, Ability.RECORD, Ability.POLICY}
    act(outside)
    own = client.create_run("0").info.run_id
    act(MlflowPort(client, own))  # type: ignore[arg-type]
    assert vitals_tags(client, run) == vitals_tags(client, own)
    for path in ("vitals/transitions.jsonl", "vitals/alerts.jsonl"):
        there, wanted = recorded(client, run, path), recorded(client, own, path)
        assert [{**line, "at": 0} for line in there] == [{**line, "at": 0} for line in wanted]
    copy = client.download_artifacts(run, "vitals/policy/watched.vitals")
    assert Path(copy).read_text("utf-8") == POLICY
    assert "**vitals: red**" in client.get_run(run).data.tags[DESCRIPTION]


def test_a_second_watcher_adds_nothing(real: tuple[Any, str, OutsidePort, LoadedPolicy]) -> None:
    client, run, outside, policy = real
    act(outside)
    before = client.get_run(run).data.tags
    act(OutsidePort(outside._hands, policy))
    outside.record([change(2), change(3)])
    assert client.get_run(run).data.tags == before
    assert [line["step"] for line in recorded(client, run)] == [1, 2, 3]
    assert [line["id"] for line in recorded(client, run, "vitals/alerts.jsonl")] == ["id-1"]


def test_lists_are_made_whole_and_a_line_that_was_cut_off_is_none(
    real: tuple[Any, str, OutsidePort, LoadedPolicy],
) -> None:
    client, run, outside, policy = real
    other = OutsidePort(outside._hands, policy)
    other.record([change(9)])
    outside.record([change(1), change(2)])
    outside.alert(an_alert(1))
    text = outside._hands.read("vitals/transitions.jsonl") or ""
    outside._hands.write("vitals/transitions.jsonl", "\n".join(text.split("\n")[:2])[:-5])
    outside._hands.write("vitals/alerts.jsonl", "")
    for _ in range(2):
        outside.complete([change(1), change(2)], [an_alert(1)])
        other.complete([change(9)], [])
    assert [line["step"] for line in recorded(client, run)] == [9, 1, 2]
    assert [line["id"] for line in recorded(client, run, "vitals/alerts.jsonl")] == ["id-1"]


def test_rules_of_any_name_are_tagged(real: tuple[Any, str, OutsidePort, LoadedPolicy]) -> None:
    client, run, outside, _ = real
    names = ["a'b", 'a"b', "a\nb", "<b>x</b>", "a//b", "../x", "x" * 300, "grad[layer/0]", "名前", "a%2Fb"]
    outside.tag_rules(dict.fromkeys(names, "red@1"))
    assert len(vitals_tags(client, run)) == len(names)
    outside.tag_rules({})
    assert vitals_tags(client, run) == {}


def test_nothing_is_written_that_is_there_already() -> None:
    run = Run()
    act(port(run))
    writes = run.writes
    act(port(run))
    assert run.writes == writes


def test_what_is_to_show_takes_one_reading_one_writing_and_one_look_at_it() -> None:
    run, asked = Run(), list[str]()
    run.there = {"vitals.rule.old": "red@1"}
    read, write = run.tags, run.set_tags
    run.tags = lambda: asked.append("read") or read()  # type: ignore[func-returns-value, method-assign]
    run.set_tags = lambda values: asked.append("write") or write(values)  # type: ignore[func-returns-value, method-assign]
    outside = port(run)
    outside.alert_all([an_alert(1), an_alert(2)])
    assert run.writes == 1 and not asked
    outside.tag(Level.RED, {"a": "red@2"})
    assert asked == ["read", "write", "read"]
    assert set(run.there) == {"vitals.level", "vitals.rule.a", "vitals.alert", DESCRIPTION}
    asked.clear()
    outside.tag(Level.RED, {"a": "red@2"})
    assert asked == ["read"]


def test_of_alerts_that_are_told_together_the_tag_shows_the_newest_but_none_milder_than_what_stands() -> None:
    run = Run()
    outside = port(run)
    red, yellow = an_alert(1, "bad"), replace(an_alert(2, "mild"), level=Level.YELLOW)
    outside.alert_all([red, yellow])
    outside.tag(Level.RED, {})
    assert "bad" in run.there["vitals.alert"]
    outside.alert(replace(yellow, id="id-3"))
    outside.tag(Level.YELLOW, {})
    assert "mild" in run.there["vitals.alert"]


def test_an_alert_whose_process_ended_before_its_tags_shows_after_the_next_start() -> None:
    run = Run()
    port(run).alert(an_alert(1, "bad"))
    again = port(run)
    again.tag(Level.RED, {})
    again.complete([change(1)], [an_alert(1, "bad")])
    assert "bad" in run.there["vitals.alert"] and "bad" in run.there[DESCRIPTION]


@pytest.mark.parametrize("answer", ["takes", "refuses", "is old"])
def test_a_server_is_sent_many_tags_at_once_and_where_it_refuses_each(answer: str) -> None:
    class Answers(GrowingServer):
        def post(self, call: str, body: dict[str, Any]) -> dict[str, Any]:
            if answer != "takes" and call.endswith("log-batch"):
                self.asked[call] += 1
                raise Refused("no such tag") if answer == "refuses" else NotOffered("no such call")
            return super().post(call, body)

    server = Answers(1, 1)
    hands = RestHands(server, Snapshot(server.ids[0]))  # type: ignore[arg-type]
    hands.set_tag("gone", "x")
    server.asked.clear()
    hands.set_tags({f"t{n}": str(n) for n in range(60)} | {"gone": None})
    assert hands.tags() == {f"t{n}": str(n) for n in range(60)}
    batches = server.asked["mlflow/runs/log-batch"]
    assert (batches, server.asked["mlflow/runs/set-tag"]) == ((2, 0) if answer == "takes" else (1, 60))


def test_what_another_writer_takes_away_is_written_again() -> None:
    run = Run()
    stolen = iter([True])

    def meddle() -> None:
        if next(stolen, False):
            run.there.clear()
            run.files.clear()

    run.meddle = meddle
    port(run).tag_rules({"a": "red@1", "b": "red@2"})
    assert {name for name in run.there if name.startswith("vitals.rule.")} == {"vitals.rule.a", "vitals.rule.b"}
    stolen = iter([True])
    port(run).record([change(1)])
    assert run.files["vitals/transitions.jsonl"].count("\n") == 1


def test_two_watchers_in_turn_lose_no_line() -> None:
    run = Run()
    one, other = port(run), port(run)
    for number in range(10):
        (one, other)[number % 2].record([change(number)])
    assert run.files["vitals/transitions.jsonl"].count("\n") == 10


def test_a_writer_that_never_gives_way_is_said_to_be_there() -> None:
    run = Run()
    run.meddle = run.there.clear
    with pytest.raises(TrackerError, match="another writer"):
        port(run).tag_level(Level.RED)


def test_other_peoples_tags_stay() -> None:
    run = Run()
    run.there = {"team": "a", "vitals.rule.old": "red@1", "mlflow.user": "ann"}
    port(run).tag_rules({"new": "red@2"})
    assert run.there["team"] == "a" and run.there["mlflow.user"] == "ann"
    assert "vitals.rule.old" not in run.there and run.there["vitals.rule.new"] == "red@2"


def test_other_peoples_description_stays_to_the_letter() -> None:
    run = Run()
    run.there[DESCRIPTION] = "By hand.\n\n* one\r\n"
    outside = port(run)
    outside.tag_level(Level.YELLOW)
    outside.tag_level(Level.RED)
    text = run.there[DESCRIPTION]
    assert text.startswith("By hand.\n\n* one\r\n") and text.count(BEGIN) == text.count(END) == 1
    run.there[DESCRIPTION] = text + "\nAfter."
    outside.tag_level(Level.GREEN)
    text = run.there[DESCRIPTION]
    assert text.endswith(f"{END}\nAfter.") and "**vitals: green**" in text and "red" not in text


@pytest.mark.parametrize("length", [0, ROOM - 3000, ROOM - 500, ROOM - 110, ROOM - 50, ROOM])
def test_a_description_never_grows_beyond_what_mlflow_keeps(length: int) -> None:
    theirs = "x" * length
    lines = [f"**vitals: red** under {'p' * 20}", *(f"- rule_{n}: red@{n}" for n in range(500))]
    text = described(theirs, lines)
    if text is None:
        assert length >= ROOM - 110
    else:
        assert text.startswith(theirs) and len(text) <= ROOM and text.endswith(END)
        assert len(text) - length <= 2002


def test_a_mark_without_its_end_takes_nothing_with_it() -> None:
    text = described(f"Mine.\n{BEGIN}\nmore of mine", ["**vitals: red**"])
    assert text is not None and text.startswith(f"Mine.\n{BEGIN}\nmore of mine")


def test_names_and_texts_are_shown_and_not_obeyed() -> None:
    run = Run()
    outside = port(run)
    outside.alert(an_alert(1, f"{BEGIN}<script>alert(1)</script>\n\n# big"))
    outside.tag_rules({f"<img src=x>{END}": "red@1", "`a`\n# b": "[x](javascript:y)"})
    assert "alert" in run.there[DESCRIPTION]
    text = run.there[DESCRIPTION]
    assert text.count(BEGIN) == text.count(END) == 1
    assert "<img" not in text.replace("\\<", "") and "<script" not in text.replace("\\<", "")
    assert "\n# " not in text


def test_plain_text_is_one_line() -> None:
    assert plain("a\nb\x00c\u2028d") == "a bc d"


def test_a_server_that_hands_on_no_artifacts_is_said_once_and_runs_get_their_tags(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rest = Rest("http://127.0.0.1:9")
    run = Snapshot("x", artifact_uri="s3://bucket/0/x/artifacts")
    hands = [RestHands(rest, run) for _ in range(3)]
    assert Ability.RECORD not in OutsidePort(hands[0], load_policy()).can
    assert sum("does not hand on artifacts" in record.getMessage() for record in caplog.records) == 1


def test_mlflow_is_loaded_only_where_a_file_is_written_to() -> None:
    import subprocess

    code = (
        "import sys, vitalsdsl_mlflow.targets, vitalsdsl_mlflow.history; "
        "assert not any(name == 'mlflow' or name.startswith('mlflow.') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert ClientHands("sqlite:///x.db", "x")._made is None
    assert Server(Rest("http://127.0.0.1:9")).uri == "http://127.0.0.1:9"


# -------------------------------------------------------------------- a folder of the file store


@pytest.fixture
def mlruns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run that an MLflow wrote which is here no longer; the next one would refuse such folders."""
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    run = tmp_path / "mlruns" / "0" / "r1"
    (run / "tags").mkdir(parents=True)
    (run / "meta.yaml").write_text("artifact_uri: file:///elsewhere/mlruns/0/r1/artifacts\nstatus: 1\n")
    (run / "tags" / DESCRIPTION).write_bytes(b"By hand.\r\n")
    return run


def in_folder(run: Path) -> OutsidePort:
    store = FileStore(run.parents[1])
    (found,) = ports_for(store, str(run.parents[1]), store.run(run.name), load_policy())
    assert isinstance(found, OutsidePort) and isinstance(found._hands, FolderHands)
    return found


def test_a_folder_that_was_moved_is_written_to_without_mlflow(mlruns: Path) -> None:
    act(in_folder(mlruns))
    assert (mlruns / "tags" / "vitals.level").read_bytes() == b"red"
    assert (mlruns / "tags" / "vitals.rule.loss_high").read_text() == "red@6"
    assert (mlruns / "artifacts" / "vitals" / "policy" / "watched.vitals").read_text("utf-8") == POLICY
    assert (mlruns / "artifacts" / "vitals" / "transitions.jsonl").read_text().count("\n") == 2
    assert (mlruns / "tags" / DESCRIPTION).read_bytes().startswith(b"By hand.\r\n\n\n" + BEGIN.encode())
    before = {file: file.stat().st_mtime_ns for file in mlruns.rglob("*") if file.is_file()}
    act(in_folder(mlruns))
    assert {file: file.stat().st_mtime_ns for file in mlruns.rglob("*") if file.is_file()} == before
    in_folder(mlruns).tag_rules({})
    assert not (mlruns / "tags" / "vitals.rule.loss_high").exists()


def test_what_cannot_be_written_is_one_line_and_leaves_no_half(mlruns: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vitalsdsl_mlflow.hands.os.replace", full)
    with pytest.raises(TrackerError, match="vitals.level cannot be written: no space left on device"):
        in_folder(mlruns).tag_level(Level.RED)
    assert {file.name for file in mlruns.rglob("*")} == {"tags", "meta.yaml", DESCRIPTION}


def test_a_run_whose_artifacts_lie_elsewhere_gets_its_tags(mlruns: Path) -> None:
    (mlruns / "meta.yaml").write_text("artifact_uri: s3://bucket/0/r1/artifacts\nstatus: 1\n")
    port = in_folder(mlruns)
    assert Ability.RECORD not in port.can
    port.alert(an_alert(1))
    port.tag(Level.RED, {})
    assert (mlruns / "tags" / "vitals.alert").exists() and not (mlruns / "artifacts").exists()


def test_what_mlflow_says_over_pages_is_told_shortly() -> None:
    class Client:
        def set_tag(self, *args: Any) -> None:
            raise RuntimeError("maintenance\nmode " * 50)

    hands = ClientHands("sqlite:///x.db", "x")
    hands._made = Client()
    with pytest.raises(TrackerError) as caught:
        hands.set_tag("a", "b")
    assert str(caught.value).startswith("maintenance mode maintenance") and len(str(caught.value)) < 210


def test_a_run_is_not_told_its_own_id_and_lines_of_an_alert_stay_lines() -> None:
    run = Run()
    alert = Alert("id", "red: hot at step 1 (run)", "loss is 9\ndoes: tag", Level.RED, change(1))
    assert as_tag(alert) == "red: hot at step 1: loss is 9\ndoes: tag"
    outside = port(run)
    outside.alert(alert)
    outside.tag(Level.RED, {})
    assert "- Newest alert: red: hot at step 1: loss is 9\n  - does: tag\n" in run.there[DESCRIPTION]


@pytest.mark.parametrize(
    "fault",
    [Fault("404", 404), Fault("page", 200, {"Content-Type": "text/html"}), Fault("cut", cut=True), Fault("502", 502)],
    ids=lambda fault: fault.name,
)
def test_a_gateway_that_answers_for_the_server_takes_no_line_away(
    server: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    """What it says of a list of alerts, for once, must not be taken for the list: the next alert would be the only one."""
    import mlflow

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    client = mlflow.MlflowClient(tracking_uri=server.uri)
    run = client.create_run(client.create_experiment(f"gateway {fault.name}")).info.run_id
    policy = load(policy_file(folder))
    with Proxy(server.uri).running() as gateway:
        store = store_of(gateway.uri)
        (outside,) = ports_for(store, gateway.uri, store.run(run), policy)
        outside.alert(an_alert(1))
        outside.record([change(1)])
        for act in (lambda: outside.alert(an_alert(2)), lambda: outside.record([change(2)])):
            once = iter([fault])
            gateway.fault = lambda path, once=once: next(once, None) if path.endswith(".jsonl") else None
            with pytest.raises(TrackerError) as caught:
                act()
            assert not caught.value.is_final
        outside.alert(an_alert(2))
        outside.record([change(2)])
    assert [line["id"] for line in recorded(client, run, "vitals/alerts.jsonl")] == ["id-1", "id-2"]
    assert [line["step"] for line in recorded(client, run)] == [1, 2]
