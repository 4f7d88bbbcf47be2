"""What is installed works: the command, its types, from a checkout and from the wheel."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import typer

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION = PROJECT["project"]["version"]

# Where each package of the wheel comes from.
PACKAGES = {
    "deadletter": ROOT / "lambdas" / "deadletter",
    "deadletter_cdk": ROOT / "infra",
    "deadletter_console": ROOT / "console",
}

# The dependencies, without what installed them here: a .pth file in it is not read again.
DEPENDENCIES = Path(typer.__file__).parents[1]

USER = """\
from deadletter.signals.figures import Figure
from deadletter_cdk.typed import PipelineSettings
from deadletter_console.cli.exit import Exit

metric: str = Figure.REDRIVEN.says
settings: PipelineSettings = PipelineSettings(name="orders")
status: int = Exit.USAGE
"""


@pytest.fixture(scope="module", params=["standard", "editable"])
def kind(request: pytest.FixtureRequest) -> str:
    """Installed from the wheel, or from the checkout."""
    return str(request.param)


@pytest.fixture(scope="module")
def wheel(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as hatchling builds it, without a network."""
    folder = tmp_path_factory.mktemp(kind)
    run([sys.executable, "-m", "hatchling", "build", "-t", f"wheel:{kind}", "-d", folder], ROOT)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with the wheel and its dependencies, and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--isolated", "--python", python, "install", "--quiet"]
    run([*pip, "--no-deps", "--no-index", wheel], folder)
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{DEPENDENCIES}\n")
    return folder / "bin"


def run(command: list[str | Path], folder: Path) -> str:
    """What a command prints; fails with what it complains about."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.nightly
def test_the_installed_command_says_its_version(environment: Path, tmp_path: Path) -> None:
    assert run([environment / "dlq", "--version"], tmp_path) == f"dlq {VERSION}\n"


@pytest.mark.nightly
def test_the_packages_are_found_under_their_own_names(
    kind: str, environment: Path, tmp_path: Path
) -> None:
    for name, source in PACKAGES.items():
        code = f"import {name}; print({name}.__file__)"
        printed = run([environment / "python", "-c", code], tmp_path)
        folder = Path(printed.strip()).parent
        if kind == "editable":
            assert folder.resolve() == source
        else:
            assert folder.parent.name == "site-packages"
            assert folder.is_relative_to(environment.parent)


# A minute of mypy, which reads boto3's stubs anew in each environment.
@pytest.mark.nightly
def test_strict_type_checks_see_the_types_of_each_package(
    environment: Path, tmp_path: Path
) -> None:
    (tmp_path / "user.py").write_text(USER)
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable"]
    assert "Success" in run([*mypy, environment / "python", "user.py"], tmp_path)


@pytest.mark.nightly
def test_the_wheel_holds_three_packages_with_all_their_modules(kind: str, wheel: Path) -> None:
    if kind == "editable":
        return
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name.partition("/")[0] for name in names} == {
        *PACKAGES,
        f"deadletter-{VERSION}.dist-info",
    }
    for package, source in PACKAGES.items():
        modules = {path.relative_to(source) for path in source.rglob("*.py")}
        assert {f"{package}/{path}" for path in modules} <= names
        assert f"{package}/py.typed" in names


def test_each_package_says_that_it_has_types() -> None:
    for source in PACKAGES.values():
        assert (source / "py.typed").is_file()


def test_links_give_a_checkout_the_names_of_the_wheel() -> None:
    links = {path.name: path.resolve() for path in (ROOT / "tools" / "editable").iterdir()}
    assert links == {name: PACKAGES[name] for name in ("deadletter_cdk", "deadletter_console")}


@pytest.mark.parametrize("package", ["infra", "console"])
def test_packages_that_the_wheel_renames_import_themselves_relatively(package: str) -> None:
    absolute = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if package in (_imported(node))
    ]
    assert absolute == []


def _imported(node: ast.AST) -> set[str]:
    """The packages that a statement imports by their absolute names."""
    if isinstance(node, ast.Import):
        return {alias.name.partition(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return {(node.module or "").partition(".")[0]}
    return set()
