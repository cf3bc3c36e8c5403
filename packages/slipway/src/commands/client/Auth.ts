/** `slipway auth`: API keys that a person gets by signing in with a browser, stored on this machine. */
import { UNNAMED_MACHINE } from "@slipway/domain/access/rules/DeviceLogin"
import { Machine } from "@slipway/domain/access/schema/DeviceLogin"
import { Console, DateTime, Effect, Option, Redacted, Schema } from "effect"
import { Command, Flag } from "effect/cli"
import { hostname } from "node:os"
import { openBrowser } from "../terminal/OpenBrowser.ts"
import { columns, json, print } from "../terminal/Output.ts"
import * as Credentials from "./Credentials.ts"
import * as DeviceFlow from "./DeviceFlow.ts"
import { CommandFailed, ExitCode, find, url } from "./server/Server.ts"

/** This machine's name in displayable form. */
const ownName = (): string => {
  const name = hostname().slice(0, 100)
  return Schema.is(Machine)(name) ? name : UNNAMED_MACHINE
}

/** A person's choices for a sign-in. */
interface SignIn {
  readonly url: Option.Option<string>
  readonly name: Option.Option<string>
  readonly noBrowser: boolean
  readonly json: boolean
}

/** Signs in with a browser and stores the key. The instructions go to standard error. */
export const signIn = Effect.fnUntraced(function*({ json, name, noBrowser, url }: SignIn) {
  const server = yield* find(url)
  // Fails before the person approves a key that could not be stored.
  const former = yield* Credentials.find(server)
  const begun = yield* DeviceFlow.begin(server, Option.getOrElse(name, ownName))
  const { user_code, verification_uri, verification_uri_complete } = begun
  const opened = !noBrowser && (yield* openBrowser(verification_uri_complete))
  // Standard output is for the result.
  yield* Console.error(
    columns([["Your code", user_code], [opened ? "The browser opens" : "Open", verification_uri_complete], [
      "or enter the code at",
      verification_uri
    ]])
  )
  yield* Console.error("Sign in there, compare the code, and approve. Waiting ...")
  const given = yield* DeviceFlow.wait(server, begun)
  const key = Redacted.make(given.access_token)
  // A key that could not be stored must not stay valid.
  yield* Credentials.keep(server, key).pipe(Effect.tapError(() => Effect.ignore(DeviceFlow.revoke(server, key))))
  if (Option.isSome(former)) {
    yield* DeviceFlow.revoke(server, former.value).pipe(
      Effect.catch(({ message }) => Console.error(`slipway: the previously stored key stays valid: ${message}`))
    )
  }
  const { grant, label } = given.key
  const expiresAt = given.expires_in === undefined
    ? null
    : DateTime.formatIso(DateTime.add(yield* DateTime.now, { seconds: given.expires_in }))
  const file = Credentials.file()
  yield* print(
    json,
    { server, grant, keyId: given.key.id, label, expiresAt, file },
    () =>
      `Signed in to ${server}, in the grant ${grant.name}${expiresAt === null ? "" : `, until ${expiresAt.slice(0, 10)}`}.\n` +
      `The key ${label} is in ${file}. Revoke it: slipway auth logout, or at ${server}/keys`
  )
})

const login = Command.make("login", {
  url,
  name: Flag.String("name").pipe(
    Flag.withDescription("Name of this machine on the key and the page; default: its host name"),
    Flag.withSchema(Machine),
    Flag.optional
  ),
  noBrowser: Flag.Boolean("no-browser").pipe(
    Flag.withDescription("Print the address only; open it on any machine"),
    Flag.withDefault(false)
  ),
  json
}, signIn).pipe(
  Command.withDescription("Sign in with a browser and store a key for commands"),
  Command.withExamples([
    { command: "slipway auth login", description: "To the service that runs here" },
    { command: "slipway auth login --url https://slipway.example", description: "To another server" },
    { command: "slipway auth login --no-browser", description: "Open the address on another machine" }
  ])
)

const status = Command.make("status", { json }, ({ json }) =>
  Effect.gen(function*() {
    const servers = yield* Credentials.servers
    const found = yield* Effect.forEach(
      servers,
      Effect.fnUntraced(function*(server) {
        const key = Option.getOrThrow(yield* Credentials.find(server))
        const state = yield* DeviceFlow.isHeard(server, key).pipe(
          Effect.map((heard) => heard ? "signed in" as const : "refused" as const),
          Effect.catch(() => Effect.succeed("unreachable" as const))
        )
        return { server, state, key: `${Redacted.value(key).slice(0, 9)}…${Redacted.value(key).slice(-4)}` }
      }),
      { concurrency: 4 }
    )
    if (found.length === 0 && !json) {
      return yield* new CommandFailed({ detail: "signed in nowhere. Sign in: slipway auth login", exitCode: ExitCode.unauthorized })
    }
    yield* print(json, found, () => columns(found.map(({ key, server, state }) => [server, state, key])))
    if ((process.env["SLIPWAY_API_KEY"] ?? "") !== "") {
      yield* Console.error("slipway: commands use the key in SLIPWAY_API_KEY instead, as long as it is set.")
    }
    if (found.some(({ state }) => state === "refused")) {
      return yield* new CommandFailed({
        detail: "a key is refused: it expired, or was revoked. Sign in again: slipway auth login --url SERVER",
        exitCode: ExitCode.unauthorized
      })
    }
  })).pipe(
    Command.withDescription("List stored keys by server, and whether they are valid"),
    Command.withExamples([{ command: "slipway auth status", description: "Exit code 6 if a key is missing or refused" }])
  )

const logout = Command.make("logout", { url, json }, ({ json, url }) =>
  Effect.gen(function*() {
    const server = yield* find(url)
    const key = yield* Credentials.find(server)
    if (Option.isNone(key)) {
      return yield* new CommandFailed({ detail: `no key is kept for ${server}. See: slipway auth status`, exitCode: ExitCode.unclear })
    }
    const revoked = yield* Effect.result(DeviceFlow.revoke(server, key.value))
    yield* Credentials.forget(server)
    if (revoked._tag === "Failure") {
      const { exitCode, message } = revoked.failure
      return yield* new CommandFailed({
        detail: `the key for ${server} is forgotten here, and stays good: ${message} Revoke it at ${server}/keys`,
        exitCode
      })
    }
    yield* print(json, { server }, () => `Signed out of ${server}: the key is revoked, and forgotten here.`)
  })).pipe(
    Command.withDescription("Revoke and delete the stored key of a server"),
    Command.withExamples([{ command: "slipway auth logout --url https://slipway.example", description: "Of another server" }])
  )

export const auth = Command.make("auth").pipe(
  Command.withDescription("Sign in to a server: login, status, logout"),
  Command.withSubcommands([login, status, logout])
)
