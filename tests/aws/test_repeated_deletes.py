"""A delete that SQS reports as failed is tried again in the same run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from deadletter.aws.queue import MOST_DELETES, SqsQueue
from deadletter.message.confirmation import Confirmation
from deadletter.message.letter import Letter
from deadletter.message.queue import ReceivedLetter

LETTERS = 25


class FailingDeletes:
    """A client whose deletes fail as `fails` says: by receipt handle and number of the try."""

    def __init__(self, fails: Callable[[str, int], bool], *, sender: bool = False) -> None:
        self.calls: list[int] = []
        self.tries: Counter[str] = Counter()
        self._fails = fails
        self._sender = sender

    def delete_message_batch(self, *, QueueUrl: str, Entries: list[Any]) -> Any:  # noqa: N803
        self.calls.append(len(Entries))
        answer: dict[str, list[Any]] = {"Successful": [], "Failed": []}
        for entry in Entries:
            handle = entry["ReceiptHandle"]
            self.tries[handle] += 1
            if self._fails(handle, self.tries[handle]):
                failure = {"SenderFault": self._sender, "Code": "InternalError"}
                answer["Failed"].append({"Id": entry["Id"], **failure})
            else:
                answer["Successful"].append({"Id": entry["Id"]})
        return answer


def remaining(client: Any) -> list[str]:
    queue = SqsQueue(client, "https://queue", lambda: 0.0)
    letters = [
        ReceivedLetter(Letter(f"m{number}", "{}"), f"m{number}", 100.0) for number in range(LETTERS)
    ]
    proofs = [
        (received, Confirmation(received.letter.message_id, "elsewhere")) for received in letters
    ]
    return [received.letter.message_id for received in queue.delete(proofs)]


def test_an_entry_that_failed_is_deleted_by_a_second_try_together_with_others() -> None:
    client = FailingDeletes(lambda handle, tries: handle in ("m1", "m12", "m24") and tries == 1)
    assert remaining(client) == []
    assert client.calls == [10, 10, 5, 3]


def test_an_entry_that_always_fails_is_tried_a_few_times_and_reported() -> None:
    client = FailingDeletes(lambda handle, _: handle == "m7")
    assert remaining(client) == ["m7"]
    assert client.tries["m7"] == MOST_DELETES
    assert client.calls == [10, 10, 5, *([1] * (MOST_DELETES - 1))]


def test_a_handle_that_sqs_refuses_is_not_tried_again() -> None:
    client = FailingDeletes(lambda handle, _: handle == "m7", sender=True)
    assert remaining(client) == ["m7"]
    assert client.calls == [10, 10, 5]
