/**
 * The API as promises, for code that does not use Effect. Addresses come from the API's definition, types are those of the
 * wire. Needs nothing but `fetch`.
 */
import type { FileTree } from "@slipway/domain/files/FileTree"
import type { CommandResult } from "@slipway/domain/sandbox/Command"
import type { CreateSandbox } from "@slipway/domain/sandbox/CreateSandbox"
import type { ApprovalRequest, SandboxEvent, SandboxStatus } from "@slipway/domain/sandbox/SandboxEvent"
import type { TurnState } from "@slipway/domain/sandbox/Turn"
import { SandboxId } from "@slipway/domain/SandboxId"
import type { PullRequestStatus } from "@slipway/domain/source/PullRequest"
import { Api } from "@slipway/http/api/Api"
import type { EventEnvelope } from "@slipway/http/api/EventsApi"
import type { FileContent } from "@slipway/http/api/FilesApi"
import type { MessagePage, MessageResult } from "@slipway/http/api/MessagesApi"
import type { PartnerPage } from "@slipway/http/api/PartnerApi"
import type { SandboxPage } from "@slipway/http/api/SandboxesApi"
import type { SandboxResource } from "@slipway/http/api/SandboxResource"
import { HttpApiClient } from "effect/http-api"
import { serverSentEvents } from "./EventStream.ts"

export type Sandbox = typeof SandboxResource.Encoded
export type NewSandbox = typeof CreateSandbox.Encoded
export type Message = typeof MessagePage.Encoded["data"][number]

/** What is told once, and is not in the log. */
type Transient =
  | {
    readonly type: "snapshot"
    readonly data: {
      readonly sandbox: Sandbox
      readonly turn: { readonly id: string; readonly state: TurnState } | null
      readonly resume_cursor: string
      readonly pending_approvals: ReadonlyArray<typeof ApprovalRequest.Encoded>
    }
  }
  | { readonly type: "sandbox.status"; readonly data: { readonly status: SandboxStatus } }

/** An event of a sandbox, told apart by `type`. Ignore types you do not know: they are added over time. */
export type Event =
  & Omit<typeof EventEnvelope.Encoded, "type" | "data" | "turn_id">
  & { readonly turn_id?: string }
  & (typeof SandboxEvent.Encoded | Transient)

/** The service refused. `status` 0: it could not be reached. */
export class SlipwayError extends Error {
  override readonly name = "SlipwayError"
  readonly status: number
  /** For programs, e.g. `turn_active`. */
  readonly code: string
  /** Seconds after which a retry may succeed, when the service said so. */
  readonly retryAfter: number | undefined
  /** Names the reply in the service's logs. */
  readonly requestId: string | undefined

  constructor(
    message: string,
    { code, requestId, retryAfter, status }: {
      readonly status: number
      readonly code: string
      readonly retryAfter?: number | undefined
      readonly requestId?: string | undefined
    },
    options?: ErrorOptions
  ) {
    super(message, options)
    this.status = status
    this.code = code
    this.retryAfter = retryAfter
    this.requestId = requestId
  }

  /** Whether the same request may succeed later. */
  get isTemporary(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500
  }
}

const refusal = async (response: Response): Promise<SlipwayError> => {
  const body: unknown = await response.json().catch(() => null)
  const { code = "unknown", message = response.statusText } =
    (body as { readonly error?: { readonly code?: string; readonly message?: string } } | null)?.error ?? {}
  const retryAfter = response.headers.get("retry-after")
  return new SlipwayError(message, {
    status: response.status,
    code,
    retryAfter: retryAfter === null ? undefined : Number(retryAfter),
    requestId: response.headers.get("x-request-id") ?? undefined
  })
}

const sleep = (millis: number, signal: AbortSignal | undefined) =>
  new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, millis)
    signal?.addEventListener("abort", () => {
      clearTimeout(timer)
      resolve()
    }, { once: true })
  })

