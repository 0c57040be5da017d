"""Which server of W&B is meant, and the key for it: found where W&B's own programs look, and never shown."""

from __future__ import annotations

import configparser
import netrc
import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from vitalsdsl.ground.errors import TrackerError

DEFAULT = "https://api.wandb.ai"

_CLOUD = ("api.wandb.ai", "wandb.ai", "api.forge.coreweave.com", "forge.coreweave.com")
"""One deployment under several names: a key for one is a key for all."""


@dataclass(frozen=True)
class Server:
    """One deployment: where its interface is (`base`) and where a person looks at it (`app`)."""

    base: str
    app: str

    def has(self, url: str) -> bool:
        """Whether a page's address is on this deployment."""
        host = urlsplit(url).netloc.lower()
        return host in _CLOUD if self.is_cloud else host in (urlsplit(self.base).netloc, urlsplit(self.app).netloc)

    @property
    def is_cloud(self) -> bool:
        return urlsplit(self.base).netloc in _CLOUD

    @property
    def host(self) -> str:
        return urlsplit(self.base).netloc


@dataclass(frozen=True)
class Key:
    """A secret: no text of it shows what it is."""

    value: str = field(repr=False)

    def __str__(self) -> str:
        return "(a key)"


def find_server() -> Server:
    """WANDB_BASE_URL, else the settings file of the working folder, else the user's, else W&B's own cloud.

    Raises TrackerError where the address is none.
    """
    base = os.environ.get("WANDB_BASE_URL") or _from_settings() or DEFAULT
    parts = urlsplit(base)
    host = parts.netloc.lower()
    if parts.scheme not in ("http", "https") or not host or "@" in host:
        raise TrackerError("the address of the W&B server (WANDB_BASE_URL) is no http address", is_final=True)
    if host in ("api.forge.coreweave.com", "forge.coreweave.com"):
        return Server("https://api.forge.coreweave.com", "https://forge.coreweave.com/wandb")
    if host in _CLOUD:
        return Server(DEFAULT, "https://wandb.ai")
    base = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
    app = os.environ.get("WANDB_APP_URL", "").rstrip("/") or base.replace("://api.", "://app.")
    return Server(base, app)


def find_key(server: Server) -> Key:
    """WANDB_API_KEY, else the netrc file's for the server, under any of its names.

    Raises TrackerError, final, where there is none or it cannot be one.
    """
    found = os.environ.get("WANDB_API_KEY") or _from_netrc(server)
    if not found:
        token = os.environ.get("WANDB_IDENTITY_TOKEN_FILE")
        hint = "an identity token alone does not do here; " if token else ""
        text = f"there is no key for W&B at {server.host}: {hint}set WANDB_API_KEY, or run `wandb login`"
        raise TrackerError(text, is_final=True)
    key = found.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise TrackerError("the key for W&B has characters that no key has", is_final=True)
    return Key(key)


def _from_settings() -> str | None:
    folder = Path(os.environ.get("WANDB_DIR") or ".") / "wandb"
    own = Path(os.environ.get("WANDB_CONFIG_DIR") or "~/.config/wandb").expanduser()
    for path in (folder / "settings", own / "settings"):
        parser = configparser.ConfigParser(interpolation=None)
        try:
            parser.read(path, encoding="utf-8")
        except (OSError, ValueError, configparser.Error):  # as for W&B, a file that cannot be read is an empty one
            continue
        found = parser.get("default", "base_url", fallback="").strip()
        if found:
            return found
    return None


def _from_netrc(server: Server) -> str | None:
    named = os.environ.get("NETRC")
    paths = [Path(named)] if named else [Path("~/.netrc"), Path("~/_netrc")]
    for path in paths:
        try:
            file = netrc.netrc(str(path.expanduser()))
        except (OSError, ValueError, netrc.NetrcParseError):
            continue
        for host in (server.host, *(_CLOUD if server.is_cloud else ())):
            known = file.authenticators(host)
            if known is not None and known[2]:
                return known[2]
    return None
