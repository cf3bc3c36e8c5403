/**
 * A sandbox under this worker's lease: its newest known state, and writes that carry the fence. Writes are retried until the store
 * accepts them or the lease is lost, so no event is forgotten.
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Leases, type Leased, type Lease, StaleLease } from "@slipway/domain/sandbox/ports/Leases"
import { type LogEntry, SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { Approval } from "@slipway/domain/sandbox/rules/Approval"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import type { QuestionState } from "@slipway/domain/sandbox/rules/Question"
import { evolveAll, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { type Context, decide, type SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { fromWire, toWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { count } from "@slipway/domain/sandbox/usecases/SandboxMetrics"
import { Hints } from "@slipway/domain/store/Hints"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { DateTime, Effect, Option, Result, Schedule, type Scope, Stream, SubscriptionRef } from "effect"
import { Timing } from "./Timing.ts"

export interface View {
  readonly sandbox: Sandbox
  /** This worker must release the sandbox when the running turn ends. Nothing new begins. */
  readonly draining: boolean
  /** This worker must release the sandbox at once, in any state. Only while `draining`. */
  readonly detached: boolean
}

/** Whether nothing new may begin: the sandbox is ending, has ended, or must be released. */
export const isLeaving = ({ draining, sandbox }: View): boolean => draining || sandbox.status !== "running"

export interface LeasedSandbox {
  readonly id: SandboxId
  readonly lease: Lease
  readonly view: Effect.Effect<View>
  /** The first view, from the present one on, that satisfies `is`. */
  until(is: (view: View) => boolean): Effect.Effect<View>
  /** Records a state that was read or written. A state older than the newest known one is ignored. */
  observe(sandbox: Sandbox): Effect.Effect<void>
  /** Records these commands in one transaction, in order. A command that is no longer legal is left out. */
  write(commands: ReadonlyArray<SystemCommand>): Effect.Effect<Sandbox, StaleLease>
  /** Records that this machine has all trees and the conversation of the sandbox. */
  readonly arrived: Effect.Effect<void, StaleLease>
  approvals(ids: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<Approval>>
  questions(ids: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<QuestionState>>
  /** The agent's own session as `SavedSession` writes it; `null`: no session to resume. */
  readonly agentSession: Effect.Effect<string | null>
  /** Saves the agent session whose files are in the home, as `SavedSession` writes it; `null`: none. */
  saveAgentSession(session: string | null): Effect.Effect<void, StaleLease>
  /** Reads the state on every hint and every tick, until the scope closes. */
  readonly follow: Effect.Effect<never, never, Scope.Scope>
  readonly drain: Effect.Effect<void>
  readonly detach: Effect.Effect<void>
}

const backoff = Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("5 seconds")])
const isUnavailable = (error: unknown): error is StoreUnavailable => error instanceof StoreUnavailable

/** Retries until the store answers. */
export const untilAvailable = <A, E, R>(self: Effect.Effect<A, E | StoreUnavailable, R>) =>
  self.pipe(Effect.retry({ while: isUnavailable, schedule: backoff }), Effect.catchIf(isUnavailable, Effect.die))

const eventsOf = (sandbox: Sandbox, commands: ReadonlyArray<SystemCommand>, context: Context): ReadonlyArray<SandboxEvent> => {
  const events: Array<SandboxEvent> = []
  let current = sandbox
  for (const command of commands) {
    const decided = Result.getOrElse(decide(current, command, context), () => [])
    events.push(...decided)
    current = evolveAll(current, decided, context.now)
  }
  return events
}

/** A write without an answer. */
interface Tried {
  readonly events: ReadonlyArray<SandboxEvent>
  readonly now: DateTime.Utc
}

/** The most events that others can have written since the newest known one. */
const LOOK_BACK = 1000

