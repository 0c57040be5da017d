"""What a person writes for a project or a run: `ENTITY/PROJECT`, `ENTITY/PROJECT/RUN`, or a page's address."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from vitalsdsl.ground.errors import UsageError
from vitalsdsl_wandb.server import Server

_PAGES = ("workspace", "table", "overview", "reports", "sweeps", "artifacts", "charts", "automations", "panel")
_FORMS = "write wandb:ENTITY/PROJECT, wandb:ENTITY/PROJECT/RUN, or paste the address of its page"


@dataclass(frozen=True)
class Address:
    """A project (`run` is empty) or one run of it, and the server where an address from the browser says which."""

    entity: str
    project: str
    run: str = ""
    page: str = ""

    @property
    def is_pattern(self) -> bool:
        """Whether it stands for all projects whose names fit, as `llm-*` does; W&B takes no such sign in a name."""
        return bool(set(self.project) & set("*[")) and not self.run and not self.page

    @property
    def uri(self) -> str:
        """The reference that finds it again."""
        return "wandb:" + "/".join(part for part in (self.entity, self.project, self.run) if part)

    def url(self, server: Server) -> str:
        """Where a person can look."""
        project = f"{server.app}/{quote(self.entity, safe='')}/{quote(self.project, safe='')}"
        return f"{project}/runs/{quote(self.run, safe='')}" if self.run else project

    def check(self, server: Server) -> None:
        """Raise UsageError where its page is on another server than the key is for."""
        if self.page and not server.has(self.page):
            text = f"this page is on {urlsplit(self.page).netloc}, but W&B is set to {server.host}: set WANDB_BASE_URL"
            raise UsageError(text)


def is_page(url: str, server: Server) -> bool:
    """Whether an address is one of W&B's pages: of the server that is set, or of any server that has runs as W&B has."""
    parts = urlsplit(url)
    if parts.fragment.startswith("/"):
        return False  # the pages of others, such as MLflow, are told apart behind the `#` only
    return server.has(url) or re.search(r"^/[^/]+/[^/]+/runs/[^/]+", parts.path) is not None


def run_page(url: str) -> str:
    """The address of a run's page without what stands behind the run: tabs, and the state of the page. Any other address
    as it is.

    >>> run_page("https://wandb.ai/team/llm/runs/3kx9/overview?nw=nwuser")
    'https://wandb.ai/team/llm/runs/3kx9'
    """
    found = re.match(r"https?://[^/]+(?:/[^/?#]+)?/[^/?#]+/[^/?#]+/runs/[^/?#]+", url)
    return found[0] if found is not None else url


def parse(reference: str) -> Address:
    """What a reference, without its `wandb:`, means. Raises UsageError.

    >>> parse("team/llm/runs/3kx9").uri
    'wandb:team/llm/3kx9'
    >>> parse("https://wandb.ai/team/my%20llm/runs/3kx9/overview?nw=nwuser").uri
    'wandb:team/my llm/3kx9'
    """
    text = reference.strip()
    if text.startswith(("http://", "https://")):
        parts = [unquote(part) for part in urlsplit(text).path.split("/") if part]
        if urlsplit(text).netloc.lower() == "forge.coreweave.com" and parts[:1] == ["wandb"]:
            parts = parts[1:]
        if len(parts) >= 4 and parts[2] == "runs":
            return Address(parts[0], parts[1], parts[3], text)
        if len(parts) == 2 or len(parts) > 2 and parts[2] in _PAGES:
            return Address(parts[0], parts[1], page=text)
        raise UsageError(f"`{reference}` is the page of no project and no run: {_FORMS}")
    parts = [part.strip() for part in text.strip("/").split("/")]
    if len(parts) == 4 and parts[2] == "runs":
        del parts[2]
    if not 2 <= len(parts) <= 3 or not all(parts) or any(mark in text for mark in "?#"):
        raise UsageError(f"`wandb:{reference}` names no project and no run: {_FORMS}")
    return Address(*parts)
