/** Clients that create and terminate sandboxes as fast as they are answered, and keep what the service acknowledged. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"

const API = "/api/public/v1/sandboxes"

interface Reply {
  /** 0: there was none. */
  readonly status: number
  /** The fields that are read here; other tests check the whole shape. */
  readonly said: {
    readonly id?: string
    readonly status?: string
    readonly data?: ReadonlyArray<{ readonly id: string; readonly type: string }>
    readonly nextCursor?: string
  }
}

const ask = (url: string, key: string, path: string, body?: unknown) =>
  Effect.promise(async (signal): Promise<Reply> => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" }
    const request = body === undefined ? { headers, signal } : { headers, signal, method: "POST", body: JSON.stringify(body) }
    try {
      const reply = await fetch(url + path, request)
      return { status: reply.status, said: await reply.json() }
    } catch {
      return { status: 0, said: {} }
    }
  })

export const create = (url: string, key: string, prompt: string) =>
  Effect.map(ask(url, key, API, { repos: [{ fullName: "acme/shop" }], prompt }), ({ said, status }) => {
    assert.strictEqual(status, 201)
    return String(said.id)
  })

/** Interrupts the turn that runs. */
export const interrupt = (url: string, key: string, id: string) =>
  Effect.map(ask(url, key, `${API}/${id}/interrupt`, {}), ({ said, status }) => assert.isBelow(status, 300, JSON.stringify(said)))

/** The types of the sandbox's events so far. */
export const types = (url: string, key: string, id: string) =>
  Effect.map(ask(url, key, `${API}/${id}/events?limit=100`), ({ said }) => (said.data ?? []).map(({ type }) => type))

export interface Acknowledged {
  readonly created: Set<string>
  readonly terminated: Set<string>
}

export const nothing = (): Acknowledged => ({ created: new Set(), terminated: new Set() })

/** Goes on until it is interrupted, at the service whose address is `url()` now. Every third sandbox is terminated. */
export const work = (url: () => string, key: string, { created, terminated }: Acknowledged) =>
  Effect.gen(function*() {
    const made = yield* ask(url(), key, API, { repos: [{ fullName: "acme/shop" }], prompt: "[[say hello]]" })
    if (made.status !== 201) return yield* Effect.sleep("20 millis")
    const id = made.said.id ?? ""
    created.add(id)
    if (created.size % 3 !== 0) return
    const ended = yield* ask(url(), key, `${API}/${id}/terminate`, {})
    if (ended.status >= 200 && ended.status < 300) terminated.add(id)
  }).pipe(Effect.forever)

/** Acknowledged work that is lost, and each sandbox whose log does not count from 1 without gaps. */
export const lost = Effect.fnUntraced(function*(url: string, key: string, { created, terminated }: Acknowledged) {
  const wrong: Array<string> = []
  for (const id of created) {
    const { said, status } = yield* ask(url, key, `${API}/${id}`)
    if (status !== 200) {
      wrong.push(`${id} was acknowledged, and is answered with ${status}`)
      continue
    }
    if (terminated.has(id) && !["terminating", "terminated"].includes(said.status ?? "")) wrong.push(`${id}: its termination is lost`)
    const numbers: Array<number> = []
    for (let after = 0;;) {
      const page = yield* ask(url, key, `${API}/${id}/events?after=${after}`)
      if (page.status !== 200) wrong.push(`the log of ${id} is answered with ${page.status}`)
      const events = page.said.data ?? []
      if (events.length === 0) break
      numbers.push(...events.map((event) => Number(event.id)))
      after = Number(page.said.nextCursor)
    }
    if (numbers.length === 0 || numbers.some((number, i) => number !== i + 1)) wrong.push(`the log of ${id}: ${numbers.join(" ")}`)
  }
  return wrong
})
