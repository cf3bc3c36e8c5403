/** Readers of event streams, each of one sandbox from its first event until the stream ends, wherever it is cut in between. */
import { createHash } from "node:crypto"
import { setTimeout as sleep } from "node:timers/promises"
import type { Random } from "./Random.ts"

const API = "/api/public/v1/sandboxes"

/** The events of one sandbox that one reader saw: digests by number. */
export interface Seen {
  readonly sandboxId: string
  readonly events: Map<number, string>
  /** The stream said that nothing more comes. */
  isWhole: boolean
}

export const digestOf = (event: string): string => createHash("sha1").update(event).digest("base64")

export interface Readers {
  readonly seen: ReadonlyArray<Seen>
  readonly wrong: Array<string>
  /** Streams that were cut before their end, and resumed. */
  readonly resumed: () => number
  readonly open: () => number
  readonly follow: () => Promise<void>
}

export const make = (
  urls: ReadonlyArray<string>,
  apiKey: string,
  ids: ReadonlyArray<string>,
  isOver: () => boolean,
  random: Random
): Readers => {
  const seen: Array<Seen> = []
  const wrong: Array<string> = []
  let [resumed, open] = [0, 0]

  const take = (mine: Seen, frame: string) => {
    const id = /^id: (\d+)$/mu.exec(frame)?.[1]
    if (id === undefined) return
    const seq = Number(id)
    const data = frame.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n")
    if (seq !== mine.events.size + 1) wrong.push(`${mine.sandboxId}: ${seq} came after ${mine.events.size}`)
    mine.events.set(seq, digestOf(data))
  }
  /** One connection. Whether the sandbox has nothing more to say. */
  const read = async (mine: Seen): Promise<boolean> => {
    const reply = await fetch(`${random.pick(urls)}${API}/${mine.sandboxId}/events/stream?since=${mine.events.size}`, {
      headers: { authorization: `Bearer ${apiKey}` }
    })
    if (reply.status === 204) return true
    if (reply.status !== 200 || reply.body === null) {
      await reply.body?.cancel()
      if (![429, 502, 503].includes(reply.status)) wrong.push(`stream of ${mine.sandboxId}: ${reply.status}`)
      return false
    }
    open++
    try {
      let rest = ""
      for await (const chunk of reply.body.pipeThrough(new TextDecoderStream())) {
        const frames = (rest + chunk).split("\n\n")
        rest = frames.pop() ?? ""
        for (const frame of frames) take(mine, frame)
      }
      // Ended or cut: the next one says which.
      return false
    } finally {
      open--
    }
  }

  return {
    seen,
    wrong,
    resumed: () => resumed,
    open: () => open,
    follow: async () => {
      const mineAlready = new Set<string>()
      while (!isOver()) {
        // The newest sandboxes have most events, and no reader reads the same one twice.
        const sandboxId = random.pick(ids.slice(-12).filter((id) => !mineAlready.has(id)).concat(""))
        if (sandboxId === "") {
          await sleep(200)
          continue
        }
        mineAlready.add(sandboxId)
        const mine: Seen = { sandboxId, events: new Map(), isWhole: false }
        seen.push(mine)
        while (!mine.isWhole && !isOver()) {
          const before = mine.events.size
          mine.isWhole = await read(mine).catch(() => false)
          if (!mine.isWhole) {
            resumed++
            // A stream of a sandbox that is over ends and is asked for again: then it says that it is whole.
            await sleep(mine.events.size > before ? 50 : 300)
          }
        }
      }
    }
  }
}

/** Asks the database. */
export type Rows = (text: string) => Promise<ReadonlyArray<Record<string, unknown>>>

/** Each log counts from 1 without gaps, and is what readers saw. */
export const logs = async (rows: Rows, seen: ReadonlyArray<Seen>): Promise<Array<string>> => {
  const wrong: Array<string> = []
  const known = new Map<string, Map<number, string>>()
  /** After which events a log was whole: somebody may terminate what had failed, and then more comes. */
  const ends = new Map<string, Array<number>>()
  for (
    const { sandbox_id, seq, type, wire } of await rows("SELECT sandbox_id, seq, type, wire FROM sandbox_events ORDER BY sandbox_id, seq")
  ) {
    const [id, number, event] = [String(sandbox_id), Number(seq), String(wire)]
    known.set(id, (known.get(id) ?? new Map<number, string>()).set(number, digestOf(event)))
    if (type === "sandbox.status" && /"status":"(?:succeeded|failed|terminated)"/u.test(event)) {
      ends.set(id, [...ends.get(id) ?? [], number])
    }
  }
  for (const [id, log] of known) {
    const numbers = [...log.keys()]
    if (numbers.some((seq, i) => seq !== i + 1)) wrong.push(`the log of ${id} has gaps: ${numbers.join(" ")}`)
  }
  for (const { events, isWhole, sandboxId } of seen) {
    const log = known.get(sandboxId)
    for (const [seq, digest] of events) {
      if (log?.get(seq) !== digest) wrong.push(`a reader saw another event ${seq} of ${sandboxId} than its log has`)
    }
    if (isWhole && ends.get(sandboxId)?.includes(events.size) !== true) {
      wrong.push(`a reader was told that it had all of ${sandboxId}, with ${events.size} of ${log?.size}`)
    }
  }
  return wrong
}
