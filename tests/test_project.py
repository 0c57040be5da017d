"""The project itself: the README runs, imports go downward, types hold, style is one, starts are light."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from vitalsdsl.cli.app import NO_COMMANDS
from vitalsdsl.language.yaml.schema import json_schema
from vitalsdsl.policies.policy import read
from vitalsdsl.suite import load_tests

ROOT = Path(__file__).parent.parent


def run(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, cwd=ROOT, **options)  # type: ignore[call-overload,no-any-return]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)


def test_the_readme_s_example_prints_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "spikes.vitals").write_text(blocks("vitals")[0], "utf-8")
    (tmp_path / "spikes.vtest.yaml").write_text(blocks("yaml")[0], "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", blocks("python")[0]], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert done.stdout == blocks("text")[0]
    for command in ("check", "test"):
        words = [sys.executable, "-m", "vitalsdsl", command, "spikes.vitals"]
        done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


WHOLE = [
    text
    for text in re.findall(r"```\w*\n(.*?)```", (ROOT / "docs" / "language.md").read_text("utf-8"), re.DOTALL)
    if re.match(r"(vitals|policy|when|rule)\b", text)
]


@pytest.mark.parametrize("text", WHOLE, ids=lambda text: text.split("\n")[0][:30])
def test_the_policies_of_the_language_page_have_no_errors(text: str, tmp_path: Path) -> None:
    is_yaml, is_suite = text.startswith(("vitals:", "policy:")), "\ntests:" in text
    path = tmp_path / ("llm.vtest.yaml" if is_suite else "llm.yaml" if is_yaml else "llm.vitals")
    path.write_text(text, "utf-8")
    if is_suite:
        assert [test.name for test in load_tests(path).tests] == [
            "a sustained climb goes orange after 20 steps",
            "a real run",
        ]
    else:
        assert [d.render() for d in read(path)[1] if d.is_error] == []


def test_the_language_page_has_its_policies() -> None:
    assert len(WHOLE) == 4


def test_the_readme_names_every_command() -> None:
    said = (ROOT / "README.md").read_text("utf-8")
    commands = {p.stem for p in (ROOT / "vitalsdsl" / "cli").glob("*.py")} - {"__init__", *NO_COMMANDS}
    assert {c for c in commands if f"vitals {c}" not in said} == set()


@pytest.mark.parametrize("words", [("-m", "ruff", "check", "."), ("-m", "mypy")], ids=["ruff", "mypy"])
def test_style_and_types_hold(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert done.returncode == 0, done.stdout[-4000:]


def test_every_package_of_the_wheel_says_that_it_is_typed() -> None:
    listed = re.search(r"packages = \[(.*?)\]", (ROOT / "pyproject.toml").read_text("utf-8"), re.DOTALL)
    assert listed is not None
    packages = re.findall(r'"(.+?)"', listed[1])
    assert len(packages) == 8
    assert [name for name in packages if not (ROOT / name / "py.typed").is_file()] == []


def test_imports_go_downward() -> None:
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = run("-c", code)
    assert done.returncode == 0, done.stdout[-4000:]


def test_the_core_loads_no_tracker_torch_numpy_or_pandas() -> None:
    code = """
        import sys, vitalsdsl
        vitalsdsl.load, vitalsdsl.watch
        print([m for m in ("wandb", "mlflow", "torch", "numpy", "pandas", "rich") if m in sys.modules])
    """
    assert run("-c", textwrap.dedent(code)).stdout.strip() == "[]"


NOT_TO_CHECK = (
    "pydantic", "hashlib", "numpy", "rich", "ruamel", "lark", "mlflow", "wandb", "torch", "subprocess", "importlib.metadata", "vitalsdsl.configuration",
    "vitalsdsl.acting.journal", "vitalsdsl.ground.points", "vitalsdsl.language.syntax", "vitalsdsl.policies.git",
    "vitalsdsl.verdicts.verdict", "vitalsdsl.streaming.stream", "vitalsdsl.nodes.base", "vitalsdsl.language.yaml.policy", "vitalsdsl.ops.slope",
)  # fmt: skip
"""What `vitals check` of a small policy has no use for, and must not wait for."""


def test_check_starts_with_what_it_needs_only(tmp_path: Path) -> None:
    (tmp_path / "p.vitals").write_text("when loss > 3 for 2 steps -> yellow\n")
    code = f"""
        import sys
        sys.argv = ["vitals", "check", {str(tmp_path / "p.vitals")!r}]
        from vitalsdsl.__main__ import main
        try:
            main()
        except SystemExit:
            pass
        print([m for m in {NOT_TO_CHECK!r} if m in sys.modules])
    """
    assert run("-c", textwrap.dedent(code)).stdout.splitlines()[-1] == "[]"


def test_a_run_is_replayed_without_pydantic_and_without_rich_where_there_is_no_terminal(tmp_path: Path) -> None:
    (tmp_path / "p.vitals").write_text("when loss > 3 for 2 steps -> yellow\n")
    (tmp_path / "run.jsonl").write_text("".join(f'{{"step": {step}, "loss": 5}}\n' for step in range(4)))
    code = f"""
        import sys
        sys.argv = ["vitals", "replay", {str(tmp_path / "p.vitals")!r}, {str(tmp_path / "run.jsonl")!r}]
        from vitalsdsl.__main__ import main
        try:
            main()
        except SystemExit:
            pass
        print([m for m in ("pydantic", "rich") if m in sys.modules])
    """
    _, changed, *_, loaded = run("-c", textwrap.dedent(code)).stdout.splitlines()
    assert changed.startswith("  step       1  green -> yellow  loss_yellow")
    assert loaded == "[]"


def test_help_says_in_a_line_what_each_command_does_and_loads_none_of_them() -> None:
    code = """
        import sys
        sys.argv = ["vitals", "--help"]
        from vitalsdsl.__main__ import main
        try:
            main()
        except SystemExit:
            pass
        print([m for m in sys.modules if m.startswith("vitalsdsl.cli.") and not m.endswith(".app")])
    """
    said = run("-c", textwrap.dedent(code)).stdout
    listed = said[said.index("Commands:\n") :].splitlines()[1:-1]
    commands = {p.stem for p in (ROOT / "vitalsdsl" / "cli").glob("*.py")} - {"__init__", *NO_COMMANDS}
    assert [line.split()[0] for line in listed] == sorted(commands)
    assert all(re.fullmatch(r"  \w+ +\w.{10,}[^….]", line) and len(line) < 80 for line in listed), listed
    assert said.splitlines()[-1] == "[]"


def test_the_published_schema_is_that_of_the_reader(update: bool) -> None:
    text = json.dumps(json_schema(), indent=2) + "\n"
    published = ROOT / "docs" / "vitals.schema.json"
    if update:
        published.write_text(text, "utf-8")
    assert published.read_text("utf-8") == text


def test_shipped_packs_pass_their_own_tests() -> None:
    for suite in sorted((ROOT / "rules" / "vitalsdsl_rules").glob("*.vtest.yaml")):
        done = run("-m", "vitalsdsl", "test", str(suite))
        assert done.returncode == 0, done.stdout
