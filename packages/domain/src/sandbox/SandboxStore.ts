/**
 * Port: where sandboxes, their log, their commands and their leases live. Every write is one transaction under the
 * lock of its sandbox. Checked by `testing/SandboxStoreContract`.
 */
import { Context, DateTime, Effect, Layer, Option, type Result, Scheduler, Schema } from "effect"
import { AuditLog, type SecurityEvent } from "../access/AuditLog.ts"
import { Hints, type Topic, WORK } from "../Hints.ts"
import type { Uuid } from "../Ids.ts"
import { pageOf } from "../Page.ts"
import type { Pull } from "../partner/Attribution.ts"
import { MemoryTasks } from "../partner/PartnerStore.ts"
import type { RepoName } from "../source/RepoRef.ts"
import type { RepoNotAccessible } from "../source/SourceHost.ts"
import { utf8Length } from "../Text.ts"
import { ConcurrencyLimitExceeded, MaxActiveSandboxes } from "./ActiveSandboxes.ts"
import type { Approval } from "./Approval.ts"
import type { Command, CommandResult, Receipt, Verdict } from "./Command.ts"
import { type IdempotencyConflict, type KeyedRequest, resolve, RETENTION_DAYS } from "./Idempotency.ts"
import { Policy } from "./Policy.ts"
import { type Creation, created, evolve, initial, isSettled, type Sandbox, wholeMessage } from "./Sandbox.ts"
import { type SandboxEvent, type SandboxStatus, toWire } from "./SandboxEvent.ts"
import type { SandboxId } from "./SandboxId.ts"
import type { SpendingRefused } from "./Spending.ts"
import { nextDeadline } from "./TimeLimit.ts"

/** No sandbox has this id, or it is another grant's. Callers must not be able to tell which. */
export class SandboxNotFound extends Schema.TaggedError<SandboxNotFound>()("SandboxNotFound", {}) {
  override get message() {
    return "No such sandbox."
  }
}

/** The id is taken. Draw another one. */
export class SandboxIdTaken extends Schema.TaggedError<SandboxIdTaken>()("SandboxIdTaken", {}) {}

/** The lease is another worker's by now. Nothing was written; stop working for this sandbox. */
export class StaleLease extends Schema.TaggedError<StaleLease>()("StaleLease", {}) {}

/**
 * The store cannot answer now (connection lost, lock timeout). The same call may succeed later. Nothing was written, unless
 * the connection was lost at the commit: then only the answer may be missing.
 */
export class StoreUnavailable extends Schema.TaggedError<StoreUnavailable>()("StoreUnavailable", {
  cause: Schema.Defect()
}) {
  override get message() {
    return "The store is not available."
  }
}

/** One event of the public log. `wire` is its JSON as every reader gets it. */
export interface LogEntry {
  readonly seq: number
  readonly type: SandboxEvent["type"]
  readonly wire: string
}

/** One prompt, or one message of the agent in full. `seq` is the event by which it was whole: see `wholeMessage`. */
export interface Message {
  readonly seq: number
  readonly id: string
  readonly turnId: string
  readonly role: "user" | "assistant"
  readonly text: string
  readonly createdAt: DateTime.Utc
}

/** Bytes of what of an entry, a message, a sandbox can be large: what their pages are measured by. */
export const bytesOf = {
  entry: ({ wire }: LogEntry): number => utf8Length(wire),
  message: ({ text }: Message): number => utf8Length(text),
  sandbox: ({ approvals, metadata, prompt, publications, repos, title, turn }: Sandbox): number =>
    utf8Length(prompt) + utf8Length(turn?.prompt ?? "") +
    utf8Length(JSON.stringify([approvals, metadata, publications, repos, title]))
}

/** Position in a list that is ordered by `createdAt`, then `id`, both descending. */
export interface ListPosition {
  readonly createdAt: DateTime.Utc
  readonly id: SandboxId
}

/** Which sandboxes of a grant to list, newest first. */
export interface ListQuery {
  readonly after: ListPosition | null
  /** At least 1. */
  readonly limit: number
  readonly status: SandboxStatus | null
  /** Matches any of a sandbox's repositories, whatever the case. */
  readonly repo: RepoName | null
}

/** A worker's right to work for a sandbox until the lease runs out. Every write carries `fence`; a newer lease has a higher one. */
export interface Lease {
  readonly sandboxId: SandboxId
  readonly fence: number
}

/** A sandbox a worker may work for from now on. */
export interface Claimed {
  readonly lease: Lease
  readonly sandbox: Sandbox
  /** The agent's own session id, when an earlier worker got as far. */
  readonly agentSession: string | null
  /** Whether the trees and the box of a lost worker are on another machine. */
  readonly elsewhere: boolean
}

/** Who leases sandboxes. */
export interface Worker {
  /** Unique per process. */
  readonly worker: string
  /** The machine whose disk holds the working trees; outlives the process. */
  readonly machine: string
}

