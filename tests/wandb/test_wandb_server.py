"""Where the key and the server are found: where W&B's own programs look."""

from __future__ import annotations

from pathlib import Path

import pytest
from vitalsdsl_wandb.server import Key, find_key, find_server

from vitalsdsl.ground.errors import TrackerError

NAMES = ("WANDB_BASE_URL", "WANDB_API_KEY", "WANDB_CONFIG_DIR", "WANDB_DIR", "WANDB_APP_URL", "NETRC",
         "WANDB_IDENTITY_TOKEN_FILE")  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def settings(path: Path, url: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"[default]\nbase_url = {url}\nentity = 100%\n")


def test_the_address_is_looked_for_in_the_environment_then_the_folder_then_at_home(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_server().base == "https://api.wandb.ai"
    settings(home / ".config/wandb/settings", "https://home.example/")
    assert find_server().base == "https://home.example"
    settings(home / "work/wandb/settings", "https://folder.example")
    assert find_server().base == "https://folder.example"
    monkeypatch.setenv("WANDB_BASE_URL", "https://api.set.example/sub/")
    assert (find_server().base, find_server().app) == ("https://api.set.example/sub", "https://app.set.example/sub")


@pytest.mark.parametrize(
    ("url", "base", "app"),
    [
        ("https://api.wandb.ai", "https://api.wandb.ai", "https://wandb.ai"),
        ("https://wandb.ai/", "https://api.wandb.ai", "https://wandb.ai"),
        ("https://api.forge.coreweave.com", "https://api.forge.coreweave.com", "https://forge.coreweave.com/wandb"),
        (
            "https://forge.coreweave.com/api/wandb",
            "https://api.forge.coreweave.com",
            "https://forge.coreweave.com/wandb",
        ),
    ],
)
def test_the_cloud_goes_by_several_names(monkeypatch: pytest.MonkeyPatch, url: str, base: str, app: str) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", url)
    server = find_server()
    assert (server.base, server.app) == (base, app)
    assert server.has("https://wandb.ai/a/b") and server.has("https://forge.coreweave.com/wandb/a/b")
    assert not server.has("https://evil.example/wandb.ai/a/b")


@pytest.mark.parametrize("url", ["api.wandb.ai", "ftp://x", "http://", "https://user:secret@host"])
def test_an_address_that_is_none_is_final_and_not_repeated(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", url)
    with pytest.raises(TrackerError) as caught:
        find_server()
    assert caught.value.is_final and "secret" not in str(caught.value)


@pytest.mark.parametrize("machine", ["api.wandb.ai", "api.forge.coreweave.com"])
def test_a_key_for_one_name_of_the_cloud_is_a_key_for_all(home: Path, machine: str) -> None:
    (home / ".netrc").write_text(f"machine {machine}\n  login user\n  password {'k' * 40}\n")
    assert find_key(find_server()).value == "k" * 40


def test_the_environment_outranks_netrc_and_netrc_knows_servers_apart(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "other").write_text("machine one.example\n  login user\n  password one\n")
    monkeypatch.setenv("NETRC", str(home / "other"))
    monkeypatch.setenv("WANDB_BASE_URL", "https://one.example")
    assert find_key(find_server()).value == "one"
    monkeypatch.setenv("WANDB_API_KEY", " set \n")
    assert find_key(find_server()).value == "set"
    monkeypatch.delenv("WANDB_API_KEY")
    monkeypatch.setenv("WANDB_BASE_URL", "https://two.example")
    with pytest.raises(TrackerError, match="there is no key for W&B at two.example: set WANDB_API_KEY"):
        find_key(find_server())


def test_a_key_that_is_none_is_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "my secret")
    with pytest.raises(TrackerError) as caught:
        find_key(find_server())
    assert "secret" not in str(caught.value) and "secret" not in f"{Key('secret')} {Key('secret')!r}"


def test_an_identity_token_is_said_not_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_IDENTITY_TOKEN_FILE", "/token")
    with pytest.raises(TrackerError, match="an identity token alone does not do here"):
        find_key(find_server())
