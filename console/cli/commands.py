"""The commands of `dlq`: where each is, its line in the help, and the policies that it takes."""

from __future__ import annotations

from typing import NamedTuple

READER, BODIES, EDITOR = "DlqReader", "BodyReader", "RuleEditor"
OPERATOR, ENDPOINTS, RUNNER = "CircuitOperator", "EndpointEditor", "RunOperator"
APPROVER, DISCARDER = "RunApprover", "DiscardOperator"

_LOOK = (
    "sqs:GetQueueUrl",
    "sqs:GetQueueAttributes",
    "sqs:ReceiveMessage",
    "sqs:ChangeMessageVisibility",
)


class DlqCommand(NamedTuple):
    """A command of `dlq`.

    says          its line in the help
    beside        managed policies of the app that it takes beside DlqReader
    at_queue      what it takes at a queue of no app, for which the app has no policy
    asks_nothing  whether it takes no policy: it asks nothing of AWS, comes before the app, or asks
                  by other verbs
    """

    says: str
    beside: tuple[str, ...] = ()
    at_queue: tuple[str, ...] = ()
    asks_nothing: bool = False


GROUPS = {
    "run": "Runs of retry, discard and restore: planned, paced, stoppable.",
    "circuit": "Circuit breakers: which dependencies are down, and the manual override.",
    "endpoint": "Webhook endpoints: where tenants want their events, and which get none.",
    "rules": "Routing rules: which messages to stop, slow down or set apart.",
}
"""The first words of commands of two words, and the line of each in the help."""

COMMANDS = {
    "status": DlqCommand("What needs attention, and how full each queue is."),
    "show": DlqCommand(
        "One message, run, rule, circuit, cause or pipeline: all that is on record of it.",
        (BODIES,),
    ),
    "groups": DlqCommand(
        "What is failing, and why: messages by cause, tenant and more, with what to type.",
        (BODIES,),
        at_queue=_LOOK,
    ),
    "ui": DlqCommand(
        "A page of this app in your browser, with your own rights.", asks_nothing=True
    ),
    "init": DlqCommand(
        "List the account's DLQs, and add chosen ones to cdk.json.", asks_nothing=True
    ),
    "doctor": DlqCommand(
        "Check what synth can't see around a queue and its DLQ.", at_queue=_LOOK[:2]
    ),
    "list": DlqCommand(
        "Which messages there are, where they lie, and why.", (BODIES,), at_queue=_LOOK
    ),
    "mute": DlqCommand("Mute a pipeline's alarms for a while; it ends by itself.", (OPERATOR,)),
    "retry": DlqCommand(
        "Send messages again: from DLQs, the parked, or those that wait.",
        (BODIES, OPERATOR, RUNNER),
    ),
    "discard": DlqCommand(
        "Throw messages away, for a reason that is kept with them.", (BODIES, DISCARDER)
    ),
    "restore": DlqCommand(
        "Bring discarded messages back: those of a run, or single ones.", (BODIES, DISCARDER)
    ),
    "forget": DlqCommand(
        "Erase what is kept of a message, for a data protection request.", (BODIES, DISCARDER)
    ),
    "run list": DlqCommand("List the runs, those that are live first."),
    "run hold": DlqCommand(
        "Stop a run: nothing is sent from two seconds after this on. It asks nothing.", (RUNNER,)
    ),
    "run resume": DlqCommand(
        "Go on with a run that was held, by a person or by itself; its step begins anew.", (RUNNER,)
    ),
    "run abort": DlqCommand("End a run for good. It sends nothing any more.", (RUNNER,)),
    "run approve": DlqCommand(
        "Approve the messages of a run that waits for it: its first ones are sent.", (APPROVER,)
    ),
    "run reject": DlqCommand(
        "Reject a run that waits for approval: nothing was sent, its messages are parked.",
        (APPROVER,),
    ),
    "circuit list": DlqCommand(
        "List each pipeline's own circuit, and all others that are not closed or overridden."
    ),
    "circuit open": DlqCommand(
        "Open a circuit by hand: nothing is sent on, and live traffic is paused too.", (OPERATOR,)
    ),
    "circuit close": DlqCommand("Close a circuit by hand: messages are sent again.", (OPERATOR,)),
    "circuit release": DlqCommand(
        "End what a person said about a circuit. An open circuit is tried with a canary at once.",
        (OPERATOR,),
    ),
    "endpoint list": DlqCommand(
        "List the endpoints of all tenants, and why an endpoint gets nothing."
    ),
    "endpoint add": DlqCommand(
        "Add an endpoint of a tenant, or enable it again; it is checked first.", (ENDPOINTS,)
    ),
    "endpoint disable": DlqCommand(
        "Disable an endpoint, within seconds: nothing is posted to it.", (ENDPOINTS,)
    ),
    "rules list": DlqCommand("The rules in the order they are tried, and what each does."),
    "rules add": DlqCommand("Add a rule, in effect within a minute.", (EDITOR,)),
    "rules disable": DlqCommand(
        "Disable a rule, within a minute; it stays in the table.", (EDITOR,)
    ),
    "rules remove": DlqCommand("Remove a rule; dlq rules undo brings it back.", (EDITOR,)),
    "rules undo": DlqCommand("Take the last change of a rule back.", (EDITOR,)),
    "rules test": DlqCommand(
        "What a rule would match, without effect; or check files of rules.", (BODIES,)
    ),
    "rules apply": DlqCommand("Write a file of rules into the table.", (EDITOR,)),
    "audit": DlqCommand("Who changed what, when and why: the newest first."),
    "help": DlqCommand(
        "What holds for all commands: words, exit statuses, JSON, policies.", asks_nothing=True
    ),
}

_ELSEWHERE = {"restore": "discard", "forget": "discard", "rules test": "rule_trial"}

BESIDE_READER = {
    **{words: command.beside for words, command in COMMANDS.items() if command.beside},
    "doctor --send-page": (OPERATOR,),
}
"""The policies of the commands that take more than DlqReader, some with an option alone."""


def module_of(words: str) -> str:
    """The module of `console.cli` that holds a command in `VIEWS`: named as its first word."""
    return f".{_ELSEWHERE.get(words, words.partition(' ')[0])}"


def policies_of(command: str) -> tuple[str, ...]:
    """The policies that a command takes, by its words after `dlq`."""
    known = COMMANDS.get(command)
    if known is not None and known.asks_nothing:
        return ()
    return (READER, *BESIDE_READER.get(command, ()))


def help_after_refusal(command: str, app: str, *, any_queue: bool = False) -> str:
    """What to do after AWS refused a call of this command; empty if no policy would help.

    `any_queue` says that it was asked for a queue of its own, and needs no app.
    """
    known = COMMANDS.get(command)
    if any_queue and known is not None and known.at_queue:
        *actions, last = known.at_queue
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
