"""The files of a policy: which may be read, and what is said of those that cannot."""

from __future__ import annotations

import codecs
import difflib
import functools
import importlib
import sys
from collections.abc import Mapping
from pathlib import Path

from vitalsdsl.ground.diagnostic import Diagnostic, Severity
from vitalsdsl.ground.source import Source, Span, is_yaml
from vitalsdsl.language.parser import MAX_CHARACTERS, Parsed, parse
from vitalsdsl.policies.packs import pack, packs

_MAX_BYTES = 4 * MAX_CHARACTERS + 4
SUFFIXES = (".vitals", ".yaml", ".yml")
_LOGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")


def parse_any(source: Source) -> Parsed:
    """Parse by the file's name: YAML where it says so. The YAML reader is loaded only then, since it is slow to load."""
    if not is_yaml(source.name):
        return _parsed_pack(source) if source.name.startswith("pack:") else parse(source)
    parsed: Parsed = importlib.import_module("vitalsdsl.language.yaml.policy").parse_yaml(source)
    return parsed


@functools.lru_cache(64)
def _parsed_pack(source: Source) -> Parsed:
    return parse(source)


def is_suite(name: str) -> bool:
    """Whether a file's name says that it holds tests of rules."""
    return name.lower().endswith((".vtest.yaml", ".vtest.yml"))


def tests_of(policy: Path) -> list[Path]:
    """The test files of a policy: beside it, or in a folder `tests` there."""
    stem = policy.name.split(".")[0]
    places = (policy.parent, policy.parent / "tests")
    return [p for place in places if (p := place / f"{stem}.vtest.yaml").is_file()]


def read_file(name: str) -> Source | Diagnostic:
    """The text of a file that the user named, or why there is none."""
    try:
        with Path(name).open("rb") as file:
            data = file.read(_MAX_BYTES)
    except IsADirectoryError:
        return refused(name, "V071", f"{name} is a folder", "name a file in it")
    except OSError as error:
        return refused(name, "V071", f"{name} cannot be read: {(error.strerror or 'no access').lower()}", "")
    return _text(name, data)


def policy_file(name: str) -> Source | Diagnostic:
    """The text of a policy that the user named, or why there is none: people swap a policy and a log."""
    if Path(name).suffix.lower() in _LOGS:
        return _log(name)
    source = read_file(name)
    is_log = isinstance(source, Source) and not is_yaml(name) and source.text.lstrip().startswith("{")
    return _log(name) if is_log else source


def _log(name: str) -> Diagnostic:
    if not Path(name).is_file():
        return refused(name, "V071", f"there is no file {name}", "")
    help_ = "the policy comes first: vitals replay POLICY SOURCE"
    return refused(name, "V086", f"{name} looks like a log, and not like a policy", help_)


def _text(name: str, data: bytes) -> Source | Diagnostic:
    try:
        # What is cut off in the middle of a character is too long anyhow, and refused as that.
        whole = len(data) < _MAX_BYTES
        return Source(name, codecs.getincrementaldecoder("utf-8")().decode(data, final=whole))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return refused(name, "V031", f"{name} is not UTF-8 text (line {line})", "save it as UTF-8")


def standard_input() -> Source | Diagnostic:
    """The text on standard input, called `stdin`."""
    return _text("stdin", sys.stdin.buffer.read(_MAX_BYTES))


def refused(name: str, code: str, message: str, help_: str) -> Diagnostic:
    """A finding about a file as a whole."""
    return Diagnostic(
        code, Severity.ERROR, message, Source(name, "", is_argument=True).span(0, 0), help=(help_,) if help_ else ()
    )


def imported(
    reference: str, place: Span, root: Path | None, folder: Path | None, known: Mapping[str, Source] | None = None
) -> tuple[str, Source] | Diagnostic:
    """What `use "REFERENCE"` brings in: a key that is the same for the same file, and its text.

    Only packs and files in the top policy's own folder `root`; `folder` is that of the using file. What is `known` by its
    key already is not read again.
    """
    known = {} if known is None else known
    if reference in known:
        return reference, known[reference]
    if reference.startswith("pack:"):
        return _pack(reference, place)
    if ":" in reference.split("/")[0]:
        scheme = reference.split(":")[0]
        help_ = "pull it into a file beside this one and use that"
        return _finding("V072", f"a rule file cannot reach `{scheme}:`", place, "packs and files only", help_)
    if root is None or folder is None:
        return _finding("V072", "only packs can be used from here", place, "this policy has no folder", "")
    try:
        path = (folder / reference).resolve()
        inside = path.is_relative_to(root.resolve()) and not Path(reference).is_absolute()
        there = path.is_file()
    except (OSError, ValueError, RuntimeError):
        return _finding("V071", "this is no file name", place, "", "")
    if not inside:
        help_ = "move the file beside this policy, or make a pack of it"
        return _finding("V072", "a policy uses only files of its own folder", place, "this leads out of it", help_)
    if path.suffix.lower() not in SUFFIXES:
        # Anything else, such as a file of secrets, would be quoted in what is said about it.
        return _finding(
            "V072", f"`{reference}` is no rule file", place, "its name says so", "it ends in .vitals or .yaml"
        )
    if str(path) in known:
        return str(path), known[str(path)]
    if not there and path.exists():
        kind = "a folder" if path.is_dir() else "no ordinary file"
        return _finding("V071", f"`{reference}` is {kind}", place, "not a file", "name a rule file")
    if not there:
        near = difflib.get_close_matches(path.name, [p.name for p in _siblings(path)], 1)
        help_ = f"did you mean `{near[0]}`?" if near else ""
        return _finding("V071", f"there is no file `{reference}`", place, "not found", help_)
    source = read_file(str(path))
    if isinstance(source, Diagnostic):
        return _finding(source.code, source.message.replace(str(path), f"`{reference}`"), place, "", "")
    # As the user would write it from where they are: tools open files by it.
    return str(path), Source(str(root / path.relative_to(root.resolve())), source.text)


def _siblings(path: Path) -> list[Path]:
    try:
        return [p for p in path.parent.iterdir() if p.suffix.lower() in SUFFIXES]
    except OSError:
        return []


def _pack(reference: str, place: Span) -> tuple[str, Source] | Diagnostic:
    name = reference.removeprefix("pack:")
    source = pack(name)
    if source is not None:
        return reference, source
    known = packs()
    near = difflib.get_close_matches(name, known, 1)
    listed = ", ".join(f"`{n}`" for n in known) or "none"
    help_ = f'did you mean "pack:{near[0]}"?' if near else f"installed packs: {listed}"
    return _finding("V070", f"no pack called `{name}` is installed", place, "unknown pack", help_)


def _finding(code: str, message: str, place: Span, label: str, help_: str) -> Diagnostic:
    return Diagnostic(code, Severity.ERROR, message, place, label, (help_,) if help_ else ())
