"""The JSON Schema of the YAML form, for editors: completion, hover texts and first checks as people type."""

from __future__ import annotations

from typing import Any

from vitalsdsl.language.rules import LEVEL_WORDS
from vitalsdsl.language.yaml import form
from vitalsdsl.language.yaml.form import Key, Shape

_LENGTH = r"^\s*([0-9]|[A-Za-z_])"
_SCALAR = {"type": ["string", "number", "boolean"]}


def json_schema() -> dict[str, Any]:
    """The schema as data, draft 2020-12.

    It knows keys, words and shapes. What stands inside an expression is for `vitals check` to judge.

    >>> sorted(json_schema()["properties"])[:3]
    ['axis', 'disable', 'events']
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "vitals policy",
        "description": "When a training run goes wrong, and what is done then.",
        **_object(form.TOP),
        "$defs": {
            "clause": _object(form.CLAUSE, "if", "level"),
            "rung": _object(form.RUNG, "level"),
            "rule": _object(form.RULE, "when"),
            "listed_rule": _object(form.LISTED_RULE, "name", "when"),
            "part": _object(form.STATEMENTS),
        },
    }


def _object(keys: dict[str, Key], *required: str) -> dict[str, Any]:
    properties = {name: {"description": key.says, **_key(key)} for name, key in keys.items()}
    found: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        found["required"] = list(required)
    return found


def _key(key: Key) -> dict[str, Any]:
    inner = _SHAPES[key.shape]
    if not key.each:
        return inner
    names = {"type": "object", "additionalProperties": inner, "minProperties": 1}
    return {"anyOf": [names, {"type": "array", "items": names, "minItems": 1}]}


def _one_or_many(item: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [item, {"type": "array", "items": item, "minItems": 1}]}


def _or(item: dict[str, Any], keys: dict[str, Key], *required: str) -> dict[str, Any]:
    return {"anyOf": [item, _object(keys, *required)]}


_TEXT: dict[str, Any] = {"type": "string"}
_NAME: dict[str, Any] = {"type": "string", "minLength": 1}
_EXPRESSION: dict[str, Any] = {**_SCALAR, "minLength": 1}
_DURATION: dict[str, Any] = {"type": "string", "pattern": _LENGTH}
_VALUE: dict[str, Any] = {"type": ["number", "string"], "minLength": 1}
_VALUES: dict[str, Any] = {"type": "object", "additionalProperties": _VALUE, "minProperties": 1}

_SHAPES: dict[Shape, dict[str, Any]] = {
    Shape.TEXT: _TEXT,
    Shape.TEXTS: _one_or_many(_TEXT),
    Shape.NAME: _NAME,
    Shape.NAMES: _one_or_many(_NAME),
    Shape.VERSION: {"const": 1},
    Shape.EXPRESSION: _EXPRESSION,
    Shape.LENGTH: _DURATION,
    Shape.SPAN: _DURATION,
    Shape.VALUE: _VALUE,
    Shape.VALUES: _VALUES,
    Shape.BOUNDS: {"type": "array", "items": _VALUE, "minItems": 2, "maxItems": 2},
    Shape.FLAG: {"type": "boolean"},
    Shape.LEVEL: {"enum": list(LEVEL_WORDS)},
    Shape.ACTIONS: _one_or_many(_NAME),
    Shape.REDUCE: {"enum": ["last", "mean", "max", "min"]},
    Shape.UNKNOWN: {"enum": ["hold", "reset"]},
    Shape.LIMIT: {"type": "string", "pattern": r"^\s*[0-9][0-9kMBT]* per .+"},
    Shape.EACH: {"type": "object", "additionalProperties": _NAME, "minProperties": 1, "maxProperties": 1},
    Shape.CLAUSES: _one_or_many({"$ref": "#/$defs/clause"}),
    Shape.RUNGS: _one_or_many({"$ref": "#/$defs/rung"}),
    Shape.RULE: {"$ref": "#/$defs/rule"},
    Shape.PARTS: {"type": "array", "items": {"$ref": "#/$defs/part"}},
}
_SHAPES |= {
    Shape.USE: _one_or_many(_or(_TEXT, form.USE, "from")),
    Shape.METRIC: _or(_SHAPES[Shape.TEXTS], form.METRIC, "names"),
    Shape.PARAM: _or(_VALUE, form.PARAM, "value"),
    Shape.LET: _or(_EXPRESSION, form.LET, "expr"),
    Shape.EVENT: _or(_EXPRESSION, form.EVENT, "if"),
    Shape.GUARD: _one_or_many(_or({"enum": [*LEVEL_WORDS, "off"]}, form.GUARD, "level")),
    Shape.CLEAR: _or(_DURATION, form.CLEAR),
    Shape.DISABLE: _or(_TEXT, form.DISABLE, "because"),
}
_SHAPES[Shape.OVERRIDE] = _object(form.BODY)
_SHAPES[Shape.RULES] = {
    "anyOf": [
        {"type": "object", "additionalProperties": _SHAPES[Shape.RULE], "minProperties": 1},
        {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/listed_rule"}, {"$ref": "#/$defs/clause"}]}},
    ]
}
