/**
 * Clients that create sandboxes at a rate, each with a key of its own until it is acknowledged, whatever happens meanwhile. They hold
 * every reply to what is promised of all: an answer in time, and a body that says what is wrong.
 */
import { setTimeout as sleep } from "node:timers/promises"

const API = "/api/public/v1/sandboxes"
/** Ten seconds are promised; a machine that everybody shares gets twice as much. */
const PATIENCE_MILLIS = 20_000
/** Not more than this wait at once for a service that is away. */
const WAITING = 16

export interface Reply {
  /** 0: the connection was refused or lost before there was one. */
  readonly status: number
  readonly text: string
  /** Why there was no reply. */
  readonly cause: string
}

const isError = (text: string) => /^\{"error":\{"code":"\w+","message":".+"\}\}$/su.test(text)

/** One request; what is wrong with its reply goes to `wrong`. */
export const ask = async (wrong: Array<string>, url: string, key: string, address: string, body?: object, idempotencyKey?: string) => {
  const reply = await fetch(url + address, {
    headers: {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey })
    },
    signal: AbortSignal.timeout(PATIENCE_MILLIS),
    ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) })
  }).then(async (answer): Promise<Reply> => ({ status: answer.status, text: await answer.text(), cause: "" })).catch(
    (error: Error): Reply => {
      if (error.name === "TimeoutError") wrong.push(`${address}: no answer within ${PATIENCE_MILLIS / 1000} s`)
      const cause = error.cause instanceof Error && "code" in error.cause ? String(error.cause.code) : error.message
      return { status: 0, text: "", cause }
    }
  )
  if (reply.status === 500) wrong.push(`${address}: 500 ${reply.text.slice(0, 200)}`)
  if (reply.status >= 300 && !isError(reply.text)) wrong.push(`${address}: ${reply.status} with another body: ${reply.text.slice(0, 200)}`)
  return reply
}

export interface Load {
  /** Ids by the key, which is the title as well. */
  readonly created: ReadonlyMap<string, string>
  readonly terminated: ReadonlySet<string>
  readonly wrong: Array<string>
  /** Replies by status, and requests that had none by the reason. */
  readonly replies: ReadonlyMap<string, number>
  /** Nothing more is begun; completes when all that was begun is acknowledged. */
  readonly stop: () => Promise<void>
}

export interface Options {
  /** Looked at for each attempt: a balancer may take one off. */
  readonly urls: ReadonlyArray<string>
  readonly key: string
  readonly perSecond: number
  /** Begins the keys. */
  readonly name: string
  readonly prompt?: string
  /** Each is terminated at once, so that no worker has much to do. */
  readonly terminate?: boolean
}

/** So long after the last fault everything that was begun has to be acknowledged. */
const SETTLE_MILLIS = 30_000

export const start = ({ key, name, perSecond, prompt = "[[say hello]]", terminate = false, urls }: Options): Load => {
  const created = new Map<string, string>()
  const terminated = new Set<string>()
  const wrong: Array<string> = []
  const replies = new Map<string, number>()
  const underWay = new Set<Promise<void>>()
  let over = Number.POSITIVE_INFINITY
  let n = 0

  const insist = async (what: string, first: number, address: string, body: object, idempotencyKey?: string) => {
    for (let attempt = 0; Date.now() < over; attempt++) {
      const reply = await ask(wrong, urls[(first + attempt) % urls.length] ?? "", key, address, body, idempotencyKey)
      const kind = reply.status === 0 ? reply.cause : String(reply.status)
      replies.set(kind, (replies.get(kind) ?? 0) + 1)
      if (reply.status === 200 || reply.status === 201) return reply
      if (![0, 429, 503].includes(reply.status)) {
        wrong.push(`${what}: ${reply.status} ${reply.text.slice(0, 200)}`)
        return null
      }
      await sleep(100 + Math.random() * 200)
    }
    wrong.push(`${what}: not acknowledged ${SETTLE_MILLIS / 1000} s after all was over`)
    return null
  }
  const one = async (title: string, first: number) => {
    const made = await insist(title, first, API, { repos: [{ fullName: "acme/shop" }], prompt, title }, title)
    if (made === null) return
    const { id } = JSON.parse(made.text) as { readonly id: string }
    created.set(title, id)
    if (terminate && await insist(`the end of ${title}`, first, `${API}/${id}/terminate`, {}) !== null) terminated.add(id)
  }
  const began = performance.now()
  const clock = setInterval(() => {
    for (const due = (performance.now() - began) / 1000 * perSecond; n < due; n++) {
      if (underWay.size >= WAITING) continue
      const running = one(`${name}-${n}`, n).finally(() => underWay.delete(running))
      underWay.add(running)
    }
  }, 5)
  return {
    created,
    terminated,
    wrong,
    replies,
    stop: async () => {
      clearInterval(clock)
      over = Date.now() + SETTLE_MILLIS
      await Promise.all(underWay)
    }
  }
}
