"""The wheel: built in several ways, and installed into empty environments.

`dlq` runs there by itself, with nothing deployed; a stranger's CDK app is synthesized. The
environments get what the wheel asks for, and no more, as links to the packages here: no
network. A release and `make nightly` run those that take long here, and have pip install it from
a clone.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from email.parser import Parser
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from console.cli.commands import COMMANDS
from console.cli.entry import NEEDED, lines, requirement
from console.cli.exit import Exit
from infra import asset, files
from sandbox.server import Sandbox
from tests.each_row import each_row

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# Nothing of the person who runs the tests.
CLEAN = {
    "PATH": "/usr/bin:/bin",
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
    "AWS_EC2_METADATA_DISABLED": "true",
}

QUEUE = "billing-dlq"

# Bytes; the four wheels of the functions are 1.4 million of them.
LARGEST_WHEEL = 4_000_000


def run(
    command: Sequence[str | Path], folder: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**CLEAN, **(environment or {})},
        capture_output=True,
        text=True,
    )


def closure(asked: list[Requirement], extra: str) -> set[str]:
    """The packages that these requirements bring in, by the metadata of those installed here."""
    names: set[str] = set()
    waiting = [(each, extra) for each in asked]
    while waiting:
        wanted, extra = waiting.pop()
        if wanted.marker and not wanted.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(wanted.name)
        assert metadata.version(name) in wanted.specifier, wanted
        if name in names and not wanted.extras:
            continue
        names.add(name)
        further = [Requirement(text) for text in metadata.requires(name) or ()]
        for each in further:
            waiting += [(each, of) for of in wanted.extras or {""}]
    return names


def link(name: str, folder: Path) -> None:
    """Put an installed package into the site-packages of another environment."""
    for top in {file.parts[0] for file in metadata.files(name) or ()} - {"..", "__pycache__"}:
        target = Path(str(metadata.distribution(name).locate_file(top)))
        if not (folder / top).exists():
            (folder / top).symlink_to(target)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `python -m build` makes of this checkout: an sdist, and the wheel of that sdist.

    The build's requirements are those of this environment, so it needs no network.
    """
    folder = tmp_path_factory.mktemp("release")
    # In the checkout its own folder `build` would hide the package.
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT]
    done = run(build, folder, {"PIP_NO_INDEX": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(release: Path) -> Path:
    [file] = release.glob("*.whl")
    return file


def asked_by(wheel: Path) -> list[Requirement]:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        fields = Parser().parsestr(archive.read(name).decode())
    return [Requirement(text) for text in fields.get_all("Requires-Dist") or ()]


def installed(wheel: Path, extra: str, folder: Path) -> Path:
    """The `bin` of an environment with the wheel, and with what it asks for with that extra."""
    venv.create(folder, symlinks=True)
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--isolated",
        "--python",
        folder / "bin" / "python",
    ]
    done = run([*pip, "install", "--quiet", "--no-deps", "--no-index", wheel], folder)
    assert done.returncode == 0, done.stderr
    [packages] = folder.glob("lib/python*/site-packages")
    for name in closure(asked_by(wheel), extra):
        link(name, packages)
    return folder / "bin"


def built(sources: Path, folder: Path, pip: Mapping[str, str] = {}) -> Path:
    """The wheel that hatchling builds from `sources` without a network; `pip` are variables."""
    hatchling = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    done = run(hatchling, sources, {"PIP_NO_INDEX": "1", **pip})
    assert done.returncode == 0, done.stderr
    [file] = folder.glob("*.whl")
    return file


def content(wheel: Path) -> str:
    """The names of all files of a wheel, with their hashes."""
    with zipfile.ZipFile(wheel) as archive:
        [record] = [name for name in archive.namelist() if name.endswith(".dist-info/RECORD")]
        return archive.read(record).decode()


@pytest.fixture(scope="module")
def unpacked(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist of this checkout, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    [sdist] = release.glob("*.tar.gz")
    # The oldest Pythons of 3.11 know no filter of tarfile, and we made this archive.
    shutil.unpack_archive(sdist, folder)
    return folder / sdist.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def without_wheels(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """These sources without build/wheels, as in a clean clone."""
    folder = tmp_path_factory.mktemp("clone") / "clone"
    shutil.copytree(unpacked, folder, ignore=shutil.ignore_patterns("build"))
    return folder


def index(folder: Path) -> dict[str, str]:
    """What makes pip find packages in a folder, in place of an index."""
    return {"PIP_FIND_LINKS": str(folder)}


@pytest.fixture(scope="module")
def library(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment as after `pip install deadletter`."""
    return installed(wheel, "", tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="module")
def command_line(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment as after `pip install deadletter[cli]`."""
    return installed(wheel, "cli", tmp_path_factory.mktemp("command-line"))


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """An account with a main queue, its DLQ of five messages, and nothing else."""
    with Sandbox(tmp_path_factory.mktemp("emulator"), secure=False) as sandbox:
        sqs = sandbox.client("sqs")
        url = sqs.create_queue(QueueName=QUEUE)["QueueUrl"]
        answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        redrive = {"deadLetterTargetArn": answer["Attributes"]["QueueArn"], "maxReceiveCount": "3"}
        main = {"RedrivePolicy": json.dumps(redrive)}
        sqs.create_queue(QueueName="billing", Attributes=main)
        for number in range(5):
            sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"orderId": number}))
        yield sandbox.environment


def test_the_packages_that_dlq_asks_for_are_those_of_the_extra() -> None:
    extra = PROJECT["optional-dependencies"]["cli"]
    assert sorted(Requirement(text).name for text in extra) == sorted(NEEDED)


@each_row(
    ("origin", "wanted"),
    [
        (None, "deadletter[cli]"),
        ("{}", "deadletter[cli]"),
        (
            '{"url": "https://example.com/d.git", "vcs_info": {"vcs": "git", "commit_id": "1"}}',
            "deadletter[cli] @ git+https://example.com/d.git",
        ),
        (
            '{"url": "https://example.com/d.git",'
            ' "vcs_info": {"vcs": "git", "commit_id": "1", "requested_revision": "v1"}}',
            "deadletter[cli] @ git+https://example.com/d.git@v1",
        ),
        (
            '{"url": "https://example.com/v1/d.whl", "archive_info": {"hash": "sha256=0"}}',
            "deadletter[cli] @ https://example.com/v1/d.whl",
        ),
    ],
    ids=["from an index", "empty record", "git", "git at a tag", "a release's wheel"],
)
def test_what_to_install_comes_from_where_this_was_installed_from(
    origin: str | None, wanted: str
) -> None:
    assert requirement(origin) == wanted
    assert Requirement(wanted).extras == {"cli"}


def test_an_environment_of_uv_is_given_the_lines_of_uv() -> None:
    assert lines(None, "uv", "/of uv/python") == (
        "uv tool install --force 'deadletter[cli]'",
        "uv pip install --python '/of uv/python' 'deadletter[cli]'",
    )


@pytest.mark.parametrize("installer", [None, "pip\n"])
def test_any_other_environment_is_given_those_of_pipx_and_pip(installer: str | None) -> None:
    assert lines(None, installer, "/python") == (
        "pipx install --force 'deadletter[cli]'",
        "/python -m pip install 'deadletter[cli]'",
    )


def test_the_wheel_asks_for_ranges(wheel: Path) -> None:
    asked = asked_by(wheel)
    pinned = [str(each) for each in asked if "==" in str(each.specifier)]
    open_ended = [str(each) for each in asked if not {"<", ">="} & set(operators(each))]
    assert (pinned, open_ended) == ([], [])
    extras = {str(each.marker).split()[-1].strip("'\"") for each in asked if each.marker}
    assert extras == {"cdk", "cli", "powertools", "testing", "ui"}


def operators(asked: Requirement) -> list[str]:
    return [each.operator for each in asked.specifier]


def test_the_wheel_holds_what_zips_and_templates_are_made_of(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        there = {Path(name) for name in archive.namelist()}
    packaged = Path("deadletter_cdk", "packaged")
    schemas = [packaged / f"{name}.schema.json" for name in ("settings", "events")]
    machines = [packaged / "statemachines" / file.name for file in files.STATE_MACHINES.iterdir()]
    handlers = [packaged / "handlers" / file.name for file in files.HANDLERS.glob("*.py")]
    others = [packaged / "wheels" / file.name for file in asset.wheels().values()]
    assert {*schemas, *machines, *handlers, *others} <= there
    assert {path.parts[0] for path in there} == {
        *("deadletter", "deadletter_cdk", "deadletter_console"),
        f"deadletter-{PROJECT['version']}.dist-info",
    }


def test_the_page_names_the_wheel_of_a_release_as_it_is_built(wheel: Path) -> None:
    [name] = re.findall(r"wheel `(\S+)`", (ROOT / "docs/install.md").read_text())
    assert name == wheel.name


def test_the_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size <= LARGEST_WHEEL


def test_the_sdist_builds_the_same_wheel_offline(wheel: Path, tmp_path: Path) -> None:
    assert content(built(ROOT, tmp_path)) == content(wheel)


@pytest.mark.nightly
def test_what_is_missing_comes_from_the_index(
    wheel: Path, without_wheels: Path, tmp_path: Path
) -> None:
    fetched = built(without_wheels, tmp_path, index(files.WHEELS))
    assert content(fetched) == content(wheel)


@pytest.mark.nightly
def test_another_file_of_the_index_under_the_same_name_is_refused(
    without_wheels: Path, tmp_path: Path
) -> None:
    shutil.copytree(files.WHEELS, tmp_path / "index")
    for file in (tmp_path / "index").glob("jmespath*"):
        with zipfile.ZipFile(file, "a") as changed:
            changed.writestr("jmespath/more.py", "")
    with pytest.raises(AssertionError, match="DO NOT MATCH THE HASHES"):
        built(without_wheels, tmp_path, index(tmp_path / "index"))


@pytest.mark.nightly
def test_pip_is_asked_for_only_where_something_has_to_be_fetched(
    unpacked: Path, without_wheels: Path
) -> None:
    program = "import hatchling.build as b; print(b.get_requires_for_build_wheel())"
    for sources, needed in ((unpacked, "[]\n"), (without_wheels, "['pip>=23']\n")):
        assert run([sys.executable, "-c", program], sources).stdout == needed


def test_an_editable_install_uses_the_checkout_alone(tmp_path: Path) -> None:
    program = "import sys, hatchling.build as b; print(b.build_editable(sys.argv[1]))"
    done = run([sys.executable, "-c", program, tmp_path], ROOT)
    with zipfile.ZipFile(tmp_path / done.stdout.strip()) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
        paths = archive.read("_deadletter.pth").decode().split()
    assert tops == {"_deadletter.pth", f"deadletter-{PROJECT['version']}.dist-info"}
    assert paths == [str(ROOT), str(ROOT / "lambdas"), str(ROOT / "tools" / "editable")]


@pytest.mark.nightly
def test_an_import_of_the_library_loads_no_other_package_but_jmespath(
    library: Path, tmp_path: Path
) -> None:
    program = (
        "import sys, deadletter.routing, deadletter.rules\n"
        "there = {name.partition('.')[0] for name, module in list(sys.modules.items())\n"
        "         if 'site-packages' in str(getattr(module, '__file__', ''))}\n"
        "print(sorted(there - {'jmespath'}))"
    )
    done = run([library / "python", "-c", program], tmp_path)
    assert (done.stdout, done.stderr) == ("['deadletter']\n", "")


STRANGERS_APP = """
import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from deadletter_cdk import ConsumerLayer, PipelineSettings, RedrivePipeline

app = cdk.App(outdir="out")
stack = cdk.Stack(app, "Shop")
RedrivePipeline(stack, "Orders", settings=PipelineSettings(name="orders", consumer="none"))
lambda_.Function(
    stack, "Consumer", runtime=lambda_.Runtime.PYTHON_3_13, handler="app.handler",
    code=lambda_.Code.from_inline("pass"), layers=[ConsumerLayer(stack, "Library")],
)
app.synth()
"""

# The CDK itself runs in Node; nothing else is started, and nobody is called.
NO_NETWORK = """
import os, sys

def refuse(event, about):
    if event in ("socket.connect", "socket.getaddrinfo"):
        raise RuntimeError(f"{event}: {about[1:]}")
    if event == "subprocess.Popen" and os.path.basename(os.fsdecode(about[0])) != "node":
        raise RuntimeError(f"{event}: {about[:2]}")

sys.addaudithook(refuse)
"""


@pytest.mark.nightly
def test_a_strangers_app_is_synthesized_from_the_wheel_without_pip_or_network(
    wheel: Path, tmp_path: Path
) -> None:
    node = shutil.which("node")
    assert node is not None
    python = installed(wheel, "cdk", tmp_path / "environment") / "python"
    [packages] = (tmp_path / "environment").glob("lib/python*/site-packages")
    (packages / "sitecustomize.py").write_text(NO_NETWORK)
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "app.py").write_text(STRANGERS_APP)

    done = run([python, "app.py"], shop, {"PATH": f"{Path(node).parent}:{CLEAN['PATH']}"})

    assert done.returncode == 0, done.stderr
    assert (shop / "out" / "Shop.template.json").is_file()
    functions, layer = sorted(
        (laid_out(folder) for folder in (shop / "out").glob("asset.*") if folder.is_dir()),
        key=lambda asset: any(path.startswith("python/") for path in asset),
    )
    # What a checkout deploys, byte for byte.
    asset.Bundle(
        asset.contents(files.LIBRARY, files.HANDLERS),
        asset.wheels().values(),
        compiled=asset.compiles(),
    ).try_bundle(str(tmp_path / "checkout"))
    assert functions == laid_out(tmp_path / "checkout")
    assert "python/deadletter/consumer/__init__.py" in layer


def laid_out(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, with its content."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.nightly
def test_the_library_alone_brings_one_package(wheel: Path) -> None:
    assert closure(asked_by(wheel), "") == {"jmespath"}


@pytest.mark.nightly
@pytest.mark.parametrize("words", [["status"], ["--help"], ["list", "--in", "queue:x"]])
def test_without_the_extra_dlq_says_the_line_that_installs_it(
    wheel: Path, library: Path, tmp_path: Path, words: list[str]
) -> None:
    done = run([library / "dlq", *words], tmp_path)

    assert (done.returncode, done.stdout) == (Exit.USAGE, "")
    says, pipx, pip = done.stderr.splitlines()
    assert says.startswith("Error: dlq needs packages that are not installed (boto3, rich, typer)")
    line = shlex.quote(f"deadletter[cli] @ {wheel.as_uri()}")
    assert pipx == f"  pipx install --force {line}"
    assert pip.startswith(f"  {library / 'python'}")
    assert pip.endswith(f" -m pip install {line}")


@pytest.mark.nightly
def test_a_checkout_that_is_not_installed_says_its_own_folder(tmp_path: Path) -> None:
    venv.create(tmp_path / "empty", symlinks=True)
    done = run([tmp_path / "empty" / "bin" / "python", "-m", "console", "status"], ROOT)

    assert done.returncode == Exit.USAGE
    assert f"'deadletter[cli] @ {ROOT.as_uri()}'" in done.stderr


@pytest.mark.nightly
def test_the_extra_brings_no_cdk_and_no_emulator(
    wheel: Path, command_line: Path, tmp_path: Path
) -> None:
    names = closure(asked_by(wheel), "cli")
    assert {"boto3", "rich", "typer"} < names
    assert not names & {"aws-cdk-lib", "constructs", "jsii", "ministack", "moto", "greenlet"}
    done = run([command_line / "dlq", "--version"], tmp_path)
    assert done.stdout == f"dlq {PROJECT['version']}\n"


@pytest.mark.nightly
@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_loads_with_what_the_extra_brings(
    command_line: Path, tmp_path: Path, name: str
) -> None:
    done = run([command_line / "dlq", *name.split(), "--help"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Usage: dlq ") or name == "help"


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["list", "--look", "--in", f"queue:{QUEUE}"], Exit.DONE, "5 messages found"),
        (
            ["groups", "--look", "--in", f"queue:{QUEUE}"],
            Exit.DONE,
            "5 messages, 1 cause",
        ),
        # The emulator does not know by which queues a DLQ is used.
        (["doctor", f"queue:{QUEUE}"], Exit.ATTENTION, "no alarm looks at its depth or age"),
    ],
    ids=["list", "groups", "doctor"],
)
def test_a_queue_of_an_account_without_an_app_is_looked_into(
    command_line: Path,
    account: Mapping[str, str],
    tmp_path: Path,
    words: list[str],
    status: Exit,
    says: str,
) -> None:
    done = run([command_line / "dlq", *words], tmp_path, account)

    assert (done.returncode, done.stderr) == (status, "")
    assert says in done.stdout


@pytest.mark.nightly
@pytest.mark.parametrize("words", [["status"], ["list"], ["groups"], ["show", "some-id"]])
def test_what_needs_an_app_says_so_and_what_does_not(
    command_line: Path, account: Mapping[str, str], tmp_path: Path, words: list[str]
) -> None:
    done = run([command_line / "dlq", *words], tmp_path, account)

    assert (done.returncode, done.stdout) == (Exit.ABSENT, "")
    assert "No app 'deadletter' in account" in done.stderr
    assert "look into any queue:\n  dlq list --in queue:NAME --look" in done.stderr


@pytest.mark.nightly
def test_the_line_that_dlq_says_installs_it_from_a_clone(tmp_path: Path) -> None:
    """Needs the network, or an index of one's own in pip's settings."""
    # Where the index is, and how it is reached.
    network = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("PIP_") or name.upper().endswith("_PROXY")
    }
    clone, folder = tmp_path / "clone", tmp_path / "environment"
    assert run(["git", "clone", "--quiet", ROOT, clone], tmp_path).returncode == 0
    venv.create(folder, symlinks=True, with_pip=True)
    # Not file:///: pip before 24.1 refuses such an address behind git+.
    address = f"git+file://localhost{clone}"
    pip: list[str | Path] = [folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
    done = run([*pip, f"deadletter @ {address}"], tmp_path, network)
    assert done.returncode == 0, done.stderr
    # A clone has no build/wheels: they came from the index.
    wheels = [*folder.glob("lib/*/site-packages/deadletter_cdk/packaged/wheels/*.whl")]
    assert len(wheels) == (ROOT / "lambdas" / "requirements.txt").read_text().count("==")
    refused = run([folder / "bin" / "dlq", "--version"], tmp_path)
    assert refused.returncode == Exit.USAGE

    line = shlex.split(refused.stderr.splitlines()[-1])
    done = run([*line], tmp_path, network)

    assert done.returncode == 0, done.stderr
    done = run([folder / "bin" / "dlq", "--version"], tmp_path)
    assert done.stdout == f"dlq {PROJECT['version']}\n"
    absent = "import importlib.util as u; print([n for n in ('aws_cdk', 'jsii') if u.find_spec(n)])"
    assert run([folder / "bin" / "python", "-c", absent], tmp_path).stdout == "[]\n"


# Of August 2025: Lambda's runtimes are months behind, not years.
OLD_BOTO3 = "boto3==1.40.4"


@pytest.mark.nightly
def test_the_adapters_work_with_an_old_boto3(tmp_path: Path) -> None:
    """Our functions use the runtime's boto3. Needs the network, as above."""
    network = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    old = tmp_path / "old"
    pip: list[str | Path] = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile"]
    fetched = run([*pip, "--target", old, OLD_BOTO3], tmp_path, network)
    assert fetched.returncode == 0, fetched.stderr
    adapters = ["wire", "test_sdk.py", "test_clients.py", "test_adapters.py", "test_refusals.py"]
    adapters += ["test_sqs_contract.py", "test_dynamodb_contract.py"]
    # It compares with today's list, which has grown by headers that our calls do not have.
    grown = "test_the_headers_that_are_not_signed_are_those_of_botocore"
    ran = run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-m", "not sandbox"),
            *("-k", f"not {grown}", *(f"tests/aws/{name}" for name in adapters)),
        ],
        ROOT,
        {"PYTHONPATH": f"{old}:{ROOT}:{ROOT / 'lambdas'}"},
    )
    assert ran.returncode == 0, ran.stdout[-3000:]
