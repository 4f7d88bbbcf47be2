"""The four scanners: each reads what a synthesis wrote, and gives its findings.

A scanner that cannot do its work raises ScanFailed: silence is no clean bill. Warnings
are findings like errors.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.scan.finding import Finding
from tools.scan.policy import policies

ROOT = Path(__file__).parents[2]
OWN_BIN = ROOT / "build" / "scan-venv" / "bin"
"""checkov pins an older boto3 than the app's, so it and parliament live apart."""

# Seconds; each takes three or four.
PATIENCE = 120

Scanner = Callable[[str, Path], list[Finding]]
"""Gives the findings in an app (its name in the report) by the folder of its templates."""


class ScanFailed(Exception):
    """A scanner did not do its work; the text is its last words."""


def cdk_nag(app: str, folder: Path) -> list[Finding]:
    """What the AwsSolutions and Serverless packs found; reasons stand in infra/."""
    report = folder / "validation-report.json"
    if not report.exists():
        raise ScanFailed("cdk-nag left no report")
    packs = json.loads(report.read_text())["pluginReports"]
    # Beside them the CDK's own validation may report.
    if not {one["pluginName"] for one in packs} >= {"AwsSolutions", "Serverless"}:
        raise ScanFailed("cdk-nag did not run both packs")
    return [
        Finding("cdk-nag", app, one["ruleName"], where["constructPath"], one["description"], reason)
        for pack in packs
        for one, reason in (
            *((found, None) for found in pack.get("violations", [])),
            *((found, found["reason"]) for found in pack.get("suppressedViolations", [])),
        )
        for where in one["violatingConstructs"]
    ]


def cfn_lint(app: str, folder: Path) -> list[Finding]:
    """What is wrong with the templates themselves."""
    program = Path(sys.executable).parent / "cfn-lint"
    # Bits of its status say which levels it found; 1 and above 16 are its own failures.
    answer = _run([program, "--format", "json", "--", *_templates(folder)], allow=range(2, 16))
    return [
        Finding(
            "cfn-lint",
            app,
            one["Rule"]["Id"],
            _place(one["Filename"], one["Location"].get("Path") or []),
            one["Message"],
        )
        for one in json.loads(answer or "[]")
    ]


def checkov(app: str, folder: Path) -> list[Finding]:
    """What checkov's rules for CloudFormation find; it is told not to fetch any."""
    # Names and not paths: a path of forty characters would look like a secret key to it.
    files = [word for path in _templates(folder) for word in ("--file", Path(path).name)]
    options = ["--framework", "cloudformation", "--skip-download", "--quiet", "--output", "json"]
    answer = json.loads(_run([OWN_BIN / "checkov", *files, *options], allow=(1,), within=folder))
    reports: list[dict[str, Any]] = answer if isinstance(answer, list) else [answer]
    # It passes over what it cannot read, and says so only in its sums.
    if not all("results" in one and one["summary"]["resource_count"] for one in reports):
        raise ScanFailed(f"checkov looked at nothing: {answer}")
    if any(one["summary"]["parsing_errors"] for one in reports):
        raise ScanFailed("checkov could not read every template")
    return [
        Finding(
            "checkov",
            app,
            found["check_id"],
            _with_stack(found["file_path"], found["resource"]),
            found["check_name"],
        )
        for one in reports
        for found in one["results"]["failed_checks"]
    ]


def parliament(app: str, folder: Path) -> list[Finding]:
    """What is wrong with every policy in the templates."""
    templates = {
        Path(path).name.removesuffix(".template.json"): json.loads(Path(path).read_text())
        for path in _templates(folder)
    }
    found = list(policies(templates))
    judge = Path(__file__).parent / "judge_policies.py"
    # -I: only the scanners' own packages, and nothing of this folder.
    words: list[str | Path] = [OWN_BIN / "python", "-I", judge]
    answer = json.loads(_run(words, given=json.dumps([one.document for one in found])))
    return [
        Finding("parliament", app, rule, policy.where, message)
        for policy, problems in zip(found, answer, strict=True)
        for rule, message in problems
    ]


SCANNERS: Mapping[str, Scanner] = {
    "cdk-nag": cdk_nag,
    "cfn-lint": cfn_lint,
    "checkov": checkov,
    "parliament": parliament,
}


def _templates(folder: Path) -> Sequence[str]:
    found = sorted(str(path) for path in folder.glob("*.template.json"))
    if not found:
        raise ScanFailed(f"no templates in {folder}")
    return found


def _run(
    words: Sequence[str | Path],
    *,
    allow: Sequence[int] = (),
    given: str = "",
    within: Path = ROOT,
) -> str:
    """What a program prints; raises ScanFailed for a status other than 0 and `allow`."""
    try:
        done = subprocess.run(
            words,
            cwd=within,
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ScanFailed(f"{Path(words[0]).name}: {error}") from error
    if done.returncode != 0 and done.returncode not in allow:
        raise ScanFailed(
            f"{Path(words[0]).name} ended with status {done.returncode}: {done.stderr[-2000:]}"
        )
    return done.stdout


def _place(file: str, path: Sequence[Any]) -> str:
    """`stack/logical id/property/…`, however deep the finding is."""
    stack = Path(file).name.removesuffix(".template.json")
    return "/".join([stack, *(str(one) for one in path[1:])])


def _with_stack(file: str, resource: str) -> str:
    """`stack/type.logical id`, as checkov calls a resource."""
    return f"{Path(file).name.removesuffix('.template.json')}/{resource}"
