"""Manifest files: YAML as kubectl reads it, turned into JSON-compatible data, or the line that is wrong.

Plain scalars mean what they mean to sigs.k8s.io/yaml (go-yaml v2), which kubectl uses; PyYAML by itself would make
1:30 a number, 2026-11-30 a date and 1e3 a text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from disttrain.api import wording
from disttrain.api.errors import FieldError, InvalidManifest

MAX_BYTES: Final = 3 * 1024 * 1024  # the API server's own limit for a request body
MAX_VALUES: Final = 100_000  # after aliases are expanded: a few hundred bytes of them can stand for gigabytes
MAX_DEPTH: Final = 100
_TOO_MANY: Final = f"more than {MAX_VALUES:,} values"
_TOO_DEEP: Final = f"nested deeper than {MAX_DEPTH} levels"

_TAG: Final = "tag:yaml.org,2002:"
_TRUE: Final = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE: Final = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_JSON_TAGS: Final = frozenset(
    f"{_TAG}{kind}" for kind in ("str", "int", "float", "bool", "null", "map", "seq", "merge")
)
# Go's strconv.ParseInt with base 0: decimal, 0x, 0o, 0b, and a leading 0 for octal.
_INT: Final = re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x_?[0-9a-fA-F_]+|0b_?[01_]+|0o?_?[0-7_]+)", re.ASCII | re.IGNORECASE)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


class _Loader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]  # either base
    """YAML with the plain scalars of go-yaml v2."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  # PyYAML's protocol: a class attribute, none inherited


def _construct_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int | float:
    text = loader.construct_scalar(node).replace("_", "").lower()
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.lstrip("+"))
    bases = {"0x": 16, "0b": 2, "0o": 8}
    base = bases.get(digits[:2], 8 if len(digits) > 1 and digits[0] == "0" else 10)
    if base == 10 and len(digits) > 19:  # more than 64 bits: go-yaml makes it a float
        return float(text)
    return sign * int(digits[2:] if digits[:2] in bases else digits, base)


def _float(text: str) -> float:
    return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))


