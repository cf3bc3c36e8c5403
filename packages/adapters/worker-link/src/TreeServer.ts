/**
 * A worker's private endpoint: serves the trees of this machine and channels into its boxes to the other processes of the
 * database, and its health to supervisors. It listens on loopback or a private network. Requests for trees and channels need the shared
 * secret.
 */
import { AgentDisconnected, LocalTrees } from "@slipway/domain/files/ports/RemoteTrees"
import { OnBehalfOf, type TreeKey } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import * as SharedSecret from "@slipway/postgres/secret-store/SharedSecret"
import { Clock, Duration, Effect, Layer, Option, Schedule, Schema } from "effect"
import { HttpServer, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as ChannelServer from "./channel/ChannelServer.ts"
import * as LinkAddresses from "./LinkAddresses.ts"
import * as Protocol from "./LinkProtocol.ts"
import { type Endpoint, format, resolve } from "./PrivateAddress.ts"
import * as PrivateServer from "./PrivateServer.ts"
import * as WorkerHealth from "./WorkerHealth.ts"

export interface Options {
  /** The worker's name in its leases. */
  readonly worker: string
  readonly machine: string
  /** The address to listen on; port 0: any free port. */
  readonly listen: Endpoint
}

const heard = Duration.seconds(LinkAddresses.HEARD_SECONDS)

const decodeRequest = Schema.decodeUnknownEffect(Schema.fromJsonString(Protocol.Request))
const encodeRefusal = Schema.encodeEffect(Schema.fromJsonString(Protocol.Refusal))
const encodeListing = Schema.encodeEffect(Schema.fromJsonString(Protocol.Listing))
const encodeChanges = Schema.encodeEffect(Schema.fromJsonString(Protocol.Changes))
const encodeFound = Schema.encodeEffect(Schema.fromJsonString(Protocol.Found))
const encodeComparison = Schema.encodeEffect(Schema.fromJsonString(Protocol.Comparison))

const refuse = (status: number) => HttpServerResponse.empty({ status })

/** The handler of every request. */
const answering = Effect.fnUntraced(function*(worker: string) {
  const here = yield* LocalTrees
  const store = yield* SandboxStore
  const key = yield* SharedSecret.load(Protocol.SECRET)
  const health = yield* WorkerHealth.answers

  const readerOf = Effect.fnUntraced(
    function*(sandboxId: SandboxId, grantId: string, isOwner: boolean) {
      const own = isOwner ? yield* here.own(sandboxId) : null
      return own ?? (yield* here.restored(yield* store.find({ grantId, id: sandboxId })))
    },
    Effect.catchTag(["SandboxNotFound", "StoreUnavailable"], () => new AgentDisconnected())
  )

  return Effect.gen(function*() {
    const request = yield* HttpServerRequest.HttpServerRequest
    const healthy = request.method === "GET" ? health.get(request.url) : undefined
    if (healthy !== undefined) return yield* healthy
    if (request.method !== "POST" || request.url !== Protocol.PATH) return refuse(404)
    if (Number(request.headers["content-length"] ?? Infinity) > Protocol.MAX_REQUEST_BYTES) return refuse(413)
    const body = yield* request.text
    const proof = Protocol.proofOfRequest(key, body)
    if (!Protocol.isSame(proof, request.headers["authorization"] ?? "")) return refuse(401)
    const decoded = yield* Effect.option(decodeRequest(body))
    if (Option.isNone(decoded)) return refuse(400)
    const {
      at,
      from = "base",
      grantId = "",
      isOwner = true,
      isWhole = false,
      maximumBytes,
      operation,
      path,
      repo,
      sandboxId,
      search = { text: "", ignoreCase: false },
      to = "working"
    } = decoded.value
    if (Math.abs((yield* Clock.currentTimeMillis) - at) > Protocol.MAX_AGE_MILLIS) return refuse(401)

    const json = (status: number, said: string) =>
      HttpServerResponse.text(said, {
        status,
        contentType: "application/json",
        headers: { [Protocol.PROOF_HEADER]: Protocol.proofOfAnswer(key, proof, status, said) }
      })
    const tree: TreeKey = { sandboxId, repo }
    const answer = Effect.gen(function*() {
      if (decoded.value.worker !== worker) return yield* new AgentDisconnected()
      const trees = yield* readerOf(sandboxId, grantId, isOwner)
      switch (operation) {
        case "list":
          return json(200, yield* Effect.orDie(encodeListing(yield* trees.list(tree, path))))
        case "changes":
          return json(200, yield* Effect.orDie(encodeChanges(yield* trees.changes(tree))))
        case "search":
          return json(200, yield* Effect.orDie(encodeFound(yield* trees.search(tree, search))))
        case "compare":
          return json(200, yield* Effect.orDie(encodeComparison(yield* trees.compare(tree, path, maximumBytes))))
        case "diff": {
          const patch = yield* trees.diff(tree, { from, to, path, isWhole, maximumBytes })
          return HttpServerResponse.uint8Array(patch, {
            contentType: "application/octet-stream",
            headers: { [Protocol.PROOF_HEADER]: Protocol.proofOfAnswer(key, proof, 200, String(patch.length)) }
          })
        }
        case "open": {
          const { bytes, size } = yield* trees.open(tree, path, maximumBytes)
          return HttpServerResponse.stream(bytes, {
            contentType: "application/octet-stream",
            contentLength: size,
            headers: { [Protocol.PROOF_HEADER]: Protocol.proofOfAnswer(key, proof, 200, String(size)) }
          })
        }
      }
    })
    return yield* Effect.catch(
      Effect.provideService(answer, OnBehalfOf, grantId),
      (refusal) => Effect.map(Effect.orDie(encodeRefusal(refusal)), (said) => json(Protocol.REFUSED, said))
    )
  })
})

/** Callers that wait for the database report its failures. */
const surviving = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.ignoreCause(Effect.tapError(self, (error) => Effect.logDebug("the worker's address", error)))

/** Reports the address of the trees until the scope closes. */
const announce = Effect.fnUntraced(function*({ listen, machine, worker }: Options) {
  const { address } = yield* HttpServer.HttpServer
  const links = yield* LinkAddresses.make
  const at = format({ host: listen.host, port: "port" in address ? address.port : listen.port })
  const publish = surviving(links.publish(worker, machine, at))
  yield* publish
  yield* Effect.addFinalizer(() => surviving(links.withdraw(worker)))
  yield* publish.pipe(Effect.repeat(Schedule.spaced(heard)), Effect.forkScoped)
})

/** Serves the trees and channels, and reports their address until the scope closes. */
export const layer = (options: Options) =>
  Layer.unwrap(Effect.gen(function*() {
    const served = { what: "working trees", listen: options.listen, option: "listen" } as const
    const listen = yield* resolve(served)
    const answer = yield* answering(options.worker)
    const channels = yield* ChannelServer.make(options.worker)
    const server = PrivateServer.layer({ ...served, listen }, answer, channels)
    return Layer.effectDiscard(announce({ ...options, listen })).pipe(Layer.provide(server))
  }))
