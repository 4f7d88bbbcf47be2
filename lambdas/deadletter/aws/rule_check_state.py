"""Whether the rule checker sees edits of rules when they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deadletter.aws.errors import member, ours
from deadletter.contract import rule_checker, rules_table
from deadletter.watch.watch import RuleCheckUnavailable

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

_READS = frozenset({"Enabled", "Enabling", "Creating", "Updating"})
_FAILED = ("PROBLEM", "FAILED")
"""What Lambda's word on the last batch of a stream begins with if the function failed."""


def why_edits_are_late(client: LambdaClient, app: str) -> str:
    """Why routers learn of an edit only with their next look; empty if they learn at once.

    Lambda knows the state of what feeds the checker. Raises RuleCheckUnavailable.
    """
    # The same function keeps the edits of endpoints: no router waits for these.
    function, rules = rule_checker(app), f":table/{rules_table(app)}/"
    with ours(RuleCheckUnavailable, "lambda", function):
        answer = client.list_event_source_mappings(FunctionName=function)
        fed = member(answer, "EventSourceMappings")
    mappings = [each for each in fed if rules in each["EventSourceArn"]]
    if not mappings:
        return f"no event source mapping feeds {function}"
    for mapping in mappings:
        if mapping["State"] not in _READS:
            return f"the event source mapping of {function} is {mapping['State']}"
        if mapping.get("LastProcessingResult", "").startswith(_FAILED):
            return f"{function} failed at its last batch of edits"
    return ""
