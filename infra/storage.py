"""The tables and the bucket that an app's pipelines share."""

from __future__ import annotations

from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3
from constructs import Construct, IConstruct

from deadletter.contract import (
    ANY,
    APPROVAL_ATTRIBUTES,
    AUDIT,
    BODIES,
    CAUSES,
    CHANGES,
    CIRCUITS,
    CLAIM_FIGURES,
    DISCARDED,
    DUE_LANE,
    EDITS,
    ENDPOINTS,
    EVERY_PIPELINE,
    LANES,
    MESSAGES,
    ORIGINALS,
    REPLAYS,
    REPORT_DAYS,
    RULES,
    SHARED_ATTRIBUTES,
    TROUBLED,
    WAITING_FIGURES,
    WRITTEN_ATTRIBUTES,
    Index,
    Partition,
    Table,
    body_object,
    book_partition,
    cause_partition,
    change_partition,
    circuit_lane,
    delay_lane,
    every_partition,
    lane_partition,
    originals_object,
    run_object,
)

from . import here
from .encryption import customer_key
from .findings import acknowledge, acknowledge_patterns
from .permissions import Permissions, only_attributes, partitions, rows
from .settings import AppDeployment

# Letters themselves: those that wait, and those that runs have thrown away.
_LETTERS = (f"{BODIES}{ANY}", run_object(ANY, ANY, f"{DISCARDED}{ANY}"))

# What a run keeps of its letters without their content.
_OF_RUNS = (run_object(ANY, ANY, "manifest/*"), run_object(ANY, ANY, "report.json"))

# Where letters wait.
_WAITING = (Partition.LETTER.of(ANY, ANY), Partition.GROUP.of(ANY, ANY))


@dataclass(frozen=True, slots=True)
class TableReference:
    """A table by its name.

    A reference to the table itself would be an export of its stack, which CloudFormation does
    not let go while another stack imports it: the last pipeline that delivers to endpoints
    could not be taken away.
    """

    table_name: str

    @property
    def table_arn(self) -> str:
        """The table of this name in the account and region of the deployment."""
        return here.arn("dynamodb", f"table/{self.table_name}")


