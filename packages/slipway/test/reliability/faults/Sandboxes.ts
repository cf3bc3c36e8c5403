/** Sandboxes of a case, one by one: what it tells them, and what their logs say. Each waits as long as the service is away. */
import { setTimeout as sleep } from "node:timers/promises"

const API = "/api/public/v1/sandboxes"
const PATIENCE_MILLIS = 120_000

interface Told {
  readonly id: string
  readonly type: string
  readonly turn_id?: string
  readonly data: { readonly [name: string]: unknown }
}

export const make = (url: string, key: string) => {
  const call = async (address: string, body?: object): Promise<{ readonly status: number; readonly text: string }> => {
    for (const end = Date.now() + PATIENCE_MILLIS;;) {
      const reply = await fetch(`${url}${API}${address}`, {
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) })
      }).then(async (answer) => ({ status: answer.status, text: await answer.text() })).catch((error) => ({
        status: 0,
        text: String(error)
      }))
      if (![0, 503].includes(reply.status) || Date.now() > end) return reply
      await sleep(100)
    }
  }
  const json = async <A>(address: string, body?: object): Promise<A> => {
    const { status, text } = await call(address, body)
    if (status >= 300 || status === 0) throw new Error(`${address}: ${status} ${text}`)
    return JSON.parse(text) as A
  }
  const log = async (id: string) => {
    const found: Array<Told> = []
    for (let after = "0";;) {
      const page = await json<{ readonly data: ReadonlyArray<Told>; readonly nextCursor: string }>(`/${id}/events?after=${after}`)
      if (page.data.length === 0) return found
      found.push(...page.data)
      after = page.nextCursor
    }
  }
  /** The events of a type as soon as there are `n`. */
  const events = async (id: string, type: string, n: number) => {
    for (const end = Date.now() + PATIENCE_MILLIS; Date.now() < end; await sleep(50)) {
      const all = await log(id)
      const found = all.filter((event) => event.type === type)
      if (found.length >= n) return found
      const failed = all.find((event) => event.type === "sandbox.error")
      if (failed !== undefined) throw new Error(`${id}: ${JSON.stringify(failed.data)}`)
    }
    throw new Error(`${id}: not ${n} times ${type} within ${PATIENCE_MILLIS / 1000} s`)
  }
  return {
    create: async (prompt: string) => (await json<{ readonly id: string }>("", { repos: [{ fullName: "acme/shop" }], prompt })).id,
    /** The id of its turn. */
    send: async (id: string, prompt: string) => (await json<{ readonly turnId: string }>(`/${id}/messages`, { prompt })).turnId,
    interrupt: (id: string) => call(`/${id}/interrupt`, {}),
    event: async (id: string, type: string, n = 1) => void await events(id, type, n),
    /** How turns ended, as soon as so many have. */
    turns: async (id: string, n: number) =>
      (await events(id, "turn.completed", n)).map(({ data, turn_id }) => ({
        turnId: turn_id,
        state: String(data["state"]),
        reason: data["reason"]
      })),
    /** The content of the file; waits as long as it is unknown. */
    file: async (id: string, path: string) => {
      for (const end = Date.now() + PATIENCE_MILLIS;;) {
        const { status, text } = await call(`/${id}/files/download?path=${path}`)
        if (status !== 409 || Date.now() > end) return status === 200 ? text : `${status} ${text}`
        await sleep(100)
      }
    },
    log,
    gaps: async (id: string): Promise<Array<string>> => {
      const numbers = (await log(id)).map((event) => Number(event.id))
      return numbers.every((number, i) => number === i + 1) ? [] : [`the log of ${id}: ${numbers.join(" ")}`]
    }
  }
}
