/** `SandboxStore` in memory: for tests and for embedding without a database. State dies with the layer. */
import { DateTime, Effect, Layer, Option, Scheduler } from "effect"
import { AuditLog } from "../src/access/AuditLog.ts"
import { Hints } from "../src/Hints.ts"
import type { Uuid } from "../src/Ids.ts"
import { pageOf } from "../src/Page.ts"
import { ConcurrencyLimitExceeded, MaxActiveSandboxes } from "../src/sandbox/ActiveSandboxes.ts"
import type { Approval } from "../src/sandbox/Approval.ts"
import type { Receipt } from "../src/sandbox/Command.ts"
import { resolve, RETENTION_DAYS } from "../src/sandbox/Idempotency.ts"
import { Policy } from "../src/sandbox/Policy.ts"
import { created, evolve, initial, isSettled, type Sandbox, wholeMessage } from "../src/sandbox/Sandbox.ts"
import { type SandboxEvent, toWire } from "../src/sandbox/SandboxEvent.ts"
import {
  SandboxNotFound,
  SandboxIdTaken,
  StaleLease,
  type LogEntry,
  type Message,
  bytesOf,
  type ListPosition,
  type Lease,
  type Claimed,
  type Writer,
  LEASE_SECONDS,
  SandboxStore,
  topicsOf,
  decisions,
  conclude
} from "../src/sandbox/SandboxStore.ts"
import { nextDeadline } from "../src/sandbox/TimeLimit.ts"
import type { SandboxId } from "../src/SandboxId.ts"
import { MemoryTasks } from "./PartnerStoreMemory.ts"

