/** Port: where people prove who they are, such as GitHub. Checked by `IdentityProviderContract`. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Identity, ProviderId } from "../rules/Identity.ts"

/**
 * The person declined, or the code is wrong, expired, used, or belongs to another browser. Retrying with the same code never helps; a
 * new sign-in does.
 */
export class SignInRefused extends Schema.TaggedError<SignInRefused>()("SignInRefused", {
  /** A sentence for people, free of secrets. */
  detail: Schema.String
}) {
  override get message() {
    return this.detail
  }
}

/** The provider failed or rejected the request. `retryable`: a new sign-in may help; otherwise an operator must look. */
export class IdentityProviderError extends Schema.TaggedError<IdentityProviderError>()("IdentityProviderError", {
  /** A sentence for people, free of secrets. */
  detail: Schema.String,
  retryable: Schema.Boolean
}) {
  override get message() {
    return this.detail
  }
}

/** A sign-in that began. The browser goes to `url`; the other fields stay in its cookie for some minutes. */
export interface SignInBegun {
  readonly url: string
  /** The browser must bring it back. 256 random bits, like `verifier`. */
  readonly state: Redacted.Redacted
  /** Proves that the code is used by the browser that began the sign-in. */
  readonly verifier: Redacted.Redacted
}

/** The answer that a browser came back with, and the secret that it kept. */
export interface SignInAnswer {
  readonly code: string
  /** The `iss` of the answer (RFC 9207); `null`: it has none. */
  readonly issuer: string | null
  readonly verifier: Redacted.Redacted
  readonly redirectUri: string
}

/** Checked by `IdentityProviderContract`. The provider stores nothing; the browser keeps the state. */
export class IdentityProvider extends Context.Service<IdentityProvider, {
  readonly id: ProviderId
  /** The name for people, such as `GitHub`. */
  readonly name: string
  /** `redirectUri`: where the browser returns to, with the query `code` and `state`, or `error` and `state`. */
  begin(redirectUri: string): Effect.Effect<SignInBegun, IdentityProviderError>
  /**
   * Returns the identity of the person who returned with the code, and uses up the code. The caller has compared the state with the
   * browser's. `verifier` and `redirectUri` are those of `begin`.
   */
  identify(answer: SignInAnswer): Effect.Effect<Identity, SignInRefused | IdentityProviderError>
  /**
   * Where a browser ends its session at the provider, and then returns to `back`; `null`: the provider has no such address, or cannot be
   * asked for it.
   */
  signOutUrl(back: string): Effect.Effect<string | null>
}>()("@slipway/domain/IdentityProvider") {
}

/** The providers that people can choose, in the order of the sign-in page. Empty: people sign in by links alone. */
export const IdentityProviders = Context.Reference<ReadonlyArray<IdentityProvider["Service"]>>("@slipway/domain/IdentityProviders", {
  defaultValue: () => []
})