class Storage(Construct):
    """Ledger, waiting room and journal; rules and their history; circuits; webhook endpoints;
    large bodies.

    `rules_stream` and `endpoints_stream` are the ARNs of the streams of changes to these tables,
    for the stack of the tables.
    """

    messages: TableReference
    rules: TableReference
    rules_stream: str
    endpoints_stream: str
    audit: TableReference
    circuits: TableReference
    endpoints: TableReference
    bucket: s3.Bucket
    bucket_name: str

    def __init__(self, scope: Construct, construct_id: str, *, app: AppDeployment) -> None:
        super().__init__(scope, construct_id)
        self._app = app
        self._key = customer_key(self, app)
        messages = self._table("Messages", MESSAGES)
        messages.add_global_secondary_index(
            index_name=LANES.name,
            partition_key=_text(LANES.partition),
            sort_key=dynamodb.Attribute(name=str(LANES.sort), type=dynamodb.AttributeType.NUMBER),
            projection_type=dynamodb.ProjectionType.KEYS_ONLY,
        )
        messages.add_global_secondary_index(
            index_name=CAUSES.name,
            partition_key=_text(CAUSES.partition),
            sort_key=_text(str(CAUSES.sort)),
            projection_type=dynamodb.ProjectionType.INCLUDE,
            non_key_attributes=list(CAUSES.projected),
        )
        changed = dynamodb.StreamViewType.NEW_AND_OLD_IMAGES
        rules = self._table("Rules", RULES, stream=changed)
        audit = self._table("Audit", AUDIT)
        audit.add_global_secondary_index(
            index_name=CHANGES.name,
            partition_key=_text(CHANGES.partition),
            sort_key=dynamodb.Attribute(name=str(CHANGES.sort), type=dynamodb.AttributeType.NUMBER),
            # Changes are few, and one query shows them whole.
            projection_type=dynamodb.ProjectionType.ALL,
        )
        circuits = self._table("Circuits", CIRCUITS)
        circuits.add_global_secondary_index(
            index_name=TROUBLED.name,
            partition_key=_text(TROUBLED.partition),
            projection_type=dynamodb.ProjectionType.KEYS_ONLY,
        )
        endpoints = self._table("Endpoints", ENDPOINTS, stream=changed)
        self.messages, self.rules = self._called("Messages"), self._called("Rules")
        self.audit, self.circuits = self._called("Audit"), self._called("Circuits")
        self.endpoints = self._called("Endpoints")
        self.rules_stream = str(rules.table_stream_arn)
        self.endpoints_stream = str(endpoints.table_stream_arn)
        # By its name, as the queues: so that a person can read a role's permission.
        self.bucket_name = f"{app.app}-messages-{here.ACCOUNT_ID}-{here.REGION}"
        self.bucket = self._bucket()
        acknowledge(
            self.bucket,
            "AwsSolutions::AwsSolutions-S1",
            because="CloudTrail's data events say who read a body, for those who switch them on;"
            " access logs would be one more bucket to guard",
        )

    @property
    def _bucket_arn(self) -> str:
        return f"arn:{here.PARTITION}:s3:::{self.bucket_name}"

    def bodies(self, pipeline: str) -> str:
        """The pattern of the ARNs of one pipeline's objects, one a letter."""
        return f"{self._bucket_arn}/{body_object(pipeline, ANY)}"

    def _edits(self, pipeline: str) -> str:
        """What is asked of the function, and kept: the edits of each run, as a pattern of ARNs."""
        return f"{self._bucket_arn}/{run_object(pipeline, ANY, f'{EDITS}{ANY}')}"

    def acknowledge_bodies(self, construct: IConstruct, pipeline: str) -> None:
        """Say why a role of `construct` names a folder of bodies and no single object."""
        acknowledge_patterns(
            construct,
            self.bodies(pipeline),
            because="one object a message: only the folder of the pipeline can be named",
        )

    def acknowledge_edits(self, construct: IConstruct, pipeline: str) -> None:
        """Say why a role of `construct` names the folders of edits and no single object."""
        acknowledge_patterns(
            construct,
            self._edits(pipeline),
            because="one object an edit, in the folder of its run: only the pattern can be named",
        )

    def grant_record_failures(
        self, permissions: Permissions, pipeline: str, *, ordered: bool
    ) -> None:
        """Write the ledger and the claims of one pipeline, as the consumer library does, and, where
        an ordering key is set, the lines of its keys.

        Nothing else in the table: no journal, no waiting room, no lease.
        """
        failures, claims = Partition.LEDGER.of(pipeline, ANY), Partition.CLAIM.of(pipeline, ANY)
        table = [self.messages.table_arn]
        permissions.allow("Ledger", ["dynamodb:BatchGetItem"], table, partitions(failures, claims))
        # No stamp: what it says of a letter's sender is believed.
        written = rows([failures], WRITTEN_ATTRIBUTES[Partition.LEDGER])
        permissions.allow("Failures", ["dynamodb:UpdateItem"], table, written)
        written = rows([claims], WRITTEN_ATTRIBUTES[Partition.CLAIM])
        permissions.allow("Claims", ["dynamodb:UpdateItem"], table, written)
        if not ordered:
            return
        lines = Partition.LINE.of(pipeline, ANY)
        reads = ["dynamodb:Query", "dynamodb:DeleteItem"]
        permissions.allow("Lines", reads, table, partitions(lines))
        written = rows([lines], WRITTEN_ATTRIBUTES[Partition.LINE])
        permissions.allow("Waiting", ["dynamodb:UpdateItem"], table, written)

    def grant_judge_letters(
        self, permissions: Permissions, pipeline: str, *, ordered: bool
    ) -> None:
        """Read what the router judges a pipeline's letters by: ledger, matches, replay runs and,
        where an ordering key is set, the lines of its keys and the claims of those in them.
        """
        claims = [Partition.CLAIM.of(pipeline, ANY)] if ordered else []
        permissions.allow(
            "Messages",
            ["dynamodb:BatchGetItem"],
            [self.messages.table_arn],
            partitions(
                Partition.LEDGER.of(pipeline, ANY),
                *claims,
                Partition.MATCHES.of(pipeline),
                Partition.RUNS.of(pipeline),
                Partition.RUN.of(pipeline, ANY),
                book_partition(pipeline),
                book_partition(EVERY_PIPELINE),
            ),
        )
        if ordered:
            lines = partitions(Partition.LINE.of(pipeline, ANY))
            permissions.allow("Lines", ["dynamodb:Query"], [self.messages.table_arn], lines)

    def grant_read_ledger(self, permissions: Permissions, pipeline: str) -> None:
        """Read the ledger of one pipeline."""
        permissions.allow(
            "Ledger",
            ["dynamodb:BatchGetItem"],
            [self.messages.table_arn],
            partitions(Partition.LEDGER.of(pipeline, ANY)),
        )

    def grant_move_letters(self, permissions: Permissions, pipeline: str) -> None:
        """Read and write everything in the messages table of one pipeline, and find its lanes."""
        permissions.allow(
            "Messages",
            [
                "dynamodb:BatchGetItem",
                "dynamodb:Query",
                "dynamodb:PutItem",
                "dynamodb:UpdateItem",
                "dynamodb:DeleteItem",
                "dynamodb:BatchWriteItem",
            ],
            [self.messages.table_arn],
            partitions(every_partition(pipeline)),
        )
        self._grant_query_lanes(permissions, lane_partition(pipeline, ANY))

    def grant_edit_letters(self, permissions: Permissions, pipeline: str) -> None:
        """Read the edits that people ask for, and write one only while its run stands still."""
        table, runs = [self.messages.table_arn], partitions(Partition.RUNS.of(pipeline))
        permissions.allow("StandingRuns", ["dynamodb:ConditionCheckItem"], table, runs)
        permissions.allow("Edits", ["s3:GetObject"], [self._edits(pipeline)])

    def grant_watch(self, permissions: Permissions, pipeline: str) -> None:
        """Read the leases of one pipeline, write the watch's row beside them, count lanes, and
        read which causes letters fail for.
        """
        table = [self.messages.table_arn]
        read = (Partition.LEASE, Partition.LANES, Partition.RUNS)
        listed = partitions(*(kind.of(pipeline) for kind in read))
        permissions.allow("Lists", ["dynamodb:Query"], table, listed)
        # Not what makes a lease: who runs, and until when.
        row = rows([Partition.LEASE.of(pipeline)], WRITTEN_ATTRIBUTES[Partition.LEASE])
        permissions.allow("Row", ["dynamodb:UpdateItem"], table, row)
        # One watch looks for all.
        shared = [Partition.LEASE.of("")]
        permissions.allow("Shared", ["dynamodb:GetItem"], table, partitions(*shared))
        written = rows(shared, SHARED_ATTRIBUTES)
        permissions.allow("SharedLook", ["dynamodb:UpdateItem"], table, written)
        runs = rows([Partition.RUNS.of(pipeline)], WRITTEN_ATTRIBUTES[Partition.RUNS])
        permissions.allow("Runs", ["dynamodb:PutItem", "dynamodb:UpdateItem"], table, runs)
        self._grant_query_lanes(permissions, lane_partition(pipeline, ANY))
        causes, shards = _index(self.messages, CAUSES), partitions(cause_partition(pipeline) + ANY)
        permissions.allow("Causes", ["dynamodb:Query"], [causes], shards)

    def grant_take_canary(self, permissions: Permissions, pipeline: str) -> None:
        """Take one letter out of a circuit's lane, and mark in the journal what became of it.

        Nothing of the ledger: the consumer writes that of a canary itself.
        """
        table = [self.messages.table_arn]
        journal, lanes = Partition.JOURNAL.of(pipeline), Partition.LANES.of(pipeline)
        letters = (Partition.LETTER.of(pipeline, ANY), Partition.GROUP.of(pipeline, ANY))
        reads = ["dynamodb:BatchGetItem", "dynamodb:Query"]
        permissions.allow("Messages", reads, table, partitions(journal, lanes, *letters))
        writes = ["dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"]
        written = rows([journal], WRITTEN_ATTRIBUTES[Partition.JOURNAL])
        permissions.allow("Journal", writes, table, written)
        written = rows([lanes], WRITTEN_ATTRIBUTES[Partition.LANES])
        permissions.allow("ListOfLanes", ["dynamodb:UpdateItem"], table, written)
        written = rows(letters, WRITTEN_ATTRIBUTES[Partition.LETTER])
        moves = ["dynamodb:UpdateItem", "dynamodb:BatchWriteItem"]
        permissions.allow("MovedMessages", moves, table, written)
        # A letter that waits for a delay is a canary too, once it is due.
        lanes_of_canaries = (circuit_lane(ANY), f"{DUE_LANE}|{ANY}", delay_lane(ANY))
        self._grant_query_lanes(
            permissions, *(lane_partition(pipeline, lane) for lane in lanes_of_canaries)
        )

    def _grant_query_lanes(self, permissions: Permissions, *lanes: str) -> None:
        permissions.allow(
            "Lanes", ["dynamodb:Query"], [_index(self.messages, LANES)], partitions(*lanes)
        )

    def grant_read_figures(self, permissions: Permissions) -> None:
        """Read all about the letters of all pipelines but the letters themselves.

        Of a waiting letter IAM shows only the attributes that hold nothing of it, and only to who
        asks for these. There is no Scan: it names no partition, so no condition keeps it from
        any of them.
        """
        table = [self.messages.table_arn]
        permissions.allow(
            "Messages",
            ["dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query"],
            table,
            partitions(
                Partition.LEDGER.of(ANY, ANY),
                Partition.LINE.of(ANY, ANY),
                *(
                    kind.of(ANY)
                    for kind in (
                        *(Partition.MATCHES, Partition.LEASE, Partition.OBSERVED, Partition.BOOK),
                        *(Partition.LANES, Partition.RUNS),
                    )
                ),
                # Tickets lie in sixteen partitions. The approval is for who may approve.
                *(
                    Partition.RUN.of(ANY, ANY, part)
                    for part in ("plan", "discard", "status", "?", "1?")
                ),
            ),
        )
        permissions.allow(
            "WaitingMessages",
            ["dynamodb:BatchGetItem"],
            table,
            {**partitions(*_WAITING), **only_attributes(*WAITING_FIGURES)},
        )
        # Whether a message was processed, and none of the hashes of it.
        permissions.allow(
            "Claims",
            ["dynamodb:BatchGetItem"],
            table,
            {**partitions(Partition.CLAIM.of(ANY, ANY)), **only_attributes(*CLAIM_FIGURES)},
        )
        indexes = [_index(self.messages, index) for index in (LANES, CAUSES)]
        permissions.allow("Indexes", ["dynamodb:Query"], indexes)
        objects = [f"{self._bucket_arn}/{objects}" for objects in _OF_RUNS]
        permissions.allow("Objects", ["s3:GetObject"], objects)
        # Without it S3 calls a missing object a refusal. In that question S3 names no prefix.
        permissions.allow("Bucket", ["s3:ListBucket"], [self._bucket_arn])

    def grant_read_bodies(self, permissions: Permissions) -> None:
        """Read the waiting letters of all pipelines themselves, and those that were discarded."""
        # Query: a FIFO group is read as its queue.
        actions = ["dynamodb:BatchGetItem", "dynamodb:Query"]
        permissions.allow("Bodies", actions, [self.messages.table_arn], partitions(*_WAITING))
        objects = [f"{self._bucket_arn}/{objects}" for objects in _LETTERS]
        permissions.allow("Objects", ["s3:GetObject"], objects)

    def grant_run_replays(self, permissions: Permissions) -> None:
        """Store plans and runs of all pipelines, change runs, and ask for edits of letters.

        Neither the plans of runs that throw letters away, nor approvals, nor any letter: a write
        can answer with the whole item, so only our functions have one on these.
        """
        table = [self.messages.table_arn]
        runs = rows([Partition.RUNS.of(ANY)], WRITTEN_ATTRIBUTES[Partition.RUNS])
        permissions.allow("Runs", ["dynamodb:PutItem", "dynamodb:UpdateItem"], table, runs)
        plans = rows([Partition.RUN.of(ANY, ANY, "plan")], WRITTEN_ATTRIBUTES[Partition.RUN])
        permissions.allow("Plans", ["dynamodb:BatchWriteItem"], table, plans)
        permissions.allow("Edits", ["s3:PutObject"], [self._edits(ANY)])

    def grant_discard(self, permissions: Permissions) -> None:
        """Store the plans of runs that throw letters away, and the runs themselves."""
        table = [self.messages.table_arn]
        runs = rows([Partition.RUNS.of(ANY)], WRITTEN_ATTRIBUTES[Partition.RUNS])
        permissions.allow("Runs", ["dynamodb:PutItem"], table, runs)
        discards = rows([Partition.RUN.of(ANY, ANY, "discard")], WRITTEN_ATTRIBUTES[Partition.RUN])
        permissions.allow("Discards", ["dynamodb:BatchWriteItem"], table, discards)
        # How long copies hold what is erased.
        permissions.allow("Copies", ["dynamodb:DescribeContinuousBackups"], table)
        permissions.allow("Versions", ["s3:GetBucketVersioning"], [self._bucket_arn])

    def grant_approve(self, permissions: Permissions) -> None:
        """Read the token that an execution waits with, and write the answer beside it."""
        table, approval = [self.messages.table_arn], Partition.RUN.of(ANY, ANY, "approval")
        permissions.allow("Approvals", ["dynamodb:BatchGetItem"], table, partitions(approval))
        answer = rows([approval], APPROVAL_ATTRIBUTES)
        permissions.allow("Answers", ["dynamodb:UpdateItem"], table, answer)

    def acknowledge_on_call(self, construct: IConstruct) -> None:
        """Say why a policy in `construct` names folders of the bucket and no single object."""
        acknowledge_patterns(
            construct,
            *(f"{self._bucket_arn}/{objects}" for objects in (*_LETTERS, *_OF_RUNS)),
            self._edits(ANY),
            because="one object a message or run, of all pipelines: only folders can be named",
        )

    def grant_bodies(
        self, permissions: Permissions, pipeline: str, *, writes: bool = False
    ) -> None:
        """Read and delete the bodies of one pipeline, and if it `writes`, store them.

        One object a letter: only the folder can be named.
        """
        write = ["s3:PutObject"] if writes else []
        permissions.allow(
            "Bodies", ["s3:GetObject", *write, "s3:DeleteObject"], [self.bodies(pipeline)]
        )

    def grant_find_bodies(self, permissions: Permissions, pipeline: str) -> None:
        """List the bodies of one pipeline, to find those that no letter has any more."""
        condition = {"StringLike": {"s3:prefix": [body_object(pipeline, ANY)]}}
        permissions.allow("BodiesFolder", ["s3:ListBucket"], [self._bucket_arn], condition)

    def acknowledge_replays(self, construct: IConstruct, pipeline: str) -> None:
        """Say why a role of `construct` names the folder of a pipeline's replay runs."""
        folders = (run_object(pipeline, ANY), originals_object(pipeline, ANY))
        acknowledge_patterns(
            construct,
            *(f"{self._bucket_arn}/{folder}" for folder in folders),
            because="a run has many objects: only the pipeline's folder can be named",
        )

    def grant_replays(self, permissions: Permissions, pipeline: str) -> None:
        """Read and write the pages, manifests and reports of one pipeline's replay runs."""
        folder = run_object(pipeline, ANY)
        actions = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]
        permissions.allow("ReplayObjects", actions, [f"{self._bucket_arn}/{folder}"])
        # The pages of a snapshot have no list of their own: a list could miss one.
        condition = {"StringLike": {"s3:prefix": [folder]}}
        permissions.allow("ReplayFolder", ["s3:ListBucket"], [self._bucket_arn], condition)

    def grant_originals(self, permissions: Permissions, pipeline: str) -> None:
        """Keep the letters of one pipeline's replay runs, read them, and replace them by less.

        None is deleted: a lifecycle rule does it.
        """
        folder = originals_object(pipeline, ANY)
        objects = [f"{self._bucket_arn}/{folder}"]
        permissions.allow("Originals", ["s3:GetObject", "s3:PutObject"], objects)
        condition = {"StringLike": {"s3:prefix": [folder]}}
        permissions.allow("OriginalsFolder", ["s3:ListBucket"], [self._bucket_arn], condition)

    def grant_circuits(
        self, permissions: Permissions, pipeline: str, *, writes: bool = False
    ) -> None:
        """Read the circuits of one pipeline, and if it `writes`, change them."""
        write = ["dynamodb:UpdateItem"] if writes else []
        permissions.allow(
            "Circuits",
            ["dynamodb:BatchGetItem", *write],
            [self.circuits.table_arn],
            partitions(pipeline),
        )

    def grant_troubled_circuits(self, permissions: Permissions, pipeline: str) -> None:
        """Find the circuits of one pipeline that need care."""
        permissions.allow(
            "Troubled", ["dynamodb:Query"], [_index(self.circuits, TROUBLED)], partitions(pipeline)
        )

    def grant_read_circuits(self, permissions: Permissions) -> None:
        """Read the circuits of all pipelines, as people on call do."""
        # Query: a mistyped key is answered with the known ones.
        actions = ["dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query"]
        permissions.allow("Circuits", actions, [self.circuits.table_arn])
        permissions.allow("Troubled", ["dynamodb:Query"], [_index(self.circuits, TROUBLED)])

    def grant_hold_circuits(self, permissions: Permissions) -> None:
        """Change the circuits of all pipelines; an unreadable record is put anew."""
        actions = ["dynamodb:UpdateItem", "dynamodb:PutItem"]
        permissions.allow("Circuits", actions, [self.circuits.table_arn])

    def grant_rules(self, permissions: Permissions, pipeline: str) -> None:
        """Read the rules that apply to one pipeline."""
        permissions.allow(
            "Rules",
            ["dynamodb:Query"],
            [self.rules.table_arn],
            # The rules of all pipelines have the partition "*", which in a
            # pattern would stand for any: here it is a word.
            partitions(pipeline, EVERY_PIPELINE, exactly=True),
        )

    def grant_read_rules(self, permissions: Permissions) -> None:
        """Read all rules."""
        actions = ["dynamodb:BatchGetItem", "dynamodb:Query", "dynamodb:Scan"]
        permissions.allow("Rules", actions, [self.rules.table_arn])

    def grant_edit_rules(self, permissions: Permissions) -> None:
        """Write all rules."""
        actions = ["dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"]
        permissions.allow("Rules", actions, [self.rules.table_arn])

    def grant_check_rules(self, permissions: Permissions) -> None:
        """Read the streams of edits, write verdicts onto rules, and keep the history of both."""
        permissions.allow(
            "Edits",
            ["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"],
            [self.rules_stream, self.endpoints_stream],
        )
        # This action cannot be limited to a resource.
        permissions.allow("Streams", ["dynamodb:ListStreams"], ["*"])
        permissions.allow(
            "Rules",
            ["dynamodb:BatchGetItem", "dynamodb:Query", "dynamodb:UpdateItem"],
            [self.rules.table_arn],
        )
        permissions.allow("Audit", ["dynamodb:PutItem"], [self.audit.table_arn])
        permissions.allow(
            "Versions",
            ["dynamodb:UpdateItem"],
            [self.messages.table_arn],
            rows([Partition.BOOK.of(ANY)], WRITTEN_ATTRIBUTES[Partition.BOOK]),
        )
        table, counts = [self.messages.table_arn], Partition.MATCHES.of(ANY)
        permissions.allow("Counts", ["dynamodb:Query"], table, partitions(counts))
        forgotten = rows([counts], WRITTEN_ATTRIBUTES[Partition.MATCHES])
        permissions.allow("ForgottenCounts", ["dynamodb:BatchWriteItem"], table, forgotten)

    def grant_write_audit(self, permissions: Permissions) -> None:
        """Record a change under the caller's own identity, as people do before they make it.

        IAM fills in the variable: nobody can write a row in the name of another person, nor into
        the history of rules.
        """
        permissions.allow(
            "Audit",
            ["dynamodb:PutItem"],
            [self.audit.table_arn],
            partitions(change_partition("${aws:userid}")),
        )

    def grant_read_audit(self, permissions: Permissions) -> None:
        """Read who changed what."""
        permissions.allow("Audit", ["dynamodb:Query"], [_index(self.audit, CHANGES)])

    def grant_deliver(self, permissions: Permissions) -> None:
        """Read endpoints, and change them: a 410 disables an endpoint, a 429 slows it down."""
        actions = ["dynamodb:GetItem", "dynamodb:UpdateItem"]
        permissions.allow("Endpoints", actions, [self.endpoints.table_arn])

    def grant_read_endpoints(self, permissions: Permissions) -> None:
        """Read all endpoints."""
        actions = ["dynamodb:GetItem", "dynamodb:Scan"]
        permissions.allow("Endpoints", actions, [self.endpoints.table_arn])

    def grant_edit_endpoints(self, permissions: Permissions) -> None:
        """Write all endpoints."""
        actions = ["dynamodb:PutItem", "dynamodb:UpdateItem"]
        permissions.allow("Endpoints", actions, [self.endpoints.table_arn])

    def _called(self, construct_id: str) -> TableReference:
        return TableReference(f"{self._app.app}-{construct_id.lower()}")

    def _table(
        self,
        construct_id: str,
        table: Table,
        *,
        stream: dynamodb.StreamViewType | None = None,
    ) -> dynamodb.Table:
        # AWS owns this key, which costs nothing.
        owned = dynamodb.TableEncryption.DEFAULT
        return dynamodb.Table(
            self,
            construct_id,
            table_name=self._called(construct_id).table_name,
            partition_key=_text(table.partition),
            sort_key=_text(table.sort),
            time_to_live_attribute=table.expiry,
            stream=stream,
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED if self._key else owned,
            encryption_key=self._key,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=not self._app.ephemeral,
            # Not except on creation, as the queues: a protected table can't be deleted even then.
            # Then `cdk import` takes it over.
            removal_policy=cdk.RemovalPolicy.DESTROY
            if self._app.ephemeral
            else cdk.RemovalPolicy.RETAIN,
        )

    def _bucket(self) -> s3.Bucket:
        managed = s3.BucketEncryption.S3_MANAGED
        # As with the queues: a failed first deployment must not block the name.
        kept = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
        return s3.Bucket(
            self,
            "Bodies",
            bucket_name=self.bucket_name,
            encryption=s3.BucketEncryption.KMS if self._key else managed,
            encryption_key=self._key,
            bucket_key_enabled=True if self._key else None,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    prefix=BODIES,
                    # No expiration: a letter may wait for longer than expected. The redriver
                    # deletes bodies that no letter has any more.
                    abort_incomplete_multipart_upload_after=cdk.Duration.days(1),
                ),
                # Lists of letters and reports. A run ends within a week, and has no body here
                # that waits: only those that it discarded are kept with its report.
                s3.LifecycleRule(prefix=REPLAYS, expiration=cdk.Duration.days(REPORT_DAYS)),
                # Letters as runs took them. None is kept from now on with 0: what is here still
                # goes as soon as a rule can say.
                s3.LifecycleRule(
                    prefix=ORIGINALS,
                    expiration=cdk.Duration.days(max(1, self._app.replay_days)),
                ),
            ],
            removal_policy=cdk.RemovalPolicy.DESTROY if self._app.ephemeral else kept,
        )


def _index(table: TableReference, index: Index) -> str:
    return f"{table.table_arn}/index/{index.name}"


def _text(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)