const FINISHED: ReadonlySet<SandboxStatus> = new Set(["succeeded", "failed", "terminated"])

/** Attempts in a row that bring nothing, before a stream gives up. */
const MAX_FRUITLESS = 10

interface Page {
  readonly after?: number
  readonly limit?: number
}

export class SlipwayClient {
  readonly #baseUrl: string
  readonly #apiKey: string
  readonly #fetch: typeof fetch
  readonly #url = HttpApiClient.urlBuilder(Api)

  /** `baseUrl` is the server's address without a path, e.g. `https://slipway.example`. */
  constructor(options: { readonly baseUrl: string; readonly apiKey: string; readonly fetch?: typeof fetch }) {
    this.#baseUrl = options.baseUrl.replace(/\/+$/u, "")
    this.#apiKey = options.apiKey
    this.#fetch = options.fetch ?? fetch
  }

  async #send(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers)
    headers.set("authorization", `Bearer ${this.#apiKey}`)
    const response = await this.#fetch(this.#baseUrl + path, { ...init, headers }).catch((cause: unknown) => {
      if (init.signal?.aborted === true) throw cause
      throw new SlipwayError("The service could not be reached.", { status: 0, code: "unreachable" }, { cause })
    })
    if (!response.ok) throw await refusal(response)
    return response
  }

  async #get<A>(path: string): Promise<A> {
    return (await this.#send(path)).json()
  }

  async #post<A>(path: string, body?: object, idempotencyKey?: string): Promise<A> {
    const response = await this.#send(path, {
      method: "POST",
      headers: {
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey })
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    return response.json()
  }

  /** With a key, repeating the same request gives the same sandbox. */
  create(request: NewSandbox, options: { readonly idempotencyKey?: string } = {}): Promise<Sandbox> {
    return this.#post(this.#url.createSandbox(), request, options.idempotencyKey)
  }

  get(id: string): Promise<Sandbox> {
    return this.#get(this.#url.getSandbox({ params: { sandboxId: SandboxId.make(id) } }))
  }

  /** Newest first. */
  list(query: { readonly after?: string; readonly limit?: number; readonly status?: SandboxStatus; readonly repo?: string } = {}): Promise<
    typeof SandboxPage.Encoded
  > {
    return this.#get(this.#url.listSandboxes({ query }))
  }

  terminate(id: string): Promise<typeof CommandResult.Encoded> {
    return this.#post(this.#url.terminateSandbox({ params: { sandboxId: SandboxId.make(id) } }))
  }

  interrupt(id: string): Promise<typeof CommandResult.Encoded> {
    return this.#post(this.#url.interruptTurn({ params: { sandboxId: SandboxId.make(id) } }))
  }

  approve(id: string, approvalId: string): Promise<typeof CommandResult.Encoded> {
    return this.#decide(id, approvalId, "approve")
  }

  deny(id: string, approvalId: string): Promise<typeof CommandResult.Encoded> {
    return this.#decide(id, approvalId, "deny")
  }

  #decide(id: string, approvalId: string, decision: "approve" | "deny"): Promise<typeof CommandResult.Encoded> {
    return this.#post(this.#url.decideApproval({ params: { sandboxId: SandboxId.make(id), approvalId } }), { decision })
  }

  /** Starts the next turn. */
  sendMessage(id: string, prompt: string, options: { readonly idempotencyKey?: string } = {}): Promise<typeof MessageResult.Encoded> {
    return this.#post(this.#url.sendMessage({ params: { sandboxId: SandboxId.make(id) } }), { prompt }, options.idempotencyKey)
  }

  /** Oldest first. `after` is a `nextCursor`. */
  messages(id: string, query: Page = {}): Promise<typeof MessagePage.Encoded> {
    return this.#get(this.#url.listMessages({ params: { sandboxId: SandboxId.make(id) }, query }))
  }

  /** Durable events after a cursor, oldest first. */
  events(id: string, query: Page = {}): Promise<{ readonly data: ReadonlyArray<Event>; readonly nextCursor: string }> {
    return this.#get(this.#url.listEvents({ params: { sandboxId: SandboxId.make(id) }, query }))
  }

  /**
   * Events as they happen, until the sandbox is finished: first a snapshot, or with `since` everything after that event.
   * A connection that is lost is made again where it was lost. Every durable event comes exactly once, in order.
   */
  async *stream(id: string, options: { readonly since?: number; readonly signal?: AbortSignal } = {}): AsyncGenerator<Event, void> {
    const { signal, since } = options
    const path = this.#url.streamEvents({ params: { sandboxId: SandboxId.make(id) }, query: {} })
    let cursor = since === undefined ? undefined : String(since)
    let wait = 0
    let fruitless = 0
    let status: SandboxStatus | undefined
    const isStopped = () => signal?.aborted === true
    while (!isStopped()) {
      let retry = 2_000
      try {
        const response = await this.#send(path, {
          headers: cursor === undefined ? {} : { "last-event-id": cursor },
          ...(signal === undefined ? {} : { signal })
        })
        // Finished, and everything was read.
        if (response.status === 204 || response.body === null) return
        for await (const block of serverSentEvents(response.body)) {
          retry = block.retry ?? retry
          if (block.data === undefined) continue
          fruitless = 0
          const event: Event | { readonly type: "stream.resync" } = JSON.parse(block.data)
          if (event.type === "stream.resync") continue
          // Resuming from a snapshot needs no second one.
          cursor = event.type === "snapshot" ? event.data.resume_cursor : block.id ?? cursor
          if (event.type === "sandbox.status") status = event.data.status
          yield event
        }
        if (status !== undefined && FINISHED.has(status)) return
        wait = retry
      } catch (error) {
        if (isStopped()) return
        const refused = error instanceof SlipwayError ? error : undefined
        if (refused?.isTemporary === false || ++fruitless > MAX_FRUITLESS) throw error
        wait = (refused?.retryAfter ?? 0) * 1000 || retry
      }
      await sleep(wait, signal)
    }
  }

  /** The entries of one directory; the root when none is named. */
  files(id: string, query: { readonly directory?: string; readonly repo?: string } = {}): Promise<typeof FileTree.Encoded> {
    return this.#get(this.#url.listFiles({ params: { sandboxId: SandboxId.make(id) }, query }))
  }

  /** One file as text: now, as published last, and where the sandbox started. */
  content(id: string, path: string, query: { readonly repo?: string } = {}): Promise<typeof FileContent.Encoded> {
    return this.#get(this.#url.getFileContent({ params: { sandboxId: SandboxId.make(id) }, query: { path, ...query } }))
  }

  /** The bytes of one file, as a response that was not read yet. */
  download(id: string, path: string, query: { readonly repo?: string } = {}): Promise<Response> {
    return this.#send(this.#url.downloadFile({ params: { sandboxId: SandboxId.make(id) }, query: { path, ...query } }))
  }

  /** Opens or updates the draft pull request. `detailsPending`: ask again with `pullRequest`. */
  publish(id: string, body: { readonly repo?: string } = {}): Promise<typeof PullRequestStatus.Encoded> {
    return this.#post(this.#url.publishPullRequest({ params: { sandboxId: SandboxId.make(id) } }), body)
  }

  pullRequest(id: string, query: { readonly repo?: string } = {}): Promise<typeof PullRequestStatus.Encoded> {
    return this.#get(this.#url.getPullRequest({ params: { sandboxId: SandboxId.make(id) }, query }))
  }

  /** The grant's feed, ascending. Save `nextCursor` once every event is processed; it is the next `after`. */
  partnerEvents(query: Page = {}): Promise<typeof PartnerPage.Encoded> {
    return this.#get(this.#url.listPartnerEvents({ query }))
  }
}
