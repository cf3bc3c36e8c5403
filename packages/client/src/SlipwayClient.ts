/**
 * The API as promises, using only the platform's `fetch`: Node, browsers, Deno. Errors reject with a `SlipwayError`; every call takes
 * an `AbortSignal`. Methods have the names of the API's operations. Requests that are safe to repeat (every GET, and requests with an
 * idempotency key) are retried if the service is unreachable, or answers 429 or 503.
 */
import { serverSentEvents } from "./ServerSentEvents.ts"
import { SlipwayError } from "./SlipwayError.ts"
import { backoff, type CallOptions, type ClientOptions, pause, type Query, segment, Transport } from "./Transport.ts"
import type {
  ApprovalDecision,
  ApproveOptions,
  ArtifactList,
  ChangeRequest,
  ChangesRequested,
  CheckpointPage,
  CommandResult,
  DenyOptions,
  DiffQuery,
  DirectoryQuery,
  EventPage,
  FileContent,
  FileTree,
  Fork,
  MessagePage,
  MessageResult,
  NewMessage,
  NewSandbox,
  PageQuery,
  PartnerPage,
  PromptFile,
  PublishRequest,
  PullRequestReviews,
  PullRequestStatus,
  QuestionReply,
  RepoQuery,
  Sandbox,
  SandboxPage,
  SandboxQuery,
  SandboxStatus,
  Setup,
  Snapshot,
  StreamEvent,
  UploadOptions
} from "./Types.ts"

export type { CallOptions, ClientOptions } from "./Transport.ts"
export type * from "./Types.ts"
export { SlipwayError }

/** Options of a request that creates something. */
export interface WriteOptions extends CallOptions {
  /**
   * 1 to 255 printable characters. Equal requests with the same key are executed once, for at least 24 hours. Absent: the client makes
   * a key for the call, so that its own retries do not execute it twice.
   */
  readonly idempotencyKey?: string | undefined
}

/** Options of `streamEvents`. */
export interface StreamOptions extends CallOptions {
  /** All events after this one, without a snapshot; 0 is the beginning. */
  readonly since?: number | string | undefined
  /** Called when the connection failed or ended without an event, before it is reconnected after `waitMillis`. */
  readonly onLost?: ((error: SlipwayError, waitMillis: number) => void) | undefined
  /**
   * The longest time without an event, counted from the end of the last connection with one, before the stream fails; `Infinity`: it
   * never fails. Absent: ten connections in a row, about 4 minutes.
   */
  readonly giveUpMillis?: number | undefined
}

const FINISHED: ReadonlySet<SandboxStatus> = new Set(["succeeded", "failed", "terminated"])

/** The value that servers send with `retry`, until they have sent it. */
const RECONNECT_MILLIS = 2_000
const MAX_RECONNECT_MILLIS = 30_000
/** Connections in a row without an event before a stream fails: about 4 minutes. */
const MAX_FRUITLESS = 10

/** Decides when a stream stops trying: the time of its first connection without an event, and their number in a row. */
class Fruitless {
  readonly #giveUpMillis: number | undefined
  #since = performance.now()
  count = 0

  constructor(giveUpMillis: number | undefined) {
    this.#giveUpMillis = giveUpMillis
  }

