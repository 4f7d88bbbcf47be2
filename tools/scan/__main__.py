"""Scan the apps, write build/scan-report.json and .txt, and fail if anything is open."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.scan.apps import ROOT, contexts, synthesize
from tools.scan.finding import Finding, ScanVerdict, judge, read_acknowledgements
from tools.scan.scanners import SCANNERS, ScanFailed

ACKNOWLEDGED = Path(__file__).parent / "acknowledged.toml"
BUILD = ROOT / "build"


def main() -> int:
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

    def run(scanner: str, app: str) -> list[Finding]:
        start = time.monotonic()
        found = SCANNERS[scanner](app, folders[app])
        spent[f"{scanner} {app}"] = time.monotonic() - start
        return found

    # Two: what `make check` promises to be quick on. The slow ones start first.
    with ThreadPoolExecutor(2) as pool:
        runs = [
            pool.submit(run, scanner, app)
            for scanner in ("checkov", "cfn-lint", "parliament", "cdk-nag")
            for app in folders
        ]
        try:
            findings = [one for each in runs for one in each.result()]
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
    """The report for a person: what is open, what is acknowledged for nothing, what stays."""
    yield f"Open: {len(verdict.open)}"
    for one in verdict.open:
        yield f"  {one.scanner} {one.rule} in {one.app}: {one.resource}"
        yield f"    {one.message}"
    yield f"Acknowledged, but not found: {len(verdict.unused)}"
    for ack in verdict.unused:
        yield f"  {ack.scanner} {ack.rule} on {ack.resource} in {ack.app}"
    yield f"Stays, with a reason: {len(verdict.stays)}"
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for one in verdict.stays:
        key = (one.scanner, one.rule, one.reason or "")
        reasons.setdefault(key, []).append(f"{one.app}: {one.resource}")
    for (scanner, rule, reason), places in sorted(reasons.items()):
        yield f"  {scanner} {rule}: {reason}"
        yield from (f"    {place}" for place in sorted(places))
    yield "Seconds: " + ", ".join(f"{name} {value}" for name, value in seconds.items())


if __name__ == "__main__":
    sys.exit(main())
