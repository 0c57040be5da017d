"""What people say to a watch: silences, acknowledgements, and a word to a training that waits."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from feeding import ScriptedRun, ScriptedTarget, rows

import vitalsdsl as vitals
from tests.acting import alarms
from vitalsdsl.acting.control import ControlFolder
from vitalsdsl.acting.dispatch import Dispatcher
from vitalsdsl.acting.journal import Journal, journal_of
from vitalsdsl.acting.memory import Memory
from vitalsdsl.acting.tracker import Request
from vitalsdsl.cli.app import vitals as program
from vitalsdsl.ground.points import Row, RunInfo
from vitalsdsl.language.rules import Level
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl.watching import watcher
from vitalsdsl.watching.watcher import Assignment, Watcher

POLICY = """policy p
rule act_hot { when any(act/* > 3) -> yellow when any(act/* > 9) -> orange }
rule loss_high { when loss > 3 -> yellow }
"""
HOSTILE = "known\x1b[31m\nx\u202e"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(watcher._dice, "uniform", lambda low, high: 0.0)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("LOGNAME", "ann")
    monkeypatch.delenv("VITALS_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    yield


def call(*words: str) -> Result:
    return CliRunner().invoke(program, list(words), prog_name="vitals")


def said(*words: str, code: int = 0) -> str:
    done = call(*words)
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output and "\x1b" not in done.output and "\u202e" not in done.output
    return done.output


def policy(text: str = POLICY) -> LoadedPolicy:
    return vitals.load("p", text=text)


def watch(run: ScriptedRun, p: LoadedPolicy | None = None) -> None:
    """One look at all that the run has logged, by a watcher of its own; its last step is still open."""
    Watcher([Assignment(ScriptedTarget(run), p or policy())], Path(".vitals")).run(once=True)


def told(run: ScriptedRun) -> list[tuple[str, int]]:
    return [(alert.transition.rule, alert.transition.step) for alert in alarms(run.port)]


def lines(run: str = "a", name: str = "p") -> list[dict[str, object]]:
    return [json.loads(line) for line in journal_of(Path(".vitals"), run, name).read_text().splitlines()]


# -------------------------------------------------------------------- silences


def test_a_silence_has_an_author_a_reason_and_an_end_and_is_listed() -> None:
    run = ScriptedRun("a", rows([1.0]))
    run.go_on()
    watch(run)
    journal_of(Path(".vitals"), "a", "p").touch()
    assert said("silence", "a") == "nothing is silenced in a\n"
    began = time.time()
    assert said("silence", "a", "act_*", "--for", "2h", "--because", "the loader") == "act_* is silenced in a\n"
    assert said("silence", "a", "loss_high", "--because", "moving", "--by", "bea") == "loss_high is silenced in a\n"
    first, second = (line for line in lines() if line["type"] == "silence")
    assert (first["rule"], first["reason"], first["author"], second["author"]) == ("act_*", "the loader", "ann", "bea")
    assert began + 7199 < float(str(first["until"])) < time.time() + 7201 and second["until"] is None
    when, good = said("silence", "a").splitlines()
    assert re.fullmatch(r"act_\*  until \d{4}-\d\d-\d\d \d\d:\d\d  by ann: the loader", when)
    assert good == "loss_high  for good  by bea: moving"
    assert said("silence", "a", "act_*", "--end") == "act_* is heard again in a\n"
    assert said("silence", "a") == f"{good}\n"


def test_the_first_letters_of_a_run_s_id_are_that_run() -> None:
    run = ScriptedRun("0de474d1aa", rows([1.0, 4.0, 4.0]))
    run.go_on()
    watch(run)
    assert said("ack", "0de4", "loss_high", "--because", "on it").startswith("loss_high is yellow")
    assert said("silence", "0de4", "loss_*", "--because", "known") == "loss_* is silenced in 0de474d1aa\n"
    assert said("silence", "0de474d1aa") == said("silence", "0de4") != "nothing is silenced in 0de474d1aa\n"
    assert {line["run"] for line in lines("0de474d1aa") if "run" in line} == {"0de474d1aa"}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(90.0, "90s"), (1800.0, "30 min"), (5400.0, "1.5h"), (86400.0, "1d")],
)
def test_a_time_is_a_number_and_a_unit(seconds: float, words: str) -> None:
    journal_of(Path(".vitals"), "a", "p").parent.mkdir(parents=True)
    journal_of(Path(".vitals"), "a", "p").touch()
    said("silence", "a", "x", "--for", words, "--because", "y")
    (line,) = lines()
    assert float(str(line["until"])) - float(str(line["at"])) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("nobody", "x", "--because", "y"), "nothing is known of run nobody in .vitals (the watcher's --home)"),
        (("..", "x", "--because", "y"), "nothing is known of run .."),
        (("a", "x"), "say why: --because TEXT"),
        (("a", "x", "--because", "  "), "say why: --because TEXT"),
        (("a", "x", "--because", "y", "--for", "soon"), "write it as 30min, 2h or 1d"),
        (("a", "x", "--because", "y", "--for", "-1h"), "write it as 30min, 2h or 1d"),
        (("a", "x", "--because", "y", "--for", "0s"), "more than nothing"),
        (("a", "x", "--because", "y", "--for", "9" * 400 + "d"), "at most ten years"),
        (("a", "x", "--because", "y", "--for", "\x1b[31m"), "write it as 30min, 2h or 1d"),
    ],
)
def test_what_makes_no_silence_is_one_message(words: tuple[str, ...], why: str) -> None:
    path = journal_of(Path(".vitals"), "a", "p")
    path.parent.mkdir(parents=True)
    path.touch()
    assert why in said("silence", *words, code=2)
    assert path.read_bytes() == b""


def test_a_silenced_rule_tells_nobody_and_shows_in_no_tag_until_it_is_over() -> None:
    run = ScriptedRun("a", rows([1.0, 4.0, 1.0, 4.0, 1.0, 4.0, 1.0]))
    run.go_on(3)
    watch(run)
    assert told(run) == [("loss_high", 1)] and run.port.firing == {"loss_high": "yellow@1"}
    said("silence", "a", "loss_*", "--for", "1h", "--because", "the loader")
    run.go_on(2)
    watch(run)
    assert told(run) == [("loss_high", 1)] and run.port.firing == {}
    said("silence", "a", "loss_*", "--end")
    run.go_on(2)
    watch(run)
    assert told(run) == [("loss_high", 1), ("loss_high", 5)]


def test_an_expired_silence_holds_no_longer() -> None:
    run = ScriptedRun("a", rows([1.0, 4.0, 1.0, 4.0, 4.0]))
    run.go_on(3)
    watch(run)
    said("silence", "a", "loss_high", "--for", "0.05s", "--because", "the loader")
    time.sleep(0.1)
    assert said("silence", "a") == "nothing is silenced in a\n"
    run.go_on(2)
    watch(run)
    assert told(run) == [("loss_high", 1), ("loss_high", 3)]


def test_a_running_watcher_heeds_a_silence_at_its_next_look() -> None:
    """One process that goes on: the tags change at once, and what comes is not told."""
    run = ScriptedRun("a", rows([1.0, 4.0, 1.0, 4.0, 4.0]))
    run.go_on(3)
    at = Watcher([Assignment(ScriptedTarget(run, is_open=True), policy())], Path(".vitals"))
    thread = threading.Thread(target=at.run)
    thread.start()
    wait_for(lambda: run.port.firing == {"loss_high": "yellow@1"})
    said("silence", "a", "loss_high", "--because", "the loader")
    wait_for(lambda: run.port.firing == {})
    run.go_on(2)
    wait_for(lambda: any(line["type"] == "noted" and line["step"] == 3 for line in lines()))
    said("silence", "a", "loss_high", "--end")
    wait_for(lambda: run.port.firing == {"loss_high": "yellow@3"})
    at.stop()
    thread.join(20.0)
    assert told(run) == [("loss_high", 1)]


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def test_all_policies_of_a_run_heed_a_silence() -> None:
    run = ScriptedRun("a", rows([4.0, 4.0]))
    run.go_on()
    for name in ("p", "q"):
        watch(run, policy(f"policy {name}\nrule loss_high {{ when loss > 3 -> yellow }}"))
    said("silence", "a", "loss_high", "--because", "known")
    for name in ("p", "q"):
        assert [line["type"] for line in lines(name=name)].count("silence") == 1
    assert said("silence", "a") == "loss_high  for good  by ann: known\n"


def test_hostile_words_are_kept_as_they_are_and_shown_as_they_cannot_harm() -> None:
    path = journal_of(Path(".vitals"), "a", "p")
    path.parent.mkdir(parents=True)
    path.touch()
    said("silence", "a", "x*", "--because", HOSTILE, "--by", "\udcff\x07")
    assert said("silence", "a") == "x*  for good  by \\udcff\\x07: known\\x1b[31m\\nx\\u202e\n"
    assert lines()[0]["reason"] == HOSTILE


def test_a_journal_that_cannot_be_written_is_told_and_nothing_is_said_to_be_silenced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = ScriptedRun("a", rows([4.0, 4.0]))
    run.go_on()
    watch(run)

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vitalsdsl.acting.journal.os.write", full)
    for words in (("silence", "a", "loss_high"), ("ack", "a", "loss_high")):
        output = said(*words, "--because", "known", code=2)
        assert "cannot be written: nothing has changed" in output and "silenced in" not in output


def test_vitals_toml_says_where_journals_are() -> None:
    Path("vitals.toml").write_text('home = "kept"\n')
    Path("kept/a").mkdir(parents=True)
    Path("kept/a/p.journal.jsonl").touch()
    assert said("silence", "a") == "nothing is silenced in a\n"
    assert "in elsewhere" in said("silence", "a", "--home", "elsewhere", code=2)


@pytest.mark.parametrize("written", ["mlflow:a", "wandb:team/llm/a", "https://wandb.ai/team/llm/runs/a/overview"])
def test_a_run_is_named_as_it_was_to_the_watch(written: str) -> None:
    """By all who speak to it."""
    run = ScriptedRun("a", rows([4.0, 4.0]))
    run.go_on()
    watch(run)
    assert said("silence", written, "loss_*", "--because", "known") == "loss_* is silenced in a\n"
    assert said("ack", written, "loss_high", "--because", "k") == "loss_high is yellow, and ann knows of it\n"
    said("resume", written, "--control", "c")
    assert said("requests", written, "--control", "c") == said("requests", "a", "--control", "c")
    assert "resume by ann" in said("requests", "a", "--control", "c")


def test_a_run_whose_name_is_nearly_right_is_asked_for() -> None:
    journal_of(Path(".vitals"), "llm-7b", "p").parent.mkdir(parents=True)
    journal_of(Path(".vitals"), "llm-7b", "p").touch()
    assert "did you mean llm-7b?" in said("silence", "llm7b", code=2)


@pytest.mark.parametrize(
    ("rule", "note"),
    [
        ("loss_hihg", "note: no rule `loss_hihg` has changed its level in a so far (did you mean `loss_high`?)\n"),
        ("xyz*", "note: no rule `xyz*` has changed its level in a so far (heard of: `loss_high`)\n"),
        ("loss_*", ""),
    ],
)
def test_a_silence_of_what_was_never_heard_is_noted_and_holds(rule: str, note: str) -> None:
    run = ScriptedRun("a", rows([4.0, 4.0]))
    run.go_on()
    watch(run)
    result = call("silence", "a", rule, "--because", "known")
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{rule} is silenced in a\n", note)
    assert call("silence", "a", rule, "--end").stderr == ""


# -------------------------------------------------------------------- acknowledgements


def family(*values: tuple[float, float]) -> ScriptedRun:
    """Two members, `act/0` and `act/1`, one row a step."""
    return ScriptedRun("a", [Row(s, {"act/0": a, "act/1": b}, 1000.0 + s) for s, (a, b) in enumerate(values)])


def test_an_acknowledged_rule_is_told_no_more_until_it_is_green_or_worse() -> None:
    run = ScriptedRun("a", rows([4.0, 4.0, 10.0, 4.0, 1.0, 4.0, 4.0]))
    p = policy("policy p\nrule hot { when loss > 3 -> yellow when loss > 9 -> orange }")
    run.go_on(2)
    watch(run, p)
    assert said("ack", "a", "hot", "--because", "the loader") == "hot is yellow, and ann knows of it\n"
    run.go_on()
    watch(run, p)
    assert told(run) == [("hot", 0), ("hot", 2), ("hot", 5)]
    (line,) = (line for line in lines() if line["type"] == "acknowledged")
    assert (line["rule"], line["level"], line["reason"], line["author"]) == ("hot", "yellow", "the loader", "ann")
    assert run.port.firing == {"hot": "yellow@5"}


def test_an_alert_is_acknowledged_by_the_beginning_of_its_id() -> None:
    run = ScriptedRun("a", rows([4.0, 4.0]))
    run.go_on()
    watch(run)
    (alert,) = run.port.alerts
    output = said("ack", "a", alert.id[:8], "--because", "known", "--by", "bea")
    assert output == "loss_high is yellow, and bea knows of it\n"
    again = said("ack", "a", alert.id, "--because", "known")
    assert again == "loss_high is yellow, and ann knows of it\n"


def test_a_beginning_of_several_alerts_names_none_of_them() -> None:
    path = journal_of(Path(".vitals"), "a", "p")
    path.parent.mkdir(parents=True)
    intent = {
        "type": "intent", "run": "a", "at": 0.0, "attempt": 0, "step": 1, "member": None, "from": "green",
        "to": "yellow", "shown": True, "time": None, "counters": {}, "acts": True, "text": "alert", "deeds": [],
        "requests": 0, "intervention": None,
    }  # fmt: skip
    with path.open("w") as file:
        for rule, id_ in (("x", "abc1"), ("y", "abc2")):
            file.write(json.dumps({**intent, "rule": rule, "id": id_}) + "\n")
    assert "several alerts begin with `abc`: give more of it" in said("ack", "a", "abc", "--because", "k", code=2)
    assert said("ack", "a", "abc2", "--because", "k") == "y is yellow, and ann knows of it\n"


def test_members_are_acknowledged_all_by_the_rule_and_one_by_its_alert() -> None:
    text = "policy p\nrule hot each m in act/* { when m > 3 -> yellow }"
    run = family((4.0, 1.0), (4.0, 4.0), (4.0, 4.0))
    run.go_on()
    watch(run, policy(text))
    first, second = sorted(run.port.alerts, key=lambda a: a.transition.step)
    assert (
        said("ack", "a", second.id, "--because", "k")
        == f"hot ({second.transition.member}) is yellow, and ann knows of it\n"
    )
    assert said("ack", "a", "hot", "--because", "k").count("is yellow") == 2


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("nobody", "loss_high", "--because", "k"), "nothing is known of run nobody"),
        (("a", "nix", "--because", "k"), "no rule or alert `nix` stands in run a"),
        (("a", "", "--because", "k"), "no rule or alert `` stands in run a"),
        (("a", "act_hot", "--because", "k"), "no rule or alert `act_hot` stands in run a"),
        (("a", "loss_high", "--because", " "), "say what is known: --because TEXT"),
        (("a", "\x1b[31m\u202e", "--because", "k"), "no rule or alert `\\x1b[31m\\u202e` stands in run a"),
    ],
)
def test_what_cannot_be_acknowledged_is_one_message(words: tuple[str, ...], why: str) -> None:
    run = ScriptedRun("a", rows([4.0, 4.0]))
    run.go_on()
    watch(run)
    before = journal_of(Path(".vitals"), "a", "p").read_bytes()
    assert why in said("ack", *words, code=2)
    assert journal_of(Path(".vitals"), "a", "p").read_bytes() == before


def test_a_user_whom_the_machine_does_not_know_can_speak_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr("getpass.getuser", nobody)
    run = ScriptedRun("a", rows([4.0, 4.0]))
    run.go_on()
    watch(run)
    assert said("ack", "a", "loss_high", "--because", "k") == "loss_high is yellow, and somebody knows of it\n"


# -------------------------------------------------------------------- requests, and letting a training go on


def request(number: int, action: str = "pause") -> Request:
    return Request(f"id-{number}", "a", 0, number, action, Level.ORANGE, "hot", None, 7, 5, 1000.0 + number, 2000.0,
                   reason="loss is 4")  # fmt: skip


def test_requests_are_listed_the_oldest_first_with_their_answers() -> None:
    assert said("requests", "a", "--control", "c") == "nothing has been asked of a\n"
    folder = ControlFolder("c/a")
    for number in (2, 1):
        folder.request(request(number))
    folder.answer("id-1", {"id": "id-1", "state": "rejected", "reason": "too late"})
    assert said("requests", "a", "--control", "c").splitlines() == [
        "id-1  rejected (too late)  pause by hot at step 7: loss is 4", "id-2  open  pause by hot at step 7: loss is 4",
    ]  # fmt: skip
    first, second = map(json.loads, said("requests", "a", "--control", "c", "--format", "jsonl").splitlines())
    assert (first["id"], first["state"], first["answer"]["reason"]) == ("id-1", "rejected", "too late")
    assert (second["state"], second["answer"], second["level"]) == ("open", None, "orange")


def test_what_a_training_asked_of_itself_is_listed_from_its_journal_without_a_channel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("VITALS_CONTROL", raising=False)
    run = ScriptedRun("a", rows([1.0, 4.0, 1.0, 4.0]))
    run.go_on(over=True)
    watch(run, policy("policy p\nrule hot { when loss > 3 -> orange do checkpoint, pause }"))
    found = said("requests", "a").splitlines()
    assert [line.split("  ")[1:] for line in found] == [
        ["delivered", f"{action} by hot at step {step}: loss > 3 (loss = 4)"]
        for step in (1, 3) for action in ("save", "pause")
    ]  # fmt: skip
    ids = {request.id for request in run.port.requests}
    assert {json.loads(line)["id"] for line in said("requests", "a", "--format", "jsonl").splitlines()} == ids
    assert "--control DIR, or VITALS_CONTROL" in said("requests", "b", code=2)
    # What is on a channel too is listed once, as the channel has it.
    folder = ControlFolder("c/a")
    folder.request(run.port.requests[1])
    folder.request(request(1))
    listed = said("requests", "a", "--control", "c")
    assert len(listed.splitlines()) == 5 and listed.count("  open  ") == 2
    path = journal_of(Path(".vitals"), "a", "p")
    path.write_text("".join(line for line in path.read_text().splitlines(True) if '"done"' not in line) + "{}\n[")
    assert said("requests", "a").count("  open  ") == 4


def test_what_a_guard_did_about_a_request_is_listed_from_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VITALS_CONTROL", raising=False)
    run = ScriptedRun("a", rows([1.0, 4.0, 1.0, 4.0]))
    run.go_on(over=True)
    watch(run, policy("policy p\nrule hot { when loss > 3 -> orange do checkpoint, pause }"))
    saved, paused, again, _ = (request.id for request in run.port.requests)
    answers: list[dict[str, object]] = [
        {"type": "answer", "id": saved, "state": "executing", "at_step": 1, "reason": ""},
        {"type": "answer", "id": saved, "state": "done", "at_step": 1, "reason": "checkpoint step-1"},
        {"type": "answer", "id": paused, "state": "rejected", "at_step": 1, "reason": "not allowed"},
        {"type": "mark", "checkpoint": again, "state": "healthy"},
        {"type": "answer", "id": [again], "state": "done"},
    ]
    (Path(".vitals") / "history.jsonl").write_text("".join(f"{json.dumps(a)}\n" for a in answers) + '{"type": "ans')
    assert [line.split("  ")[1] for line in said("requests", "a").splitlines()] == [
        "done (checkpoint step-1)", "rejected (not allowed)", "delivered", "delivered",
    ]  # fmt: skip
    first = json.loads(said("requests", "a", "--format", "jsonl").splitlines()[0])
    assert (first["state"], first["answer"]["at_step"]) == ("done", 1)


def test_a_person_lets_a_training_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITALS_CONTROL", "c")
    folder = ControlFolder("c/team_run")
    folder.request(request(1))
    began = time.time()
    id_ = said("resume", "team/run", "--because", "fixed\x1b[31m").removeprefix("asked: ").strip()
    (asked,) = (one.request for one in folder.asked() if one.request["id"] == id_)
    assert (asked["action"], asked["run"], asked["author"]) == ("resume", "team/run", "ann")
    assert began <= asked["issued_at"] <= time.time()
    assert said("requests", "team/run").splitlines()[1] == f"{id_[:8]}  open  resume by ann: fixed\\x1b[31m"


def test_a_training_is_let_go_on_by_the_name_that_its_journal_knows() -> None:
    journal = Journal(journal_of(Path(".vitals"), "0e635dcc11", "p"))
    acts = Dispatcher(policy().policy, [Memory()], journal, RunInfo("0e635dcc11", title="small-lm"))
    acts.take(vitals.replay(policy(), {"step": [1], "loss": [5.0]}, run="0e635dcc11"))
    assert acts.close(10.0)
    said("resume", "0e635dcc11", "--control", "c")
    assert "note:" not in said("resume", "small-lm", "--control", "c")
    assert len(list(ControlFolder("c/0e635dcc11").asked())) == 2
    assert not Path("c/small-lm").exists()
    assert len(said("requests", "small-lm", "--control", "c").splitlines()) == 2


def test_a_name_that_nobody_has_asked_anything_of_is_doubted() -> None:
    assert "note: nothing has been asked of rnu before" in said("resume", "rnu", "--control", "c")


def test_without_a_folder_or_with_one_that_cannot_be_written_it_is_one_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("VITALS_CONTROL", raising=False)
    for command in ("requests", "resume"):
        assert "--control DIR, or VITALS_CONTROL" in said(command, "a", code=2)
    Path("file").touch()
    assert "file/a/requests cannot be written: Not a directory" in said("resume", "a", "--control", "file", code=2)
    assert said("requests", "a", "--control", "file") == "nothing has been asked of a\n"


def test_a_journal_of_another_version_is_no_obstacle() -> None:
    path = journal_of(Path(".vitals"), "a", "p")
    path.parent.mkdir(parents=True)
    path.write_text('{"type": "silence", "run": "a", "rule": 3}\n{"type": "new", "run": "a"}\nnonsense\n')
    said("silence", "a", "x", "--because", "y")
    assert Journal(path).ledger("a").silences[0].rule == "x"
