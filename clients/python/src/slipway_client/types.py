# Written by scripts/python-client.mjs from the API's description: do not edit.
"""What goes over the wire. Values may be added over time, such as types of events: ignore what you do not know."""

from __future__ import annotations

from typing import Any, Literal, TypedDict, Union


class _Readiness(TypedDict):
    status: Literal["ok"]
    """Always `ok`; anything else is another status code."""


class Readiness(_Readiness, total=False):
    problem: str
    """
    What keeps the worker of this process from booting sandboxes although requests are answered: a
    sentence for people.
    """


class Health(TypedDict):
    status: Literal["ok"]
    """Always `ok`; anything else is another status code."""


class PartnerEventPage(TypedDict):
    data: list[PartnerEvent]
    """In ascending `sequence`."""
    nextCursor: int
    """The `sequence` of the last event, or `after` when there was none."""


PartnerEvent = Union[
    "CreditClaimCreatedEvent",
    "CreditClaimClaimedEvent",
    "ProjectConnectedEvent",
    "TaskStartedEvent",
    "PullRequestOpenedEvent",
    "ConversionPaidEvent",
]
"""An event of the feed. Ignore types and fields you do not know."""


class CreditClaimCreatedEvent(TypedDict):
    type: Literal["credit_claim.created"]
    """What happened."""
    data: CreditClaimCreatedEventData
    """What there is to know of it."""
    id: str
    """Given when it is recorded: the same in every delivery and every reading."""
    sequence: int
    """From 1, without gaps, within the grant."""
    createdAt: Timestamp
    """When it was recorded."""


class CreditClaimCreatedEventData(TypedDict):
    """What there is to know of it."""

    claimId: str
    """The claim that this counts for."""
    leadId: str
    """The partner's name for the customer."""
    variant: str
    """The partner's name for the offer."""
    creditAmount: int
    """Credits that the claim adds."""
    createdAt: Timestamp
    """When the claim was created."""
    status: Literal["pending"]
    """It was not claimed yet."""
    claimedAt: None
    """It was not claimed yet."""


class CreditClaimClaimedEvent(TypedDict):
    type: Literal["credit_claim.claimed"]
    """What happened."""
    data: CreditClaimClaimedEventData
    """What there is to know of it."""
    id: str
    """Given when it is recorded: the same in every delivery and every reading."""
    sequence: int
    """From 1, without gaps, within the grant."""
    createdAt: Timestamp
    """When it was recorded."""


class CreditClaimClaimedEventData(TypedDict):
    """What there is to know of it."""

    claimId: str
    """The claim that this counts for."""
    leadId: str
    """The partner's name for the customer."""
    variant: str
    """The partner's name for the offer."""
    creditAmount: int
    """Credits that the claim adds."""
    createdAt: Timestamp
    """When the claim was created."""
    status: Literal["claimed"]
    """Its credits were added."""
    claimedAt: Timestamp
    """When its credits were added."""


class ProjectConnectedEvent(TypedDict):
    type: Literal["project.connected"]
    """What happened."""
    data: ProjectConnectedEventData
    """What there is to know of it."""
    id: str
    """Given when it is recorded: the same in every delivery and every reading."""
    sequence: int
    """From 1, without gaps, within the grant."""
    createdAt: Timestamp
    """When it was recorded."""


class ProjectConnectedEventData(TypedDict):
    """What there is to know of it."""

    claimId: str
    """The claim that this counts for."""
    leadId: str
    """The partner's name for the customer."""
    variant: str
    """The partner's name for the offer."""
    occurredAt: Timestamp
    """When it happened, possibly long before the record."""
    projectId: str
    """The project, by its id in the operator's system."""


class TaskStartedEvent(TypedDict):
    type: Literal["task.started"]
    """What happened."""
    data: TaskStartedEventData
    """What there is to know of it."""
    id: str
    """Given when it is recorded: the same in every delivery and every reading."""
    sequence: int
    """From 1, without gaps, within the grant."""
    createdAt: Timestamp
    """When it was recorded."""


class TaskStartedEventData(TypedDict):
    """What there is to know of it."""

    claimId: str
    """The claim that this counts for."""
    leadId: str
    """The partner's name for the customer."""
    variant: str
    """The partner's name for the offer."""
    occurredAt: Timestamp
    """When it happened, possibly long before the record."""
    taskId: str
    """The task: the id of its sandbox."""
    projectId: str | None
    """The project of the task's first repository, if any."""


class PullRequestOpenedEvent(TypedDict):
    type: Literal["pull_request.opened"]
    """What happened."""
    data: PullRequestOpenedEventData
    """What there is to know of it."""
    id: str
    """Given when it is recorded: the same in every delivery and every reading."""
    sequence: int
    """From 1, without gaps, within the grant."""
    createdAt: Timestamp
    """When it was recorded."""


class PullRequestOpenedEventData(TypedDict):
    """What there is to know of it."""

    claimId: str
    """The claim that this counts for."""
    leadId: str
    """The partner's name for the customer."""
    variant: str
    """The partner's name for the offer."""
    occurredAt: Timestamp
    """When it happened, possibly long before the record."""
    pullRequestId: str
    """Derived from the host, the repository and the number; never changes."""
    taskId: str
    """The task: the id of its sandbox."""
    projectId: str | None
    """The project of the task's first repository, if any."""


class ConversionPaidEvent(TypedDict):
    type: Literal["conversion.paid"]
    """What happened."""
    data: ConversionPaidEventData
    """What there is to know of it."""
    id: str
    """Given when it is recorded: the same in every delivery and every reading."""
    sequence: int
    """From 1, without gaps, within the grant."""
    createdAt: Timestamp
    """When it was recorded."""


class ConversionPaidEventData(TypedDict):
    """What there is to know of it."""

    claimId: str
    """The claim that this counts for."""
    leadId: str
    """The partner's name for the customer."""
    variant: str
    """The partner's name for the offer."""
    occurredAt: Timestamp
    """When it happened, possibly long before the record."""
    conversionId: str
    """Derived from the organization, which converts once."""


Timestamp = str
"""UTC, with exactly three fraction digits."""


class _CommandResult(TypedDict):
    commandId: str
    """The id of the command; a repetition has the same id."""
    revision: int
    """The revision of the sandbox after the command. A rejected command does not change it."""
    outcome: Literal["applied", "duplicate", "rejected"]
    """
    `applied`: this request did it; `duplicate`: an equal one had done it; `rejected`: not allowed
    now.
    """


class CommandResult(_CommandResult, total=False):
    rejection: Literal[
        "sandbox_terminal",
        "no_active_turn",
        "approval_expired",
        "approval_already_resolved",
        "question_expired",
        "question_already_answered",
        "turn_active",
        "restore_active",
    ]
    """The reason; present exactly if the outcome is `rejected`."""


class _ChangesRequested(TypedDict):
    commandId: str
    """The id of the command; a repetition has the same id."""
    revision: int
    """The revision of the sandbox after the command. A rejected command does not change it."""
    outcome: Literal["applied", "duplicate", "rejected"]
    """
    `applied`: this request did it; `duplicate`: an equal one had done it; `rejected`: not allowed
    now.
    """
    turnId: str
    """The turn the message starts, or waits for. It names the message too."""
    sandboxId: str
    """The sandbox that has the message: a new one if this one has finished, else this one."""


class ChangesRequested(_ChangesRequested, total=False):
    rejection: Literal[
        "sandbox_terminal",
        "no_active_turn",
        "approval_expired",
        "approval_already_resolved",
        "question_expired",
        "question_already_answered",
        "turn_active",
        "restore_active",
    ]
    """The reason; present exactly if the outcome is `rejected`."""