  /** Milliseconds left for the next connection. */
  get leftMillis(): number {
    if (this.#giveUpMillis === undefined) return this.count > MAX_FRUITLESS ? 0 : Infinity
    return Math.max(0, this.#giveUpMillis - (this.count === 0 ? 0 : performance.now() - this.#since))
  }

  add(): void {
    if (this.count++ === 0) this.#since = performance.now()
  }
}

const sandboxPath = (id: string): string => `/sandboxes/${segment(id)}`

/** RFC 8187. */
const encoded = (name: string): string => encodeURIComponent(name).replace(/['()*]/gu, (char) => `%${char.charCodeAt(0).toString(16)}`)

const eventOf = (data: string): StreamEvent => {
  try {
    return JSON.parse(data)
  } catch (cause) {
    throw new SlipwayError("The stream brought what is no JSON.", { status: 200, code: "invalid_reply", cause })
  }
}

/** All operations of a Slipway service. A call rejects with a {@link SlipwayError}; `isTemporary` says whether another try helps. */
export class SlipwayClient {
  readonly #transport: Transport
  readonly #reconnectMillis: number | undefined

  /** Throws a `TypeError` if the address or the key is invalid. */
  constructor(options: ClientOptions) {
    this.#transport = new Transport(options)
    this.#reconnectMillis = options.reconnectMillis
  }

  // `async`, so that an invalid path rejects instead of throwing.
  async #get<A>(path: () => string, query: object, { signal }: CallOptions): Promise<A> {
    return this.#transport.json({ path: path(), query: query as Query, signal })
  }

  async #post<A>(path: () => string, body: object | undefined, { idempotencyKey, signal }: WriteOptions): Promise<A> {
    return this.#transport.json({ method: "POST", path: path(), body, idempotencyKey, signal })
  }

  createSandbox(request: NewSandbox, { idempotencyKey = crypto.randomUUID(), signal }: WriteOptions = {}): Promise<Sandbox> {
    return this.#post(() => "/sandboxes", request, { idempotencyKey, signal })
  }

  /** Creates a sandbox whose trees start as a checkpoint of this one. The original may have ended, and does not change. */
  forkSandbox(id: string, request: Fork, { idempotencyKey = crypto.randomUUID(), signal }: WriteOptions = {}): Promise<Sandbox> {
    return this.#post(() => `${sandboxPath(id)}/fork`, request, { idempotencyKey, signal })
  }

  getSandbox(id: string, options: CallOptions = {}): Promise<Sandbox> {
    return this.#get(() => sandboxPath(id), {}, options)
  }

  /** Newest first. */
  listSandboxes(query: SandboxQuery = {}, options: CallOptions = {}): Promise<SandboxPage> {
    return this.#get(() => "/sandboxes", query, options)
  }

  /** Ends the sandbox for good. Safe to repeat. */
  terminateSandbox(id: string, options: CallOptions = {}): Promise<CommandResult> {
    return this.#post(() => `${sandboxPath(id)}/terminate`, undefined, options)
  }

  /**
   * Deletes an ended sandbox and its data for good. The key needs the scope `sandboxes:delete`. Rejects with `not_found` once it is
   * deleted, also after an answer that was lost.
   */
  async deleteSandbox(id: string, { signal }: CallOptions = {}): Promise<void> {
    await this.#transport.json<void>({ method: "DELETE", path: sandboxPath(id), isInternal: true, signal })
  }

  /** Hides a sandbox from the pages and from `slipway ps`, or shows it again. The API is unchanged by it. Safe to repeat. */
  async archiveSandbox(id: string, isArchived = true, { signal }: CallOptions = {}): Promise<void> {
    const path = `${sandboxPath(id)}/${isArchived ? "archive" : "unarchive"}`
    await this.#transport.json<void>({ method: "POST", path, isInternal: true, signal })
  }

  /** The archived ones of up to 100 sandboxes. */
  async archivedSandboxes(ids: ReadonlyArray<string>, { signal }: CallOptions = {}): Promise<ReadonlyArray<string>> {
    const query = { ids: ids.join(",") }
    const reply = await this.#transport.json<{ readonly data: ReadonlyArray<string> }>({
      path: "/sandboxes/archived",
      query,
      isInternal: true,
      signal
    })
    return reply.data
  }

  /** Ends the active turn; the sandbox continues. */
  interruptTurn(id: string, options: CallOptions = {}): Promise<CommandResult> {
    return this.#post(() => `${sandboxPath(id)}/interrupt`, undefined, options)
  }

  /** Restores trees and conversation to a checkpoint, between turns. `sandbox.restored` reports the end, or why it failed. */
  restoreCheckpoint(id: string, checkpoint: number, { signal }: CallOptions = {}): Promise<CommandResult> {
    return this.#post(() => `${sandboxPath(id)}/restore`, { checkpoint }, { signal })
  }

  /**
   * Makes the source host's newest commits of base and branch available to the agent's git as `origin/…`, between turns. `sandbox.synced`
   * reports the end.
   */
  syncSandbox(id: string, { signal }: CallOptions = {}): Promise<CommandResult> {
    return this.#post(() => `${sandboxPath(id)}/sync`, undefined, { signal })
  }

