"""The small pieces of a YAML policy: texts, names, expressions, lengths, flags; each to its object, or a finding."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any, TypeVar

from vitalsdsl.ground.diagnostic import Diagnostic, Severity
from vitalsdsl.ground.quoting import QUOTED, quoted, unquoted
from vitalsdsl.ground.source import Locator, Source, Span
from vitalsdsl.ground.words import RESERVED
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.builder import Builder
from vitalsdsl.language.parser import parse_expression
from vitalsdsl.language.rules import LEVEL_WORDS, Level
from vitalsdsl.language.yaml.form import Key
from vitalsdsl.language.yaml.text import quoted as in_yaml
from vitalsdsl.language.yaml.tree import Mapping, Scalar, Sequence, Tree

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[./][A-Za-z0-9_]+)*")
_QUOTED = re.compile(QUOTED)
_SWITCHES = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NOT_SWITCHES = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}

NodeType = TypeVar("NodeType", bound=ex.Node)
Fields = dict[str, tuple[Scalar, Tree]]


class Pieces:
    """Reads pieces of one file; what is wrong with them gathers in `diagnostics`."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.diagnostics: list[Diagnostic] = []

    def error(self, code: str, message: str, span: Span, label: str = "", *help_: str) -> None:
        self.diagnostics.append(Diagnostic(code, Severity.ERROR, message, span, label, help_))

    # ---------------------------------------------------------------- shapes

    def fields(self, tree: Tree, keys: dict[str, Key], what: str) -> Fields:
        """The entries of a mapping with these keys; others, and repeated ones, are findings."""
        found: Fields = {}
        if not isinstance(tree, Mapping):
            known = ", ".join(f"`{key}:`" for key in list(keys)[:3])
            self.error("V053", f"{what} is a set of keys", _head(tree), "not that", f"such as {known}")
            return found
        for key, value in tree.entries:
            if key.text not in keys:
                self.error("V051", f"{what} has no key `{key.text}`", _head(key), "unknown", _meant(key.text, keys))
            elif key.text in found:
                self.error("V052", f"`{key.text}` is said twice", _head(key), "again", "keep one of them")
            elif isinstance(value, Scalar) and value.is_empty:
                self.error("V053", f"nothing stands after `{key.text}:`", _head(key), "write its value, or remove it")
            else:
                found[key.text] = (key, value)
        return found

    def named(self, tree: Tree, what: str) -> list[tuple[Scalar, Tree]]:
        """The entries of a mapping from names to things; or of a list of such mappings, where a name may come twice."""
        parts = tree.items if isinstance(tree, Sequence) else [tree]
        found: list[tuple[Scalar, Tree]] = []
        for part in parts:
            if not isinstance(part, Mapping):
                self.error("V053", f"`{what}` names things: `NAME: …`", _head(part), "no name here")
                continue
            seen: set[str] = set()
            for key, value in part.entries:
                if key.text in seen:
                    self.error("V052", f"`{key.text}` stands twice under `{what}`", _head(key), "again", "keep one")
                elif isinstance(value, Scalar) and value.is_empty:
                    self.error("V053", f"nothing stands after `{key.text}:`", _head(key), "write its value")
                else:
                    found.append((key, value))
                seen.add(key.text)
        return found

    def scalar(self, tree: Tree, what: str) -> Scalar | None:
        """A text, where one must stand."""
        if isinstance(tree, Scalar):
            return tree
        shape = "a list" if isinstance(tree, Sequence) else "a set of keys"
        self.error("V053", f"`{what}` is a text, not {shape}", _head(tree), "one text here", "put it in quotes")
        return None

    def scalars(self, tree: Tree, what: str) -> list[Scalar]:
        """One text, or a list of them."""
        trees = tree.items if isinstance(tree, Sequence) else [tree]
        if not trees:
            self.error("V053", f"the list after `{what}` is empty", _head(tree), "write one, or remove it")
        return [s for t in trees if (s := self.scalar(t, what)) is not None]

    # ---------------------------------------------------------------- words

    def text(self, tree: Tree, what: str) -> str | None:
        """A text for people. Its line breaks are spaces."""
        scalar = self.scalar(tree, what)
        if scalar is None:
            return None
        return one_line(scalar.text)

    def texts(self, tree: Tree, what: str) -> tuple[str, ...]:
        found = (self.text(scalar, what) for scalar in self.scalars(tree, what))
        return tuple(text for text in found if text is not None)

    def flag(self, tree: Tree, what: str) -> bool:
        scalar = self.scalar(tree, what)
        if scalar is None:
            return False
        if scalar.plain and scalar.text in _SWITCHES:
            return _SWITCHES[scalar.text]
        meant = scalar.text if scalar.text in _SWITCHES else _NOT_SWITCHES.get(scalar.text.lower(), "true")
        said = f"`{scalar.text}`" if scalar.plain else f"the text `{scalar.text}`"
        self.error("V058", f"`{what}` is true or false, not {said}", scalar.span, "", f"write `{what}: {meant}`")
        return False

    def choice(self, tree: Tree, words: Iterable[str], what: str) -> str | None:
        """One of some words."""
        scalar = self.scalar(tree, what)
        if scalar is None:
            return None
        words = tuple(words)
        if scalar.text in words:
            return scalar.text
        near = difflib.get_close_matches(scalar.text, words, 1, 0.5)
        help_ = f"did you mean `{near[0]}`?" if near else "known are " + ", ".join(words)
        self.error("V053", f"`{what}` cannot be `{scalar.text}`", scalar.span, "unknown word", help_)
        return None

    def level(self, tree: Tree) -> Level | None:
        word = self.choice(tree, LEVEL_WORDS, "level")
        return Level.parse(word) if word is not None else None

    def defined(self, key: Scalar, what: str) -> str:
        """The name that a statement defines."""
        if key.text in RESERVED:
            message = f"`{key.text}` is a word of the language"
            self.error("V006", message, key.span, "reserved", "choose another name")
        elif NAME.fullmatch(key.text) is None:
            message = f"`{key.text}` is no name for a {what}"
            self.error("V060", message, key.span, "", "letters a to z, digits and `_`, joined by `.` or `/`")
        return key.text

    def target(self, tree: Tree, what: str) -> ex.Name | None:
        """A name that is defined elsewhere, written as in an expression."""
        scalar = self.scalar(tree, what)
        if scalar is None:
            return None
        if _QUOTED.fullmatch(scalar.text) is not None and (path := unquoted(scalar.text)).strip():
            return ex.Name.build(scalar.span, path=path, quoted=True)
        if NAME.fullmatch(scalar.text) is None or scalar.text in RESERVED:
            help_ = f"write `{in_yaml(quoted(scalar.text))}`"
            self.error("V060", f"`{scalar.text}` is no name", scalar.span, f"after `{what}`", help_)
        return ex.Name.build(scalar.span, path=scalar.text)

    def targets(self, tree: Tree, what: str) -> tuple[ex.Name, ...]:
        found = (self.target(scalar, what) for scalar in self.scalars(tree, what))
        return tuple(name for name in found if name is not None)

    # ---------------------------------------------------------------- expressions

    def parsed(self, tree: Tree, what: str, start: str, kind: type[NodeType]) -> NodeType | None:
        """A piece in the language itself, read by this rule of its grammar."""
        scalar = self.scalar(tree, what)
        return self.read(scalar, scalar.text, scalar.positions, what, start, kind) if scalar is not None else None

    def read(
        self, scalar: Scalar, text: str, positions: list[int], what: str, start: str, kind: type[NodeType]
    ) -> NodeType | None:
        if not text.strip():
            self.error("V053", f"`{what}` is empty", _head(scalar), "write it, or remove the key")
            return None
        node, found = parse_expression(text, Locator(self.source, positions), start)
        self.diagnostics += found
        return node if isinstance(node, kind) else None

    def expression(self, tree: Tree, what: str) -> ex.Expression | None:
        return self.parsed(tree, what, "condition", ex.Expression)

    def length(self, tree: Tree, what: str) -> ex.Expression | None:
        return self.parsed(tree, what, "duration", ex.Expression)

    def span(self, tree: Tree, what: str) -> ex.For | None:
        return self.parsed(tree, what, "span", ex.For)

    def value(self, tree: Tree, what: str) -> Any | None:
        """A number, a ratio or a length."""
        return self.parsed(tree, what, "value", ex.Expression)

    def settings(self, tree: Tree, what: str) -> tuple[rules.Setting, ...]:
        """`{k: 2.5}`."""
        found: list[rules.Setting] = []
        for key, value in self.named(tree, what):
            name, node = self.defined(key, "param"), self.value(value, key.text)
            if node is not None:
                found.append(rules.Setting.build(key.span.to(value.span), name=name, value=node))
        return tuple(found)

    def actions(self, tree: Tree, what: str) -> tuple[rules.Action, ...]:
        found = (self.parsed(scalar, what, "action", rules.Action) for scalar in self.scalars(tree, what))
        return tuple(action for action in found if action is not None)

    def template(self, tree: Tree, what: str) -> rules.Template | None:
        """The text of `because` with its fields."""
        text = self.text(tree, what)
        if text is None or not isinstance(tree, Scalar):
            return None
        scalar, decoded = tree, Source(self.source.name, text)
        place = Locator(self.source, scalar.positions)

        def parse_field(inside: str, span: Span) -> ex.Expression | None:
            positions = scalar.positions[span.start : span.end + 1]
            return self.read(scalar, inside, positions, what, "condition", ex.Expression)

        builder = Builder(Locator(decoded), parse_field)
        built = builder.template(text, decoded.span(0, len(text)))
        for found in builder.diagnostics:
            self.error(
                found.code, found.message, place.span(found.span.start, found.span.end), found.label, *found.help
            )
        parts = tuple(
            part
            if isinstance(part, str)
            else part.build(place.span(part.span.start, part.span.end), expression=part.expression, format=part.format)
            for part in built.parts
        )
        return rules.Template.build(scalar.span, text=text, parts=parts)


def _meant(word: str, keys: Iterable[str]) -> str:
    """The key that somebody may have meant."""
    keys = tuple(keys)
    # Tools that still speak YAML 1.1 write the key `on` as `true`.
    near = ["on"] if word.lower() == "true" and "on" in keys else difflib.get_close_matches(word, keys, 1, 0.5)
    return f"did you mean `{near[0]}`?" if near else "known are " + ", ".join(f"`{key}`" for key in keys)


def one_line(text: str) -> str:
    """A text with a space for each line break, as long as it was, so that places in it stay right."""
    return text.rstrip("\n").replace("\n", " ")


def _head(tree: Tree) -> Span:
    """The first line of a piece at most: enough to point at."""
    line = tree.span.text.split("\n", 1)[0].rstrip()
    return Span(tree.span.source, tree.span.start, tree.span.start + len(line))
