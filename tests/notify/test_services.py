"""Apprise's services, against receivers on the loopback: what they get is plain, short enough, and tells no secret."""

from __future__ import annotations

import importlib
import logging
import threading
from typing import Any

import pytest
from sending import HOSTILE, alert, port
from vitalsdsl_notify.quiet import quiet

from vitalsdsl.ground.errors import TrackerError, UsageError
from vitalsdsl.language.rules import Level

SLACK = "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
DISCORD = "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js"
SECRETS = ("TIiajkdnlazkcOXrIdevi7FQ", "JHMHI8qBe7bk2ZwO5U711o3dV_js", "t0ken", "passw0rd")
ADDRESSES = ("hooks.slack.com", "127.0.0.1", "discord", *SECRETS)

CALLS = ("@channel", "@everyone", "x@here", "<!here", "<@U", "<#C", "<https:", "](", "<b>", "\x1b", "@**all", ":fire:")
"""What a service would read as a call, a mask, a tag or a picture."""


def plugin(name: str) -> Any:
    return importlib.import_module(f"apprise.plugins.{name}")


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, receiver) -> None:
    """Slack and Discord are on the loopback, and nobody waits between messages."""
    monkeypatch.setattr(plugin("slack").NotifySlack, "webhook_url", f"{receiver.url}/services")
    monkeypatch.setattr(plugin("discord").NotifyDiscord, "notify_url", f"{receiver.url}/webhooks")
    monkeypatch.setattr(plugin("base").NotifyBase, "request_rate_per_sec", 0)
    for name in ("slack.NotifySlack", "discord.NotifyDiscord", "custom_json.NotifyJSON"):
        module, _, kind = name.partition(".")
        monkeypatch.setattr(getattr(plugin(module), kind), "request_rate_per_sec", 0)


def told(got: dict[str, Any], service: str) -> tuple[str, str]:
    """The title and the text that a service got."""
    if service == "slack":
        return got["attachments"][0]["title"], got["attachments"][0]["text"]
    if service == "discord":
        title, _, text = got["content"].partition("\r\n")
        return title, text
    return got["title"], got["message"]


def address(service: str, port: int) -> str:
    return {"slack": SLACK, "discord": DISCORD, "json": f"json://127.0.0.1:{port}/t0ken"}[service]


@pytest.mark.parametrize("service", ["slack", "discord", "json"])
def test_a_message_comes_with_its_title_and_its_text(service: str, monkeypatch: pytest.MonkeyPatch, receiver) -> None:
    team = port(monkeypatch, address(service, receiver.port))
    for number in (1, 2):
        assert team.notify("team", alert(number, text="loss is 4\nhttps://host/a_b?c=1")) is None
    found = [told(got.json, service) for got in receiver.received]
    link = "https://host/a_b?c=1"
    assert found == [(f"orange: spike at step {n} (run-a)", f"loss is 4\n{link}") for n in (1, 2)]


@pytest.mark.parametrize("service", ["slack", "discord", "json"])
def test_nothing_that_a_rule_or_a_run_says_is_read_as_markup(
    service: str, monkeypatch: pytest.MonkeyPatch, receiver
) -> None:
    port(monkeypatch, address(service, receiver.port)).notify("team", alert(text=HOSTILE, title=HOSTILE))
    title, text = told(receiver.received[0].json, service)
    for call in CALLS:
        assert call in HOSTILE
        assert call not in title + text
    if service == "slack":
        assert receiver.received[0].json["mrkdwn"] is False
    if service == "discord":
        for sign in ("*bold*", "_it_", "`c`", "~~s~~", "||h||", "\n# head", "\n> quote"):
            assert sign in HOSTILE and sign not in text


def test_mails_are_plain_text(monkeypatch: pytest.MonkeyPatch, post) -> None:
    url = f"mailto://user:passw0rd@127.0.0.1:{post.port}?from=a@example.org&to=b@example.org&mode=insecure"
    team = port(monkeypatch, url)
    assert team.notify("team", alert(text=f"loss is 4\n{HOSTILE}")) is None
    (mail,) = post.mails
    assert mail["Subject"] == "orange: spike at step 1 (run-a)" and mail["To"] == "b@example.org"
    parts = {part.get_content_type(): part.get_payload(decode=True) for part in mail.walk() if not part.is_multipart()}
    assert b"loss is 4" in parts["text/plain"]
    assert b"<b>" not in b"".join(parts.values()) and b"<a " not in b"".join(parts.values())


