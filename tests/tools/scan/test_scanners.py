"""Each scanner has been seen to find something, and one that does not run is no clean bill."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tools.scan import scanners
from tools.scan.finding import Finding
from tools.scan.scanners import SCANNERS, ScanFailed


def rules(found: list[Finding]) -> set[str]:
    assert {one.app for one in found} <= {"planted"}
    return {one.rule for one in found}


def test_cdk_nag_finds_the_wildcards_and_the_queue_that_takes_plain_http(planted: Path) -> None:
    found = rules(SCANNERS["cdk-nag"]("planted", planted))
    assert {"AwsSolutions-SQS4", "AwsSolutions-IAM5[Action::sqs:*]"} <= found
    # A warning, and a finding all the same; and a rule of the other pack.
    assert {"AwsSolutions-SQS3", "Serverless-LambdaTracing"} <= found


def test_cfn_lint_finds_the_property_that_is_none(planted: Path) -> None:
    found = SCANNERS["cfn-lint"]("planted", planted)
    [wrong] = [one for one in found if one.rule == "E3002"]
    assert wrong.resource == "Planted/Bare/Properties/VisibilityTimeoutInHours"
    assert any(one.rule.startswith("W") for one in found)


def test_checkov_finds_the_queue_without_encryption(planted: Path) -> None:
    found = SCANNERS["checkov"]("planted", planted)
    assert "Planted/AWS::SQS::Queue.Bare" in {
        one.resource for one in found if one.rule == "CKV_AWS_27"
    }


def test_parliament_finds_actions_that_are_none_or_too_many(planted: Path) -> None:
    found = SCANNERS["parliament"]("planted", planted)
    assert {one.resource for one in found} == {"Planted/Anything", "Planted/Grantor"}
    assert "RESOURCE_MISMATCH[s3:GetObject]" in rules(found)
    assert {one.partition("[")[0] for one in rules(found)} >= {
        "UNKNOWN_ACTION",
        "RESOURCE_STAR",
        "PERMISSIONS_MANAGEMENT_ACTIONS",
    }


@pytest.mark.parametrize("name", SCANNERS)
def test_a_scanner_that_finds_no_templates_says_so(name: str, tmp_path: Path) -> None:
    with pytest.raises(ScanFailed):
        SCANNERS[name]("planted", tmp_path)


@pytest.mark.parametrize("name", ["checkov", "parliament"])
def test_a_scanner_that_is_not_installed_is_reported(
    name: str, planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanners, "OWN_BIN", tmp_path)
    with pytest.raises(ScanFailed):
        SCANNERS[name]("planted", planted)


def test_a_template_that_checkov_cannot_read_is_no_clean_bill(
    planted: Path, tmp_path: Path
) -> None:
    shutil.copytree(planted, tmp_path, dirs_exist_ok=True)
    (tmp_path / "Broken.template.json").write_text('{"Resources": ')
    with pytest.raises(ScanFailed):
        SCANNERS["checkov"]("planted", tmp_path)


def test_cdk_nag_without_its_report_is_no_clean_bill(planted: Path, tmp_path: Path) -> None:
    shutil.copytree(planted, tmp_path, dirs_exist_ok=True)
    report = json.loads((tmp_path / "validation-report.json").read_text())
    report["pluginReports"] = report["pluginReports"][:1]
    (tmp_path / "validation-report.json").write_text(json.dumps(report))
    with pytest.raises(ScanFailed):
        SCANNERS["cdk-nag"]("planted", tmp_path)