class RequestChanges(TypedDict, total=False):
    repo: str
    """Which of the sandbox's repositories; may be left out when there is one."""
    text: str
    """What should be different."""
    comments: list[RequestChangesComments]
    """Comments on files and lines: at most 100."""
    checks: bool
    """
    `true`: the agent gets the failing checks of the pull request, with their annotations and the
    ends of their logs.
    """


class _RequestChangesComments(TypedDict):
    path: str
    """The file, relative to the repository."""
    text: str
    """What should be different there."""


class RequestChangesComments(_RequestChangesComments, total=False):
    line: int
    """Its line in the published commit; left out for all of the file."""


class PullRequestStatus(TypedDict):
    actionState: Literal["idle", "publishing", "updating", "failed"]
    """
    `publishing`: the first publication is under way; `updating`: a later one; `failed`: the last
    one failed.
    """
    checks: Checks
    """What runs on the head commit."""
    comments: list[PullRequestComment]
    """Oldest first."""
    pullRequest: PullRequest | None
    """As the host has it; `null` before anything was published."""
    repository: str
    """`owner/name`."""
    detailsPending: bool
    """Whether some of it is not known yet: ask again in a moment."""


class PullRequest(TypedDict):
    id: int
    """The host's number of it, over all repositories."""
    nodeId: str
    """The host's other id of it."""
    number: int
    """Its number in the repository."""
    url: str
    """Its page, for people."""
    title: str
    """The sandbox's title when it was opened."""
    state: Literal["open", "closed"]
    """Merged: `closed` with `merged: true`."""
    draft: bool
    """Whether it is a draft."""
    merged: bool
    """Whether it was merged."""
    baseRef: str
    """The branch it is to be merged into."""
    headRef: str
    """The branch the sandbox publishes to."""
    headSha: str
    """The newest commit of `headRef`."""
    createdAt: Timestamp
    """When it was opened."""
    updatedAt: Timestamp
    """When anything of it last changed."""
    additions: int
    """Lines added, all files together."""
    deletions: int
    """Lines removed, all files together."""
    changedFiles: int
    """Files that differ from the base."""


class PullRequestComment(TypedDict):
    id: int
    """The host's number of it."""
    title: str
    """Where it stands: on the pull request, or on a file."""
    author: str
    """Login of who wrote it."""
    authorAvatarUrl: str
    """A picture of the author."""
    createdAt: str
    """When it was written, as the host writes it."""
    updatedAt: str
    """When it last changed, as the host writes it."""
    url: str
    """Its place on the page, for people."""


class _Checks(TypedDict):
    label: str
    """For display: `No checks`, `2 of 3 checks passed`."""
    runs: list[WorkflowRun]
    """Workflow runs of the head commit."""
    checkRuns: list[CheckRun]
    """Check runs of the head commit."""
    state: Literal["idle", "pending", "success", "failure", "error"]
    """All of them together; `idle`: there are none."""


class Checks(_Checks, total=False):
    error: str
    """Why they are not known, for people; left out where they are."""
    updatedAt: str
    """When they last changed; left out where that is not known."""


class _CheckRun(TypedDict):
    id: int
    """The host's number of it."""
    name: str
    """The check's name."""
    status: str
    """Where it is, in the host's word, such as `completed`."""
    url: str
    """Its page, for people."""


class CheckRun(_CheckRun, total=False):
    completedAt: str
    """When it ended, as the host writes it; left out before."""
    conclusion: str
    """How it ended, in the host's word; left out before."""
    startedAt: str
    """When it began, as the host writes it; left out before."""


class _WorkflowRun(TypedDict):
    id: int
    """The host's number of it."""
    name: str
    """The workflow's name."""
    createdAt: str
    """When it was started, as the host writes it."""
    event: str
    """What started it, such as `push`."""
    headBranch: str
    """The branch it runs on."""
    headSha: str
    """The commit it runs on."""
    runNumber: int
    """Which run of the workflow it is, from 1."""
    status: str
    """Where it is, in the host's word, such as `in_progress`."""
    updatedAt: str
    """When it last changed, as the host writes it."""
    url: str
    """Its page, for people."""


class WorkflowRun(_WorkflowRun, total=False):
    conclusion: str
    """How it ended, in the host's word; left out while it runs."""


class PublishPullRequest(TypedDict, total=False):
    repo: str
    """Which of the sandbox's repositories; may be left out when there is one."""
    ready: bool
    """
    Whether the pull request then becomes ready for review, also where there is nothing new to
    publish. Default: `false`.
    """


class PromptFile(TypedDict):
    id: str
    """Id of the file."""
    object: Literal["file"]
    """Always `file`."""
    name: str
    """Its name, without a folder."""
    mediaType: str
    """
    `image/png`, `image/jpeg`, `image/gif` or `image/webp` if its bytes are such an image; else what
    the upload said.
    """
    size: int
    """Bytes."""
    sha256: str
    """SHA-256 of its bytes, in hex."""
    createdAt: Timestamp
    """Time of the upload."""
    expiresAt: Timestamp | None
    """
    Time when it is deleted unless a prompt uses it before; `null`: it is kept for as long as the
    events of its sandbox.
    """


class ArtifactList(TypedDict):
    data: list[Artifact]
    """By name. At most 50."""
    leftOut: str | None
    """Why files of the last turn were not stored, a sentence for people; `null`: all were."""


class Artifact(TypedDict):
    name: str
    """Its path below the folder, with `/` between names."""
    mediaType: str
    """
    By its first bytes: PNG, JPEG, GIF, WebP, AVIF, MP4, WebM or `text/plain`; everything else is
    `application/octet-stream`.
    """
    size: int
    """Bytes."""
    sha256: str
    """SHA-256 of its bytes, in hex."""
    turnId: str | None
    """The turn at whose end these bytes were stored."""
    createdAt: Timestamp
    """When these bytes were stored."""


class FileContent(TypedDict):
    path: str
    """Relative to the repository, normalised."""
    repo: str
    """`owner/name`, as the sandbox spells it."""
    status: Literal["added", "deleted", "modified", "renamed", "untracked"] | None
    """As the listing of its directory says."""
    binary: bool
    """Of the newest version there is."""
    size: int | None
    """Bytes of the file as it is now; `null` when it is not there."""
    previousPath: str | None
    """What a renamed file was called before, else `null`."""
    editable: Literal[False]
    """Files are read-only."""
    editReason: str
    """Why the file cannot be edited, for people."""
    working: FileVersion | None
    """As it is now; `null` when it is not there."""
    head: FileVersion | None
    """As published last; before that, as where the sandbox started."""
    base: FileVersion | None
    """As the sandbox found it."""
    reviewHead: FileVersion | None
    """Reserved: always `null`."""


class FileVersion(TypedDict):
    content: str | None
    """The text; `null` when the file is binary."""
    text: str | None
    """The same as `content`."""
    hash: str
    """The id git gives a blob of these bytes."""
    ref: str
    """`working`, or the commit that holds this version."""
    size: int
    """Bytes."""
    binary: bool
    """Whether it is no text: it has a NUL in its first 8,000 bytes."""


class FileTree(TypedDict):
    directory: str
    """Normalised; the root is empty."""
    entries: list[FileEntry]
    """
    Directories first, then byte order of `name`. Deleted files are listed in the directory they
    were in.
    """
    partialWarnings: list[Literal["entries_truncated", "unreadable_entries", "invalid_names"]]
    """Why the listing is incomplete."""
    scope: Literal["all", "changed"]
    """Always `all`; `changed` is reserved."""


