/** The only way out of isolated sandboxes: for each a unix socket, behind it a proxy that keeps to one allow list. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Context, Effect, Layer, Schema, type Scope } from "effect"
import { chmod, chown, open, rm } from "node:fs/promises"
import type { Server } from "node:http"
import { dirname, basename } from "node:path"
import type { Duplex } from "node:stream"
import { fileURLToPath } from "node:url"
import type { AllowList } from "./AllowList.ts"
import * as PortRelays from "./PortRelays.ts"
import * as Proxy from "./Proxy.ts"

class EgressError extends Schema.TaggedError<EgressError>()("EgressError", { detail: Schema.String }) {
  override get message() {
    return this.detail
  }
}

/** Port in every box that leads to its proxy. */
export const PORT = 3128
/** Address of the model gateway, as a box sees it. */
export const BASE_URL = `http://127.0.0.1:${PORT}`

/** The program that opens the port in a box; see there. It lies beside this file, in source and in a build alike. */
export const bridge = fileURLToPath(new URL(import.meta.url.endsWith(".ts") ? "./Bridge.main.ts" : "./Bridge.main.js", import.meta.url))

/** Starts a command when the bridge's port is open. Arguments: node, program, port, socket, the command. */
const BRIDGED = `
test "$("$1" --max-old-space-size=32 "$2" "$3" "$4" 9>&1 </dev/null >/dev/null 2>&1 &)" = listening || {
  echo "the way out of the box could not be opened" >&2
  exit 126
}
shift 4
exec "$@"
`

/** The command line, inside a box, of `command` with the port of {@link bridge} before it. `socket` is the box's path of its way out. */
export const bridged = (
  socket: string,
  command: ReadonlyArray<string>
): ReadonlyArray<string> => ["/bin/sh", "-c", BRIDGED, "slipway-bridge", process.execPath, bridge, `${PORT}`, socket, ...command]

/** For runtimes that read the variables of {@link environment} only where they are told to. Repositories may set these otherwise. */
export const runtimes: Readonly<Record<string, string>> = {
  // From Node 22.21 and 24.0 on: its `fetch` and `http`.
  NODE_USE_ENV_PROXY: "1",
  ...Object.fromEntries(["MAVEN_OPTS", "GRADLE_OPTS"].map((name) => [
    name,
    ["http", "https"].map((scheme) => `-D${scheme}.proxyHost=127.0.0.1 -D${scheme}.proxyPort=${PORT}`).join(" ")
  ]))
}

/** Tells tools of a box where the proxy is. Names in both cases, since tools read either. */
export const environment: Readonly<Record<string, string>> = Object.fromEntries(
  [["https_proxy", BASE_URL], ["http_proxy", BASE_URL], ["no_proxy", "127.0.0.1,localhost"]].flatMap(([name = "", value = ""]) => [
    [name, value],
    [name.toUpperCase(), value]
  ])
)

/** Takes a connection of a sandbox to its proxy, however it came here. */
export type Serve = (connection: Duplex) => void

export class Egress extends Context.Service<Egress, {
  readonly allow: AllowList
  /** Opens the sandbox's socket at `socket` until the scope closes, for `owner` alone (`null`: our own user). */
  listen(options: {
    readonly sandboxId: SandboxId
    readonly socket: string
    readonly owner: { readonly uid: number; readonly gid: number } | null
  }): Effect.Effect<void, EgressError, Scope.Scope>
  /** Opens the sandbox's proxy without a socket, until the scope closes. */
  serve(sandboxId: SandboxId): Effect.Effect<Serve, never, Scope.Scope>
  /**
   * Leads the sandbox's plain requests to the gateway at `address` until the scope closes: those whose path begins with `prefix`, by
   * default all. The longest prefix counts, and of equal ones the newest.
   */
  route(sandboxId: SandboxId, address: URL, prefix?: string): Effect.Effect<void, never, Scope.Scope>
  /**
   * Connects to a port on the loopback interface of a process of the sandbox that was started with its way out; `null`: none has the
   * port open. The caller destroys the connection.
   */
  connect(sandboxId: SandboxId, port: number): Effect.Effect<Duplex | null>
  /** Whether `connect` could reach a process of the sandbox now. */
  hasBridge(sandboxId: SandboxId): Effect.Effect<boolean>
  /** Whether there is anything that the sandbox may reach now. */
  isOpen(sandboxId: SandboxId): Effect.Effect<boolean>
  /** Refused connections of a sandbox since the proxy started to listen. */
  refusals(sandboxId: SandboxId): Effect.Effect<number>
}>()("@slipway/machine/Egress") {}

export type Options = Pick<Proxy.Options, "allow" | "lookup" | "mayConnect" | "maxConnections" | "headMillis">

/** Refusals of one sandbox that are logged in a minute; a program that goes on trying could fill a disk. */
const LOGGED_PER_MINUTE = 60

