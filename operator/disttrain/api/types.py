"""The building blocks of the resource's models: the strict base, bounded scalars and markers for the CRD generator.

Every string, list and map of ours has an upper bound: the API server refuses CEL rules over unbounded ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from disttrain.api.quantity import check_quantity

INT32_MAX: Final = 2**31 - 1
EXACT_MAX: Final = 2**53 - 1  # the largest integer that every JSON reader has exactly


@dataclass(frozen=True, slots=True)
class Opaque:
    """Marks a mapping that the schema does not describe (x-kubernetes-preserve-unknown-fields)."""

    required: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IntOrString:
    """Marks a value that may be written as integer or string (x-kubernetes-int-or-string)."""


@dataclass(frozen=True, slots=True)
class ListType:
    """Marks how the API server merges a list (x-kubernetes-list-type): atomic, set, or map by `key`."""

    kind: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Meant:
    """What a string's pattern stands for, in words: `must be <text>`."""

    text: str


@dataclass(frozen=True, slots=True)
class SchemaDefault:
    """Marks the rare field whose default the API server fills in; every other default is applied in Python."""


class SpecModel(BaseModel):
    """A part of the spec: exactly the fields of the schema, exactly their JSON types, never changed once read.

    Python code builds models by their snake_case names. Manifests must be read with `by_alias=True, by_name=False`,
    or a snake_case key in a file would pass.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        extra="forbid",
        frozen=True,
        strict=True,
        defer_build=True,  # importing the core must stay cheap; the first manifest pays
    )

    @field_validator("*", mode="before", check_fields=False)
    @classmethod
    def _refuse_null(cls, value: Any) -> Any:
        """A key without a value is a slip of the pen more often than a wish for the default, so say so."""
        if value is None:
            raise PydanticCustomError("null", "must not be null: leave the field out to get its default")
        return value


def quantity(value: Any) -> str | int:
    """Validator of an amount of a resource; the fault it raises is a whole sentence."""
    problem = check_quantity(value)
    if problem:
        raise PydanticCustomError("quantity", "{problem}", {"problem": problem})
    return value  # type: ignore[no-any-return]  # check_quantity lets only str and int through


PositiveInt32 = Annotated[int, Field(ge=1, le=INT32_MAX)]
NonNegativeInt32 = Annotated[int, Field(ge=0, le=INT32_MAX)]
PositiveInt64 = Annotated[int, Field(ge=1, le=EXACT_MAX)]
NonNegativeInt64 = Annotated[int, Field(ge=0, le=EXACT_MAX)]
Day = Annotated[int, Field(ge=0, le=86_400)]
"""Seconds, at most one day."""

LabelKey = Annotated[str, StringConstraints(max_length=317)]  # prefix 253 + "/" + name 63
LabelValue = Annotated[str, StringConstraints(max_length=63)]
ResourceName = LabelKey

OpaqueMap = Annotated[dict[str, Any], Opaque()]
PodTemplate = Annotated[dict[str, Any], Opaque(required=("spec",))]
"""A core/v1 PodTemplateSpec as JSON-compatible data; the API server checks it when the pods are made."""
