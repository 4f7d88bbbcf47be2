"""Who may import whom, who may prove, and what nobody does.

Each check is a function over one source file, so that it can be shown planted faults.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tools.face import code_lines

ROOT = Path(__file__).parent.parent
OURS = ("lambdas", "console", "sandbox", "infra", "tools", "lab", "tests")
TESTS = ("tests/", "lab/tests/")


@dataclass(frozen=True)
class Source:
    """A file, which is parsed once for all checks, and only if one of them looks inside."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def imports(self) -> list[tuple[str, bool]]:
        return list(imports(self.tree, self.path))


Check = Callable[[Source], Iterator[str]]
"""Gives what is wrong with a file."""

# Besides the standard library. Of two rows the one of the longer path counts.
MAY_IMPORT = {
    "lambdas/deadletter": {"deadletter", "jmespath"},
    "lambdas/deadletter/contract.py": set(),
    "lambdas/deadletter/aws": {"deadletter", "jmespath", "boto3", "botocore"},
    "lambdas/deadletter/consumer": {"deadletter"},
    "lambdas/deadletter/consumer/powertools.py": {"deadletter", "aws_lambda_powertools"},
    "lambdas/deadletter/testing": {"deadletter", "pytest"},
    "lambdas/deadletter/testing/fakes": {"deadletter", "botocore"},
    "lambdas/handlers": {"deadletter", "handlers", "aws_lambda_powertools"},
    "infra": {
        "infra",
        "aws_cdk",
        "constructs",
        "jsii",
        "pydantic",
        "pydantic_core",
        "jmespath",
        "deadletter",
    },
    "lab/mutation": {"lab", "boto3", "botocore", "hypothesis", "moto", "pytest"},
    "tools/scan": {"tools", "infra", "aws_cdk", "cdk_nag", "parliament"},
    "console": {"console", "deadletter", "boto3", "botocore", "jmespath", "rich", "typer"},
    "console/operations": {"console", "deadletter", "boto3", "botocore", "jmespath"},
    "console/web": {"console", "deadletter", "jinja2", "markupsafe", "starlette", "uvicorn"},
    "sandbox": {
        "sandbox",
        "deadletter",
        "boto3",
        "botocore",
        "cryptography",
        "hypercorn",
        "ministack",
        "rich",
        # The demo's page is one of the templates that draw the console's, and no more of it.
        "console.web.page",
    },
}

# Our packages from the ground up. Each imports itself and what stands on lower floors.
FLOORS = (
    {"deadletter.contract"},
    # How a setting is declared: declarations stand on every floor.
    {"deadletter.settings.setting"},
    {"deadletter.signals"},
    {"deadletter.pace"},
    {"deadletter.message", "deadletter.circuit", "deadletter.events"},
    {"deadletter.settings", "deadletter.failure"},
    # It reads a circuit's outcomes.
    {"deadletter.pace.auto_rate"},
    {"deadletter.rules"},
    {"deadletter.routing"},
    {"deadletter.redrive", "deadletter.processing"},
    {"deadletter.webhook"},
    {"deadletter.outage", "deadletter.replay"},
    {"deadletter.watch"},
    {"deadletter.aws"},
    {"deadletter.aws.wiring.world"},
    {"deadletter.aws.wiring.stores"},
    {"deadletter.aws.wiring"},
    {"deadletter.consumer", "handlers", "console.operations"},
    {"console.web"},
    {"console.cli", "deadletter.testing"},
    # Its demo models other tools on the fakes.
    {"sandbox"},
)

# What a package may not import although it stands on a lower floor.
MAY_NOT_IMPORT = {
    # A handler gets all of AWS from its wiring.
    "lambdas/handlers": {"deadletter.consumer"},
    "console": {"deadletter.consumer"},
}

# Code that describes the deployment knows of the runtime its contract, its catalogue, and the
# declarations of its settings.
INFRA_MAY_KNOW = (
    "deadletter.contract.",
    "deadletter.signals.",
    "deadletter.settings.",
    "deadletter.circuit.state.",
)

