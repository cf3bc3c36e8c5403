/** People who use the service: each makes sandboxes, decides on tool calls, writes, downloads, publishes and terminates. */
import { setTimeout as sleep } from "node:timers/promises"
import type { Random } from "../../packages/slipway/testing/Random.ts"

const API = "/api/public/v1/sandboxes"
/** The content of the file that the agent of this sandbox wrote. */
const markOf = (key: string) => `written for ${key}`
/** So long anything may take that the service has promised. Faults come every few seconds; a machine is given up after 10 s and a lease. */
const PATIENCE_MILLIS = 240_000

export interface Told {
  readonly id: string
  readonly type: string
  readonly data: { readonly [name: string]: unknown }
}

export interface Reply {
  /** 0: there was none. */
  readonly status: number
  readonly text: string
}

/** The requests that the service acknowledged. */
export interface Acknowledged {
  readonly key: string
  readonly id: string
  readonly turns: Set<string>
  readonly approvals: Map<string, "approve" | "deny">
  published: boolean
  terminated: boolean
}

export interface People {
  readonly acknowledged: ReadonlyMap<string, Acknowledged>
  /** Ids of sandboxes, the newest last. */
  readonly ids: ReadonlyArray<string>
  /** Violations: each ends the soak. */
  readonly wrong: Array<string>
  /** Statuses that were answered, and how often. */
  readonly statuses: ReadonlyMap<number, number>
  readonly downloads: () => number
  /** Goes on until no new work begins, then ends its own work. */
  readonly work: (name: string) => Promise<void>
}

