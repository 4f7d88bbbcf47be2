"""A function's package is unpacked once for all of its workers."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from sandbox.packages import SharedPackage


def package(folder: Path, code: str) -> Path:
    file = folder / "code.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("index.py", code)
    return file


def worker(state: Path, name: str, code: str) -> Path:
    """Unpack a package as MiniStack does for a new worker. Returns its folder `code`."""
    folder = state / name / "code"
    folder.mkdir(parents=True)
    with SharedPackage(package(folder.parent, code)) as archive:
        archive.extractall(str(folder))
    return folder


def test_workers_of_one_package_have_its_files_in_common_and_those_of_another_do_not(
    tmp_path: Path,
) -> None:
    first, second = worker(tmp_path, "first", "one"), worker(tmp_path, "second", "one")
    other = worker(tmp_path, "other", "two")
    assert (first / "index.py").read_text() == (second / "index.py").read_text() == "one"
    assert (other / "index.py").read_text() == "two"
    (first / "index.pyc").write_text("compiled")
    assert (second / "index.pyc").read_text() == "compiled"
    assert not (other / "index.pyc").exists()


@pytest.mark.parametrize("name", ["layer_0", "codes"])
def test_another_folder_gets_files_of_its_own(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    with SharedPackage(package(tmp_path, "one")) as archive:
        archive.extractall(str(folder))
    assert not folder.is_symlink()
    assert (folder / "index.py").read_text() == "one"
