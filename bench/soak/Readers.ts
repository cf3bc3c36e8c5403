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
