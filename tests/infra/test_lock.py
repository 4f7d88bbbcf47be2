"""A wheel is known by its hash, and unpacked without what belongs to this machine."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from infra import files, lock


def wheel(file: Path, **content: str) -> str:
    """A wheel with the package `given`; returns its hash."""
    paths = {
        "given/__init__.py": "x = 1\n",
        "given-1.0.dist-info/METADATA": "Name: given\n",
        "given-1.0.data/scripts/given": "#!/usr/bin/python\n",
        "given-1.0.data/purelib/beside.py": "y = 2\n",
        **content,
    }
    with zipfile.ZipFile(file, "w") as archive:
        for path, text in paths.items():
            archive.writestr(path, text)
    return hashlib.sha256(file.read_bytes()).hexdigest()


def locked(folder: Path, *hashes: str) -> Path:
    file = folder / "requirements.txt"
    allowed = " \\\n    ".join(f"--hash=sha256:{each}" for each in hashes)
    file.write_text(f"# a comment\ngiven==1.0 \\\n    {allowed}\n    # via -r requirements.in\n")
    return file


def test_the_functions_lock_file_is_read_whole() -> None:
    text = files.LOCK.read_text()
    found = lock.pins(files.LOCK)
    assert set(found) == {line.partition("==")[0] for line in text.splitlines() if "==" in line}
    assert sum(len(hashes) for hashes in found.values()) == text.count("--hash=")


def test_a_wheel_is_found_by_its_content_whatever_its_name(tmp_path: Path) -> None:
    file = tmp_path / "renamed.whl"
    known = wheel(file)
    wheel(tmp_path / "given-1.0-py3-none-any.whl", more="z = 3\n")
    assert lock.wheels(locked(tmp_path, "0" * 64, known), tmp_path) == {"given": file}


def test_a_changed_wheel_counts_as_missing(tmp_path: Path) -> None:
    file = tmp_path / "given-1.0-py3-none-any.whl"
    allowed = locked(tmp_path, wheel(file))
    with file.open("ab") as changed:
        changed.write(b"one byte more")
    with pytest.raises(lock.WheelMissing, match="no wheel of given"):
        lock.wheels(allowed, tmp_path)


def test_packages_are_unpacked_and_scripts_are_not(tmp_path: Path) -> None:
    wheel(tmp_path / "given.whl")
    lock.unpack(tmp_path / "given.whl", tmp_path / "target")
    unpacked = {
        str(file.relative_to(tmp_path / "target"))
        for file in (tmp_path / "target").rglob("*")
        if file.is_file()
    }
    assert unpacked == {"given/__init__.py", "given-1.0.dist-info/METADATA", "beside.py"}
