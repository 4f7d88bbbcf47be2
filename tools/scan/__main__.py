"""Scan the apps, write build/scan-report.json and .txt, and fail if anything is open.

With files, those that the scanners read, it notes what they were when nothing was open; with
--clean before them it scans nothing, and fails unless they are as noted. A clean checkout has the
note, too.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from tools.scan.apps import ROOT, contexts, synthesize
from tools.scan.finding import Finding, ScanVerdict, judge, read_acknowledgements
from tools.scan.scanners import SCANNERS, ScanFailed

ACKNOWLEDGED = Path(__file__).parent / "acknowledged.toml"
CLEAN = Path(__file__).parent / "clean.sha256"
BUILD = ROOT / "build"


def main(arguments: Sequence[str]) -> int:
    """0 if nothing is open and no reason is unused, or nothing has changed since."""
    if arguments[:1] == ["--clean"]:
        return int(CLEAN.read_text().strip() != sum_of(arguments[1:]))
    status = scan()
    if arguments and status == 0:
        CLEAN.write_text(f"{sum_of(arguments)}\n")
    return status


def sum_of(files: Iterable[str]) -> str:
    """One sum of the names of these files and of what is in them, in any order."""
    lines = [f"{sha256(Path(name).read_bytes()).hexdigest()} {name}\n" for name in sorted(files)]
    return sha256("".join(lines).encode()).hexdigest()


def scan() -> int:
    """Run every scanner over every app; 0 if nothing is open and no reason is unused."""
    began = time.monotonic()
    spent: dict[str, float] = {}
    folders = {}
    for name, context in contexts().items():
        folder = BUILD / "scan" / name
        shutil.rmtree(folder, ignore_errors=True)
        synthesize(context, folder)
        folders[name] = folder
    spent["synthesis"] = time.monotonic() - began

    def found(scanner: str, app: str) -> list[Finding]:
        start = time.monotonic()
        findings = SCANNERS[scanner](app, folders[app])
        spent[f"{scanner} {app}"] = time.monotonic() - start
        return findings

    # Two: `make check` has to be quick on a machine with two cores. The slow scanners start first.
    with ThreadPoolExecutor(2) as pool:
        runs = [
            pool.submit(found, scanner, app)
            for scanner in ("checkov", "cfn-lint", "parliament", "cdk-nag")
            for app in folders
        ]
        try:
            findings = [finding for run in runs for finding in run.result()]
        except ScanFailed as failed:
            print(failed, file=sys.stderr)
            return 1
    verdict = judge(findings, read_acknowledgements(ACKNOWLEDGED))
    spent["all"] = time.monotonic() - began
    seconds = {name: round(value, 1) for name, value in spent.items()}
    report = {**verdict.to_json(), "seconds": seconds}
    (BUILD / "scan-report.json").write_text(json.dumps(report, indent=2) + "\n")
    text = "\n".join(lines(verdict, seconds)) + "\n"
    (BUILD / "scan-report.txt").write_text(text)
    summary = f"{len(verdict.open)} open, {len(verdict.stays)} with a reason"
    print(text if not verdict.clean else f"scan: {summary} in {seconds['all']} s", end="")
    print(" (build/scan-report.txt)" if verdict.clean else "")
    return 0 if verdict.clean else 1


def lines(verdict: ScanVerdict, seconds: Mapping[str, float]) -> Iterator[str]:
    """The report for a person: open findings, unused acknowledgements, accepted findings."""
    yield f"Open: {len(verdict.open)}"
    for finding in verdict.open:
        yield f"  {finding.scanner} {finding.rule} in {finding.app}: {finding.resource}"
        yield f"    {finding.message}"
    yield f"Acknowledged, but not found: {len(verdict.unused)}"
    for ack in verdict.unused:
        yield f"  {ack.scanner} {ack.rule} on {ack.resource} in {ack.app}"
    yield f"Stays, with a reason: {len(verdict.stays)}"
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for finding in verdict.stays:
        key = (finding.scanner, finding.rule, finding.reason or "")
        reasons.setdefault(key, []).append(f"{finding.app}: {finding.resource}")
    for (scanner, rule, reason), places in sorted(reasons.items()):
        yield f"  {scanner} {rule}: {reason}"
        yield from (f"    {place}" for place in sorted(places))
    yield "Seconds: " + ", ".join(f"{name} {value}" for name, value in seconds.items())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
