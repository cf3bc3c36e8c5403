/**
 * `RemoteTrees` over the private endpoints of the workers: each request goes to whoever holds the sandbox's lease. At rest, it
 * goes to its machine; where that is gone, and for a sandbox that is over, to any worker, which reads its last checkpoint.
 */
import { AgentDisconnected, RemoteTrees, type TreeReader, type LocalTrees } from "@slipway/domain/files/ports/RemoteTrees"
import { type DiffQuery, FileNotFound, OnBehalfOf, type TreeKey } from "@slipway/domain/files/ports/WorkingTrees"
import * as SharedSecret from "@slipway/postgres/secret-store/SharedSecret"
import { Array as Arr, Clock, Effect, Layer, Option, Schema, Stream } from "effect"
import { randomUUID } from "node:crypto"
import { type IncomingMessage, request as httpRequest } from "node:http"
import * as LinkAddresses from "./LinkAddresses.ts"
import * as Protocol from "./LinkProtocol.ts"
import { type Endpoint, parse } from "./PrivateAddress.ts"

export interface Options {
  /** The worker in this process, whose trees need no link. */
  readonly own: { readonly worker: string; readonly here: LocalTrees["Service"] } | null
  readonly limits?: Partial<TimeLimits>
}

export interface TimeLimits {
  readonly connectMillis: number
  /** From the request until the answer begins. Listing a large tree takes seconds. */
  readonly answerMillis: number
  /** Without a byte, while one is waited for. */
  readonly idleMillis: number
}

const LIMITS: TimeLimits = { connectMillis: 2_000, answerMillis: 30_000, idleMillis: 30_000 }

/** As `WorkingTrees` does. */
const CHUNK_BYTES = 65_536
/** Of an answer that is no file: 5,000 entries of a deep directory, or three texts of a megabyte in JSON. */
const MAX_ANSWER_BYTES = 64 * 2 ** 20

const encodeRequest = Schema.encodeEffect(Schema.fromJsonString(Protocol.Request))

/** The connection broke off, or stood still. */
class Cut extends Schema.TaggedError<Cut>()("Cut", {}) {}

const otherwise = <A2, E2, R2>(other: () => Effect.Effect<A2, E2, R2>) => <A, E, R>(self: Effect.Effect<A, E | Cut, R>) =>
  Effect.catchIf(self, (error): error is Extract<E | Cut, Cut> => error instanceof Cut, other)

/** A worker that may be asked. */
interface Reachable extends LinkAddresses.Candidate {
  readonly endpoint: Endpoint
}

/** As `TreeReader`, of one worker: fails with `Cut` where another one may be asked instead. */
type LinkReader = {
  readonly [K in keyof TreeReader]: (
    ...args: Parameters<TreeReader[K]>
  ) => ReturnType<TreeReader[K]> extends Effect.Effect<infer A, infer E, infer R> ? Effect.Effect<A, E | Cut, R>
    : never
}

/** Sends the request; gives the head of its answer. The connection lasts as long as the scope. */
const send = Effect.fnUntraced(function*({ host, port }: Endpoint, body: string, proof: string, limits: TimeLimits) {
  const request = yield* Effect.acquireRelease(
    Effect.sync(() => {
      const sending = httpRequest({
        host,
        port,
        method: "POST",
        path: Protocol.PATH,
        // None is kept: one that the worker has closed meanwhile would fail the next request.
        agent: false,
        headers: { authorization: proof, "content-type": "application/json", "content-length": Buffer.byteLength(body) }
      })
      // What comes after the answer began is the reader's.
      sending.on("error", () => {})
      return sending
    }),
    (sending) => Effect.sync(() => sending.destroy())
  )
  return yield* Effect.callback<IncomingMessage, Cut>((resume) => {
    const fail = () => resume(Effect.fail(new Cut()))
    let timer = setTimeout(fail, limits.connectMillis)
    request.once("error", fail)
    request.once("socket", (socket) =>
      socket.once("connect", () => {
        clearTimeout(timer)
        timer = setTimeout(fail, limits.answerMillis)
      }))
    request.once("response", (response: IncomingMessage) => {
      clearTimeout(timer)
      response.on("error", () => {})
      resume(Effect.succeed(response))
    })
    request.end(body)
    return Effect.sync(() => clearTimeout(timer))
  })
})