# The consumer library lives in other people's functions, where nobody hands it a clock or an
# environment: this one module of it looks for itself.
LIBRARY_EDGE = "lambdas/deadletter/consumer/runtime.py"
EDGES = ("handlers.runtime", "deadletter.consumer.runtime")

# Stubs exist for the type checker only, where the package they describe may be used.
STUBS_FOR = {"boto3": "mypy_boto3_"}

# Code that makes a proof has got a confirmation: see deadletter.message.confirmation.
MAY_CONFIRM = {
    "lambdas/deadletter/outage/canaries.py",
    "lambdas/deadletter/aws/queue.py",
    "lambdas/deadletter/aws/waiting_room.py",
    "lambdas/deadletter/redrive/journal.py",
    "lambdas/deadletter/replay/ticket.py",
}

NO_NAMES_FOR_A_MODULE = {
    "common",
    "core",
    "helper",
    "helpers",
    "manager",
    "managers",
    "service",
    "services",
    "util",
    "utils",
}

# Random is an argument; a UUID is read and not drawn.
TYPES_ALONE = {"random.Random", "uuid.UUID"}
CLOCKS = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today"}

HANDLER_LINES = 25


def row_of(path: str, table: dict[str, set[str]]) -> set[str] | None:
    """The table's row for a file; None where it says nothing about it."""
    found = [place for place in table if f"{path}/".startswith(f"{place}/")]
    return table[max(found, key=len)] if found else None


def imports(tree: ast.AST, path: str = "", typing_only: bool = False) -> Iterator[tuple[str, bool]]:
    """Each module that is imported anywhere, and whether for the type checker alone.

    `from a import b` may import the module a.b: both are named. A relative import is
    resolved against the path of its file.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, typing_only) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                above = module_of(path).split(".")[: -node.level]
                module = ".".join([*above, *([module] if module else [])])
            yield module, typing_only
            yield from ((f"{module}.{alias.name}", typing_only) for alias in node.names)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from imports(ast.Module(node.body, []), path, True)
            yield from imports(ast.Module(node.orelse, []), path, typing_only)
        # No expression imports anything, and most nodes are in one.
        elif not isinstance(node, ast.expr):
            yield from imports(node, path, typing_only)


def module_of(path: str) -> str:
    """The name under which a file is imported; a package is named `x.__init__`."""
    return path.removeprefix("lambdas/").removesuffix(".py").replace("/", ".")


def package_of(module: str) -> tuple[str, int] | None:
    """The package of ours that a module belongs to, with its floor; the longest name counts."""
    known = [
        (package, floor)
        for floor, packages in enumerate(FLOORS)
        for package in packages
        if f"{module}.".startswith(f"{package}.")
    ]
    return max(known, key=lambda row: len(row[0]), default=None)


def out_of_bounds(source: Source) -> Iterator[str]:
    """Imports that the table does not allow."""
    allowed, refused = row_of(source.path, MAY_IMPORT), row_of(source.path, MAY_NOT_IMPORT) or set()
    if allowed is None:
        return
    for module, typing_only in source.imports:
        package = module.partition(".")[0]
        stubs = typing_only and any(
            package.startswith(stub) for library, stub in STUBS_FOR.items() if library in allowed
        )
        known = any(f"{module}.".startswith(f"{name}.") for name in allowed)
        inside = known or package in sys.stdlib_module_names or stubs
        if not inside or any(f"{module}.".startswith(f"{name}.") for name in refused):
            yield f"imports {module}"
        runtime = source.path.startswith("infra/") and module.startswith("deadletter.")
        if runtime and not f"{module}.".startswith(INFRA_MAY_KNOW):
            yield f"imports {module}"


LAB = re.compile(r"\blab\b")


def from_the_lab(source: Source) -> Iterator[str]:
    """An import of what measures the product: the lab imports the product, never the other way."""
    if not source.path.startswith("lab/") and LAB.search(source.text):
        for module, _typing_only in source.imports:
            if module.partition(".")[0] == "lab":
                yield f"imports {module}"


def upstairs(source: Source) -> Iterator[str]:
    """Imports from the same floor's other packages, or from a floor above."""
    own = package_of(module_of(source.path))
    if own is None:
        return
    for module, _typing_only in source.imports:
        other = package_of(module)
        if other is None or other[0] == own[0]:
            continue
        past_the_wiring = own[0] == "handlers" and other[0] == "deadletter.aws"
        if other[1] >= own[1] or past_the_wiring:
            yield f"imports {module}"


