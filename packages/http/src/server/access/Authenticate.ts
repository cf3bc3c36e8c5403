/** Authenticates the caller and takes a slot of its rate (docs/decisions/9 and 10). Runs before routing. */
import { Forbidden, InsufficientScope, RateLimited, Refusal, Unauthorized } from "@slipway/api/shared/Errors"
import type { Admission, RateSlot } from "@slipway/domain/access/ports/AccessStore"
import { Acting, AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { fromHeader } from "@slipway/domain/access/rules/ApiKey"
import { mayUse } from "@slipway/domain/access/rules/Minting"
import { networkOf } from "@slipway/domain/access/rules/Network"
import { admitted, principalOf, type Visit } from "@slipway/domain/access/rules/Session"
import { actorOf, type Principal, type Scope } from "@slipway/domain/access/schema/Principal"
import { Access, REVOCATIONS } from "@slipway/domain/access/usecases/Access"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { Ids } from "@slipway/domain/ids/Ids"
import { Hints } from "@slipway/domain/store/Hints"
import { LruCache } from "@slipway/domain/store/LruCache"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Clock, DateTime, Effect, Redacted, Result } from "effect"
import type * as Wire from "../connection/Wire.ts"
import type { Head } from "../request/Head.ts"
import type { Needed } from "../Routes.ts"
import { basePathOf, rateLimitsOf, Settings } from "../Settings.ts"
import * as RememberedRefusals from "./RememberedRefusals.ts"
import * as SessionCookie from "./SessionCookie.ts"

export const REALM = `Bearer realm="slipway"`

const missing = Unauthorized.make("Send an API key: Authorization: Bearer <key>.", { "www-authenticate": REALM })
/** One answer for malformed, unknown, expired and revoked keys. */
const invalid = Unauthorized.make("The API key is not valid.", {
  "www-authenticate": `${REALM}, error="invalid_token", error_description="The API key is not valid."`
})

const ended = Unauthorized.make("The session has ended. Sign in again, or send an API key.", { "www-authenticate": REALM })

const WINDOW_MILLIS = 60_000

/** Addresses of which the failures are remembered. */
const MAX_ADDRESSES = 10_000

/** The last failures of one address: as many as are allowed in a window, the oldest at `next`. */
interface Ring {
  readonly at: Float64Array
  next: number
}

/** Counts what each address had refused within the last minute, at most `limit`. */
export const failures = (limit: number) => {
  const byAddress = new LruCache<string, Ring>(MAX_ADDRESSES)
  /** Seconds until one more failure is answered as one; 0: at once. */
  return (from: string, now: number): number => {
    const address = networkOf(from)
    const ring = byAddress.get(address) ?? { at: new Float64Array(limit).fill(-Infinity), next: 0 }
    const oldest = ring.at[ring.next] ?? -Infinity
    if (oldest > now - WINDOW_MILLIS) return Math.max(1, Math.ceil((oldest + WINDOW_MILLIS - now) / 1000))
    ring.at[ring.next] = now
    ring.next = (ring.next + 1) % limit
    byAddress.set(address, ring)
    return 0
  }
}

/** The caller, or why the request is refused. `rate`: the slot that it took or asked for; `null`: the caller is unknown. */
export interface Caller {
  readonly principal: Result.Result<Principal, Refusal>
  readonly rate: RateSlot | null
}

/** A refusal for each number of seconds, made once: to make an error takes longer than all else that refuses. They are at most 60. */
const bySeconds = (reason: string) => {
  const made = new Map<number, Refusal>()
  return (seconds: number): Refusal => {
    const refusal = made.get(seconds) ?? RateLimited.make(reason, { "retry-after": String(seconds) })
    made.set(seconds, refusal)
    return refusal
  }
}

const tooManyFailures = bySeconds("Too many keys that are not valid came from this address.")

const tooManyOf = {
  key: bySeconds("Too many requests with this key."),
  session: bySeconds("Too many requests with this session."),
  user: bySeconds("Too many requests of this user."),
  grant: bySeconds("Too many requests of this grant.")
}

/** `credential`: what the request came with. */
const tooMany = ({ limit, resetSeconds }: RateSlot, credential: "key" | "session") =>
  tooManyOf[limit === "credential" ? credential : limit](resetSeconds)

const ofKey = ({ memberActive, organizationSuspended, principal, rate }: Admission): Result.Result<Principal, Refusal> =>
  !rate.accepted
    ? Result.fail(tooMany(rate, "key"))
    : !memberActive
    ? Result.fail(Forbidden.make("The key's user is no longer an active member of the organization."))
    : organizationSuspended
    ? Result.fail(Forbidden.make("The key's organization is suspended."))
    : Result.succeed(principal)

