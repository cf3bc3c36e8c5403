/**
 * Two processes that answer requests and a worker, on one Postgres, for cases that ask all of them. Every answer is checked as it
 * comes. A leaked secret is looked for when all cases of a file are over.
 */
import { Effect, Exit, Scope } from "effect"
import { randomUUID } from "node:crypto"
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { Agent, type IncomingHttpHeaders, request as send } from "node:http"
import path from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import { Client } from "pg"
import { afterAll } from "vitest"
import * as ServiceCluster from "../../../testing/ServiceCluster.ts"
import { repository, runHere } from "../../commands/SlipwayProcess.ts"
import * as PlantedServer from "../../conformance/PlantedServer.ts"
import { filesBelow, foundIn, visibleOf } from "../service/Leaks.ts"
import { fault, type Found, plant as planted, ROUNDS } from "./Battery.ts"

export const API = "/api/public/v1"
export const SANDBOXES = `${API}/sandboxes`
/** No sandbox has it. */
export const UNKNOWN = `${SANDBOXES}/c_zzzzzzzzzzzz`

/** The fields of answers that are read here; other tests check the whole shape. */
export interface Said {
  readonly id?: string
  readonly status?: string
  readonly commandId?: string
  readonly revision?: number
  readonly outcome?: string
  readonly actionState?: string
  readonly pullRequest?: { readonly number: number; readonly draft: boolean } | null
  readonly data?: ReadonlyArray<SaidEvent>
  readonly entries?: ReadonlyArray<{ readonly name: string; readonly size: number | null }>
  readonly working?: object | null
  readonly base?: object | null
  readonly nextCursor?: string | null
  readonly error?: { readonly code: string; readonly message: string }
}

export interface SaidEvent {
  readonly id: string
  readonly type: string
  readonly data: Readonly<Record<string, unknown>>
}

export interface Answer {
  /** 0: there was none. */
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  readonly said: Said
}

export interface Ask {
  readonly method?: string
  readonly key?: string
  readonly headers?: Readonly<Record<string, string | ReadonlyArray<string>>>
  readonly body?: unknown
  /** An address of the loopback to come from: some limits count by address. */
  readonly from?: string
}

export interface Key {
  readonly id: string
  readonly key: string
}

export interface World {
  readonly service: ServiceCluster.Service
  readonly http: readonly [ServiceCluster.Process, ServiceCluster.Process]
  readonly urls: Urls
  readonly worker: ServiceCluster.Process
  /** A key of the grant `shop`. */
  readonly key: string
  /** `args`: more of `slipway keys create`. */
  readonly mint: (...args: ReadonlyArray<string>) => Promise<Key>
  /** A command that administers the service, for what it prints. */
  readonly admin: (...args: ReadonlyArray<string>) => Promise<string>
  readonly rows: (text: string, values?: ReadonlyArray<unknown>) => Promise<ReadonlyArray<Record<string, unknown>>>
  readonly ask: (url: string, address: string, ask?: Ask) => Promise<Answer>
  /** Secrets that may be seen only by their owners. */
  readonly secrets: Record<string, string>
  /** People's text, which is theirs to read and must not be in the log. */
  readonly content: { readonly prompt: string }
  /** Where the processes log. */
  readonly logs: string
  /** Wrong answers. */
  readonly wrong: Array<string>
  /** Bodies of refusals. */
  readonly refusals: Set<string>
  /** Command lines of this machine's processes, as they were seen. */
  readonly commandLines: Set<string>
}

/** The addresses of the two processes. */
export type Urls = readonly [string, string]

export const times = (many: number): ReadonlyArray<number> => Array.from({ length: many }, (_, i) => i)
export const unique = (): string => randomUUID()
/** Counts by value: `200 × 49, 201 × 1`. */
export const tally = (values: Iterable<string | number>): string => {
  const counts = new Map<string, number>()
  for (const value of values) counts.set(String(value), (counts.get(String(value)) ?? 0) + 1)
  return [...counts].sort(([a], [b]) => a < b ? -1 : 1).map(([value, n]) => `${value} × ${n}`).join(", ")
}

/** Looks again and again, for up to that long. */
export const eventually = async <A>(what: string, millis: number, look: () => Promise<A | null>): Promise<A> => {
  for (const end = Date.now() + millis; Date.now() < end; await pause(50)) {
    const seen = await look()
    if (seen !== null) return seen
  }
  throw new Error(`${what}: not within ${millis / 1000} s`)
}

