"""No secret remains of the table's texts, nor of one that is planted in another text."""

from __future__ import annotations

import json
import runpy
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from deadletter.failure.classify import diagnose
from deadletter.failure.redaction import MASK, ledger_message, redact
from deadletter.failure.secretive import NARROW, STATES, TOO, is_secretive_word
from deadletter.failure.signals import Permanent, Transient
from deadletter.failure.vocabulary import WORDS
from tests.each_row import each_row
from tests.failure.exceptions import caught
from tests.samples import NOW, letter


@dataclass(frozen=True)
class Leaky:
    """One text. `secrets` are divided by `|`, as is what `remains` of the text."""

    text: str
    secrets: str
    remains: str = ""
    body: str = "{}"


TABLE = Path(__file__).with_name("leaky_texts.json")
"""Texts of errors with data in them: what must not remain of each, and what has to."""

TEXTS = [Leaky(*row) for rows in json.loads(TABLE.read_text()).values() for row in rows]


def raising(text: str) -> Callable[[], None]:
    def throw() -> None:
        raise ValueError(text)

    return throw


def leaks(secrets: str, remains: str) -> list[str]:
    return [secret for secret in secrets.split("|") if secret and secret in remains.lower()]


def test_the_table_is_large_enough() -> None:
    assert len({leaky.text for leaky in TEXTS}) == len(TEXTS) >= 80


def wrongs(leaky: Leaky) -> Iterator[str]:
    """What is wrong with what is kept of a text."""
    subject = letter(leaky.body)
    remains = redact(leaky.text, subject)
    recorded = diagnose(caught(raising(leaky.text)), subject, now=NOW).message
    for kept in (remains, recorded):
        yield from (f"{leaky.text!r} leaks {secret}" for secret in leaks(leaky.secrets, kept))
    for part in leaky.remains.split("|"):
        if part.lower() not in remains.lower():
            yield f"{leaky.text!r} loses {part}"
    if not any(map(str.isalpha, recorded)):
        yield f"{leaky.text!r} leaves no word"


def test_no_secret_of_the_table_remains() -> None:
    assert [wrong for leaky in TEXTS for wrong in wrongs(leaky)] == []


# What stands before the secret names it, or what comes after the text shows that it is a value.
NAMES_A_SECRET = [
    "password is {}",
    "the password: {}",
    "login failed (password = {})",
    "wrong token: {}",
    "invalid api key {}",
    "client_secret={}",
    "Authorization: Bearer {}",
    "passphrase {}",
    "credentials\tare {}",
    "request refused, access token was {}",
    "PASSWORD:\n{}",
]
HOLDS_A_VALUE = [
    "Failing row contains ({}, 7)",
    "DETAIL: Key (email)=({}) already exists.",
    "cannot read order {{name: {}}}",
    "name = {}",
    "customer: {}",
    "update failed [value: {}]",
    "unknown field '{}'",
]
common_words = st.sampled_from(sorted((WORDS - NARROW - STATES - TOO) - {"in", "or"})).filter(
    lambda word: len(word) > 3 and word.isalpha()
)
passphrases = st.lists(common_words, min_size=1, max_size=5).map(" ".join)


@given(passphrases, st.sampled_from(NAMES_A_SECRET + HOLDS_A_VALUE), st.sampled_from(["", " here"]))
def test_no_word_of_a_planted_passphrase_remains(phrase: str, shape: str, end: str) -> None:
    outside = shape.lower().replace("{}", " ") + end
    words = [word for word in phrase.split() if word not in outside]
    remains = redact(shape.format(phrase) + end, letter()).lower()
    assert not [word for word in words if word in remains.split()]


unknown_words = st.text(string.ascii_lowercase + "äéßжλ中", min_size=4, max_size=12).filter(
    lambda word: word.lower() not in WORDS and word.lower().removesuffix("s") not in WORDS
)


@given(st.sampled_from([leaky.text for leaky in TEXTS]), unknown_words, st.integers(0, 200))
def test_no_planted_word_remains_anywhere_in_a_text(text: str, word: str, at: int) -> None:
    places = text.split(" ")
    places.insert(min(at, len(places)), word)
    assume(word.lower() not in text.lower() and not is_secretive_word(word.lower()))
    remains = redact(" ".join(places), letter()).lower()
    assert word.lower() not in remains


@given(st.sampled_from([leaky.text for leaky in TEXTS]), st.integers(100, 10**16))
def test_no_planted_number_remains_anywhere_in_a_text(text: str, number: int) -> None:
    assert not any(map(str.isdigit, redact(f"{text} {number} {text} {number}x", letter())))


# The program's own words.


