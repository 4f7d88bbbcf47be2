"""The manifest of a replay run."""

from __future__ import annotations

import pytest

from deadletter.aws.objects import S3RunObjects
from deadletter.replay.manifest import Manifest, ManifestIndex, index_from_text, part_name
from deadletter.replay.names import Name, NotAName, to_lines
from deadletter.replay.objects import ObjectsUnavailable
from deadletter.testing.clock import Clock
from deadletter.testing.fakes import MemoryS3
from tests.each_row import each_row
from tests.replay.test_names import name


@pytest.fixture
def objects() -> S3RunObjects:
    s3 = MemoryS3(Clock())
    s3.create_bucket(Bucket="messages")
    return S3RunObjects(s3, "messages", "orders", "r")  # type: ignore[arg-type]  # a fake client


def shard(number: int, letters: int) -> list[Name]:
    """Letters of one shard, in order."""
    key = next(str(n) for n in range(1_000) if name("a", key=str(n)).shard == number)
    return [name(f"{number}-{n:05}", key=key) for n in range(letters)]


def test_a_manifest_is_read_in_parts(objects: S3RunObjects) -> None:
    first, last = shard(0, 501), shard(7, 2)
    objects.put(part_name(0, 0), to_lines(first[:500]))
    objects.put(part_name(0, 1), to_lines(first[500:]))
    objects.put(part_name(7, 0), to_lines(last))
    manifest = Manifest(objects)
    assert manifest.index() is None
    index = ManifestIndex((501, 0, 0, 0, 0, 0, 0, 2), "abc", {"f1": 3})
    manifest.seal(index)
    assert manifest.index() == index
    assert (index.messages, index.parts(0), index.parts(1), index.parts(7)) == (503, 2, 0, 1)
    assert list(manifest.part(0, 1)) == first[500:]
    assert list(manifest.names(index)) == [*first, *last]


def test_the_first_manifest_that_is_sealed_stands(objects: S3RunObjects) -> None:
    [mine], [other] = shard(0, 1), shard(1, 1)
    objects.put(part_name(0, 0, "mine"), to_lines([mine]))
    objects.put(part_name(1, 0, "other"), to_lines([other]))
    first = ManifestIndex((1, 0, 0, 0, 0, 0, 0, 0), "abc", {}, "mine")
    late = ManifestIndex((0, 1, 0, 0, 0, 0, 0, 0), "def", {}, "other")
    assert Manifest(objects).seal(first) == first
    slow = Manifest(objects)
    assert slow.seal(late) == first
    assert list(slow.names(first)) == [mine]
    assert list(Manifest(objects).part(0, 0)) == [mine]


def test_a_part_that_is_missing_or_damaged_is_unavailable(objects: S3RunObjects) -> None:
    manifest = Manifest(objects)
    with pytest.raises(ObjectsUnavailable, match=r"manifest/3/000007.jsonl .* is missing"):
        manifest.part(3, 7)
    objects.put(part_name(3, 7), b"{}\n")
    with pytest.raises(ObjectsUnavailable, match=r"000007.jsonl: this line"):
        manifest.part(3, 7)
    objects.put("manifest/index.json", b"[]")
    with pytest.raises(ObjectsUnavailable, match=r"index.json"):
        manifest.index()


@each_row(
    "text",
    [
        "",
        "[]",
        '{"shards": [1], "hash": "a", "causes": {}, "folder": ""}',
        '{"shards": [0,0,0,0,0,0,0,-1], "hash": "", "causes": {}, "folder": ""}',
        '{"shards": [0,0,0,0,0,0,0,0], "hash": "", "causes": [], "folder": ""}',
    ],
)
def test_an_index_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(NotAName):
        index_from_text(text)
