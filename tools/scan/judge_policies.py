"""Runs in the scanners' own environment: policies in, parliament's findings out, as JSON.

In: a list of policy documents. Out: for each of them a list of [rule, message].
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import parliament
from parliament import analyze_policy_string, enhance_finding, override_config
from parliament.finding import Finding

# The titles of the findings of its community auditors are in a file of their own.
override_config(
    str(Path(parliament.__file__).parent / "community_auditors" / "config_override.yaml")
)

# How many of the actions that a wildcard stands for are in the name of a rule.
MOST_ACTIONS = 3


def rule(finding: Finding) -> str:
    """The name of the rule with its actions: an acknowledgement of one action covers no other."""
    details = finding.detail if isinstance(finding.detail, list) else [finding.detail]
    about = [detail["action"] if isinstance(detail, dict) else str(detail) for detail in details]
    if len(about) > MOST_ACTIONS:
        about[MOST_ACTIONS:] = [f"{len(about) - MOST_ACTIONS} more"]
    return f"{finding.issue}[{', '.join(about)}]" if any(about) else str(finding.issue)


answers = []
for document in json.load(sys.stdin):
    policy = analyze_policy_string(json.dumps(document), include_community_auditors=True)
    answers.append([[rule(finding), enhance_finding(finding).title] for finding in policy.findings])
json.dump(answers, sys.stdout)