def test_the_handlers_own_words_are_never_masked_away() -> None:
    def busy() -> None:
        raise Transient("busy")

    def unusual() -> None:
        raise Permanent("the gladiolus of Wuppertal sleeps")

    subject = letter('{"note": "busy gladiolus of Wuppertal sleeps"}')
    assert diagnose(caught(busy), subject, now=NOW).message == "busy"
    assert diagnose(Transient("busy"), subject, now=NOW).message == "busy"
    wanted = "the gladiolus of Wuppertal sleeps"
    assert diagnose(caught(unusual), subject, now=NOW).message == wanted


def test_the_handlers_own_words_remain_in_every_script() -> None:
    def closed() -> None:
        raise Transient("倉庫は閉まっています。")

    def crowded() -> None:
        raise Transient("Das Lager ist überfüllt, später wieder")

    assert diagnose(caught(closed), letter(), now=NOW).message == "倉庫は閉まっています"
    wanted = "Das Lager ist überfüllt, später wieder"
    assert diagnose(caught(crowded), letter(), now=NOW).message == wanted


@pytest.mark.parametrize("body", ['{"shipping": 1, "orderId": "8"}', '{"a": {"orderId": null}}'])
def test_names_of_fields_in_the_programs_words_remain(body: str) -> None:
    def missing() -> None:
        fields: dict[str, int] = {}
        fields["orderId"]

    def attribute() -> None:
        letter().shipping  # type: ignore[attr-defined]  # noqa: B018

    subject = letter(body)
    assert diagnose(caught(missing), subject, now=NOW).message == "orderId"
    assert diagnose(caught(attribute), subject, now=NOW).message.endswith("attribute shipping")


@each_row("name", ["Anna Schmidt", "order", "open order", "Mark", "is open", "7"])
def test_a_value_that_the_program_inserts_is_masked_whatever_it_is(name: str) -> None:
    def blocked() -> None:
        raise ValueError(f"customer {name} is blocked")

    def formatted() -> None:
        raise ValueError("customer %s is blocked" % name)  # noqa: UP031

    def subject() -> None:
        raise ValueError(f"{name} is blocked")

    for throw in (blocked, formatted):
        message = diagnose(caught(throw), letter(), now=NOW).message
        assert message == "customer … is blocked"
    assert diagnose(caught(subject), letter(), now=NOW).message == "… is blocked"


def shop_errors() -> list[Callable[[object], None]]:
    """Handlers that raise with a value in their text, in many forms."""

    def blocked(value: object) -> None:
        raise ValueError(f"customer {value} is blocked")

    def subject(value: object) -> None:
        raise ValueError(f"{value} is blocked")

    def at_the_end(value: object) -> None:
        raise ValueError(f"cannot ship to {value}")

    def quoted(value: object) -> None:
        raise ValueError(f"no product '{value}' in the catalogue")

    def shown(value: object) -> None:
        raise ValueError(f"bad order {value!r}, try again")

    def pair(value: object) -> None:
        raise ValueError(f"{value} and {value} are the same")

    def formatted(value: object) -> None:
        raise ValueError("customer {} of {} is blocked".format(value, value))  # noqa: UP032

    def percent(value: object) -> None:
        raise ValueError("customer %s of %s is blocked" % (value, value))  # noqa: UP031

    def added(value: object) -> None:
        raise ValueError("cannot find " + str(value))

    def row(value: object) -> None:
        raise ValueError(f"row ({value}, 7) is refused")

    def named(value: object) -> None:
        raise ValueError(f"wrong customer={value} in the order")

    def secret(value: object) -> None:
        raise ValueError(f"password {value} was refused")

    def data(value: object) -> None:
        raise ValueError({"order": value})

    def argument(value: object) -> None:
        raise KeyError(value)

    def wrapped(value: object) -> None:
        try:
            raise KeyError(value)
        except KeyError as error:
            raise Transient(f"order {value} failed") from error

    forms = locals()
    return list(forms.values())


@given(
    st.sampled_from(shop_errors()),
    passphrases.filter(lambda words: " " in words) | unknown_words | st.integers(10).map(str),
    st.sampled_from(["{}", "[]"]),
)
def test_no_value_that_a_program_inserts_remains(
    throw: Callable[[object], None], value: str, body: str
) -> None:
    message = diagnose(caught(lambda: throw(value)), letter(body), now=NOW).message.lower()
    constants = " ".join(map(str, throw.__code__.co_consts)).lower()
    words = [word for word in value.lower().split() if word not in constants]
    assert not [word for word in words if word in message.split()]


