/**
 * The worker's identity at clouds, which authorizes requests to models there. Nothing is loaded or asked before a model needs it. Secrets
 * of the environment are taken out of what other programs inherit.
 */
import { authOf } from "@slipway/domain/models/schema/CloudUpstream"
import type { Upstream, UpstreamAuth } from "@slipway/domain/models/schema/ModelCatalogue"
import { Effect, Schema } from "effect"
import * as Aws from "./AwsCredentials.ts"
import * as Azure from "./AzureCredentials.ts"
import { type CachedCredentials, SourceTimeout } from "./CachedCredentials.ts"
import * as Google from "./GoogleCredentials.ts"

/** The worker has no valid credentials. The message is a sentence for the operator, without secrets. */
export class CredentialsUnavailable extends Schema.TaggedError<CredentialsUnavailable>()("CredentialsUnavailable", {
  problem: Schema.String
}) {
  override get message() {
    return this.problem
  }
}

/** Headers that authorize one request, and the secrets that no answer may show. */
export interface Authorized {
  readonly headers: Readonly<Record<string, string>>
  readonly secrets: ReadonlyArray<string>
}

/** A request to be authorized. It must be sent as it is. */
export interface ToAuthorize {
  readonly method: "POST" | "GET"
  readonly url: URL
  readonly body: Uint8Array
}

export interface CloudCredentials {
  authorize(upstream: Upstream, request: ToAuthorize): Effect.Effect<Authorized, CredentialsUnavailable>
  /** The provider refused the credentials: the next request gets new ones. */
  refused(auth: UpstreamAuth): void
  /** Why there are no credentials now; `null`: there are. */
  problem(auth: UpstreamAuth): Effect.Effect<string | null>
}

/** Variables of an environment. */
export type Environment = Readonly<Record<string, string | undefined>>

/** The variables with secrets for this kind of `auth`, which child processes must not inherit. */
export const secretsIn = (environment: Environment, auth: UpstreamAuth): ReadonlyArray<string> =>
  auth === "aws" ? Aws.secretsIn(environment) : auth === "azure" ? Azure.secretsIn() : []

interface Identity<A> {
  readonly cache: CachedCredentials<A>
  readonly authorize: (credentials: A, upstream: Upstream, request: ToAuthorize) => Promise<Authorized>
  /** The sentence about credentials that cannot be had. */
  readonly explain: (error: unknown) => string
}

const ready = <A>({ authorize, cache, explain }: Identity<A>) => {
  const get = Effect.tryPromise({
    try: () => cache.get(),
    catch: (error) =>
      new CredentialsUnavailable({
        problem: error instanceof SourceTimeout ? `${explain(null)} Their source did not answer within 10 seconds.` : explain(error)
      })
  })
  return {
    authorize: (upstream: Upstream, request: ToAuthorize) =>
      Effect.flatMap(get, (credentials) => Effect.promise(() => authorize(credentials, upstream, request))),
    refused: () => cache.refuse(),
    problem: Effect.match(get, { onFailure: ({ problem }) => problem, onSuccess: () => null })
  }
}

/** The identities by the environment as it is now. `now`: the clock by which credentials expire, in milliseconds since 1970. */
export const ofEnvironment = (environment: Environment, now: () => number = Date.now): CloudCredentials => {
  const identities = {
    key: null,
    aws: ready(Aws.identity(environment, now)),
    google: ready(Google.identity(now)),
    azure: ready(Azure.identity(environment, now))
  }
  const of = (auth: UpstreamAuth) => identities[auth]
  return {
    authorize: (upstream, request) =>
      of(authOf(upstream))?.authorize(upstream, request)
        ?? Effect.fail(new CredentialsUnavailable({ problem: `There are no credentials of the kind ${authOf(upstream)}.` })),
    refused: (auth) => of(auth)?.refused(),
    problem: (auth) => of(auth)?.problem ?? Effect.succeed(null)
  }
}
