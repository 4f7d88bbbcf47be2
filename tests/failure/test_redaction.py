"""Redacted texts contain no content of the message."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from deadletter.failure.redaction import LONGEST, redact
from deadletter.failure.secretive import FUNCTION, STATES
from deadletter.failure.vocabulary import WORDS
from deadletter.message.letter import Attribute, Letter
from tests.each_row import each_row
from tests.samples import letter
from tests.speed import is_quick

ORDER = letter(
    '{"tenantId": "acme", "name": "Anna M\\u00fcller", "note": "{\\"city\\": \\"\\\\u0042onn\\"}",'
    ' "lines": "one\\ntwo", "kind": "refund"}',
    attributes={
        "trace": Attribute("String", "courier"),
        "raw": Attribute("Binary", b"\xff warehouse \x00"),
    },
    MessageGroupId="broker",
)


@each_row(
    ("text", "left"),
    [
        ("", ""),
        ("Connection refused", "Connection refused"),
        ("[Errno 111] Connection refused", "Errno … Connection refused"),
        ("the card was declined, try later.", "the card was declined, try later."),
        (
            "can't read a not-null field (it isn't there)",
            "can't read a not-null field it isn't there",
        ),
        # The name of an error, and any other word that is written so.
        ("KeyError in OutOfStock", "KeyError in …"),
        # What became of a secret, and what may be it.
        ("the token: expired", "the token: expired"),
        ("the token: warehouse", "the token: …"),
        ("the token: 'x' expired", "the token: … expired"),
        # A word that may be a name, and is none before a verb.
        ("Page closed", "Page closed"),
        # Quoted text, with and without a closing mark.
        ("invalid literal 'abc' here", "invalid literal … here"),
        ("invalid literal 'it's here' or not", "invalid literal … or not"),
        ('got "a \\" b" and `c` and “d”', "got … and … and …"),
        ("got b'plain words' there", "got … there"),
        ("got 'the rest is lost", "got …"),
        ("a row (refused) here", "a row … here"),
        # URLs, hosts, paths, addresses and values with a name.
        ("GET https://u:p@host.example/x?y=z failed", "GET … failed"),
        ("connect to db.internal:5432 or 10.0.0.1 or me@example.com", "connect to … or … or …"),
        ("no /var/task/app or C:\\temp", "no … or …"),
        ("tenant=blue order:red", "tenant …"),
        # Tokens.
        ("id 5f2 and aBcD and deadbeef and abcdefghijklmnopqrst", "id … and … and … and …"),
        ("up-to-date and up-to-date-data", "up-to-date and …"),
        ("Bearer hunter is no password: swordfish at all", "Bearer … is …"),
        # Letters beyond ASCII, control characters and lone surrogates.
        ("naïve \ud800 \x1b[31mred\x00 …", "…"),
        # Words of the letter, in any case and any JSON escape.
        ("no refund for Anna MÜLLER of ACME in bonn", "no … for … of … in …"),
        ("neither courier nor warehouses nor broker nor two", "neither … nor … nor … nor …"),
        # One word of the letter inside another one.
        ("refunds and refund", "… and …"),
    ],
)
def test_only_words_that_cannot_be_data_remain(text: str, left: str) -> None:
    assert redact(text, ORDER) == left


def test_without_a_letter_only_the_form_of_words_decides() -> None:
    assert redact("no refund for 'Anna'", None) == "no refund for …"


PARTS = ["a ", "'", "'a", '"\\', "(", "\ud800", "word ", "x", "a-", "<a", "`", "s' "]


@each_row(
    "text",
    [part * (2**20 // len(part)) for part in PARTS],
    ids=lambda text: text[:5].encode("ascii", "backslashreplace").decode(),
)
def test_a_text_of_a_mebibyte_is_cut_first(text: str) -> None:
    assert len(redact(text, letter("{}"))) <= LONGEST


@pytest.mark.parametrize("body", ["\\" * 2**20, "\\u" * 2**19, "A" * 2**20, "A=" * 2**19])
def test_a_letter_of_a_mebibyte_is_searched_quickly(body: str) -> None:
    texts: list[str] = []
    assert is_quick(lambda: texts.append(redact("no such product", letter(body))), 2)
    assert texts[0] == "no such product"


@each_row("encode", [base64.b64encode, base64.urlsafe_b64encode])
@each_row("where", ["body", "field", "twice", "attribute"])
def test_a_word_in_base64_is_a_word_of_the_letter(
    encode: Callable[[bytes], bytes], where: str
) -> None:
    """Celery's messages are base64 in base64."""
    text = encode("{'a': '\u00ff\u00fe', 'name': 'Warehouse'}".encode()).decode()
    holder = {
        "body": letter(text),
        "field": letter(json.dumps({"content": text.rstrip("=")})),
        "twice": letter(encode(json.dumps({"body": text}).encode()).decode()),
        "attribute": letter("{}", attributes={"a": Attribute("String", text)}),
    }[where]
    assert redact("there was warehouse here", holder) == "there was … here"


