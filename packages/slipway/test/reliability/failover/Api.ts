/** The requests of these tests to the service. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { type Server, until } from "../../commands/SlipwayProcess.ts"

export interface Told {
  readonly id: string
  readonly type: string
  readonly turn_id?: string
  readonly data: { readonly [name: string]: unknown }
}

interface Pull {
  readonly actionState: string
  readonly pullRequest: { readonly number: number } | null
}

export interface Api {
  readonly create: (body: object) => Effect.Effect<string>
  readonly send: (id: string, prompt: string) => Effect.Effect<void>
  /** Waits for the turn that runs. */
  readonly queue: (id: string, prompt: string) => Effect.Effect<void>
  readonly status: (id: string) => Effect.Effect<string>
  readonly log: (id: string) => Effect.Effect<ReadonlyArray<Told>>
  /** Waits for the n-th event of the type. */
  readonly event: (id: string, type: string, n?: number) => Effect.Effect<void>
  readonly restore: (id: string, checkpoint: number) => Effect.Effect<void>
  readonly setup: (id: string) => Effect.Effect<{ readonly state: string; readonly cache: string }>
  readonly approve: (id: string, approvalId: string) => Effect.Effect<void>
  readonly terminate: (id: string) => Effect.Effect<void>
  readonly publish: (id: string) => Effect.Effect<void>
  readonly pull: (id: string) => Effect.Effect<Pull>
  /** Waits until the file can be read, and reads it. */
  readonly file: (id: string, path: string) => Effect.Effect<string>
}

export const make = ({ key, url }: Pick<Server, "key" | "url">): Api => {
  const call = (address: string, body?: object) =>
    Effect.promise(() =>
      fetch(`${url}/api/public/v1/sandboxes${address}`, {
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) })
      })
    )
  const json = Effect.fnUntraced(function*<A>(address: string, body?: object) {
    const reply = yield* call(address, body)
    const said: A = yield* Effect.promise(() => reply.json() as Promise<A>)
    assert.isTrue(reply.ok, `${address}: ${reply.status} ${JSON.stringify(said)}`)
    return said
  })
  const log = Effect.fnUntraced(function*(id: string) {
    const found: Array<Told> = []
    for (let after = "0";;) {
      const { data, nextCursor } = yield* json<{ readonly data: ReadonlyArray<Told>; readonly nextCursor: string }>(
        `/${id}/events?after=${after}`
      )
      if (data.length === 0) return found
      found.push(...data)
      after = nextCursor
    }
  })
  return {
    create: (body) => Effect.map(json<{ readonly id: string }>("", { repos: [{ fullName: "acme/shop" }], ...body }), ({ id }) => id),
    send: (id, prompt) => Effect.asVoid(json(`/${id}/messages`, { prompt })),
    queue: (id, prompt) => Effect.asVoid(json(`/${id}/messages`, { prompt, whenBusy: "queue" })),
    status: (id) => Effect.map(json<{ readonly status: string }>(`/${id}`), ({ status }) => status),
    log,
    event: (id, type, n = 1) => Effect.asVoid(until(log(id), (events) => events.filter((event) => event.type === type).length >= n)),
    restore: (id, checkpoint) => Effect.asVoid(json(`/${id}/restore`, { checkpoint })),
    setup: (id) => json(`/${id}/setup`),
    approve: (id, approvalId) => Effect.asVoid(json(`/${id}/approvals/${approvalId}`, { decision: "approve" })),
    terminate: (id) => Effect.asVoid(json(`/${id}/terminate`, {})),
    publish: (id) => Effect.asVoid(json(`/${id}/pull-request`, {})),
    pull: (id) => json<Pull>(`/${id}/pull-request`),
    file: (id, path) =>
      Effect.flatMap(
        until(call(`/${id}/files/download?path=${path}`), ({ status }) => status !== 409),
        (reply) => Effect.promise(() => reply.text())
      )
  }
}
