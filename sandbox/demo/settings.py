"""The demo's pipeline: the settings, compressed in time; the code is the code."""

from collections.abc import Mapping
from typing import Any

# Until the first canary goes; each that fails makes the next one wait longer.
COOLDOWN_SECONDS = 3

# Seconds that a busy machine may need, four times what a quiet one does: of the consumer's
# function, of one of the five POSTs of its batch, of the right to send a canary, which outlives the
# function by half a minute, and until a circuit that has closed counts as closed for good. Nothing
# in the demo waits for them to pass, so a quiet machine has them, too: others would be other
# templates, and a busy machine would have to make them just then.
TIMEOUT = 120
REQUEST_TIMEOUT = 20
LEASE = 240
SETTLE = 240


def pipeline() -> Mapping[str, Any]:
    """The settings. What fails once is a letter a second later."""
    return {
        "name": "orders",
        "context": {"tenantId": "body.tenantId", "messageType": "body.type"},
        "consumer": {
            "kind": "webhook",
            "timeout": TIMEOUT,
            "request_timeout": REQUEST_TIMEOUT,
            # Each is a process here, and a laptop has few cores.
            "max_concurrency": 2,
        },
        "main_queue": {"max_receive_count": 1},
        "circuit": {
            "failure_rate": 0.95,
            "minimum": 30,
            "consecutive": 15,
            "cooldown": COOLDOWN_SECONDS,
        },
        # On a slow machine letters fail more than once before the circuit opens, and a life takes
        # seconds here.
        "poison_lives": 20,
        # More attempts than patience lasts for.
        "policy": {"max_attempts": 20, "backoff": {"base": 1, "cap": 4}},
        "tuning": {
            "consumer.batch_size": 5,
            "consumer.allow_loopback": True,
            "retry.base": 1,
            "retry.cap": 1,
            "retry.floor": 0,
            "policy.backoff.floor": 0,
            "circuit.window": 12,
            "circuit.cooldown_factor": 1.5,
            "circuit.cooldown_cap": 8,
            "circuit.settle": SETTLE,
            "circuit.lease": LEASE,
            "circuit.ramp": 5,
            "workers": 2,
        },
    }