@pytest.mark.parametrize(("service", "most"), [("slack", 35_000), ("discord", 2000), ("json", 32_768)])
def test_a_long_message_is_cut_within_the_services_limit_and_says_so(
    service: str, most: int, monkeypatch: pytest.MonkeyPatch, receiver
) -> None:
    port(monkeypatch, address(service, receiver.port)).notify("team", alert(text="a_b " * 20_000))
    (got,) = receiver.received
    title, text = told(got.json, service)
    whole = got.json["content"] if service == "discord" else text
    assert most - 100 < len(whole) <= most
    assert "more characters are on the run" in text.splitlines()[-1]


@pytest.mark.parametrize("service", ["slack", "discord", "json"])
@pytest.mark.parametrize(("status", "final"), [(404, True), (500, False)])
def test_a_refusal_is_told_without_the_address_in_any_log(
    service: str, status: int, final: bool, monkeypatch: pytest.MonkeyPatch, receiver,
    all_logs: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    receiver.statuses = [status]
    team = port(monkeypatch, address(service, receiver.port))
    with pytest.raises(TrackerError, match="channel `team`") as raised:
        team.notify("team", alert(level=Level.RED))
    assert raised.value.is_final is final and str(status) in str(raised.value)
    assert raised.value.__context__ is None and raised.value.__cause__ is None
    assert team.notify("team", alert()) is None
    said = all_logs.text + "".join(capfd.readouterr()) + repr(raised.value)
    assert not [word for word in ADDRESSES if word in said]


def test_a_mail_server_that_refuses_the_password_is_told_without_it(
    monkeypatch: pytest.MonkeyPatch, post, all_logs: pytest.LogCaptureFixture
) -> None:
    team = port(monkeypatch, f"mailto://user:t0ken@127.0.0.1:{post.port}?from=a@b.org&to=b@b.org&mode=insecure")
    with pytest.raises(TrackerError, match="channel `team` takes no message now") as raised:
        team.notify("team", alert())
    ours = [r.getMessage() for r in all_logs.records if not r.name.startswith("mail.log")]  # that of the test's server
    assert not post.mails and "t0ken" not in " ".join(ours) + repr(raised.value)


def test_a_service_that_is_not_there_is_told_without_its_address(
    monkeypatch: pytest.MonkeyPatch, all_logs: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    for url in ("json://127.0.0.1:9/t0ken", "mailto://user:passw0rd@127.0.0.1:9?from=a@b.org&mode=insecure"):
        team = port(monkeypatch, url)
        with pytest.raises(TrackerError, match="channel `team` takes no message now") as raised:
            team.notify("team", alert())
        assert not raised.value.is_final and raised.value.__context__ is None
        said = all_logs.text + "".join(capfd.readouterr()) + repr(raised.value)
        assert not [word for word in ADDRESSES if word in said]


@pytest.mark.parametrize(
    "bad", ["https://host.example/t0ken", "nix://t0ken", "t0ken", "discord://t0ken", "slack://t0ken/x"]
)
def test_an_address_of_no_service_is_refused_at_the_start_without_a_word_of_it(
    bad: str, monkeypatch: pytest.MonkeyPatch, all_logs: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match="its address is of no service that apprise knows") as raised:
        port(monkeypatch, bad)
    assert "t0ken" not in all_logs.text + "".join(capfd.readouterr()) + str(raised.value)


def test_what_others_log_meanwhile_is_heard(
    monkeypatch: pytest.MonkeyPatch, all_logs: pytest.LogCaptureFixture
) -> None:
    apprises = logging.getLogger("apprise")
    with quiet() as statuses:
        apprises.warning("Failed to send: error=410.")
        other = threading.Thread(target=lambda: apprises.warning("of another thread"))
        other.start()
        other.join()
    apprises.warning("afterwards")
    assert [r.getMessage() for r in all_logs.records] == ["of another thread", "afterwards"]
    assert statuses == [410] and apprises.filters == []