def loose_modules(source: Source) -> Iterator[str]:
    """A module that lies beside the packages of the library instead of in one."""
    folder, _slash, name = source.path.rpartition("/")
    if folder == "lambdas/deadletter" and name not in ("__init__.py", "contract.py"):
        yield "belongs into a package"


def clock_and_chance(source: Source) -> Iterator[str]:
    """What makes the library depend on when and where it runs."""
    if not source.path.startswith("lambdas/deadletter/") or source.path == LIBRARY_EDGE:
        return
    for module, _typing_only in source.imports:
        if module.partition(".")[0] in {"os", "time", "secrets", "subprocess"}:
            yield f"imports {module}"
        if module.startswith(("random.", "uuid.")) and module not in TYPES_ALONE:
            yield f"imports {module}"
    bound = names_bound_by_imports(source)
    for node in source.nodes:
        if not isinstance(node, ast.Attribute):
            continue
        drawn = isinstance(node.value, ast.Name) and node.value.id in ("random", "uuid")
        # To write an expression out takes longer than all else.
        if not drawn and node.attr not in ("now", "utcnow", "today"):
            continue
        whole = ast.unparse(node)
        is_clock = ".".join(whole.split(".")[-2:]) in CLOCKS
        if whole.partition(".")[0] in bound and (is_clock or (drawn and whole not in TYPES_ALONE)):
            yield f"uses {whole}"


def names_bound_by_imports(source: Source) -> set[str]:
    return {
        alias.asname or alias.name.partition(".")[0]
        for node in source.nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when the module is imported: everything but the bodies of functions."""
    yield node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        parts: list[ast.AST] = [*node.decorator_list, node.args]
    elif isinstance(node, ast.Lambda):
        parts = [node.args]
    else:
        parts = list(ast.iter_child_nodes(node))
    for part in parts:
        yield from at_import(part)


def environment_at_import(source: Source) -> Iterator[str]:
    """A look at the environment, or a call of the edge that looks, when nobody has called yet."""
    if not source.path.startswith("lambdas/"):
        return
    edge = {
        alias.asname or alias.name
        for node in source.nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if node.module in EDGES or f"{node.module}.{alias.name}" in EDGES
    }
    for node in at_import(source.tree):
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)
        if name in ("environ", "getenv"):
            yield f"reads {name} at import"
        if isinstance(node, ast.Call) and ast.unparse(node.func).partition(".")[0] in edge:
            yield f"calls {ast.unparse(node.func)} at import"


def thick_handlers(source: Source) -> Iterator[str]:
    """A handler that is more than decorators, one call and a return."""
    if source.path.startswith("lambdas/handlers/"):
        count = code_lines(source.tree, source.text)
        if count > HANDLER_LINES:
            yield f"has {count} lines of code"


def catch_alls(source: Source) -> Iterator[str]:
    """A handler that swallows what it does not know: the failure has to be Lambda's to see."""
    if not source.path.startswith("lambdas/handlers/"):
        return
    for node in source.nodes:
        caught: list[ast.expr] = []
        if isinstance(node, ast.ExceptHandler):
            caught = [node.type] if node.type else [ast.Name("Exception")]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
            caught = node.args
        names = {
            name.id for part in caught for name in ast.walk(part) if isinstance(name, ast.Name)
        }
        if names & {"Exception", "BaseException"}:
            yield f"{ast.unparse(node).splitlines()[0]} catches everything"


def unfounded_confirmations(source: Source) -> Iterator[str]:
    """A proof made by somebody who got no confirmation."""
    if source.path in MAY_CONFIRM or source.path.startswith(TESTS):
        return
    if "Confirmation" not in source.text:
        return
    for node in source.nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "Confirmation":
            yield f"makes a Confirmation in line {node.lineno}"
        # Under another name it could not be seen.
        if isinstance(node, ast.ImportFrom) and any(
            alias.name == "Confirmation" and alias.asname for alias in node.names
        ):
            yield f"renames Confirmation in line {node.lineno}"


def sleeps(source: Source) -> Iterator[str]:
    """A test that waits: time is an argument."""
    if not source.path.startswith(TESTS) or "sleep" not in source.text:
        return
    bound = names_bound_by_imports(source)
    for module, _typing_only in source.imports:
        if module in ("time.sleep", "asyncio.sleep"):
            yield f"imports {module}"
    for node in source.nodes:
        # A simulated scheduler may have a sleep of its own.
        called = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
        owner, _dot, name = called.rpartition(".")
        if name == "sleep" and owner in bound:
            yield f"uses {called}"
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).endswith("setattr")
            and re.search(r"\btime(\.sleep\b|, .sleep)", ast.unparse(node))
        ):
            # Threads of the emulators sleep by the same function.
            yield f"changes time.sleep for every thread in line {node.lineno}"


