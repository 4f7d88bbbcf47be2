"""The four scanners: each reads the output of a synthesis and returns its findings.

A scanner that cannot do its work raises ScanFailed, so that a failure does not look like no
findings. Warnings are findings like errors.
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
"""checkov pins an older boto3 than the app's: it and parliament have their own environment."""

# Seconds after which a program hangs. Each takes three or four, and two minutes on a busy machine,
# where it is nice to all others.
PATIENCE = 900

Scanner = Callable[[str, Path], list[Finding]]
"""Gives the findings in an app (its name in the report) by the folder of its templates."""


class ScanFailed(Exception):
    """A scanner did not do its work; the text is the end of its error output."""


def cdk_nag(app: str, folder: Path) -> list[Finding]:
    """Findings of the packs AwsSolutions and Serverless; their reasons are in infra/."""
    report = folder / "validation-report.json"
    if not report.exists():
        raise ScanFailed("cdk-nag left no report")
    packs = json.loads(report.read_text())["pluginReports"]
    # The CDK's own validation may report too.
    if not {pack["pluginName"] for pack in packs} >= {"AwsSolutions", "Serverless"}:
        raise ScanFailed("cdk-nag did not run both packs")
    return [
        Finding(
            "cdk-nag",
            app,
            violation["ruleName"],
            construct["constructPath"],
            violation["description"],
            reason,
        )
        for pack in packs
        for violation, reason in (
            *((violation, None) for violation in pack.get("violations", [])),
            *(
                (violation, violation["reason"])
                for violation in pack.get("suppressedViolations", [])
            ),
        )
        for construct in violation["violatingConstructs"]
    ]


def cfn_lint(app: str, folder: Path) -> list[Finding]:
    """Errors and warnings in the templates themselves."""
    program = Path(sys.executable).parent / "cfn-lint"
    # The bits of its status are the levels of its findings; 1, and 16 and above, are failures.
    answer = _run([program, "--format", "json", "--", *_templates(folder)], allow=range(2, 16))
    return [
        Finding(
            "cfn-lint",
            app,
            match["Rule"]["Id"],
            _place(match["Filename"], match["Location"].get("Path") or []),
            match["Message"],
        )
        for match in json.loads(answer or "[]")
    ]


def checkov(app: str, folder: Path) -> list[Finding]:
    """Findings of checkov's rules for CloudFormation; it fetches no rules."""
    # Names instead of paths: checkov takes a path of forty characters for a secret key.
    files = [word for path in _templates(folder) for word in ("--file", Path(path).name)]
    options = ["--framework", "cloudformation", "--skip-download", "--quiet", "--output", "json"]
    answer = json.loads(_run([OWN_BIN / "checkov", *files, *options], allow=(1,), within=folder))
    reports: list[dict[str, Any]] = answer if isinstance(answer, list) else [answer]
    # It skips files that it cannot read, and only its summary shows it.
    if not all("results" in report and report["summary"]["resource_count"] for report in reports):
        raise ScanFailed(f"checkov checked no resource: {answer}")
    if any(report["summary"]["parsing_errors"] for report in reports):
        raise ScanFailed("checkov could not read every template")
    return [
        Finding(
            "checkov",
            app,
            check["check_id"],
            _with_stack(check["file_path"], check["resource"]),
            check["check_name"],
        )
        for report in reports
        for check in report["results"]["failed_checks"]
    ]


def parliament(app: str, folder: Path) -> list[Finding]:
    """Findings of parliament in every policy of the templates."""
    templates = {
        Path(path).name.removesuffix(".template.json"): json.loads(Path(path).read_text())
        for path in _templates(folder)
    }
    documents = list(policies(templates))
    judge = Path(__file__).parent / "judge_policies.py"
    # -I: import from the scanners' own packages only, not from this folder.
    words: list[str | Path] = [OWN_BIN / "python", "-I", judge]
    answer = json.loads(_run(words, given=json.dumps([policy.document for policy in documents])))
    return [
        Finding("parliament", app, rule, policy.where, message)
        for policy, problems in zip(documents, answer, strict=True)
        for rule, message in problems
    ]


SCANNERS: Mapping[str, Scanner] = {
    "cdk-nag": cdk_nag,
    "cfn-lint": cfn_lint,
    "checkov": checkov,
    "parliament": parliament,
}


def _templates(folder: Path) -> Sequence[str]:
    templates = sorted(str(path) for path in folder.glob("*.template.json"))
    if not templates:
        raise ScanFailed(f"no templates in {folder}")
    return templates


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
    return "/".join([stack, *(str(part) for part in path[1:])])


def _with_stack(file: str, resource: str) -> str:
    """`stack/type.logical id`, as checkov calls a resource."""
    return f"{Path(file).name.removesuffix('.template.json')}/{resource}"
