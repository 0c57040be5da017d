"""Who hears that it is over, when, and how often."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings

from tests.acting import G, O, R, Y, all_clears, change, dispatcher, streams, three
from vitalsdsl.acting.journal import Journal
from vitalsdsl.acting.memory import Memory
from vitalsdsl.acting.tracker import Ability
from vitalsdsl.verdicts.verdict import Transition

OPS = 'level yellow do tag, notify("ops")\nlevel red do alert, tag, notify("ops"), notify("lead")'


def channels(**more: object) -> Memory:
    return Memory(channels=["ops", "lead"], **more)  # type: ignore[arg-type]


def heard(port: Memory) -> list[tuple[str, str]]:
    return [(channel, alert.title) for channel, alert in port.notices]


def test_a_channel_hears_once_that_all_it_was_told_of_is_over() -> None:
    port = channels()
    acts = dispatcher(three(OPS), port)
    for t in [change("a", 10, R), change("b", 12, Y), change("a", 20, G, R), change("b", 30, G, Y)]:
        acts.take([t])
    assert acts.close(1.0)
    assert heard(port) == [
        ("ops", "red: a at step 10 (run)"), ("lead", "red: a at step 10 (run)"), ("ops", "yellow: b at step 12 (run)"),
        ("lead", "green: a is over at step 20 (run)"), ("ops", "green: 2 rules are over at step 30 (run)"),
    ]  # fmt: skip
    assert port.notices[3][1].text.splitlines() == ["a was red at step 10", "the run is yellow: b yellow@12"]
    assert port.notices[4][1].text.splitlines() == [
        "a was red at step 10", "b was yellow at step 12", "the run is green",
    ]  # fmt: skip
    assert [alert.level for alert in port.alerts] == [R, G]


def test_of_rules_that_get_well_at_one_step_there_is_one_word() -> None:
    port = channels()
    acts = dispatcher(three(OPS), port)
    acts.take([change("a", 10, Y), change("b", 10, Y)])
    found = acts.take([change("a", 20, G, Y), change("b", 20, G, Y)])
    acts.close(1.0)
    assert [d.text for d in found] == ['tell that it is over: notify("ops")', "only the tags: back to green"]
    assert [alert.text.splitlines()[:2] for _, alert in port.notices[1:]] == [
        ["a was yellow at step 10", "b was yellow at step 10"]
    ]


def test_what_a_channel_was_not_told_of_it_does_not_hear_the_end_of() -> None:
    port = channels()
    text = 'rule a { when loss > 3 -> yellow do notify("ops") cooldown 50 steps }\nrule b { when loss > 3 -> yellow }'
    acts = dispatcher(text, port)
    own = {"clause": 0, "rung": 0}
    flaps = [
        change("a", 10, Y, **own), change("a", 20, G, Y), change("a", 30, Y, **own), change("a", 40, G, Y)
    ]  # fmt: skip
    for t in [*flaps, change("b", 50, Y), change("b", 60, G, Y)]:
        acts.take([t])
    acts.close(1.0)
    # The second time falls into the cooldown, and b tells the run alone.
    assert heard(port) == [("ops", "yellow: a at step 10 (run)"), ("ops", "green: a is over at step 20 (run)")]


def test_of_a_silenced_rule_nobody_hears_the_end_and_it_holds_nothing_up() -> None:
    port = channels()
    acts = dispatcher(three(OPS), port)
    acts.take([change("a", 10, Y)])
    acts.take([change("b", 11, Y)])
    acts.silence("a", "the loader")
    acts.take([change("b", 20, G, Y)])
    acts.take([change("a", 30, G, Y)])
    acts.close(1.0)
    assert [alert.title for _, alert in port.notices[2:]] == ["green: b is over at step 20 (run)"]


def test_what_was_so_before_the_watch_began_is_told_to_be_over_to_nobody() -> None:
    port = channels()
    acts = dispatcher(three(OPS), port)
    acts.take([change("a", 10, R)], is_history=True)
    acts.take([change("a", 20, G, R)])
    acts.close(1.0)
    assert port.notices == [] and port.alerts == []


def test_the_word_that_it_is_over_spends_no_budget_and_starts_no_cooldown() -> None:
    port = Memory()
    acts = dispatcher("limit alert 2 per 1000 steps\nrule a { when loss > 3 -> yellow cooldown 20 steps }", port)
    for t in [change("a", 0, Y), change("a", 19, G, Y), change("a", 25, Y), change("a", 30, G, Y)]:
        acts.take([t])
    acts.close(1.0)
    assert [alert.level for alert in port.alerts] == [Y, G, Y, G]


def test_a_watcher_that_comes_after_says_it_and_says_it_once(tmp_path: Path) -> None:
    path = tmp_path / "a" / "p.journal.jsonl"
    first, second, third = channels(), channels(), channels()
    acts = dispatcher(three(OPS), first, journal=Journal(path))
    acts.take([change("a", 10, Y)])
    acts.close(1.0)
    for port in (second, third):
        later = dispatcher(three(OPS), port, journal=Journal(path))
        later.take([change("a", 10, Y), change("a", 20, G, Y)])
        later.close(1.0)
    assert (heard(second), heard(third)) == ([("ops", "green: a is over at step 20 (run)")], [])


def test_a_word_that_was_not_sent_is_sent_by_the_next_watcher_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a" / "p.journal.jsonl"
    hangs, other, later = channels(delay=60.0), channels(), channels()
    for port, journal, threads in ((hangs, Journal(path), True), (other, Journal(), False)):
        acts = dispatcher(three(OPS), port, journal=journal, start_worker=threads)
        acts.take([change("a", 10, R)])
        acts.take([change("a", 20, G, R, message="back to green")])
        assert acts.written() and acts.close(0.01 if threads else 1.0) is not threads
    dispatcher(three(OPS), later, journal=Journal(path)).close(1.0)
    hangs.release()
    said = [[(channel, a.id, a.title, a.text) for channel, a in port.notices] for port in (other, later)]
    assert said[0] == said[1] and len(said[0]) == 4


@settings(max_examples=60, deadline=None)
@given(streams())
def test_the_words_that_it_is_over_follow_from_the_transitions_alone(batches: list[list[Transition]]) -> None:
    port = Memory(can=[Ability.ALERT])
    acts = dispatcher(three(), port)
    for batch in batches:
        acts.take(batch)
    acts.close(1.0)
    over = [alert.id for alert in port.alerts if alert.level is G]
    assert len(over) == len(set(over))
    assert set(over) == all_clears([t for batch in batches for t in batch])
    assert {alert.id for alert in port.alerts if alert.level >= O} >= {
        t.id for batch in batches for t in batch if t.to >= O and t.to > t.from_ and t.reason != "superseded"
    }
