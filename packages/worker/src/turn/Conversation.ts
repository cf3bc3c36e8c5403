/** The earlier conversation as text, for an agent that has no session to resume. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { type Message, SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { Origin, Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { isActive } from "@slipway/domain/sandbox/rules/Turn"
import { fromWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { Effect, Option } from "effect"
import { untilAvailable } from "../shared/LeasedSandbox.ts"

/** The limit of all messages together, because every request to the model has them. The newest are kept. */
const MAXIMUM_CHARACTERS = 64 * 1024
const PAGE = 200
/** The most forks of forks that are read. */
const MAXIMUM_ORIGINS = 32

const charactersOf = (messages: ReadonlyArray<Message>) => messages.reduce((sum, { text }) => sum + text.length, 0)

/** Part of a log: the events after `after` and before `before`. */
interface Span {
  readonly after: number
  readonly before: number
}

/**
 * The parts of the log that the checkpoint undid (`null`: that the present state undid): the events between a checkpoint and the
 * return to it. Empty for a log that is no longer kept.
 */
const undone = Effect.fnUntraced(function*(id: SandboxId, checkpoint: number | null) {
  const store = yield* SandboxStore
  const taken = new Map<number, { readonly seq: number; readonly undone: ReadonlyArray<Span> }>()
  let spans: ReadonlyArray<Span> = []
  for (let after = 0;;) {
    const page = yield* untilAvailable(store.checkpointLog(id, after, PAGE))
    const last = page.at(-1)
    if (last === undefined) return spans
    after = last.seq
    for (const { seq, wire } of page) {
      const { event } = fromWire(wire)
      if (event.type === "sandbox.checkpoint" && event.data.checkpoint !== undefined) {
        if (event.data.checkpoint === checkpoint) return [...spans, { after: seq, before: Number.POSITIVE_INFINITY }]
        taken.set(event.data.checkpoint, { seq, undone: spans })
      }
      if (event.type === "sandbox.restored" && event.data.checkpoint !== undefined) {
        // A fork without a checkpoint of its own begins again.
        const back = event.data.cause === "fork" ? { seq: 0, undone: [] } : taken.get(event.data.checkpoint)
        if (back !== undefined) spans = [...back.undone, { after: back.seq, before: seq }]
      }
    }
  }
})

/** The newest messages before the first late one, by `isLate`, oldest first. Messages that the checkpoint undid are left out. */
const newest = Effect.fnUntraced(function*(
  id: SandboxId,
  checkpoint: number | null,
  isLate: (message: Message, known: ReadonlyArray<Message>) => boolean
) {
  const store = yield* SandboxStore
  const spans = yield* undone(id, checkpoint)
  let kept: Array<Message> = []
  let after = 0
  for (;;) {
    const page = yield* untilAvailable(store.messages(id, after, PAGE))
    for (const message of page) {
      if (isLate(message, kept)) return kept
      if (spans.every((span) => message.seq <= span.after || message.seq >= span.before)) kept.push(message)
    }
    const last = page.at(-1)
    if (last === undefined) return kept
    after = last.seq
    let characters = 0
    const first = kept.findLastIndex(({ text }) => (characters += text.length) > MAXIMUM_CHARACTERS)
    kept = kept.slice(first + 1)
  }
})

/** The messages of a fork's origin up to the checkpoint. */
const upTo = Effect.fnUntraced(function*(origin: Origin) {
  const checkpoints = yield* Checkpoints
  const [checkpoint] = yield* untilAvailable(checkpoints.list(origin.sandboxId, origin.checkpoint - 1, 1))
  const last = checkpoint?.turnId ?? null
  return yield* newest(
    origin.sandboxId,
    origin.checkpoint,
    ({ turnId }, known) => last === null || turnId !== last && known.some((message) => message.turnId === last)
  )
})

/** The messages of all origins of a fork, each up to the forked checkpoint, oldest first, as many as the limit allows. */
const before = Effect.fnUntraced(function*({ grantId, origin }: Sandbox) {
  const store = yield* SandboxStore
  let told: ReadonlyArray<Message> = []
  let from = origin
  for (let n = 0; from !== null && n < MAXIMUM_ORIGINS && charactersOf(told) <= MAXIMUM_CHARACTERS; n++) {
    told = [...(yield* upTo(from)), ...told]
    const found = yield* Effect.option(untilAvailable(store.find({ grantId, id: from.sandboxId })))
    from = Option.isSome(found) ? found.value.origin : null
  }
  return told
})

const titles = { user: "The person", assistant: "You" }

/** As Markdown; `null`: there are no messages. Without the prompt that the agent gets next. */
export const tell = Effect.fn("Conversation.tell")(function*(sandbox: Sandbox) {
  // It has just begun.
  if (sandbox.turn === null && sandbox.origin === null) return null
  const pending = isActive(sandbox.turn) ? sandbox.turn.id : null
  const messages = [...(yield* before(sandbox)), ...(yield* newest(sandbox.id, null, ({ turnId }) => turnId === pending))]
  let characters = 0
  const first = messages.findLastIndex(({ text }) => (characters += text.length) > MAXIMUM_CHARACTERS)
  const told = messages.slice(first + 1)
  if (told.length === 0) return null
  return [
    "# What was said before\n\nThe files are as this conversation left them. Go on from it; do not answer it again.",
    ...told.map(({ files = [], role, text }) =>
      [`## ${titles[role]}`, text.trim(), ...(files.length === 0 ? [] : [`Files: ${files.map(({ name }) => name).join(", ")}`])]
        .join("\n\n")
    )
  ].join("\n\n")
})
