"""The queues of a pipeline: main, DLQ, dedicated DLQs and the parking lot."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import aws_cdk as cdk
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from deadletter.contract import ANY, DEFAULT_PARKING, Variable

from . import here
from .arn import Arn, is_token
from .encryption import customer_key, grant_queue_keys
from .findings import acknowledge
from .keys import check_keys, keys_beside, queue_keys
from .names import Names, pascal_case
from .permissions import Permissions
from .settings import (
    LONGEST_RETENTION,
    AppDeployment,
    DeadLetterQueue,
    MainQueue,
    PipelineDeployment,
)
from .storage import Storage

# A long poll: fewer calls, and an empty answer means empty.
RECEIVE_WAIT = cdk.Duration.seconds(20)

TAKE = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility")
SEND = ("sqs:SendMessage", "sqs:GetQueueAttributes")


@dataclass(frozen=True, slots=True)
class QueueReference:
    """A queue by name, ARN and URL, whether the app makes it or not.

    It is known by its name, never by a reference: a reference from the stack that
    uses a queue would keep CloudFormation from ever removing that queue again.
    `key_arn` is the customer key of a queue of yours; None if it has none, or the app's.
    """

    name: str
    arn: str
    url: str
    key_arn: str | None = None

    @classmethod
    def called(cls, name: str) -> QueueReference:
        """The queue of this name in the account and region of the deployment."""
        return cls(
            name=name,
            arn=here.arn("sqs", name),
            url=f"https://sqs.{here.REGION}.{here.URL_SUFFIX}/{here.ACCOUNT_ID}/{name}",
        )

    @classmethod
    def at(cls, arn: str) -> QueueReference:
        """The queue that `arn` names, a text or a token."""
        if is_token(arn):
            # The five colons of an ARN, if only some of its parts are tokens.
            parts = arn.split(":") if ":" in arn else cdk.Fn.split(":", arn, 6)
            _, _, _, region, account, name = parts
            url = f"https://sqs.{region}.{here.URL_SUFFIX}/{account}/{name}"
            return cls(name=name, arn=arn, url=url)
        parsed = Arn.parse(arn)
        return cls(name=parsed.resource, arn=arn, url=parsed.queue_url)

    @classmethod
    def of_queue(cls, queue: sqs.IQueue) -> QueueReference:
        """A queue of the CDK: by its name if that is a text, else by a reference."""
        made = queue.node.default_child
        if isinstance(made, sqs.CfnQueue) and made.queue_name and not is_token(made.queue_name):
            return cls.called(made.queue_name)
        return cls.at(queue.queue_arn)


@dataclass(frozen=True, slots=True)
class Addresses:
    """The queues of a pipeline.

    `dedicated` and `parking` are keyed by id; the parking lot always has "default".
    `letter_keys` are the keys beside the app's that a letter in the DLQ can be under. SQS does
    not encrypt anew what it moves there: the letter stays under the key of the main queue.
    """

    main: QueueReference
    dlq: QueueReference
    dedicated: Mapping[str, QueueReference]
    parking: Mapping[str, QueueReference]
    letter_keys: Sequence[str] = ()

    @classmethod
    def of(cls, app: AppDeployment, settings: PipelineDeployment) -> Addresses:
        """The queues that the settings name, and those that are made for them."""
        names = Names(app.app, settings.name, settings.fifo)
        # Letters of all pipelines that share a DLQ come in one batch.
        dlq = settings.dlq.arn
        sharing = [other for other in app.pipelines if dlq and other.dlq.arn == dlq]
        keys = queue_keys(settings, *sharing)
        return cls(
            main=_yours_or_ours(app, settings.main_queue, names.main),
            dlq=_yours_or_ours(app, settings.dlq, names.dlq()),
            dedicated={id_: QueueReference.called(names.dlq(id_)) for id_ in settings.dedicated},
            parking={
                id_: QueueReference.called(names.parking(id_))
                for id_ in (DEFAULT_PARKING, *settings.parking_ids)
            },
            letter_keys=keys_beside(app, keys),
        )


def _yours_or_ours(
    app: AppDeployment, queue: MainQueue | DeadLetterQueue, name: str
) -> QueueReference:
    """The queue that the settings name, or the one of this name that is made."""
    if not queue.arn:
        return QueueReference.called(name)
    [*keys] = keys_beside(app, [queue.kms_key_arn])
    return replace(QueueReference.at(queue.arn), key_arn=keys[0] if keys else None)


class Queues(Construct):
    """All queues of a pipeline; those that the settings don't name are made here."""

    main: QueueReference
    dlq: QueueReference
    dedicated: Mapping[str, QueueReference]
    parking: Mapping[str, QueueReference]

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: PipelineDeployment,
        app: AppDeployment | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._app = app or AppDeployment()
        self._settings = settings
        self._made: dict[str, sqs.Queue] = {}
        self._yours: dict[str, sqs.IQueue] = {}
        check_keys(self._app, settings)
        self._key = customer_key(self, self._app)
        at = Addresses.of(self._app, settings)
        self.main, self.dlq = at.main, at.dlq
        self._main_keys = [self.main.key_arn] if self.main.key_arn else []
        self._letter_keys = at.letter_keys
        self.dedicated, self.parking = at.dedicated, at.parking
        exists = bool(settings.dlq.arn)
        dead_letters = self._existing("TheirDlq", self.dlq) if exists else self._make_dlq()
        if not settings.main_queue.arn:
            self._make_main(dead_letters)
        for id_, queue in self.dedicated.items():
            self._make_end(f"Dedicated{pascal_case(id_)}", queue)
        for id_, queue in self.parking.items():
            self._make_end(f"Parking{pascal_case(id_)}", queue)

    @property
    def keys(self) -> Sequence[str]:
        """The customer keys that the functions of the pipeline may use."""
        return [*([self._app.kms_key_arn] if self._app.kms_key_arn else []), *self._letter_keys]

    @property
    def main_queue(self) -> sqs.IQueue:
        """The main queue."""
        return self._made_or_yours("YourMain", self.main)

    @property
    def dead_letter_queue(self) -> sqs.IQueue:
        """The DLQ."""
        return self._made_or_yours("YourDlq", self.dlq)

    @property
    def parking_lot(self) -> sqs.IQueue:
        """The default queue of the parking lot."""
        return self._made[self.parking[DEFAULT_PARKING].name]

    def _made_or_yours(self, construct_id: str, queue: QueueReference) -> sqs.IQueue:
        if queue.name not in self._made:
            # Of what the settings name there is one construct, however often it is asked for.
            self._yours[construct_id] = self._yours.get(construct_id) or self._existing(
                construct_id, queue
            )
            return self._yours[construct_id]
        return self._made[queue.name]

    def variables(self) -> dict[str, str]:
        """The variables of a function that works on all of these queues."""

        def urls(queues: Mapping[str, QueueReference]) -> str:
            # Also with tokens in it: no part of a URL is written in another way in JSON.
            return json.dumps({id_: queue.url for id_, queue in queues.items()})

        return {
            Variable.MAIN_URL: self.main.url,
            Variable.MAIN_ARN: self.main.arn,
            Variable.DLQ_URL: self.dlq.url,
            Variable.PARKING: urls(self.parking),
            Variable.DEDICATED: urls(self.dedicated),
        }

    def grant_consume(self, permissions: Permissions) -> None:
        """Receive from the main queue, as an event source mapping or a poller does, and hide
        messages.
        """
        permissions.allow(
            "Main",
            [
                "sqs:ReceiveMessage",
                "sqs:DeleteMessage",
                "sqs:GetQueueAttributes",
                "sqs:ChangeMessageVisibility",
            ],
            [self.main.arn],
        )
        grant_queue_keys(permissions, "MainKey", self._main_keys)

    def grant_send(self, permissions: Permissions) -> None:
        """Send to the main queue."""
        permissions.allow("Main", SEND, [self.main.arn])
        grant_queue_keys(permissions, "MainKey", self._main_keys, sends=True)

    def grant_drain(self, permissions: Permissions) -> None:
        """Move letters out of the DLQ, and out of and into dedicated DLQs."""
        drain = [*TAKE, "sqs:GetQueueAttributes"]
        permissions.allow("Dlq", drain, [self.dlq.arn])
        grant_queue_keys(permissions, "LetterKeys", self._letter_keys)
        dedicated = [queue.arn for queue in self.dedicated.values()]
        permissions.allow("Dedicated", [*drain, "sqs:SendMessage"], dedicated)

    def grant_park(self, permissions: Permissions, *, drains: bool = False) -> None:
        """Send to the parking lot; if it `drains`, also move parked letters out of it."""
        actions = [*(TAKE if drains else ()), *SEND]
        permissions.allow("Parking", actions, [queue.arn for queue in self.parking.values()])

    def grant_depths(self, permissions: Permissions) -> None:
        """See how many messages each queue holds, and for how long it keeps them."""
        queues = (self.main, self.dlq, *self.dedicated.values(), *self.parking.values())
        permissions.allow("Depths", ["sqs:GetQueueAttributes"], [queue.arn for queue in queues])

    def grant_take_canary(self, permissions: Permissions, *, sends: bool) -> None:
        """Take one letter out of the DLQ. If it `sends`, also send it to the main queue; else
        take it out of the main queue too.
        """
        # The key of the main queue is among them.
        grant_queue_keys(permissions, "LetterKeys", self._letter_keys)
        if sends:
            permissions.allow("Dlq", TAKE, [self.dlq.arn])
            self.grant_send(permissions)
        else:
            permissions.allow("Queues", TAKE, [self.dlq.arn, self.main.arn])
            # How many receives a message of it has left.
            permissions.allow("Main", ["sqs:GetQueueAttributes"], [self.main.arn])

    def _make_main(self, dlq: sqs.IQueue) -> None:
        main = self._settings.main_queue
        self._make(
            "Main",
            self.main,
            retention=int(main.retention),
            visibility=cdk.Duration.seconds(main.visibility),
            wait=RECEIVE_WAIT,
            dead_letters=sqs.DeadLetterQueue(queue=dlq, max_receive_count=main.max_receive_count),
        )

    def _make_dlq(self) -> sqs.Queue:
        # Each of the two queues names the other. The DLQ knows the main queue by
        # its name only, so CloudFormation sees no circle.
        queue = self._make(
            "Dlq",
            self.dlq,
            retention=self._settings.dlq.retention,
            fed_by=sqs.RedriveAllowPolicy(
                redrive_permission=sqs.RedrivePermission.BY_QUEUE,
                source_queues=[self._existing("MainByName", self.main)],
            ),
        )
        acknowledge(
            queue,
            "Serverless::Serverless-SQSRedrivePolicy",
            because="it is the DLQ; the automatic retry empties it",
        )
        return queue

    def _make_end(self, construct_id: str, queue: QueueReference) -> None:
        """A queue that only our functions send to."""
        no_source = sqs.RedriveAllowPolicy(redrive_permission=sqs.RedrivePermission.DENY_ALL)
        made_queue = self._make(construct_id, queue, retention=LONGEST_RETENTION, fed_by=no_source)
        acknowledge(
            made_queue,
            "AwsSolutions::AwsSolutions-SQS3",
            "Serverless::Serverless-SQSRedrivePolicy",
            because="no consumer reads here, so nothing can fail here too often",
        )

    def _make(
        self,
        construct_id: str,
        queue: QueueReference,
        *,
        retention: int,
        visibility: cdk.Duration | None = None,
        wait: cdk.Duration | None = None,
        dead_letters: sqs.DeadLetterQueue | None = None,
        fed_by: sqs.RedriveAllowPolicy | None = None,
    ) -> sqs.Queue:
        managed = sqs.QueueEncryption.SQS_MANAGED
        # A queue that a failed first deployment left behind would block the name for the second.
        kept = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
        made = self._made[queue.name] = sqs.Queue(
            self,
            construct_id,
            queue_name=queue.name,
            # The CDK takes an explicit False for a mistake.
            fifo=self._settings.fifo or None,
            retention_period=cdk.Duration.seconds(retention),
            visibility_timeout=visibility,
            receive_message_wait_time=wait,
            dead_letter_queue=dead_letters,
            redrive_allow_policy=fed_by,
            encryption=sqs.QueueEncryption.KMS if self._key else managed,
            encryption_master_key=self._key,
            enforce_ssl=True,
            removal_policy=cdk.RemovalPolicy.DESTROY if self._app.ephemeral else kept,
        )
        return made

    def _existing(self, construct_id: str, queue: QueueReference) -> sqs.IQueue:
        return sqs.Queue.from_queue_attributes(
            self, construct_id, queue_arn=queue.arn, fifo=self._settings.fifo or None
        )


def queues_of(app: AppDeployment) -> str:
    """The queues that we make for all pipelines, as one pattern of ARNs."""
    return QueueReference.called(f"{app.app}-*").arn


def letter_queues_of(app: AppDeployment) -> list[str]:
    """The queues with letters that we make for all pipelines, as patterns of ARNs.

    No main queue is among them, however its pipeline is called: its name ends in `-main`, and
    only an id follows an underscore.
    """
    names = Names(app.app, ANY), Names(app.app, ANY, fifo=True)
    ends = [end for each in names for end in (each.dlq(), each.parking())]
    with_ids = [names[0].dlq(ANY), names[0].parking(ANY)]
    return [QueueReference.called(name).arn for name in (*ends, *with_ids)]


class Parts(NamedTuple):
    """What each construct of one pipeline is given: its settings and its app's, tables, queues."""

    settings: PipelineDeployment
    app: AppDeployment
    storage: Storage
    queues: Queues
