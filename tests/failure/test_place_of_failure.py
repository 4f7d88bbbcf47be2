"""Where the team's own code failed, as log and ledger say it."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from types import ModuleType

import pytest

from deadletter.failure.classify import Diagnosis, diagnose
from deadletter.failure.place import place_of
from deadletter.failure.signals import Permanent, Transient
from tests.failure.exceptions import caught
from tests.samples import NOW, letter

HERE = "tests/failure/test_place_of_failure.py"


def price_of(order: dict[str, int]) -> int:
    return order["price"]


def handler(order: dict[str, int]) -> int:
    return price_of(order)


def of(call: Callable[[], object]) -> Diagnosis:
    return diagnose(caught(call), letter(), now=NOW)


def at(function: Callable[..., object], line: int = 1) -> str:
    return f"{HERE}:{function.__code__.co_firstlineno + line} in {function.__name__}"


def test_the_place_is_the_innermost_frame_of_the_teams_code() -> None:
    diagnosis = of(lambda: handler({}))
    assert diagnosis.place == at(price_of)
    assert diagnosis.traceback[0] == "KeyError"
    assert diagnosis.traceback[-2:] == (f"  {at(handler)}", f"  {at(price_of)}")


def test_the_code_of_a_library_is_in_the_traceback_and_not_the_place() -> None:
    def parse() -> object:
        return json.loads("{")

    diagnosis = of(parse)
    assert diagnosis.place == at(parse)
    assert " in JSONDecoder.raw_decode" in diagnosis.traceback[-1]
    assert diagnosis.traceback[-1].startswith("  json/decoder.py:")


def test_the_error_that_was_raised_says_the_place_before_its_cause() -> None:
    def wrap() -> None:
        try:
            handler({})
        except KeyError as error:
            raise RuntimeError("no price") from error

    diagnosis = of(wrap)
    assert diagnosis.place == at(wrap, 4)
    cause = diagnosis.traceback.index("caused by KeyError")
    assert diagnosis.traceback[0] == "RuntimeError"
    assert f"  {at(price_of)}" in diagnosis.traceback[cause:]


def test_an_error_of_a_library_has_the_place_of_its_cause_in_the_teams_code() -> None:
    outer = ValueError("made by a library, and never raised")
    outer.__cause__ = caught(lambda: handler({}))
    assert diagnose(outer, letter(), now=NOW).place == at(price_of)


def test_an_error_that_was_never_raised_has_no_place() -> None:
    diagnosis = diagnose(KeyError("price"), letter(), now=NOW)
    assert (diagnosis.place, diagnosis.traceback) == ("", ("KeyError",))


@pytest.mark.parametrize("verdict", [Permanent("no price"), Transient("busy")])
def test_a_verdict_of_the_handler_has_a_place_and_no_traceback(verdict: Exception) -> None:
    def refuse() -> None:
        raise verdict

    diagnosis = of(refuse)
    assert (diagnosis.place, diagnosis.traceback) == (at(refuse), ())


def test_a_line_that_the_function_has_left_since_is_not_the_place() -> None:
    def go_on() -> BaseException:
        try:
            handler({})
        except KeyError as error:
            kept = error
        return kept

    diagnosis = diagnose(go_on(), letter(), now=NOW)
    assert f"  {at(go_on, 2)}" in diagnosis.traceback


@pytest.mark.parametrize("name", ["<string>", "Anna Schmidt", "/tmp/anna@example.com.py"])  # noqa: S108 - a name, no file is made
def test_code_that_was_made_of_a_text_shows_none_of_its_name(name: str) -> None:
    module = ModuleType("shop")
    exec(compile("def fail():\n    raise KeyError('x')", name, "exec"), module.__dict__)  # noqa: S102 - the text is of this test
    diagnosis = of(module.fail)
    assert diagnosis.place == "code:2 in fail"
    assert "anna" not in str(diagnosis.traceback).lower()


def test_code_in_a_folder_of_packages_is_a_librarys() -> None:
    module = ModuleType("shop")
    exec(compile("def fail():\n    {}['x']", "/opt/site-packages/shop.py", "exec"), module.__dict__)  # noqa: S102 - the text is of this test

    def call() -> None:
        module.fail()

    assert of(call).place == at(call)


def test_without_code_of_the_team_a_librarys_names_a_failure_and_no_cause() -> None:
    error = caught(lambda: json.loads("{"))
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    error = error.with_traceback(innermost)
    assert place_of(error, only_own=False) == ["json.decoder", "JSONDecoder.raw_decode"]
    assert place_of(error, only_own=True) == []


def test_a_traceback_is_short_however_deep_the_code_is() -> None:
    def deeper(left: int) -> None:
        if left:
            deeper(left - 1)
        raise KeyError("price")

    error: BaseException = caught(functools.partial(deeper, 300))
    for _ in range(30):
        outer = ValueError("outer")
        outer.__cause__ = error
        error = caught(functools.partial(_throw, outer))
    diagnosis = diagnose(error, letter(), now=NOW)
    assert len(diagnosis.traceback) <= 5 * 13
    assert max(map(len, diagnosis.traceback)) < 170


def _throw(error: BaseException) -> None:
    raise error


def test_no_text_value_or_source_is_in_a_traceback() -> None:
    def fail(secret: str) -> None:
        raise RuntimeError(f"password {secret}") from ValueError(secret)

    diagnosis = of(lambda: fail("swordfish"))
    assert "swordfish" not in f"{diagnosis.place}{diagnosis.traceback}"
    assert "raise" not in str(diagnosis.traceback)
