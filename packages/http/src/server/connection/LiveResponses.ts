/**
 * Responses that stay open: event streams, terminals and downloads. One loop for all of them ends those whose key is good no more,
 * another one downloads of deleted sandboxes, and a third one wakes streams that were silent too long. Readers that take nothing are cut
 * like everybody's: see `Connections`.
 */
import { RateLimited, type Refusal, Unavailable } from "@slipway/api/shared/Errors"
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { REVOCATIONS } from "@slipway/domain/access/usecases/Access"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { Hints } from "@slipway/domain/store/Hints"
import { Clock, Context, Duration, Effect, Latch, Layer, Scope } from "effect"
import { Settings } from "../Settings.ts"
import { Counter } from "./Connections.ts"
import { descriptorLimit } from "./DescriptorLimit.ts"
import type { Wire } from "./Wire.ts"

/** How often the loop looks for silences. */
const TICK = Duration.millis(500)

/** After this time a download's sandbox is looked for without a hint: hints of other processes may be lost. */
const LOOK_MILLIS = 10_000
/** Sandboxes that are looked for at the same time. */
const LOOKS_AT_ONCE = 4

/** The share of this process's descriptors that streams may take: other requests must still be answered. */
const STREAMS_SHARE = 0.7

/** Whose streams and downloads are counted: keys are easily made, users and grants are not. */
const HOLDERS = ["key", "user", "grant"] as const

/** `deleted`: the sandbox of a download was. Streams end by themselves then. */
export type Ending = "deleted" | "revoked" | "shutdown"

export interface LiveResponse {
  /** Why it must end now; `null`: it need not. */
  readonly ending: Ending | null
  /** Calls this when it was silent too long, or must end. */
  onWake(wake: () => void): void
  /** To be told of every write. */
  wrote(): void
}

const rightOf = ({ credential, grantId }: Principal) =>
  credential._tag === "Key" ? credential.keyId : `${credential.sessionId} in ${grantId}`

type Kind = "stream" | "download" | "terminal"

/** The request behind a response. */
interface Opening {
  readonly kind: Kind
  readonly by: Principal
  readonly wire: Wire
  readonly sandboxId: SandboxId | null
}

class Open implements LiveResponse {
  ending: LiveResponse["ending"] = null
  wroteAt: number
  /** When the sandbox of a download or terminal was last known to be there. */
  foundAt: number
  #wake: () => void = () => {}
  readonly kind: Kind
  /** Names the credential, and the grant with it: a session may change its grant. */
  readonly right: string
  readonly by: Principal
  /** `null`: of a stream. */
  readonly sandboxId: SandboxId | null
  readonly #wire: Wire
  readonly #now: () => number

  constructor({ by, kind, sandboxId, wire }: Opening, now: () => number) {
    this.kind = kind
    this.by = by
    this.sandboxId = sandboxId
    this.right = rightOf(by)
    this.#wire = wire
    this.#now = now
    this.wroteAt = now()
    this.foundAt = this.wroteAt
  }

  /** The name of whom it counts for. */
  holder(holder: typeof HOLDERS[number]) {
    return `${holder} ${holder === "key" ? this.right : holder === "user" ? this.by.userId : this.by.grantId}`
  }

  wrote() {
    this.wroteAt = this.#now()
  }

  get stalled() {
    return this.#wire.stalled
  }

  onWake(wake: () => void) {
    this.#wake = wake
    if (this.ending !== null) wake()
  }

  nudge() {
    this.#wake()
  }

  cut() {
    this.#wire.cut()
  }

  end(why: Ending) {
    this.ending = why
    // A reader that does not read would not see the end either. A download that is cut is shorter than its `Content-Length`.
    if (this.stalled || this.kind === "download" && why !== "shutdown") this.cut()
    else this.nudge()
  }
}

/** Ends downloads and terminals of sandboxes that were deleted: at once after a hint, and after {@link LOOK_MILLIS} without one. */
const watchDeletions = Effect.fnUntraced(function*(open: ReadonlySet<Open>, pause: Duration.Duration) {
  const sandboxes = yield* Sandboxes
  const doubted = new Set<Open>()
  const some = Latch.makeUnsafe(false)
  const doubt = (response: Open) => {
    doubted.add(response)
    some.openUnsafe()
  }
  const look = Effect.fnUntraced(function*(response: Open, id: SandboxId) {
    yield* sandboxes.get(response.by, id)
    response.foundAt = yield* Clock.currentTimeMillis
  }, (looked, response) =>
    Effect.catchTags(looked, {
      SandboxNotFound: () => Effect.sync(() => open.has(response) && response.end("deleted")),
      // Unknown is not deleted: the next look tells.
      StoreUnavailable: () => Effect.sync(() => doubt(response))
    }))
  yield* Effect.gen(function*() {
    yield* some.await
    some.closeUnsafe()
    const asked = [...doubted].filter((response) => open.has(response))
    doubted.clear()
    yield* Effect.forEach(
      asked,
      (response) => response.sandboxId === null ? Effect.void : look(response, response.sandboxId),
      { concurrency: LOOKS_AT_ONCE, discard: true }
    )
    // A sandbox at work gives many hints.
    yield* Effect.sleep(pause)
  }).pipe(Effect.forever, Effect.forkScoped)
  return doubt
})