/** Counts refusals, and says which of them are to be logged. */
const counter = () => {
  let count = 0
  let window = { minute: -1, logged: 0 }
  let unlogged = 0
  return {
    get count() {
      return count
    },
    /** How many were left out before this one, or `null` when it is left out itself. */
    next(millis: number): number | null {
      count++
      const minute = Math.floor(millis / 60_000)
      if (window.minute !== minute) window = { minute, logged: 0 }
      if (++window.logged > LOGGED_PER_MINUTE) {
        unlogged++
        return null
      }
      const before = unlogged
      unlogged = 0
      return before
    }
  }
}

interface Route {
  readonly address: URL
  readonly prefix: string
}

/** The gateway for a path. */
const gatewayFor = (routes: ReadonlyArray<Route>, path: string): URL | undefined => {
  let found: Route | undefined
  for (const route of routes) {
    if (path.startsWith(route.prefix) && route.prefix.length >= (found?.prefix.length ?? 0)) found = route
  }
  return found?.address
}

const listening = (server: Server, path: string) =>
  new Promise<void>((resolve, reject) => {
    server.once("error", reject)
    server.listen(path, resolve)
  })

export const layer = (options: Options): Layer.Layer<Egress> =>
  Layer.effect(
    Egress,
    Effect.gen(function*() {
      const routes = new Map<SandboxId, ReadonlyArray<Route>>()
      const counters = new Map<SandboxId, ReturnType<typeof counter>>()
      const relays = new Map<SandboxId, PortRelays.PortRelays>()
      const run = Effect.runForkWith(yield* Effect.context<never>())

      const proxyOf = (sandboxId: SandboxId) => {
        const refusals = counter()
        counters.set(sandboxId, refusals)
        const ports = PortRelays.make()
        relays.set(sandboxId, ports)
        const proxy = Proxy.make({
          ...options,
          gateway: (path) => gatewayFor(routes.get(sandboxId) ?? [], path),
          ports: ports.take,
          refused: ({ reason, target }) => {
            const before = refusals.next(Date.now())
            if (before === null) return
            const more = before === 0 ? {} : { notLogged: before }
            run(Effect.logWarning("a sandbox was refused a connection", { sandboxId, target, reason, refusals: refusals.count, ...more }))
          }
        })
        const close = () => {
          proxy.close()
          if (counters.get(sandboxId) === refusals) counters.delete(sandboxId)
          if (relays.get(sandboxId) === ports) relays.delete(sandboxId)
        }
        return { ...proxy, close }
      }

      const serve = (sandboxId: SandboxId) =>
        Effect.map(
          Effect.acquireRelease(Effect.sync(() => proxyOf(sandboxId)), ({ close }) => Effect.sync(close)),
          ({ take }): Serve => take
        )

      const listen = Effect.fn("Egress.listen")(function*({ owner, sandboxId, socket }: Parameters<Egress["Service"]["listen"]>[0]) {
        const proxy = proxyOf(sandboxId)
        const opened = Effect.tryPromise({
          try: async () => {
            // By descriptor: the path itself may be longer than the 107 bytes a socket may have.
            const folder = await open(dirname(socket), "r")
            const path = `/proc/self/fd/${folder.fd}/${basename(socket)}`
            try {
              await rm(path, { force: true })
              await listening(proxy.server, path)
              await chmod(path, 0o600)
              if (owner !== null) await chown(path, owner.uid, owner.gid)
              return folder
            } catch (error) {
              proxy.close()
              await folder.close()
              throw error
            }
          },
          catch: (error) =>
            new EgressError({ detail: `The sandbox's way out could not be opened: ${error instanceof Error ? error.message : error}` })
        })
        yield* Effect.acquireRelease(opened, (folder) =>
          Effect.promise(async () => {
            proxy.close()
            await folder.close()
          }))
      })

      const route = (sandboxId: SandboxId, address: URL, prefix = "/") =>
        Effect.asVoid(Effect.acquireRelease(
          Effect.sync(() => {
            const opened: Route = { address, prefix }
            routes.set(sandboxId, [...(routes.get(sandboxId) ?? []), opened])
            return opened
          }),
          (opened) =>
            Effect.sync(() => {
              const left = (routes.get(sandboxId) ?? []).filter((other) => other !== opened)
              if (left.length > 0) routes.set(sandboxId, left)
              else routes.delete(sandboxId)
            })
        ))

      return Egress.of({
        allow: options.allow,
        listen,
        serve,
        route,
        connect: (sandboxId, port) => Effect.promise(() => relays.get(sandboxId)?.open(port) ?? Promise.resolve(null)),
        hasBridge: (sandboxId) => Effect.sync(() => relays.get(sandboxId)?.hasBridge() ?? false),
        isOpen: (sandboxId) => Effect.sync(() => options.allow.size > 0 || routes.has(sandboxId)),
        refusals: (sandboxId) => Effect.sync(() => counters.get(sandboxId)?.count ?? 0)
      })
    })
  )
