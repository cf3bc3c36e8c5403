/** The queue of notifications in memory, shared by the stores of sandboxes and of webhooks. */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import type { Uuid } from "../../src/ids/Ids.ts"
import type { SandboxId } from "../../src/ids/SandboxId.ts"
import { type LineProgress, MAX_QUEUED, type Notification, notificationTypes } from "../../src/partner/rules/Notification.ts"
import type { NotificationType } from "../../src/partner/schema/NotificationType.ts"
import type { LogEntry } from "../../src/sandbox/ports/SandboxStore.ts"
import type { Sandbox } from "../../src/sandbox/rules/Sandbox.ts"

/** Work for one worker at a time. `until: null`: no worker has it. */
export interface Claimable {
  fence: number
  until: DateTime.Utc | null
}

/** The notifications of one sandbox for one endpoint. */
export interface Line extends Claimable {
  progress: LineProgress
  /** `seq` of the last one. */
  newest: number
}

/** An endpoint that wants notifications. */
interface Listener {
  readonly grantId: string
  readonly types: ReadonlyArray<NotificationType>
  readonly lines: Map<SandboxId, Line>
}

/** A queued notification. */
export interface Queued {
  readonly notification: Notification
  readonly types: ReadonlyArray<NotificationType>
  readonly grantId: string
  readonly at: DateTime.Utc
  /** Whether the log of its sandbox still has the event. */
  readonly isKept: () => boolean
}

/** Lets the stores in memory share a transaction: the sandbox store queues notifications within its own. */
export class MemoryNotifications extends Context.Service<MemoryNotifications, {
  /** By endpoint. */
  readonly listeners: Map<Uuid, Listener>
  /** By sandbox, ascending. */
  readonly queued: Map<SandboxId, ReadonlyArray<Queued>>
  /**
   * Queues what endpoints of the sandbox's grant want of these entries. `at`: the date of the entries, which another clock may have dated
   * ahead; they are due at `now` at the latest. `isKept`: whether the log still has the entry. Entries that are queued are passed over.
   */
  write(
    sandbox: Sandbox,
    entries: ReadonlyArray<LogEntry>,
    dates: { readonly at: DateTime.Utc; readonly now: DateTime.Utc },
    isKept: (seq: number) => boolean
  ): void
  /** A deleted sandbox has none. */
  forget(id: SandboxId): void
}>()("@slipway/domain/partner/MemoryNotifications") {}

/** Without listeners. */
export const make = (): MemoryNotifications["Service"] => {
  const listeners = new Map<Uuid, Listener>()
  const queued = new Map<SandboxId, ReadonlyArray<Queued>>()
  return {
    listeners,
    queued,
    write: ({ grantId, id, metadata, repos, status, title }, entries, { at, now }, isKept) => {
      const own = Array.from(listeners.values()).filter((listener) => listener.grantId === grantId)
      if (own.length === 0) return
      for (const { seq, type, wire } of entries) {
        const types = notificationTypes(type, wire)
        const wanting = own.filter((listener) => types.some((one) => listener.types.includes(one)))
        const [exact] = types
        if (exact === undefined || wanting.length === 0 || seq <= (queued.get(id)?.at(-1)?.notification.seq ?? 0)) continue
        const notification = { sandboxId: id, seq, type: exact, wire, sandbox: { title, status, repos, metadata } }
        const one: Queued = { notification, types, grantId, at, isKept: () => isKept(seq) }
        queued.set(id, [...queued.get(id) ?? [], one].slice(-MAX_QUEUED))
        for (const { lines } of wanting) {
          const line = lines.get(id) ??
            { fence: 0, until: null, newest: 0, progress: { cursor: seq - 1, failures: 0, dueAt: null } }
          line.newest = seq
          line.progress = { ...line.progress, dueAt: line.progress.dueAt ?? DateTime.min(at, now) }
          lines.set(id, line)
        }
      }
    },
    forget: (id) => {
      queued.delete(id)
      for (const { lines } of listeners.values()) lines.delete(id)
    }
  }
}