  /** `approvalId` is the `approval_id` of an `approval.requested`. The first decision wins. */
  approve(id: string, approvalId: string, { scope, signal }: ApproveOptions & CallOptions = {}): Promise<CommandResult> {
    return this.decideApproval(id, approvalId, { decision: "approve", ...(scope === undefined ? {} : { scope }) }, { signal })
  }

  /** The agent gets the `reason` with the denial or as a message. */
  deny(id: string, approvalId: string, { reason, signal }: DenyOptions & CallOptions = {}): Promise<CommandResult> {
    return this.decideApproval(id, approvalId, { decision: "deny", ...(reason === undefined ? {} : { reason }) }, { signal })
  }

  /** Sends the decision of `approve` or `deny`. */
  decideApproval(id: string, approvalId: string, decision: ApprovalDecision, { signal }: CallOptions = {}): Promise<CommandResult> {
    return this.#post(() => `${sandboxPath(id)}/approvals/${segment(approvalId)}`, decision, { signal })
  }

  /** `questionId` is the `question_id` of a `question.asked`. The first answer wins; `dismiss` lets the agent go on without one. */
  answerQuestion(id: string, questionId: string, reply: QuestionReply, { signal }: CallOptions = {}): Promise<CommandResult> {
    return this.#post(() => `${sandboxPath(id)}/questions/${segment(questionId)}`, reply, { signal })
  }

  /** Starts the next turn of a running sandbox. While a turn is active the message is refused, unless `whenBusy` queues it. */
  sendMessage(
    id: string,
    prompt: string,
    { files, idempotencyKey = crypto.randomUUID(), signal, whenBusy }: WriteOptions & Pick<NewMessage, "files" | "whenBusy"> = {}
  ): Promise<MessageResult> {
    const body: NewMessage = {
      prompt,
      ...(whenBusy === undefined ? {} : { whenBusy }),
      ...(files === undefined ? {} : { files })
    }
    return this.#post(() => `${sandboxPath(id)}/messages`, body, { idempotencyKey, signal })
  }

  /** Uploads a file of at most 20 MiB for a prompt. It is deleted after 24 hours unless a prompt uses it. Not retried. */
  async uploadFile(
    content: Blob | Uint8Array<ArrayBuffer>,
    { mediaType, name, signal }: UploadOptions & CallOptions = {}
  ): Promise<PromptFile> {
    const isBlob = content instanceof Blob
    const named = name ?? (isBlob && "name" in content && typeof content.name === "string" ? content.name : undefined)
    const type = mediaType ?? (isBlob && content.type !== "" ? content.type : "application/octet-stream")
    const headers = {
      "content-type": type,
      ...(named === undefined ? {} : { "content-disposition": `attachment; filename*=UTF-8''${encoded(named)}` })
    }
    return this.#transport.json({ method: "POST", path: "/files", bytes: { content, headers }, signal })
  }

  getFile(fileId: string, options: CallOptions = {}): Promise<PromptFile> {
    return this.#get(() => `/files/${segment(fileId)}`, {}, options)
  }

  /** The bytes of an uploaded file, as a response whose body is read on demand. */
  async getFileBytes(fileId: string, options: CallOptions = {}): Promise<Response> {
    return this.#read(`/files/${segment(fileId)}/content`, {}, options)
  }

  /** Withdraws a waiting message. `messageId` is the `turnId` that sending it returned. Safe to repeat. */
  async cancelMessage(id: string, messageId: string, { signal }: CallOptions = {}): Promise<CommandResult> {
    return this.#transport.json({ method: "DELETE", path: `${sandboxPath(id)}/messages/${segment(messageId)}`, signal })
  }

  /** Oldest first. */
  listMessages(id: string, query: PageQuery = {}, options: CallOptions = {}): Promise<MessagePage> {
    return this.#get(() => `${sandboxPath(id)}/messages`, query, options)
  }

  /** The stored checkpoints, oldest first. */
  listCheckpoints(id: string, query: PageQuery = {}, options: CallOptions = {}): Promise<CheckpointPage> {
    return this.#get(() => `${sandboxPath(id)}/checkpoints`, query, options)
  }

