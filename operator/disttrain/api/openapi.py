"""From models to structural schemas, as apiextensions/v1 wants them: every type in place, no $ref, no null.

The same schema words the faults of a manifest that does not fit it (`disttrain.api.structure`), so the API server and
`disttrain run` draw the line at the same place.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import GroupedMetadata
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from disttrain.api import quantity
from disttrain.api.types import INT32_MAX, IntOrString, ListType, Meant, Opaque, SchemaDefault

Schema = dict[str, Any]


def schema_of(model: type[BaseModel]) -> Schema:
    """The structural schema of an object; its properties in the order of the model's fields."""
    properties: Schema = {}
    for field in model.model_fields.values():
        metadata = list(_flat(field.metadata))
        schema = {"description": field.description, **_schema(field.annotation, metadata)}
        if any(isinstance(mark, SchemaDefault) for mark in metadata):
            schema["default"] = field.default
        properties[str(field.alias)] = schema
    required = [str(field.alias) for field in model.model_fields.values() if field.is_required()]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def meanings_of(model: type[BaseModel]) -> dict[str, str]:
    """What the patterns of a model's strings stand for, pattern -> words, of all models within it too."""
    meanings: dict[str, str] = {}
    for field in model.model_fields.values():
        marks = list(_marks(field.annotation, field.metadata))
        pattern = next((mark.pattern for mark in marks if getattr(mark, "pattern", None)), None)
        meant = next((mark.text for mark in marks if isinstance(mark, Meant)), None)
        if pattern and meant:
            meanings[pattern] = meant
        for part in _models(field.annotation):
            meanings.update(meanings_of(part))
    return meanings


def object_type(annotation: Any) -> type[BaseModel] | None:
    """The model of a field that is one object: `Model` or `Model | None`; None for scalars, lists and maps."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    return next((part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)), None)


def _flat(metadata: Iterable[Any]) -> Iterator[Any]:
    """Constraints one by one; a Field inside Annotated and pydantic's groups hold several."""
    for mark in metadata:
        if isinstance(mark, FieldInfo):
            yield from _flat(mark.metadata)
        elif isinstance(mark, GroupedMetadata):
            yield from _flat(mark)
        else:
            yield mark


def _marks(annotation: Any, metadata: Iterable[Any] = ()) -> Iterator[Any]:
    """Constraints on a field's own value, also where they stand inside `Annotated[...] | None`."""
    yield from _flat(metadata)
    if get_origin(annotation) is Annotated:
        yield from _flat(annotation.__metadata__)
    elif get_origin(annotation) in (Union, types.UnionType):
        for part in get_args(annotation):
            yield from _marks(part)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _schema(annotation: Any, metadata: list[Any]) -> Schema:  # noqa: PLR0911  # one return a kind of type
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _schema(annotation.__origin__, [*metadata, *_flat(annotation.__metadata__)])
    if any(isinstance(mark, IntOrString) for mark in metadata):
        return _int_or_string()
    if origin in (Union, types.UnionType):
        (only,) = [part for part in parts if part is not type(None)]
        return _schema(only, metadata)
    if origin is Literal:
        return {"type": "string", "enum": list(parts)}
    if origin is dict:
        return _map(parts, metadata)
    if origin is tuple:
        return _list(parts[0], metadata)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return schema_of(annotation)
    return _scalar(annotation, metadata)


def _limit(metadata: list[Any], *names: str) -> Any:
    for mark in metadata:
        for name in names:
            value = getattr(mark, name, None)
            if value is not None:
                return value
    return None


def _scalar(annotation: Any, metadata: list[Any]) -> Schema:
    if annotation is bool:
        return {"type": "boolean"}
    if annotation is datetime:
        return {"type": "string", "format": "date-time"}
    if annotation is int:
        minimum, maximum = _limit(metadata, "ge"), _limit(metadata, "le")
        size = "int32" if maximum <= INT32_MAX else "int64"
        return {"type": "integer", "format": size, "minimum": minimum, "maximum": maximum}
    if annotation is str:
        limits = {
            "minLength": _limit(metadata, "min_length"),
            "maxLength": _limit(metadata, "max_length"),
            "pattern": _limit(metadata, "pattern"),
        }
        return {"type": "string", **{name: value for name, value in limits.items() if value is not None}}
    raise TypeError(f"no structural schema for {annotation!r}")


def _int_or_string() -> Schema:
    return {
        "x-kubernetes-int-or-string": True,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "minimum": 0,
        "maxLength": quantity.MAX_QUANTITY_LENGTH,
        "pattern": quantity.PATTERN,
    }


def _map(parts: tuple[Any, ...], metadata: list[Any]) -> Schema:
    for mark in metadata:
        if isinstance(mark, Opaque):
            required = {"required": list(mark.required)} if mark.required else {}
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True, **required}
    key, value = parts
    if get_origin(key) is Literal:
        return {"type": "object", "properties": {str(name): _schema(value, []) for name in get_args(key)}}
    return {
        "type": "object",
        "maxProperties": _limit(metadata, "max_length"),
        "additionalProperties": _schema(value, []),
    }


def _list(item: Any, metadata: list[Any]) -> Schema:
    schema: Schema = {"type": "array", "maxItems": _limit(metadata, "max_length"), "items": _schema(item, [])}
    if minimum := _limit(metadata, "min_length"):
        schema["minItems"] = minimum
    for mark in metadata:
        if isinstance(mark, ListType):
            schema["x-kubernetes-list-type"] = mark.kind
            if mark.key:
                schema["x-kubernetes-list-map-keys"] = [mark.key]
    return schema
