"""The managed policies of the app that each command takes."""

from __future__ import annotations

from collections.abc import Mapping

READER, BODIES, EDITOR = "DlqReader", "BodyReader", "RuleEditor"
OPERATOR, ENDPOINTS, RUNNER = "CircuitOperator", "EndpointEditor", "RunOperator"
APPROVER, DISCARDER = "RunApprover", "DiscardOperator"

# Commands that take more than DlqReader, some with an option alone. What asks a queue of no app
# takes none of them.
BESIDE_READER: Mapping[str, tuple[str, ...]] = {
    "groups": (BODIES,),
    "list": (BODIES,),
    "show": (BODIES,),
    "rules test": (BODIES,),
    "rules add": (EDITOR,),
    "rules disable": (EDITOR,),
    "rules undo": (EDITOR,),
    "rules remove": (EDITOR,),
    "rules apply": (EDITOR,),
    "mute": (OPERATOR,),
    "doctor --send-page": (OPERATOR,),
    "circuit open": (OPERATOR,),
    "circuit close": (OPERATOR,),
    "circuit release": (OPERATOR,),
    "endpoint add": (ENDPOINTS,),
    "endpoint disable": (ENDPOINTS,),
    "run hold": (RUNNER,),
    "run resume": (RUNNER,),
    "run abort": (RUNNER,),
    "run approve": (APPROVER,),
    "run reject": (APPROVER,),
    "retry": (BODIES, OPERATOR, RUNNER),
    "discard": (BODIES, DISCARDER),
    "restore": (BODIES, DISCARDER),
    "forget": (BODIES, DISCARDER),
}
NONE = {"init", "help", "ui"}
"""Commands that ask nothing of AWS, that come before the app, or that ask by other verbs."""


_LOOK = (
    "sqs:GetQueueUrl",
    "sqs:GetQueueAttributes",
    "sqs:ReceiveMessage",
    "sqs:ChangeMessageVisibility",
)

AT_ANY_QUEUE: Mapping[str, tuple[str, ...]] = {
    "list": _LOOK,
    "groups": _LOOK,
    "doctor": ("sqs:GetQueueUrl", "sqs:GetQueueAttributes"),
}
"""What a command takes at a queue of no app, for which the app has no policy."""


def policies_of(command: str) -> tuple[str, ...]:
    """The policies that a command takes, by its words after `dlq`."""
    if command in NONE:
        return ()
    return (READER, *BESIDE_READER.get(command, ()))


def help_after_refusal(command: str, app: str, *, any_queue: bool = False) -> str:
    """What to do after AWS refused a call of this command; empty if no policy would help.

    `any_queue` says that it was asked for a queue of its own, and needs no app.
    """
    if any_queue and command in AT_ANY_QUEUE:
        *actions, last = AT_ANY_QUEUE[command]
        key = ", and kms:Decrypt where it has a KMS key of yours" if last in _LOOK[2:] else ""
        return (
            f" dlq {command} of a queue needs no app, but {', '.join(actions)} and {last} of that "
            f"queue{key}."
        )
    names = [f"{app}-{policy}-…" for policy in policies_of(command)]
    if not names:
        return ""
    which = "policy" if len(names) == 1 else "policies"
    return (
        f" dlq {command} takes the app's managed {which} {' and '.join(names)} (and a second one "
        "where there is a DlqReader2): attach them to your role."
    )
