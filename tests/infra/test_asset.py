"""The zip is filled from unpacked wheels and copied files, the same each time."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from infra import asset, files, lock
from infra.refusal import Refused
from tools.setup import steps_for_demo


def laid_out(folder: Path) -> dict[str, str]:
    """Every file below `folder`, with a hash of its content."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def bundle() -> asset.Bundle:
    return asset.Bundle(asset.contents(files.LIBRARY, files.HANDLERS), asset.wheels().values())


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The content of the zip."""
    folder = tmp_path_factory.mktemp("asset")
    assert bundle().try_bundle(str(folder)) is True
    return laid_out(folder)


def test_it_holds_the_library_the_handlers_and_what_they_import(bundled: dict[str, str]) -> None:
    assert {path.partition("/")[0].partition("-")[0] for path in bundled} == {
        *("deadletter", "handlers", "jmespath", "aws_lambda_powertools"),
        *("typing_extensions.py", "typing_extensions"),
    }
    assert {"handlers/redrive.py", "handlers/route.py", "handlers/dispatch.py"} <= set(bundled)
    assert "deadletter/routing/decision.py" in bundled


def test_it_holds_no_fakes_and_no_fixtures(bundled: dict[str, str]) -> None:
    assert (files.LIBRARY.parent / asset.TESTING).is_dir()
    assert [path for path in bundled if path.startswith(asset.TESTING)] == []


def test_a_change_of_a_fake_is_no_new_zip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import aws_cdk as cdk

    def zip_with(name: str, *, fake: str = "", library: str = "") -> str:
        # A folder is read once in a process, so each content is in one of its own.
        testing = tmp_path / name / asset.TESTING
        testing.mkdir(parents=True)
        (testing / "sqs.py").write_text(fake)
        (testing.parent / "stamp.py").write_text(library)
        monkeypatch.setattr(files, "LIBRARY", testing.parent)
        stack = cdk.Stack(cdk.App(context={"aws:cdk:bundling-stacks": []}), "Stack")
        code = asset.code(stack).bind(stack).s3_location
        assert code is not None
        return str(stack.resolve(code.object_key))

    before = zip_with("before")
    assert zip_with("fake", fake="x = 1") == before
    assert zip_with("library", library="x = 1") != before


def test_it_holds_nothing_compiled_by_this_machine_and_nothing_for_one_machine_only(
    bundled: dict[str, str],
) -> None:
    assert [
        path for path in bundled if path.endswith((".pyc", ".so")) or "/bin/" in f"/{path}"
    ] == []


def test_it_is_the_same_each_time(bundled: dict[str, str], tmp_path: Path) -> None:
    bundle().try_bundle(str(tmp_path))
    assert laid_out(tmp_path) == bundled


def test_a_function_starts_with_compiled_files(tmp_path: Path) -> None:
    """Compiled for the place where Lambda unpacks them, the same each time, and then used."""
    listed = {
        path: file
        for path, file in asset.contents(files.LIBRARY, files.HANDLERS).items()
        if path.startswith("deadletter/rules/")
    }
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        asset.Bundle(listed, (), compiled=True).try_bundle(str(folder))
    one, two = map(laid_out, folders)
    assert one == two
    modules = [path for path in one if path.endswith(".py")]
    assert len([path for path in one if path.endswith(".pyc")]) == len(modules) > 10
    # A file that differs is not compiled again: nothing can be written there.
    wildcard = folders[0] / "deadletter/rules/wildcard.py"
    [compiled] = wildcard.parent.glob("__pycache__/wildcard.*.pyc")
    assert b"/var/task/deadletter/rules/wildcard.py" in compiled.read_bytes()
    assert compiled.read_bytes()[4:8] == (0b01).to_bytes(4, "little")


@pytest.mark.parametrize("same", [True, False])
def test_a_zip_is_compiled_by_the_version_that_runs_it(
    monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    import aws_cdk as cdk

    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    runtime = SimpleNamespace(name=version if same else "python2.7")
    monkeypatch.setattr(asset, "RUNTIME", runtime)
    assert asset.compiles() is same
    monkeypatch.undo()
    keys = set()
    for compiles in (True, False):
        monkeypatch.setattr(asset, "compiles", lambda answer=compiles: answer)
        stack = cdk.Stack(cdk.App(context={"aws:cdk:bundling-stacks": []}), "Stack")
        location = asset.code(stack).bind(stack).s3_location
        assert location is not None
        keys.add(str(stack.resolve(location.object_key)))
    assert len(keys) == 2


def test_another_pin_is_another_zip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    listed = asset.contents(files.LIBRARY, files.HANDLERS)
    before = asset.digest_of(listed)
    other = tmp_path / "requirements.txt"
    other.write_text(files.LOCK.read_text().replace("3.37.0", "3.37.1"))
    monkeypatch.setattr(files, "LOCK", other)
    assert asset.digest_of(listed) != before


def test_the_wheels_are_those_of_the_runtime_and_of_any_processor() -> None:
    version = asset.RUNTIME.name.removeprefix("python")
    assert (
        *("--platform", "manylinux2014_aarch64", "--python-version", version),
        "--only-binary=:all:",
    ) == lock.PLATFORM
    wheels = {wheel.name for wheel in asset.wheels().values()}
    # Else functions on x86_64 would have those of arm64.
    assert all(name.endswith("-none-any.whl") for name in wheels), wheels
    setup = {part for step in steps_for_demo() for each in step.commands for part in each}
    assert set(lock.PLATFORM) <= setup


def test_what_can_not_be_bundled_is_refused_before_the_cdk_asks_for_docker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import aws_cdk as cdk

    monkeypatch.setattr(files, "WHEELS", tmp_path / "nothing")
    with pytest.raises(Refused, match=r"nothing has no wheel of \S+ with.*`make synth` puts there"):
        asset.code(cdk.Stack())
