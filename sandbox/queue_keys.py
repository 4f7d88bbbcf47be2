"""What SQS asks KMS for, in the name of its caller, where a queue is under a customer's key.

The emulator's SQS never calls KMS, so every role could use every queue. Here IAM is asked as KMS
would ask it: with the caller's policies, with the policy of the key as far as the emulator has the
key, and with `kms:ViaService`. A denied key is SQS's refusal, not IAM's.

Stricter than AWS: a receive needs the keys of all messages in the queue, and the queue's own key
even if it is empty. AWS needs those of the messages that it hands out, and keeps data keys for up
to five minutes.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

DENIED = "KMS.AccessDeniedException"
DENIED_TEXT = (
    "The ciphertext refers to a customer master key that does not exist, does not exist in this"
    " region, or you are not allowed to access."
)


@dataclass(frozen=True, slots=True)
class QueueKeys:
    """The customers' keys in a queue, as ARNs.

    own    the queue's, which what is sent to it comes under; None if it has none
    moved  those of queues from which SQS has moved messages here: a move does not encrypt anew
    """

    own: str | None = None
    moved: Sequence[str] = ()


def key_calls(action: str, keys: QueueKeys) -> Iterable[tuple[str, str]]:
    """Each action on a key that SQS takes for the caller of `action`, once."""
    if action == "sqs:SendMessage" and keys.own:
        return [("kms:GenerateDataKey", keys.own), ("kms:Decrypt", keys.own)]
    if action == "sqs:ReceiveMessage":
        used = dict.fromkeys(key for key in (keys.own, *keys.moved) if key)
        return [("kms:Decrypt", key) for key in used]
    return []


def via_sqs(region: str) -> dict[str, str]:
    """What the conditions of a policy are told about such a call."""
    return {"kms:ViaService": f"sqs.{region}.amazonaws.com"}


def asking_for_keys(
    enforce: Callable[..., Any],
    keys_of: Callable[[str], QueueKeys],
    refuse: Callable[[str, str], Any],
) -> Callable[..., Any]:
    """Do what *enforce* does, and then ask it for the keys of a queue that may be used.

    *enforce* is the emulator's judge: (access key, action, service, region, resource_arn=, …),
    None if the call may go on. *keys_of* is given a queue's ARN; *refuse* makes an answer of
    *enforce* from a code and a text.
    """

    def judge(access_key: str, action: str, service: str, region: str, **more: Any) -> Any:
        refused = enforce(access_key, action, service, region, **more)
        if refused is not None or service != "sqs":
            return refused
        for key_action, key in key_calls(action, keys_of(str(more.get("resource_arn", "*")))):
            context = via_sqs(region)
            if enforce(
                access_key, key_action, "kms", region, resource_arn=key, service_context=context
            ):
                return refuse(DENIED, DENIED_TEXT)
        return None

    return judge
