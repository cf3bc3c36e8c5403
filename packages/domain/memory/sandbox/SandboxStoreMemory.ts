/** `SandboxStore` in memory, with the other ports over the same rows: for tests and for embedding without a database. */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Result from "effect/Result"
import * as Scheduler from "effect/Scheduler"
import { AccessStore } from "../../src/access/ports/AccessStore.ts"
import { AuditLog } from "../../src/access/ports/AuditLog.ts"
import { ArtifactStore } from "../../src/files/ports/ArtifactStore.ts"
import type { SandboxId } from "../../src/ids/SandboxId.ts"
import { FeedbackWatches } from "../../src/publishing/ports/FeedbackWatches.ts"
import { ConcurrencyLimitExceeded, MaxActiveSandboxes } from "../../src/sandbox/ports/ActiveSandboxes.ts"
import { CheckpointNotFound, Checkpoints } from "../../src/sandbox/ports/Checkpoints.ts"
import { Leases } from "../../src/sandbox/ports/Leases.ts"
import { Maintenance } from "../../src/sandbox/ports/Maintenance.ts"
import { PromptFiles } from "../../src/sandbox/ports/PromptFiles.ts"
import { SandboxDashboard } from "../../src/sandbox/ports/SandboxDashboard.ts"
import { OpenedPull, TaskOrganization } from "../../src/sandbox/ports/SandboxFacts.ts"
import {
  Appended,
  type CreationRequest,
  SandboxIdTaken,
  bytesOf,
  CHECKPOINT_TYPES,
  MAX_PUBLISHERS,
  type Writer,
  SandboxStore,
  topicsOf,
  securityEvents,
  conclude,
  deleted,
  summaryOf,
  type ListQuery
} from "../../src/sandbox/ports/SandboxStore.ts"
import { Setups } from "../../src/sandbox/ports/Setups.ts"
import { Workers } from "../../src/sandbox/ports/Workers.ts"
import type { Command } from "../../src/sandbox/rules/Command.ts"
import { type KeyedRequest, resolve, SandboxDeleted } from "../../src/sandbox/rules/Idempotency.ts"
import { Policy } from "../../src/sandbox/rules/Policy.ts"
import { created, dateOf, isSettled, mayDelete, type Origin, publishesTo, type Sandbox } from "../../src/sandbox/rules/Sandbox.ts"
import type { SandboxEvent } from "../../src/sandbox/rules/SandboxEvent.ts"
import { Hints } from "../../src/store/Hints.ts"
import { pageOf } from "../../src/store/Page.ts"
import { MemoryNotifications } from "../partner/MemoryNotifications.ts"
import { MemoryTasks } from "../partner/PartnerStoreMemory.ts"
import * as ArtifactStoreMemory from "./ArtifactStoreMemory.ts"
import * as CheckpointsMemory from "./CheckpointsMemory.ts"
import * as FeedbackWatchesMemory from "./FeedbackWatchesMemory.ts"
import * as LeasesMemory from "./LeasesMemory.ts"
import * as MaintenanceMemory from "./MaintenanceMemory.ts"
import * as PromptFilesMemory from "./PromptFilesMemory.ts"
import * as SandboxDashboardMemory from "./SandboxDashboardMemory.ts"
import * as SandboxRows from "./SandboxRows.ts"
import { isExpired, leased, newestFirst, newRow, type Row, rowOf } from "./SandboxRows.ts"
import * as SetupsMemory from "./SetupsMemory.ts"
import * as WorkersMemory from "./WorkersMemory.ts"

type Kept =
  | ArtifactStore
  | FeedbackWatches
  | PromptFiles
  | SandboxStore
  | SandboxDashboard
  | Leases
  | Maintenance
  | Checkpoints
  | Setups
  | Workers

/** Parts of the layer that its writes use. `null`: not provided. */
interface Dependencies {
  readonly state: SandboxRows.SandboxRows
  readonly hints: Hints["Service"]
  readonly maxActive: number | null
  readonly tasks: MemoryTasks["Service"] | null
  readonly notifications: MemoryNotifications["Service"] | null
  readonly audit: AuditLog["Service"] | null
}

