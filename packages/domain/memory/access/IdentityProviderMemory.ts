/** `IdentityProvider` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { SignInRefused, IdentityProvider } from "../../src/access/ports/IdentityProvider.ts"
import type { Identity } from "../../src/access/rules/Identity.ts"
import { draw } from "../../src/access/rules/Secret.ts"
import { Ids } from "../../src/ids/Ids.ts"

/** Knows one person and asks no questions: its `url` leads straight back. For tests and for embedding. */
export const layer = (person: Identity) =>
  Layer.effect(
    IdentityProvider,
    Effect.gen(function*() {
      const ids = yield* Ids
      const begun = new Map<string, { readonly verifier: string; readonly redirectUri: string }>()

      return IdentityProvider.of({
        id: person.provider,
        name: "Memory",
        begin: Effect.fnUntraced(function*(redirectUri) {
          const [code, state, verifier] = yield* Effect.all([draw(ids), draw(ids), draw(ids)])
          begun.set(code, { verifier, redirectUri })
          return { url: `${redirectUri}?code=${code}&state=${state}`, state: Redacted.make(state), verifier: Redacted.make(verifier) }
        }),
        identify: Effect.fnUntraced(function*({ code, redirectUri, verifier }) {
          const known = begun.get(code)
          begun.delete(code)
          if (known?.verifier !== Redacted.value(verifier) || known.redirectUri !== redirectUri) {
            return yield* new SignInRefused({ detail: "The sign-in is unknown, used or another browser's. Begin again." })
          }
          return person
        }),
        signOutUrl: () => Effect.succeed(null)
      })
    })
  )
