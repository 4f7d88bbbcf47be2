"""Each scanner finds what is planted, and a scanner that cannot run fails the scan."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tools.scan import scanners
from tools.scan.finding import Finding
from tools.scan.scanners import SCANNERS, ScanFailed

# `make scan` runs them before it trusts the scanners: checkov alone takes nine seconds here.
pytestmark = pytest.mark.nightly


def rules(findings: list[Finding]) -> set[str]:
    assert {finding.app for finding in findings} <= {"planted"}
    return {finding.rule for finding in findings}


def test_cdk_nag_finds_the_wildcards_and_the_queue_that_takes_plain_http(planted: Path) -> None:
    found = rules(SCANNERS["cdk-nag"]("planted", planted))
    assert {"AwsSolutions-SQS4", "AwsSolutions-IAM5[Action::sqs:*]"} <= found
    # A warning, and a finding all the same; and a rule of the other pack.
    assert {"AwsSolutions-SQS3", "Serverless-LambdaTracing"} <= found


def test_cfn_lint_finds_the_unknown_property(planted: Path) -> None:
    findings = SCANNERS["cfn-lint"]("planted", planted)
    [unknown] = [finding for finding in findings if finding.rule == "E3002"]
    assert unknown.resource == "Planted/Bare/Properties/VisibilityTimeoutInHours"
    assert any(finding.rule.startswith("W") for finding in findings)


def test_checkov_finds_the_queue_without_encryption(planted: Path) -> None:
    findings = SCANNERS["checkov"]("planted", planted)
    assert "Planted/AWS::SQS::Queue.Bare" in {
        finding.resource for finding in findings if finding.rule == "CKV_AWS_27"
    }


def test_parliament_finds_unknown_actions_and_wildcards(planted: Path) -> None:
    findings = SCANNERS["parliament"]("planted", planted)
    assert {finding.resource for finding in findings} == {"Planted/Anything", "Planted/Grantor"}
    assert "RESOURCE_MISMATCH[s3:GetObject]" in rules(findings)
    assert {rule.partition("[")[0] for rule in rules(findings)} >= {
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


def test_a_template_that_checkov_cannot_read_fails_the_scan(planted: Path, tmp_path: Path) -> None:
    shutil.copytree(planted, tmp_path, dirs_exist_ok=True)
    (tmp_path / "Broken.template.json").write_text('{"Resources": ')
    with pytest.raises(ScanFailed):
        SCANNERS["checkov"]("planted", tmp_path)


def test_cdk_nag_without_its_report_fails_the_scan(planted: Path, tmp_path: Path) -> None:
    shutil.copytree(planted, tmp_path, dirs_exist_ok=True)
    report = json.loads((tmp_path / "validation-report.json").read_text())
    report["pluginReports"] = report["pluginReports"][:1]
    (tmp_path / "validation-report.json").write_text(json.dumps(report))
    with pytest.raises(ScanFailed):
        SCANNERS["cdk-nag"]("planted", tmp_path)