/** Process-local, for tests and for embedding without a database. State dies with the layer. */
export const layer = Layer.effect(
  SandboxStore,
  Effect.gen(function*() {
    const hints = yield* Hints
    const limits = yield* Policy
    const maxActive = yield* MaxActiveSandboxes
    const tasks = Option.getOrNull(yield* Effect.serviceOption(MemoryTasks))
    const audit = Option.getOrNull(yield* Effect.serviceOption(AuditLog))
    const rows = new Map<SandboxId, Row>()
    const keys = new Map<string, { readonly fingerprint: string; readonly id: SandboxId; readonly boundAt: DateTime.Utc }>()

    const rowOf = (id: SandboxId, grantId?: string): Effect.Effect<Row, SandboxNotFound> => {
      const row = rows.get(id)
      return row === undefined || grantId !== undefined && row.sandbox.grantId !== grantId
        ? Effect.fail(new SandboxNotFound())
        : Effect.succeed(row)
    }
    const leased = ({ fence, sandboxId }: Lease): Effect.Effect<Row, StaleLease> => {
      const row = rows.get(sandboxId)
      return row?.fence === fence ? Effect.succeed(row) : Effect.fail(new StaleLease())
    }
    const writable = (id: SandboxId, by: Writer) => by === "policy" ? rowOf(id) : "grantId" in by ? rowOf(id, by.grantId) : leased(by)

    const isExpired = ({ boundAt }: { readonly boundAt: DateTime.Utc }, now: DateTime.Utc) =>
      DateTime.isLessThan(DateTime.add(boundAt, { days: RETENTION_DAYS }), now)

    const record = (row: Row, events: ReadonlyArray<SandboxEvent>, at: DateTime.Utc) => {
      for (const event of events) {
        const before = row.sandbox
        row.sandbox = evolve(before, event, at)
        row.log.push({
          seq: row.sandbox.lastSeq,
          type: event.type,
          wire: toWire(row.sandbox.id, { seq: row.sandbox.lastSeq, at, event })
        })
        remember(row, event, at)
        const whole = wholeMessage(before, event, row.sandbox)
        if (whole !== null) list(row, whole, event.turn_id ?? "", at)
      }
      return events.length === 0 ? Effect.void : hints.publish(topicsOf(row.sandbox.id, events))
    }

    return SandboxStore.of({
      create: Effect.fn("SandboxStore.create")(function*(creation, keyed, refused = null, organizationId) {
        const scope = `${creation.grantId} ${keyed?.key}`
        const time = yield* DateTime.now
        const bound = keyed === null ? undefined : keys.get(scope)
        if (keyed !== null && bound !== undefined && !isExpired(bound, time)) {
          yield* Effect.fromResult(resolve(bound.fingerprint, keyed))
          const row = yield* Effect.orDie(rowOf(bound.id))
          return { sandbox: row.sandbox, replayed: true }
        }
        if (refused !== null) return yield* refused
        if (rows.has(creation.id)) return yield* new SandboxIdTaken()
        if (maxActive !== null) {
          const active = Array.from(rows.values()).filter(({ sandbox }) =>
            sandbox.grantId === creation.grantId && !isSettled(sandbox.status)
          )
          if (active.length >= maxActive) return yield* new ConcurrencyLimitExceeded({ limit: maxActive })
        }
        const row: Row = {
          sandbox: initial(creation),
          log: [],
          receipts: new Map(),
          keys: new Map(),
          approvals: new Map(),
          texts: new Map(),
          messages: [],
          fence: 0,
          leaseUntil: null,
          machine: null,
          agentSession: null,
          purged: 0
        }
        rows.set(creation.id, row)
        if (keyed !== null) keys.set(scope, { fingerprint: keyed.fingerprint, id: creation.id, boundAt: time })
        yield* record(row, created, creation.createdAt)
        if (tasks !== null && organizationId !== undefined) yield* tasks.started(row.sandbox, organizationId)
        return { sandbox: row.sandbox, replayed: false }
      }, asTransaction),

      find: ({ grantId, id }) => Effect.map(rowOf(id, grantId), (row) => row.sandbox),

      list: (grantId, { after, limit, repo, status }) =>
        Effect.sync(() =>
          Array.from(rows.values(), (row) => row.sandbox)
            .filter((sandbox) =>
              sandbox.grantId === grantId &&
              (status === null || sandbox.status === status) &&
              (repo === null || sandbox.repos.some(({ fullName }) => fullName.toLowerCase() === repo.toLowerCase())) &&
              (after === null || newestFirst(after, sandbox) < 0)
            )
            .sort(newestFirst)
        ).pipe(Effect.map((found) => pageOf(found, limit, bytesOf.sandbox))),

      log: (id, after, limit) =>
        Effect.sync(() => pageOf((rows.get(id)?.log ?? []).filter(({ seq }) => seq > after), limit, bytesOf.entry)),

      messages: (id, after, limit) =>
        Effect.sync(() => pageOf((rows.get(id)?.messages ?? []).filter(({ seq }) => seq > after), limit, bytesOf.message)),

      command: Effect.fn("SandboxStore.command")(function*({ grantId, id }, command, now, keyed) {
        const time = yield* DateTime.now
        const row = yield* rowOf(id, grantId)
        const bound = keyed === undefined ? undefined : row.keys.get(keyed.key)
        if (keyed !== undefined && bound !== undefined && !isExpired(bound, time)) {
          yield* Effect.fromResult(resolve(bound.fingerprint, keyed))
          return { commandId: bound.commandId, revision: bound.revision, outcome: "duplicate" as const }
        }
        const commandId = command.identity(row.sandbox)
        const receipt = row.receipts.get(commandId) ?? null
        const approval = command.approvalId === null ? null : row.approvals.get(command.approvalId) ?? null
        const verdict = yield* Effect.fromResult(command.decide({ sandbox: row.sandbox, receipt, approval }))
        if (verdict.outcome === "applied") {
          yield* record(row, verdict.events, now)
          if (audit !== null) yield* audit.append(decisions(row.sandbox.id, verdict.events, now))
        }
        const { keep, result } = conclude(row.sandbox.revision, commandId, receipt, verdict)
        if (keep !== null) row.receipts.set(commandId, keep)
        if (keyed !== undefined && keep?.outcome === "applied") {
          row.keys.set(keyed.key, { ...keep, fingerprint: keyed.fingerprint, boundAt: time })
        }
        return result
      }, asTransaction),

      change: Effect.fn("SandboxStore.change")(function*(id, by, decide, now, opened) {
        const row = yield* writable(id, by)
        const events = yield* Effect.fromResult(decide(row.sandbox))
        yield* record(row, events, now)
        if (tasks !== null && opened !== undefined && events.length > 0) yield* tasks.opened(id, opened, now)
        return row.sandbox
      }, asTransaction),

      approvals: (id, approvalIds) => Effect.sync(() => approvalIds.flatMap((approvalId) => rows.get(id)?.approvals.get(approvalId) ?? [])),

      claim: ({ machine }, limit, ending = limit) =>
        Effect.map(DateTime.now, (now) => {
          const isEnding = ({ sandbox }: Row) => sandbox.status === "terminating"
          const live = Array.from(rows.values()).filter(({ sandbox }) => !isSettled(sandbox.status)).sort((a, b) =>
            newestFirst(b.sandbox, a.sandbox)
          )
          const free = live.filter((row) => {
            if (row.leaseUntil === null) return true
            const until = row.machine === machine ? row.leaseUntil : DateTime.addDuration(row.leaseUntil, limits.lost)
            return DateTime.isLessThanOrEqualTo(until, now)
          })
          // A grant's turns: behind as many as workers hold of it, and behind its own that waited longer.
          const turns = new Map<string, number>()
          const takeTurn = ({ sandbox: { grantId } }: Row) => {
            const turn = (turns.get(grantId) ?? 0) + 1
            turns.set(grantId, turn)
            return turn
          }
          for (const row of live) {
            if (!isEnding(row) && row.leaseUntil !== null && DateTime.isGreaterThan(row.leaseUntil, now)) takeTurn(row)
          }
          const waiting = free.filter((row) => !isEnding(row)).map((row) => ({ row, turn: takeTurn(row) }))
            .sort((a, b) => a.turn - b.turn)
            .map(({ row }) => row)
          return [...free.filter(isEnding).slice(0, ending), ...waiting.slice(0, limit)].map((row): Claimed => {
            const elsewhere = row.machine !== null && row.machine !== machine
            row.fence += 1
            row.leaseUntil = DateTime.add(now, { seconds: LEASE_SECONDS })
            row.machine = machine
            return {
              lease: { sandboxId: row.sandbox.id, fence: row.fence },
              sandbox: row.sandbox,
              agentSession: row.agentSession,
              elsewhere
            }
          })
        }),

      renew: (leases) =>
        Effect.map(DateTime.now, (now) =>
          leases.filter(({ fence, sandboxId }) => {
            const row = rows.get(sandboxId)
            if (row?.fence !== fence) return false
            row.leaseUntil = DateTime.add(now, { seconds: LEASE_SECONDS })
            return true
          })),

      endLeases: (machine) =>
        Effect.map(DateTime.now, (now) => {
          for (const row of rows.values()) if (row.machine === machine && row.leaseUntil !== null) row.leaseUntil = now
        }),

      release: ({ fence, sandboxId }) =>
        Effect.map(DateTime.now, (now) => {
          const row = rows.get(sandboxId)
          if (row?.fence === fence) row.leaseUntil = now
        }),

      saveAgentSession: (lease, agentSession) =>
        Effect.map(leased(lease), (row) => {
          row.agentSession = agentSession
        }),

      now: DateTime.now,

      due: (limit) =>
        Effect.map(DateTime.now, (now) => ({
          now,
          ids: Array.from(rows.values())
            .flatMap(({ sandbox }) => {
              const at = nextDeadline(sandbox, limits)
              return at !== null && DateTime.isLessThanOrEqualTo(at, now) ? [{ at, id: sandbox.id }] : []
            })
            .sort((a, b) => DateTime.Order(a.at, b.at))
            .slice(0, limit)
            .map(({ id }) => id)
        })),

      // Grants are not kept here.
      ofRevokedGrants: () => Effect.succeed([]),

      purged: (id) => Effect.sync(() => rows.get(id)?.purged ?? 0),

      purgeEvents: (endedBefore, limit) =>
        Effect.sync(() => {
          const old = Array.from(rows.values()).filter(({ purged, sandbox: { lastSeq, status, statusAt } }) =>
            purged < lastSeq && isSettled(status) && DateTime.isLessThanOrEqualTo(statusAt, endedBefore)
          ).slice(0, limit)
          for (const row of old) {
            row.log.length = 0
            row.purged = row.sandbox.lastSeq
          }
          return old.length
        }),

      purgeKeys: (limit) =>
        Effect.map(DateTime.now, (now) => {
          let count = 0
          for (const bound of [keys, ...Array.from(rows.values(), (row) => row.keys)]) {
            for (const [key, binding] of bound) if (count < limit && isExpired(binding, now) && bound.delete(key)) count++
          }
          return count
        }),

      over: (ids) =>
        Effect.sync(() =>
          ids.filter((id) => {
            const row = rows.get(id)
            return row === undefined || isSettled(row.sandbox.status)
          })
        ),

      machineOf: (ids) =>
        Effect.sync(() => {
          const counts = new Map<string, number>()
          for (const id of ids) {
            const machine = rows.get(id)?.machine ?? null
            if (machine !== null) counts.set(machine, (counts.get(machine) ?? 0) + 1)
          }
          return Array.from(counts).sort(([, a], [, b]) => b - a)[0]?.[0] ?? null
        }),

      census: Effect.map(DateTime.now, (now) => {
        const live = { queued: 0, creating: 0, running: 0, terminating: 0 }
        let leased = 0
        let oldestQueuedAt: DateTime.Utc | null = null
        let pendingApprovals = 0
        for (const { leaseUntil, sandbox: { approvals, createdAt, status } } of rows.values()) {
          if (status === "succeeded" || status === "failed" || status === "terminated") continue
          live[status]++
          pendingApprovals += approvals.length
          if (leaseUntil !== null && DateTime.isGreaterThan(leaseUntil, now)) leased++
          if (status === "queued" && (oldestQueuedAt === null || DateTime.isLessThan(createdAt, oldestQueuedAt))) {
            oldestQueuedAt = createdAt
          }
        }
        return { live, leased, oldestQueuedAt, pendingApprovals }
      })
    })
  })
)