def empty_names(source: Source) -> Iterator[str]:
    """A module or folder named after nothing."""
    for part in Path(source.path).with_suffix("").parts:
        if part.strip("_") in NO_NAMES_FOR_A_MODULE:
            yield f"is called {part}"


# Words with which a docstring becomes a riddle: it says what is, of a thing that has a name.
RIDDLES = re.compile(
    r"(?:[Ww]hoever|[Ww]hatever|[Ss]omebody|[Nn]obody)\b|[^.]*(?<!there )\bis none\b"
)
RIDDLE_WORDS = re.compile(r"[Ww]hoever|[Ww]hatever|[Ss]omebody|[Nn]obody|is none")


def riddles(source: Source) -> Iterator[str]:
    """A docstring that begins with a riddle instead of the noun that it is about."""
    if not RIDDLE_WORDS.search(source.text):
        return
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in source.nodes:
        if isinstance(node, documented) and RIDDLES.match(ast.get_docstring(node) or ""):
            yield f"line {getattr(node, 'lineno', 1)} begins with a riddle"


CHECKS: list[Check] = [
    out_of_bounds,
    from_the_lab,
    upstairs,
    loose_modules,
    clock_and_chance,
    environment_at_import,
    thick_handlers,
    catch_alls,
    unfounded_confirmations,
    sleeps,
    empty_names,
    riddles,
]


def our_files() -> list[Path]:
    return sorted(path for folder in OURS for path in (ROOT / folder).rglob("*.py"))


@pytest.fixture(scope="module")
def sources() -> list[Source]:
    """Every Python file of ours."""
    return [Source(str(path.relative_to(ROOT)), path.read_text()) for path in our_files()]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_architecture_holds(check: Check, sources: list[Source]) -> None:
    problems = [f"{source.path} {problem}" for source in sources for problem in check(source)]
    assert problems == []


def test_the_checks_see_every_part_of_the_project(sources: list[Source]) -> None:
    paths = [source.path for source in sources]
    for folder in ("lambdas/deadletter", "lambdas/deadletter/aws", "lambdas/handlers", *OURS):
        assert any(path.startswith(f"{folder}/") for path in paths), folder
    for path in (*MAY_CONFIRM, LIBRARY_EDGE):
        assert path in paths


def class_names(sources: Iterable[Source]) -> Iterator[tuple[str, str]]:
    """The name of each class on the top level of a module, with the module's path."""
    for source in sources:
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef):
                yield node.name, source.path


def used_twice(sources: Iterable[Source]) -> list[str]:
    """Class names that two modules use: a reader would have to ask which of them is meant."""
    paths: dict[str, set[str]] = {}
    for name, path in class_names(sources):
        paths.setdefault(name, set()).add(path)
    return [
        f"{name}: {', '.join(sorted(found))}" for name, found in paths.items() if len(found) > 1
    ]


def test_a_class_name_is_used_once(sources: list[Source]) -> None:
    # What a person types has the names of what it is read into.
    left_out = (*TESTS, "infra/typed.py")
    assert used_twice(each for each in sources if not each.path.startswith(left_out)) == []