/** Whether only the answer of a write was lost. A transaction writes its events in a row, at `now` or later (`projectionOf`). */
const isWritten = (id: SandboxId, { events, now }: Tried, log: ReadonlyArray<LogEntry>): boolean =>
  events.length > 0 && log.some((_, start) =>
    events.every((event, i) => {
      const entry = log[start + i]
      if (entry?.type !== event.type) return false
      const { at, seq } = fromWire(entry.wire)
      return DateTime.isGreaterThanOrEqualTo(at, now) && entry.wire === toWire(id, { seq, at, event })
    })
  )

/** The events after `after`, up to {@link LOOK_BACK}: a page of the log may have fewer than were asked for. */
const readLog = Effect.fnUntraced(function*(store: SandboxStore["Service"], id: SandboxId, after: number) {
  const log: Array<LogEntry> = []
  for (;;) {
    const page = yield* store.log(id, log.at(-1)?.seq ?? after, LOOK_BACK - log.length)
    log.push(...page)
    if (page.length === 0 || log.length >= LOOK_BACK) return log
  }
})

export const make = Effect.fnUntraced(function*(given: Leased) {
  const store = yield* SandboxStore
  const leases = yield* Leases
  const hints = yield* Hints
  const limits = yield* Policy
  const { tick } = yield* Timing
  const { lease, sandbox: { grantId, id } } = given
  const views = yield* SubscriptionRef.make<View>({ sandbox: given.sandbox, draining: false, detached: false })
  let agentSession = given.agentSession

  const observe = (sandbox: Sandbox) =>
    SubscriptionRef.update(views, (view) => sandbox.lastSeq > view.sandbox.lastSeq ? { ...view, sandbox } : view)

  const leased: LeasedSandbox = {
    id,
    lease,
    view: SubscriptionRef.get(views),
    until: (is) =>
      SubscriptionRef.changes(views).pipe(
        Stream.filter(is),
        Stream.runHead,
        Effect.flatMap(Option.match({
          onNone: () => Effect.never,
          onSome: Effect.succeed
        }))
      ),
    observe,
    write: Effect.fn("LeasedSandbox.write")(
      function*(commands: ReadonlyArray<SystemCommand>) {
        const { sandbox: { lastSeq } } = yield* SubscriptionRef.get(views)
        let tried = null as Tried | null
        const sandbox = yield* untilAvailable(Effect.gen(function*() {
          if (tried !== null && isWritten(id, tried, yield* readLog(store, id, lastSeq))) return yield* store.find({ grantId, id })
          const now = yield* DateTime.now
          const change = store.change(id, lease, (sandbox) => {
            const events = eventsOf(sandbox, commands, { limits, now })
            tried = { events, now }
            return Result.succeed(events)
          }, now)
          return (yield* Effect.tap(change, count)).sandbox
        }))
        yield* observe(sandbox)
        return sandbox
      },
      // It was deleted: the lease is gone with it.
      Effect.catchTag("SandboxNotFound", () => Effect.fail(new StaleLease()))
    ),
    arrived: untilAvailable(leases.arrived(lease)),
    approvals: (ids) => untilAvailable(store.approvals(id, ids)),
    questions: (ids) => untilAvailable(store.questions(id, ids)),
    agentSession: Effect.sync(() => agentSession),
    saveAgentSession: (sessionId) =>
      Effect.map(untilAvailable(leases.saveAgentSession(lease, sessionId)), () => {
        agentSession = sessionId
      }),
    follow: Effect.gen(function*() {
      const hinted = yield* hints.watch(id)
      // Without the fence: a worker whose lease is gone learns of it from its renewals and its writes.
      const read = Effect.catchTag(untilAvailable(store.find({ grantId, id })), "SandboxNotFound", () => Effect.never)
      for (;;) {
        yield* observe(yield* read)
        yield* Effect.timeoutOption(hinted, tick)
      }
    }),
    drain: SubscriptionRef.update(views, (view) => ({ ...view, draining: true })),
    detach: SubscriptionRef.update(views, (view) => ({ ...view, draining: true, detached: true }))
  }
  return leased
})
