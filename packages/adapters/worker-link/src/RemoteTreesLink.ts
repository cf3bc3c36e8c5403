/**
 * `RemoteTrees` over the private endpoints of workers. A request goes to the worker with the sandbox's lease. For a resting sandbox it
 * goes to a worker of its machine. If that machine is gone, or the sandbox has ended, any worker reads its last checkpoint.
 */
import { AgentDisconnected, RemoteTrees, type TreeReader, type LocalTrees } from "@slipway/domain/files/ports/RemoteTrees"
import { type DiffQuery, FileNotFound, OnBehalfOf, type TreeKey } from "@slipway/domain/files/ports/WorkingTrees"
import type { FileSearch } from "@slipway/domain/files/schema/FileSearch"
import * as SharedSecret from "@slipway/postgres/secret-store/SharedSecret"
import { Array as Arr, Clock, Effect, Layer, Option, Schema, Stream } from "effect"
import { randomUUID } from "node:crypto"
import type { IncomingMessage } from "node:http"
import * as LinkAddresses from "./LinkAddresses.ts"
import * as Protocol from "./LinkProtocol.ts"
import { Cut, next, readAll, send, type TimeLimits } from "./LinkRequest.ts"
import { type Endpoint, parse } from "./PrivateAddress.ts"

export interface Options {
  /** The worker in this process, whose trees need no link. */
  readonly own: { readonly worker: string; readonly here: LocalTrees["Service"] } | null
  readonly limits?: Partial<TimeLimits>
}

const LIMITS: TimeLimits = { connectMillis: 2_000, answerMillis: 30_000, idleMillis: 30_000 }

const encodeRequest = Schema.encodeEffect(Schema.fromJsonString(Protocol.Request))

const otherwise = <A2, E2, R2>(other: () => Effect.Effect<A2, E2, R2>) => <A, E, R>(self: Effect.Effect<A, E | Cut, R>) =>
  Effect.catchIf(self, (error): error is Extract<E | Cut, Cut> => error instanceof Cut, other)

/** A worker that can be asked. */
interface Reachable extends LinkAddresses.Candidate {
  readonly endpoint: Endpoint
}

/** `TreeReader` of one worker: fails with `Cut` if another worker may be asked instead. */
type LinkReader = {
  readonly [K in keyof TreeReader]: (
    ...args: Parameters<TreeReader[K]>
  ) => ReturnType<TreeReader[K]> extends Effect.Effect<infer A, infer E, infer R> ? Effect.Effect<A, E | Cut, R>
    : never
}

/** The head of an answer, with the check of its proof. */
interface Answer {
  readonly response: IncomingMessage
  /** `said`: the answer's JSON, or the size of a file. */
  readonly isProven: (said: string) => boolean
}

/** The common parts of requests to workers. */
interface Link extends Pick<Options, "own"> {
  readonly links: Effect.Success<typeof LinkAddresses.make>
  readonly key: Effect.Success<ReturnType<typeof SharedSecret.load>>
  readonly limits: TimeLimits
}

const ask = Effect.fnUntraced(function*(
  { key, limits }: Link,
  endpoint: Endpoint,
  wanted: Omit<Protocol.Request, "at" | "grantId" | "nonce">
) {
  const grantId = yield* OnBehalfOf
  const body = yield* Effect.orDie(encodeRequest({ ...wanted, grantId, at: yield* Clock.currentTimeMillis, nonce: randomUUID() }))
  const proof = Protocol.proofOfRequest(key, body)
  const response = yield* send(endpoint, body, proof, limits)
  const given = response.headers[Protocol.PROOF_HEADER]
  const answer: Answer = {
    response,
    isProven: (said) =>
      typeof given === "string" && Protocol.isSame(Protocol.proofOfAnswer(key, proof, response.statusCode ?? 0, said), given)
  }
  return answer
})

/** Decodes the answer's JSON after checking its proof. */
const decoded = Effect.fnUntraced(function*<A, I>({ limits }: Link, { isProven, response }: Answer, schema: Schema.Codec<A, I>) {
  const said = yield* readAll(response, limits)
  if (!isProven(said)) return yield* new Cut()
  return yield* Effect.mapError(Schema.decodeEffect(Schema.fromJsonString(schema))(said), () => new Cut())
})
const refusal = <A, I>(link: Link, answer: Answer, schema: Schema.Codec<A, I>) => Effect.flatMap(decoded(link, answer, schema), Effect.fail)