/** No other fiber runs between reading and writing, however long this fiber has run. */
const asTransaction = <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.provideService(self, Scheduler.PreventSchedulerYield, true)

const writable = ({ state }: Dependencies, id: SandboxId, by: Writer) =>
  by === "policy" ? rowOf(state, id) : "grantId" in by ? rowOf(state, id, by.grantId) : leased(state, by)

const scopeOf = (grantId: string, { key }: KeyedRequest, forkOf: SandboxId | null) => `${grantId} ${forkOf ?? ""} ${key}`

const isKept = ({ rows }: SandboxRows.SandboxRows, { checkpoint, sandboxId }: Origin) =>
  rows.get(sandboxId)?.checkpoints.some((kept) => kept.checkpoint === checkpoint) ?? false

const write = Effect.fnUntraced(
  function*(
    { hints, notifications }: Dependencies,
    row: Row,
    events: ReadonlyArray<SandboxEvent>,
    at: DateTime.Utc,
    fence: number | null = null
  ) {
    if (events.length === 0) return
    const before = row.sandbox
    const now = yield* DateTime.now
    const entries = SandboxRows.record(row, events, at, now, fence)
    notifications?.write(row.sandbox, entries, { at: dateOf(before, at), now }, (seq) => row.log.some((entry) => entry.seq === seq))
    yield* hints.publish(topicsOf({ before, events, sandbox: row.sandbox }), new Appended(entries))
  }
)

const replay = Effect.fn("SandboxStore.replay")(
  function*({ state }: Dependencies, grantId: string, keyed: KeyedRequest, forkOf: SandboxId | null) {
    const bound = state.keys.get(scopeOf(grantId, keyed, forkOf))
    if (bound === undefined || isExpired(bound, yield* DateTime.now)) return null
    yield* Effect.fromResult(resolve(bound.fingerprint, keyed))
    if (state.deleted.has(bound.id)) return yield* new SandboxDeleted()
    return (yield* Effect.orDie(rowOf(state, bound.id))).sandbox
  }
)

const matching = ({ rows }: SandboxRows.SandboxRows, grantId: string, { after, repo, status }: ListQuery) =>
  Effect.sync(() =>
    Array.from(rows.values(), ({ sandbox }) => sandbox)
      .filter((sandbox) =>
        sandbox.grantId === grantId &&
        (status === null || sandbox.status === status) &&
        (repo === null || sandbox.repos.some(({ fullName }) => fullName.toLowerCase() === repo.toLowerCase())) &&
        (after === null || newestFirst(after, sandbox) < 0)
      )
      .sort(newestFirst)
  )

const create = Effect.fn("SandboxStore.create")(
  function*(deps: Dependencies, { creation, keyed, trace = null }: CreationRequest) {
    const { audit, maxActive, state, tasks } = deps
    const { keys, rows } = state
    const { origin } = creation
    const forkOf = origin?.sandboxId ?? null
    const known = keyed === null ? null : yield* replay(deps, creation.grantId, keyed, forkOf)
    if (known !== null) return { sandbox: known, replayed: true }
    if (rows.has(creation.id) || state.deleted.has(creation.id)) return yield* new SandboxIdTaken()
    if (origin !== null && !isKept(state, origin)) return yield* new CheckpointNotFound()
    if (maxActive !== null) {
      const active = Array.from(rows.values()).filter(({ sandbox }) => sandbox.grantId === creation.grantId && !isSettled(sandbox.status))
      if (active.length >= maxActive) return yield* new ConcurrencyLimitExceeded({ limit: maxActive })
    }
    const row = newRow(creation)
    if (trace !== null) row.traces.set("", trace)
    rows.set(creation.id, row)
    if (keyed !== null) {
      keys.set(scopeOf(creation.grantId, keyed, forkOf), {
        fingerprint: keyed.fingerprint,
        id: creation.id,
        boundAt: yield* DateTime.now
      })
    }
    const events = created(creation)
    yield* write(deps, row, events, creation.createdAt)
    if (audit !== null) yield* audit.append(securityEvents(creation.id, events, creation.createdAt))
    const organizationId = yield* TaskOrganization
    if (tasks !== null && organizationId !== null) yield* tasks.started(row.sandbox, organizationId)
    return { sandbox: row.sandbox, replayed: false }
  },
  asTransaction
)

