/** `slipway serve`: the service, until it is told to stop. */
import * as PrivateAddress from "@slipway/adapters/worker-link/PrivateAddress"
import { Access } from "@slipway/domain/access/Access"
import { AccessStore } from "@slipway/domain/access/AccessStore"
import { IdentityProvider } from "@slipway/domain/access/IdentityProvider"
import { MemberStore } from "@slipway/domain/access/MemberStore"
import { Sessions } from "@slipway/domain/access/Sessions"
import { keepsSessions } from "@slipway/http/pages/people/SignInPages"
import { Console, Deferred, Effect, Layer, Option, Redacted, Schema } from "effect"
import { Command } from "effect/cli"
import { createServer } from "node:net"
import * as DataFolder from "../service/DataFolder.ts"
import * as GitProgram from "../service/GitProgram.ts"
import * as Isolation from "../service/Isolation.ts"
import * as Logs from "../service/Logs.ts"
import * as Service from "../service/Service.ts"
import * as Services from "../service/Services.ts"
import * as Listening from "../settings/Listening.ts"
import * as Settings from "../settings/Settings.ts"
import * as Storage from "../settings/Storage.ts"
import { columns } from "./Output.ts"

/** The service cannot listen where it was told to. */
class CannotListen extends Schema.TaggedError<CannotListen>()("CannotListen", { address: Schema.String, cause: Schema.Defect() }) {
  override get message() {
    const code = this.cause instanceof Error && "code" in this.cause ? this.cause.code : undefined
    return code === "EADDRINUSE"
      ? `${this.address} is in use. Stop what listens there or choose another port with ${Listening.settings.port.name}.`
      : `Cannot listen on ${this.address} (${code}). Check ${Listening.settings.host.name} and ${Listening.settings.port.name}.`
  }
}

/**
 * Checks that the address can be listened on before anything else is started, and chooses the port when it is 0: links
 * must name it, so it has to be known first.
 */
export const reserve = ({ host, port }: Pick<Settings.Settings, "host" | "port">) =>
  Effect.callback<number, CannotListen>((resume) => {
    const server = createServer()
    server.once("error", (cause) => resume(Effect.fail(new CannotListen({ address: `${host}:${port}`, cause }))))
    server.listen({ host, port, exclusive: true }, () => {
      const address = server.address()
      server.close(() => resume(Effect.succeed(address !== null && typeof address === "object" ? address.port : port)))
    })
  })

/** Where clients reach the service when nothing else is said. An address that means "all" is reached as localhost. */
export const addressOf = (host: string, port: number): string => {
  const reached = host === "0.0.0.0" || host === "::" ? "localhost" : host.includes(":") ? `[${host}]` : host
  return `http://${reached}:${port}`
}

/** The code stands behind the `#`: browsers send that to nobody, so it comes into no log and no Referer. */
export const linkOf = (publicUrl: string, code: Redacted.Redacted): string => `${publicUrl}/sign-in#${Redacted.value(code)}`

/** A key for the first visitor, when nobody ever made one. */
const firstKey = Effect.gen(function*() {
  const access = yield* Access
  const store = yield* AccessStore
  if ((yield* store.listKeys(null)).length > 0) return null
  return yield* access.createKey({ grant: "default", label: "first key", scopes: ["sandboxes"], kind: "live" })
})

/** A way in for the first visitor, when nobody can sign in elsewhere. */
const firstLink = Effect.fnUntraced(function*(publicUrl: string) {
  if (Option.isSome(yield* Effect.serviceOption(IdentityProvider))) return null
  const { userId } = yield* (yield* MemberStore).owner
  return linkOf(publicUrl, yield* (yield* Sessions).makeLink(userId))
})

const announce = (settings: Settings.Settings, publicUrl: string) =>
  Effect.gen(function*() {
    const { databaseUrl, dataDir, metricsAddress, role } = settings
    const isolation = yield* Service.Chosen
    yield* Isolation.announce(settings, isolation)
    const minted = role === "worker" ? null : yield* firstKey
    const link = role === "worker" ? null : yield* firstLink(publicUrl)
    if (role !== "worker" && !keepsSessions(publicUrl)) {
      yield* Effect.logWarning(
        `nobody can stay signed in at ${publicUrl}: browsers keep a session only at an https address or on this machine ` +
          `(${Listening.settings.publicUrl.name})`
      )
    }
    yield* Console.log(columns([
      ["Slipway", role === "worker" ? "worker, no HTTP" : `${publicUrl}  (API at /api/public/v1, docs at ${publicUrl}/docs)`],
      ...(role === "worker" && metricsAddress !== null ? [["metrics", `http://${PrivateAddress.format(metricsAddress)}/metrics`]] : []),
      ["data", dataDir],
      ["database", databaseUrl === null ? `embedded Postgres in ${dataDir}` : Storage.settings.databaseUrl.name],
      ["isolation", role === "http" ? "up to the workers" : Isolation.summary(isolation)],
      ...(minted === null ? [] : [["API key", `${Redacted.value(minted.key)}  (shown only now; more: slipway keys create)`]]),
      ...(link === null ? [] : [["sign in", `${link}  (once, within 10 minutes; another: slipway login)`]])
    ]))
  })

const serveUntilStopped = Effect.gen(function*() {
  const settings = yield* Settings.load
  // A process that answers for GitHub alone never runs it.
  if (settings.role !== "http" || settings.github === null) yield* GitProgram.version
  // A process that only answers keeps nothing there, unless its database is there.
  if (settings.role !== "http" || settings.databaseUrl === null) yield* DataFolder.writable(settings.dataDir)
  // Before anybody is told that the service is up.
  const untilGone = yield* DataFolder.watch(settings.dataDir)
  const port = settings.role === "worker" ? settings.port : yield* reserve(settings)
  const publicUrl = settings.publicUrl ?? addressOf(settings.host, port)
  for (const line of Settings.unknown(process.env)) yield* Effect.logWarning(line)
  yield* Services.announce(settings, publicUrl)
  const started = Layer.effectDiscard(announce(settings, publicUrl))
  const up = yield* Deferred.make<void>()
  const service = Layer.launch(
    Layer.effectDiscard(Deferred.succeed(up, undefined)).pipe(
      Layer.provideMerge(started),
      Layer.provideMerge(Service.layer({ ...settings, port }, publicUrl))
    )
  )
  return yield* Effect.raceFirst(service, Effect.andThen(Deferred.await(up), untilGone))
}).pipe(Effect.scoped, Logs.atLeast("Info"))

export const serve = Command.make("serve", {}, () => serveUntilStopped).pipe(
  Command.withDescription(
    "Run the service until it is stopped (SIGTERM or Ctrl-C end it cleanly).\n\nSettings come from the environment:\n\n" +
      columns([["NAME", "DEFAULT", ""], ...Settings.table])
  ),
  Command.withShortDescription("Run the service until it is stopped"),
  Command.withExamples([{ command: "slipway serve", description: "With a database of its own, on http://localhost:4000" }, {
    command: `${Settings.EXAMPLE} slipway serve`,
    description: "On a database of yours, at an address of yours"
  }])
)
