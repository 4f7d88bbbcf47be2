"""Why messages fail: what `dlq groups` shows, what that means, what to type, and when it ends.

The runbook's first table is made from these rows, and `dlq groups` prints their first command.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from deadletter.contract import Category
from deadletter.signals.commands import TypedLine


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCause:
    """What a group of failures means, and what ends it; the texts but `repair` are Markdown.

    shows     what `dlq groups` shows
    means     what is wrong, in one sentence without its full stop
    repair    the command that a person types first
    endpoint  the one for a message to a webhook's endpoint that is known; else `repair`
    then      what follows the command in the runbook
    until     when it is over, and what brings the messages back
    explains  the categories of failure that it explains, whatever else is known of one
    """

    shows: str
    means: str
    repair: TypedLine
    until: str
    then: str = ""
    endpoint: TypedLine | None = None
    explains: tuple[Category, ...] = ()


class Explanation(Enum):
    """The causes of failure, in the order of the runbook."""

    BUSY = FailureCause(
        shows="**429**, or `Throttled`",
        means="the dependency is too busy; nothing is lost",
        repair=TypedLine.CIRCUITS,
        then=". One tenant's endpoint: `dlq rules add slower -p P --action DELAYED_REDRIVE=15m"
        ' -f tenant=TENANT --expires 24h --reason "429"`. Your own load: lower `rate` or the'
        " mapping's concurrency",
        until="messages go back after their delay; sooner: `dlq retry --in rule:slower -p P"
        ' --reason "429 is over"`',
    )
    DOWN = FailureCause(
        shows="**503**, 502, 504, `Timeout`, `ConnectionRefused`",
        means="the dependency is down; the circuit opens",
        repair=TypedLine.CIRCUITS,
        then=", then call its owner",
        until="two canaries succeed, within about a minute of the repair",
    )
    FAILS = FailureCause(
        shows="**500**",
        means="the dependency fails for all, or for one kind of message",
        repair=TypedLine.GROUPS_BY_TENANT,
        then=", `dlq show ID --logs`. One kind: `dlq rules add hold-it -p P --action HOLD"
        ' -f tenant=TENANT --expires 24h --reason "500 for this tenant"`',
        until='as 503; after the fix: `dlq rules disable hold-it --pipeline P --reason "fixed"`',
    )
    DNS = FailureCause(
        shows="**DNS**: `gaierror`, name not known",
        means="the name moved, its zone is broken, or the VPC has no resolver",
        repair=TypedLine.MESSAGE_LOGS,
        endpoint=TypedLine.ENDPOINT,
        then=" names the host; a webhook's: `dlq endpoint add TENANT --dry-run`",
        until="as 503",
    )
    TLS = FailureCause(
        shows="**TLS**: `SSLError`, a bad certificate",
        means="it has expired or is for another name, or your roots are old",
        repair=TypedLine.MESSAGE_LOGS,
        endpoint=TypedLine.ENDPOINT,
        then="; a webhook's: `dlq endpoint add TENANT --dry-run`. Its owner renews it; or deploy"
        " the consumer with new roots",
        until="as 503",
    )
    REFUSES = FailureCause(
        shows="**401, 403, 407**, a redirect, a denied permission",
        means="the dependency refuses the consumer itself",
        repair=TypedLine.MESSAGE,
        endpoint=TypedLine.ENDPOINT,
        then=". [A refused credential](#a-refused-credential): repair the key, the permission or"
        " the address",
        until="the next canary, within about a minute",
    )
    UNREADABLE = FailureCause(
        shows="**schema**, `business`: `ValidationError`",
        means="the message is wrong, or the consumer misreads it; it is parked",
        explains=(Category.SCHEMA, Category.BUSINESS),
        repair=TypedLine.MESSAGE,
        then="; tell the producer. Is its group marked HELD, [dominant](#a-dominant-cause)?",
        until="it is sent right; `dlq retry --in parked -p P -f reason=PERMANENT` takes back what"
        " can be read now; the others: `dlq discard --pipeline P -f cause=CAUSE --reason"
        ' "sent again"`',
    )
    OTHER = FailureCause(
        shows="any other error",
        means="the consumer fails on it: a defect, or data that it does not expect",
        repair=TypedLine.MESSAGE_LOGS,
        until="the consumer is repaired; three failures of one message park it as POISON",
    )
    ONE_TENANT = FailureCause(
        shows="**one tenant**: `dlq groups P --by tenant` shows one name",
        means="its messages or its endpoint are broken",
        repair=TypedLine.ENDPOINT,
        then="; `dlq rules add stop-it -p P --action QUARANTINE -f tenant=TENANT --expires 24h"
        ' --reason "its endpoint answers 422"` (`HOLD` if it ends soon)',
        until="the next run parks them. After the fix: `dlq rules disable stop-it --pipeline P"
        ' --reason "fixed"`, `dlq retry --in parked -p P -f tenant=TENANT --reason "fixed"`',
    )
    EVERYTHING = FailureCause(
        shows="**everything**: many causes, all tenants, one start time",
        means="a deployment, or what all share: network, proxy, credential",
        repair=TypedLine.OPEN,
        then=", and roll the last deployment back",
        until="`dlq circuit release --pipeline P`: a canary first, then a ramp",
    )
    UNRECORDED = FailureCause(
        shows="**no record**: `unknown`, no category",
        means="the consumer never saw them, or dies without a word (memory, timeout)",
        repair=TypedLine.DOCTOR,
        then=", `dlq show ID --logs`. Raise concurrency, memory or timeout",
        until="the consumer processes them; the second silent death parks a message as CRASH",
    )
