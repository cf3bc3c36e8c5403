/** Port: where people prove who they are, such as GitHub. Checked by `IdentityProviderContract`. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Identity } from "../rules/Identity.ts"

/**
 * Nobody signed in: the person said no, or the code is wrong, too old, used, or another browser's. The same code never
 * helps; beginning again does.
 */
export class SignInRefused extends Schema.TaggedError<SignInRefused>()("SignInRefused", {
  /** A sentence for people, free of secrets. */
  detail: Schema.String
}) {
  override get message() {
    return this.detail
  }
}

/** The provider failed, or does not accept how it was asked. `retryable`: beginning again may help, else an operator must look. */
export class IdentityProviderError extends Schema.TaggedError<IdentityProviderError>()("IdentityProviderError", {
  /** A sentence for people, free of secrets. */
  detail: Schema.String,
  retryable: Schema.Boolean
}) {
  override get message() {
    return this.detail
  }
}

/** A sign-in that began. The browser goes to `url`; the rest stays in a cookie of it, for minutes. */
export interface SignInBegun {
  readonly url: string
  /** Whoever comes back must bring it along. 256 random bits, as `verifier`. */
  readonly state: Redacted.Redacted
  /** Proves that the code is used by whoever began. */
  readonly verifier: Redacted.Redacted
}

/** Checked by `IdentityProviderContract`. Keeps nothing: what must be remembered is with the browser. */
export class IdentityProvider extends Context.Service<IdentityProvider, {
  /** As people call it, such as `GitHub`. */
  readonly name: string
  /** `redirectUri`: where the browser comes back, with the query `code` and `state`, or `error` and `state`. */
  begin(redirectUri: string): Effect.Effect<SignInBegun>
  /**
   * Who came back with the code, which is used up by asking. The caller has compared the state with the browser's.
   * `verifier` and `redirectUri` are those of `begin`.
   */
  identify(answer: { readonly code: string; readonly verifier: Redacted.Redacted; readonly redirectUri: string }): Effect.Effect<
    Identity,
    SignInRefused | IdentityProviderError
  >
}>()("@slipway/domain/IdentityProvider") {
}
