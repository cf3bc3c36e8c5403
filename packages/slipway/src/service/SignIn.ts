/** Sign-in with GitHub and OpenID Connect, if the service has a client there. Links of the operator work without them. */
import { IdentityProvider, type IdentityProviderError, IdentityProviders } from "@slipway/domain/access/ports/IdentityProvider"
import type { ProviderId } from "@slipway/domain/access/rules/Identity"
import { SessionLifetimes } from "@slipway/domain/access/rules/Session"
import { Redaction } from "@slipway/domain/environment/redaction/Redaction"
import * as IdentityProviderGitHub from "@slipway/github/IdentityProviderGitHub"
import * as IdentityProviderOidc from "@slipway/oidc/IdentityProviderOidc"
import { callbackOf } from "@slipway/pages/people/SignInPages"
import { Context, Effect, Layer, Redacted, References } from "effect"
import { readFile } from "node:fs/promises"
import * as GitHub from "../settings/GitHub.ts"
import * as Oidc from "../settings/Oidc.ts"
import { InvalidSetting } from "../settings/Setting.ts"
import type { Settings } from "../settings/Settings.ts"

type GitHubClient = NonNullable<Settings["signIn"]>
type OidcClient = NonNullable<Settings["oidc"]>

/** The address that the provider redirects people to. It must be registered with the client. */
export const callbackUrl = (publicUrl: string, id: ProviderId): string => `${publicUrl}${callbackOf(id)}`

/** The address that people return to when they have signed out at the provider. */
export const signedOutUrl = (publicUrl: string): string => `${publicUrl}/sign-in`

const clientSecret = Effect.fnUntraced(function*(setting: { readonly name: string }, file: string) {
  const refused = (expected: string) => new InvalidSetting({ setting: setting.name, expected, found: file })
  const text = yield* Effect.tryPromise({ try: () => readFile(file, "utf8"), catch: () => refused("a file that this process can read") })
  const secret = text.trim()
  if (!/^\S+$/u.test(secret)) return yield* refused("a file with a client secret and nothing else")
  yield* Redaction.useSync((redactor) => redactor.learn(secret))
  return Redacted.make(secret)
})

const gitHub = ({ apiUrl, clientId, clientSecretFile }: GitHubClient) =>
  Layer.unwrap(
    Effect.map(
      clientSecret(GitHub.signIn.clientSecretFile, clientSecretFile),
      (clientSecret) => IdentityProviderGitHub.layer({ apiUrl, clientId, clientSecret })
    )
  )

const oidc = ({ clientId, clientSecretFile, issuer, name, rules, scopes }: OidcClient) =>
  Layer.unwrap(
    Effect.map(
      clientSecret(Oidc.client.clientSecretFile, clientSecretFile),
      (clientSecret) => IdentityProviderOidc.layer({ issuer, clientId, clientSecret, name, scopes, rules })
    )
  )

const built = <E>(layer: Layer.Layer<IdentityProvider, E>) =>
  Effect.map(Layer.build(layer), (context) => Context.get(context, IdentityProvider))

/** The providers of this process. */
export const providers = ({ oidc: client, signIn }: Pick<Settings, "oidc" | "signIn">): Layer.Layer<
  never,
  InvalidSetting | IdentityProviderError
> =>
  Layer.effect(
    IdentityProviders,
    Effect.gen(function*() {
      const both = [signIn === null ? null : yield* built(gitHub(signIn)), client === null ? null : yield* built(oidc(client))]
      return both.filter((provider) => provider !== null)
    })
  )

/** The lifetimes of sessions. */
export const lifetimes = ({ oidc }: Pick<Settings, "oidc">): Layer.Layer<never> =>
  Layer.effect(
    SessionLifetimes,
    Effect.map(SessionLifetimes, (lifetimes) => oidc === null ? lifetimes : { ...lifetimes, oidc: oidc.session })
  )

interface Problem {
  readonly detail: string
  readonly retryable: boolean
}

/** Asks the provider about a code that it never issued: it checks the client's secret first. */
const problemAt = <E extends InvalidSetting | IdentityProviderError>(
  layer: Layer.Layer<IdentityProvider, E>,
  { issuer, publicUrl }: { readonly issuer: string | null; readonly publicUrl: string },
  lookAt: (retryable: boolean) => string
): Effect.Effect<Problem | null> =>
  Effect.gen(function*() {
    const provider = yield* built(layer)
    const redirectUri = callbackUrl(publicUrl, provider.id)
    const { verifier } = yield* provider.begin(redirectUri)
    return yield* provider.identify({ code: "slipway-doctor", issuer, verifier, redirectUri })
  }).pipe(
    Effect.scoped,
    // The problem is reported below.
    Effect.provideService(References.MinimumLogLevel, "None"),
    Effect.matchEffect({
      onSuccess: () => Effect.die("a provider knows a person for no code"),
      onFailure: (error) => {
        if (error._tag === "SignInRefused") return Effect.succeed(null)
        if (error._tag === "InvalidSetting") return Effect.succeed({ detail: error.message, retryable: false })
        return Effect.succeed({ detail: `${error.detail} Check ${lookAt(error.retryable)}.`, retryable: error.retryable })
      }
    })
  )

/** The problem with the sign-in with GitHub, and what to check; `null`: none. */
export const problemOfGitHub = (client: GitHubClient, publicUrl: string) => {
  const { both, signIn: settings } = GitHub
  return problemAt(gitHub(client), { issuer: null, publicUrl }, (retryable) =>
    retryable
      ? `${both.apiUrl.name}, and whether this machine can reach ${client.apiUrl}`
      : `${settings.clientId.name}, ${settings.clientSecretFile.name} and ${both.apiUrl.name}`)
}

/** The problem with the sign-in with OpenID Connect, and what to check; `null`: none. */
export const problemOfOidc = (client: OidcClient, publicUrl: string) => {
  const { client: settings } = Oidc
  return problemAt(oidc(client), { issuer: client.issuer, publicUrl }, (retryable) =>
    retryable
      ? `${settings.issuer.name}, and whether this machine can reach ${client.issuer}`
      : `${settings.issuer.name}, ${settings.clientId.name} and ${settings.clientSecretFile.name}`)
}