@pytest.mark.parametrize("name", ["swordfish", "order", "correct horse battery", "open order"])
def test_the_programs_words_go_on_behind_a_secret(name: str) -> None:
    def weak() -> None:
        raise ValueError(f"the password {name} is too weak for gladioli")

    def named() -> None:
        raise ValueError(f"password: {name}")

    subject = letter()
    assert diagnose(caught(weak), subject, now=NOW).message == (
        "the password … is too weak for gladioli"
    )
    assert diagnose(caught(named), subject, now=NOW).message == "password: …"


def test_a_text_of_the_program_about_a_secret_remains() -> None:
    def weak() -> None:
        raise ValueError("the password of the gladiolus is too short")

    message = diagnose(caught(weak), letter(), now=NOW).message
    assert message.startswith("the password of the")
    assert message.endswith("is too short")


def test_a_single_word_of_the_program_that_is_also_in_the_letter_may_be_data() -> None:
    def refuse() -> None:
        tenant = "gladiolus"
        raise ValueError(tenant)

    assert diagnose(caught(refuse), letter(), now=NOW).message == "gladiolus"
    subject = letter('{"tenant": "gladiolus"}')
    assert diagnose(caught(refuse), subject, now=NOW).message == "ValueError"


def test_a_key_that_the_program_asks_for_remains() -> None:
    def ask() -> None:
        fields: dict[str, int] = {}
        fields["orderId"]

    assert diagnose(caught(ask), letter(), now=NOW).message == "orderId"


@each_row("text", ["'swordfish'", "7", "swordfish", "a=b", "…", "(swordfish, 7)"])
def test_a_message_is_never_only_a_mask(text: str) -> None:
    assert redact(text, letter()).strip(f"{MASK} ") in ("", "a")
    error = KeyError(text)
    assert diagnose(error, letter(), now=NOW).message in ("KeyError", "a …")
    assert ledger_message("", None, frozenset(), "KeyError") == ""


def test_the_text_of_another_error_remains_behind_a_colon() -> None:
    def pay() -> None:
        try:
            raise ConnectionRefusedError(111, "Connection refused")
        except OSError as error:
            raise Transient(f"the bank failed: {error}") from error

    message = diagnose(caught(pay), letter(), now=NOW).message
    assert message.startswith("the bank failed: ")
    assert message.endswith("Connection refused")


class OutOfStock(Exception):
    """A class of the team's own."""


def test_a_class_that_is_named_by_data_has_the_name_of_its_base() -> None:
    """A program may make one while it runs, and name it by a customer."""
    hidden = ["AnnaSchmidt", "SwordfishError"]
    made = [type(name, (OutOfStock,), {}) for name in hidden]
    renamed = type("OutOfStock", (OutOfStock,), {})
    renamed.__name__ = "SwordfishError"
    for kind in (*made, renamed):
        for text in ("", "7", "order 8 is late"):
            diagnosis = diagnose(caught(lambda: throw(kind(text))), letter(), now=NOW)  # noqa: B023
            assert diagnosis.error_type == "OutOfStock"
            assert not leaks("anna|schmidt|swordfish", f"{diagnosis}".lower())
    prints = [diagnose(kind("late"), letter(), now=NOW).fingerprint for kind in made]
    assert prints[0] == prints[1]


def throw(error: Exception) -> None:
    raise error


def test_a_class_that_stands_in_code_keeps_its_name() -> None:
    class Local(OutOfStock):
        """A class of one function."""

    class Holder:
        class Inner(OutOfStock):
            """A class inside another."""

    service_error = boto3.client("sqs", region_name="eu-west-1").exceptions.QueueDoesNotExist
    expected = {
        OutOfStock("late"): "OutOfStock",
        Local("late"): "Local",
        Holder.Inner("late"): "Inner",
        service_error({"Error": {"Code": "x"}}, "SendMessage"): "QueueDoesNotExist",
        KeyError("late"): "KeyError",
    }
    for error, name in expected.items():
        assert diagnose(error, letter(), now=NOW).error_type == name


def test_what_a_module_contains_is_no_text_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text('name = "the market of Reading"\nthrow(name)')

    def throw(text: str) -> None:
        raise ValueError(text)

    error = caught(lambda: runpy.run_path(str(tmp_path / "shop.py"), {"throw": throw}))
    assert diagnose(error, letter(), now=NOW).message == "the market of …"


def test_an_entry_of_a_table_in_the_function_is_no_text_of_the_program() -> None:
    def refuse(number: int) -> None:
        names = ["Anna Schmidt", "Mark Price", "the market of Reading"]
        raise ValueError(names[number])

    for number in range(3):
        assert diagnose(caught(lambda: refuse(number)), letter(), now=NOW).message in (  # noqa: B023
            "ValueError",
            "the market of …",
        )