const readerAt = (link: Link, { address, endpoint, isOwner, worker }: Reachable): LinkReader => {
  const disconnected = <A, E, R>(self: Effect.Effect<A, E, R>) =>
    Effect.tapError(
      self,
      (error) => error instanceof Cut ? Effect.logWarning("a worker cannot be reached", { worker, address }) : Effect.void
    )
  return {
    list: Effect.fn("RemoteTrees.list")(
      function*(tree: TreeKey, path: string) {
        const answer = yield* ask(link, endpoint, { operation: "list", worker, isOwner, ...tree, path, maximumBytes: 0 })
        if (answer.response.statusCode !== 200) return yield* refusal(link, answer, Protocol.ListRefusal)
        return yield* decoded(link, answer, Protocol.Listing)
      },
      Effect.scoped,
      disconnected
    ),
    changes: Effect.fn("RemoteTrees.changes")(
      function*(tree: TreeKey) {
        const answer = yield* ask(link, endpoint, { operation: "changes", worker, isOwner, ...tree, path: "", maximumBytes: 0 })
        if (answer.response.statusCode !== 200) return yield* refusal(link, answer, Protocol.ChangesRefusal)
        return yield* decoded(link, answer, Protocol.Changes)
      },
      Effect.scoped,
      disconnected
    ),
    search: Effect.fn("RemoteTrees.search")(
      function*(tree: TreeKey, search: FileSearch) {
        const answer = yield* ask(link, endpoint, { operation: "search", worker, isOwner, ...tree, path: "", maximumBytes: 0, search })
        if (answer.response.statusCode !== 200) return yield* refusal(link, answer, Protocol.ChangesRefusal)
        return yield* decoded(link, answer, Protocol.Found)
      },
      Effect.scoped,
      disconnected
    ),
    open: Effect.fn("RemoteTrees.open")(function*(tree: TreeKey, path: string, maximumBytes: number) {
      const answer = yield* ask(link, endpoint, { operation: "open", worker, isOwner, ...tree, path, maximumBytes })
      const { isProven, response } = answer
      if (response.statusCode !== 200) return yield* refusal(link, answer, Protocol.ReadRefusal)
      const size = Number(response.headers["content-length"])
      if (!isProven(String(size))) return yield* new Cut()
      const bytes = Stream.unfold(0, (position) =>
        position === size ? Effect.undefined : Effect.matchEffect(next(response, link.limits), {
          onFailure: () => Effect.fail(new FileNotFound()),
          onSuccess: (chunk) => chunk === null ? Effect.fail(new FileNotFound()) : Effect.succeed([chunk, position + chunk.length] as const)
        }))
      return { size, bytes }
    }, disconnected),
    compare: Effect.fn("RemoteTrees.compare")(
      function*(tree: TreeKey, path: string, maximumBytes: number) {
        const answer = yield* ask(link, endpoint, { operation: "compare", worker, isOwner, ...tree, path, maximumBytes })
        if (answer.response.statusCode !== 200) return yield* refusal(link, answer, Protocol.ReadRefusal)
        return yield* decoded(link, answer, Protocol.Comparison)
      },
      Effect.scoped,
      disconnected
    ),
    diff: Effect.fn("RemoteTrees.diff")(
      function*(tree: TreeKey, { from, isWhole = false, maximumBytes, path = "", to }: DiffQuery) {
        const answer = yield* ask(link, endpoint, { operation: "diff", worker, isOwner, ...tree, path, maximumBytes, from, to, isWhole })
        if (answer.response.statusCode !== 200) return yield* refusal(link, answer, Protocol.DiffRefusal)
        const size = Number(answer.response.headers["content-length"])
        if (!answer.isProven(String(size)) || size > maximumBytes) return yield* new Cut()
        const patch = new Uint8Array(size)
        for (let position = 0; position < size;) {
          const chunk = yield* next(answer.response, link.limits)
          if (chunk === null || position + chunk.length > size) return yield* new Cut()
          patch.set(chunk, position)
          position += chunk.length
        }
        return patch
      },
      Effect.scoped,
      disconnected
    )
  }
}

const reachable = ({ address, ...found }: LinkAddresses.Candidate): ReadonlyArray<Reachable> => {
  const endpoint = parse(address)
  return endpoint === null ? [] : [{ ...found, address, endpoint }]
}

/** Asks one worker after the other until one can be reached. */
const oneOf = (link: Link, places: Arr.NonEmptyReadonlyArray<Reachable>): TreeReader => {
  const [first, ...others] = Arr.map(places, (place) => readerAt(link, place))
  const ask = <A, E, R>(read: (reader: LinkReader) => Effect.Effect<A, E | Cut, R>) =>
    others.reduce((tried, other) => otherwise(() => read(other))(tried), read(first)).pipe(otherwise(() => new AgentDisconnected()))
  return {
    list: (tree, path) => ask(({ list }) => list(tree, path)),
    changes: (tree) => ask(({ changes }) => changes(tree)),
    search: (tree, asked) => ask(({ search }) => search(tree, asked)),
    open: (tree, path, maximumBytes) => ask(({ open }) => open(tree, path, maximumBytes)),
    compare: (tree, path, maximumBytes) => ask(({ compare }) => compare(tree, path, maximumBytes)),
    diff: (tree, asked) => ask(({ diff }) => diff(tree, asked))
  }
}

const reach = Effect.fn("RemoteTrees.reach")(function*(
  link: Link,
  sandbox: Parameters<RemoteTrees["Service"]["reach"]>[0]
) {
  const { links, own } = link
  const { id, status } = sandbox
  const isLive = status === "running"
  // Only the worker that holds the lease knows the present trees.
  const holder = isLive ? Option.getOrNull(yield* links.holder(id)) : null
  if (holder !== null) {
    if (holder.worker === own?.worker) return (yield* own.here.own(id)) ?? (yield* own.here.restored(sandbox))
    const [place] = holder.address === null ? [] : reachable({ ...holder, address: holder.address, isOwner: true })
    return place === undefined ? yield* new AgentDisconnected() : oneOf(link, [place])
  }

  const heard = yield* links.candidates(id)
  const owners = isLive ? heard.filter(({ isOwner }) => isOwner) : []
  if (own !== null && (owners.length === 0 || owners.some(({ worker }) => worker === own.worker))) {
    return (owners.length === 0 ? null : yield* own.here.own(id)) ?? (yield* own.here.restored(sandbox))
  }
  const places = heard.map((one) => ({ ...one, isOwner: isLive && one.isOwner })).flatMap(reachable)
  return Arr.isReadonlyArrayNonEmpty(places) ? oneOf(link, places) : yield* new AgentDisconnected()
})

const make = Effect.fnUntraced(function*({ own, ...options }: Options) {
  const link: Link = {
    own,
    links: yield* LinkAddresses.make,
    key: yield* SharedSecret.load(Protocol.SECRET),
    limits: { ...LIMITS, ...options.limits }
  }
  return RemoteTrees.of({ reach: (sandbox) => reach(link, sandbox) })
})

export const layer = (options: Options) => Layer.effect(RemoteTrees, make(options))
