/** While processes of two versions run: the earlier one knows neither what a sandbox needs a worker for, nor what may move. */
import { assert, it } from "@effect/vitest"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { isUnsaved, type Work, workOf } from "@slipway/domain/sandbox/rules/LeaseRules"
import { initial, type Publication, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { SandboxStatus } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { Turn, TurnState } from "@slipway/domain/sandbox/schema/Turn"
import { ActionState } from "@slipway/domain/source/schema/PullRequest"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { creation } from "@slipway/testing/histories/Histories"
import { DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import * as AccessStorePostgres from "../src/access-store/AccessStorePostgres.ts"
import * as HintsPostgres from "../src/HintsPostgres.ts"
import * as LeasesPostgres from "../src/leases/LeasesPostgres.ts"
import { database } from "./Stores.ts"

const layer = LeasesPostgres.layer.pipe(
  Layer.provideMerge(Access.layer.pipe(Layer.provide(AccessStorePostgres.layer))),
  Layer.provideMerge(HintsPostgres.layer),
  Layer.provideMerge(IdsNode.layer),
  Layer.provideMerge(database())
)

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const turn = (state: TurnState): Turn => ({
  n: 1,
  id: "t",
  prompt: "p",
  authorId: "u",
  state,
  startedAt: null,
  interruptRequested: false
})
const publication = (actionState: ActionState): Publication => ({
  repo: "acme/shop",
  actionState,
  number: null,
  headSha: null,
  state: null,
  draft: null,
  merged: null,
  error: null
})
const publications = [[], ...ActionState.literals.map((state) => [publication(state)]), [publication("idle"), publication("updating")]]

/** Sandboxes of every kind that the rule looks at, also those that no history leads to. */
const states: ReadonlyArray<Sandbox> = SandboxStatus.literals.flatMap((status) =>
  [null, ...TurnState.literals].flatMap((state) =>
    publications.flatMap((published) =>
      [true, false].flatMap((owesCheckpoint) =>
        [null, 3].map((restoring) => ({
          ...initial(creation),
          status,
          turn: state === null ? null : turn(state),
          publications: published,
          owesCheckpoint,
          restoring
        }))
      )
    )
  )
)

/** As a row has it. */
const stored = Schema.encodeSync(Schema.NullOr(Turn))

/** Sandboxes of every kind that `isUnsaved` looks at. */
const keepings: ReadonlyArray<Sandbox> = [null, ...TurnState.literals].flatMap((state) =>
  [[1, null], [1, at], [2, null], [2, at]].flatMap(([n, startedAt]) =>
    [[0, null], [3, null], [0, { sandboxId: creation.id, checkpoint: 1 }]].flatMap(([checkpoint, origin]) =>
      [true, false].flatMap((owesCheckpoint) =>
        [true, false].map((pinned) =>
          ({
            ...initial(creation),
            turn: state === null ? null : { ...turn(state), n, startedAt },
            checkpoint,
            origin,
            owesCheckpoint,
            pinned
          }) as Sandbox
        )
      )
    )
  )
)

/** As the store wrote it before it knew the new columns. */
const insertAsBefore = Effect.fnUntraced(function*(id: string) {
  const sql = yield* SqlClient.SqlClient
  const { grant } = yield* (yield* Access).createGrant(`grant of ${id}`)
  yield* sql`
    INSERT INTO sandboxes (
      id, grant_id, created_by, created_at, title, repos, repo_names, prompt, model, agent_runtime, tool_approval_mode, metadata,
      status, initiator, status_at, approvals, publications, usage, revision, last_seq, log_bytes
    ) VALUES (${id}, ${grant.id}, 'u', now(), 't', '[]', '{}', 'p', 'offline/demo', 'opencode', 'prompt', '{}', 'queued', 'user', now(),
      '[]', '[]', '{"llmRequestCount": 0, "costMicroUsd": 0, "creditsChargedMicros": 0}', 1, 1, 0)`
})
const writeAsBefore = Effect.fnUntraced(
  function*(id: string, { publications, status, turn }: Pick<Sandbox, "publications" | "status" | "turn">) {
    const sql = yield* SqlClient.SqlClient
    yield* sql`
    UPDATE sandboxes SET status = ${status}, turn = ${turn === null ? null : JSON.stringify(turn)}::jsonb,
      publications = ${JSON.stringify(publications)}::jsonb, last_seq = last_seq + 1 WHERE id = ${id}`
  }
)
const workIn = Effect.fnUntraced(function*(id: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly work: Work | null; readonly since: Date | null }>`
    SELECT work, work_since AS since FROM sandboxes WHERE id = ${id}`
  return { work: row?.work ?? null, since: row?.since?.getTime() ?? null }
})

it.layer(layer)("beside an earlier version", (it) => {
  it.effect("the database says what the domain does of every state", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ readonly work: Work | null }>`
        SELECT work_of(s.status, s.turn, s.publications, s.restoring, s."owesCheckpoint") AS work
        FROM jsonb_to_recordset(${JSON.stringify(states.map((state, n) => ({ ...state, turn: stored(state.turn), n })))}::jsonb)
          AS s(status text, turn jsonb, publications jsonb, restoring integer, "owesCheckpoint" boolean, n integer) ORDER BY n`
      assert.strictEqual(rows.length, states.length)
      assert.isAbove(states.length, 1000)
      assert.deepStrictEqual(rows.map(({ work }) => work), states.map(workOf))
    }))

  it.effect("the database says what the domain does of what would be lost with a machine", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ readonly unsaved: boolean }>`
        SELECT is_unsaved(s.turn, s.checkpoint, s.origin, s."owesCheckpoint", s.pinned) AS unsaved
        FROM jsonb_to_recordset(${JSON.stringify(keepings.map((sandbox, i) => ({ ...sandbox, turn: stored(sandbox.turn), i })))}::jsonb)
          AS s(turn jsonb, checkpoint integer, origin jsonb, "owesCheckpoint" boolean, pinned boolean, i integer) ORDER BY i`
      assert.strictEqual(rows.length, keepings.length)
      assert.deepStrictEqual(rows.map(({ unsaved }) => unsaved), keepings.map(isUnsaved))
    }))

  it.effect("what that writes is given a worker, and none once it is at rest", () =>
    Effect.gen(function*() {
      const id = "c_222222222222"
      yield* insertAsBefore(id)
      const made = yield* workIn(id)
      assert.strictEqual(made.work, "boot")
      assert.isNotNull(made.since)
      yield* writeAsBefore(id, { status: "running", turn: turn("running"), publications: [] })
      assert.deepStrictEqual(yield* workIn(id), { work: "turn", since: made.since })
      yield* writeAsBefore(id, { status: "running", turn: turn("succeeded"), publications: [] })
      assert.deepStrictEqual(yield* workIn(id), { work: null, since: null })
      yield* writeAsBefore(id, { status: "running", turn: turn("succeeded"), publications: [publication("publishing")] })
      const again = yield* workIn(id)
      assert.strictEqual(again.work, "errand")
      assert.isAbove(again.since ?? 0, made.since ?? 0)
    }))

  it.effect("what that takes is its own: it was given up before", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const leases = yield* Leases
      const ample = { slots: 100, boots: 100, errands: 100 }
      const id = "c_333333333333"
      yield* insertAsBefore(id)
      const taken = yield* leases.take({ worker: "new", machine: "one" }, ample)
      const lease = taken.find(({ sandbox }) => sandbox.id === id)?.lease ?? assert.fail("not leased")
      yield* leases.release(lease, { mayMove: true })
      // Live sandboxes without a lease.
      yield* sql`
        UPDATE sandboxes SET fence = fence + 1, worker = 'old', machine = 'two', lease_until = now() + make_interval(secs => 30)
        WHERE id IN (
          SELECT id FROM sandboxes WHERE status IN ('queued', 'creating', 'running')
            AND (lease_until IS NULL OR lease_until <= now() AND machine = 'one') AND id = ${id} FOR UPDATE SKIP LOCKED)`
      yield* leases.release({ ...lease, fence: lease.fence + 1 })
      assert.deepStrictEqual(yield* leases.take({ worker: "new", machine: "one" }, ample), [])
    }))

  it.effect("what that takes has its files where that took it: where they were before is forgotten", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const leases = yield* Leases
      const id = "c_444444444444"
      const take = Effect.fnUntraced(function*(machine: string) {
        const taken = yield* leases.take({ worker: "new", machine }, { slots: 100, boots: 100, errands: 100 })
        return taken.find(({ sandbox }) => sandbox.id === id) ?? assert.fail("not leased")
      })
      yield* insertAsBefore(id)
      yield* leases.release((yield* take("home")).lease, { mayMove: true })
      const { lease, moved } = yield* take("other")
      assert.strictEqual(moved, "drained")
      yield* leases.release(lease)
      yield* sql`
        UPDATE sandboxes SET fence = fence + 1, worker = 'old', machine = 'third', lease_until = now() - make_interval(secs => 1)
        WHERE id = ${id}`
      const third = yield* take("third")
      assert.isNull(third.moved)
      yield* leases.release(third.lease, { mayMove: true })
      const home = yield* take("home")
      assert.strictEqual(home.moved, "drained")
      yield* leases.release(home.lease, { mayMove: true })
      assert.isNull((yield* take("third")).moved)
    }))
})
