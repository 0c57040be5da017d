"""What the tests of messages share: alerts by hand, and text that means harm."""

from __future__ import annotations

from vitalsdsl_notify import Channels

from vitalsdsl.acting.tracker import Alert
from vitalsdsl.configuration import Channel
from vitalsdsl.language.rules import Level
from vitalsdsl.verdicts.verdict import Transition

HOSTILE = (
    "@channel @everyone x@here <!here> <@U123> <#C1> <https://evil.example|ok> [ok](https://evil.example) "
    "*bold* _it_ `c` ~~s~~ ||h|| \x1b[31mred\x1b[0m :fire: <b>x</b> @**all**\n# head\n> quote"
)


def alert(number: int = 1, level: Level = Level.ORANGE, text: str = "loss is 4", title: str = "") -> Alert:
    transition = Transition("run-a", 0, "spike", None, number, number, Level.GREEN, level, "condition", "loss is 4",
                            {"loss": 4.0}, 1 / 3, "p", "sha256:abcd1234")  # fmt: skip
    return Alert(f"id-{number}", title or f"{level.word}: spike at step {number} (run-a)", text, level, transition)


def port(monkeypatch: object, url: str, secret: str | None = None, at_most: str = "1000 per hour") -> Channels:
    """A port with the one channel `team`; `monkeypatch` sets the environment."""
    monkeypatch.setenv("TEAM_URL", url)  # type: ignore[attr-defined]
    if secret is not None:
        monkeypatch.setenv("TEAM_SECRET", secret)  # type: ignore[attr-defined]
    channel = Channel(url="env:TEAM_URL", secret=None if secret is None else "env:TEAM_SECRET", at_most=at_most)
    return Channels({"team": channel})