/** Nothing else runs between what is read and what is written, however busy this fiber was before. */
const asTransaction = <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.provideService(self, Scheduler.PreventSchedulerYield, true)

/** `createdAt`, then `id`, both descending. */
const newestFirst = (a: ListPosition, b: ListPosition): number =>
  DateTime.Order(b.createdAt, a.createdAt) || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0)

interface Row {
  sandbox: Sandbox
  readonly log: Array<LogEntry>
  readonly receipts: Map<Uuid, Receipt>
  readonly keys: Map<string, Receipt & { readonly fingerprint: string; readonly boundAt: DateTime.Utc }>
  readonly approvals: Map<string, Approval>
  /** Text so far by message. */
  readonly texts: Map<string, string>
  readonly messages: Array<Message>
  fence: number
  leaseUntil: DateTime.Utc | null
  machine: string | null
  agentSession: string | null
  purged: number
}

const remember = (row: Row, event: SandboxEvent, createdAt: DateTime.Utc): void => {
  const { lastSeq: seq } = row.sandbox
  const turnId = event.turn_id ?? ""
  switch (event.type) {
    case "approval.requested":
      row.approvals.set(event.data.approval_id, { approvalId: event.data.approval_id, outcome: null, by: null })
      return
    case "approval.resolved":
      row.approvals.set(event.data.approval_id, { approvalId: event.data.approval_id, outcome: event.data.outcome, by: event.data.by })
      return
    case "turn.started":
      row.messages.push({ seq, id: event.data.prompt_id, turnId, role: "user", text: event.data.text, createdAt })
      return
    case "message.updated":
      if (event.data.kind === "text") row.texts.set(event.data.message_id, event.data.text)
      return
  }
}

/** A message of the agent is whole. One that went on afterwards is listed where it was, with all of its text. */
const list = ({ messages, sandbox, texts }: Row, id: string, turnId: string, createdAt: DateTime.Utc): void => {
  const text = texts.get(id)
  if (text === undefined) return
  const listed = messages.findIndex((message) => message.id === id && message.role === "assistant")
  const known = messages[listed]
  if (known === undefined) messages.push({ seq: sandbox.lastSeq, id, turnId, role: "assistant", text, createdAt })
  else messages[listed] = { ...known, text }
}
