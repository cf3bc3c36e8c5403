/**
 * The tokens of the service at hosts that take access tokens. Files are read for each operation, so a replaced file counts at once.
 */
import type { HostConnection, HostConnections } from "@slipway/domain/environment/ports/HostConnections"
import { Redaction } from "@slipway/domain/environment/redaction/Redaction"
import { SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import * as GitLabOAuth from "@slipway/gitlab/GitLabOAuth"
import { DateTime, Duration, Effect, Redacted } from "effect"
import { readFile } from "node:fs/promises"
import { type ForgejoHost, type GitLabHost, type HostTokens, settings } from "../../settings/SourceHosts.ts"

/** Whether `path` is `of` or below it, in any case of letters. */
const isWithin = (path: string, of: string): boolean => `${path.toLowerCase()}/`.startsWith(`${of.toLowerCase()}/`)

/** The file with the token for a project or group; an empty path is the whole host. The longest path wins. `null`: no token is for it. */
const fileFor = ({ tokenFile, tokens }: Pick<HostTokens, "tokenFile" | "tokens">, path: string): string | null =>
  tokens.filter((token) => isWithin(path, token.path)).toSorted((a, b) => b.path.length - a.path.length)[0]?.file ?? tokenFile

const failed = (detail: string, retryable = false) => new SourceHostError({ operation: "find the token", detail, retryable })

/** The token of a file. */
const tokenIn = Effect.fnUntraced(function*(name: string, file: string) {
  const text = yield* Effect.tryPromise({
    try: () => readFile(file, "utf8"),
    catch: () => failed(`The file with a token of ${name} cannot be read: see ${settings.file.name}.`)
  })
  const token = text.trim()
  if (!/^[\x21-\x7e]{8,4096}$/u.test(token)) {
    return yield* failed(`The file with a token of ${name} must have the token and nothing else: see ${settings.file.name}.`)
  }
  return Redacted.make(token)
})

/** Access tokens are renewed this long before they expire. GitLab's live for two hours. */
const EARLY = Duration.minutes(5)

/** The access token of the connection by OAuth, renewed if it expires soon. */
const connected = Effect.fnUntraced(function*(
  host: GitLabHost,
  application: NonNullable<GitLabHost["oauth"]>,
  connections: HostConnections["Service"]
) {
  const signIn = `An operator can sign in with: slipway hosts sign-in ${host.name}`
  const by = DateTime.addDuration(yield* DateTime.now, EARLY)
  const renew = (connection: HostConnection) => GitLabOAuth.renew({ url: host.url, ...application }, connection)
  const connection = yield* connections.current(host.name, by, renew).pipe(Effect.catchTags({
    OAuthFailed: ({ detail, isExpired, retryable }) =>
      Effect.fail(failed(`The connection to ${host.name} was not renewed. ${detail}${isExpired ? ` ${signIn}` : ""}`, retryable)),
    SecretsUnusable: ({ message }) => Effect.fail(failed(message)),
    StoreUnavailable: () => Effect.fail(failed("The database is not available just now.", true))
  }))
  if (connection === null) return yield* failed(`The service is not connected to ${host.name}. ${signIn}`)
  return connection.accessToken
})

/** The token for a path, for one operation: of a file, or of the connection by OAuth. `connections`: `null` for hosts without OAuth. */
export const tokenFor = (host: GitLabHost | ForgejoHost, connections: HostConnections["Service"] | null) =>
  Effect.fnUntraced(function*(path: string) {
    const file = fileFor(host, path)
    const application = host.kind === "gitlab" ? host.oauth : null
    const token = file !== null
      ? yield* tokenIn(host.name, file)
      : host.kind === "gitlab" && application !== null && connections !== null
      ? yield* connected(host, application, connections)
      : yield* failed(
        `No token of ${host.name} is for ${path === "" ? "the whole host" : path}. Add a token to its entry in ${settings.file.name}.`
      )
    yield* Redaction.useSync((redactor) => redactor.learn(Redacted.value(token)))
    return token
  })
