"""What `vitals doctor` says of W&B: whether it answers, and takes the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from vitalsdsl_wandb import graphql
from vitalsdsl_wandb.reachable import look

from vitalsdsl.ground.errors import TrackerError


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("WANDB_MODE", "WANDB_BASE_URL", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "config"))


def test_without_a_key_or_a_wish_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphql, "GraphQL", None)
    ((what, state, said),) = look()
    assert (what, state) == ("W&B", "absent") and said.startswith("not asked (optional): there is no key for W&B")
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert list(look()) == [("WANDB_MODE", "ok", "offline: alerts are kept and sent at `wandb sync`")]


@pytest.mark.parametrize(
    ("answer", "state", "said"),
    [
        ({"viewer": {"username": "ann"}}, "ok", "api.wandb.ai answers, to ann"),
        ({"viewer": None}, "bad", "does not know the key"),
        (TrackerError("W&B at api.wandb.ai does not answer in time"), "bad", "does not answer in time"),
    ],
)
def test_the_server_is_asked_who_the_key_is_for(
    answer: Any, state: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Client:
        def ask(self, question: str, variables: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        def close(self) -> None:
            pass

    monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
    monkeypatch.setattr(graphql, "GraphQL", Client)
    ((what, found, told),) = look()
    assert (what, found) == ("W&B", state) and said in told and "kkkk" not in told