def test_a_class_name_that_is_used_twice_is_found() -> None:
    text = "class Queue: ..."
    assert used_twice([Source("a.py", text), Source("b.py", text)]) == ["Queue: a.py, b.py"]
    assert used_twice([Source("a.py", text), Source("b.py", "x = 1")]) == []


def circle(sources: Iterable[Source]) -> list[str]:
    """Modules that import each other in a circle, for the type checker alone or in a function too.

    Empty if there are none. Each module imports its package, whose `__init__` shows some of them:
    these files are left out.
    """
    modules = {module_of(each.path): each for each in sources}
    imported = {
        module: {name for name, _typing_only in source.imports if name in modules} - {module}
        for module, source in modules.items()
    }
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other_in_a_circle(sources: list[Source]) -> None:
    assert circle(sources) == []


@pytest.mark.parametrize(
    "back",
    [
        "from .a import A",
        "if TYPE_CHECKING:\n    from x.a import A",
        "def f():\n    import x.a",
        "from . import a",
    ],
)
def test_a_circle_of_imports_is_found(back: str) -> None:
    there = [Source("x/a.py", "from x.b import B")]
    assert set(circle([*there, Source("x/b.py", back)])) == {"x.a", "x.b"}
    assert circle([*there, Source("x/b.py", "from . import c"), Source("x/c.py", "")]) == []


# Each check is shown what it is there for, and something close to it that is fine.

PURE = "lambdas/deadletter/routing/x.py"
CONTRACT = "lambdas/deadletter/contract.py"
AWS = "lambdas/deadletter/aws/x.py"
FACE = "lambdas/deadletter/consumer/x.py"
FAKE = "lambdas/deadletter/testing/fakes/x.py"
HANDLER = "lambdas/handlers/x.py"
TEST = "tests/routing/test_x.py"
UNDER_TYPE_CHECKING = "if TYPE_CHECKING:\n    from mypy_boto3_sqs import SQSClient\n"
PADDED = '"""Two\nlines."""\n\n# a comment\n' + "\n\n".join(f"x{n} = {n}" for n in range(25))