def test_a_word_that_was_cut_is_removed() -> None:
    text = "1" * 983 + " so that was forwarded"
    assert text[:1_000].endswith("forw")
    assert redact(text, None) == "… so that was …"
    assert redact("1" * 993 + " failed", None) == "… failed"
    assert redact("1" * 993 + " fail", None) == "… fail"
    assert redact("1" * 995 + " failure", None) == "…"


def test_behind_many_chunks_all_is_data() -> None:
    assert redact("1 " * 99 + "failed", None) == "… failed"
    assert redact("1 " * 100 + "failed", None) == "…"


def test_behind_many_brackets_all_is_data() -> None:
    assert redact("() " * 20 + "failed", None) == "failed"
    assert redact("() " * 20 + "() failed", None) == "…"


words = st.text("abcdefghijklmnopqrstuvwxyz", min_size=4, max_size=12) | st.sampled_from(
    sorted(word for word in WORDS if len(word) >= 4 and word.isalpha())
)
SHAPES = [
    "{}", "value {} is bad", "({})", "{}.", "no-{}", "{}_x", "x{}y", "key={}", "user {}, please",
]  # fmt: skip


@given(words, st.sampled_from(SHAPES), st.sampled_from(["body", "escaped", "text", "binary"]))
def test_no_secret_of_a_letter_survives(secret: str, shape: str, where: str) -> None:
    escaped = "".join(f"\\u{ord(character):04x}" for character in secret)
    attributes = {
        "text": {"a": Attribute("String", f"<{secret}>")},
        "binary": {"a": Attribute("Binary", b"\x00" + secret.upper().encode())},
    }.get(where, {})
    body = {"body": json.dumps({"a": [secret]}), "escaped": f'["{escaped}"]'}.get(where, "{}")
    subject = Letter("m", body, attributes)
    assume(secret not in shape and secret not in FUNCTION)
    for text in (shape.format(secret), shape.format(secret.upper()), shape.format(escaped)):
        assert secret not in redact(text, subject).lower()


# "token: failed" says what became of it.
TOKENS = words.filter(lambda word: word not in {"token", *STATES})

SECRETS = st.one_of(
    st.from_regex(r"[A-Z0-9]{4}[0-9][a-z]{4}", fullmatch=True),
    st.from_regex(r"[a-z]{3}[A-Z][a-z]{3}[A-Za-z0-9+/]{9}", fullmatch=True),
    st.from_regex(r"[0-9a-f]{7}[0-9]", fullmatch=True),
    st.from_regex(r"[a-z]{17,40}", fullmatch=True),
    words.map("https://{}.example/".format),
    words.map("'{}'".format),
    words.map("b'two {}'".format),
    words.map('"{}'.format),
    TOKENS.map("token: {}".format),
    words.map("{}@example.com".format),
)


@given(SECRETS, st.sampled_from(["{}", "it was {} then", "({})", "in {}, too", "<{}>"]))
def test_no_secret_in_the_text_itself_survives(secret: str, shape: str) -> None:
    core = secret.removeprefix("token: ").strip("'\"").removeprefix("b'two ")
    core = core.removeprefix("https://").partition(".")[0].partition("@")[0]
    assume(core not in shape)
    left = redact(shape.format(secret), None)
    assert core not in left


@given(st.text(max_size=60), st.text(max_size=60), st.binary(max_size=20))
def test_redaction_never_raises_and_is_short(text: str, body: str, value: bytes) -> None:
    subject = Letter("m", body, {"a": Attribute("Binary", value)})
    left = redact(text, subject)
    assert len(left) <= LONGEST
    assert left.replace("…", "").isascii()
    assert not any(character.isdigit() for character in left)


def test_a_redacted_text_has_at_most_two_hundred_characters() -> None:
    forty = ["word"] * 40
    assert redact(" ".join(forty), None) == " ".join(forty)
    assert redact(" ".join([*forty[:39], "words"]), None) == " ".join(forty[:39])


@pytest.mark.parametrize(
    "body",
    [
        '{"refund": 1}',
        '{"refund" : {"funds": 1}}',
        '{"a": "{\\"refund\\": 1}"}',
        "{'refund': 1}",
    ],
)
def test_the_name_of_a_field_is_no_data(body: str) -> None:
    assert redact("no refund here", letter(body)) == "no refund here"


def test_a_word_is_data_in_singular_and_plural_but_not_inside_another() -> None:
    assert redact("no refunds here", ORDER) == "no … here"
    assert redact("no fund here", ORDER) == "no fund here"
    assert redact("no refund here", letter('["refunds"]')) == "no … here"
    assert redact("refunded here", ORDER) == "refunded here"


def coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@each_row(
    "body",
    [
        coded(b"the warehouse sleeps"),
        # One character more than base64 can have.
        coded(b"the warehouse sleeps!") + "A",
        coded(b"\xff\xfe\x00warehouse\xff\xfe\x00"),
        coded(coded(b"a warehouse in two layers").encode()),
        coded(coded(b'{"animal": "ware\\u0068ouse"}').encode()),
    ],
)
def test_words_in_base64_are_words_of_the_letter(body: str) -> None:
    assert redact("one warehouse failed", letter(body)) == "one … failed"
