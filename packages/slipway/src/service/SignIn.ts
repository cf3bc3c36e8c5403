/** Sign-in with GitHub, if the service has a GitHub App for it. Links of the operator work without it. */
import { IdentityProvider, type IdentityProviderError } from "@slipway/domain/access/ports/IdentityProvider"
import { Redaction } from "@slipway/domain/environment/redaction/Redaction"
import * as IdentityProviderGitHub from "@slipway/github/IdentityProviderGitHub"
import { CALLBACK } from "@slipway/pages/people/SignInPages"
import { Effect, Layer, Redacted, References } from "effect"
import { readFile } from "node:fs/promises"
import { both, signIn as settings } from "../settings/GitHub.ts"
import { InvalidSetting } from "../settings/Setting.ts"
import type { Settings } from "../settings/Settings.ts"

type GitHub = NonNullable<Settings["signIn"]>

/** The address that GitHub redirects people to. It must be registered with the App. */
export const callbackUrl = (publicUrl: string): string => `${publicUrl}${CALLBACK}`

const clientSecret = Effect.fnUntraced(function*(file: string) {
  const refused = (expected: string) => new InvalidSetting({ setting: settings.clientSecretFile.name, expected, found: file })
  const text = yield* Effect.tryPromise({ try: () => readFile(file, "utf8"), catch: () => refused("a file that this process can read") })
  const secret = text.trim()
  if (!/^\S+$/u.test(secret)) return yield* refused("a file with a client secret and nothing else")
  yield* Redaction.useSync((redactor) => redactor.learn(secret))
  return Redacted.make(secret)
})

const gitHub = ({ apiUrl, clientId, clientSecretFile }: GitHub) =>
  Layer.unwrap(
    Effect.map(clientSecret(clientSecretFile), (clientSecret) => IdentityProviderGitHub.layer({ apiUrl, clientId, clientSecret }))
  )

/** The `IdentityProvider` of this process, if one is configured. Callers ask whether it is there. */
export const provider = ({ signIn }: Pick<Settings, "signIn">): Layer.Layer<never, InvalidSetting | IdentityProviderError> =>
  signIn === null ? Layer.empty : gitHub(signIn)

/**
 * The problem with the sign-in, and what to check; `null`: none. Asks GitHub about a code that it never issued: GitHub checks the
 * secret first.
 */
export const problemOf = (signIn: GitHub, publicUrl: string) =>
  Effect.gen(function*() {
    const provider = yield* IdentityProvider
    const redirectUri = callbackUrl(publicUrl)
    const { verifier } = yield* provider.begin(redirectUri)
    return yield* provider.identify({ code: "slipway-doctor", verifier, redirectUri })
  }).pipe(
    Effect.provide(gitHub(signIn)),
    // The problem is reported below.
    Effect.provideService(References.MinimumLogLevel, "None"),
    Effect.matchEffect({
      onSuccess: () => Effect.die("GitHub knows a person for no code"),
      onFailure: (error) => {
        if (error._tag === "SignInRefused") return Effect.succeed(null)
        if (error._tag === "InvalidSetting") return Effect.succeed({ detail: error.message, retryable: false })
        const look = error.retryable
          ? `${both.apiUrl.name}, and whether this machine can reach ${signIn.apiUrl}`
          : `${settings.clientId.name}, ${settings.clientSecretFile.name} and ${both.apiUrl.name}`
        return Effect.succeed({ detail: `${error.detail} Check ${look}.`, retryable: error.retryable })
      }
    })
  )
