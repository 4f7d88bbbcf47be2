"""The zip is laid out by pip and a copy, the same each time."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from infra import asset
from infra.refusal import Refused


def laid_out(folder: Path) -> dict[str, str]:
    """Every file below `folder`, with a hash of its content."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The content of the zip."""
    folder = tmp_path_factory.mktemp("asset")
    assert asset.Bundle().try_bundle(str(folder)) is True
    return laid_out(folder)


def test_it_holds_the_library_the_handlers_and_what_they_import(bundled: dict[str, str]) -> None:
    assert {path.partition("/")[0].partition("-")[0] for path in bundled} == {
        *("deadletter", "handlers", "jmespath", "aws_lambda_powertools"),
        *("typing_extensions.py", "typing_extensions", "tzdata"),
    }
    assert {"handlers/redrive.py", "handlers/route.py", "handlers/dispatch.py"} <= set(bundled)
    assert "deadletter/routing/decision.py" in bundled


def test_it_holds_no_fakes_and_no_fixtures(bundled: dict[str, str]) -> None:
    assert (asset.LAMBDAS / asset.TESTING).is_dir()
    assert [path for path in bundled if path.startswith(f"{asset.TESTING}/")] == []


def test_a_change_of_a_fake_is_no_new_zip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import aws_cdk as cdk

    def zip_with(name: str, *, fake: str = "", library: str = "") -> str:
        # The CDK remembers the hash of a folder, so each content is in one of its own.
        lambdas = tmp_path / name
        (lambdas / asset.TESTING).mkdir(parents=True)
        (lambdas / asset.TESTING / "sqs.py").write_text(fake)
        (lambdas / "deadletter" / "stamp.py").write_text(library)
        monkeypatch.setattr(asset, "LAMBDAS", lambdas)
        stack = cdk.Stack(cdk.App(context={"aws:cdk:bundling-stacks": []}), "Stack")
        code = asset.code(stack).bind(stack).s3_location
        assert code is not None
        return str(stack.resolve(code.object_key))

    before = zip_with("before")
    assert zip_with("fake", fake="x = 1") == before
    assert zip_with("library", library="x = 1") != before


def test_it_holds_nothing_compiled_and_nothing_for_one_machine_only(
    bundled: dict[str, str],
) -> None:
    assert [
        path for path in bundled if path.endswith((".pyc", ".so")) or "/bin/" in f"/{path}"
    ] == []


def test_it_is_the_same_each_time(bundled: dict[str, str], tmp_path: Path) -> None:
    asset.Bundle().try_bundle(str(tmp_path))
    assert laid_out(tmp_path) == bundled


def test_what_can_not_be_bundled_is_refused_before_the_cdk_asks_for_docker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import aws_cdk as cdk

    monkeypatch.setattr(asset, "WHEELS", tmp_path / "nothing")
    with pytest.raises(Refused, match="nothing is missing; allowed: the wheels that `make synth`"):
        asset.code(cdk.Stack())