  /** The files that the agent left for people, by name. */
  listArtifacts(id: string, options: CallOptions = {}): Promise<ArtifactList> {
    return this.#get(() => `${sandboxPath(id)}/artifacts`, {}, options)
  }

  /** The bytes of an artifact, as a response whose body is read on demand. */
  async getArtifact(id: string, name: string, options: CallOptions = {}): Promise<Response> {
    return this.#read(`${sandboxPath(id)}/artifacts/${segment(name)}`, {}, options)
  }

  /** The state of the sandbox's setup, and its output. */
  getSetup(id: string, options: CallOptions = {}): Promise<Setup> {
    return this.#get(() => `${sandboxPath(id)}/setup`, {}, options)
  }

  /** Stored events, oldest first. Continue until a page is empty. */
  listEvents(id: string, query: PageQuery = {}, options: CallOptions = {}): Promise<EventPage> {
    return this.#get(() => `${sandboxPath(id)}/events`, query, options)
  }

  /**
   * Events as they happen, up to the last event of an ended sandbox. The first is a snapshot; with `since`, the events after it. A lost
   * connection is resumed: every stored event comes once, in order. `break` and the signal end the stream without an error.
   */
  async *streamEvents(
    id: string,
    { giveUpMillis, onLost, signal, since }: StreamOptions = {}
  ): AsyncGenerator<StreamEvent, void, undefined> {
    const path = `${sandboxPath(id)}/events/stream`
    let lastEventId = since === undefined ? undefined : String(since)
    let reconnectMillis = this.#reconnectMillis ?? RECONNECT_MILLIS
    const fruitless = new Fruitless(giveUpMillis)
    let status: SandboxStatus | undefined
    const isStopped = () => signal?.aborted === true
    while (!isStopped()) {
      let wait: number
      try {
        const { attempt, response } = await this.#transport.openOnce({ path, lastEventId, signal }, fruitless.leftMillis)
        if (response.status === 204 || response.body === null) {
          // The sandbox has ended, and everything was read.
          attempt.close()
          return
        }
        let isNews = false
        let isEmpty = true
        for await (const block of serverSentEvents(attempt.chunks(response.body, this.#transport.idleTimeoutMillis))) {
          if (block.retry !== undefined) reconnectMillis = this.#reconnectMillis ?? block.retry
          if (block.data === undefined) continue
          isEmpty = false
          fruitless.count = 0
          const event = eventOf(block.data)
          isNews ||= block.id !== undefined || event.type === "snapshot"
          // After a snapshot a reconnection continues at its cursor, without a second snapshot.
          lastEventId = event.type === "snapshot" || event.type === "stream.resync" ? event.data.resume_cursor : block.id ?? lastEventId
          if (event.type === "sandbox.status") status = event.data.status
          yield event
          if (isStopped()) return
        }
        if (isEmpty) throw new SlipwayError("The stream ended without an event.", { status: response.status, code: "empty_stream" })
        // Streams also end for other reasons. For an ended sandbox, reconnect at once: 204 says that nothing is left.
        const isOver = isNews && status !== undefined && FINISHED.has(status)
        wait = isOver ? 0 : backoff(reconnectMillis, 0, MAX_RECONNECT_MILLIS)
      } catch (error) {
        if (isStopped()) return
        if (!(error instanceof SlipwayError) || !error.isTemporary) throw error
        fruitless.add()
        if (fruitless.leftMillis === 0) throw error
        wait = Math.max(backoff(reconnectMillis, fruitless.count, MAX_RECONNECT_MILLIS), (error.retryAfter ?? 0) * 1000)
        wait = Math.min(wait, fruitless.leftMillis)
        onLost?.(error, wait)
      }
      await pause(wait, signal).catch(() => {})
    }
  }

  /** @deprecated An earlier name: use `streamEvents`. */
  stream(id: string, options?: StreamOptions): AsyncGenerator<StreamEvent, void, undefined> {
    return this.streamEvents(id, options)
  }

  /** The sandbox, its newest turn and its pending approvals, all of one moment. */
  async snapshot(id: string, { signal }: CallOptions = {}): Promise<Snapshot> {
    const { attempt, response } = await this.#transport.open({ path: `${sandboxPath(id)}/events/stream`, signal })
    try {
      if (response.body !== null) {
        for await (const { data } of serverSentEvents(attempt.chunks(response.body, this.#transport.idleTimeoutMillis))) {
          const event = data === undefined ? undefined : eventOf(data)
          if (event?.type === "snapshot") return event.data
        }
      }
    } finally {
      attempt.close()
    }
    throw new SlipwayError("The stream brought no snapshot.", { status: response.status, code: "invalid_reply" })
  }

  /** The entries of one directory. */
  listFiles(id: string, query: DirectoryQuery = {}, options: CallOptions = {}): Promise<FileTree> {
    return this.#get(() => `${sandboxPath(id)}/files/tree`, query, options)
  }

  /** One file as text: now, as last published, and as the sandbox found it. At most 1 MiB each. */
  getFileContent(id: string, path: string, query: RepoQuery = {}, options: CallOptions = {}): Promise<FileContent> {
    return this.#get(() => `${sandboxPath(id)}/files/content`, { path, ...query }, options)
  }

  /**
   * The differences between two versions of a tree, as a patch of at most 10 MiB. The bytes come from files and need not be UTF-8.
   * Empty: no differences.
   */
  async diffFiles(id: string, query: DiffQuery = {}, options: CallOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    return new Uint8Array(await (await this.#read(`${sandboxPath(id)}/files/diff`, query, options)).arrayBuffer())
  }

  /** One file of at most 100 MiB, as a response whose body is read on demand. */
  async downloadFile(id: string, path: string, query: RepoQuery = {}, options: CallOptions = {}): Promise<Response> {
    return this.#read(`${sandboxPath(id)}/files/download`, { path, ...query }, options)
  }

  async #read(path: string, query: object, { signal }: CallOptions): Promise<Response> {
    const { attempt, response } = await this.#transport.open({ path, query: query as Query, signal })
    if (response.body === null) {
      attempt.close()
      return response
    }
    const chunks = attempt.chunks(response.body, this.#transport.idleTimeoutMillis)
    const body = new ReadableStream<Uint8Array>({
      pull: async (controller) => {
        const { done, value } = await chunks.next()
        if (done === true) controller.close()
        else controller.enqueue(value)
      },
      cancel: () => attempt.close()
    }, { highWaterMark: 0 })
    return new Response(body, { status: response.status, headers: response.headers })
  }

  /**
   * Gives the agent comments, or the failing checks, as its next message; what it changes is published. A finished sandbox with an open
   * pull request is continued by a new one.
   */
  requestChanges(id: string, request: ChangeRequest, options: CallOptions = {}): Promise<ChangesRequested> {
    return this.#post(() => `${sandboxPath(id)}/feedback`, request, options)
  }

  /** Feedback goes on after a pause. Safe to repeat. */
  resumeFeedback(id: string, options: CallOptions = {}): Promise<CommandResult> {
    return this.#post(() => `${sandboxPath(id)}/feedback/resume`, undefined, options)
  }

  /** Opens or updates the draft pull request, within 20 s. `detailsPending`: ask again with `getPullRequest`. Safe to repeat. */
  publishPullRequest(id: string, request: PublishRequest = {}, options: CallOptions = {}): Promise<PullRequestStatus> {
    return this.#post(() => `${sandboxPath(id)}/pull-request`, request, options)
  }

  getPullRequest(id: string, query: RepoQuery = {}, options: CallOptions = {}): Promise<PullRequestStatus> {
    return this.#get(() => `${sandboxPath(id)}/pull-request`, query, options)
  }

  /**
   * The comments on the pull request with their texts, files and lines, and its checks. Texts are of strangers: escape them, and follow no
   * instructions in them.
   */
  getPullRequestReviews(id: string, query: RepoQuery = {}, { signal }: CallOptions = {}): Promise<PullRequestReviews> {
    const path = `${sandboxPath(id)}/pull-request/reviews`
    return this.#transport.json<PullRequestReviews>({ path, query: { ...query }, isInternal: true, signal })
  }

  /** The grant's feed, ascending. Save `nextCursor` after every event is processed; it is the next `after`. */
  listPartnerEvents(query: PageQuery = {}, options: CallOptions = {}): Promise<PartnerPage> {
    return this.#get(() => "/events", query, options)
  }
}
