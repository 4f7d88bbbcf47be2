"""Ships orders. What it raises says what becomes of the message."""

import json

from deadletter.consumer import Permanent, Skip, consumer


@consumer
def handler(record):
    """Ship the order in one message."""
    order = json.loads(record["body"])
    if order.get("cancelled"):
        raise Skip("nothing to ship")
    if order["count"] < 1:
        raise Permanent("an order of nothing")
    return order["orderId"]