const agent = new Agent({ keepAlive: true, maxSockets: 128 })
/** No request of ours is this slow. */
const PATIENCE_MILLIS = 60_000

/** Sends one request. */
export const call = (url: string, address: string, { body, from, headers = {}, key, method }: Ask = {}): Promise<Answer> =>
  new Promise((resolve) => {
    const none = () => resolve({ status: 0, headers: {}, text: "", said: {} })
    const bytes = body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body)
    const { hostname, port } = new URL(url)
    const request = send({
      hostname,
      port,
      path: address,
      method: method ?? (body === undefined ? "GET" : "POST"),
      headers: {
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...(bytes === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(bytes) }),
        ...headers
      } as Record<string, string>,
      timeout: PATIENCE_MILLIS,
      agent: from === undefined && agent,
      ...(from === undefined ? {} : { localAddress: from })
    }, (response) => {
      const chunks: Array<Buffer> = []
      response.on("data", (chunk: Buffer) => chunks.push(chunk))
      response.on("error", none)
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8")
        const said = text.startsWith("{") ? JSON.parse(text) : {}
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, said })
      })
    })
    request.on("error", none)
    request.on("timeout", () => request.destroy())
    request.end(bytes)
  })

const ERROR = /^\{"error":\{"code":"\w+","message":".+"\}\}$/su

/** How often it is looked at what runs. */
const LOOK_MILLIS = 500

export interface Options {
  /** The name of the folder with the logs. */
  readonly name: string
  readonly settings?: Readonly<Record<string, string>>
}

/** Ends with the scope. */
export const make = ({ name, settings = {} }: Options): Effect.Effect<World, never, Scope.Scope> =>
  Effect.gen(function*() {
    const logs = path.resolve(import.meta.dirname, "../../../test-output/faults", name)
    rmSync(logs, { recursive: true, force: true })
    const service = yield* ServiceCluster.make(logs, {
      SLIPWAY_ISOLATION: "none",
      SLIPWAY_LOG_LEVEL: "debug",
      SLIPWAY_RATE_LIMIT_PER_MINUTE: "100000",
      SLIPWAY_RATE_LIMIT_PER_USER: "1000000",
      SLIPWAY_RATE_LIMIT_PER_GRANT: "1000000",
      // The machine has other work as well.
      SLIPWAY_WORKER_SLOTS: "2",
      ...settings
    }).pipe(Effect.orDie)
    const commandLines = new Set<string>()
    const looking = setInterval(
      () => visibleOf(process.pid).commandLines.split("\n").forEach((line) => commandLines.add(line)),
      LOOK_MILLIS
    )
    yield* Effect.addFinalizer(() => Effect.sync(() => clearInterval(looking)))
    return yield* Effect.promise(async (): Promise<World> => {
      const http = [await service.http("http-1"), await service.http("http-2")] as const
      const here = path.join(service.home, "here")
      mkdirSync(here)
      const urls = [http[0].url, http[1].url] as const
      const secrets: Record<string, string> = {}
      const [wrong, refusals]: [Array<string>, Set<string>] = [[], new Set()]
      const admin = async (...args: ReadonlyArray<string>) => {
        const { code, stderr, stdout } = await Effect.runPromise(runHere(here, args, {
          DATABASE_URL: service.databaseUrl,
          SLIPWAY_SECRETS_KEY_FILE: path.join(service.home, "secrets.key"),
          ...settings
        }))
        if (code !== 0) throw new Error(`slipway ${args.join(" ")}: ${stderr}${stdout}`)
        return stdout
      }
      const mint = async (...args: ReadonlyArray<string>): Promise<Key> => {
        const made: Key = JSON.parse(await admin("keys", "create", "--json", ...args))
        secrets[`key ${made.id}`] = made.key
        return made
      }
      const { key } = await mint("--grant", "shop")
      if (settings["SLIPWAY_GITHUB_APP_ID"] === undefined) await admin("repos", "add", "acme/shop", repository(service.home))
      return {
        service,
        http,
        urls,
        worker: await service.worker("worker"),
        key,
        mint,
        admin,
        // A connection for each: a lasting connection is lost with its server.
        rows: async (text, values = []) => {
          const client = new Client({ connectionString: service.databaseUrl, options: "-c search_path=slipway" })
          await client.connect()
          try {
            return (await client.query(text, [...values])).rows
          } finally {
            await client.end()
          }
        },
        ask: async (url, address, ask = {}) => {
          const answer = await call(url, address, ask)
          // Answers of a planted server are not the service's.
          if (answer.status >= 400 && urls.includes(url)) {
            const { date: _date, ratelimit: _rate, "x-request-id": _id, ...headers } = answer.headers
            refusals.add(`${answer.text}\n${JSON.stringify(headers)}`)
            if (ask.method !== "HEAD" && !ERROR.test(answer.text)) {
              wrong.push(`${ask.method ?? "GET or POST"} ${address}: ${answer.status} has another body: ${answer.text.slice(0, 200)}`)
            }
          }
          return answer
        },
        secrets,
        content: { prompt: `prompt-canary-${unique()}` },
        logs,
        wrong,
        refusals,
        commandLines
      }
    })
  })