/** Ends responses whose key or session is no longer good. `some`: whether any is open. */
const watchRevocations = Effect.fnUntraced(function*(open: ReadonlySet<Open>, some: Latch.Latch, pause: Duration.Duration) {
  const access = yield* AccessStore
  const sessions = yield* Sessions
  const hints = yield* Hints
  const revocations = yield* hints.watch(REVOCATIONS)
  const endRevoked = Effect.gen(function*() {
    // Those that are opened while the store answers were not asked about.
    const asked = [...open]
    const keys = new Set<string>()
    const visits = new Map<string, { readonly sessionId: string; readonly grantId: string }>()
    for (const { by: { credential, grantId }, right } of asked) {
      if (credential._tag === "Key") keys.add(credential.keyId)
      else visits.set(right, { sessionId: credential.sessionId, grantId })
    }
    const good = new Set(keys.size === 0 ? [] : yield* access.stillGood([...keys]))
    for (const { grantId, sessionId } of visits.size === 0 ? [] : yield* sessions.stillThere([...visits.values()])) {
      good.add(`${sessionId} in ${grantId}`)
    }
    for (const response of asked) if (!good.has(response.right)) response.end("revoked")
  }).pipe(
    // Unknown is not revoked: the next look tells.
    Effect.catchTag("StoreUnavailable", () => Effect.void)
  )
  yield* Effect.gen(function*() {
    yield* some.await
    yield* Effect.timeoutOption(revocations, pause)
    yield* endRevoked
  }).pipe(Effect.forever, Effect.forkScoped)
})

export class LiveResponses extends Context.Service<LiveResponses, {
  /** Counts and watches an event stream until the scope closes, or refuses it. */
  stream(by: Principal, wire: Wire): Effect.Effect<LiveResponse, Refusal, Scope.Scope>
  /** The same for a download, which breaks off when its sandbox is deleted. `null`: it is of no sandbox. */
  download(by: Principal, wire: Wire, sandboxId: SandboxId | null): Effect.Effect<LiveResponse, Refusal, Scope.Scope>
  /** The same for a terminal of the sandbox. */
  terminal(by: Principal, wire: Wire, sandboxId: SandboxId): Effect.Effect<LiveResponse, Refusal, Scope.Scope>
  /** How many are open. */
  count(kind: Kind): number
  isShuttingDown(): boolean
  /** Ends every stream and terminal and refuses new ones. Downloads may finish. */
  readonly shutDown: Effect.Effect<void>
}>()("@slipway/http/LiveResponses") {
  static readonly layer = Layer.effect(
    LiveResponses,
    Effect.gen(function*() {
      const hints = yield* Hints
      const clock = yield* Clock.Clock
      const settings = yield* Settings
      const open = new Set<Open>()
      /** Those that are open, by kind, and of each kind by holder. */
      const counts = new Counter()
      const some = Latch.makeUnsafe(false)
      const now = () => clock.currentTimeMillisUnsafe()
      const streams = Math.min(settings.streams, Math.floor(descriptorLimit() * STREAMS_SHARE))
      // Whatever the settings say: some streams are left for the next grant.
      const half = Math.ceil(streams / 2)
      const caps = {
        stream: {
          key: settings.streamsPerKey,
          user: Math.min(settings.streamsPerUser, half),
          grant: Math.min(settings.streamsPerGrant, half)
        },
        download: { key: settings.downloadsPerKey, user: settings.downloadsPerUser, grant: settings.downloadsPerGrant },
        terminal: { key: settings.terminalsPerKey, user: settings.terminalsPerUser, grant: settings.terminalsPerGrant }
      }
      yield* watchRevocations(open, some, settings.watch)
      const doubt = yield* watchDeletions(open, settings.watch)
      let shuttingDown = false

      yield* Effect.gen(function*() {
        yield* some.await
        yield* Effect.sleep(TICK)
        const at = now()
        for (const response of open) {
          if (!response.stalled && at - response.wroteAt >= Duration.toMillis(settings.heartbeat)) response.nudge()
          if (response.sandboxId !== null && at - response.foundAt >= LOOK_MILLIS) doubt(response)
        }
      }).pipe(Effect.forever, Effect.forkScoped)

      const begin = (opening: Opening) =>
        Effect.uninterruptible(Effect.gen(function*() {
          const { kind, sandboxId } = opening
          if (shuttingDown && kind !== "download") {
            return yield* Unavailable.make("The service is shutting down.", { "retry-after": "1" })
          }
          const response = new Open(opening, now)
          if (kind === "stream" && counts.of(kind) >= streams) {
            return yield* Unavailable.make("Too many streams are open.", { "retry-after": "5" })
          }
          const full = HOLDERS.find((holder) => counts.of(`${kind} ${response.holder(holder)}`) >= caps[kind][holder])
          if (full !== undefined) {
            return yield* RateLimited.make(`This ${full} has ${caps[kind][full]} open ${kind}s already.`, { "retry-after": "1" })
          }
          const count = (by: 1 | -1) => {
            counts.add(kind, by)
            for (const holder of HOLDERS) counts.add(`${kind} ${response.holder(holder)}`, by)
          }
          open.add(response)
          count(1)
          some.openUnsafe()
          // `acquireRelease` would keep the context of the request for as long.
          yield* Scope.addFinalizer(
            yield* Effect.scope,
            Effect.sync(() => {
              open.delete(response)
              count(-1)
              if (open.size === 0) some.closeUnsafe()
            })
          )
          if (sandboxId !== null) {
            yield* hints.listen(sandboxId, () => doubt(response))
            // It may have been deleted since it was found.
            doubt(response)
          }
          return response
        }))

      return LiveResponses.of({
        stream: (by, wire) => begin({ kind: "stream", by, wire, sandboxId: null }),
        download: (by, wire, sandboxId) => begin({ kind: "download", by, wire, sandboxId }),
        terminal: (by, wire, sandboxId) => begin({ kind: "terminal", by, wire, sandboxId }),
        count: (kind) => counts.of(kind),
        isShuttingDown: () => shuttingDown,
        shutDown: Effect.sync(() => {
          shuttingDown = true
          for (const response of open) if (response.kind !== "download") response.end("shutdown")
        })
      })
    })
  )
}
