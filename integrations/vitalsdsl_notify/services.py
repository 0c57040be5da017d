"""The services that apprise speaks. Loading this loads apprise."""

from __future__ import annotations

import apprise

from vitalsdsl.acting.tracker import Alert
from vitalsdsl.ground.errors import TrackerError, UsageError
from vitalsdsl.language.rules import Level
from vitalsdsl_notify.plain import escaped, inert, shortened
from vitalsdsl_notify.quiet import quiet
from vitalsdsl_notify.sender import Sender, refusal

_READ_MARKDOWN = frozenset({"discord", "guilded", "mmost", "mmosts", "revolt", "rocket", "rockets", "zulip"})
"""Services that read plain text as Markdown, by apprise's names; for the others apprise says, or they do not."""

_KINDS = {Level.GREEN: "info", Level.YELLOW: "warning", Level.ORANGE: "warning", Level.RED: "failure"}
_SPARE = 10
"""Characters that a title may take beside its own where it goes into the text."""


class Service(Sender):
    """One of apprise's services, by its URL. Messages go as plain text, cut to what the service takes.

    Raises UsageError, without a word of the address, where that is of no service.
    """

    def __init__(self, channel: str, address: str) -> None:
        self._channel = channel
        asset = apprise.AppriseAsset(
            app_id="vitals", app_desc="vitals", app_url="", image_url_mask="", image_url_logo="", image_path_mask="",
            async_mode=False, secure_logging=True,
        )  # fmt: skip
        with quiet():
            try:
                service = apprise.Apprise.instantiate(address, asset=asset)
            except Exception:  # whatever it says of an address holds the address
                service = None
        if service is None:
            raise UsageError(
                f"channel `{channel}`: its address is of no service that apprise knows; a webhook of your own needs a "
                "`secret`"
            )
        self._service = service
        names = _words(service.protocol) | _words(service.secure_protocol)
        self._reads_markdown = bool(names & _READ_MARKDOWN)

    def send(self, alert: Alert) -> None:
        title, text = inert(alert.title), inert(alert.text)
        if self._reads_markdown:
            title, text = escaped(title), escaped(text)
        service = self._service
        title = shortened(title, service.title_maxlen or 250, "…")
        within = service.title_maxlen <= 0 or service.overflow_amalgamate_title
        text = shortened(text, service.body_maxlen - (len(title) + _SPARE if within else 0))
        trouble, done = "", False
        with quiet() as statuses:
            try:
                done = bool(service.notify(body=text, title=title, notify_type=_KINDS[alert.level], body_format="text"))
            except Exception as error:  # a service's own fault; its text may hold the address
                trouble = type(error).__name__
        if done:
            return
        if statuses:
            raise refusal(self._channel, statuses[-1])
        raise TrackerError(f"channel `{self._channel}` takes no message now{f' ({trouble})' if trouble else ''}")


def _words(names: object) -> set[str]:
    """A service's names as apprise gives them: one, several or none."""
    return {names} if isinstance(names, str) else set(names) if isinstance(names, (tuple, list)) else set()
