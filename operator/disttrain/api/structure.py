"""Does a manifest fit the schema? Pydantic's verdict, worded from the schema that the API server has too."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from disttrain.api import openapi, wording
from disttrain.api.errors import FieldError
from disttrain.api.spec import JobSpec
from disttrain.api.types import INT32_MAX

_EXPECTED: Final = {
    "int_type": "an integer",
    "string_type": "a string",
    "bool_type": "true or false",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "tuple_type": "a list",
}
_BOUNDS: Final = ("greater_than_equal", "less_than_equal")
_LENGTHS: Final = ("string_too_short", "string_too_long", "too_short", "too_long")


def read(raw: Mapping[str, Any], path: str = "spec") -> JobSpec | tuple[FieldError, ...]:
    """The spec as a model, or every place where it does not fit the schema."""
    try:
        return JobSpec.model_validate(raw, by_alias=True, by_name=False)
    except ValidationError as error:
        return tuple(_fault(detail, path) for detail in error.errors(include_url=False))


@functools.cache
def _schema() -> openapi.Schema:
    return openapi.schema_of(JobSpec)


@functools.cache
def _meanings() -> Mapping[str, str]:
    return openapi.meanings_of(JobSpec)


def _fault(detail: ErrorDetails, root: str) -> FieldError:
    path, schema, last = root, _schema(), ""
    for step in detail["loc"]:
        last, parent = str(step), schema
        path, schema = _step(path, schema, step)
    if detail["type"] == "extra_forbidden":
        return FieldError(path, wording.unknown_field(last, parent["properties"]))
    if last == "[key]":
        return FieldError(path, f"the key {wording.shown(detail['input'])} is too long")
    return FieldError(path, _sentence(detail, schema))


def _step(path: str, schema: openapi.Schema, step: int | str) -> tuple[str, openapi.Schema]:
    """One step of a fault's location, in the path and in the schema. Beyond the schema (an unknown field): {}."""
    if "properties" in schema:
        return wording.child(path, str(step)), schema["properties"].get(step, {})
    if isinstance(step, int):
        return wording.item(path, step), schema.get("items", {})
    if step == "[key]":
        return path, {}
    return wording.key(path, step), schema.get("additionalProperties", {})


def _sentence(detail: ErrorDetails, schema: openapi.Schema) -> str:
    kind, value = detail["type"], detail["input"]
    sentence = detail["msg"]  # our own, from the validators in `disttrain.api.types`
    if kind == "missing":
        sentence = "is required" + (f": {wording.one_of(schema['enum'])}" if "enum" in schema else "")
    elif kind in _EXPECTED:
        sentence = wording.wrong_type(_EXPECTED[kind], value)
    elif kind == "literal_error":
        sentence = f"must be {wording.one_of(schema['enum'])}, not {wording.shown(value)}"
    elif kind in _BOUNDS:
        sentence = f"must be {_range(schema, value)}, not {value}"
    elif kind in _LENGTHS:
        sentence = _length(schema, value)
    elif kind == "string_pattern_mismatch":
        pattern = schema["pattern"]
        sentence = f"must be {_meanings().get(pattern, f'of the form {pattern}')}, not {wording.shown(value)}"
    return sentence


def _range(schema: openapi.Schema, value: int) -> str:
    low, high = schema["minimum"], schema["maximum"]
    if low == high:
        return str(low)
    if high >= INT32_MAX:  # no limit of ours but the type's: say the one that matters
        return f"at least {low}" if value < low else f"at most {high}"
    return f"between {low} and {high}"


def _length(schema: openapi.Schema, value: Any) -> str:
    size = len(value)
    if schema.get("type") == "string":
        return "must not be empty" if size == 0 else f"must be at most {schema['maxLength']} characters, but has {size}"
    most = schema.get("maxItems", schema.get("maxProperties"))
    return "must not be empty" if size == 0 else f"must have at most {most} entries, but has {size}"


def parts(model: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every model within a model, itself first, with its path."""
    yield path, model
    for field, info in type(model).model_fields.items():
        value = getattr(model, field)
        if hasattr(type(value), "model_fields"):
            yield from parts(value, wording.child(path, str(info.alias)))