const ofVisit = (visit: Visit, rate: RateSlot, fromPage: boolean): Result.Result<Principal, Refusal> =>
  !rate.accepted
    ? Result.fail(tooMany(rate, "session"))
    // A browser sends the cookie with requests of any page; only our own pages know the token.
    : !fromPage
    ? Result.fail(Forbidden.make("A session needs the X-CSRF-Token of its pages to change anything."))
    : Result.mapBoth(admitted(visit), { onFailure: ({ message }) => Forbidden.make(message), onSuccess: principalOf })

/** Methods that change nothing. */
const READS = new Set(["GET", "HEAD", "OPTIONS"])

const isViewer = ({ scopes }: Principal) => scopes.has("sandboxes:read")
const viewersOnlyRead = Forbidden.make("A viewer of the organization changes nothing. An owner can give another role.")

/**
 * Makes the check of one request for what needs a scope: who makes it and how its rate stands. What its headers alone refuse is
 * refused at once.
 */
export const make = Effect.gen(function*() {
  const access = yield* Access
  const sessions = yield* Sessions
  const audit = yield* AuditLog
  const settings = yield* Settings
  const clock = yield* Clock.Clock
  const ids = yield* Ids
  const limits = rateLimitsOf(settings)
  const base = basePathOf(settings.publicUrl)
  const fail = failures(settings.refusedKeysPerMinute)

  const refuse = (address: string, refusal: Refusal): Refusal => {
    const wait = fail(address, clock.currentTimeMillisUnsafe())
    return wait === 0 ? refusal : tooManyFailures(wait)
  }
  const stranger = (address: string, refusal: Refusal): Caller => ({ principal: Result.fail(refuse(address, refusal)), rate: null })

  const bySession = (request: Head, address: string, token: Redacted.Redacted) =>
    Effect.map(sessions.admit(token, limits), (admission): Caller => {
      if (admission === null) return stranger(address, ended)
      const fromPage = READS.has(request.method) ||
        sessions.isCsrfToken(token, request.headers["x-csrf-token"] ?? "")
      return { principal: ofVisit(admission.visit, admission.rate, fromPage), rate: admission.rate }
    })

  const refusals = RememberedRefusals.make()
  const revocations = yield* (yield* Hints).watch(REVOCATIONS)
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(revocations, Effect.sync(refusals.forget))))

  const byKey = (address: string, key: Redacted.Redacted): Effect.Effect<Caller, StoreUnavailable> => {
    const known = refusals.isEmpty() ? null : refusals.find(ids.digest(Redacted.value(key)), clock.currentTimeMillisUnsafe())
    if (known !== null) return Effect.succeed({ principal: ofKey(known), rate: known.rate })
    return Effect.map(access.admit(key, limits), (admission): Caller => {
      if (admission === null) return stranger(address, invalid)
      if (!admission.rate.accepted) refusals.remember(ids.digest(Redacted.value(key)), admission, clock.currentTimeMillisUnsafe())
      return { principal: ofKey(admission), rate: admission.rate }
    })
  }

  /** Tells the audit log, and gives the refusal. */
  const lacking = Effect.fnUntraced(function*(principal: Principal, scope: Scope) {
    const { credential, grantId, userId } = principal
    const who = credential._tag === "Key" ? { keyId: credential.keyId } : { userId }
    yield* audit.append([{ action: "scope.refused", at: yield* DateTime.now, subjects: { ...who, grantId, scope } }]).pipe(
      Effect.provideService(Acting, actorOf(principal))
    )
    return InsufficientScope.make(`The key lacks the scope ${scope}.`, {
      "www-authenticate": `${REALM}, error="insufficient_scope", scope="${scope}"`
    })
  })

  const callerOf = (request: Head, wire: Wire.Wire, address: string) => {
    const lines = wire.lines("authorization")
    const token = lines.length === 0 ? SessionCookie.tokenOf(request, base) : null
    if (token !== null) return bySession(request, address, token)
    const credential = fromHeader(lines[0])
    if (credential._tag === "None" && lines.length < 2) return missing
    return credential._tag !== "Key" || lines.length > 1 ? refuse(address, invalid) : byKey(address, credential.key)
  }

  return (
    request: Head,
    wire: Wire.Wire,
    address: string,
    scope: Needed
  ): Refusal | Effect.Effect<Caller, StoreUnavailable> => {
    const asked = callerOf(request, wire, address)
    if (asked instanceof Refusal) return asked
    return Effect.flatMap(
      asked,
      (caller) =>
        Result.isFailure(caller.principal) || scope === "any" || mayUse(caller.principal.success.scopes, scope, !READS.has(request.method))
          ? Effect.succeed(caller)
          : scope === "sandboxes" && isViewer(caller.principal.success)
          ? Effect.succeed({ ...caller, principal: Result.fail(viewersOnlyRead) })
          : Effect.map(lacking(caller.principal.success, scope), (refusal): Caller => ({ ...caller, principal: Result.fail(refusal) }))
    )
  }
})
