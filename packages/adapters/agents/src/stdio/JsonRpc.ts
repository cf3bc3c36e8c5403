/** JSON-RPC 2.0 over JSON lines. Each frame is handled completely before the next is read. */
import { Effect, Option, Result, Schema } from "effect"
import { type JsonLines, NativeId, type OutputEnded } from "./JsonLines.ts"

const Id = Schema.Union([NativeId, Schema.Finite])
/** The id of a request, of ours or of the agent. */
export type RequestId = typeof Id.Type

const Failure = Schema.Struct({ code: Schema.Finite, message: Schema.String, data: Schema.optionalKey(Schema.Unknown) })
const Request = Schema.Struct({ id: Id, method: Schema.String, params: Schema.optionalKey(Schema.Unknown) })
const Notification = Schema.Struct({ method: Schema.String, params: Schema.optionalKey(Schema.Unknown) })
const Refusal = Schema.Struct({ id: Id, error: Failure })
const Reply = Schema.Struct({ id: Id, result: Schema.Unknown })
const Frame = Schema.Union([Request, Notification, Refusal, Reply])
const decode = Schema.decodeUnknownOption(Frame)

/** The agent answered a request with an error. */
export class RpcRefusal extends Schema.TaggedError<RpcRefusal>()("RpcRefusal", {
  method: Schema.String,
  ...Failure.fields
}) {}

const MAX_REASON_CHARACTERS = 300

const decodeMessage = Schema.decodeUnknownOption(Schema.Struct({ message: Schema.String }))

/** An agent's text as a reason that can be stored and shown. */
export const reason = (text: string): string =>
  text.toWellFormed().replaceAll("\0", "").trim().slice(0, MAX_REASON_CHARACTERS).toWellFormed()

/** The message of a refusal. Agents put the useful sentence into `data` or its `message`. */
export const describe = ({ data, message }: RpcRefusal): string =>
  reason(typeof data === "string" ? data : Option.getOrElse(decodeMessage(data), () => ({ message })).message)

export interface Handlers {
  notified(method: string, params: unknown): Effect.Effect<void>
  /** Must arrange that {@link JsonRpc.reply} or {@link JsonRpc.refuse} is called with `id`, now or later. */
  requested(id: RequestId, method: string, params: unknown): Effect.Effect<void>
  /** The answer to a {@link JsonRpc.request}, once for each request. */
  answered(id: RequestId, answer: Result.Result<unknown, RpcRefusal>): Effect.Effect<void>
}

export interface JsonRpc {
  /** Sends a request. Its answer comes with a later {@link next}. */
  request(method: string, params: object): Effect.Effect<RequestId>
  /** Reads one frame and handles it. A frame that is not a protocol message is dropped. */
  next(handlers: Handlers): Effect.Effect<void, OutputEnded>
  /** Sends a request and handles frames until its answer arrives. */
  call(method: string, params: object, handlers: Handlers): Effect.Effect<unknown, RpcRefusal | OutputEnded>
  notify(method: string, params: object): Effect.Effect<void>
  reply(id: RequestId, result: object): Effect.Effect<void>
  refuse(id: RequestId, code: number, message: string): Effect.Effect<void>
}

export const METHOD_NOT_FOUND = -32601

/** `envelope` is added to every frame: some agents omit the protocol's own. */
export const make = (lines: JsonLines, envelope: object = { jsonrpc: "2.0" }): JsonRpc => {
  let sequence = 0
  /** Methods of the unanswered requests. */
  const waiting = new Map<RequestId, string>()

  const send = (frame: object) => lines.send({ ...envelope, ...frame })

  const request = (method: string, params: object) =>
    Effect.suspend(() => {
      const id = ++sequence
      waiting.set(id, method)
      // Does not wait: a busy agent reads only after we have read.
      return Effect.as(Effect.forkChild(send({ id, method, params }), { startImmediately: true }), id)
    })

  const next = Effect.fnUntraced(function*(handlers: Handlers) {
    const decoded = decode(yield* lines.receive)
    if (Option.isNone(decoded)) return
    const frame = decoded.value
    if ("method" in frame) {
      return yield* "id" in frame
        ? handlers.requested(frame.id, frame.method, frame.params)
        : handlers.notified(frame.method, frame.params)
    }
    const method = waiting.get(frame.id)
    if (method === undefined) return
    waiting.delete(frame.id)
    yield* handlers.answered(
      frame.id,
      "error" in frame ? Result.fail(new RpcRefusal({ method, ...frame.error })) : Result.succeed(frame.result)
    )
  })

  return {
    request,
    next,
    call: Effect.fnUntraced(function*(method: string, params: object, handlers: Handlers) {
      const wanted = yield* request(method, params)
      let outcome: Result.Result<unknown, RpcRefusal> | undefined
      const listening: Handlers = {
        ...handlers,
        answered: (id, answer) => id === wanted ? Effect.sync(() => (outcome = answer)) : handlers.answered(id, answer)
      }
      while (outcome === undefined) yield* next(listening)
      return yield* Effect.fromResult(outcome)
    }),
    notify: (method, params) => send({ method, params }),
    reply: (id, result) => send({ id, result }),
    refuse: (id, code, message) => send({ id, error: { code, message } })
  }
}
