"""What is left on a run by a watcher that is not its own process."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from vitalsdsl_mlflow.description import BEGIN, DESCRIPTION, END, ROOM, described, plain
from vitalsdsl_mlflow.outside import ClientHands, OutsidePort, RestHands, ports_for
from vitalsdsl_mlflow.port import MAX_TAG, MlflowPort
from vitalsdsl_mlflow.rest import Rest
from vitalsdsl_mlflow.server import Server
from vitalsdsl_mlflow.stores import Snapshot
from vitalsdsl_mlflow.targets import store_of

from tests.mlflow.runs import POLICY, load_policy, policy_file, recorded, vitals_tags
from vitalsdsl.errors import TrackerError
from vitalsdsl.policy import LoadedPolicy, load
from vitalsdsl.rules import Level
from vitalsdsl.tracker import Ability, Alert, PolicyCopy
from vitalsdsl.verdict import Transition


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
    port.tag_level(Level.RED)
    port.tag_rules({"loss_high": "red@6"})
    port.alert(an_alert(1))
    port.record([change(1), change(2)])


@pytest.fixture(params=["server", "sqlite"])
def real(
    request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Any, str, OutsidePort, LoadedPolicy]:
    """A client, a run, and what acts on it from outside, over a server and in a sqlite file."""
    import mlflow

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    if request.param == "server":
        uri = request.getfixturevalue("server").uri
    else:
        uri = request.getfixturevalue("uri")
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
    outside.tag_rules({f"<img src=x>{END}": "red@1", "`a`\n# b": "[x](javascript:y)"})
    outside.alert(an_alert(1, f"{BEGIN}<script>alert(1)</script>\n\n# big"))
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
