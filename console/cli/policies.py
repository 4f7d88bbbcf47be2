"""The managed policies of the app that each command takes."""

from __future__ import annotations

READER, OPERATOR, EDITOR, REPLAYER = "DlqReader", "DlqOperator", "RuleEditor", "ReplayOperator"

# Commands that take more than DlqReader. What asks a queue of no app takes none of them.
BESIDE_READER = {
    "redrive now": OPERATOR,
    "parked release": REPLAYER,
    "parked discard": REPLAYER,
    "replay start": REPLAYER,
    "replay hold": REPLAYER,
    "replay resume": REPLAYER,
    "replay abort": REPLAYER,
    "replay approve": REPLAYER,
    "replay refuse": REPLAYER,
    "replay rerun": REPLAYER,
    "replay edit": REPLAYER,
    "replay mend": REPLAYER,
    "replay try": REPLAYER,
    "circuit open": OPERATOR,
    "circuit close": OPERATOR,
    "circuit auto": OPERATOR,
    "mute": OPERATOR,
    "cause park": OPERATOR,
    "cause retry": OPERATOR,
    "endpoint check": OPERATOR,
    "endpoint add": OPERATOR,
    "endpoint enable": OPERATOR,
    "endpoint disable": OPERATOR,
    "rules add": EDITOR,
    "rules enable": EDITOR,
    "rules disable": EDITOR,
    "rules import": EDITOR,
}
NONE = {"init", "help", "rules lint"}
"""Commands that ask nothing of AWS, or that come before the app."""


def policies_of(command: str) -> tuple[str, ...]:
    """The policies that a command takes, by its words after `dlq`."""
    if command in NONE:
        return ()
    beside = BESIDE_READER.get(command)
    return (READER,) if beside is None else (READER, beside)


def help_after_refusal(command: str, app: str) -> str:
    """What to do after AWS refused a call of this command; empty if no policy would help."""
    names = [f"{app}-{policy}-…" for policy in policies_of(command)]
    if not names:
        return ""
    which = "policy" if len(names) == 1 else "policies"
    return (
        f" dlq {command} takes the app's managed {which} {' and '.join(names)} (and a second one "
        "where there is a DlqReader2): attach them to your role."
    )
