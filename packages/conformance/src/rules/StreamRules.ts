import { answered, type Block, refused, type Reply } from "../client/Client.ts"
import { digits, fits, holds, is, listOf, nullOr, object, same, text, timestamp } from "../client/Expect.ts"
import type { Box, World } from "../world/World.ts"
import { sandboxShape, tokens } from "./CreationRules.ts"
import { approvalRequest } from "./EventRules.ts"
import { rulesOf } from "./Rule.ts"

const rule = rulesOf("stream", "docs/decisions/5")
const running = { needs: ["repo"] } as const

/** The longest wait of a reader for an event that is due. */
const soon = ({ options: { timeoutMillis } }: World) => timeoutMillis / 6

interface Asked {
  readonly since?: number | string
  readonly lastEventId?: number | string
}

const open = (world: World, box: Box, { lastEventId, since }: Asked = {}) =>
  world.http.stream(`${box.path}/events/stream${since === undefined ? "" : `?since=${since}`}`, {
    key: box.key,
    ...(lastEventId === undefined ? {} : { headers: { "last-event-id": String(lastEventId) } })
  })

const isComment = ({ lines }: Block) => lines.every((line) => line.startsWith(":"))

/** Blocks without comments, up to the first that `last` accepts or the end. */
const read = async (world: World, box: Box, asked: Asked, last: (block: Block) => boolean = () => false) => {
  const { timeoutMillis } = world.options
  const stream = await open(world, box, asked)
  try {
    if (stream.status !== 200) holds(false, "200 to a stream", stream.status)
    const deadline = Date.now() + timeoutMillis
    const blocks: Array<Block> = []
    for (;;) {
      const block = await stream.next(soon(world))
      if (block === null) return { blocks, over: true, headers: stream.headers }
      if (isComment(block)) {
        // A server could send comments forever.
        holds(Date.now() < deadline, `the event that was waited for, within ${timeoutMillis / 1000} s`, "comments alone")
        continue
      }
      blocks.push(block)
      if (last(block)) return { blocks, over: false, headers: stream.headers }
    }
  } finally {
    stream.close()
  }
}

const typeOf = (block: Block | undefined) => block?.data?.at("type").value
const durable = (blocks: ReadonlyArray<Block>) => blocks.filter(({ id }) => id !== undefined)
const envelopes = (blocks: ReadonlyArray<Block>) => durable(blocks).map(({ data }) => data?.value)

/** A transient status, which follows when a reader has caught up. */
const isCaughtUp = (block: Block) => typeOf(block) === "sandbox.status" && block.id === undefined

/** The events that a new reader gets until it has caught up. */
/** The blocks of a stream without a cursor, until it has caught up with the log. */
export const fresh = (world: World, box: Box) => read(world, box, {}, isCaughtUp)

/** The reply of a stream that was refused or is empty. */
const whole = async (world: World, box: Box, asked: Asked): Promise<Reply> => {
  const { lastEventId, since } = asked
  return world.get(box, `/events/stream${since === undefined ? "" : `?since=${since}`}`, {
    headers: lastEventId === undefined ? {} : { "last-event-id": String(lastEventId) }
  })
}

/** The events of `worked` in the list after an id. */
const after = async (world: World, id: number) => (await world.log()).filter((event) => event.id > id).map(({ json }) => json.value)

const headOf = async (world: World) => Number((await world.endedLog()).at(-1)?.id)

