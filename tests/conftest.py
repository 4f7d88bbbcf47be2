"""How hard Hypothesis tries, and the fixtures that all tests share.

Moderately by day, hard with HYPOTHESIS_PROFILE=nightly.
"""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

from deadletter.testing import letterbox, letterbox_settings
from tests.chromium import chromium
from tests.loopback_only import loopback_only
from tests.times import Times
from tools.nightly.parts import parts_of

__all__ = ["chromium", "letterbox", "letterbox_settings"]

# No deadlines: other tests run on the same cores, and a slow example is not a wrong one.
settings.register_profile("quick", max_examples=12, deadline=None, database=None)
settings.register_profile("nightly", max_examples=2_000, deadline=None)
# The same examples for each mutant, and no failing one is made smaller.
settings.register_profile(
    "mutation",
    max_examples=25,
    deadline=None,
    database=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So it is in the background of a shell. Commands that tests start would inherit it, and a
    # test that ends one by an interrupt would wait without an end.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# As in app.py, and for each program that a test starts.
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"

# Without credentials a client asks the machine's own address for them; none of ours lies there.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"

HERE = Path(__file__).parent
# The folders that `make e2e` and `make nightly` collect for it.
SANDBOXED = (HERE / "aws", HERE / "e2e", HERE / "operate")

# Off while tests are collected: it takes as long as the rest of collecting, and finds nothing.
gc.disable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", help="write what each test costs into this file, and limit it")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("times"):
        config.pluginmanager.register(Times(config.rootpath / config.getoption("times")))


def pytest_collection_finish() -> None:
    """Turn garbage collection on, for what tests make: it never looks at what is there now."""
    gc.freeze()
    # Rarely: at Python's own threshold, looking takes a fifth of the time of many tests.
    gc.set_threshold(20_000)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test of the sandbox where `make e2e` does not look for it.

    Nor may a nightly one lie where `make nightly` does not look, or looks twice.
    """
    for item in items:
        if item.get_closest_marker("nightly") and len(found := parts_of(item.path)) != 1:
            raise pytest.UsageError(
                f"{item.nodeid}: a nightly test lies in one part of tools/nightly/parts.py,"
                f" and this one in {' and '.join(found) or 'none'}"
            )
        elsewhere = not any(item.path.is_relative_to(folder) for folder in SANDBOXED)
        if elsewhere and item.get_closest_marker("sandbox"):
            raise pytest.UsageError(
                f"{item.nodeid}: tests of the sandbox lie in"
                f" {' or '.join(f'tests/{folder.name}' for folder in SANDBOXED)}"
            )


@pytest.fixture(autouse=True)
def _no_real_aws() -> Iterator[None]:
    """A test that asks another machine fails, also if what it tests swallows the refusal."""
    asked: list[str] = []
    with loopback_only(asked.append):
        yield
    assert asked == []


_RECURSION_LIMIT = sys.getrecursionlimit()


@pytest.fixture(autouse=True)
def _a_function_s_recursion_limit() -> Iterator[None]:
    """Each test has the limit that a function has: moto's JSONata raises it and leaves it so."""
    sys.setrecursionlimit(_RECURSION_LIMIT)
    yield
    sys.setrecursionlimit(_RECURSION_LIMIT)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Refuse cases from a set: its order differs between the workers of pytest-xdist."""
    for marker in metafunc.definition.iter_markers("parametrize"):
        values = marker.kwargs.get("argvalues", marker.args[1] if len(marker.args) > 1 else ())
        if isinstance(values, set | frozenset):
            raise pytest.UsageError(
                f"{metafunc.definition.nodeid}: sort the cases, a set has no order"
            )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The scheduler of `--dist loadfile`."""
    from tests.spreading import FilesWhole

    return FilesWhole(config, log) if config.getoption("dist") == "loadfile" else None
