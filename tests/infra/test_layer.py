"""The layer holds what a team's function imports, and is small."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from infra import asset, files, layer

# Bytes of the zip: what the library may add to a team's function.
LARGEST = 333_000


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The layer as Lambda unpacks it."""
    folder = tmp_path_factory.mktemp("layer")
    wheels = [asset.wheels()[layer.DEPENDENCY]]
    asset.Bundle(layer.contents(files.LIBRARY), wheels, layer.PREFIX).try_bundle(str(folder))
    return folder


def test_it_is_small(laid_out: Path) -> None:
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in laid_out.rglob("*"):
            archive.write(file, file.relative_to(laid_out))
    assert len(zipped.getvalue()) <= LARGEST


def test_it_holds_one_folder_with_the_library_and_its_dependency(laid_out: Path) -> None:
    assert [each.name for each in laid_out.iterdir()] == ["python"]
    tops = {each.name.partition("-")[0] for each in (laid_out / "python").iterdir()}
    assert tops == {"deadletter", "jmespath"}
    modules = layer.contents(files.LIBRARY)
    assert not [path for path in modules if path.startswith(("deadletter/testing/", "handlers/"))]


def test_every_module_of_it_can_be_imported_from_it(laid_out: Path) -> None:
    names = [
        path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path in layer.contents(files.LIBRARY)
    ]
    assert set(layer.ENTRIES) <= set(names)
    program = (
        f"import sys; sys.path.insert(0, {str(laid_out / 'python')!r})\n"
        f"import importlib\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "print(sys.modules['deadletter'].__file__)"
    )
    # -I leaves the checkout out; site-packages has boto3 and Powertools, as Lambda has.
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(laid_out))


def test_a_function_uses_it_in_one_line() -> None:
    import aws_cdk as cdk
    from aws_cdk import aws_lambda as lambda_
    from aws_cdk.assertions import Template

    stack = cdk.Stack(cdk.App(context={"aws:cdk:bundling-stacks": []}), "Stack")
    lambda_.Function(
        stack,
        "Function",
        runtime=lambda_.Runtime.PYTHON_3_12,
        handler="app.handler",
        code=lambda_.Code.from_inline("pass"),
        layers=[layer.ConsumerLayer(stack, "Deadletter")],
    )
    Template.from_stack(stack).has_resource_properties(
        "AWS::Lambda::LayerVersion",
        {"CompatibleRuntimes": ["python3.11", "python3.12", "python3.13"]},
    )