FAULTS: list[tuple[Check, str, str]] = [
    (out_of_bounds, PURE, "import boto3"),
    (out_of_bounds, PURE, "import boto3.session as time"),
    (out_of_bounds, PURE, "def f():\n    import requests"),
    (out_of_bounds, PURE, "try:\n    import orjson\nexcept ImportError:\n    orjson = None"),
    (out_of_bounds, PURE, "import aws_lambda_powertools"),
    (out_of_bounds, PURE, UNDER_TYPE_CHECKING),
    (out_of_bounds, PURE, "import handlers.runtime"),
    (out_of_bounds, PURE, "import pytest"),
    (out_of_bounds, AWS, "from mypy_boto3_sqs import SQSClient"),
    (out_of_bounds, AWS, "import aws_lambda_powertools"),
    (out_of_bounds, CONTRACT, "import jmespath"),
    (out_of_bounds, CONTRACT, "from deadletter.settings.backoff import Backoff"),
    (out_of_bounds, FAKE, "import moto"),
    (out_of_bounds, HANDLER, "import boto3"),
    (out_of_bounds, HANDLER, "from console import main"),
    (out_of_bounds, HANDLER, "from deadletter.consumer import consume"),
    (out_of_bounds, FACE, "import boto3"),
    (out_of_bounds, FACE, "import aws_lambda_powertools"),
    (out_of_bounds, LIBRARY_EDGE, "import boto3"),
    (out_of_bounds, "lambdas/deadletter/consumer/powertools.py", "import boto3"),
    (out_of_bounds, "infra/x.py", "from deadletter.redrive.mover import Mover"),
    (out_of_bounds, "infra/x.py", "from deadletter import failure"),
    (out_of_bounds, "infra/x.py", "import handlers.redrive"),
    (out_of_bounds, "console/cli/x.py", "import aws_cdk"),
    (out_of_bounds, "console/cli/x.py", "from infra.settings import Settings"),
    (out_of_bounds, "console/operations/x.py", "import typer"),
    (out_of_bounds, "console/operations/x.py", "from rich.text import Text"),
    (out_of_bounds, "sandbox/demo/x.py", "from tests.simulation.stage import Stage"),
    (from_the_lab, PURE, "from lab.bench import figures"),
    (from_the_lab, "sandbox/x.py", "import lab"),
    (from_the_lab, "tools/x.py", "def f():\n    from lab.mutation.targets import TARGETS"),
    (from_the_lab, TEST, "from lab.bench.lean_stub import LeanStub"),
    (upstairs, CONTRACT, "from deadletter.message.letter import Letter"),
    (upstairs, "lambdas/deadletter/message/x.py", "from deadletter.circuit.state import Circuit"),
    (upstairs, "lambdas/deadletter/circuit/x.py", "from deadletter.message.letter import Letter"),
    (upstairs, "lambdas/deadletter/settings/x.py", "from deadletter.failure import failure"),
    (upstairs, "lambdas/deadletter/failure/x.py", "from deadletter.settings import pipeline"),
    (upstairs, "lambdas/deadletter/rules/x.py", "from deadletter.routing import router"),
    (upstairs, PURE, "from deadletter.redrive.mover import Mover"),
    (upstairs, PURE, "from deadletter.aws.queue import SqsQueue"),
    (upstairs, PURE, "from deadletter import aws"),
    (upstairs, PURE, "import deadletter.aws"),
    (upstairs, PURE, "from ..aws import queue"),
    (upstairs, PURE, "from deadletter.consumer import consume"),
    (upstairs, "lambdas/deadletter/redrive/x.py", "from deadletter.processing import batch"),
    (upstairs, "lambdas/deadletter/redrive/x.py", "from deadletter.outage import reconciler"),
    (upstairs, "lambdas/deadletter/processing/x.py", "from deadletter.redrive import mover"),
    (upstairs, "lambdas/deadletter/webhook/x.py", "from deadletter.outage import health"),
    (upstairs, "lambdas/deadletter/outage/x.py", "from deadletter.aws import circuits"),
    (upstairs, AWS, "from deadletter.aws.wiring import moving"),
    (upstairs, AWS, "from deadletter.consumer.runtime import current_runtime"),
    (upstairs, AWS, "from deadletter.testing.fakes import MemorySqs"),
    (
        upstairs,
        "lambdas/deadletter/aws/wiring/world.py",
        "from deadletter.aws.wiring import judging",
    ),
    (
        upstairs,
        "lambdas/deadletter/aws/wiring/stores.py",
        "from deadletter.aws.wiring.judging import router_for",
    ),
    (upstairs, HANDLER, "from deadletter.aws.clients import clients"),
    (upstairs, HANDLER, "from deadletter.testing import Letterbox"),
    (upstairs, FACE, "import deadletter.testing"),
    (upstairs, LIBRARY_EDGE, "from deadletter.testing.fakes import MemorySqs"),
    (upstairs, "console/operations/x.py", "from console.cli import output"),
    (upstairs, "console/operations/x.py", "from ..cli import output"),
    (upstairs, "console/operations/x.py", "from ..web import page"),
    (upstairs, "console/web/x.py", "from ..cli import output"),
    (out_of_bounds, "console/cli/x.py", "import starlette"),
    (upstairs, "console/cli/x.py", "from deadletter.testing.fakes import MemorySqs"),
    (out_of_bounds, "sandbox/x.py", "from console.operations import app"),
    (out_of_bounds, "sandbox/x.py", "from console.web import page"),
    (out_of_bounds, "sandbox/x.py", "from console.web.server import serve"),
    (loose_modules, "lambdas/deadletter/x.py", ""),
    (clock_and_chance, PURE, "import time"),
    (clock_and_chance, PURE, "import os.path"),
    (clock_and_chance, PURE, "from time import monotonic"),
    (clock_and_chance, AWS, "import secrets"),
    (clock_and_chance, FACE, "import time"),
    (clock_and_chance, "lambdas/deadletter/consumer/__init__.py", "import os"),
    (clock_and_chance, "lambdas/deadletter/consumer/powertools.py", "import os"),
    (clock_and_chance, "lambdas/deadletter/testing/__init__.py", "from time import time"),
    (clock_and_chance, "lambdas/deadletter/runtime.py", "from uuid import uuid4"),
    (clock_and_chance, PURE, "from random import uniform"),
    (clock_and_chance, PURE, "import random\nx = random.random"),
    (clock_and_chance, PURE, "import uuid\nx = uuid.uuid4()"),
    (clock_and_chance, PURE, "from uuid import uuid4"),
    (clock_and_chance, AWS, "from datetime import UTC, datetime\nx = datetime.now(UTC)"),
    (clock_and_chance, PURE, "import datetime\nx = datetime.date.today()"),
    (clock_and_chance, PURE, "import datetime\nx = datetime.datetime.now()"),
    (environment_at_import, HANDLER, "import os\nx = os.environ['X']"),
    (environment_at_import, HANDLER, "from os import environ as e, getenv\nx = getenv('X')"),
    (environment_at_import, HANDLER, "import os\nclass A:\n    x = os.getenv('X')"),
    (environment_at_import, HANDLER, "import os\ndef f(x=os.environ['X']): ..."),
    (environment_at_import, HANDLER, "import os\n@tagged(os.environ['X'])\ndef f(): ..."),
    (environment_at_import, HANDLER, "import os\nif True:\n    x = os.environ.get('X')"),
    (environment_at_import, HANDLER, "from handlers.runtime import settings\nx = settings()"),
    (environment_at_import, HANDLER, "from handlers.runtime import world as w\nx = f(w().clock)"),
    (environment_at_import, LIBRARY_EDGE, "import os\nx = os.environ.get('DEADLETTER')"),
    (
        environment_at_import,
        FACE,
        "from deadletter.consumer.runtime import current_runtime\nx = current_runtime()",
    ),
    (
        environment_at_import,
        FACE,
        "from deadletter.consumer import runtime\nx = runtime.current_runtime()",
    ),
    (thick_handlers, HANDLER, PADDED + "\ny = 1"),
    (thick_handlers, HANDLER, PADDED + "\ny = (\n    1\n)"),
    (catch_alls, HANDLER, "try:\n    f()\nexcept Exception:\n    pass"),
    (catch_alls, HANDLER, "try:\n    f()\nexcept (ValueError, Exception) as e:\n    pass"),
    (catch_alls, HANDLER, "try:\n    f()\nexcept BaseException:\n    raise"),
    (catch_alls, HANDLER, "try:\n    f()\nexcept:\n    pass"),
    (catch_alls, HANDLER, "with contextlib.suppress(Exception):\n    f()"),
    (
        unfounded_confirmations,
        "lambdas/deadletter/redrive/mover.py",
        "x = Confirmation('a', 'hope')",
    ),
    (
        unfounded_confirmations,
        "console/x.py",
        "from deadletter.message import confirmation\nx = confirmation.Confirmation('a', 'b')",
    ),
    (
        unfounded_confirmations,
        PURE,
        "from deadletter.message.confirmation import Confirmation as P",
    ),
    (sleeps, TEST, "import time\ntime.sleep(1)"),
    (sleeps, "lab/tests/bench/test_x.py", "import time\ntime.sleep(1)"),
    (sleeps, TEST, "import time as t\nt.sleep(1)"),
    (sleeps, TEST, "from time import sleep as rest"),
    (sleeps, TEST, "import asyncio\nasync def f():\n    await asyncio.sleep(1)"),
    (sleeps, TEST, "import time\nwait = time.sleep"),
    (sleeps, TEST, "m.setattr(command.time, 'sleep', f)"),
    (sleeps, TEST, "m.setattr('console.x.time.sleep', f)"),
    (empty_names, "lambdas/deadletter/utils.py", ""),
    (empty_names, "console/helpers/x.py", ""),
    (empty_names, "infra/_common.py", ""),
    (empty_names, "sandbox/manager.py", ""),
    (riddles, PURE, '"""Whoever decides."""'),
    (riddles, TEST, 'def f():\n    """Nobody looks at the lock."""'),
    (riddles, PURE, 'class A:\n    """A number; what is none counts as missing."""'),
]

