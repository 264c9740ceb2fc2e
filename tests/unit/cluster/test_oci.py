"""Images: the same files are the same bytes, and an archive holds what a store needs and nothing that it has."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from tests.cluster.images.oci import MTIME, BlobStore, Image, Layer, Settings, Tree, write_archive


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def directory(path: Path, **files: str) -> Path:
    path.mkdir(parents=True)
    for name, text in files.items():
        (path / name).write_text(text)
    return path


def members(blobs: BlobStore, layer: Layer) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(blobs.path(layer)) as tar:
        return {member.name: member for member in tar.getmembers()}


def archive(images: list[Image], blobs: BlobStore, without: tuple[Layer, ...] = ()) -> dict[str, bytes]:
    out = io.BytesIO()
    write_archive(out, images, blobs, without)
    with tarfile.open(fileobj=io.BytesIO(out.getvalue())) as tar:
        return {member.name: content.read() for member in tar if (content := tar.extractfile(member)) is not None}


def test_a_layer_is_named_by_the_digest_of_its_bytes(tmp_path: Path, blobs: BlobStore) -> None:
    layer = blobs.add([Tree(directory(tmp_path / "a", file="text"))])
    data = blobs.path(layer).read_bytes()
    assert layer == Layer(f"sha256:{hashlib.sha256(data).hexdigest()}", len(data))


def test_the_same_files_are_the_same_layer_whenever_and_wherever_they_were_written(
    tmp_path: Path, blobs: BlobStore
) -> None:
    first = directory(tmp_path / "a", one="1", two="2")
    second = directory(tmp_path / "b", two="2", one="1")
    os.utime(second / "one", (1, 1))
    assert blobs.add([Tree(first)]) == blobs.add([Tree(second)])


def test_everything_in_a_layer_is_roots_and_of_one_time(tmp_path: Path, blobs: BlobStore) -> None:
    found = members(blobs, blobs.add([Tree(directory(tmp_path / "a", file="text"))]))
    assert {(each.uid, each.gid, each.uname, each.mtime) for each in found.values()} == {(0, 0, "", MTIME)}


def test_a_target_brings_its_parent_directories(tmp_path: Path, blobs: BlobStore) -> None:
    found = members(blobs, blobs.add([Tree(directory(tmp_path / "a", file="text"), "/opt/app")]))
    assert {name: member.isdir() for name, member in found.items()} == {
        "opt": True,
        "opt/app": True,
        "opt/app/file": False,
    }


def test_a_symbolic_link_stays_one(tmp_path: Path, blobs: BlobStore) -> None:
    source = directory(tmp_path / "a", file="text")
    (source / "link").symlink_to("file")
    assert members(blobs, blobs.add([Tree(source)]))["link"].linkname == "file"


def test_skipped_names_are_left_out_at_every_depth(tmp_path: Path, blobs: BlobStore) -> None:
    source = directory(tmp_path / "a", keep="1", drop="2")
    directory(source / "below", drop="3")
    assert set(members(blobs, blobs.add([Tree(source, skip=frozenset({"drop"}))]))) == {"keep", "below"}


def test_a_sticky_directory_stays_open_to_all(tmp_path: Path, blobs: BlobStore) -> None:
    source = directory(tmp_path / "a")
    directory(source / "tmp").chmod(0o1777)
    assert members(blobs, blobs.add([Tree(source)]))["tmp"].mode == 0o1777


def test_files_that_are_hard_links_here_are_files_of_their_own_there(tmp_path: Path, blobs: BlobStore) -> None:
    source = directory(tmp_path / "a", one="text")
    os.link(source / "one", source / "two")
    found = members(blobs, blobs.add([Tree(source)]))
    assert [found["one"].isreg(), found["two"].isreg()] == [True, True]


def test_an_archive_leads_from_the_name_to_the_layers(tmp_path: Path, blobs: BlobStore) -> None:
    layer = blobs.add([Tree(directory(tmp_path / "a", file="text"))])
    found = archive([Image("test/image:1", (layer,), Settings(user="1:1"))], blobs)
    index = json.loads(found["index.json"])["manifests"][0]
    manifest = json.loads(found[f"blobs/{index['digest'].replace(':', '/')}"])
    config = json.loads(found[f"blobs/{manifest['config']['digest'].replace(':', '/')}"])
    assert index["annotations"]["io.containerd.image.name"] == "test/image:1"
    assert config["config"]["User"] == "1:1"
    assert config["rootfs"]["diff_ids"] == [each["digest"] for each in manifest["layers"]] == [layer.digest]


def test_a_layer_of_several_images_is_in_the_archive_once(tmp_path: Path, blobs: BlobStore) -> None:
    layer = blobs.add([Tree(directory(tmp_path / "a", file="text"))])
    out = io.BytesIO()
    write_archive(out, [Image(f"test/image:{tag}", (layer,), Settings()) for tag in "12"], blobs)
    with tarfile.open(fileobj=io.BytesIO(out.getvalue())) as tar:
        names = tar.getnames()
    assert names.count(f"blobs/{layer.digest.replace(':', '/')}") == 1


def test_layers_that_the_store_has_are_not_sent_again(tmp_path: Path, blobs: BlobStore) -> None:
    old = blobs.add([Tree(directory(tmp_path / "a", file="old"))])
    new = blobs.add([Tree(directory(tmp_path / "b", file="new"))])
    found = archive([Image("test/image:1", (old, new), Settings())], blobs, without=(old,))
    sent = {name.removeprefix("blobs/sha256/") for name in found}
    assert new.digest.removeprefix("sha256:") in sent
    assert old.digest.removeprefix("sha256:") not in sent
