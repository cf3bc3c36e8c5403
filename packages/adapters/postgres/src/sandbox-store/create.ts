/** Creations, which share statements, and forks. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { ConcurrencyLimitExceeded } from "@slipway/domain/sandbox/ports/ActiveSandboxes"
import { CheckpointNotFound } from "@slipway/domain/sandbox/ports/Checkpoints"
import { TaskOrganization } from "@slipway/domain/sandbox/ports/SandboxFacts"
import { type CreationRequest, SandboxIdTaken, securityEvents, topicsOf } from "@slipway/domain/sandbox/ports/SandboxStore"
import { projectionOf } from "@slipway/domain/sandbox/rules/EventProjection"
import { type KeyedRequest, resolve, SandboxDeleted } from "@slipway/domain/sandbox/rules/Idempotency"
import { workOf } from "@slipway/domain/sandbox/rules/LeaseRules"
import { created, initial, type Origin } from "@slipway/domain/sandbox/rules/Sandbox"
import type { Sandbox } from "@slipway/domain/sandbox/schema/Sandbox"
import { Effect, Exit, Option } from "effect"
import * as Batches from "../sql/Batches.ts"
import { iso } from "../sql/Iso.ts"
import { guard } from "../sql/SqlFailure.ts"
import type { Prepared } from "./rows/Prepared.ts"
import { deadlineOf, encodeColumns } from "./rows/SandboxColumns.ts"
import { countActive, lockGrants } from "./statements/countActive.ts"
import { type boundTo, creationRoute } from "./statements/idempotencyKeys.ts"
import { insertSandboxes, isDeleted, lockCheckpoint } from "./statements/insertSandboxes.ts"
import { selectSandbox } from "./statements/selectSandbox.ts"
import type { Store } from "./Store.ts"

/** Creations that one statement makes. */
const BATCH = 64
/** Characters of JSON in one batch; it may be passed by one request. */
const BATCH_CHARACTERS = 1024 * 1024

/** A store with its prepared lookup of keys. */
export interface CreatingStore extends Store {
  readonly boundTo: ReturnType<typeof boundTo>
}

const prepare = Effect.fnUntraced(function*({ ids, limits }: Store, { creation, keyed, trace = null }: CreationRequest) {
  const events = created(creation)
  const organizationId = yield* TaskOrganization
  const { entries, sandbox } = projectionOf(initial(creation), events, creation.createdAt)
  const { approvals, continues, feedback, publications, usage } = encodeColumns(sandbox)
  const { createdAt, ...fixed } = creation
  const { grantId, id } = creation
  const route = creationRoute(creation.origin?.sandboxId ?? null)
  const key = keyed?.key ?? null
  const row = JSON.stringify({
    ...fixed,
    at: iso(createdAt),
    repoNames: sandbox.repos.map(({ fullName }) => fullName.toLowerCase()),
    status: sandbox.status,
    initiator: sandbox.initiator,
    approvals,
    feedback,
    publications,
    continues,
    environment: Object.keys(sandbox.environment).length === 0 ? null : sandbox.environment,
    mcpServers: sandbox.mcpServers ?? null,
    usage,
    revision: sandbox.revision,
    lastSeq: sandbox.lastSeq,
    logBytes: sandbox.logBytes,
    deadlineAt: deadlineOf(sandbox, limits),
    work: workOf(sandbox),
    entries,
    route,
    key,
    fingerprint: keyed?.fingerprint,
    trace,
    organizationId,
    repo: sandbox.repos[0]?.fullName ?? "",
    eventId: organizationId === null ? null : yield* ids.uuid7
  })
  const prepared: Prepared = {
    id,
    grantId,
    route,
    key,
    row,
    sandbox,
    topics: topicsOf({ before: initial(creation), events, sandbox })
  }
  return prepared
})

/**
 * The creations that the limit leaves no room for. Each counts those before it in the batch. One whose key is bound makes nothing, and
 * needs no room.
 */
const beyondLimit = Effect.fnUntraced(function*({ sql }: Store, prepared: ReadonlyArray<Prepared>, limit: number) {
  yield* lockGrants(sql, prepared)
  const found = new Map((yield* countActive(sql, prepared, limit)).map((row) => [row.id, row]))
  const making = new Map<string, number>()
  return prepared.filter(({ grantId, id }) => {
    const { active = 0n, known = false } = found.get(id) ?? {}
    if (known) return false
    const before = Number(active) + (making.get(grantId) ?? 0)
    if (before >= limit) return true
    making.set(grantId, (making.get(grantId) ?? 0) + 1)
    return false
  })
})