class FileEntry(TypedDict):
    name: str
    """Its name in the directory."""
    path: str
    """Relative to the repository, `/` between segments."""
    depth: int
    """Number of slashes in `path`."""
    kind: Literal["file", "directory", "symlink", "submodule"]
    """
    `submodule`: another repository, either recorded in the commit or only in the tree (then it is
    never published).
    """
    status: Literal["added", "deleted", "modified", "renamed", "untracked"] | None
    """
    Against the commit the sandbox started from; `null`: unchanged, or ignored by git. New files are
    `untracked` until they were published.
    """
    additions: int
    """Lines; 0 when unchanged, binary or a directory."""
    deletions: int
    """Lines; 0 when unchanged, binary or a directory."""
    size: int | None
    """Bytes; `null` unless a regular, unprotected file."""
    mtimeMs: float | None
    """The time of the last write in milliseconds since 1970; `null` if the file does not exist."""
    previousPath: str | None
    """The earlier path of a renamed file, otherwise `null`."""


class SandboxEventPage(TypedDict):
    data: list[SandboxEventEnvelope]
    """In the order they happened."""
    nextCursor: str
    """The id of the last event, or `after` when there was none."""


SandboxEventEnvelope = Union[
    "SandboxStatusEvent",
    "SandboxBootEvent",
    "SetupStartedEvent",
    "SandboxForkedEvent",
    "SandboxContinuedEvent",
    "SandboxSyncingEvent",
    "SandboxSyncedEvent",
    "SandboxCheckpointEvent",
    "SandboxRestoringEvent",
    "SandboxRestoredEvent",
    "SandboxRenamedEvent",
    "SandboxErrorEvent",
    "TurnStartedEvent",
    "TurnUpdatedEvent",
    "TurnCompletedEvent",
    "MessageUpdatedEvent",
    "MessageQueuedEvent",
    "MessageSteeredEvent",
    "MessageCancelledEvent",
    "MessageCompletedEvent",
    "ToolUpdatedEvent",
    "PlanUpdatedEvent",
    "ApprovalRequestedEvent",
    "ApprovalResolvedEvent",
    "QuestionAskedEvent",
    "QuestionAnsweredEvent",
    "PullRequestUpdatedEvent",
    "FeedbackReceivedEvent",
    "FeedbackRepliedEvent",
    "FeedbackPausedEvent",
    "FeedbackResumedEvent",
    "UsageUpdatedEvent",
    "SnapshotEvent",
    "StreamResyncEvent",
]
"""An event of a sandbox. Ignore types and fields you do not know."""


class _SandboxStatusEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["sandbox.status"]
    """What happened."""
    data: SandboxStatusEventData
    """What there is to know of it."""


class SandboxStatusEvent(_SandboxStatusEvent, total=False):
    id: str
    """Digits: the cursor that resumes after this event."""
    turn_id: str
    """The turn it happened in; left out outside of one."""


class _SandboxStatusEventData(TypedDict):
    status: Literal[
        "queued",
        "creating",
        "running",
        "succeeded",
        "failed",
        "terminating",
        "terminated",
    ]
    """The new status."""


class SandboxStatusEventData(_SandboxStatusEventData, total=False):
    """What there is to know of it."""

    previous: Literal[
        "queued",
        "creating",
        "running",
        "succeeded",
        "failed",
        "terminating",
        "terminated",
    ] | None
    """The status before; `null` for a new sandbox."""
    reason: Literal[
        "queue_timeout",
        "boot_timeout",
        "boot_failed",
        "clone_failed",
        "repo_not_accessible",
        "idle_timeout",
        "last_turn_failed",
        "agent_lost",
        "host_lost",
        "terminated",
        "max_lifetime",
        "grant_revoked",
        "release_failed",
    ] | None
    """The reason of the status, if any."""
    initiator: Literal["user", "policy", "provider", "system"]
    """Who caused it."""


class _SandboxBootEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["sandbox.boot"]
    """What happened."""
    data: SandboxBootEventData
    """What there is to know of it."""