/** The rules of this file. */
export const rules = [
  rule(
    "headers",
    "A stream is text/event-stream; charset=utf-8, not stored, not buffered, not compressed.",
    async (world) => {
      const { headers } = await read(world, await world.worked(), {}, () => true)
      const given = ["content-type", "cache-control", "x-accel-buffering", "content-encoding"].map((name) => headers[name])
      same(given, ["text/event-stream; charset=utf-8", "no-store", "no", undefined], "headers")
    },
    running
  ),
  rule("retry", "A stream begins with retry: 2000.", async (world) => {
    for (const asked of [{}, { since: 0 }]) {
      const { blocks } = await read(world, await world.worked(), asked, () => true)
      same(blocks[0]?.lines, ["retry: 2000"], "first block")
    }
  }, running),
  rule(
    "snapshot",
    "A fresh stream begins with a snapshot: the sandbox, its turn, a cursor and pending approvals.",
    async (world) => {
      const { blocks } = await fresh(world, await world.worked())
      const snapshot = blocks[1]
      same(typeOf(snapshot), "snapshot", "first event")
      fits(
        snapshot?.data?.at("data").value,
        object({
          sandbox: sandboxShape,
          turn: nullOr(object({ id: text, state: text })),
          resume_cursor: digits,
          pending_approvals: listOf(approvalRequest)
        }, { optional: { tokens }, open: true }),
        "data of snapshot"
      )
    },
    running
  ),
  rule("snapshot-sandbox", "The snapshot's sandbox equals the sandbox from GET.", async (world) => {
    const { box } = await world.ended()
    const { blocks } = await fresh(world, box)
    same(
      blocks[1]?.data?.at("data").at("sandbox").value,
      answered(await world.get(box), 200, "the sandbox").json.value,
      "sandbox"
    )
  }, running),
  rule("snapshot-cursor", "resume_cursor is the id of the newest event.", async (world) => {
    const { box } = await world.ended()
    const { blocks } = await fresh(world, box)
    same(blocks[1]?.data?.at("data").at("resume_cursor").value, String(await headOf(world)), "resume_cursor")
  }, running),
  rule(
    "snapshot-turn",
    "The snapshot's turn is the newest one with its state, and null before the first.",
    async (world) => {
      const { box, turn } = await world.hanging()
      same(
        (await fresh(world, box)).blocks[1]?.data?.at("data").at("turn").value,
        { id: turn, state: "running" },
        "turn"
      )
      same(
        (await fresh(world, await world.failed())).blocks[1]?.data?.at("data").at("turn").value,
        null,
        "turn of a sandbox that never ran"
      )
    },
    { ...running, source: "docs/decisions/2.2" }
  ),
  rule("snapshot-approvals", "The snapshot has the pending approvals as they were requested.", async (world) => {
    const { approval, box } = await world.pending()
    const requested = (await world.readLog(box)).find(({ data, type }) =>
      type === "approval.requested" && data.at("approval_id").value === approval
    )
    const { blocks } = await fresh(world, box)
    same(blocks[1]?.data?.at("data").at("pending_approvals").value, [requested?.data.value], "pending_approvals")
    same(
      (await fresh(world, await world.worked())).blocks[1]?.data?.at("data").at("pending_approvals").value,
      [],
      "those of a sandbox that asks nothing"
    )
  }, running),
  rule("snapshot-waiting", "The snapshot has the messages that wait, in order and each with its place as it is.", async (world) => {
    const { box } = await world.waiting()
    const turns: Array<string> = []
    for (const prompt of ["Conformance: [[say One.]]", "Conformance: [[say Two.]]", "Conformance: [[say Three.]]"]) {
      const reply = await world.post(box, "/messages", { prompt, whenBusy: "queue" })
      turns.push(answered(reply, 201, "a message that queues").json.at("turnId").string)
    }
    answered(await world.http.ask(`${box.path}/messages/${turns[0]}`, { method: "DELETE" }), 200, "taking a message back")
    const queued = (await world.readLog(box)).filter(({ data, type }) =>
      type === "message.queued" && turns.slice(1).includes(data.at("message_id").string)
    )
    same(
      (await fresh(world, box)).blocks[1]?.data?.at("data").at("waiting_messages").value,
      queued.map(({ data }, i) => ({ ...data.value as object, position: i + 1 })),
      "waiting_messages"
    )
    same(
      (await fresh(world, await world.worked())).blocks[1]?.data?.at("data").at("waiting_messages").value,
      [],
      "those of a sandbox in which nothing waits"
    )
  }, { ...running, source: "docs/decisions/18" }),
  rule("status", "After the snapshot comes a transient sandbox.status that has the status alone.", async (world) => {
    const { blocks } = await fresh(world, await world.worked())
    same([typeOf(blocks[2]), blocks[2]?.id, blocks[2]?.data?.at("data").value], ["sandbox.status", undefined, {
      status: "running"
    }], "second event")
  }, running),
  rule("transient", "Transient events have no id, neither the frame's nor the envelope's.", async (world) => {
    const { id, key } = await world.worked()
    const { blocks } = await fresh(world, await world.worked())
    const envelope = object({
      object: is("sandbox.event"),
      version: is("v1"),
      ts: timestamp,
      sandbox_id: is(id),
      type: text,
      data: object({}, { open: true })
    })
    holds(key !== "" && blocks.length === 3, "retry, snapshot and status", blocks.length)
    for (const block of blocks.slice(1)) {
      same(block.id, undefined, "id of the frame")
      fits(block.data?.value, envelope, "event")
    }
  }, running),
  rule("replay", "since=0 gives the whole log as the list does, and no snapshot.", async (world) => {
    const { blocks } = await read(world, await world.worked(), { since: 0 }, isCaughtUp)
    same(envelopes(blocks), (await world.log()).map(({ json }) => json.value), "events")
    same(blocks.filter((block) => typeOf(block) === "snapshot").length, 0, "number of snapshots")
  }, running),
  rule(
    "caught-up",
    "A stream with a cursor has the transient status once it has reached the newest event, not before.",
    async (world) => {
      const box = await world.worked()
      const head = (await world.log()).at(-1)?.id
      const { blocks } = await read(world, box, { since: 0 }, isCaughtUp)
      same(Number(blocks.at(-2)?.id), head, "id before the transient status")
      same(blocks.at(-1)?.data?.at("data").value, { status: "running" }, "data of the transient status")
    },
    running
  ),
  rule("since", "since=n gives exactly what comes after n.", async (world) => {
    const { blocks } = await read(world, await world.worked(), { since: 5 }, isCaughtUp)
    same(envelopes(blocks), await after(world, 5), "events after 5")
  }, running),
  rule("last-event-id", "Last-Event-ID resumes like since.", async (world) => {
    const log = await world.log()
    const at = log[Math.floor(log.length / 2)]?.id ?? 0
    const last = log.at(-1)?.id
    const { blocks } = await read(world, await world.worked(), { lastEventId: at }, (block) => block.id === String(last))
    same(envelopes(blocks), await after(world, at), `events after ${at}`)
  }, { ...running, source: "docs/interface.md 4.9" }),
  rule("both", "Last-Event-ID beats since.", async (world) => {
    const { blocks } = await read(world, await world.worked(), { since: 2, lastEventId: 7 }, isCaughtUp)
    same(envelopes(blocks), await after(world, 7), "events after 7")
  }, running),
  rule("malformed", "A cursor that is no digits is 400 invalid_cursor, whichever it is.", async (world) => {
    const { box } = await world.ended()
    for (
      const asked of [{ since: "x" }, { since: "-1" }, { since: "" }, { lastEventId: "x" }, { lastEventId: "1.5" }, {
        since: "x",
        lastEventId: 1
      }, { since: 1, lastEventId: "x" }]
    ) {
      refused(await whole(world, box, asked), 400, "invalid_cursor", JSON.stringify(asked))
    }
  }, running),
  rule("ahead", "A cursor ahead of the newest event is 400 invalid_cursor.", async (world) => {
    const { box } = await world.ended()
    const ahead = await headOf(world) + 1
    for (const asked of [{ since: ahead }, { lastEventId: ahead }]) {
      refused(await whole(world, box, asked), 400, "invalid_cursor", JSON.stringify(asked))
    }
  }, running),
  rule(
    "framing",
    "A durable frame is id: and one data: line, the id that of its envelope; there is no event: field.",
    async (world) => {
      const { blocks } = await read(world, await world.worked(), { since: 0 }, isCaughtUp)
      holds(durable(blocks).length > 0, "durable frames", 0)
      for (const block of durable(blocks)) {
        same(block.lines.map((line) => line.split(":", 1)[0]).sort(), ["data", "id"], "fields of a durable frame")
        same(block.id, block.data?.at("id").value, "id of the frame")
      }
    },
    running
  ),
  rule(
    "seam",
    "Snapshot, tail and list agree: nothing is missing and nothing repeated while events happen.",
    async (world) => {
      const box = await world.resting()
      const turn = (await world.post(box, "/messages", { prompt: "Conformance: [[slow 20 20]] [[say End.]]" })).json.at("turnId")
        .string
      const { blocks } = await read(
        world,
        box,
        {},
        (block) => typeOf(block) === "turn.completed" && block.data?.at("turn_id").value === turn
      )
      const cursor = Number(blocks[1]?.data?.at("data").at("resume_cursor").string)
      const log = (await world.readLog(box)).filter(({ id }) => id > cursor)
      const seen = durable(blocks).map(({ id }) => Number(id))
      // The list may have compacted updates of a part; the stream must have all of them.
      same(new Set(seen).size, seen.length, "number of distinct ids")
      same(seen, Array.from({ length: seen.length }, (_, i) => cursor + 1 + i), "ids after the snapshot's cursor")
      const missing = log.map(({ id }) => id).filter((id) => id <= (seen.at(-1) ?? 0) && !seen.includes(id))
      same(missing, [], "events of the list that the stream lacks")
    },
    running
  ),
  rule("live", "What happens shows on an open stream within 2 s.", async (world) => {
    const box = await world.resting()
    const stream = await open(world, box)
    try {
      while (!isCaughtUp(await stream.next(soon(world)) ?? NOTHING));
      const started = Date.now()
      await box.say("Conformance: [[hang]]")
      for (;;) {
        const block = await stream.next(2_000 + soon(world))
        holds(block !== null, "a stream that goes on", block)
        if (block?.id !== undefined) break
      }
      holds(Date.now() - started < 2_000, "an event within 2 s", `${Date.now() - started} ms`)
    } finally {
      stream.close()
    }
  }, running),
  rule("finished-replay", "The stream of a finished sandbox ends after its last event.", async (world) => {
    const { box } = await world.ended()
    const { blocks, over } = await read(world, box, { since: 0 })
    same(envelopes(blocks), (await world.endedLog()).map(({ json }) => json.value), "events")
    same(over, true, "whether the stream ended")
  }, running),
  rule(
    "finished-fresh",
    "A fresh stream of a finished sandbox is snapshot, status, retry: 30000, and ends.",
    async (world) => {
      const { box } = await world.ended()
      const { blocks } = await read(world, box, {})
      same(
        blocks.map((block) => block.retry ?? typeOf(block)),
        ["2000", "snapshot", "sandbox.status", "30000"],
        "blocks"
      )
    },
    running
  ),
  rule("finished-resume", "Resuming a finished sandbox at its newest event is 204 without a body.", async (world) => {
    const { box } = await world.ended()
    const head = await headOf(world)
    for (const asked of [{ since: head }, { lastEventId: head }]) {
      const reply = answered(await whole(world, box, asked), 204, JSON.stringify(asked))
      same(reply.text, "", "body")
    }
  }, running),
  rule("heartbeat", "A silent stream has the comment : hb every 15 s.", async (world) => {
    const box = await world.worked()
    const stream = await open(world, box, { since: (await world.log()).at(-1)?.id ?? 0 })
    try {
      for (;;) {
        const block = await stream.next(world.options.heartbeatMillis)
        holds(block !== null, "a stream that goes on", block)
        if (block !== null && isComment(block)) return same(block.lines, [": hb"], "comment")
      }
    } finally {
      stream.close()
    }
  }, { needs: ["repo", "slow"] })
]

const NOTHING: Block = { lines: [], id: undefined, data: undefined, retry: undefined }