/** One for all cases of a file, made for the first of them. */
export const shared = (options: Effect.Effect<Options, never, Scope.Scope>): Effect.Effect<World> => {
  const scope = Scope.makeUnsafe()
  afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))
  return Effect.runSync(Effect.cached(Scope.provide(Effect.flatMap(options, make), scope)))
}

/** `rounds`: how often what may be repeated is, at most. */
export type Case = (world: World, urls: Urls, rounds: number) => Promise<Found>

/** A server's defect, and the loss that its case then reports. */
export interface Defect {
  readonly plant: PlantedServer.Plant
  readonly tells: RegExp
}

const attempt = (run: () => Promise<Found>) =>
  Effect.tryPromise({ try: run, catch: (error) => error instanceof Error ? error : new Error(String(error)) })

const PLANTED_ROUNDS = 1

export const cases = (world: Effect.Effect<World>) => ({
  /** A case and, before it, its checks on servers that each do one thing wrong: proxies before the two processes. */
  both: (what: string, defects: Readonly<Record<string, Defect>>, run: Case) => {
    for (const [defect, { plant, tells }] of Object.entries(defects)) {
      planted(
        `${what}: ${defect}`,
        [],
        Effect.gen(function*() {
          const real = yield* world
          const proxies = [yield* PlantedServer.start(real.urls[0]), yield* PlantedServer.start(real.urls[1])] as const
          for (const proxy of proxies) proxy.plant(plant)
          const { done, lost } = yield* attempt(() => run(real, [proxies[0].url, proxies[1].url], PLANTED_ROUNDS))
          return { done, lost: lost.filter((line) => tells.test(line)) }
        })
      )
    }
    fault(what, [], Effect.flatMap(world, (real) => attempt(() => run(real, real.urls, ROUNDS))))
  },
  /** Looks for what got out while the cases before it ran: the last one of a file. */
  swept: () => {
    const what = "25 no secret got out, no process ended by itself, and every refusal had the body of errors"
    planted(
      `${what}: a key is in a log line`,
      [],
      Effect.map(world, (real) => {
        const [key = ""] = Object.values(real.secrets)
        return { done: "looked for keys in a log that has one", lost: foundIn(`{"message":"asked with ${key}"}`, real.secrets) }
      })
    )
    fault(what, [], Effect.flatMap(world, (real) => attempt(() => sweep(real))))
  }
})

/** Everything that is stored, as text. */
const dump = async ({ rows }: World): Promise<string> => {
  const tables = await rows("SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname = 'slipway'")
  const all: Array<string> = []
  for (const { name } of tables) for (const row of await rows(`SELECT t::text AS row FROM ${String(name)} t`)) all.push(String(row["row"]))
  return all.join("\n")
}

const sweep = async (world: World): Promise<Found> => {
  const { commandLines, content, http, logs, refusals, secrets, service, worker } = world
  const inHex = Object.fromEntries(
    Object.entries(secrets).map(([name, secret]) => [`${name}, in hex`, Buffer.from(secret).toString("hex")])
  )
  const everywhere = { ...secrets, ...inHex }
  const places: Readonly<Record<string, readonly [text: string, of: Readonly<Record<string, string>>]>> = {
    "the logs": [readdirSync(logs).map((file) => readFileSync(path.join(logs, file), "utf8")).join("\n"), { ...everywhere, ...content }],
    "refusals": [[...refusals].join("\n"), { ...everywhere, ...content }],
    "command lines": [[...commandLines].join("\n"), { ...everywhere, ...content }],
    "the database": [await dump(world), everywhere],
    "the worker's files": [filesBelow(path.join(service.home, "machines")), everywhere]
  }
  const lost = Object.entries(places).flatMap(([place, [text, of]]) => foundIn(text, of).map((name) => `${name} is in ${place}`))
  for (const { ends, name } of [...http, worker]) lost.push(...ends.map((how) => `${name} ended by itself: ${how}`))
  const mebibytes = Object.values(places).reduce((sum, [text]) => sum + text.length, 0) / 2 ** 20
  const looked = `looked for ${Object.keys(secrets).length} secrets in ${mebibytes.toFixed(0)} MiB of ${Object.keys(places).join(", ")}`
  return { done: `${looked}; ${refusals.size} different refusals`, lost: [...lost, ...world.wrong] }
}

