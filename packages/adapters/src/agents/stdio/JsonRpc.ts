/** JSON-RPC 2.0 over JSON lines, one request of ours at a time: while it waits, what the agent sends is handled. */
import { Effect, Option, Schema } from "effect"
import type { JsonLines, OutputEnded } from "./JsonLines.ts"

const Id = Schema.Union([Schema.String, Schema.Finite])
/** Names a request of the agent. */
export type RequestId = typeof Id.Type

const Failure = Schema.Struct({ code: Schema.Finite, message: Schema.String, data: Schema.optionalKey(Schema.Unknown) })
const Request = Schema.Struct({ id: Id, method: Schema.String, params: Schema.optionalKey(Schema.Unknown) })
const Notification = Schema.Struct({ method: Schema.String, params: Schema.optionalKey(Schema.Unknown) })
const Refusal = Schema.Struct({ id: Id, error: Failure })
const Reply = Schema.Struct({ id: Id, result: Schema.Unknown })
const Frame = Schema.Union([Request, Notification, Refusal, Reply])
const decode = Schema.decodeUnknownOption(Frame)

/** The agent answered a call with an error of its own. */
export class RpcRefusal extends Schema.TaggedError<RpcRefusal>()("RpcRefusal", {
  method: Schema.String,
  ...Failure.fields
}) {}

export interface Handlers {
  /** Runs before the next frame is looked at. */
  notified(method: string, params: unknown): Effect.Effect<void>
  /** Must see to it that {@link JsonRpc.reply} or {@link JsonRpc.refuse} is called with `id`, now or later. */
  requested(id: RequestId, method: string, params: unknown): Effect.Effect<void>
}

export interface JsonRpc {
  /** Sends a request. Its {@link outcome} must be read before the next one. */
  begin(method: string, params: object): Effect.Effect<void>
  /** Handles frames until the answer to the request is there. After an interruption, {@link settle} reads on. */
  outcome(handlers: Handlers): Effect.Effect<unknown, RpcRefusal | OutputEnded>
  /** Handles frames until no request waits for its answer. */
  settle(handlers: Handlers): Effect.Effect<void, OutputEnded>
  notify(method: string, params: object): Effect.Effect<void>
  reply(id: RequestId, result: object): Effect.Effect<void>
  refuse(id: RequestId, code: number, message: string): Effect.Effect<void>
}

export const METHOD_NOT_FOUND = -32601

export const make = (lines: JsonLines): JsonRpc => {
  let sequence = 0
  /** The request that has no answer yet. */
  let waiting: { readonly id: number; readonly method: string } | null = null

  const send = (frame: object) => lines.send({ jsonrpc: "2.0", ...frame })

  const handle = (frame: typeof Frame.Type, handlers: Handlers): Effect.Effect<void> => {
    if (!("method" in frame)) return Effect.void
    return "id" in frame
      ? handlers.requested(frame.id, frame.method, frame.params)
      : handlers.notified(frame.method, frame.params)
  }

  const outcome = Effect.fnUntraced(function*(handlers: Handlers) {
    while (true) {
      const decoded = decode(yield* lines.receive)
      if (Option.isNone(decoded)) continue
      const frame = decoded.value
      if ("method" in frame || frame.id !== waiting?.id) {
        yield* handle(frame, handlers)
        continue
      }
      const { method } = waiting
      waiting = null
      return "error" in frame ? yield* new RpcRefusal({ method, ...frame.error }) : frame.result
    }
  })

  return {
    begin: (method, params) =>
      Effect.suspend(() => {
        waiting = { id: ++sequence, method }
        // Not waited for: an agent that is busy writing reads only after we have read.
        return Effect.asVoid(Effect.forkChild(send({ ...waiting, params }), { startImmediately: true }))
      }),
    outcome,
    settle: (handlers) =>
      Effect.suspend(() => (waiting === null ? Effect.void : Effect.asVoid(outcome(handlers)))).pipe(
        Effect.catchTag("RpcRefusal", () => Effect.void)
      ),
    notify: (method, params) => send({ method, params }),
    reply: (id, result) => send({ id, result }),
    refuse: (id, code, message) => send({ id, error: { code, message } })
  }
}