FINE: list[tuple[Check, str, str]] = [
    (out_of_bounds, PURE, "import json\nimport jmespath\nfrom deadletter.message import stamp"),
    (from_the_lab, "lab/tests/x.py", "from lab.bench import moving\nimport deadletter.aws"),
    (from_the_lab, "tools/x.py", "import labels"),
    (
        upstairs,
        PURE,
        "from deadletter.rules import rulebook\nfrom deadletter.routing import router",
    ),
    (upstairs, "lambdas/deadletter/outage/x.py", "from deadletter.redrive import mover"),
    (upstairs, HANDLER, "from deadletter.aws.wiring.moving import redriver_for"),
    (upstairs, "console/cli/x.py", "from ..operations import app"),
    (loose_modules, CONTRACT, ""),
    (out_of_bounds, PURE, "from deadletter.awsome import x"),
    (out_of_bounds, AWS, "import boto3\nfrom botocore.exceptions import ClientError"),
    (out_of_bounds, AWS, UNDER_TYPE_CHECKING),
    (out_of_bounds, AWS, "from deadletter.aws.table import DynamoDBTable"),
    (out_of_bounds, FAKE, "from deadletter.testing.fakes.errors import refuse"),
    (out_of_bounds, HANDLER, "import time\nfrom aws_lambda_powertools import Logger"),
    (
        out_of_bounds,
        "infra/x.py",
        "import aws_cdk\nfrom .names import name\nfrom deadletter import contract",
    ),
    (out_of_bounds, TEST, "import moto"),
    (out_of_bounds, "sandbox/x.py", "from console.web.page import render"),
    (clock_and_chance, PURE, "from random import Random\nimport uuid\nx = uuid.UUID('')"),
    (clock_and_chance, PURE, "from datetime import datetime\nx = datetime.fromisoformat('')"),
    (clock_and_chance, PURE, "def f(random):\n    return random.random()"),
    (clock_and_chance, HANDLER, "import time\nx = time.time"),
    (clock_and_chance, LIBRARY_EDGE, "import os, time, uuid\nx = time.time, uuid.uuid4"),
    (environment_at_import, LIBRARY_EDGE, "import os\ndef f():\n    return os.environ.get('X')"),
    (environment_at_import, HANDLER, "import os\ndef f():\n    return os.environ['X']"),
    (environment_at_import, HANDLER, "import os\nx = cache(lambda: os.environ['X'])"),
    (environment_at_import, HANDLER, "from handlers.runtime import settings\nx = f(settings)"),
    (thick_handlers, HANDLER, PADDED),
    (thick_handlers, PURE, PADDED + "\ny = 1"),
    (catch_alls, HANDLER, "try:\n    f()\nexcept (KeyError, ValueError):\n    pass"),
    (
        unfounded_confirmations,
        "lambdas/deadletter/redrive/journal.py",
        "x = Confirmation('a', 'journal')",
    ),
    (
        unfounded_confirmations,
        PURE,
        "from deadletter.message.confirmation import Confirmation\ndef f(x: Confirmation): ...",
    ),
    (sleeps, TEST, "scheduler.sleep(1)"),
    (sleeps, TEST, "import time\nx = time.perf_counter()"),
    (sleeps, "sandbox/x.py", "import time\ntime.sleep(1)"),
    (empty_names, "lambdas/deadletter/score.py", ""),
    (riddles, PURE, '"""Decides about letters. Nobody else does."""'),
]


def found(check: Check, path: str, text: str) -> list[str]:
    return list(check(Source(path, text)))


def test_a_planted_fault_is_found() -> None:
    assert [fault for fault in FAULTS if not found(*fault)] == []


def test_what_is_fine_is_left_alone() -> None:
    assert [fine for fine in FINE if found(*fine)] == []


def test_each_check_has_been_seen_to_fail() -> None:
    assert {check for check, _, _ in FAULTS} == set(CHECKS)