export const make = (urls: ReadonlyArray<string>, apiKey: string, isOver: () => boolean, random: Random): People => {
  const acknowledged = new Map<string, Acknowledged>()
  const ids: Array<string> = []
  const wrong: Array<string> = []
  const statuses = new Map<number, number>()
  let downloads = 0

  const ask = async (address: string, body?: object, headers: Record<string, string> = {}): Promise<Reply> => {
    const reply = await fetch(random.pick(urls) + API + address, {
      headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json", ...headers },
      signal: AbortSignal.timeout(60_000),
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) })
    }).then(async (reply) => ({ status: reply.status, text: await reply.text() }), () => ({ status: 0, text: "" }))
    statuses.set(reply.status, (statuses.get(reply.status) ?? 0) + 1)
    if (reply.status === 500) wrong.push(`${body === undefined ? "GET" : "POST"} ${address}: 500 ${reply.text}`)
    if (reply.status >= 400 && !/^\{"error":\{"code":"\w+","message":".+"\}\}$/su.test(reply.text)) {
      wrong.push(`${address}: ${reply.status} has another body: ${reply.text.slice(0, 200)}`)
    }
    return reply
  }
  /** Tries until it is answered with one of these; what is neither these nor trouble of the moment is wrong. */
  const insist = async (what: string, accepted: ReadonlyArray<number>, attempt: () => Promise<Reply>): Promise<Reply | null> => {
    for (const end = Date.now() + PATIENCE_MILLIS; Date.now() < end; await sleep(200 + random.below(300))) {
      const reply = await attempt()
      if (accepted.includes(reply.status)) return reply
      if (![0, 429, 500, 502, 503].includes(reply.status)) {
        wrong.push(`${what}: ${reply.status} ${reply.text.slice(0, 300)}`)
        return null
      }
    }
    wrong.push(`${what}: not within ${PATIENCE_MILLIS / 1000} s`)
    return null
  }

  const log = new Map<string, Array<Told>>()
  const follow = async (id: string) => {
    const known = log.get(id) ?? []
    log.set(id, known)
    const reply = await insist(`events of ${id}`, [200], () => ask(`/${id}/events?after=${known.at(-1)?.id ?? 0}`))
    if (reply !== null) known.push(...(JSON.parse(reply.text) as { readonly data: ReadonlyArray<Told> }).data)
    return known
  }
  const isSettled = (events: ReadonlyArray<Told>) =>
    events.some(({ data, type }) => type === "sandbox.status" && ["succeeded", "failed", "terminated"].includes(String(data["status"])))

  /** Until the turn is over, deciding on what it asks for. Whether it succeeded. */
  const turn = async (sandbox: Acknowledged, n: number): Promise<boolean> => {
    for (const end = Date.now() + PATIENCE_MILLIS; Date.now() < end; await sleep(100 + random.below(200))) {
      const events = await follow(sandbox.id)
      for (const { data, type } of events) {
        const approvalId = String(data["approval_id"])
        if (type !== "approval.requested" || sandbox.approvals.has(approvalId)) continue
        const decision = random.next() < 0.8 ? "approve" : "deny"
        // 409 `approval_resolved`: a lost machine or an interrupt decided before.
        const reply = await insist(
          `decision on ${approvalId}`,
          [200, 409],
          () => ask(`/${sandbox.id}/approvals/${approvalId}`, { decision })
        )
        if (reply?.status === 200) sandbox.approvals.set(approvalId, decision)
      }
      const over = events.filter(({ type }) => type === "turn.completed")
      if (over.length >= n) return over.at(-1)?.data["state"] === "succeeded"
      if (isSettled(events)) return false
    }
    wrong.push(`turn ${n} of ${sandbox.id}: not over within ${PATIENCE_MILLIS / 1000} s`)
    return false
  }

  const one = async (key: string) => {
    const file = `notes/${key}.txt`
    const prompt = random.pick([
      `[[write path=${file} content=${markOf(key)}]] [[say done]]`,
      `[[write path=${file} content=${markOf(key)}]] [[slow 20 100]]`,
      `[[slow 5 100]] [[shell mkdir -p notes && echo ${markOf(key)} > ${file}]]`
    ])
    const body = {
      repos: [{ fullName: "acme/shop" }],
      prompt,
      title: key,
      toolApprovalMode: random.next() < 0.4 ? "prompt" : "auto",
      metadata: { soak: key }
    }
    const made = await insist(`creation ${key}`, [200, 201], () => ask("", body, { "idempotency-key": key }))
    if (made === null) return
    const { id } = JSON.parse(made.text) as { readonly id: string }
    const sandbox: Acknowledged = { key, id, turns: new Set(), approvals: new Map(), published: false, terminated: false }
    acknowledged.set(id, sandbox)
    ids.push(id)

    let succeeded = await turn(sandbox, 1)
    const alive = async () => !isSettled(await follow(id))
    if (random.next() < 0.5 && await alive()) {
      // 409: the sandbox ended meanwhile, or its turn was not over.
      const sent = await insist(
        `message to ${id}`,
        [200, 201, 409],
        () => ask(`/${id}/messages`, { prompt: `[[shell echo again >> again.txt]] [[slow 5 50]]` }, { "idempotency-key": `${key}-more` })
      )
      if (sent !== null && sent.status < 300) {
        sandbox.turns.add(String((JSON.parse(sent.text) as { readonly turnId: unknown }).turnId))
        succeeded = await turn(sandbox, 2) && succeeded
      }
    }
    const read = await insist(`download of ${id}`, [200, 404, 409], () => ask(`/${id}/files/download?path=${file}`))
    if (read?.status === 200) {
      downloads++
      if (read.text.trim() !== markOf(key)) wrong.push(`${id}: the file of ${key} says ${read.text.slice(0, 100)}`)
    }
    if (random.next() < 0.6 && await alive()) {
      // 409: there is nothing to publish, or the sandbox ended.
      const told = await insist(`publication of ${id}`, [200, 409], () => ask(`/${id}/pull-request`, {}))
      sandbox.published = told?.status === 200
      for (const end = Date.now() + PATIENCE_MILLIS; sandbox.published;) {
        const status = await insist(`pull request of ${id}`, [200], () => ask(`/${id}/pull-request`))
        if (status === null) break
        const { actionState, pullRequest } = JSON.parse(status.text) as { readonly actionState: string; readonly pullRequest: unknown }
        if (pullRequest !== null) break
        // Idle without a pull request: there was nothing to publish.
        if (actionState === "failed" || actionState === "idle" || Date.now() > end) {
          const events = await follow(id)
          // Changes that a lost machine took, or a denied tool call never made, cannot be published. A machine may take the sandbox too.
          const isTaken = events.some(({ data, type }) => type === "sandbox.restored" && data["cause"] === "machine_lost")
          if (Date.now() > end || succeeded && !isSettled(events) && !isTaken) {
            const told = JSON.stringify(events.filter(({ type }) => type === "pull_request.updated"))
            wrong.push(`${id}: its publication is ${actionState}: ${told}`)
          }
          sandbox.published = false
          break
        }
        await sleep(300)
      }
    }
    const ended = await insist(`termination of ${id}`, [200], () => ask(`/${id}/terminate`, {}))
    sandbox.terminated = ended !== null
  }

  return {
    acknowledged,
    ids,
    wrong,
    statuses,
    downloads: () => downloads,
    work: async (name) => {
      for (let n = 1; !isOver(); n++) {
        await one(`${name}-${n}`).catch((error: unknown) => wrong.push(`${name}-${n}: ${String(error)}`))
      }
    }
  }
}