/** The next bytes of an answer, which is read no faster than it is asked for; `null` at its end. */
const next = (response: IncomingMessage, { idleMillis }: TimeLimits) =>
  Effect.callback<Uint8Array | null, Cut>((resume) => {
    const stop = () => {
      clearTimeout(timer)
      response.off("readable", look).off("end", look).off("close", look)
    }
    const done = (result: Effect.Effect<Uint8Array | null, Cut>) => {
      stop()
      resume(result)
    }
    const look = () => {
      const chunk: Buffer | null = response.read(Math.min(response.readableLength, CHUNK_BYTES))
      if (chunk !== null) return done(Effect.succeed(chunk))
      if (response.readableEnded) return done(Effect.succeed(null))
      if (response.destroyed) done(Effect.fail(new Cut()))
    }
    const timer = setTimeout(() => done(Effect.fail(new Cut())), idleMillis)
    response.on("readable", look).on("end", look).on("close", look)
    look()
    return Effect.sync(stop)
  })

const readAll = Effect.fnUntraced(function*(response: IncomingMessage, limits: TimeLimits) {
  const chunks: Array<Uint8Array> = []
  let length = 0
  for (;;) {
    const chunk = yield* next(response, limits)
    if (chunk === null) return Buffer.concat(chunks).toString("utf8")
    length += chunk.length
    if (length > MAX_ANSWER_BYTES) return yield* new Cut()
    chunks.push(chunk)
  }
})

/** An answer's head, with what tells whether it is the worker's. */
interface Answer {
  readonly response: IncomingMessage
  /** Of the answer's JSON, or the size of a file. */
  readonly isProven: (said: string) => boolean
}