const command = Effect.fn("SandboxStore.command")(function*<E>(
  deps: Dependencies,
  { grantId, id }: Parameters<SandboxStore["Service"]["find"]>[0],
  command: Command<E>,
  now: DateTime.Utc,
  keyed?: KeyedRequest,
  trace: string | null = null
) {
  const { audit, state } = deps
  const time = yield* DateTime.now
  const row = yield* rowOf(state, id, grantId)
  const before = row.sandbox
  const bound = keyed === undefined ? undefined : row.keys.get(keyed.key)
  if (keyed !== undefined && bound !== undefined && !isExpired(bound, time)) {
    yield* Effect.fromResult(resolve(bound.fingerprint, keyed))
    const result = { commandId: bound.commandId, revision: bound.revision, outcome: "duplicate" as const }
    return { result, turnId: bound.turnId, before, events: [], sandbox: before }
  }
  const commandId = command.identity(row.sandbox)
  const receipt = row.receipts.get(commandId) ?? null
  const approval = command.approvalId === null ? null : row.approvals.get(command.approvalId) ?? null
  const question = command.questionId === undefined ? null : row.questions.get(command.questionId) ?? null
  const isMessage = command.messageId !== undefined &&
    Array.from(row.receipts.values()).some(({ turnId }) => turnId === command.messageId)
  const verdict = yield* Effect.fromResult(command.decide({ sandbox: row.sandbox, receipt, approval, question, isMessage }))
  const events = verdict.outcome === "applied" ? verdict.events : []
  yield* write(deps, row, events, now)
  if (audit !== null) yield* audit.append(securityEvents(row.sandbox.id, events, now))
  const { keep, result, turnId } = conclude(row.sandbox.revision, commandId, receipt, verdict)
  if (keep !== null) row.receipts.set(commandId, keep)
  if (trace !== null && keep?.turnId != null) row.traces.set(keep.turnId, trace)
  if (keyed !== undefined && keep?.outcome === "applied") {
    row.keys.set(keyed.key, { ...keep, fingerprint: keyed.fingerprint, boundAt: time })
  }
  return { result, turnId, before, events, sandbox: row.sandbox }
}, asTransaction)

const change = Effect.fn("SandboxStore.change")(function*<E>(
  deps: Dependencies,
  id: SandboxId,
  by: Writer,
  decide: (sandbox: Sandbox) => Result.Result<ReadonlyArray<SandboxEvent>, E>,
  now: DateTime.Utc
) {
  const { tasks } = deps
  const row = yield* writable(deps, id, by)
  const before = row.sandbox
  const events = yield* Effect.fromResult(decide(before))
  yield* write(deps, row, events, now, by !== "policy" && "fence" in by ? by.fence : null)
  const opened = yield* OpenedPull
  if (tasks !== null && opened !== null && events.length > 0) yield* tasks.opened(id, opened, now)
  return { before, events, sandbox: row.sandbox }
}, asTransaction)

const remove = Effect.fn("SandboxStore.delete")(
  function*(
    { audit, hints, notifications, state }: Dependencies,
    { grantId, id }: Parameters<SandboxStore["Service"]["find"]>[0],
    now: DateTime.Utc
  ) {
    const row = yield* rowOf(state, id, grantId)
    yield* Effect.fromResult(mayDelete(row.sandbox))
    SandboxRows.bury(state, row, now)
    notifications?.forget(id)
    if (audit !== null) yield* audit.append([deleted(id, now)])
    yield* hints.publish([id])
  },
  asTransaction
)

/** Process-local. State dies with the layer. */
export const layer: Layer.Layer<Kept, never, Hints> = Layer.unwrap(Effect.sync(() => over(SandboxRows.make())))

