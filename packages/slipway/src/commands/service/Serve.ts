/** `slipway serve`: runs the service until it is stopped. */
import * as OutgoingRequest from "@slipway/machine/network/OutgoingRequest"
import * as ProxySettings from "@slipway/machine/network/ProxySettings"
import { Deferred, Effect, Fiber, Layer, Redacted, Schema } from "effect"
import { Command } from "effect/cli"
import { createServer } from "node:net"
import * as SourceHosts from "../../service/hosts/SourceHosts.ts"
import * as Logs from "../../service/Logs.ts"
import * as GitProgram from "../../service/machine/GitProgram.ts"
import * as ProcFolder from "../../service/machine/ProcFolder.ts"
import * as RunningServices from "../../service/RunningServices.ts"
import * as DataFolder from "../../service/storage/DataFolder.ts"
import * as OwnPostgres from "../../service/storage/OwnPostgres.ts"
import * as TemporaryFolder from "../../service/storage/TemporaryFolder.ts"
import * as Listening from "../../settings/Listening.ts"
import * as Settings from "../../settings/Settings.ts"
import { columns } from "../terminal/Output.ts"

/** The service cannot listen on the configured address. */
class CannotListen extends Schema.TaggedError<CannotListen>()("CannotListen", {
  host: Schema.String,
  address: Schema.String,
  cause: Schema.Defect()
}) {
  override get message() {
    const code = this.cause instanceof Error && "code" in this.cause ? this.cause.code : undefined
    if (code === "EADDRNOTAVAIL" && this.host === "127.0.0.1") {
      return `127.0.0.1 is no address of this machine, which has no IPv4. Set ${Listening.settings.host.name}=::1, or :: for all addresses.`
    }
    return code === "EADDRINUSE"
      ? `${this.address} is in use. Stop the program that listens there or choose another port with ${Listening.settings.port.name}.`
      : `Cannot listen on ${this.address} (${code}). Check ${Listening.settings.host.name} and ${Listening.settings.port.name}.`
  }
}

/** Checks the address before anything starts, and chooses the port if it is 0, because links need the port. */
export const reserve = ({ host, port }: Pick<Settings.Settings, "host" | "port">) =>
  Effect.callback<number, CannotListen>((resume) => {
    const server = createServer()
    server.once("error", (cause) =>
      resume(Effect.fail(new CannotListen({ host, address: `${host.includes(":") ? `[${host}]` : host}:${port}`, cause }))))
    server.listen({ host, port, exclusive: true }, () => {
      const address = server.address()
      server.close(() =>
        resume(Effect.succeed(address !== null && typeof address === "object" ? address.port : port))
      )
    })
  })

/** The default address for clients. An address for all interfaces becomes localhost. */
export const addressOf = (host: string, port: number): string => {
  const reached = host === "0.0.0.0" || host === "::" ? "localhost" : host.includes(":") ? `[${host}]` : host
  return `http://${reached}:${port}`
}

/** The code is behind the `#`: browsers never send that part, so it appears in no log and no Referer. */
export const linkOf = (publicUrl: string, code: Redacted.Redacted): string => `${publicUrl}/sign-in#${Redacted.value(code)}`

const serveUntilStopped = Effect.gen(function*() {
  const settings = yield* Settings.load
  // A process with GitHub that only serves HTTP never runs git.
  const git = yield* Effect.forkScoped(settings.role === "http" && !SourceHosts.hasLocal(settings) ? Effect.void : GitProgram.version)
  yield* ProcFolder.readable
  yield* TemporaryFolder.usable
  // A process that only serves HTTP needs the folder only for an embedded database.
  if (settings.role !== "http" || settings.databaseUrl === null) yield* DataFolder.writable(settings.dataDir)
  // Before the service announces itself.
  const untilGone = yield* DataFolder.watch(settings.dataDir)
  const port = settings.role === "worker" ? settings.port : yield* reserve(settings)
  const publicUrl = settings.publicUrl ?? addressOf(settings.host, port)
  for (const line of Settings.unknown(process.env)) yield* Effect.logWarning(line)
  for (const proxy of OutgoingRequest.proxies()) yield* Effect.logInfo(`requests to the outside go through ${ProxySettings.shown(proxy)}`)
  yield* RunningServices.announce(settings, publicUrl)
  const postgres = yield* OwnPostgres.begin(settings)
  const [{ announce }, Service] = yield* Effect.promise(() => Promise.all([import("./Announce.ts"), import("../../service/Service.ts")]))
  yield* Fiber.join(git)
  const started = Layer.effectDiscard(announce(settings, publicUrl))
  const up = yield* Deferred.make<void>()
  const service = Layer.launch(
    Layer.effectDiscard(Deferred.succeed(up, undefined)).pipe(
      Layer.provideMerge(started),
      Layer.provideMerge(Service.layer({ ...settings, port }, publicUrl, postgres))
    )
  )
  return yield* Effect.raceFirst(service, Effect.andThen(Deferred.await(up), untilGone))
}).pipe(Effect.scoped, Logs.atLeast("Info"))

export const serve = Command.make("serve", {}, () => serveUntilStopped).pipe(
  Command.withDescription(
    "Run the service until it is stopped (SIGTERM or Ctrl-C end it cleanly).\n\nSettings come from the environment:\n\n" +
      columns([["NAME", "DEFAULT", ""], ...Settings.table])
  ),
  Command.withExamples([{ command: "slipway serve", description: "With a database of its own, on http://127.0.0.1:4000" }, {
    command: `${Settings.EXAMPLE} slipway serve`,
    description: "On a database of yours, at an address of yours"
  }])
)
