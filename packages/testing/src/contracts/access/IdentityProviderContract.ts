/**
 * The rules that every `IdentityProvider` must keep. An adapter proves itself by running this suite against its layer; a rule that is
 * missing here is not part of the port.
 */
import { IdentityProvider } from "@slipway/domain/access/ports/IdentityProvider"
import type { Identity } from "@slipway/domain/access/rules/Identity"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { assert } from "../../suite/Assert.ts"
import { define } from "../../suite/Suite.ts"

const BACK = "https://slipway.example.com/sign-in/back"

/** `visit`: where a browser that opens the address ends up, once `person` has agreed. */
export const suite = <R>(
  name: string,
  layer: Layer.Layer<IdentityProvider | R, unknown>,
  { person, visit }: { readonly person: Identity; readonly visit: (url: string) => Effect.Effect<string, never, R> }
) => {
  /** A sign-in up to the moment the browser is back. */
  const back = Effect.gen(function*() {
    const provider = yield* IdentityProvider
    const begun = yield* provider.begin(BACK)
    const arrived = new URL(yield* visit(begun.url))
    const code = arrived.searchParams.get("code") ?? ""
    return {
      provider,
      begun,
      arrived,
      answer: { code, issuer: arrived.searchParams.get("iss"), verifier: begun.verifier, redirectUri: BACK }
    }
  })

  return define(`IdentityProvider (${name})`, layer, (it) => {
    it.effect("sends the browser away and gets it back with a code and its state, for which it tells who came", () =>
      Effect.gen(function*() {
        const { answer, arrived, begun, provider } = yield* back
        assert.strictEqual(arrived.origin + arrived.pathname, BACK)
        assert.strictEqual(arrived.searchParams.get("state"), Redacted.value(begun.state))
        assert.deepStrictEqual(yield* provider.identify(answer), person)
        assert.isNotEmpty(provider.name)
      }))

    it.effect("begins every time with secrets of their own, which are not shown", () =>
      Effect.gen(function*() {
        const provider = yield* IdentityProvider
        const begun = yield* Effect.all([provider.begin(BACK), provider.begin(BACK)])
        const secrets = begun.flatMap(({ state, verifier }) => [Redacted.value(state), Redacted.value(verifier)])
        assert.strictEqual(new Set(secrets).size, 4)
        // RFC 7636, section 4.1.
        for (const secret of secrets) assert.match(secret, /^[\w.~-]{43,128}$/u)
        for (const { url, verifier } of begun) assert.notInclude(url, Redacted.value(verifier))
        for (const secret of secrets) assert.notInclude(String(begun.map(({ state, verifier }) => [state, verifier])), secret)
      }))

    it.effect("takes a code once, also when it comes twice at the same time", () =>
      Effect.gen(function*() {
        const { answer, provider } = yield* back
        const results = yield* Effect.forEach([1, 2], () => Effect.result(provider.identify(answer)), { concurrency: "unbounded" })
        assert.deepStrictEqual(results.map(({ _tag }) => _tag).sort(), ["Failure", "Success"])
        assert.strictEqual((yield* Effect.flip(provider.identify(answer)))._tag, "SignInRefused")
      }))

    it.effect("refuses a code with the verifier of another sign-in, and a code that was never issued", () =>
      Effect.gen(function*() {
        const { answer, provider } = yield* back
        const other = yield* provider.begin(BACK)
        const wrong = [{ ...answer, verifier: other.verifier }, { ...answer, code: "" }, { ...answer, code: "0".repeat(20) }, {
          ...answer,
          code: "a&b=\u0000é"
        }]
        for (const one of wrong) {
          const refused = yield* Effect.flip(provider.identify(one))
          assert.strictEqual(refused._tag, "SignInRefused")
          assert.isNotEmpty(refused.message)
          for (const secret of [answer.code, Redacted.value(answer.verifier), Redacted.value(other.verifier)]) {
            assert.notInclude(JSON.stringify(refused), secret)
          }
        }
      }))
  })
}
