"""Event patterns match as in EventBridge, in bounded time for any letter."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadletter.rules.accepted import PatternRefused
from deadletter.rules.fields import Outline
from deadletter.rules.pattern import Likeness, compile_pattern
from deadletter.rules.wildcard import matches_wildcard
from tests.each_row import each_row
from tests.rules.event_patterns import counting, pairs, slowly_like, slowly_matches


def matches(pattern: Mapping[str, Any] | str, document: Mapping[str, Any]) -> bool:
    return compile_pattern(pattern).matches(document)


ABSENT = object()
BIG = 2**53 + 1  # the first whole number that a double can't hold


@each_row(
    ("accepts", "yes", "no"),
    [
        # exact values: the kind counts, the spelling of a number does not
        (["a"], ["a"], ["A", "ab", "", None, 1, ABSENT, {"a": 1}]),
        ([""], [""], [None, ABSENT, " "]),
        ([None], [None], ["", "null", 0, False, ABSENT, []]),
        ([True], [True], [1, "true", False, 1.0]),
        ([1], [1, 1.0, Decimal("1"), Decimal("1.00")], [True, "1", 2, Decimal("1e999999999")]),
        ([0.1], [0.1, Decimal("0.1"), [Decimal("0.1")]], [Decimal("0.1000000000000000055"), 0]),
        ([1e23], [1e23, 10**23, Decimal("1e23")], [10**23 + 1]),
        ([10**400], [10**400], [10**400 + 1, float("inf")]),
        ([BIG], [BIG, Decimal(BIG)], [BIG - 1, float(BIG)]),
        ([2**53 - 1], [Decimal(2**53 - 1), 2.0**53 - 1], [2**53 - 2, 2.0**53]),
        (["a", 1, None], ["a", 1, None], ["b", 2, True]),
        ([{"exactly": "a"}], ["a"], ["A"]),
        # an address is the same address in another spelling
        (["2001:db8::1"], ["2001:db8::1", "2001:0DB8:0:0::1"], ["2001:db8::2", "12:30"]),
        (["12:30"], ["12:30"], ["12:3"]),
        # prefix and suffix
        ([{"prefix": "ab"}], ["ab", "abc"], ["a", "Abc", 1, None, ABSENT]),
        ([{"prefix": ""}], ["", "x"], [1, None, True, ABSENT]),
        ([{"suffix": "ab"}], ["ab", "cab"], ["b", "caB", ABSENT]),
        ([{"suffix": ""}], ["", "x"], [0, ABSENT]),
        ([{"prefix": {"equals-ignore-case": "aB"}}], ["ab", "ABc"], ["a", "xab"]),
        ([{"suffix": {"equals-ignore-case": "aB"}}], ["ab", "cAB"], ["b", "abx"]),
        ([{"suffix": {"equals-ignore-case": ""}}], ["", "x", "a long word"], [1]),
        ([{"prefix": {"equals-ignore-case": "ß"}}], ["ß", "SSx"], ["ss", "s"]),
        ([{"suffix": {"equals-ignore-case": "aß"}}], ["Aß", "xASS"], ["ass", "SSA", "ß", ""]),
        (
            [{"suffix": {"equals-ignore-case": "ŉ"}}],
            ["ŉ", "\N{MODIFIER LETTER APOSTROPHE}N"],
            ["N"],
        ),
        # equals-ignore-case: each character in its own two cases, as in AWS
        ([{"equals-ignore-case": "Yes"}], ["yes", "YES", "yEs"], ["ye", "yess", 1, ABSENT]),
        ([{"equals-ignore-case": ""}], [""], ["a", None]),
        ([{"equals-ignore-case": "müller"}], ["MÜLLER", "müLLer"], ["muller"]),
        ([{"equals-ignore-case": "straße"}], ["STRASSE", "Straße"], ["strasse"]),
        ([{"equals-ignore-case": "k"}], ["K"], ["\N{KELVIN SIGN}"]),
        # wildcard
        ([{"wildcard": "*"}], ["", "x"], [1, None, ABSENT]),
        ([{"wildcard": "*bc"}], ["bc", "abc"], ["c", "bcd", 1]),
        ([{"wildcard": "a*c"}], ["ac", "abc", "acc"], ["ab", "a", "c", "xac"]),
        ([{"wildcard": "a*b*c"}], ["abc", "axbbxc"], ["ac", "acb", "xabc", "abcx"]),
        ([{"wildcard": "ab*ba"}], ["abba", "abxba"], ["aba", "ab"]),
        ([{"wildcard": "*1*"}], ["1", "213"], [1, 21.3, ""]),
        ([{"wildcard": "*b*b*"}], ["bb", "abxb"], ["b", "ab"]),
        ([{"wildcard": "a"}], ["a"], ["ab", "*"]),
        ([{"wildcard": ""}], [""], ["a"]),
        ([{"wildcard": r"1\*2*"}], ["1*2", "1*23"], ["12", "1x2", r"1\*2"]),
        ([{"wildcard": r"1*\*2"}], ["1*2", "13*2"], ["12", "1*32"]),
        ([{"wildcard": r"c:\\*"}], ["c:\\", "c:\\x"], ["c:", "c:/x"]),
        # numeric
        ([{"numeric": ["=", 3]}], [3, 3.0, Decimal(3)], [4, "3", None, ABSENT]),
        ([{"numeric": ["=", 2**53]}], [2**53, float(BIG)], [BIG, 2**53 - 1]),
        ([{"numeric": ["<", 3]}], [2.9, -1e300], [3, "2", True, None]),
        ([{"numeric": ["<=", 0.1]}], [0.1, Decimal("0.1")], [0.11]),
        ([{"numeric": [">", 0.1]}], [1, 10**400], [Decimal("0.1"), True, "1"]),
        ([{"numeric": [">=", 0]}], [0, -0.0, BIG, Decimal(BIG)], [-1, float("nan"), float("inf")]),
        ([{"numeric": [">", 0, "<=", 5]}], [1, 5], [0, 5.1]),
        ([{"numeric": [">=", 6e9]}], [1_800_000_000_000], [5_999_999_999]),
        ([{"numeric": ["<", -(10**18)]}], [-(10**18) - 1000], [-(10**18), 0]),
        # anything-but: another value of any kind, but a value
        ([{"anything-but": "a"}], ["b", "A", "", 1, None, True], ["a", ABSENT, {"a": 1}, []]),
        ([{"anything-but": ["a", "b"]}], ["c"], ["a", "b"]),
        ([{"anything-but": 1}], [2, "1", True, None], [1, 1.0, Decimal(1), ABSENT]),
        ([{"anything-but": [1, 2]}], [3], [1, 2]),
        ([{"anything-but": {"prefix": "a"}}], ["b", "", 1, None], ["a", "ab", ABSENT]),
        ([{"anything-but": {"suffix": ["a", "b"]}}], ["c"], ["a", "xb"]),
        ([{"anything-but": {"equals-ignore-case": ["a", "b"]}}], ["c"], ["A", "b"]),
        ([{"anything-but": {"wildcard": "*/lib/*"}}], ["/a", 1], ["/a/lib/b", ABSENT]),
        ([{"anything-but": {"wildcard": ["", "x"]}}], ["a"], ["", "x"]),
        # exists looks at leaves only
        ([{"exists": True}], ["", 0, None, False, [None]], [ABSENT, {"a": 1}, [], {}]),
        ([{"exists": False}], [ABSENT, {"a": 1}, [], {}, [[]]], ["", 0, None, ["a"]]),
        ([{"exists": False}, "a"], [ABSENT, "a"], ["b"]),
        # cidr
        ([{"cidr": "10.0.0.0/8"}], ["10.0.0.0", "10.255.255.255"], ["11.0.0.0", "10.0.0", 1]),
        ([{"cidr": "10.0.0.5/24"}], ["10.0.0.0"], ["10.0.1.5"]),
        ([{"cidr": "10.0.0.0/8"}], ["010.0.0.1", "::ffff:a00:1"], ["::ffff:10.0.0.1", 167772161]),
        (
            [{"cidr": "0.0.0.0/0"}],
            ["1.2.3.4"],
            ["::1", "1.2.3.256", "1.2.3." + "0" * 5000, "\N{ARABIC-INDIC DIGIT ONE}.2.3.4", ABSENT],
        ),
        ([{"cidr": "2001:db8::/32"}], ["2001:db8::1"], ["2001:db9::", "fe80::1%eth0", "10.0.0.1"]),
        ([{"cidr": "::/64"}], ["::1", "::ffff:ffff:ffff:ffff"], ["0:0:0:1::", "0.0.0.1"]),
        (
            # 39 characters are the longest address.
            [{"cidr": "2001:db8::/32"}, {"cidr": "10.0.0.0/8"}],
            ["2001:0db8:0000:0000:0000:0000:0000:0001", "10.0.0.1".zfill(39)],
            ["10.0.0.1".zfill(40)],
        ),
        # an array matches if one of its elements does
        (["a"], [["a"], ["b", "a"], [["x"], ["a"]]], [["b"], [], [["b"]], [{"a": "a"}]]),
        ([{"anything-but": ["a"]}], [["a", "b"], [1]], [["a"], ["a", "a"], []]),
        ([{"prefix": "a"}], [[1, None, "ab"]], [[1, None]]),
    ],
)
def test_a_field_accepts_a_value_as_in_eventbridge(
    accepts: list[Any], yes: list[Any], no: list[Any]
) -> None:
    pattern = compile_pattern({"detail": {"field": accepts}})
    for value, expected in [(accepted, True) for accepted in yes] + [
        (refused, False) for refused in no
    ]:
        detail = {} if value is ABSENT else {"field": value}
        assert pattern.matches({"detail": detail}) is expected, value


@each_row("detail", ["text", 1, None, [], ["field"], {}, ABSENT])
def test_a_name_below_a_value_that_is_not_an_object_is_absent(detail: Any) -> None:
    document = {} if detail is ABSENT else {"detail": detail}
    assert not matches({"detail": {"field": [{"exists": True}]}}, document)
    assert not matches({"detail": {"field": [{"anything-but": "a"}]}}, document)
    assert matches({"detail": {"field": [{"exists": False}]}}, document)


def test_all_fields_have_to_match_and_names_are_case_sensitive() -> None:
    pattern = {"context": {"tenantId": ["t-1"]}, "failure": {"category": ["timeout"]}}
    assert matches(pattern, {"context": {"tenantId": "t-1"}, "failure": {"category": "timeout"}})
    assert not matches(pattern, {"context": {"tenantId": "t-1"}})
    assert not matches(
        pattern, {"context": {"tenantid": "t-1"}, "failure": {"category": "timeout"}}
    )


def test_one_branch_of_or_and_all_fields_outside_it_have_to_match() -> None:
    pattern = {
        "source": ["s"],
        "$or": [
            {"a": [1]},
            {"b": [2], "detail": {"$or": [{"c": [3]}, {"d": [{"exists": False}]}]}},
        ],
    }
    assert matches(pattern, {"source": "s", "a": 1, "detail": {"d": 0}})
    assert matches(pattern, {"source": "s", "b": 2, "detail": {"c": 3, "d": 0}})
    assert matches(pattern, {"source": "s", "b": 2})
    assert not matches(pattern, {"source": "s", "b": 2, "detail": {"d": 0}})
    assert not matches(pattern, {"a": 1, "b": 2})


@pytest.mark.parametrize(
    "pattern", ['{"a.b.c": [1]}', '{"a": {"b.c": [1]}}', '{"a.b": {"c": [1]}}']
)
def test_dots_join_names_in_the_pattern_and_in_the_document(pattern: str) -> None:
    assert matches(pattern, {"a": {"b": {"c": 1}}})
    assert matches(pattern, {"a": {"b.c": 1}})
    assert matches(pattern, {"a.b": {"c": 1}})
    assert matches(pattern, {"a.b.c": 1})


def test_a_name_written_in_two_ways_in_a_document_has_both_values() -> None:
    assert not matches({"a.b": {"b": [1]}}, {"a": {"b": 1}})
    for number in (1, 2):
        assert matches({"a": {"b": [number]}}, {"a": {"b": 2}, "a.b": 1})
    together = {"a": {"b": [2], "c": [3]}}
    assert matches(together, {"a.b": 1, "a": [{"b": 2, "c": 3}]})
    assert not matches(together, {"a.b": 1, "a": [{"b": 2}, {"c": 3}]})


def test_a_name_of_an_operator_is_an_ordinary_name_outside_or() -> None:
    assert matches({"prefix": ["x"]}, {"prefix": "x"})
    assert matches({"a": {"exists": [True]}}, {"a": {"exists": True}})


@pytest.mark.parametrize("foreign", [b"bytes", {1, 2}, object()])
def test_a_value_that_is_not_json_hides_no_other_field(foreign: Any) -> None:
    outline = Outline(["first", "field", "last"])
    assert outline.read({"first": foreign, "field": 1, "last": foreign}) == {"field": 1}
    assert outline.read({"first": 1, "field": foreign, "last": 1}) == {"first": 1, "last": 1}


def test_an_array_may_hold_read_only_objects() -> None:
    lines = [MappingProxyType({"sku": "x"}), MappingProxyType({"sku": "y"})]
    assert matches({"lines": {"sku": ["y"]}}, {"lines": lines})


ORDER = {
    "lines": [
        {"sku": "x", "quantity": 1, "parts": [{"id": 1, "ok": True}, {"id": 2}]},
        {"sku": "y", "quantity": 2, "parts": [[{"id": 3, "ok": False}], [{"id": 4, "ok": True}]]},
        {"sku": "z", "discount": 5},
    ],
    "notes": [{"by": "x"}, {"by": "y"}],
    "status": "paid",
}


@each_row(
    ("pattern", "expected"),
    [
        ({"lines": {"sku": ["x"], "quantity": [1]}}, True),
        ({"lines": {"sku": ["x"], "quantity": [2]}}, False),
        ({"lines": {"sku": ["x"], "parts": {"id": [2]}}}, True),
        ({"lines": {"sku": ["x"], "parts": {"id": [3]}}}, False),
        ({"lines": {"parts": {"id": [1], "ok": [True]}}}, True),
        ({"lines": {"parts": {"id": [2], "ok": [True]}}}, False),
        ({"lines": {"parts": {"id": [4], "ok": [True]}}}, True),
        ({"lines": {"parts": {"id": [3], "ok": [True]}}}, False),
        ({"lines": {"sku": ["x"]}, "notes": {"by": ["y"]}}, True),
        ({"lines": {"$or": [{"sku": ["x"]}, {"sku": ["y"]}], "quantity": [2]}}, True),
        ({"lines": {"$or": [{"sku": ["x"]}, {"sku": ["z"]}], "quantity": [2]}}, False),
        # a field outside the array has its own say
        ({"lines": {"sku": ["x"]}, "status": ["paid"]}, True),
        ({"lines": {"sku": ["x"]}, "status": ["open"]}, False),
        ({"lines": {"sku": ["x"]}, "voucher": [{"exists": False}]}, True),
        ({"lines": {"sku": ["x"]}, "voucher": [{"exists": True}]}, False),
        # "missing" refers to the element that the names before it have chosen ...
        ({"lines": {"parts": {"id": [2], "ok": [{"exists": False}]}}}, True),
        ({"lines": {"parts": {"id": [1], "ok": [{"exists": False}]}}}, False),
        ({"lines": {"quantity": [1], "sku": [{"exists": False}, "x"]}}, True),
        # ... and about the whole array if it comes first in the order of the names
        ({"lines": {"discount": [{"exists": False}], "sku": ["x"]}}, False),
        ({"lines": {"discount": [{"exists": False}]}}, False),
        ({"lines": {"rebate": [{"exists": False}], "sku": ["x"]}}, True),
    ],
)
def test_fields_of_one_array_element_belong_together(
    pattern: dict[str, Any], expected: bool
) -> None:
    assert matches(pattern, ORDER) is expected


@pytest.mark.long
@given(pairs())
def test_a_pattern_agrees_with_a_matcher_that_tries_every_choice(
    pair: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    pattern, document = pair
    assert matches(pattern, document) is slowly_matches(pattern, document)


_PIECES = st.lists(st.sampled_from(["a", "b", "*", "*", r"\*", r"\\"]), max_size=7)


@pytest.mark.long
@settings(max_examples=500)
@given(_PIECES, st.text("aab*\\", max_size=7))
def test_a_wildcard_agrees_with_a_matcher_that_tries_every_choice(
    pieces: list[str], text: str
) -> None:
    wildcard = "".join(
        piece
        for piece, before in zip(pieces, ["", *pieces], strict=False)
        if (piece, before) != ("*", "*")
    )
    assert matches({"f": [{"wildcard": wildcard}]}, {"f": text}) is slowly_like(wildcard, text)


@pytest.mark.long
@settings(max_examples=30)
@given(pairs())
def test_text_and_object_are_the_same_pattern(
    pair: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    pattern, document = pair
    text = json.dumps(pattern, default=float)
    assert matches(text, document) is matches(json.loads(text), document)


@each_row(
    ("pattern", "why"),
    [
        ({}, "the pattern: an empty object"),
        ({"a": {}}, "a: an empty object"),
        ({"a": {"b": []}}, "a.b: an empty list"),
        ({"a": 1}, "a: 1 is neither a list nor an object; write [1]"),
        ({"a": "x"}, 'write ["x"]'),
        ({"a": None}, "a: null is neither"),
        ({"a": [["x"]]}, 'a: ["x"] is not a string'),
        ({"a": [float("nan")]}, "a: nan is not a JSON number"),
        ({"a": [float("-inf")]}, "a: -inf is not a JSON number"),
        ({"a": [{}]}, "a: one operator in each {...}, not 0"),
        ({"a": [{"prefix": "x", "suffix": "y"}]}, "not 2"),
        ({"a": [{"EXISTS": True}]}, 'a: unknown operator "EXISTS"; allowed are prefix, suffix'),
        ({"a": [{"regex": "x"}]}, "unknown operator"),
        ({"a": [{"exactly": 1}]}, "exactly takes a string"),
        ({"a": [{"prefix": 1}]}, "prefix takes a string, not 1"),
        ({"a": [{"prefix": ["x"]}]}, "prefix takes a string"),
        ({"a": [{"prefix": {"wildcard": "x"}}]}, "prefix takes a string or {equals-ignore-case}"),
        ({"a": [{"prefix": {"equals-ignore-case": 1}}]}, "equals-ignore-case takes a string"),
        ({"a": [{"suffix": None}]}, "suffix takes a string"),
        ({"a": [{"suffix": {"equals-ignore-case": "x", "y": 1}}]}, "not 2"),
        ({"a": [{"equals-ignore-case": ["x"]}]}, "equals-ignore-case takes a string"),
        ({"a": [{"wildcard": 1}]}, "wildcard takes a string"),
        ({"a": [{"wildcard": "a**b"}]}, "two stars in a row"),
        ({"a": [{"wildcard": "a\\b"}]}, "a backslash that stands before neither"),
        ({"a": [{"wildcard": "a\\"}]}, "a backslash that stands before neither"),
        ({"a": [{"exists": "true"}]}, "exists takes true or false"),
        ({"a": [{"exists": 1}]}, "exists takes true or false"),
        ({"a": [{"anything-but": []}]}, "anything-but takes strings or numbers"),
        ({"a": [{"anything-but": ["x", 1]}]}, "not both"),
        ({"a": [{"anything-but": None}]}, "anything-but takes strings or numbers"),
        ({"a": [{"anything-but": [True]}]}, "anything-but takes strings or numbers"),
        ({"a": [{"anything-but": [[1]]}]}, "anything-but takes a number"),
        ({"a": [{"anything-but": [BIG]}]}, "more digits than a double holds"),
        ({"a": [{"anything-but": {"numeric": [">", 1]}}]}, "anything-but can't hold"),
        ({"a": [{"anything-but": {"prefix": ""}}]}, "would match no string"),
        ({"a": [{"anything-but": {"suffix": ["x", ""]}}]}, "would match no string"),
        ({"a": [{"anything-but": {"prefix": []}}]}, "would match everything"),
        ({"a": [{"anything-but": {"prefix": [1]}}]}, "prefix takes a string"),
        ({"a": [{"anything-but": {"prefix": {"equals-ignore-case": "x"}}}]}, "takes a string"),
        ({"a": [{"anything-but": {"wildcard": "**"}}]}, "two stars in a row"),
        ({"a": [{"numeric": 1}]}, "numeric takes one of the forms"),
        ({"a": [{"numeric": []}]}, "numeric takes one of the forms"),
        ({"a": [{"numeric": ["=", 1, "<", 2]}]}, "numeric takes one of the forms"),
        ({"a": [{"numeric": ["<", 5, ">", 1]}]}, "numeric takes one of the forms"),
        ({"a": [{"numeric": [">", 1, ">", 2]}]}, "numeric takes one of the forms"),
        ({"a": [{"numeric": [">", 0, "<"]}]}, "numeric takes one of the forms"),
        ({"a": [{"numeric": ["!=", 1]}]}, "numeric takes one of the forms"),
        ({"a": [{"numeric": ["=", "1"]}]}, 'numeric takes a number, not "1"'),
        ({"a": [{"numeric": ["=", True]}]}, "numeric takes a number"),
        ({"a": [{"numeric": [">", 2, "<", 1]}]}, "range is empty"),
        ({"a": [{"numeric": [">=", 1, "<=", 1]}]}, "range is empty"),
        ({"a": [{"numeric": ["<", float("inf")]}]}, "more digits than a double holds"),
        ({"a": [{"numeric": ["=", BIG]}]}, "more digits than a double holds"),
        ({"a": [{"numeric": ["=", 10**400]}]}, "more digits than a double holds"),
        ({"a": [{"numeric": ["=", Decimal("0.1000000000000000055")]}]}, "more digits"),
        ({"a": [{"cidr": "10.0.0.0"}]}, "cidr takes an address and a length"),
        ({"a": [{"cidr": "10.0.0.0/x"}]}, "cidr takes an address and a length"),
        ({"a": [{"cidr": "10.0.0.0/-1"}]}, "cidr takes an address and a length"),
        ({"a": [{"cidr": "10.0.0.0/8/8"}]}, "cidr takes an address and a length"),
        ({"a": [{"cidr": "10.0.0.256/8"}]}, "cidr takes an address and a length"),
        ({"a": [{"cidr": "example.com/8"}]}, "cidr takes an address and a length"),
        ({"a": [{"cidr": "10.0.0.1/32"}]}, 'cidr length "32" is not below 32'),
        ({"a": [{"cidr": "::1/128"}]}, 'cidr length "128" is not below 128'),
        ({"a": [{"cidr": f"10.0.0.0/{'1' * 5_000}"}]}, "is not below 32"),
        ({"$or": {"a": [1]}}, "$or: $or takes a list of at least two objects"),
        ({"$or": [{"a": [1]}]}, "$or takes a list of at least two objects"),
        ({"$or": [{"a": [1]}, "b"]}, "$or[1]: $or takes objects"),
        ({"$or": [{"a": [1]}, {}]}, "$or[1]: an empty object"),
        ({"$or": [{"a": [1]}, {"b": {"prefix": ["x"]}}]}, '"prefix" can\'t be a name inside $or'),
        ({"a": [1], "$or": [{"a": [2]}, {"b": [1]}]}, "$or[0].a: a is constrained twice"),
        ({"a": {"b": [1]}, "a.b": [2]}, "a.b: a.b is constrained twice"),
        ({"a": {1: ["x"]}}, "a.1: a name is a string"),
        ([{"a": [1]}], "a pattern is an object"),
        ("[]", "a pattern is an object"),
        ("{'a': [1]}", "the pattern is unreadable: not JSON at line 1 column 2"),
        ('{"a": [1], "a": [2]}', "a key appears twice"),
        ('{"a": [NaN]}', "NaN is not JSON"),
        ('{"a":' * 100_000, "nested too deep"),
    ],
)
def test_an_invalid_pattern_is_refused_with_the_reason(pattern: Any, why: str) -> None:
    with pytest.raises(PatternRefused) as refused:
        compile_pattern(pattern)
    assert why in str(refused.value)
    assert len(str(refused.value)) < 400


def test_a_pattern_has_at_most_1000_combinations_and_32_levels() -> None:
    ten = [{f"k{number}": [1]} for number in range(10)]
    allowed = {"a": {"$or": ten}, "b": {"$or": ten}, "c": {"$or": ten}}
    assert len(compile_pattern(allowed).alternatives) == 1000
    with pytest.raises(PatternRefused, match="more than 1000 combinations"):
        compile_pattern({**allowed, "$or": [{"x": [1]}, {"y": [1]}]})
    assert matches({".".join("a" * 32): [1]}, {".".join("a" * 32): 1})
    with pytest.raises(PatternRefused, match="deeper than 32 levels"):
        compile_pattern({".".join("a" * 33): [1]})


def test_explain_names_the_field_that_does_not_match() -> None:
    pattern = compile_pattern(
        {
            "context": {"tenantId": ["t-1", {"prefix": "x"}]},
            "body": {
                "total": [{"numeric": [">", 5]}],
                "$or": [{"kind": ["a"]}, {"items": {"sku": [{"exists": False}]}}],
            },
        }
    )
    findings = pattern.explain(
        {"context": {"tenantId": "t-2"}, "body": {"total": {"net": 9}, "items": [{"sku": "s"}, 1]}}
    )
    assert [
        (finding.path, finding.matched, finding.expected, finding.found) for finding in findings
    ] == [
        ("context.tenantId", False, '"t-1" or starts with "x"', "string"),
        ("body.total", False, "> 5", "an object"),
        ("body.$or[0].kind", False, '"a"', "absent"),
        ("body.$or[1].items.sku", False, "no value", "array of string"),
    ]


def test_explain_says_that_fields_match_in_different_elements() -> None:
    pattern = compile_pattern({"lines": {"sku": ["x"], "quantity": [2]}})
    last = pattern.explain(ORDER)[-1]
    assert (last.path, last.matched) == ("lines.quantity, lines.sku", False)
    assert last.found == "in different elements"
    assert all(finding.matched for finding in pattern.explain(ORDER)[:-1])


def test_explain_says_so_once_however_many_branches_match_in_different_elements() -> None:
    branches = [{"quantity": [2]}, {"discount": [5]}]
    findings = compile_pattern({"lines": {"sku": ["x"], "$or": branches}}).explain(ORDER)
    assert [finding.path for finding in findings if not finding.matched] == [
        "lines.quantity, lines.sku"
    ]


@pytest.mark.long
@settings(max_examples=50)
@given(pairs())
def test_explain_agrees_with_matching(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    pattern, document = pair
    compiled = compile_pattern(pattern)
    findings = compiled.explain(document)
    if compiled.matches(document):
        assert any(finding.matched for finding in findings)
    else:
        assert not all(finding.matched for finding in findings)


def test_explain_never_shows_a_value_of_the_letter() -> None:
    secret = {"a": "hunter2", "b": ["hunter2"], "c": {"d": "hunter2"}, "e": [{"f": "hunter2"}]}
    accepts = ["x", {"anything-but": "y"}, {"prefix": "z"}, {"wildcard": "*q*"}]
    pattern = {"a": accepts, "b": accepts, "c": accepts, "e": {"f": accepts}}
    assert "hunter2" not in repr(compile_pattern(pattern).explain(secret))


MEBIBYTE = 1 << 20


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["a"] * 2000 + ["b"], "a" * MEBIBYTE),
        (["a" * 50 + "b"] * 3, "a" * MEBIBYTE),
        (["ab" * 40] * 500 + ["x"], "ab" * (MEBIBYTE // 2)),
        (["aab"] * 1000, "aaab" * (MEBIBYTE // 4)),
    ],
)
def test_a_wildcard_reads_each_character_of_a_body_once(pieces: list[str], text: str) -> None:
    looked_at: list[range] = []

    def find(value: str, piece: str, start: int, end: int) -> int:
        position = value.find(piece, start, end)
        looked_at.append(range(start, end if position < 0 else position + len(piece)))
        return position

    matches_wildcard(text, ["", *pieces, ""], find)
    assert len(looked_at) <= len(pieces)
    assert sum(map(len, looked_at)) <= len(text)
    assert all(before.stop <= after.start for before, after in pairwise(looked_at))


@each_row(
    ("accepts", "expected"),
    [
        ([{"wildcard": "*a*a*a*a*a*a*a*a*a*a*b"}], False),
        ([{"wildcard": "*" + "a*" * 2000 + "b*"}], False),
        ([{"wildcard": "a*" * 2000}], True),
        ([{"anything-but": {"wildcard": "*" + "a*" * 2000 + "b"}}], True),
        ([{"anything-but": ["a" * 1000] * 1000}], True),
        ([{"equals-ignore-case": "ß" * 1000}], False),
        ([{"suffix": {"equals-ignore-case": "ß" * 1000}}], False),
        ([{"cidr": "10.0.0.0/8"}], False),
    ],
)
def test_hostile_patterns_end_on_a_body_of_one_mebibyte(accepts: list[Any], expected: bool) -> None:
    pattern = compile_pattern({"body": accepts})
    assert pattern.matches({"body": "a" * MEBIBYTE}) is expected


@pytest.mark.long
def test_arrays_in_arrays_are_read_to_any_depth() -> None:
    deep: Any = ["here"]
    for _ in range(200_000):
        deep = [deep]
    assert matches({"body": ["here"]}, {"body": deep})
    assert not matches({"body": {"a": ["here"]}}, {"body": deep})
    while deep:  # taken apart by hand: the interpreter would recurse
        deep = deep[0] if isinstance(deep[0], list) else None


@pytest.mark.long
def test_each_value_of_long_arrays_is_tried_once_and_each_element() -> None:
    calls: list[str] = []
    both = {"a": [{"numeric": [">", 0]}], "b": [{"numeric": [">", 0]}]}
    pattern = counting(compile_pattern({"body": {"left": both, "right": both}}), calls)
    lines = [{"a": number % 2, "b": 1 - number % 2} for number in range(20_000)]
    # 1.6e17 ways to choose one of 20,000 leaves for each of four fields.
    assert pattern.judge({"body": {"left": lines, "right": lines}}) is Likeness.DIFFERS
    # Two answers, and the places of two values, for each of four fields.
    assert len(calls) <= 4 * 4
    lines.append({"a": 1, "b": 1})
    assert pattern.matches({"body": {"left": lines, "right": lines}})


def test_a_field_that_all_branches_of_or_share_is_compared_once() -> None:
    calls: list[str] = []
    branches = [{"kind": [f"k{number}"]} for number in range(1000)]
    pattern = counting(compile_pattern({"body": [{"wildcard": "*x*"}], "$or": branches}), calls)
    assert not pattern.matches({"body": "x" * MEBIBYTE, "kind": "other"})
    assert calls.count("body") == 1
    assert calls.count("kind") == 1000
    assert not pattern.matches({"body": ["x"], "kind": ["other"]})
    assert calls.count("body") == 2


class Watched(Mapping[str, Any]):
    """An object that records which of its keys were read."""

    def __init__(self, inner: dict[str, Any]) -> None:
        self.inner = inner
        self.read: list[str] = []
        self.counted_off = 0

    def __getitem__(self, key: str) -> Any:
        self.read.append(key)
        return self.inner[key]

    def __contains__(self, key: object) -> bool:
        return key in self.inner

    def __iter__(self) -> Iterator[str]:
        self.counted_off += len(self.inner)
        return iter(self.inner)

    def __len__(self) -> int:
        return len(self.inner)


def test_only_the_named_fields_of_a_document_are_read() -> None:
    body = Watched({f"field{number}": number for number in range(1000)})
    document = Watched({"body": body, "attributes": {"a": 1}, "system": {}})
    assert matches({"body": {"field7": [7]}, "context": {"x": [{"exists": False}]}}, document)
    assert document.read == ["body"]
    assert body.read == ["field7"]
    assert body.counted_off == 0


@pytest.mark.parametrize(("length", "quote"), [(58, f'"{"x" * 58}"'), (59, f'"{"x" * 56}...')])
def test_a_refusal_quotes_sixty_characters_of_a_pattern(length: int, quote: str) -> None:
    with pytest.raises(PatternRefused) as refused:
        compile_pattern({"a": "x" * length})
    assert str(refused.value) == f"a: {quote} is neither a list nor an object; write [{quote}]"


def test_a_pattern_nested_deeper_than_can_be_quoted_is_refused() -> None:
    deep: Any = [1]
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(PatternRefused, match="a: a list is not a string, a number"):
        compile_pattern({"a": [deep]})


def test_a_finding_names_five_values_and_the_number_of_the_others() -> None:
    five, six, seven = (
        compile_pattern({"a": list(values)}).explain({})[0].expected
        for values in ("abcde", "abcdef", "abcdefg")
    )
    assert five == '"a" or "b" or "c" or "d" or "e"'
    assert six == '"a" or "b" or "c" or "d" or "e" or 1 more'
    assert seven == '"a" or "b" or "c" or "d" or "e" or 2 more'


def test_a_finding_shows_letters_of_any_language_as_they_are_written() -> None:
    findings = compile_pattern({"a": ["Müller", {"prefix": "東京"}]}).explain({})
    assert findings[0].expected == '"Müller" or starts with "東京"'