_Loader.add_implicit_resolver(f"{_TAG}bool", re.compile(f"(?:{'|'.join((*_TRUE, *_FALSE))})$"), list("yYnNtTfFoO"))
_Loader.add_implicit_resolver(f"{_TAG}int", re.compile(f"(?:{_INT.pattern})$", _INT.flags), list("-+0123456789"))
_Loader.add_implicit_resolver(f"{_TAG}float", re.compile(f"(?:{_FLOAT.pattern})$", re.ASCII), list("-+0123456789."))
_Loader.add_implicit_resolver(f"{_TAG}float", re.compile(f"(?:{_NOT_FINITE.pattern})$"), list("-+."))
_Loader.add_implicit_resolver(f"{_TAG}null", re.compile(r"(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(f"{_TAG}merge", re.compile(r"<<$"), ["<"])
_Loader.add_constructor(f"{_TAG}bool", lambda loader, node: loader.construct_scalar(node) in _TRUE)
_Loader.add_constructor(f"{_TAG}int", _construct_int)
_Loader.add_constructor(f"{_TAG}float", lambda loader, node: _float(loader.construct_scalar(node)))


def load_documents(data: bytes, source: str) -> list[dict[str, Any]]:
    """The objects of a YAML or JSON file, empty documents left out. `source` names the file in the faults.

    Raises InvalidManifest: not UTF-8, not YAML, no object in it, keys twice, values that JSON does not have, too large.
    """
    text = _decode(data, source)
    try:
        _check_size(text, source)
        return _objects(text, source)
    except yaml.YAMLError as error:
        raise InvalidManifest([FieldError("", _yaml_sentence(error))], source) from error


def _decode(data: bytes, source: str) -> str:
    if len(data) > MAX_BYTES:
        sentence = f"is {len(data):,} bytes; a manifest file may have at most {MAX_BYTES:,}"
        raise InvalidManifest([FieldError("", sentence)], source)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        sentence = f"line {line}: byte 0x{data[error.start]:02x} is not UTF-8 text; save the file as UTF-8"
        raise InvalidManifest([FieldError("", sentence)], source) from error


def _check_size(text: str, source: str) -> None:
    """Before anything recurses into the nodes or holds them all: events come one after the other."""
    depth = values = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        values += isinstance(event, yaml.NodeEvent)
        for passed, sentence in ((depth > MAX_DEPTH, _TOO_DEEP), (values > MAX_VALUES, _TOO_MANY)):
            if passed:
                raise InvalidManifest([FieldError("", f"{_line(event)}: {sentence}")], source)


def _objects(text: str, source: str) -> list[dict[str, Any]]:
    loader = _Loader(text)
    objects: list[dict[str, Any]] = []
    try:
        while loader.check_node():
            node = loader.get_node()
            errors = _Inspection().faults(node)
            if errors:
                raise InvalidManifest(errors, source)
            value = loader.construct_document(node)
            if isinstance(value, dict):
                objects.append(value)
            elif value is not None:
                sentence = f"{_line(node)}: a document {wording.wrong_type('an object', value)}"
                raise InvalidManifest([FieldError("", sentence)], source)
    finally:
        loader.dispose()
    if not objects:
        raise InvalidManifest([FieldError("", "is empty: there is no manifest in it")], source)
    return objects


class _Inspection:
    """One walk over a document that finds what JSON does not have, before any value is made.

    Each node is visited once, however many aliases point to it, but counted as often: `_known` holds the number of
    values and the height below a node that was left.
    """

    def __init__(self) -> None:
        self._errors: list[FieldError] = []
        self._known: dict[int, tuple[int, int]] = {}
        self._open: set[int] = set()
        self._too_deep = False

    def faults(self, root: yaml.Node) -> list[FieldError]:
        values, _ = self._measure(root, "", 1)
        if values > MAX_VALUES:
            self._fault(root, "", f"{_TOO_MANY}, with aliases expanded")
        return self._errors

    def _fault(self, node: yaml.Node, path: str, sentence: str) -> None:
        self._errors.append(FieldError(path, f"{_line(node)}: {sentence}"))

    def _measure(self, node: yaml.Node, path: str, depth: int) -> tuple[int, int]:
        if id(node) in self._open:
            self._fault(node, path, "an alias contains itself")
            return 1, 1
        known = self._known.get(id(node))
        if depth + (known[1] if known else 0) > MAX_DEPTH + 1:
            if not self._too_deep:  # once: all around it is too deep as well
                self._fault(node, path, _TOO_DEEP)
            self._too_deep = True
            return 1, 1
        if known is None:
            self._open.add(id(node))
            below = list(self._parts(node, path, depth + 1))
            known = (1 + sum(values for values, _ in below), 1 + max((height for _, height in below), default=0))
            self._open.discard(id(node))
            self._known[id(node)] = known
        return known

    def _parts(self, node: yaml.Node, path: str, depth: int) -> Iterator[tuple[int, int]]:
        if node.tag not in _JSON_TAGS:
            self._fault(node, path, f"the tag {wording.cut(node.tag.replace(_TAG, '!!'))} has no meaning here")
        elif isinstance(node, yaml.MappingNode):
            yield from self._mapping(node, path, depth)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                yield self._measure(item, wording.item(path, index), depth)
        elif node.tag == f"{_TAG}float" and not math.isfinite(_float(node.value)):
            self._fault(node, path, f"{wording.cut(node.value)} is not a number that JSON has; put it in quotes")

    def _mapping(self, node: yaml.MappingNode, path: str, depth: int) -> Iterator[tuple[int, int]]:
        first: dict[str, str] = {}
        for key, value in node.value:
            place = path
            if not isinstance(key, yaml.ScalarNode):
                self._fault(key, path, "a key must be a string")
            elif key.tag != f"{_TAG}merge":
                place = wording.child(path, key.value)
                if key.tag != f"{_TAG}str":
                    self._fault(key, path, f"the key {wording.cut(key.value)} must be a string; put it in quotes")
                elif key.value in first:
                    self._fault(key, place, f"given twice, first in {first[key.value]}")
                first.setdefault(key.value, _line(key))
            yield self._measure(value, place, depth)


def _line(place: yaml.Node | yaml.Event) -> str:
    """Where it begins; PyYAML counts from 0."""
    mark = place.start_mark
    return f"line {mark.line + 1}" if mark else "somewhere"


def _yaml_sentence(error: yaml.YAMLError) -> str:
    """PyYAML's own words on one line, with the place."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        context = f" {error.context}" if error.context else ""
        return f"line {mark.line + 1}, column {mark.column + 1}: not YAML: {error.problem}{context}"
    return "not YAML: " + " ".join(str(error).split())
