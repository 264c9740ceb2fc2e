"""Manifest files are read as kubectl reads them, and refused with the line."""

from __future__ import annotations

from typing import Any

import pytest

from disttrain.api.errors import InvalidManifest
from disttrain.api.parse import load_documents


def faults(data: bytes) -> list[str]:
    with pytest.raises(InvalidManifest) as caught:
        load_documents(data, "job.yaml")
    return [str(error) for error in caught.value.errors]


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "is empty: there is no manifest in it"),
        (b"# nothing\n---\n---\n", "is empty: there is no manifest in it"),
        (b"kind: a\nspec:\n  a: 1\n  a: 2\n", "spec.a: line 4: given twice, first in line 3"),
        (b"kind: a\n# \xff\n", "line 2: byte 0xff is not UTF-8 text; save the file as UTF-8"),
        ("kind: ä\n".encode("utf-16"), "line 1: byte 0xff is not UTF-8 text; save the file as UTF-8"),
        (b"- kind: a\n", "line 1: a document must be an object, not a list"),
        (b"kind: a\n---\nhello\n", 'line 3: a document must be an object, not "hello"'),
        (b"a: .nan\n", "a: line 1: .nan is not a number that JSON has; put it in quotes"),
        (b"a: [1e999]\n", "a[0]: line 1: 1e999 is not a number that JSON has; put it in quotes"),
        (b"a: !!python/object:os.system x\n", "a: line 1: the tag !!python/object:os.system has no meaning here"),
        (b"a: !!binary eA==\n", "a: line 1: the tag !!binary has no meaning here"),
        (b"on: a\n", "line 1: the key on must be a string; put it in quotes"),
        (b"? [a]\n: b\n", "line 1: a key must be a string"),
        (b"a: &a [*a]\n", "a[0]: line 1: an alias contains itself"),
        (b"- a\n" * 100_001, "line 100000: more than 100,000 values"),
        (b"a: b: c\n", "line 1, column 5: not YAML: mapping values are not allowed in this context"),
        (b"{a: " * 101 + b"}" * 101, "line 1: nested deeper than 100 levels"),
    ],
)
def test_what_is_no_manifest_file_is_refused(data: bytes, fault: str) -> None:
    assert faults(data) == [fault]


def test_a_file_past_the_limit_is_refused_unread() -> None:
    assert faults(b"#" * (3 * 1024 * 1024 + 1)) == ["is 3,145,729 bytes; a manifest file may have at most 3,145,728"]


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 10)]
    assert faults("\n".join(lines).encode()) == ["line 1: more than 100,000 values, with aliases expanded"]


def test_aliases_that_nest_are_refused_once() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{level}: &a{level} [*a{level - 1}]" for level in range(1, 150)]
    assert len([fault for fault in faults("\n".join(lines).encode()) if "deeper" in fault]) == 1


def test_brackets_without_end_are_refused() -> None:
    assert "nest" in faults(b"[" * 1_000_000)[0]


def test_control_characters_are_refused() -> None:
    assert faults(b"a: \x00")[0].startswith("not YAML: unacceptable character #x0000")


def test_the_file_is_named() -> None:
    with pytest.raises(InvalidManifest, match=r"^job\.yaml: is empty"):
        load_documents(b"", "job.yaml")


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("1:30", "1:30"),
        ("2026-11-30", "2026-11-30"),
        ("2026-11-30T20:00:00Z", "2026-11-30T20:00:00Z"),
        ("1e3", 1000.0),
        ("0x1F", 31),
        ("010", 8),
        ("0o17", 15),
        ("0b11", 3),
        ("08", 8.0),
        ("1_000", 1000),
        ("-1", -1),
        ("+1", 1),
        ("0", 0),
        (".5", 0.5),
        ("99999999999999999999", 1e20),
        ("yes", True),
        ("y", True),
        ("off", False),
        ("~", None),
        ("", None),
        ("null", None),
        ("'1'", "1"),
        ("_1", "_1"),
        ("=", "="),
    ],
)
def test_plain_scalars_mean_what_they_mean_to_kubectl(scalar: str, value: Any) -> None:
    (document,) = load_documents(f"a: {scalar}\n".encode(), "")
    assert (document["a"], type(document["a"])) == (value, type(value))


def test_documents_come_in_order_without_the_empty_ones() -> None:
    data = b"\xef\xbb\xbf---\nkind: A\n---\n# none\n---\nkind: B\n...\n"
    assert [document["kind"] for document in load_documents(data, "")] == ["A", "B"]


def test_json_is_yaml() -> None:
    assert load_documents(b'{"kind": "A", "spec": {"x": [1, true, null, "\\u00e4"]}}', "") == [
        {"kind": "A", "spec": {"x": [1, True, None, "ä"]}}
    ]


def test_merge_keys_work() -> None:
    assert load_documents(b"a: &a {x: 1, z: 2}\nb: {<<: *a, z: 3}\n", "")[0]["b"] == {"x": 1, "z": 3}
