/** The whole HTTP side on memory stores, over a real socket. What only a machine can do is mocked: trees and source host. */
import { assert } from "@effect/vitest"
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import type { Life } from "@slipway/domain/access/rules/Minting"
import type { Scope } from "@slipway/domain/access/schema/Principal"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Members } from "@slipway/domain/access/usecases/Members"
import { ArtifactStore, type StoredArtifact } from "@slipway/domain/files/ports/ArtifactStore"
import { Blobs } from "@slipway/domain/files/ports/Blobs"
import { RemoteTrees, CheckpointTrees, LocalTrees } from "@slipway/domain/files/ports/RemoteTrees"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { ARTIFACT_HEAD_BYTES, artifactType } from "@slipway/domain/files/rules/Artifact"
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import * as Stores from "@slipway/domain/memory/Stores"
import { ModelProviderStore } from "@slipway/domain/models/ports/ModelProviderStore"
import { type Catalogue, ModelCatalogue, offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { Feedback } from "@slipway/domain/publishing/usecases/Feedback"
import { MaxActiveSandboxes } from "@slipway/domain/sandbox/ports/ActiveSandboxes"
import { BoxPorts } from "@slipway/domain/sandbox/ports/BoxPorts"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { SandboxDashboard } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Terminals } from "@slipway/domain/sandbox/ports/Terminals"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { decide, type SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import { PullRequestFeedback } from "@slipway/domain/source/ports/PullRequestFeedback"
import { PullRequests } from "@slipway/domain/source/ports/PullRequests"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import type { SourceHostEvents } from "@slipway/domain/source/ports/SourceHostEvents"
import { StoreHealth } from "@slipway/domain/store/StoreHealth"
import * as UseCases from "@slipway/domain/UseCases"
import * as Server from "@slipway/http/Server"
import { Settings } from "@slipway/http/server/Settings"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as WebhookSenderHttp from "@slipway/machine/webhooks/WebhookSenderHttp"
import * as WebhookSignaturesNode from "@slipway/machine/webhooks/WebhookSignaturesNode"
import { DateTime, Effect, Layer, Redacted, Stream } from "effect"
import { HttpServer } from "effect/http"
import { createHash } from "node:crypto"
import { type IncomingHttpHeaders, request as nodeRequest } from "node:http"
import { connect, type Socket } from "node:net"

export const PUBLIC_URL = "https://slipway.test"

/** The cookie of a session where the service has the host for itself. */
export const COOKIE = "__Host-slipway_session"

interface Options<R> {
  /** The pages beside the API. */
  readonly pages?: Server.Pages<never, R>
  readonly settings?: Partial<Parameters<typeof Settings.layer>[0]>
  readonly trees?: Partial<WorkingTrees["Service"]>
  /** Trees for readers of checkpoints, and commits that trees learn from them. None without it. */
  readonly restored?: Partial<Pick<CheckpointTrees["Service"], "find" | "learn">>
  readonly host?: Partial<SourceHost["Service"]>
  readonly feedback?: Partial<PullRequestFeedback["Service"]>
  /** Whose pull requests have no pages of their own. */
  readonly pulls?: typeof PullRequests.Service
  /** The source host tells by itself what happens there. */
  readonly news?: Layer.Layer<SourceHostEvents>
  readonly maxActiveSandboxes?: number
  readonly catalogue?: Catalogue
  /** Terminals of sandboxes. None without it. */
  readonly terminals?: typeof Terminals.Service
  /** Servers in sandboxes. None without it. */
  readonly ports?: typeof BoxPorts.Service
  /** Changes what the store of access says, for what it cannot be told. */
  readonly access?: (store: AccessStore["Service"]) => AccessStore["Service"]
  /** Changes what the dashboard of sandboxes says. */
  readonly dashboard?: (dashboard: SandboxDashboard["Service"]) => SandboxDashboard["Service"]
  /** Changes what the store of models' providers says. */
  readonly providers?: (store: ModelProviderStore["Service"]) => ModelProviderStore["Service"]
  /** The reason why the store takes no writes. */
  readonly trouble?: Effect.Effect<string | null>
}

const offline: Catalogue = { default: offlineDemo.id, models: [offlineDemo] }

/** The services of the HTTP side. */
export const services = (
  {
    access = (store) => store,
    catalogue = offline,
    dashboard = (dashboard) => dashboard,
    feedback = {},
    host = {},
    maxActiveSandboxes,
    providers = (store) => store,
    restored,
    trees = {}
  }: Omit<
    Options<never>,
    "pages" | "settings" | "news" | "pulls" | "ports" | "terminals" | "trouble"
  > = {}
) => {
  const stores = Layer.mergeAll(
    Layer.effect(AccessStore, Effect.map(AccessStore, access)),
    Layer.effect(SandboxDashboard, Effect.map(SandboxDashboard, dashboard)),
    Layer.effect(ModelProviderStore, Effect.map(ModelProviderStore, providers))
  ).pipe(
    Layer.provideMerge(Stores.layer({ ids: IdsNode.layer })),
    Layer.provide(Layer.succeed(MaxActiveSandboxes, maxActiveSandboxes ?? null))
  )
  const machine = Layer.mergeAll(
    WebhookSignaturesNode.layer,
    WebhookSenderHttp.layer({ allowPrivate: false, lookup: async (name) => [name.startsWith("private.") ? "10.0.0.1" : "93.184.215.14"] }),
    Layer.mock(WorkingTrees, { folder: () => "", isWhole: () => Effect.succeed(true), ...trees }),
    Layer.mock(SourceHost, {
      names: ["test"],
      nameOf: () => Effect.succeed("test"),
      refusal: () => Effect.succeed(null),
      repositories: () => Effect.succeed([]),
      ...host
    })
  )
  return Layer.mergeAll(UseCases.layerAdministration, UseCases.layerWork, Feedback.layer).pipe(
    Layer.provide(Layer.mock(PullRequestFeedback, { ...feedback })),
    Layer.provide(RemoteTrees.layerLocal),
    Layer.provide(LocalTrees.layer),
    Layer.provide(Layer.effect(CheckpointTrees, Effect.map(CheckpointTrees, (none) => ({ ...none, ...restored })))),
    Layer.provide(CheckpointTrees.layerNone),
    Layer.provideMerge(Layer.succeed(ModelCatalogue, catalogue)),
    Layer.provideMerge(Layer.merge(stores, machine))
  )
}

export const given = {
  publicUrl: PUBLIC_URL,
  cursorKey: Redacted.make("test cursor key"),
  requestsPerMinute: 100_000,
  refusedKeysPerMinute: 100_000
}

export const layer = <R = never>({ news, pages, ports, pulls, settings = {}, terminals, trouble, ...options }: Options<R> = {}) =>
  Server.layer({ host: "127.0.0.1", port: 0 }, pages).pipe(
    Layer.provide(Settings.layer({ ...given, ...settings })),
    Layer.provide(news ?? Layer.empty),
    Layer.provide(pulls === undefined ? Layer.empty : Layer.succeed(PullRequests, pulls)),
    Layer.provide(ports === undefined ? Layer.empty : Layer.succeed(BoxPorts, ports)),
    Layer.provide(terminals === undefined ? Layer.empty : Layer.succeed(Terminals, terminals)),
    Layer.provide(trouble === undefined ? Layer.empty : Layer.succeed(StoreHealth, trouble)),
    Layer.provideMerge(services(options))
  )

// ---------------------------------------------------------------------------------------------------------------
// Requests

export interface Reply {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly rawHeaders: ReadonlyArray<string>
  readonly text: string
  readonly bytes: Uint8Array
}

export interface Ask {
  readonly method?: string
  readonly key?: string
  /** An array sends a line for each. */
  readonly headers?: Record<string, string | ReadonlyArray<string>>
  readonly body?: string | Uint8Array
  /** The port of a proxy in front of the service. */
  readonly port?: number
  /** Leaves out Content-Length. */
  readonly chunked?: boolean
}

export const address = Effect.map(HttpServer.HttpServer, ({ address }) => {
  assert("port" in address)
  return { host: "127.0.0.1", port: address.port }
})

/** One request on a connection of its own; the path goes out as it is. */
export const ask = Effect.fnUntraced(
  function*(path: string, { body, chunked = false, headers = {}, key, method = body === undefined ? "GET" : "POST", port }: Ask = {}) {
    const to = { ...yield* address, ...(port === undefined ? {} : { port }) }
    return yield* Effect.promise(() =>
      new Promise<Reply>((resolve, reject) => {
        const json = body === undefined ? {} : { "content-type": "application/json" }
        const length = body === undefined || chunked ? {} : { "content-length": Buffer.byteLength(body) }
        const request = nodeRequest({
          ...to,
          path,
          method,
          agent: false,
          headers: {
            ...json,
            ...length,
            ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
            ...headers as Record<string, string | Array<string>>
          }
        }, (response) => {
          const chunks: Array<Buffer> = []
          response.on("data", (chunk: Buffer) => chunks.push(chunk))
          response.on("error", reject)
          response.on("end", () => {
            const bytes = Buffer.concat(chunks)
            resolve({
              status: response.statusCode ?? 0,
              headers: response.headers,
              rawHeaders: response.rawHeaders,
              text: bytes.toString("utf8"),
              bytes
            })
          })
        })
        request.on("error", reject)
        request.end(body)
      })
    )
  }
)

export const postJson = (path: string, key: string, body: unknown, headers: Ask["headers"] = {}) =>
  ask(path, { method: "POST", key, body: JSON.stringify(body), headers })

/** Writes bytes to a connection and reads what comes until it is closed. */
export const raw = Effect.fnUntraced(function*(bytes: string | Uint8Array) {
  const to = yield* address
  return yield* Effect.promise(() =>
    new Promise<string>((resolve, reject) => {
      const socket = connect(to, () => socket.write(bytes))
      let text = ""
      socket.on("data", (chunk) => text += chunk.toString("latin1"))
      socket.on("error", reject)
      socket.on("close", () => resolve(text))
    })
  )
})

export const json = (reply: Reply): any => JSON.parse(reply.text)

/** The reply is an error with exactly the one body, and nothing else. */
export const refused = (reply: Reply, status: number, code: string): void => {
  assert.strictEqual(reply.status, status, reply.text)
  const body: unknown = JSON.parse(reply.text)
  assert(typeof body === "object" && body !== null && "error" in body)
  assert.deepStrictEqual(Object.keys(body), ["error"])
  const { error } = body
  assert(typeof error === "object" && error !== null && "message" in error && "code" in error)
  assert.deepStrictEqual(Object.keys(error).sort(), ["code", "message"])
  assert.strictEqual(error.code, code)
  assert(typeof error.message === "string" && error.message.length > 0)
  assert.strictEqual(reply.headers["content-type"], "application/json; charset=utf-8")
}

/** The common part of the same refusal for different clients. */
export const withoutNames = ({ headers, status, text }: Reply) => {
  const { date: _date, ratelimit: _ratelimit, "x-request-id": _id, ...rest } = headers
  return { status, text, headers: rest }
}

// ---------------------------------------------------------------------------------------------------------------
// Keys and sandboxes

export const mintKey = Effect.fnUntraced(function*(
  { grant = "acme", kind = "live", life, scopes = ["sandboxes"], userId }: {
    readonly grant?: string
    readonly life?: Life
    readonly userId?: string
    readonly kind?: "live" | "test"
    readonly scopes?: ReadonlyArray<Scope>
  } = {}
) {
  const minted = yield* (yield* Access).createKey({ grant, label: "test", scopes, kind, life, userId })
  return { ...minted, key: Redacted.value(minted.key) }
})

/** A user who may have keys: approved, and a member of the owner's organization. */
export const joined = Effect.fnUntraced(function*(login: string) {
  const members = yield* Members
  yield* members.add(null, login, "member")
  return (yield* members.approve(login)).id
})

export const SANDBOXES = "/api/public/v1/sandboxes"

export const creation = { repos: [{ fullName: "acme/shop" }], prompt: "Say hello." }

export const create = Effect.fnUntraced(function*(key: string, more: object = {}) {
  const reply = yield* postJson(SANDBOXES, key, { ...creation, ...more })
  assert.strictEqual(reply.status, 201, reply.text)
  return SandboxId.make(json(reply).id)
})

/** Does what a worker would, one command after the other. */
export const drive = Effect.fnUntraced(function*(id: SandboxId, commands: ReadonlyArray<SystemCommand>) {
  const store = yield* SandboxStore
  const limits = yield* Policy
  for (const command of commands) {
    const now = yield* DateTime.now
    yield* store.change(id, "policy", (sandbox: Sandbox) => decide(sandbox, command, { limits, now }), now)
  }
})

export const turnOf = (id: SandboxId, n = 1) => Effect.map(Ids, (ids) => turnId(ids, id, n))

/** A sandbox that runs and whose first turn the agent took. */
export const running = Effect.fnUntraced(function*(key: string, more: object = {}) {
  const id = yield* create(key, more)
  const turn = yield* turnOf(id)
  yield* drive(id, [{ _tag: "StartBoot" }, { _tag: "FinishBoot", turnId: turn }, { _tag: "StartTurn", turnId: turn }])
  return { id, turn }
})

/** One whose first turn is over, and whose trees and conversation were saved then. */
export const saved = Effect.fnUntraced(function*(key: string) {
  const { id, turn } = yield* running(key)
  yield* drive(id, [
    { _tag: "EndTurn", turnId: turn, state: "succeeded" },
    { _tag: "RecordCheckpoint", data: { checkpoint: 1, bytes: 1, ms: 1, repos: [{ repo: "acme/shop", sha: "0".repeat(40) }] } }
  ])
  return id
})

/** A failed sandbox, of which only its checkpoint is left. */
export const failed = Effect.fnUntraced(function*(key: string) {
  const id = yield* saved(key)
  yield* drive(id, [{ _tag: "Fail", reason: "agent_lost", error: "It is gone.", retryable: false }])
  return id
})

/** Stores artifacts of a sandbox that no worker has leased, as a worker would at the end of a turn. Each is one piece. */
export const leave = Effect.fnUntraced(function*(
  id: SandboxId,
  files: ReadonlyArray<{ readonly name: string; readonly bytes: Uint8Array }>,
  leftOut: string | null = null
) {
  const store = yield* ArtifactStore
  const now = yield* DateTime.now
  const taken = yield* (yield* Leases).take({ worker: "harness", machine: "harness" }, { slots: 1000, boots: 1000, errands: 1000 })
  const { lease, sandbox: { grantId } } = taken.find(({ sandbox }) => sandbox.id === id) ?? assert.fail("it is leased already")
  const artifacts: Array<StoredArtifact> = []
  for (const { bytes, name } of files) {
    const piece = {
      holder: `art_${yield* (yield* Ids).random(ID_ALPHABET, 12)}`,
      sha256: createHash("sha256").update(bytes).digest("hex"),
      size: bytes.length
    }
    const { holder } = yield* store.begin(lease, piece, now)
    yield* (yield* Blobs).put({ grantId, ...piece, holder }, Stream.make(bytes))
    const { sha256: sum, size } = piece
    const mediaType = artifactType(name, bytes.subarray(0, ARTIFACT_HEAD_BYTES))
    artifacts.push({ name, mediaType, size, sha256: sum, turnId: yield* turnOf(id), createdAt: now, pieces: [{ ...piece, holder }] })
  }
  yield* store.save(lease, { artifacts, leftOut })
  return artifacts
})

// ---------------------------------------------------------------------------------------------------------------
// Streams

export interface EventReader {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** The next block of the stream, without the blank line that ends it; `null`: it ended. */
  readonly next: Effect.Effect<string | null>
  /** Everything up to the end. */
  readonly rest: Effect.Effect<ReadonlyArray<string>>
  readonly socket: Socket
  pause(): void
  resume(): void
  /** Whether the connection broke off instead of ending. */
  broken(): boolean
}

/** Opens an event stream and reads it block by block. The connection is cut when the scope closes. */
export const openStream = Effect.fnUntraced(function*(path: string, { headers = {}, key }: Pick<Ask, "headers" | "key"> = {}) {
  const to = yield* address
  const [reader] = yield* Effect.acquireRelease(
    Effect.promise(() =>
      new Promise<readonly [EventReader, () => void]>((resolve, reject) => {
        const request = nodeRequest({
          ...to,
          path,
          agent: false,
          headers: { ...(key === undefined ? {} : { authorization: `Bearer ${key}` }), ...headers as Record<string, string> }
        }, (response) => {
          const blocks: Array<string> = []
          let text = ""
          let over = false
          let broken = false
          let tell = () => {}
          response.on("data", (chunk: Buffer) => {
            const parts = (text + chunk.toString("utf8")).split("\n\n")
            text = parts.pop() ?? ""
            blocks.push(...parts)
            tell()
          })
          response.on("error", () => {
            broken = true
          })
          response.on("close", () => {
            over = true
            tell()
          })
          const next = Effect.promise(async () => {
            while (blocks.length === 0 && !over) await new Promise<void>((told) => tell = told)
            return blocks.shift() ?? null
          })
          resolve([{
            status: response.statusCode ?? 0,
            headers: response.headers,
            next,
            rest: Effect.gen(function*() {
              const rest: Array<string> = []
              for (let block = yield* next; block !== null; block = yield* next) rest.push(block)
              return rest
            }),
            socket: response.socket,
            pause: () => response.pause(),
            resume: () => response.resume(),
            broken: () => broken
          }, () => request.destroy()])
        })
        request.on("error", reject)
        request.end()
      })
    ),
    ([, close]) => Effect.sync(close)
  )
  return reader
})

/** The fields of a block; `data` parsed. */
export const fieldsOf = (
  block: string | null
): { readonly id?: string; readonly data?: any; readonly retry?: string; readonly comment?: string } => {
  assert(block !== null, "the stream ended")
  const fields: Record<string, unknown> = {}
  for (const line of block.split("\n")) {
    const [name = "", value = ""] = line.startsWith(":") ? ["comment", line.slice(2)] : line.split(/: (.*)/su)
    assert(!(name in fields), `two lines of ${name}`)
    fields[name] = name === "data" ? JSON.parse(value) : value
  }
  return fields
}
