"""What a policy is made of: pydantic models for whoever imports the package, and the same without pydantic in the program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pydantic
import pytest

from vitalsdsl.ground.source import Source
from vitalsdsl.language import expressions, model, rules
from vitalsdsl.language.parser import parse

ROOT = Path(__file__).parent.parent
PACKS = sorted(str(path) for path in (ROOT / "rules" / "vitalsdsl_rules").glob("*.vitals"))

ALL_THAT_IS_READ = """
import sys
from pathlib import Path
from vitalsdsl.ground.source import Source
from vitalsdsl.language import model
if sys.argv[1] == "plain":
    model.plain_ones()
from vitalsdsl.language.digest import digest
from vitalsdsl.language.parser import parse
for path in sys.argv[2:]:
    policy = parse(Source(path, Path(path).read_text("utf-8"))).policy
    print(digest(policy))
    for node in policy.walk():
        simple = {k: v for k, v in vars(node).items() if isinstance(v, (str, int, float, type(None)))}
        print(type(node).__name__, [*vars(node)], simple, node.span, [str(inner.span) for inner in node.children()])
print("pydantic" in sys.modules)
"""


def policy() -> rules.Policy:
    return parse(Source("p", "when loss > 3 for 2 steps -> yellow")).policy


def test_a_policy_is_of_pydantic_models_that_are_frozen_and_validated() -> None:
    read = policy()
    assert all(isinstance(node, pydantic.BaseModel) for node in read.walk())
    (rule,) = read.of(rules.Rule)
    with pytest.raises(pydantic.ValidationError):
        rule.name = "other"
    with pytest.raises(pydantic.ValidationError):
        expressions.Name(span=rule.span, path=["loss"])  # type: ignore[arg-type]
    with pytest.raises(pydantic.ValidationError):
        expressions.Name(span=rule.span, path="loss", color="red")  # type: ignore[call-arg]
    assert expressions.Name(span=rule.span, path="loss").model_dump(exclude={"span"}) == {
        "grouped": False, "path": "loss", "quoted": False,
    }  # fmt: skip


def test_the_program_reads_the_same_without_pydantic() -> None:
    said = {}
    for kind in ("pydantic", "plain"):
        done = subprocess.run(
            [sys.executable, "-c", ALL_THAT_IS_READ, kind, *PACKS], capture_output=True, text=True, check=True
        )
        *said[kind], loaded = done.stdout.splitlines()
        assert loaded == str(kind == "pydantic")
    assert len(said["plain"]) > 1000
    assert said["plain"] == said["pydantic"]


def test_to_want_plain_ones_when_there_are_others_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "_plain", model._plain)
    model.plain_ones()
    assert isinstance(policy(), pydantic.BaseModel)