/** The sandbox that was made; `null`: its key is bound. */
type Made = Exit.Exit<Sandbox | null, ConcurrencyLimitExceeded | SandboxIdTaken>

const makeWithin = Effect.fnUntraced(function*(store: Store, prepared: ReadonlyArray<Prepared>) {
  const { hints, maxActive, sql } = store
  const refused = maxActive === null ? [] : yield* beyondLimit(store, prepared, maxActive)
  const made = yield* insertSandboxes(sql, prepared.filter((one) => !refused.includes(one)))
  const topics = prepared.flatMap(({ id, topics }) => made.has(id) ? topics : [])
  if (topics.length > 0) yield* sql.afterCommit(hints.publish([...new Set(topics)]))
  return prepared.map((one): Made =>
    maxActive !== null && refused.includes(one)
      ? Exit.fail(new ConcurrencyLimitExceeded({ limit: maxActive }))
      : Exit.succeed(made.has(one.id) ? one.sandbox : null)
  )
})

/** Makes a batch: one statement, within a transaction only where there is a limit. */
const makeAll = (store: Store, prepared: ReadonlyArray<Prepared>) => {
  const made = store.maxActive === null ? makeWithin(store, prepared) : store.sql.withTransaction(makeWithin(store, prepared))
  if (prepared.length > 1) return made
  return Effect.catchReason(made, "SqlError", "UniqueViolation", () => Effect.succeed([Exit.fail(new SandboxIdTaken()) as Made]))
}

/** Makes one sandbox, together with the others that are created at the same time. */
const makeBatched = (store: Store) =>
  Batches.make({
    client: store.sql,
    run: (prepared: ReadonlyArray<Prepared>) => makeAll(store, prepared),
    most: BATCH,
    underWay: 1,
    weight: { of: ({ row }) => row.length, most: BATCH_CHARACTERS },
    apart: ({ grantId, key, route }) => key === null ? null : `${grantId} ${route} ${key}`
  })

/** The sandbox that the key made, if it is bound to an equal request; `null`: the key is free. */
export const replay = Effect.fnUntraced(
  function*(store: CreatingStore, grantId: string, keyed: KeyedRequest, forkOf: SandboxId | null) {
    const bound = yield* store.boundTo({ grantId, route: creationRoute(forkOf), key: keyed.key })
    if (Option.isNone(bound)) return null
    yield* Effect.fromResult(resolve(bound.value.fingerprint, keyed))
    return (yield* Effect.catchTag(selectSandbox(store, bound.value, false), "SandboxNotFound", () => Effect.fail(new SandboxDeleted())))
      .sandbox
  }
)

/** A transaction of its own: it holds the checkpoint that the fork starts from, so that the checkpoint is not pruned meanwhile. */
const makeFork = (store: CreatingStore, { creation, keyed }: CreationRequest, prepared: Prepared, { checkpoint, sandboxId }: Origin) =>
  store.sql.withTransaction(Effect.gen(function*() {
    const kept = yield* lockCheckpoint(store.sql, sandboxId, checkpoint)
    if (kept.length === 0 || (yield* isDeleted(store.sql, sandboxId))) return yield* new CheckpointNotFound()
    const [outcome = Exit.die("no outcome")] = yield* makeAll(store, [prepared])
    const made = yield* outcome
    if (made !== null) yield* store.audit.append(securityEvents(creation.id, created(creation), creation.createdAt))
    return made
  })).pipe(
    // The checkpoint may have been kept when the key was bound.
    Effect.catchTag("CheckpointNotFound", (error) =>
      Effect.flatMap(
        keyed === null ? Effect.succeed(null) : replay(store, creation.grantId, keyed, sandboxId),
        (known) => known === null ? Effect.fail(error) : Effect.succeed(null)
      )),
    guard
  )

/** `SandboxStore.create`. Call once per store: creations at the same time share a statement. */
export const makeCreate = (store: CreatingStore) => {
  const make = makeBatched(store)
  return Effect.fn("SandboxStore.create")(function*(request: CreationRequest) {
    const { creation, keyed } = request
    const { origin } = creation
    const prepared = yield* prepare(store, request)
    for (;;) {
      const made = yield* origin === null ? make(prepared) : makeFork(store, request, prepared, origin)
      if (made !== null) return { sandbox: made, replayed: false }
      const known = keyed === null ? null : yield* guard(replay(store, creation.grantId, keyed, origin?.sandboxId ?? null))
      // The binding expired between the two statements: the key is free again.
      if (known !== null) return { sandbox: known, replayed: true }
    }
  })
}