/** Over rows that other code may read and change too. */
export const over = (state: SandboxRows.SandboxRows): Layer.Layer<Kept, never, Hints> =>
  Layer.effectContext(Effect.gen(function*() {
    const hints = yield* Hints
    const limits = yield* Policy
    const maxActive = yield* MaxActiveSandboxes
    const tasks = Option.getOrNull(yield* Effect.serviceOption(MemoryTasks))
    const notifications = Option.getOrNull(yield* Effect.serviceOption(MemoryNotifications))
    const audit = Option.getOrNull(yield* Effect.serviceOption(AuditLog))
    const access = Option.getOrNull(yield* Effect.serviceOption(AccessStore))
    const { rows } = state

    const deps: Dependencies = { state, hints, maxActive, tasks, notifications, audit }

    const store = SandboxStore.of({
      create: (request) => create(deps, request),

      replay: (grantId, keyed, forkOf) => replay(deps, grantId, keyed, forkOf),

      find: ({ grantId, id }) => Effect.map(rowOf(state, id, grantId), (row) => row.sandbox),

      list: (grantId, query) =>
        Effect.map(matching(state, grantId, query), (found) =>
          pageOf(
            found.map((sandbox) => sandbox.waitingTexts.length === 0 ? sandbox : { ...sandbox, waitingTexts: [] }),
            query.limit,
            bytesOf.sandbox
          )),

      summaries: (grantId, query) =>
        Effect.map(matching(state, grantId, query), (found) => pageOf(found.map(summaryOf), query.limit, bytesOf.summary)),

      log: (id, after, limit) =>
        Effect.sync(() => pageOf((rows.get(id)?.log ?? []).filter(({ seq }) => seq > after), limit, bytesOf.entry)),

      checkpointLog: (id, after, limit) =>
        Effect.sync(() => {
          const log = (rows.get(id)?.log ?? []).filter(({ seq, type }) => seq > after && CHECKPOINT_TYPES.some((one) => one === type))
          return pageOf(log, limit, bytesOf.entry)
        }),

      messages: (id, after, limit) =>
        Effect.sync(() => pageOf((rows.get(id)?.messages ?? []).filter(({ seq }) => seq > after), limit, bytesOf.message)),

      command: (key, asked, now, keyed, trace) => command(deps, key, asked, now, keyed, trace),

      change: (id, by, decide, now) => change(deps, id, by, decide, now),

      delete: (key, now) => remove(deps, key, now),

      traces: (id, turnId) =>
        Effect.sync(() => {
          const traces = rows.get(id)?.traces
          return { creation: traces?.get("") ?? null, turn: turnId === null ? null : traces?.get(turnId) ?? null }
        }),

      approvals: (id, approvalIds) => Effect.sync(() => approvalIds.flatMap((approvalId) => rows.get(id)?.approvals.get(approvalId) ?? [])),

      questions: (id, questionIds) => Effect.sync(() => questionIds.flatMap((questionId) => rows.get(id)?.questions.get(questionId) ?? [])),

      publishers: (repo, branch) =>
        Effect.sync(() =>
          Array.from(rows.values(), ({ sandbox }) => sandbox)
            .filter((sandbox) => publishesTo(sandbox, repo, branch))
            .sort(newestFirst)
            .slice(0, MAX_PUBLISHERS)
            .map(({ grantId, id }) => ({ id, grantId }))
        ),

      purged: (id) => Effect.sync(() => rows.get(id)?.purged ?? 0)
    })

    return Context.make(SandboxStore, store).pipe(
      Context.add(SandboxDashboard, SandboxDashboardMemory.make(state, audit)),
      Context.add(Leases, LeasesMemory.make(state, limits, hints)),
      Context.add(Maintenance, MaintenanceMemory.make(state, limits, access)),
      Context.add(Checkpoints, CheckpointsMemory.make(state)),
      Context.add(Setups, SetupsMemory.make(state)),
      Context.add(FeedbackWatches, FeedbackWatchesMemory.make(state)),
      Context.add(PromptFiles, PromptFilesMemory.make(state)),
      Context.add(ArtifactStore, ArtifactStoreMemory.make(state)),
      Context.add(Workers, WorkersMemory.make(state))
    )
  }))
