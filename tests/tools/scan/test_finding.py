"""A finding without a reason fails the scan, and so does a reason without a finding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tools.scan.__main__ import ACKNOWLEDGED
from tools.scan.finding import (
    Acknowledgement,
    BadEntry,
    Finding,
    judge,
    read_acknowledgements,
)

FOUND = Finding("checkov", "default", "CKV_1", "Stack/AWS::SQS::Queue.Main", "not encrypted")
ACK = Acknowledgement("checkov", "CKV_1", "*/AWS::SQS::Queue.*", "SQS encrypts it by itself here")


def test_a_finding_without_a_reason_is_open() -> None:
    verdict = judge([FOUND], [])
    assert (verdict.open, verdict.clean) == ((FOUND,), False)


def test_an_acknowledged_finding_stays_with_its_reason() -> None:
    verdict = judge([FOUND], [ACK])
    assert (verdict.open, verdict.unused, verdict.clean) == ((), (), True)
    assert verdict.stays == (replace(FOUND, reason=ACK.reason),)


def test_a_reason_that_the_scanner_keeps_is_a_reason() -> None:
    assert judge([replace(FOUND, reason="stands beside the construct")], []).clean


def test_an_acknowledgement_that_covers_nothing_fails_the_scan() -> None:
    verdict = judge([], [ACK])
    assert (verdict.unused, verdict.clean) == ((ACK,), False)


@pytest.mark.parametrize(
    "other",
    [
        {"scanner": "cfn-lint"},
        {"rule": "CKV_2"},
        {"resource": "*/AWS::SNS::Topic.*"},
        {"app": "custom"},
    ],
)
def test_an_acknowledgement_covers_what_it_names_and_nothing_else(other: dict[str, str]) -> None:
    ack = replace(ACK, **other)
    verdict = judge([FOUND], [ack])
    assert (verdict.open, verdict.unused) == ((FOUND,), (ack,))


def test_every_acknowledgement_in_the_file_has_a_reason() -> None:
    acks = read_acknowledgements(ACKNOWLEDGED)
    assert acks
    assert len({(ack.scanner, ack.rule, ack.app, ack.resource) for ack in acks}) == len(acks)


@pytest.mark.parametrize(
    "row",
    [
        'reason = "not now"',
        'reason = "a sentence with quite enough words"\nrules = "X"',
        "",
    ],
)
def test_an_acknowledgement_without_a_reason_is_refused(row: str, tmp_path: Path) -> None:
    path = tmp_path / "acknowledged.toml"
    path.write_text(
        f'[[acknowledged]]\nscanner = "checkov"\nrule = "CKV_1"\nresource = "*"\n{row}\n'
    )
    with pytest.raises(BadEntry):
        read_acknowledgements(path)
