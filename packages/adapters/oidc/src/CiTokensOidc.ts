/** `CiTokens` by the keys that issuers publish (OpenID Connect Discovery). */
import { CiIssuerUnavailable, CiTokens } from "@slipway/domain/access/ports/CiTokens"
import { CiTokenRefused } from "@slipway/domain/access/rules/CiTrust"
import { LruCache } from "@slipway/domain/store/LruCache"
import { Clock, Effect, Layer, Redacted } from "effect"
import { IssuerFailed, type IssuerOptions, json } from "./IssuerFetch.ts"
import { isSignedBy, isTimely, keyFor, parse } from "./JsonWebToken.ts"

/** Milliseconds for which keys are used. A key that was withdrawn counts no longer. */
const KEYS_LIFE = 900_000
/** Milliseconds until an unknown key id is a reason to ask again: anybody can invent one. */
const UNKNOWN_KEY_PAUSE = 60_000
/** Milliseconds until an issuer that failed is asked again. */
const FAILURE_PAUSE = 10_000
/** Issuers whose keys are kept. */
const MAX_ISSUERS = 100
/** Keys that are read. Issuers publish less than ten. */
const MAX_KEYS = 100
/** Seconds that the clocks of the issuer and of this machine may differ. */
const CLOCK_TOLERANCE = 60

type Answer = { readonly keys: ReadonlyArray<unknown> } | { readonly failed: string }

interface Known {
  /** Never rejects. */
  readonly answer: Promise<Answer>
  readonly askedAt: number
}

const published = async (issuer: string, options: IssuerOptions): Promise<Answer> => {
  const signal = AbortSignal.timeout(options.timeoutMillis ?? 5000)
  try {
    const metadata = await json(`${issuer.replace(/\/$/u, "")}/.well-known/openid-configuration`, options, signal)
    const { issuer: named, jwks_uri: address } = Object(metadata)
    if (named !== issuer || typeof address !== "string") return { failed: "Its metadata name another issuer, or no keys." }
    const { keys } = Object(await json(address, options, signal))
    return Array.isArray(keys) ? { keys: keys.slice(0, MAX_KEYS) } : { failed: "It publishes no keys." }
  } catch (error) {
    return { failed: error instanceof IssuerFailed ? error.message : "It cannot be reached." }
  }
}

/** The keys of an issuer. Callers at the same time share one request, which outlives each of them. */
const keysOf = (options: IssuerOptions) => {
  const known = new LruCache<string, Known>(MAX_ISSUERS)
  return Effect.fnUntraced(function*(issuer: string, isEnough: (keys: ReadonlyArray<unknown>) => boolean) {
    const now = yield* Clock.currentTimeMillis
    const ask = () => {
      const asked: Known = { answer: published(issuer, options), askedAt: now }
      known.set(issuer, asked)
      return asked
    }
    const isUsable = (answer: Answer, age: number) =>
      "failed" in answer ? age < FAILURE_PAUSE : age < (isEnough(answer.keys) ? KEYS_LIFE : UNKNOWN_KEY_PAUSE)
    const before = known.get(issuer) ?? ask()
    let answer = yield* Effect.promise(() => before.answer)
    if (!isUsable(answer, now - before.askedAt)) {
      // Another caller may have asked again meanwhile.
      const current = known.get(issuer)
      const next = current === undefined || current === before ? ask() : current
      answer = yield* Effect.promise(() => next.answer)
    }
    if ("keys" in answer) return answer.keys
    yield* Effect.logWarning("the keys of a CI's issuer cannot be read", { issuer, detail: answer.failed })
    return yield* new CiIssuerUnavailable()
  })
}

export const layer = (options: IssuerOptions): Layer.Layer<never> =>
  Layer.sync(CiTokens, () => {
    const keys = keysOf(options)
    return {
      issuerOf: (token) => {
        const issuer = parse(Redacted.value(token))?.claims["iss"]
        return typeof issuer === "string" ? issuer : null
      },
      verify: Effect.fn("CiTokens.verify")(function*(text, issuer) {
        const token = parse(Redacted.value(text))
        const now = Math.floor((yield* Clock.currentTimeMillis) / 1000)
        if (token === null || token.claims["iss"] !== issuer || !isTimely(token.claims, now, CLOCK_TOLERANCE)) {
          return yield* new CiTokenRefused()
        }
        const key = keyFor(token, yield* keys(issuer, (published) => keyFor(token, published) !== null))
        if (key === null || !isSignedBy(token, key)) return yield* new CiTokenRefused()
        return token.claims
      })
    }
  })
