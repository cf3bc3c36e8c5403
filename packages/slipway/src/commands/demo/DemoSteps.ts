/** The common steps of demos: start the service in a new folder, use it over HTTP only, and show events. */
import { SlipwayClient, type StreamEvent } from "@slipway/client"
import { Access } from "@slipway/domain/access/usecases/Access"
import { LocalRepositories } from "@slipway/local-source/LocalRepositories"
import { Context, Effect, Layer, Redacted, Schema } from "effect"
import path from "node:path"
import * as Isolation from "../../service/machine/Isolation.ts"
import * as Service from "../../service/Service.ts"
import * as Settings from "../../settings/Settings.ts"
import * as SourceHosts from "../../settings/SourceHosts.ts"
import { addressOf, reserve } from "../service/Serve.ts"
import { note, step } from "../terminal/Progress.ts"

/** A result differs from Slipway's promise. */
class DemoFailed extends Schema.TaggedError<DemoFailed>()("DemoFailed", { detail: Schema.String }) {
  override get message() {
    return `the demo failed: ${this.detail}`
  }
}
export const expect = (holds: boolean, detail: string) => holds ? Effect.void : Effect.fail(new DemoFailed({ detail }))
export const call = <A>(detail: string, request: () => Promise<A>) =>
  Effect.tryPromise({
    try: request,
    catch: (error) => new DemoFailed({ detail: `${detail}: ${error instanceof Error ? error.message : String(error)}` })
  })

export const REPO = "demo/shop"

/** Starts the whole service in `folder` until the scope closes. `more`: settings that override the operator's. */
export const start = (folder: string, more: Partial<Settings.Settings> = {}, wayOut: typeof Isolation.WayOut.Service = {}) =>
  step(
    "Postgres and the server are up",
    Effect.gen(function*() {
      const given = yield* Settings.load
      const address = { host: "127.0.0.1", port: yield* reserve({ host: "127.0.0.1", port: 0 }) }
      const settings = {
        ...given,
        ...address,
        publicUrl: null,
        dataDir: path.join(folder, "data"),
        secretsKeyFile: null,
        secretsKeyCommand: null,
        databaseUrl: null,
        role: "all" as const,
        sourceHosts: SourceHosts.LOCAL_ALONE,
        signIn: null,
        oidc: null,
        ...more
      }
      const server = addressOf(address.host, address.port)
      const services = yield* Layer.build(Service.layer(settings, server).pipe(Layer.provide(Layer.succeed(Isolation.WayOut, wayOut))))
      const found = yield* Effect.provide(Effect.all({ access: Access, repositories: LocalRepositories }), services)
      return { ...found, isolation: Context.get(services, Service.ChosenIsolation).kind, server }
    }),
    ({ server }) => server
  )

type Started = Effect.Success<ReturnType<typeof start>>

/** Connects like any other program. */
export const connect = Effect.fnUntraced(function*({ access, server }: Started) {
  const key = yield* step(
    "an API key is minted",
    access.createKey({ grant: "demo", label: "demo", scopes: ["sandboxes"], kind: "live" }),
    ({ record }) => `${record.prefix}…${record.last4}`
  )
  yield* note("From here on, everything goes over HTTP.")
  return new SlipwayClient({ baseUrl: server, apiKey: Redacted.value(key.key) })
})

/** Reads the events of a sandbox up to the first that `wanted` accepts, and shows them. */
export const following = Effect.fnUntraced(function*(client: SlipwayClient, id: string) {
  const reading = new AbortController()
  yield* Effect.addFinalizer(() => Effect.sync(() => reading.abort()))
  const events = client.streamEvents(id, { signal: reading.signal })
  return <A>(wanted: (event: StreamEvent) => A | undefined) =>
    call("following the stream", async () => {
      for (;;) {
        const next = await events.next()
        if (next.done === true) throw new Error("the stream ended early")
        const shown = describe(next.value)
        if (shown !== undefined) await Effect.runPromise(note(shown))
        const found = wanted(next.value)
        if (found !== undefined) return found
        if (next.value.type === "sandbox.status" && next.value.data.status === "failed") {
          throw new Error((await client.getSandbox(id)).error ?? "the sandbox failed")
        }
      }
    })
})

/** The line for an event, if it is worth showing. */
const describe = (event: StreamEvent): string | undefined => {
  switch (event.type) {
    case "sandbox.status":
      return "previous" in event.data ? `${event.data.previous ?? "new"} → ${event.data.status}` : undefined
    case "sandbox.boot": {
      const { cache, ms, repo, stage } = event.data
      return `${stage}${repo === undefined ? "" : ` ${repo}`} took ${ms} ms${cache === undefined ? "" : `, cache: ${cache}`}`
    }
    case "message.updated":
      return `${event.data.kind === "reasoning" ? "thinks" : "says"}: ${event.data.text}`
    case "tool.updated":
      return `${event.data.tool}: ${event.data.status}`
    default:
      return undefined
  }
}