const make = Effect.fnUntraced(function*({ own, ...options }: Options) {
  const links = yield* LinkAddresses.make
  const key = yield* SharedSecret.load(Protocol.SECRET)
  const limits = { ...LIMITS, ...options.limits }

  const ask = Effect.fnUntraced(function*(endpoint: Endpoint, wanted: Omit<Protocol.Request, "at" | "grantId" | "nonce">) {
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

  /** The answer's JSON as it is meant. */
  const decoded = Effect.fnUntraced(function*<A, I>({ isProven, response }: Answer, schema: Schema.Codec<A, I>) {
    const said = yield* readAll(response, limits)
    if (!isProven(said)) return yield* new Cut()
    return yield* Effect.mapError(Schema.decodeEffect(Schema.fromJsonString(schema))(said), () => new Cut())
  })
  const refusal = <A, I>(answer: Answer, schema: Schema.Codec<A, I>) => Effect.flatMap(decoded(answer, schema), Effect.fail)

  const readerAt = ({ address, endpoint, isOwner, worker }: Reachable): LinkReader => {
    const disconnected = <A, E, R>(self: Effect.Effect<A, E, R>) =>
      Effect.tapError(
        self,
        (error) => error instanceof Cut ? Effect.logWarning("a worker cannot be reached", { worker, address }) : Effect.void
      )
    return {
      list: Effect.fn("RemoteTrees.list")(
        function*(tree: TreeKey, path: string) {
          const answer = yield* ask(endpoint, { operation: "list", worker, isOwner, ...tree, path, maximumBytes: 0 })
          if (answer.response.statusCode !== 200) return yield* refusal(answer, Protocol.ListRefusal)
          return yield* decoded(answer, Protocol.Listing)
        },
        Effect.scoped,
        disconnected
      ),
      changes: Effect.fn("RemoteTrees.changes")(
        function*(tree: TreeKey) {
          const answer = yield* ask(endpoint, { operation: "changes", worker, isOwner, ...tree, path: "", maximumBytes: 0 })
          if (answer.response.statusCode !== 200) return yield* refusal(answer, Protocol.ChangesRefusal)
          return yield* decoded(answer, Protocol.Changes)
        },
        Effect.scoped,
        disconnected
      ),
      open: Effect.fn("RemoteTrees.open")(function*(tree: TreeKey, path: string, maximumBytes: number) {
        const answer = yield* ask(endpoint, { operation: "open", worker, isOwner, ...tree, path, maximumBytes })
        const { isProven, response } = answer
        if (response.statusCode !== 200) return yield* refusal(answer, Protocol.ReadRefusal)
        const size = Number(response.headers["content-length"])
        if (!isProven(String(size))) return yield* new Cut()
        const bytes = Stream.unfold(0, (position) =>
          position === size ? Effect.undefined : Effect.matchEffect(next(response, limits), {
            onFailure: () => Effect.fail(new FileNotFound()),
            onSuccess: (chunk) =>
              chunk === null ? Effect.fail(new FileNotFound()) : Effect.succeed([chunk, position + chunk.length] as const)
          }))
        return { size, bytes }
      }, disconnected),
      compare: Effect.fn("RemoteTrees.compare")(
        function*(tree: TreeKey, path: string, maximumBytes: number) {
          const answer = yield* ask(endpoint, { operation: "compare", worker, isOwner, ...tree, path, maximumBytes })
          if (answer.response.statusCode !== 200) return yield* refusal(answer, Protocol.ReadRefusal)
          return yield* decoded(answer, Protocol.Comparison)
        },
        Effect.scoped,
        disconnected
      ),
      diff: Effect.fn("RemoteTrees.diff")(
        function*(tree: TreeKey, { from, isWhole = false, maximumBytes, path = "", to }: DiffQuery) {
          const answer = yield* ask(endpoint, { operation: "diff", worker, isOwner, ...tree, path, maximumBytes, from, to, isWhole })
          if (answer.response.statusCode !== 200) return yield* refusal(answer, Protocol.DiffRefusal)
          const size = Number(answer.response.headers["content-length"])
          if (!answer.isProven(String(size)) || size > maximumBytes) return yield* new Cut()
          const patch = new Uint8Array(size)
          for (let position = 0; position < size;) {
            const chunk = yield* next(answer.response, limits)
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

  /** Each of those that are asked, until one can be reached. */
  const oneOf = (places: Arr.NonEmptyReadonlyArray<Reachable>): TreeReader => {
    const [first, ...others] = Arr.map(places, readerAt)
    const ask = <A, E, R>(read: (reader: LinkReader) => Effect.Effect<A, E | Cut, R>) =>
      others.reduce((tried, other) => otherwise(() => read(other))(tried), read(first)).pipe(otherwise(() => new AgentDisconnected()))
    return {
      list: (tree, path) => ask(({ list }) => list(tree, path)),
      changes: (tree) => ask(({ changes }) => changes(tree)),
      open: (tree, path, maximumBytes) => ask(({ open }) => open(tree, path, maximumBytes)),
      compare: (tree, path, maximumBytes) => ask(({ compare }) => compare(tree, path, maximumBytes)),
      diff: (tree, asked) => ask(({ diff }) => diff(tree, asked))
    }
  }

  return RemoteTrees.of({
    reach: Effect.fn("RemoteTrees.reach")(function*(sandbox) {
      const { id, status } = sandbox
      const isLive = status === "running"
      // Nobody but whoever works in them knows how they are.
      const holder = isLive ? Option.getOrNull(yield* links.holder(id)) : null
      if (holder !== null) {
        if (holder.worker === own?.worker) return (yield* own.here.own(id)) ?? (yield* own.here.restored(sandbox))
        const [place] = holder.address === null ? [] : reachable({ ...holder, address: holder.address, isOwner: true })
        return place === undefined ? yield* new AgentDisconnected() : oneOf([place])
      }

      const heard = yield* links.candidates(id)
      const owners = isLive ? heard.filter(({ isOwner }) => isOwner) : []
      if (own !== null && (owners.length === 0 || owners.some(({ worker }) => worker === own.worker))) {
        return (owners.length === 0 ? null : yield* own.here.own(id)) ?? (yield* own.here.restored(sandbox))
      }
      const places = heard.map((one) => ({ ...one, isOwner: isLive && one.isOwner })).flatMap(reachable)
      return Arr.isReadonlyArrayNonEmpty(places) ? oneOf(places) : yield* new AgentDisconnected()
    })
  })
})

export const layer = (options: Options) => Layer.effect(RemoteTrees, make(options))
