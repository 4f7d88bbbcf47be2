"""The events that the demo sends: three tenants, some awkward shapes, one seed."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from deadletter.contract import Reason
from deadletter.message.letter import MAX_ATTRIBUTES, MAX_BYTES, Attribute, size_of, utf8
from deadletter.message.queue import MAX_BATCH

HEALTHY = "aspen"
RECOVERING = "birch"
REFUSING = "cedar"
TENANTS = (HEALTHY, RECOVERING, REFUSING)

# What a tenant's endpoint does, in a word that is shown beside its name.
ROLES = {HEALTHY: "healthy", RECOVERING: "down", REFUSING: "refuses"}

# So many events are sent only when the circuit is open, so that all can see who takes them then.
SENT_LATER = 40

ORDINARY_TYPE = "order.placed"
SNAPSHOT_TYPE = "catalogue.snapshot"

# More than SQS took until August 2025.
LARGE_BYTES = 300 * 1024
SNAPSHOT_BYTES = 900_000


@dataclass(frozen=True, slots=True)
class Event:
    """One message, and how it should end: delivered, or parked for *parked_as*."""

    event_id: str
    tenant: str
    body: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    parked_as: Reason | None = None

    @property
    def size(self) -> int:
        """Bytes as SQS counts them."""
        return size_of(self.body, self.attributes)

    @property
    def digest(self) -> str:
        """What tells its body, byte for byte, from all others."""
        return digest(utf8(self.body))


def named(tenant: str) -> str:
    """A tenant with its role, as it is always shown."""
    return f"{tenant} ({ROLES[tenant]})"


def digest(body: bytes) -> str:
    """Name a body by its content, so that one changed byte makes it another."""
    return hashlib.sha256(body).hexdigest()


Make = Callable[[str, str, Random], Event]


def plan(seed: int) -> tuple[Event, ...]:
    """Make the demo's events, always the same for one seed, in an order as mail comes in."""
    random = Random(seed)  # noqa: S311 - the same mail every time
    makers = [
        (make, tenant)
        for make, numbers in MIX
        for tenant, number in zip(TENANTS, numbers, strict=True)
        for _ in range(number)
    ]
    random.shuffle(makers)
    # The snapshot goes first, and so is among the letters that wait through the whole outage.
    makers.sort(key=lambda maker: maker[0] is not _snapshot)
    return tuple(
        make(f"evt-{number:04}", tenant, random) for number, (make, tenant) in enumerate(makers, 1)
    )


def batches(events: Sequence[Event]) -> Iterator[list[Event]]:
    """Cut *events* into what SendMessageBatch takes: ten at most, and 1 MiB together."""
    batch: list[Event] = []
    for event in events:
        together = sum(message.size for message in batch) + event.size
        if batch and (len(batch) == MAX_BATCH or together > MAX_BYTES):
            yield batch
            batch = []
        batch.append(event)
    if batch:
        yield batch


def entry(place: int, event: Event) -> dict[str, Any]:
    """Write an event as an entry of SendMessageBatch, its Id being *place*."""
    return {
        "Id": str(place),
        "MessageBody": event.body,
        "MessageAttributes": {
            name: {
                "DataType": item.data_type,
                "BinaryValue" if isinstance(item.value, bytes) else "StringValue": item.value,
            }
            for name, item in event.attributes.items()
        },
    }


def _plain(event_id: str, tenant: str, random: Random) -> Event:
    return _event(event_id, tenant, _order(event_id, tenant, random))


def _malformed(event_id: str, tenant: str, random: Random) -> Event:
    whole = json.dumps(_order(event_id, tenant, random))
    body = random.choice(
        (
            whole[:-20],  # cut off on its way
            f"{event_id}: see attachment",
            f'{{"tenantId": "{tenant}", {whole[1:]}',  # says twice whose it is
            whole.replace('"amount": ', '"amount": NaN, "was": '),
        )
    )
    return Event(event_id, tenant, body, parked_as=Reason.MALFORMED)


def _crowded(event_id: str, tenant: str, random: Random) -> Event:
    """Leave no room for an attribute of the redriver's own."""
    attributes = {f"header-{n}": Attribute("String", f"välue {n}") for n in range(7)} | {
        "priority": Attribute("Number", str(random.randrange(10))),
        "weight": Attribute("Number.float", "0.10"),
        "signature": Attribute("Binary", random.randbytes(32)),
    }
    assert len(attributes) == MAX_ATTRIBUTES
    return _event(event_id, tenant, _order(event_id, tenant, random), attributes)


def _binary(event_id: str, tenant: str, random: Random) -> Event:
    attributes = {
        "signature": Attribute("Binary", b"\x00\xff" + random.randbytes(62)),
        "thumbnail": Attribute("Binary.png", random.randbytes(256)),
    }
    return _event(event_id, tenant, _order(event_id, tenant, random), attributes)


def _large(event_id: str, tenant: str, random: Random) -> Event:
    return _event(event_id, tenant, _order(event_id, tenant, random) | _filler(LARGE_BYTES))


def _snapshot(event_id: str, tenant: str, random: Random) -> Event:
    order = _order(event_id, tenant, random)
    return _event(event_id, tenant, order | {"type": SNAPSHOT_TYPE} | _filler(SNAPSHOT_BYTES))


# How many of each kind, for each of the TENANTS.
MIX: tuple[tuple[Make, tuple[int, int, int]], ...] = (
    (_plain, (160, 80, 30)),
    (_malformed, (6, 3, 3)),
    (_crowded, (8, 8, 4)),
    (_binary, (8, 8, 4)),
    (_large, (3, 3, 2)),
    (_snapshot, (0, 1, 0)),
)


def _order(event_id: str, tenant: str, random: Random) -> dict[str, object]:
    return {
        "id": event_id,
        "tenantId": tenant,
        "type": ORDINARY_TYPE,
        "amount": random.randrange(100, 100_000) / 100,
        "note": "straße, žluťoučký, 注文",
    }


def _filler(size: int) -> dict[str, object]:
    return {"lines": "0123456789" * (size // 10)}


def _event(
    event_id: str,
    tenant: str,
    content: Mapping[str, object],
    attributes: Mapping[str, Attribute] | None = None,
) -> Event:
    parked_as = Reason.QUARANTINED if tenant == REFUSING else None
    body = json.dumps(content, ensure_ascii=False)
    return Event(event_id, tenant, body, attributes or {}, parked_as)
