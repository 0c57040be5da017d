"""A webhook of one's own: what it gets, how it knows from whom, and what its answers do."""

from __future__ import annotations

import hashlib
import hmac
import time

import pytest
from sending import HOSTILE, alert, port
from vitalsdsl_notify import verify

from vitalsdsl.ground.errors import TrackerError, UsageError

SECRET = "s3cr3t-of-both"


def test_it_gets_the_message_as_json_signed_with_the_secret(monkeypatch: pytest.MonkeyPatch, receiver) -> None:
    port(monkeypatch, f"{receiver.url}/hook/t0ken", SECRET).notify("team", alert(7, text=HOSTILE))
    (got,) = receiver.received
    assert got.path == "/hook/t0ken"
    assert {k: got.json[k] for k in ("type", "id", "level", "title", "text")} == {
        "type": "message", "id": "id-7", "level": "orange", "title": "orange: spike at step 7 (run-a)", "text": HOSTILE,
    }  # fmt: skip
    assert (got.json["transition"]["rule"], got.json["transition"]["values"]) == ("spike", {"loss": 4.0})
    header = got.headers["Vitals-Signature"]
    stamp, signature = header.removeprefix("t=").split(",v1=")
    assert abs(int(stamp) - time.time()) < 30
    assert signature == hmac.new(SECRET.encode(), stamp.encode() + b"." + got.body, hashlib.sha256).hexdigest()
    assert verify(header, got.body, SECRET, time.time())
    assert not verify(header, got.body, "another", time.time())
    assert not verify(header, got.body + b" ", SECRET, time.time())
    assert not verify(header, got.body, SECRET, time.time() + 301)
    assert not verify(header.replace(stamp, str(int(stamp) + 1)), got.body, SECRET, time.time())


@pytest.mark.parametrize(
    "header", ["", "t=1", "v1=" + "a" * 64, "t=x,v1=" + "a" * 64, "t=1,v1=é", "t=1,v1=" + "a" * 64]
)
def test_a_header_that_is_none_is_not_right_and_no_error(header: str) -> None:
    assert verify(header, b"{}", SECRET, 1.0) is False


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 410])
def test_a_refusal_is_for_good(status: int, monkeypatch: pytest.MonkeyPatch, receiver) -> None:
    receiver.statuses = [status]
    with pytest.raises(TrackerError, match=f"`team` refuses messages .{status}.") as raised:
        port(monkeypatch, f"{receiver.url}/t0ken", SECRET).notify("team", alert())
    assert raised.value.is_final and len(receiver.received) == 1


def test_trouble_may_pass(monkeypatch: pytest.MonkeyPatch, receiver) -> None:
    receiver.statuses, receiver.retry_after = [429, 503], "7"
    team = port(monkeypatch, f"{receiver.url}/t0ken", SECRET)
    for status in (429, 503):
        with pytest.raises(TrackerError, match=f"cannot take messages now .{status}.") as raised:
            team.notify("team", alert())
        assert (raised.value.is_final, raised.value.retry_after) == (False, 7.0)
    assert team.notify("team", alert()) is None


def test_one_that_is_not_there_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TrackerError, match=r"^channel `team` does not answer .ConnectionError.$") as raised:
        port(monkeypatch, "http://127.0.0.1:9/t0ken", SECRET).notify("team", alert())
    assert not raised.value.is_final and raised.value.__context__ is None


def test_an_address_that_is_none_is_refused_at_the_start_without_a_word_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for bad in ("ftp://host/t0ken", "t0ken", "https://host/t0ken\nX: y"):
        with pytest.raises(UsageError, match="channel `team`") as raised:
            port(monkeypatch, bad, SECRET)
        assert "t0ken" not in str(raised.value)