class SandboxBootEvent(_SandboxBootEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class _SandboxBootEventData(TypedDict):
    stage: Literal["provision", "clone", "setup", "mcp", "agent_start", "ready"]
    """
    The completed stage. `setup` also comes after the boot, when trees were made again. `mcp`: one
    MCP server was looked at.
    """
    ms: int
    """Duration of the stage, milliseconds."""


class SandboxBootEventData(_SandboxBootEventData, total=False):
    """What there is to know of it."""

    repo: str
    """The repository of the stage, if any."""
    server: str
    """With `mcp`: the name of the server."""
    submodules: list[str]
    """With `clone`: folders of submodules that are empty. At most 32."""
    empty_submodules: list[SandboxBootEventDataEmptySubmodules]
    """With `clone`: the same folders with the reason of each; left out by earlier versions."""
    lfs_pointers: int
    """
    With `clone`: files of which the tree has only the pointers of Git LFS; left out without any.
    """
    lfs_missing: list[SandboxBootEventDataLfsMissing]
    """
    With `clone`: some of these files with the reason of each, at most 32; left out by earlier
    versions.
    """
    cache: Literal["hit", "miss", "none"]
    """With `setup`: whether the cache had its folders; `none` if nothing is cached."""
    ignored: list[str]
    """With `setup`: ignored keys of the repository's file."""
    egress_refused: list[str]
    """With `setup`: destinations that the operator does not allow, as `name:port`."""
    image_refused: str
    """With `setup`: the requested image, if the sandbox has another one."""
    secrets_withheld: str
    """With `setup`: why it ran without its secrets, for people."""
    error: str
    """
    With `setup`: why it failed, for people; the status says whether the sandbox goes on. With
    `mcp`: why the agent does not have the server.
    """


class SandboxBootEventDataEmptySubmodules(TypedDict):
    path: str
    """The folder, from the top of the repository. At most 500 characters."""
    reason: str
    """Why it is empty, for people. At most 500 characters."""


class SandboxBootEventDataLfsMissing(TypedDict):
    path: str
    """The file, from the top of the repository. At most 500 characters."""
    reason: str
    """Why it has no content, for people. At most 500 characters."""


class _SetupStartedEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["setup.started"]
    """What happened."""
    data: SetupStartedEventData
    """What there is to know of it."""


class SetupStartedEvent(_SetupStartedEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class SetupStartedEventData(TypedDict):
    """What there is to know of it."""

    limit_ms: int
    """
    Time limit of all setups together, milliseconds. `sandbox.boot` with `setup` reports each end.
    """


class _SandboxForkedEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["sandbox.forked"]
    """What happened."""
    data: SandboxForkedEventData
    """What there is to know of it."""


class SandboxForkedEvent(_SandboxForkedEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class SandboxForkedEventData(TypedDict):
    """What there is to know of it."""

    sandbox_id: str
    """The sandbox whose checkpoint it starts with."""
    checkpoint: int
    """The checkpoint of that sandbox."""


class _SandboxContinuedEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["sandbox.continued"]
    """What happened."""
    data: SandboxContinuedEventData
    """What there is to know of it."""


class SandboxContinuedEvent(_SandboxContinuedEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class _SandboxContinuedEventData(TypedDict):
    repo: str
    """`owner/name`."""
    branch: str
    """The branch that it continues and publishes to."""


class SandboxContinuedEventData(_SandboxContinuedEventData, total=False):
    """What there is to know of it."""

    pull_request: int
    """The open pull request of the branch; left out without one."""
    sandbox_id: str
    """
    The finished sandbox that it continues by itself; left out if a caller asked for the branch.
    """


class _SandboxSyncingEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["sandbox.syncing"]
    """What happened."""
    data: SandboxSyncingEventData
    """What there is to know of it."""


class SandboxSyncingEvent(_SandboxSyncingEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class SandboxSyncingEventData(TypedDict):
    """What there is to know of it."""

    repos: list[str]
    """The repositories whose newest commits a worker gets."""


class _SandboxSyncedEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["sandbox.synced"]
    """What happened."""
    data: SandboxSyncedEventData
    """What there is to know of it."""


class SandboxSyncedEvent(_SandboxSyncedEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class _SandboxSyncedEventData(TypedDict):
    branches: list[SandboxSyncedEventDataBranches]
    """
    The branches that the agent's git now has as `origin/…`; those that are missing at the host are
    left out.
    """


class SandboxSyncedEventData(_SandboxSyncedEventData, total=False):
    """What there is to know of it."""

    error: str
    """Why some or all could not be had, for people."""


class SandboxSyncedEventDataBranches(TypedDict):
    repo: str
    """`owner/name`."""
    branch: str
    """The agent's git has it as `origin/<branch>`."""
    sha: str
    """Its newest commit."""


class _SandboxCheckpointEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["sandbox.checkpoint"]
    """What happened."""
    data: SandboxCheckpointEventData
    """What there is to know of it."""


class SandboxCheckpointEvent(_SandboxCheckpointEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class SandboxCheckpointEventData(TypedDict, total=False):
    """What there is to know of it."""

    checkpoint: int
    """Counts from 1; left out on failure."""
    turn_id: str
    """The last ended turn."""
    bytes: int
    """Stored bytes."""
    ms: int
    """Duration, milliseconds."""
    repos: list[SandboxCheckpointEventDataRepos]
    """The tree of each repository."""
    error: str
    """
    Why it failed, for people. The sandbox works on; its newer changes are only on its machine.
    """


class SandboxCheckpointEventDataRepos(TypedDict):
    repo: str
    """`owner/name`."""
    sha: str
    """The commit of the tree. No branch of the repository has it."""


class _SandboxRestoringEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["sandbox.restoring"]
    """What happened."""
    data: SandboxRestoringEventData
    """What there is to know of it."""


class SandboxRestoringEvent(_SandboxRestoringEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class SandboxRestoringEventData(TypedDict):
    """What there is to know of it."""

    checkpoint: int
    """The checkpoint to restore."""


class _SandboxRestoredEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["sandbox.restored"]
    """What happened."""
    data: SandboxRestoredEventData
    """What there is to know of it."""


class SandboxRestoredEvent(_SandboxRestoredEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class _SandboxRestoredEventData(TypedDict):
    cause: Literal["machine_lost", "machine_drained", "command", "fork"]
    """Why."""


class SandboxRestoredEventData(_SandboxRestoredEventData, total=False):
    """What there is to know of it."""

    checkpoint: int
    """The restored checkpoint; left out if none could be restored."""
    lost_turn: str
    """The turn whose changes were lost with the machine."""
    damaged: list[int]
    """Unreadable checkpoints that were tried first, newest first."""
    error: str
    """Why nothing was restored, for people. Trees and conversation are unchanged."""


class _SandboxRenamedEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["sandbox.renamed"]
    """What happened."""
    data: SandboxRenamedEventData
    """What there is to know of it."""


class SandboxRenamedEvent(_SandboxRenamedEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class SandboxRenamedEventData(TypedDict):
    """What there is to know of it."""

    title: str
    """The new title."""


class _SandboxErrorEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["sandbox.error"]
    """What happened."""
    data: SandboxErrorEventData
    """What there is to know of it."""


class SandboxErrorEvent(_SandboxErrorEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class SandboxErrorEventData(TypedDict):
    """What there is to know of it."""

    code: str
    """For programs; codes may be added."""
    message: str
    """For people."""
    retryable: bool
    """Whether another try may succeed."""


class _TurnStartedEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["turn.started"]
    """What happened."""
    data: TurnStartedEventData
    """What there is to know of it."""


class TurnStartedEvent(_TurnStartedEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class TurnStartedEventData(TypedDict):
    """What there is to know of it."""

    prompt_id: str
    """Id of the prompt, and of the turn."""
    text: str
    """The prompt."""
    files: list[AttachedFile]
    """The files of the prompt. The agent finds them below its home."""
    author: TurnStartedEventDataAuthor
    """Who sent the prompt."""


class TurnStartedEventDataAuthor(TypedDict):
    """Who sent the prompt."""

    id: str
    """Id of a user."""


class _TurnUpdatedEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["turn.updated"]
    """What happened."""
    data: TurnUpdatedEventData
    """What there is to know of it."""


class TurnUpdatedEvent(_TurnUpdatedEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class _TurnUpdatedEventData(TypedDict):
    state: Literal[
        "pending",
        "running",
        "awaiting_approval",
        "awaiting_answer",
        "succeeded",
        "failed",
        "interrupted",
        "cancelled",
    ]
    """The new state."""
    previous: Literal[
        "pending",
        "running",
        "awaiting_approval",
        "awaiting_answer",
        "succeeded",
        "failed",
        "interrupted",
        "cancelled",
    ] | None
    """The state before; `null` for a new turn."""


class TurnUpdatedEventData(_TurnUpdatedEventData, total=False):
    """What there is to know of it."""

    text: str
    """With `pending`: the prompt."""
    author: TurnUpdatedEventDataAuthor
    """With `pending`: who sent the prompt."""
    files: list[AttachedFile]
    """With `pending`: the files of the prompt; left out without any."""
    reason: Literal["interrupt"]
    """Set when a command asked for the turn's end and the agent has not ended it yet."""
    initiator: Literal["user", "policy", "provider", "system"]
    """Who caused it."""


class TurnUpdatedEventDataAuthor(TypedDict):
    """With `pending`: who sent the prompt."""

    id: str
    """Id of a user."""


class _TurnCompletedEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["turn.completed"]
    """What happened."""
    data: TurnCompletedEventData
    """What there is to know of it."""


class TurnCompletedEvent(_TurnCompletedEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class _TurnCompletedEventData(TypedDict):
    state: Literal["succeeded", "failed", "interrupted", "cancelled"]
    """How the turn ended."""


class TurnCompletedEventData(_TurnCompletedEventData, total=False):
    """What there is to know of it."""

    reason: str
    """The reason, if any: a word or a sentence for people."""
    initiator: Literal["user", "policy", "provider", "system"]
    """Initiator of the end, unless the agent."""


class _MessageUpdatedEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["message.updated"]
    """What happened."""
    data: MessageUpdatedEventData
    """What there is to know of it."""


class MessageUpdatedEvent(_MessageUpdatedEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class MessageUpdatedEventData(TypedDict):
    """What there is to know of it."""

    part_id: str
    """Events of one part replace each other."""
    message_id: str
    """The message that the part belongs to."""
    kind: Literal["text", "reasoning"]
    """`reasoning`: the model's thoughts; `text`: its answer."""
    text: str
    """The whole text of the part so far."""


class _MessageQueuedEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["message.queued"]
    """What happened."""
    data: MessageQueuedEventData
    """What there is to know of it."""


class MessageQueuedEvent(_MessageQueuedEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class _MessageQueuedEventData(TypedDict):
    message_id: str
    """Id of the message, and of its turn."""
    position: int
    """Turns until its own, from 1, unless an agent takes it before."""
    text: str
    """The message."""
    author: MessageQueuedEventDataAuthor
    """Who sent it."""
    steers: bool
    """Whether it is for the agent of the active turn."""


class MessageQueuedEventData(_MessageQueuedEventData, total=False):
    """What there is to know of it."""

    files: list[AttachedFile]
    """Its files; left out without any."""


class MessageQueuedEventDataAuthor(TypedDict):
    """Who sent it."""

    id: str
    """Id of a user."""


class _MessageSteeredEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["message.steered"]
    """What happened."""
    data: MessageSteeredEventData
    """What there is to know of it."""


class MessageSteeredEvent(_MessageSteeredEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class _MessageSteeredEventData(TypedDict):
    message_id: str
    """The message. It gets no turn of its own."""
    text: str
    """The message."""
    author: MessageSteeredEventDataAuthor
    """Who sent it."""


class MessageSteeredEventData(_MessageSteeredEventData, total=False):
    """What there is to know of it."""

    files: list[AttachedFile]
    """Its files; left out without any."""


class MessageSteeredEventDataAuthor(TypedDict):
    """Who sent it."""

    id: str
    """Id of a user."""


class _MessageCancelledEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["message.cancelled"]
    """What happened."""
    data: MessageCancelledEventData
    """What there is to know of it."""


class MessageCancelledEvent(_MessageCancelledEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class MessageCancelledEventData(TypedDict):
    """What there is to know of it."""

    message_id: str
    """The message. It gets no turn."""
    reason: Literal["command", "sandbox_ended", "output_limit", "budget_exceeded", "no_credits"]
    """Why; reasons may be added."""


class _MessageCompletedEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["message.completed"]
    """What happened."""
    data: MessageCompletedEventData
    """What there is to know of it."""


class MessageCompletedEvent(_MessageCompletedEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class MessageCompletedEventData(TypedDict):
    """What there is to know of it."""

    message_id: str
    """The last message of the turn."""
    finish: Literal["end_turn", "max_tokens", "refusal", "cancelled", "error"]
    """Why the model stopped."""


class _ToolUpdatedEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["tool.updated"]
    """What happened."""
    data: ToolUpdatedEventData
    """What there is to know of it."""


class ToolUpdatedEvent(_ToolUpdatedEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class _ToolUpdatedEventData(TypedDict):
    part_id: str
    """Events of one part replace each other."""
    message_id: str
    """Groups the tool calls of a turn."""
    call_id: str
    """Names the call."""
    tool: str
    """The action, for display."""
    status: Literal["pending", "running", "completed", "error"]
    """Where the call is."""


class ToolUpdatedEventData(_ToolUpdatedEventData, total=False):
    """What there is to know of it."""

    error: str
    """Why it failed, for people."""
    parent_call_id: str
    """
    The call that started the sub-agent whose call it is; left out for calls of the agent itself.
    """
    kind: Literal["mcp"]
    """`mcp`: a tool of an MCP server."""
    detail: ToolUpdatedEventDataDetail
    """Its command, files and output; left out if the operator disabled it."""


class ToolUpdatedEventDataDetail(TypedDict, total=False):
    """Its command, files and output; left out if the operator disabled it."""

    command: str
    """The command; above 64 KiB cut, with a mark."""
    paths: list[str]
    """Its files, relative to the workspace."""
    output: str
    """The end of its output, at most 8 KiB, with a mark if it was cut."""
    server: str
    """The MCP server of the tool."""
    tool: str
    """The tool of the MCP server."""
    arguments: str
    """The arguments of that tool, as JSON; above 64 KiB cut, with a mark."""


class _PlanUpdatedEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["plan.updated"]
    """What happened."""
    data: PlanUpdatedEventData
    """What there is to know of it."""


class PlanUpdatedEvent(_PlanUpdatedEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class PlanUpdatedEventData(TypedDict):
    """What there is to know of it."""

    part_id: str
    """Events of one part replace each other: a turn has one plan."""
    entries: list[PlanUpdatedEventDataEntries]
    """The steps in order, at most 100; empty: the agent dropped its plan."""


class PlanUpdatedEventDataEntries(TypedDict):
    text: str
    """The step in one line, for display: at most 500 characters."""
    status: Literal["pending", "in_progress", "completed"]
    """Where the step is."""


class _ApprovalRequestedEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["approval.requested"]
    """What happened."""
    data: ApprovalRequestedEventData
    """What there is to know of it."""


class ApprovalRequestedEvent(_ApprovalRequestedEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class _ApprovalRequestedEventData(TypedDict):
    approval_id: str
    """Id of the request; equals the tool call's `call_id`."""
    tool: str
    """The intended action, for display."""
    expires_at: Timestamp
    """Time after which it counts as denied."""


class ApprovalRequestedEventData(_ApprovalRequestedEventData, total=False):
    """What there is to know of it."""

    kind: Literal["edit", "command", "network", "mcp", "other"]
    """Kind of the call, if the runtime tells it."""
    paths: list[str]
    """Its files, relative to the workspace."""
    plain: Literal[True]
    """
    The edit changes only plain, unprotected files of the trees and deletes none: it can be approved
    for the rest of the turn.
    """
    preview: ApprovalRequestedEventDataPreview
    """What an approval will do; left out if the operator disabled it."""


class ApprovalRequestedEventDataPreview(TypedDict, total=False):
    """What an approval will do; left out if the operator disabled it."""

    command: str
    """The whole command with its line feeds, or a tool's arguments. Never cut."""
    diff: str
    """The change as of `diff -u`. Too long: cut, with a mark at its end."""
    cwd: str
    """The command's folder, relative to the workspace. Absent: the workspace. Never cut."""
    url: str
    """The requested address. Never cut."""
    server: str
    """The MCP server of the tool."""
    tool: str
    """The tool of the MCP server."""
    arguments: str
    """The complete arguments of that tool, as JSON. Never cut."""


class _ApprovalResolvedEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["approval.resolved"]
    """What happened."""
    data: ApprovalResolvedEventData
    """What there is to know of it."""


class ApprovalResolvedEvent(_ApprovalResolvedEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class _ApprovalResolvedEventData(TypedDict):
    approval_id: str
    """The request that is resolved."""
    outcome: Literal["approved", "denied"]
    """The decision."""
    by: Literal["user", "policy", "timeout", "interrupt", "terminate", "turn_end"]
    """
    `user`: a decision; `policy`: a decision for the turn; the others deny because no decision is
    possible any more.
    """


class ApprovalResolvedEventData(_ApprovalResolvedEventData, total=False):
    """What there is to know of it."""

    scope: Literal["turn"]
    """
    `turn`: until the turn ends, `policy` approves other requests of the same `kind`. Left out: only
    this request.
    """
    reason: str
    """The person's reason for a denial, which the agent gets."""


class _QuestionAskedEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["question.asked"]
    """What happened."""
    data: QuestionAskedEventData
    """What there is to know of it."""


class QuestionAskedEvent(_QuestionAskedEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class QuestionAskedEventData(TypedDict):
    """What there is to know of it."""

    question_id: str
    """Id of the request."""
    questions: list[QuestionAskedEventDataQuestions]
    """1 to 10 questions, which are answered together."""
    expires_at: Timestamp
    """Time after which the agent goes on without an answer."""


class _QuestionAskedEventDataQuestions(TypedDict):
    id: str
    """Id of the question within the request."""
    text: str
    """The question."""
    options: list[QuestionAskedEventDataQuestionsOptions]
    """The offered answers; empty: only a text answers it."""
    multiple: bool
    """Whether several options may be chosen."""
    allows_text: bool
    """Whether a text may answer it."""


class QuestionAskedEventDataQuestions(_QuestionAskedEventDataQuestions, total=False):
    header: str
    """A title of a few words."""


class _QuestionAskedEventDataQuestionsOptions(TypedDict):
    label: str
    """The answer, by which it is chosen."""


class QuestionAskedEventDataQuestionsOptions(_QuestionAskedEventDataQuestionsOptions, total=False):
    description: str
    """What choosing it means."""


class _QuestionAnsweredEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["question.answered"]
    """What happened."""
    data: QuestionAnsweredEventData
    """What there is to know of it."""


class QuestionAnsweredEvent(_QuestionAnsweredEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class _QuestionAnsweredEventData(TypedDict):
    question_id: str
    """The request that is over."""
    by: Literal["user", "timeout", "interrupt", "terminate", "turn_end"]
    """
    `user`: a person answered, or dismissed it; the others: no person did, because an answer is no
    longer possible.
    """


class QuestionAnsweredEventData(_QuestionAnsweredEventData, total=False):
    """What there is to know of it."""

    answers: dict[str, QuestionAnsweredEventDataAnswers]
    """
    The person's answers by the `id` of their question; left out: the agent was told that there is
    no answer.
    """


class QuestionAnsweredEventDataAnswers(TypedDict, total=False):
    labels: list[str]
    """Labels of chosen options: one, or several if the question is `multiple`."""
    text: str
    """An answer in the person's own words, if the question allows it."""


class _PullRequestUpdatedEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["pull_request.updated"]
    """What happened."""
    data: PullRequestUpdatedEventData
    """What there is to know of it."""


class PullRequestUpdatedEvent(_PullRequestUpdatedEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class _PullRequestUpdatedEventData(TypedDict):
    repo: str
    """`owner/name`."""
    action_state: Literal["idle", "publishing", "updating", "failed"]
    """How publishing stands."""


class PullRequestUpdatedEventData(_PullRequestUpdatedEventData, total=False):
    """What there is to know of it."""

    number: int
    """Its number in the repository."""
    url: str
    """Its page, for people."""
    state: Literal["open", "closed"]
    """Merged: `closed` with `merged: true`."""
    draft: bool
    """Whether it is a draft."""
    merged: bool
    """Whether it was merged."""
    head_ref: str
    """The branch that was pushed."""
    head_sha: str
    """The commit that was pushed."""
    merges: list[PullRequestUpdatedEventDataMerges]
    """
    The merges of the pushed commit, after an earlier pull request was merged or closed; else left
    out.
    """
    submodules: list[str]
    """
    Folders of submodules with work that is not published: their files differ from their commit, or
    the commit does not exist where they come from. At most 32.
    """
    lfs_left_out: list[str]
    """
    Changed files that are not published: the repository gives them to Git LFS, whose server does
    not take their contents. At most 32.
    """
    lfs_reason: str
    """
    Why they are not published, for people; if the reasons differ, one of them. At most 500
    characters.
    """
    left_out: list[str]
    """
    Labels and reviewers of the repository's settings that the source host did not take. At most 35.
    """
    pull_request: PullRequest
    """
    As the source host had it then; left out while one is published, and where publishing failed.
    """
    error: PullRequestUpdatedEventDataError
    """Why publishing failed."""


class PullRequestUpdatedEventDataMerges(TypedDict):
    onto: str
    """The base branch's commit that the changes were merged with."""
    ancestor: str | None
    """The common ancestor; `null`: the sandbox's start commit."""


class _PullRequestUpdatedEventDataError(TypedDict):
    code: str
    """The one its caller gets."""
    message: str
    """For people."""


class PullRequestUpdatedEventDataError(_PullRequestUpdatedEventDataError, total=False):
    """Why publishing failed."""

    retry_after: int
    """Seconds that the source host asks to wait."""


class _FeedbackReceivedEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["feedback.received"]
    """What happened."""
    data: FeedbackReceivedEventData
    """What there is to know of it."""


class FeedbackReceivedEvent(_FeedbackReceivedEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class _FeedbackReceivedEventData(TypedDict):
    repo: str
    """`owner/name`."""
    kind: Literal["review", "comment", "checks"]
    """What it is of: a review, comments, or only failing checks."""
    url: str
    """The newest of it, or the pull request, for people."""
    authors: list[str]
    """Logins of who wrote it, at most 20."""
    count: int
    """Comments, reviews and commits with failing checks."""
    items: list[str]
    """Their ids at the source host. Each is delivered once."""
    until: Timestamp
    """Time of the newest of them."""
    round: int
    """Rounds since the last word of a person, with this one; 0: it is a person's word."""


class FeedbackReceivedEventData(_FeedbackReceivedEventData, total=False):
    """What there is to know of it."""

    sandbox_id: str
    """The new sandbox that goes on with it; left out if this one does, by the turn `turn_id`."""


class _FeedbackRepliedEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["feedback.replied"]
    """What happened."""
    data: FeedbackRepliedEventData
    """What there is to know of it."""


class FeedbackRepliedEvent(_FeedbackRepliedEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class _FeedbackRepliedEventData(TypedDict):
    repo: str
    """`owner/name`."""


class FeedbackRepliedEventData(_FeedbackRepliedEventData, total=False):
    """What there is to know of it."""

    url: str
    """The reply on the pull request; left out where it failed."""


class _FeedbackPausedEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["feedback.paused"]
    """What happened."""
    data: FeedbackPausedEventData
    """What there is to know of it."""


class FeedbackPausedEvent(_FeedbackPausedEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class _FeedbackPausedEventData(TypedDict):
    repo: str
    """`owner/name`."""
    rounds: int
    """Rounds since the last word of a person."""


class FeedbackPausedEventData(_FeedbackPausedEventData, total=False):
    """What there is to know of it."""

    reason: str
    """
    Why no new sandbox goes on with the pull request of this finished one, for people; left out
    after the last round.
    """


class _FeedbackResumedEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["feedback.resumed"]
    """What happened."""
    data: FeedbackResumedEventData
    """What there is to know of it."""


class FeedbackResumedEvent(_FeedbackResumedEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class FeedbackResumedEventData(TypedDict):
    """What there is to know of it."""

    author: FeedbackResumedEventDataAuthor
    """Who wants more rounds."""


class FeedbackResumedEventDataAuthor(TypedDict):
    """Who wants more rounds."""

    id: str
    """Id of a user."""


class _UsageUpdatedEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    id: str
    """Digits: the cursor that resumes after this event."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["usage.updated"]
    """What happened."""
    data: UsageUpdatedEventData
    """What there is to know of it."""


class UsageUpdatedEvent(_UsageUpdatedEvent, total=False):
    turn_id: str
    """The turn it happened in; left out outside of one."""


class _UsageUpdatedEventData(TypedDict):
    usage: Usage
    """Totals of the sandbox."""


class UsageUpdatedEventData(_UsageUpdatedEventData, total=False):
    """What there is to know of it."""

    tokens: UsageUpdatedEventDataTokens
    """Totals of the sandbox in tokens; left out if they are not counted."""


class UsageUpdatedEventDataTokens(TypedDict):
    """Totals of the sandbox in tokens; left out if they are not counted."""

    input: int
    """Input tokens of models."""
    cachedInput: int
    """Tokens of `input` from a provider's cache."""
    output: int
    """Output tokens of models, reasoning included."""


class SnapshotEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["snapshot"]
    """What happened."""
    data: SnapshotEventData
    """What there is to know of it."""


class SnapshotEventData(TypedDict):
    """What there is to know of it."""

    sandbox: Sandbox
    """All of the sandbox."""
    turn: SnapshotEventDataTurn | None
    """The newest turn; `null` before the first."""
    tokens: SnapshotEventDataTokens
    """Totals of the sandbox in tokens, as `usage.updated` tells them."""
    resume_cursor: str
    """Digits: the cursor that resumes after this event."""
    pending_approvals: list[SnapshotEventDataPendingApprovals]
    """What waits for a decision."""
    pending_questions: list[SnapshotEventDataPendingQuestions]
    """What waits for an answer."""
    waiting_messages: list[SnapshotEventDataWaitingMessages]
    """Waiting messages in order, with their current `position`."""


class SnapshotEventDataTurn(TypedDict):
    id: str
    """Names the turn."""
    state: Literal[
        "pending",
        "running",
        "awaiting_approval",
        "awaiting_answer",
        "succeeded",
        "failed",
        "interrupted",
        "cancelled",
    ]
    """Where it is."""


class SnapshotEventDataTokens(TypedDict):
    """Totals of the sandbox in tokens, as `usage.updated` tells them."""

    input: int
    """Input tokens of models."""
    cachedInput: int
    """Tokens of `input` from a provider's cache."""
    output: int
    """Output tokens of models, reasoning included."""


class _SnapshotEventDataPendingApprovals(TypedDict):
    approval_id: str
    """Id of the request; equals the tool call's `call_id`."""
    tool: str
    """The intended action, for display."""
    expires_at: Timestamp
    """Time after which it counts as denied."""


class SnapshotEventDataPendingApprovals(_SnapshotEventDataPendingApprovals, total=False):
    kind: Literal["edit", "command", "network", "mcp", "other"]
    """Kind of the call, if the runtime tells it."""
    paths: list[str]
    """Its files, relative to the workspace."""
    plain: Literal[True]
    """
    The edit changes only plain, unprotected files of the trees and deletes none: it can be approved
    for the rest of the turn.
    """
    preview: SnapshotEventDataPendingApprovalsPreview
    """What an approval will do; left out if the operator disabled it."""


class SnapshotEventDataPendingApprovalsPreview(TypedDict, total=False):
    """What an approval will do; left out if the operator disabled it."""

    command: str
    """The whole command with its line feeds, or a tool's arguments. Never cut."""
    diff: str
    """The change as of `diff -u`. Too long: cut, with a mark at its end."""
    cwd: str
    """The command's folder, relative to the workspace. Absent: the workspace. Never cut."""
    url: str
    """The requested address. Never cut."""
    server: str
    """The MCP server of the tool."""
    tool: str
    """The tool of the MCP server."""
    arguments: str
    """The complete arguments of that tool, as JSON. Never cut."""


class SnapshotEventDataPendingQuestions(TypedDict):
    question_id: str
    """Id of the request."""
    questions: list[SnapshotEventDataPendingQuestionsQuestions]
    """1 to 10 questions, which are answered together."""
    expires_at: Timestamp
    """Time after which the agent goes on without an answer."""


class _SnapshotEventDataPendingQuestionsQuestions(TypedDict):
    id: str
    """Id of the question within the request."""
    text: str
    """The question."""
    options: list[SnapshotEventDataPendingQuestionsQuestionsOptions]
    """The offered answers; empty: only a text answers it."""
    multiple: bool
    """Whether several options may be chosen."""
    allows_text: bool
    """Whether a text may answer it."""


class SnapshotEventDataPendingQuestionsQuestions(_SnapshotEventDataPendingQuestionsQuestions, total=False):
    header: str
    """A title of a few words."""


class _SnapshotEventDataPendingQuestionsQuestionsOptions(TypedDict):
    label: str
    """The answer, by which it is chosen."""


class SnapshotEventDataPendingQuestionsQuestionsOptions(_SnapshotEventDataPendingQuestionsQuestionsOptions, total=False):
    description: str
    """What choosing it means."""


class _SnapshotEventDataWaitingMessages(TypedDict):
    message_id: str
    """Id of the message, and of its turn."""
    position: int
    """Turns until its own, from 1, unless an agent takes it before."""
    text: str
    """The message."""
    author: SnapshotEventDataWaitingMessagesAuthor
    """Who sent it."""
    steers: bool
    """Whether it is for the agent of the active turn."""


class SnapshotEventDataWaitingMessages(_SnapshotEventDataWaitingMessages, total=False):
    files: list[AttachedFile]
    """Its files; left out without any."""


class SnapshotEventDataWaitingMessagesAuthor(TypedDict):
    """Who sent it."""

    id: str
    """Id of a user."""


class StreamResyncEvent(TypedDict):
    object: Literal["sandbox.event"]
    """Always `sandbox.event`."""
    version: Literal["v1"]
    """Always `v1`."""
    ts: Timestamp
    """When it happened."""
    sandbox_id: str
    """The sandbox it happened in."""
    type: Literal["stream.resync"]
    """What happened."""
    data: StreamResyncEventData
    """What there is to know of it."""


class StreamResyncEventData(TypedDict):
    """What there is to know of it."""

    reason: Literal["shutdown", "slow_reader"]
    """Why the stream ends here."""
    resume_cursor: str
    """Digits: the cursor that resumes after this event."""


class CheckpointPage(TypedDict):
    data: list[Checkpoint]
    """Oldest first."""
    nextCursor: str | None
    """The `after` of the next page; `null` on the last page."""


class Checkpoint(TypedDict):
    checkpoint: int
    """Its number: counts from 1 within the sandbox."""
    turnId: str | None
    """The newest turn that had ended; `null`: there was none."""
    createdAt: Timestamp
    """When it was recorded."""
    bytes: int
    """Stored bytes."""
    repos: list[CheckpointRepos]
    """The tree of each repository."""


class CheckpointRepos(TypedDict):
    repo: str
    """`owner/name`."""
    sha: str
    """The commit of the tree. No branch of the repository has it."""


class MessagePage(TypedDict):
    data: list[Message]
    """Oldest first."""
    nextCursor: str | None
    """The `after` of the next page; `null` on the last page."""


class Message(TypedDict):
    id: str
    """
    Of a prompt its `prompt_id`; of an answer, and of a message that an agent took into the active
    turn, its `message_id`.
    """
    turnId: str
    """The turn it belongs to."""
    role: Literal["user", "assistant"]
    """Who said it."""
    text: str
    """All of it."""
    files: list[AttachedFile]
    """The files of a prompt; else empty."""
    createdAt: Timestamp
    """When it was whole."""


class AttachedFile(TypedDict):
    id: str
    """Id of the file."""
    name: str
    """Its name, without a folder."""
    mediaType: str
    """
    `image/png`, `image/jpeg`, `image/gif` or `image/webp` if its bytes are such an image; else what
    the upload said.
    """
    size: int
    """Bytes."""


class _MessageResult(TypedDict):
    commandId: str
    """The id of the command; a repetition has the same id."""
    revision: int
    """The revision of the sandbox after the command. A rejected command does not change it."""
    outcome: Literal["applied", "duplicate", "rejected"]
    """
    `applied`: this request did it; `duplicate`: an equal one had done it; `rejected`: not allowed
    now.
    """
    turnId: str
    """The turn the message starts, or waits for. It names the message too."""


class MessageResult(_MessageResult, total=False):
    rejection: Literal[
        "sandbox_terminal",
        "no_active_turn",
        "approval_expired",
        "approval_already_resolved",
        "question_expired",
        "question_already_answered",
        "turn_active",
        "restore_active",
    ]
    """The reason; present exactly if the outcome is `rejected`."""


class _SendMessage(TypedDict):
    prompt: str
    """What the agent is to do next."""


class SendMessage(_SendMessage, total=False):
    whenBusy: Literal["reject", "queue", "steer"]
    """
    What becomes of it while a turn is active. `reject` (default): 409 `turn_active`. `queue`: it
    waits for a turn of its own, after those that wait already. `steer`: the agent of the active
    turn has it as soon as it can take it; if the turn ends first, it is the next turn.
    """
    files: list[FileRef]
    """
    Uploaded files for it: at most 10. The agent finds them below its home, and sees images if its
    model can.
    """


class FileRef(TypedDict):
    id: str
    """The id that the upload returned."""


class QuestionReply(TypedDict, total=False):
    answers: dict[str, QuestionReplyAnswers]
    """By the `id` of each question."""
    dismiss: Literal[True]
    """The agent goes on without an answer."""


class QuestionReplyAnswers(TypedDict, total=False):
    labels: list[str]
    """Labels of chosen options: one, or several if the question is `multiple`."""
    text: str
    """An answer in the person's own words, if the question allows it."""


class _ApprovalDecision(TypedDict):
    decision: Literal["approve", "deny"]
    """The decision."""


class ApprovalDecision(_ApprovalDecision, total=False):
    scope: Literal["turn"]
    """
    With `approve`. `turn`: also waiting and later calls of the same `kind` in this turn. Default:
    this tool call alone.
    """
    reason: str
    """With `deny`: the reason for the agent."""


class Sandbox(TypedDict):
    id: str
    """Names the sandbox."""
    worktreeId: str
    """Names its working trees."""
    object: Literal["sandbox"]
    """Always `sandbox`."""
    status: Literal[
        "queued",
        "creating",
        "running",
        "succeeded",
        "failed",
        "terminating",
        "terminated",
    ]
    """Where it is in its life."""
    title: str
    """For people; as given, or the first line of the prompt."""
    repos: list[RepoRef]
    """What it works on, as given."""
    model: str | None
    """The model's id in the catalogue."""
    agentRuntime: Literal["opencode", "codex", "claude", "grok"]
    """The program that drives the model."""
    turn: SandboxTurn
    """What the agent is doing."""
    usage: Usage
    """Eventually consistent."""
    metadata: dict[str, str]
    """As given."""
    error: str | None
    """Why it failed, a sentence for people; `null` unless it did."""
    createdAt: Timestamp
    """When it was accepted."""
    startedAt: Timestamp | None
    """When it first ran; `null` before."""
    completedAt: Timestamp | None
    """When it first was succeeded, failed or terminated; `null` before."""
    links: SandboxLinks
    """Absolute, from the configured public address."""


class SandboxTurn(TypedDict):
    """What the agent is doing."""

    active: bool
    """A turn is pending, running or waits for an approval or an answer."""


class SandboxLinks(TypedDict):
    """Absolute, from the configured public address."""

    self: str
    """The sandbox."""
    events: str
    """Its events."""
    messages: str
    """Its conversation."""


class Usage(TypedDict):
    llmRequestCount: int
    """Calls to a model."""
    costMicroUsd: int
    """Millionths of a US dollar, by the price table of the service."""
    creditsChargedMicros: int
    """Millionths of a credit."""


class _RepoRef(TypedDict):
    fullName: str
    """`owner/name`, in any case of letters."""


class RepoRef(_RepoRef, total=False):
    ref: str
    """Branch, tag or full commit id to start from. Left out: the default branch."""


class _ForkSandbox(TypedDict):
    prompt: str
    """The first task of the agent."""


class ForkSandbox(_ForkSandbox, total=False):
    files: list[FileRef]
    """
    Uploaded files for the first task: at most 10. The agent finds them below its home, and sees
    images if its model can.
    """
    model: str
    """
    A model's id in the catalogue, which may have another runtime. Default: the sandbox's model.
    """
    reasoningEffort: Literal["none", "low", "medium", "high", "xhigh", "max", "ultra", "ultracode"]
    """
    The reasoning effort. Default: the sandbox's effort, if the catalogue lists it for the model.
    """
    title: str
    """A title for people. Default: the prompt's first line."""
    toolApprovalMode: Literal["auto", "prompt"]
    """Default: the sandbox's mode."""
    metadata: dict[str, str]
    """Strings of the caller, kept unchanged: at most 16."""
    checkpoint: int
    """The checkpoint that its trees start as. Default: the newest one."""


class RestoreCheckpoint(TypedDict):
    checkpoint: int
    """Number of a checkpoint of the sandbox that is kept."""


class Setup(TypedDict):
    state: Literal["none", "running", "succeeded", "failed"]
    """
    `none`: no repository of the sandbox has a setup, it has not begun, or its record was deleted.
    """
    startedAt: Timestamp | None
    """The start time."""
    ms: int | None
    """The duration in milliseconds; `null` while it runs."""
    cache: Literal["hit", "miss", "none"]
    """Whether its cache existed; `none` if nothing is cached."""
    exitCode: int | None
    """
    The exit code of the failed command, otherwise 0; `null` before a command has exited, or if a
    signal or a timeout ended it.
    """
    output: str
    """The last MiB of the commands' output, without the values of secrets."""


class SandboxPage(TypedDict):
    data: list[Sandbox]
    """Newest first."""
    nextCursor: str | None
    """The `after` of the next page; `null` on the last page."""


_CreateSandboxKeywords = TypedDict(
    "_CreateSandboxKeywords",
    {
        # A pull request or a branch to start from and to publish to. Its repository may have no
        # `ref`.
        "continue": "Continue",
    },
    total=False,
)


class _CreateSandbox(TypedDict):
    repos: list[RepoRef]
    """The repositories: 1 to 16 different ones; case is ignored."""
    prompt: str
    """The first task of the agent."""


class CreateSandbox(_CreateSandbox, _CreateSandboxKeywords, total=False):
    files: list[FileRef]
    """
    Uploaded files for the first task: at most 10. The agent finds them below its home, and sees
    images if its model can.
    """
    model: str
    """A model's id in the catalogue. Default: the catalogue's default."""
    reasoningEffort: Literal["none", "low", "medium", "high", "xhigh", "max", "ultra", "ultracode"]
    """The reasoning effort: a value that the catalogue lists for the model."""
    title: str
    """A title for people. Default: the prompt's first line."""
    toolApprovalMode: Literal["auto", "prompt"]
    """`prompt`: the agent asks before every edit and command; `auto`: it never asks."""
    metadata: dict[str, str]
    """Strings of the caller, kept unchanged: at most 16."""
    feedback: FeedbackChoice
    """
    What of its pull requests becomes messages of the sandbox. Omitted fields are as set for its
    first repository.
    """
    budgetMicroUsd: int
    """
    The limit of its model costs in micro-USD, at most the operator's. Default: the operator's limit
    alone.
    """
    environment: dict[str, str]
    """
    Variables for setup and the agent, by name. They are not secret: the agent and everybody who
    sees the sandbox can read them.
    """
    mcpServers: list[str]
    """
    The MCP servers of its repositories that the agent gets, by name: at most 20. Default: those
    that are on by default.
    """


class Continue(TypedDict, total=False):
    repo: str
    """Its repository, one of `repos`. May be left out with one repository."""
    pullRequest: int
    """The number of an open pull request whose branch is in the repository itself."""
    branch: str
    """The short name of a branch."""


class FeedbackChoice(TypedDict, total=False):
    comments: Literal["off", "mention", "all"]
    """
    Comments and reviews of people who may write to the repository; `mention`: those that name
    `@slipway`.
    """
    checks: Literal["off", "failing"]
    """Failing checks, once all checks of the commit are done."""
    rounds: int
    """Rounds without a person's word after which feedback pauses."""
    publish: bool
    """Whether a round that succeeded is published."""


class Error(TypedDict):
    """The body of every error."""

    error: ErrorError
    """What is wrong."""


class ErrorError(TypedDict):
    """What is wrong."""

    code: str
    """For programs. The codes of a status are listed with it; codes may be added."""
    message: str
    """For people."""