/** The request of a creation; its prompt has the canary. */
export const creation = ({ content }: World, script: string): object => ({
  repos: [{ fullName: "acme/shop" }],
  prompt: `${content.prompt} ${script}`,
  title: "A case"
})

/** A sandbox of the grant `shop` that was accepted. */
export const create = async (world: World, script: string, more: object = {}, key = world.key): Promise<string> => {
  const { said, status, text } = await world.ask(world.urls[0], SANDBOXES, { key, body: { ...creation(world, script), ...more } })
  if (status !== 201 || said.id === undefined) throw new Error(`no sandbox: ${status} ${text}`)
  return said.id
}

/** The events of the log after an event. */
export const logOf = async ({ ask, key: own, urls }: World, id: string, from = "0", key = own): Promise<ReadonlyArray<SaidEvent>> => {
  const all: Array<SaidEvent> = []
  for (let after = from;;) {
    const { said, status, text } = await ask(urls[0], `${SANDBOXES}/${id}/events?limit=100&after=${after}`, { key })
    if (status !== 200) throw new Error(`the log of ${id}: ${status} ${text}`)
    const { data = [], nextCursor } = said
    if (data.length === 0) return all
    all.push(...data)
    after = String(nextCursor)
  }
}

/** Waits for such an event of the sandbox. */
export const event = (
  world: World,
  id: string,
  is: (event: SaidEvent) => boolean,
  key = world.key,
  millis = 120_000
): Promise<SaidEvent> => {
  let last = "0"
  return eventually(`an event of ${id}`, millis, async () => {
    const more = await logOf(world, id, last, key)
    last = more.at(-1)?.id ?? last
    return more.find(is) ?? null
  })
}

/** Waits for the end of the sandbox's first turn, and for nothing when it is to fail. */
export const turnEnd = async (world: World, id: string, key = world.key): Promise<void> => {
  const { data } = await event(world, id, ({ type }) => type === "turn.completed", key)
  if (data["state"] !== "succeeded") throw new Error(`the turn of ${id}: ${JSON.stringify(data)}`)
}

export const terminate = ({ ask, key: own, urls }: World, id: string, key = own): Promise<Answer> =>
  ask(urls[0], `${SANDBOXES}/${id}/terminate`, { key, method: "POST" })

/** Bytes that the kernel holds of what was sent to each client, by its port, of connections that the server has not closed. */
export const carried = (url: string): ReadonlyMap<number, number> => {
  const server = Number(new URL(url).port)
  const [open, queued] = [new Map<number, number>(), new Map<number, number>()]
  const portOf = (address = "") => Number.parseInt(address.split(":")[1] ?? "", 16)
  for (const line of readFileSync("/proc/net/tcp", "utf8").split("\n").slice(1)) {
    // The fields of a line: a number, both addresses, the state (01: established), bytes to be sent and to be read.
    const [, local, remote, state, queues = ""] = line.trim().split(/\s+/u)
    const [toSend = 0, toRead = 0] = queues.split(":").map((bytes) => Number.parseInt(bytes, 16))
    if (portOf(local) === server && state === "01") open.set(portOf(remote), toSend)
    if (portOf(remote) === server) queued.set(portOf(local), toRead)
  }
  return new Map(Array.from(open, ([port, bytes]) => [port, bytes + (queued.get(port) ?? 0)]))
}

/** Milliseconds so far that a process's first thread was kept from a processor by others who share the machine. */
const queuedMillis = (stat: string): number => Number(readFileSync(stat, "utf8").split(" ")[1]) / 1e6

/** A watch of what that process and we do: what either waited for a processor does not count, or both at the same time. */
export const stopwatch = (pid: number): () => number => {
  const threads = [`/proc/${pid}/schedstat`, "/proc/thread-self/schedstat"]
  const [began, queued] = [performance.now(), threads.map(queuedMillis)]
  return () => Math.max(0, performance.now() - began - Math.max(...threads.map((stat, i) => queuedMillis(stat) - (queued[i] ?? 0))))
}

/** Memory of a process, in MiB. */
export const rssOf = (pid: number): number => Number(/^VmRSS:\s+(\d+)/mu.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024

export const descriptorsOf = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length
