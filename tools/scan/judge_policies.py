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

# The titles of what the auditors of its community find are in a file of their own.
override_config(
    str(Path(parliament.__file__).parent / "community_auditors" / "config_override.yaml")
)

# Of what a wildcard stands for, those that a rule is named by.
MOST_ACTIONS = 3


def rule(found: Finding) -> str:
    """Name the rule with what it is about: a reason for one action is none for the next."""
    details = found.detail if isinstance(found.detail, list) else [found.detail]
    about = [one["action"] if isinstance(one, dict) else str(one) for one in details]
    if len(about) > MOST_ACTIONS:
        about[MOST_ACTIONS:] = [f"{len(about) - MOST_ACTIONS} more"]
    return f"{found.issue}[{', '.join(about)}]" if any(about) else str(found.issue)


answers = []
for document in json.load(sys.stdin):
    found = analyze_policy_string(json.dumps(document), include_community_auditors=True).findings
    answers.append([[rule(one), enhance_finding(one).title] for one in found])
json.dump(answers, sys.stdout)
