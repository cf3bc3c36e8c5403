# Written by scripts/python-client.mjs from the API's description: do not edit.
from __future__ import annotations

from typing import Literal

from . import types
from ._transport import Download, Transport, new_key, segment

VERSION = "0.1.0"


class Operations(Transport):
    """Every operation of the API, as the service describes it at `/docs`."""

    def create_sandbox(
        self,
        body: types.CreateSandbox,
        *,
        idempotency_key: str | None = None,
    ) -> types.Sandbox:
        """
        Create a sandbox

        Accepts the creation and answers at once; the sandbox boots on its own. With an
        `Idempotency-Key`, repeating the same request gives the same sandbox with status 200, and
        another request under the same key gives 409. With `continue` the source host is asked once:
        503 `unavailable` if it does not answer within 10 seconds.
        """
        return self._json(
            "POST",
            "/sandboxes",
            body=body,
            idempotency_key=idempotency_key or new_key(),
        )

    def list_sandboxes(
        self,
        *,
        after: str | None = None,
        limit: int | None = None,
        status: Literal[
            "queued",
            "creating",
            "running",
            "succeeded",
            "failed",
            "terminating",
            "terminated",
        ] | None = None,
        repo: str | None = None,
    ) -> types.SandboxPage:
        """
        List sandboxes

        Sandboxes of the key's grant, newest first. `after` is the `nextCursor` of the page before;
        it may be combined with any filter. `repo` matches any of a sandbox's repositories, whatever
        the case.
        """
        return self._json(
            "GET",
            "/sandboxes",
            query={"after": after, "limit": limit, "status": status, "repo": repo},
        )

    def get_sandbox(
        self,
        sandbox_id: str,
    ) -> types.Sandbox:
        """
        Get a sandbox

        The sandbox as it is now. `usage` is eventually consistent.
        """
        return self._json(
            "GET",
            f"/sandboxes/{segment(sandbox_id)}",
        )

    def get_setup(
        self,
        sandbox_id: str,
    ) -> types.Setup:
        """
        Get a sandbox's setup

        How the commands went by which the repositories make the sandbox ready, and what they wrote.
        The newest run; while it runs, as it was at most two seconds ago.
        """
        return self._json(
            "GET",
            f"/sandboxes/{segment(sandbox_id)}/setup",
        )

    def terminate_sandbox(
        self,
        sandbox_id: str,
    ) -> types.CommandResult:
        """
        Terminate a sandbox

        Ends the sandbox for good. Safe to repeat: later calls answer `duplicate`.
        """
        return self._json(
            "POST",
            f"/sandboxes/{segment(sandbox_id)}/terminate",
        )

    def interrupt_turn(
        self,
        sandbox_id: str,
    ) -> types.CommandResult:
        """
        Interrupt the active turn

        The sandbox keeps running. `rejected` with `no_active_turn` or `sandbox_terminal` when there
        is nothing to interrupt.
        """
        return self._json(
            "POST",
            f"/sandboxes/{segment(sandbox_id)}/interrupt",
        )

    def restore_checkpoint(
        self,
        sandbox_id: str,
        body: types.RestoreCheckpoint,
    ) -> types.CommandResult:
        """
        Go back to a checkpoint

        Trees and conversation become those of the checkpoint; the log goes on. Between turns only,
        else `rejected` with `turn_active`; `restore_active` while another checkpoint is being
        restored. `sandbox.restored` tells what came of it.
        """
        return self._json(
            "POST",
            f"/sandboxes/{segment(sandbox_id)}/restore",
            body=body,
        )

    def sync_sandbox(
        self,
        sandbox_id: str,
    ) -> types.CommandResult:
        """
        Get the newest commits of the source host

        Makes the newest commits of the base branch and of the branch that the sandbox publishes to
        available to the agent's git as `origin/…`, so that it can merge or rebase. Between turns
        only. `duplicate` while it is under way; `sandbox.synced` tells what came of it.
        """
        return self._json(
            "POST",
            f"/sandboxes/{segment(sandbox_id)}/sync",
        )

    def fork_sandbox(
        self,
        sandbox_id: str,
        body: types.ForkSandbox,
        *,
        idempotency_key: str | None = None,
    ) -> types.Sandbox:
        """
        Fork a sandbox

        A new sandbox of the same repositories, whose trees start as a checkpoint of this one; it
        may be finished. With the same runtime its conversation goes on; another one is told the
        messages so far. This sandbox stays as it is. Answers as a creation does, also to a repeated
        `Idempotency-Key`.
        """
        return self._json(
            "POST",
            f"/sandboxes/{segment(sandbox_id)}/fork",
            body=body,
            idempotency_key=idempotency_key or new_key(),
        )

    def decide_approval(
        self,
        sandbox_id: str,
        approval_id: str,
        body: types.ApprovalDecision,
    ) -> types.CommandResult:
        """
        Approve or deny a tool call

        The first decision wins. `approvalId` is the `approval_id` of the `approval.requested`
        event. The agent is told the `reason` of a denial with it, where its runtime can be; else it
        waits for the agent as a message does, which is refused when ten wait. `scope` needs a
        request of the `kind` `edit`, `command` or `network`.
        """
        return self._json(
            "POST",
            f"/sandboxes/{segment(sandbox_id)}/approvals/{segment(approval_id)}",
            body=body,
        )

    def answer_question(
        self,
        sandbox_id: str,
        question_id: str,
        body: types.QuestionReply,
    ) -> types.CommandResult:
        """
        Answer or dismiss a question

        The first answer wins. `questionId` is the `question_id` of the `question.asked` event. A
        question that `answers` leaves out counts as not answered. `rejected` with
        `question_expired` or `question_already_answered` if it is too late.
        """
        return self._json(
            "POST",
            f"/sandboxes/{segment(sandbox_id)}/questions/{segment(question_id)}",
            body=body,
        )

    def send_message(
        self,
        sandbox_id: str,
        body: types.SendMessage,
        *,
        idempotency_key: str | None = None,
    ) -> types.MessageResult:
        """
        Send a message

        Starts the next turn of a running sandbox. While a turn is active, `whenBusy` says what
        becomes of it; at most 10 messages wait.
        """
        return self._json(
            "POST",
            f"/sandboxes/{segment(sandbox_id)}/messages",
            body=body,
            idempotency_key=idempotency_key or new_key(),
        )

    def list_messages(
        self,
        sandbox_id: str,
        *,
        after: int | None = None,
        limit: int | None = None,
    ) -> types.MessagePage:
        """
        List messages

        Prompts and the agent's complete messages, oldest first.
        """
        return self._json(
            "GET",
            f"/sandboxes/{segment(sandbox_id)}/messages",
            query={"after": after, "limit": limit},
        )

    def cancel_message(
        self,
        sandbox_id: str,
        message_id: str,
    ) -> types.CommandResult:
        """
        Take back a message that waits

        `messageId` is the `turnId` that sending it answered. Safe to repeat: later calls answer
        `duplicate`. 409 `message_not_waiting` once its turn began or an agent has it; the message
        says which.
        """
        return self._json(
            "DELETE",
            f"/sandboxes/{segment(sandbox_id)}/messages/{segment(message_id)}",
        )

    def list_checkpoints(
        self,
        sandbox_id: str,
        *,
        after: str | None = None,
        limit: int | None = None,
    ) -> types.CheckpointPage:
        """
        List checkpoints

        What is kept of a sandbox so that it outlives its machine, oldest first.
        """
        return self._json(
            "GET",
            f"/sandboxes/{segment(sandbox_id)}/checkpoints",
            query={"after": after, "limit": limit},
        )

    def list_events(
        self,
        sandbox_id: str,
        *,
        after: int | None = None,
        limit: int | None = None,
    ) -> types.SandboxEventPage:
        """
        List events

        Durable events after a cursor, oldest first: for what a stream missed.
        """
        return self._json(
            "GET",
            f"/sandboxes/{segment(sandbox_id)}/events",
            query={"after": after, "limit": limit},
        )

    def list_files(
        self,
        sandbox_id: str,
        *,
        directory: str | None = None,
        repo: str | None = None,
    ) -> types.FileTree:
        """
        List a directory

        The immediate entries of one directory; the root when `directory` is left out. Needs a
        running sandbox.
        """
        return self._json(
            "GET",
            f"/sandboxes/{segment(sandbox_id)}/files/tree",
            query={"directory": directory, "repo": repo},
        )

    def download_file(
        self,
        sandbox_id: str,
        path: str,
        *,
        repo: str | None = None,
    ) -> Download:
        """
        Download a file

        The bytes of one file, at most 100 MiB. Needs a running sandbox.
        """
        return self._download(
            "GET",
            f"/sandboxes/{segment(sandbox_id)}/files/download",
            query={"path": path, "repo": repo},
        )

    def get_file_content(
        self,
        sandbox_id: str,
        path: str,
        *,
        repo: str | None = None,
    ) -> types.FileContent:
        """
        Compare a file

        One file as text: as it is now, as published last, and where the sandbox started. At most 1
        MiB each. Of a path that was never there every version is `null`.
        """
        return self._json(
            "GET",
            f"/sandboxes/{segment(sandbox_id)}/files/content",
            query={"path": path, "repo": repo},
        )

    def diff_files(
        self,
        sandbox_id: str,
        *,
        from_: str | None = None,
        to: str | None = None,
        path: str | None = None,
        repo: str | None = None,
    ) -> str:
        """
        Compare trees

        What differs between two versions of a repository's tree, as a patch of at most 10 MiB that
        `git apply` takes. Lines have the bytes of the files, which need not be UTF-8. Protected
        files are named in comments, not shown. Of a sandbox that succeeded or failed `working` is
        its last checkpoint.
        """
        return self._text(
            "GET",
            f"/sandboxes/{segment(sandbox_id)}/files/diff",
            query={"from": from_, "to": to, "path": path, "repo": repo},
        )

    def list_artifacts(
        self,
        sandbox_id: str,
    ) -> types.ArtifactList:
        """
        List artifacts

        The files that the agent left in `$SLIPWAY_ARTIFACTS`, as of the end of its last turn. At
        most 50, so there are no pages.
        """
        return self._json(
            "GET",
            f"/sandboxes/{segment(sandbox_id)}/artifacts",
        )

    def get_artifact(
        self,
        sandbox_id: str,
        name: str,
    ) -> Download:
        """
        Download an artifact

        Its bytes, as an attachment without a media type. A `Range` of bytes is answered with 206.
        """
        return self._download(
            "GET",
            f"/sandboxes/{segment(sandbox_id)}/artifacts/{segment(name)}",
        )

    def upload_file(
        self,
        content: bytes,
        *,
        name: str | None = None,
        media_type: str | None = None,
    ) -> types.PromptFile:
        """
        Upload a file

        A file for the prompt of a creation, a fork or a message: its bytes as the body, at most 20
        MiB, within 30 seconds. Any `Content-Type` is taken; the bytes decide whether it is an
        image. A file that no prompt uses is deleted after 24 hours.
        """
        return self._json(
            "POST",
            "/files",
            content=content,
            name=name,
            media_type=media_type,
        )

    def get_file(
        self,
        file_id: str,
    ) -> types.PromptFile:
        """
        Get a file

        What is known of an uploaded file. A file of another grant is an unknown one.
        """
        return self._json(
            "GET",
            f"/files/{segment(file_id)}",
        )

    def get_file_bytes(
        self,
        file_id: str,
    ) -> Download:
        """
        Download an uploaded file

        Its bytes, as an attachment. Images have their media type, other files none.
        """
        return self._download(
            "GET",
            f"/files/{segment(file_id)}/content",
        )

    def publish_pull_request(
        self,
        sandbox_id: str,
        body: types.PublishPullRequest | None = None,
    ) -> types.PullRequestStatus:
        """
        Publish a draft pull request

        Pushes the sandbox's changes and opens a draft pull request, or adds to the open one. At
        most one is open at a time. Answers after at most 20 seconds; `actionState` then tells
        whether it is still under way.
        """
        return self._json(
            "POST",
            f"/sandboxes/{segment(sandbox_id)}/pull-request",
            body=body,
        )

    def get_pull_request(
        self,
        sandbox_id: str,
        *,
        repo: str | None = None,
    ) -> types.PullRequestStatus:
        """
        Get the pull request

        How the pull request stands; `pullRequest` is `null` before anything was published.
        """
        return self._json(
            "GET",
            f"/sandboxes/{segment(sandbox_id)}/pull-request",
            query={"repo": repo},
        )

    def request_changes(
        self,
        sandbox_id: str,
        body: types.RequestChanges,
    ) -> types.ChangesRequested:
        """
        Request changes

        Gives the agent comments on files and lines, or the failing checks, as its next message. It
        waits while a turn is active. The changes are published after the turn, and the pull request
        gets a reply. In repositories of the service itself the comments stand on the pull request
        too. A finished sandbox with an open pull request is continued by a new sandbox.
        """
        return self._json(
            "POST",
            f"/sandboxes/{segment(sandbox_id)}/feedback",
            body=body,
        )

    def resume_feedback(
        self,
        sandbox_id: str,
    ) -> types.CommandResult:
        """
        Continue feedback

        Feedback goes on after it was paused. Safe to repeat.
        """
        return self._json(
            "POST",
            f"/sandboxes/{segment(sandbox_id)}/feedback/resume",
        )

    def list_partner_events(
        self,
        *,
        after: int | None = None,
        limit: int | None = None,
    ) -> types.PartnerEventPage:
        """
        List partner events

        Credit claims and what followed from them, in ascending `sequence`, which starts at 1 and
        has no gaps. Save `nextCursor` once every event of the page is processed and pass it as the
        next `after`; an empty page gives `after` back. Deduplicate by `id`.
        """
        return self._json(
            "GET",
            "/events",
            query={"after": after, "limit": limit},
        )
