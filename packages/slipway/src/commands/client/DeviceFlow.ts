/** The command's side of a device login: the OAuth 2.0 device authorization grant (RFC 8628), over HTTP only. */
import { Duration, Effect, Redacted, Schema } from "effect"
import { CommandFailed, ExitCode, unanswered } from "./server/Server.ts"

const CLIENT = { client_id: "slipway" }
const GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code"

/** Larger than any valid reply. */
const MAX_REPLY_BYTES = 64 * 1024
const PATIENCE = Duration.seconds(15)

const Begun = Schema.Struct({
  device_code: Schema.String,
  user_code: Schema.String,
  verification_uri: Schema.String,
  verification_uri_complete: Schema.String,
  expires_in: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 3600 })),
  interval: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 600 }))
})
type Begun = typeof Begun.Type

const Given = Schema.Struct({
  access_token: Schema.String,
  token_type: Schema.Literal("Bearer"),
  expires_in: Schema.optionalKey(Schema.Natural),
  key: Schema.Struct({ id: Schema.String, label: Schema.String, grant: Schema.Struct({ id: Schema.String, name: Schema.String }) })
})
type Given = typeof Given.Type

const Refused = Schema.Struct({ error: Schema.String, error_description: Schema.optionalKey(Schema.String) })

interface Reply {
  readonly status: number
  readonly text: string
}

const textOf = async (response: Response): Promise<string> => {
  const chunks: Array<Uint8Array> = []
  let length = 0
  for await (const chunk of response.body ?? []) {
    length += chunk.length
    if (length > MAX_REPLY_BYTES) throw new Error("too long a reply")
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

/** Redirects are not followed, because the request is for this server only. */
const ask = (server: string, path: string, init: RequestInit): Effect.Effect<Reply, CommandFailed> =>
  Effect.tryPromise({
    try: async (signal) => {
      const response = await fetch(server + path, {
        ...init,
        redirect: "manual",
        signal: AbortSignal.any([signal, AbortSignal.timeout(Duration.toMillis(PATIENCE))])
      })
      return { status: response.status, text: await textOf(response) }
    },
    catch: (error) => unanswered(server, error)
  })

const post = (server: string, path: string, fields: Readonly<Record<string, string>>) =>
  ask(server, path, { method: "POST", body: new URLSearchParams({ ...CLIENT, ...fields }), headers: { accept: "application/json" } })

const read = <S extends Schema.Codec<unknown, unknown>>(schema: S, server: string, { status, text }: Reply) =>
  Effect.mapError(
    Schema.decodeUnknownEffect(Schema.fromJsonString(schema))(text),
    () =>
      new CommandFailed({
        detail: `${server} answers with ${status} what no Slipway says. Is it one, of a version with slipway auth login?`,
        exitCode: ExitCode.refused
      })
  )

/** Begins a login. The server waits for a person's decision from then on. */
export const begin = Effect.fnUntraced(function*(server: string, machine: string) {
  const reply = yield* post(server, "/oauth/device_authorization", { machine })
  if (reply.status === 200) return yield* read(Begun, server, reply)
  const { error, error_description } = yield* read(Refused, server, reply)
  return yield* new CommandFailed({ detail: `${server} says: ${error_description ?? error}`, exitCode: ExitCode.refused })
})

/** Polls until the person decides or the login expires. The interval grows when the server asks for that or is unavailable. */
export const wait = Effect.fnUntraced(function*(server: string, { device_code, expires_in, interval }: Begun) {
  let pause = interval
  let waited = 0
  while (waited < expires_in) {
    yield* Effect.sleep(Duration.seconds(pause))
    waited += pause
    const reply = yield* Effect.option(post(server, "/oauth/token", { grant_type: GRANT_TYPE, device_code }))
    // The server may be restarting, or the network briefly down.
    if (reply._tag === "None" || reply.value.status >= 500) {
      pause = Math.min(60, pause * 2)
      continue
    }
    if (reply.value.status === 200) return yield* read(Given, server, reply.value)
    const { error, error_description } = yield* read(Refused, server, reply.value)
    if (error === "slow_down" || reply.value.status === 429) pause += 5
    else if (error === "expired_token") break
    else if (error !== "authorization_pending") {
      return yield* new CommandFailed({ detail: `not signed in: ${error_description ?? error}`, exitCode: ExitCode.refused })
    }
  }
  return yield* new CommandFailed({
    detail: "the request expired before a person approved it. Begin again: slipway auth login",
    exitCode: ExitCode.refused
  })
})

/** Revokes the key. Succeeds for an invalid key too. */
export const revoke = Effect.fnUntraced(function*(server: string, key: Redacted.Redacted) {
  const { status } = yield* post(server, "/oauth/revoke", { token: Redacted.value(key) })
  if (status !== 200) {
    return yield* new CommandFailed({ detail: `${server} did not revoke the key: it answers with ${status}.`, exitCode: ExitCode.refused })
  }
})

/** Whether the server accepts the key. */
export const isHeard = Effect.fnUntraced(function*(server: string, key: Redacted.Redacted) {
  const { status } = yield* ask(server, "/api/public/v1/sandboxes?limit=1", {
    headers: { authorization: `Bearer ${Redacted.value(key)}`, accept: "application/json" }
  })
  // A server rate-limits only keys that it knows.
  return status === 200 || status === 429
})