/** What is live at a moment, in all grants together. */
export interface Census {
  /** Sandboxes by the statuses that are not settled. */
  readonly live: Readonly<Record<"queued" | "creating" | "running" | "terminating", number>>
  /** Of those, the ones that a worker holds a lease of. */
  readonly leased: number
  /** When the longest waiting one of those queued was created; `null`: none is queued. */
  readonly oldestQueuedAt: DateTime.Utc | null
  /** Tool calls that wait for a person. */
  readonly pendingApprovals: number
}

/** Who changes a sandbox: a worker under its lease, a request of a grant, or the service's own rules. */
export type Writer = Lease | { readonly grantId: string } | "policy"

/** Durations of leases: long enough for a pause, short enough for a takeover that people do not notice. */
export const LEASE_SECONDS = 30
/** How often a worker renews its leases: three chances before one runs out. */
export const LEASE_RENEWAL_SECONDS = 10

type ById = { readonly grantId: string; readonly id: SandboxId }

/** Checked by `testing/SandboxStoreContract`. `StoreUnavailable`: retrying helps, and is safe everywhere. */
export class SandboxStore extends Context.Service<SandboxStore, {
  /**
   * Records a new sandbox with its first event, and the key when there is one: all or nothing. A key that is bound to
   * an equal request gives the sandbox as it is now, `replayed`, whatever `MaxActiveSandboxes` says; a new one never
   * makes the grant's active sandboxes more than that, however many are created at once. `refused`: why there may be no
   * new one; a replay is answered all the same. `organizationId`: the grant's. If its creator has a touch there, the task's
   * start is told to partners with it.
   */
  create(
    creation: Creation,
    keyed: KeyedRequest | null,
    refused?: SpendingRefused | RepoNotAccessible | null,
    organizationId?: string
  ): Effect.Effect<
    { readonly sandbox: Sandbox; readonly replayed: boolean },
    SpendingRefused | RepoNotAccessible | ConcurrencyLimitExceeded | IdempotencyConflict | SandboxIdTaken | StoreUnavailable
  >
  find(key: ById): Effect.Effect<Sandbox, SandboxNotFound | StoreUnavailable>
  /** Sandboxes of one grant, newest first; stable while others are created. A page as `pageOf` makes one by {@link bytesOf}. */
  list(grantId: string, query: ListQuery): Effect.Effect<ReadonlyArray<Sandbox>, StoreUnavailable>
  /**
   * Entries with a `seq` greater than `after`, ascending: a page as `pageOf` makes one by {@link bytesOf}. The caller
   * has checked whose sandbox it is.
   */
  log(id: SandboxId, after: number, limit: number): Effect.Effect<ReadonlyArray<LogEntry>, StoreUnavailable>
  /**
   * Messages with a `seq` greater than `after`, ascending: a page as `pageOf` makes one by {@link bytesOf}. The caller
   * has checked whose sandbox it is.
   */
  messages(id: SandboxId, after: number, limit: number): Effect.Effect<ReadonlyArray<Message>, StoreUnavailable>

  /**
   * Carries out one command of a person: locks the sandbox, reads the receipt and the approval that the command names,
   * writes what it decides together with its receipt. A duplicate is answered from the first one's receipt. With a key
   * (unique per sandbox) that is bound to an equal request, it is a duplicate of that request's command, whatever `command`
   * would decide now; an applied command binds the key.
   */
  command<E>(key: ById, command: Command<E>, now: DateTime.Utc, keyed?: KeyedRequest): Effect.Effect<
    CommandResult,
    E | IdempotencyConflict | SandboxNotFound | StoreUnavailable
  >

  /**
   * Locks the sandbox and records what `decide` makes of it; nothing is written when that is empty. `opened`: which pull
   * request it says is there. Partners are told with it, once, if the sandbox started under a touch.
   */
  change<E>(
    id: SandboxId,
    by: Writer,
    decide: (sandbox: Sandbox) => Result.Result<ReadonlyArray<SandboxEvent>, E>,
    now: DateTime.Utc,
    opened?: Pull
  ): Effect.Effect<Sandbox, E | SandboxNotFound | StaleLease | StoreUnavailable>

