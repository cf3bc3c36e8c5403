/** Port: where people prove who they are, such as GitHub. Checked by `IdentityProviderContract`. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Identity } from "../rules/Identity.ts"

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

/** Checked by `IdentityProviderContract`. The provider stores nothing; the browser keeps the state. */
export class IdentityProvider extends Context.Service<IdentityProvider, {
  /** The name for people, such as `GitHub`. */
  readonly name: string
  /** `redirectUri`: where the browser returns to, with the query `code` and `state`, or `error` and `state`. */
  begin(redirectUri: string): Effect.Effect<SignInBegun>
  /**
   * Returns the identity of the person who returned with the code, and uses up the code. The caller has compared the state with the
   * browser's. `verifier` and `redirectUri` are those of `begin`.
   */
  identify(answer: { readonly code: string; readonly verifier: Redacted.Redacted; readonly redirectUri: string }): Effect.Effect<
    Identity,
    SignInRefused | IdentityProviderError
  >
}>()("@slipway/domain/IdentityProvider") {
}