  /** How these approvals stand; unknown ids are left out. */
  approvals(id: SandboxId, approvalIds: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<Approval>, StoreUnavailable>

  /**
   * Leases up to `limit` sandboxes that need a worker and have none, and beyond them up to `ending` (default: `limit`) that
   * are ending: they free room, and a full worker must not keep them from it. Grants take turns, the one of which workers
   * hold fewest first, and within a grant the longest waiting goes first. A lost worker's sandbox goes to a worker of the
   * same machine at once, to another machine only after `Policy.lost`.
   */
  claim(by: Worker, limit: number, ending?: number): Effect.Effect<ReadonlyArray<Claimed>, StoreUnavailable>
  /** Extends leases; returns those that are still held. */
  renew(leases: ReadonlyArray<Lease>): Effect.Effect<ReadonlyArray<Lease>, StoreUnavailable>
  /**
   * Ends every lease of a machine. For a worker that starts and knows that no other one runs there: what a killed one
   * held need not wait for its end.
   */
  endLeases(machine: string): Effect.Effect<void, StoreUnavailable>
  /** Gives a lease back, so that another worker need not wait for its end. A stale one is ignored. */
  release(lease: Lease): Effect.Effect<void, StoreUnavailable>
  /** Remembers the agent's own session id. */
  saveAgentSession(lease: Lease, agentSession: string): Effect.Effect<void, StaleLease | StoreUnavailable>
  /** What time it is by the store's own clock, which leases and limits go by. */
  readonly now: Effect.Effect<DateTime.Utc, StoreUnavailable>
  /** Sandboxes of which a time limit has come by `now` of the store's own clock, oldest limit first. */
  due(limit: number): Effect.Effect<{ readonly now: DateTime.Utc; readonly ids: ReadonlyArray<SandboxId> }, StoreUnavailable>
  /** Live sandboxes whose grant was revoked: they are to end. */
  ofRevokedGrants(limit: number): Effect.Effect<ReadonlyArray<SandboxId>, StoreUnavailable>
  /** `seq` of the newest event that is no longer kept; 0 while all are. The caller has checked whose sandbox it is. */
  purged(id: SandboxId): Effect.Effect<number, StoreUnavailable>
  /**
   * Forgets the events of up to `limit` sandboxes that ended at `endedBefore` or earlier and are still ended; the
   * sandboxes themselves and their messages stay. Says of how many.
   */
  purgeEvents(endedBefore: DateTime.Utc, limit: number): Effect.Effect<number, StoreUnavailable>
  /** Forgets up to `limit` idempotency keys that are older than `RETENTION_DAYS`, which bind nothing any more. Says how many. */
  purgeKeys(limit: number): Effect.Effect<number, StoreUnavailable>
  /** Which of these sandboxes are over, or unknown: whatever a host still has of them can go. */
  over(ids: ReadonlyArray<SandboxId>): Effect.Effect<ReadonlyArray<SandboxId>, StoreUnavailable>
  /** The machine that worked for most of these sandboxes; `null`: none did, or they are unknown. */
  machineOf(ids: ReadonlyArray<SandboxId>): Effect.Effect<string | null, StoreUnavailable>
  /** For those who watch over the service. Takes time by the number of live sandboxes alone. */
  readonly census: Effect.Effect<Census, StoreUnavailable>
}>()("@slipway/domain/SandboxStore") {
  /** Process-local, for tests and for embedding without a database. State dies with the layer. */
  static readonly layerMemory = Layer.effect(
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

        approvals: (id, approvalIds) =>
          Effect.sync(() => approvalIds.flatMap((approvalId) => rows.get(id)?.approvals.get(approvalId) ?? [])),

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
}

/** Nothing else runs between what is read and what is written, however busy this fiber was before. */
const asTransaction = <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.provideService(self, Scheduler.PreventSchedulerYield, true)

/** What to hint after these events were committed: only a change of status can leave a sandbox without a worker. */
export const topicsOf = (id: SandboxId, events: ReadonlyArray<SandboxEvent>): ReadonlyArray<Topic> =>
  events.some(({ type }) => type === "sandbox.status") ? [id, WORK] : [id]

/** `createdAt`, then `id`, both descending. */
const newestFirst = (a: ListPosition, b: ListPosition): number =>
  DateTime.Order(b.createdAt, a.createdAt) || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0)

/** What the audit log is told of events: which approvals a person decided. */
export const decisions = (sandboxId: SandboxId, events: ReadonlyArray<SandboxEvent>, at: DateTime.Utc): ReadonlyArray<SecurityEvent> =>
  events.flatMap((event) =>
    event.type === "approval.resolved" && event.data.by === "user"
      ? [{ action: "approval.decided", at, subjects: { sandboxId, approvalId: event.data.approval_id, outcome: event.data.outcome } }]
      : []
  )

/**
 * What the caller of a command is told, and the receipt to keep of it: none when it is a duplicate. A rejection never
 * replaces what was applied. `revision` is the sandbox's after the command.
 */
export const conclude = (
  revision: number,
  commandId: Uuid,
  receipt: Receipt | null,
  verdict: Verdict
): { readonly result: CommandResult; readonly keep: Receipt | null } => {
  switch (verdict.outcome) {
    case "duplicate":
      return { result: { commandId, revision: receipt?.revision ?? revision, outcome: "duplicate" }, keep: null }
    case "applied":
      return { result: { commandId, revision, outcome: "applied" }, keep: { commandId, revision, outcome: "applied" } }
    case "rejected":
      return {
        result: { commandId, revision, outcome: "rejected", rejection: verdict.rejection },
        keep: receipt === null ? { commandId, revision, outcome: "rejected" } : null
      }
  }
}

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
