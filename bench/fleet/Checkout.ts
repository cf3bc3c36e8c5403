/** A service of one checkout, as a person runs it: processes of their own, one Postgres that is kept durable, real repositories. */
import { Effect } from "effect"
import { execFile, execFileSync } from "node:child_process"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { Agent, request } from "node:http"
import path from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { ownDatabase, serviceFolder } from "../../packages/slipway/testing/ServiceCluster.ts"
import * as ServiceProcess from "../../packages/slipway/testing/ServiceProcess.ts"
import * as Waiting from "../Waiting.ts"

export const temporaryFolder = serviceFolder("slipway-fleet-")

/** A repository with one commit of as many small files. */
export const makeRepository = (folder: string, files: number): string => {
  mkdirSync(folder, { recursive: true })
  for (let i = 0; i < files; i++) {
    const inside = path.join(folder, `src/part-${Math.floor(i / 100)}`)
    if (i % 100 === 0) mkdirSync(inside, { recursive: true })
    writeFileSync(path.join(inside, `file-${i}.txt`), `${i} ${"lorem ipsum dolor sit amet ".repeat(40)}\n`)
  }
  const git = (...args: ReadonlyArray<string>) =>
    execFileSync("git", ["-c", "user.name=A", "-c", "user.email=a@example.com", ...args], { cwd: folder, stdio: "pipe" })
  git("init", "--quiet", "--initial-branch=main")
  git("add", "--all")
  git("commit", "--quiet", "--allow-empty", "--message", "First")
  return folder
}

/** An event as far as it is read here. */
export interface Told {
  readonly type: string
  readonly at: number
  readonly data: { readonly [name: string]: unknown }
}

interface Page {
  readonly data: ReadonlyArray<{ readonly type: string; readonly ts: string; readonly data: Told["data"] }>
  readonly nextCursor: string
}

/** One process. */
export interface Service {
  readonly pid: number
  readonly url: string
  readonly key: string
  /** Model: that of the catalogue which is the default, unless another one is said. */
  readonly create: (prompt: string, repo?: string, model?: string) => Promise<string>
  readonly send: (id: string, prompt: string) => Promise<void>
  readonly events: (id: string) => Promise<ReadonlyArray<Told>>
  /** Follows its stream until there is an event of that type, and answers when it came, by `performance.now`. */
  readonly heard: (id: string, type: string) => Promise<number>
  /** The same, until it says this text. */
  readonly said: (id: string, text: string) => Promise<number>
  /** Publishes its changes as a draft pull request, and waits for it. */
  readonly publish: (id: string) => Promise<void>
  readonly status: (id: string) => Promise<string>
  /** Ends the sandbox, and waits until nothing of it is left. */
  readonly terminate: (id: string) => Promise<void>
  readonly stop: (signal: NodeJS.Signals) => Promise<void>
}

/** Looks until it finds something; gives up with `what` after `seconds`. */
export const until = async <A>(what: string, seconds: number, look: () => Promise<A | undefined>, everyMillis = 20): Promise<A> => {
  const end = performance.now() + seconds * 1000
  for (;;) {
    const found = await look()
    if (found !== undefined) return found
    if (performance.now() > end) throw new Error(`${what}: not within ${seconds} s`)
    await sleep(everyMillis)
  }
}

/** For what takes a second on a quiet machine. */
const LONGEST_SECONDS = 60
/** For all that a sandbox does until an event. */
const LONGEST_FOLLOWED_SECONDS = 180

const agent = new Agent({ keepAlive: true })

/** With as little of the machine's time as can be: what is measured runs on the same processors. */
const exchange = (url: string, { body, headers }: { readonly headers: Record<string, string>; readonly body: string | undefined }) =>
  new Promise<readonly [status: number, text: string]>((resolve, reject) => {
    const asked = request(url, { agent, headers, method: body === undefined ? "GET" : "POST" }, (reply) => {
      const chunks: Array<Buffer> = []
      reply.on("data", (chunk: Buffer) => chunks.push(chunk))
      reply.on("end", () => resolve([reply.statusCode ?? 0, Buffer.concat(chunks).toString()]))
      reply.on("error", reject)
    })
    asked.setTimeout(LONGEST_SECONDS * 1000, () => asked.destroy(new Error(`${url}: nothing came within ${LONGEST_SECONDS} s`)))
    asked.on("error", reject)
    asked.end(body)
  })

/** Until the stream has said `what`. Fails with the sandbox, when the stream ends, and when that takes too long. */
export const follow = async (url: string, key: string, what: string, seconds = LONGEST_FOLLOWED_SECONDS): Promise<number> => {
  let text = ""
  const asked = request(url, { headers: { authorization: `Bearer ${key}`, accept: "text/event-stream" } })
  const heard = new Promise<number>((resolve, reject) => {
    asked.on("response", (reply) => {
      reply.setEncoding("utf8")
      reply.on("data", (chunk: string) => {
        text += chunk
        if (text.includes(what)) resolve(performance.now())
        else if (text.includes(`"status":"failed"`)) reject(new Error(`${url}: ${text}`))
      })
      reply.on("error", reject)
      reply.on("end", () => reject(new Error(`${url} ended without ${what}: ${text}`)))
    })
    asked.on("error", reject)
    asked.end()
  })
  try {
    return await Waiting.within(seconds, () => `${url}: ${what} after ${text.slice(-1000) || "nothing"}`, heard)
  } finally {
    asked.destroy()
  }
}

export interface Fleet {
  readonly databaseUrl: string
  /** Runs a command to its end, with the machine's data folder. */
  readonly command: (dataDir: string, ...args: ReadonlyArray<string>) => Promise<string>
  /** Starts a process on that data folder; the first one says the key that all use. Killed with the scope. */
  readonly start: (dataDir: string, settings?: Readonly<Record<string, string>>) => Promise<Service>
}

/** Runs the code of `checkout`, on a database of its own. */
export const make = (checkout: string) =>
  Effect.gen(function*() {
    const program = path.join(checkout, "packages/slipway/bin/slipway.js")
    const node = path.join(checkout, "node_modules/.bin/node")
    const home = yield* temporaryFolder
    const databaseUrl = yield* ownDatabase(home)
    const running = new Set<ServiceProcess.ServiceProcess>()
    yield* Effect.addFinalizer(() => Effect.promise(() => Promise.all(Array.from(running, ({ kill }) => kill()))))
    const environment = (dataDir: string, settings: Readonly<Record<string, string>> = {}) =>
      ServiceProcess.environment(dataDir, { XDG_STATE_HOME: path.join(home, "state"), DATABASE_URL: databaseUrl, ...settings })
    let key: string | undefined

    const fleet: Fleet = {
      databaseUrl,
      command: (dataDir, ...args) =>
        new Promise((resolve, reject) => {
          mkdirSync(dataDir, { recursive: true })
          execFile(
            node,
            [program, ...args],
            { env: environment(dataDir), cwd: dataDir, timeout: LONGEST_SECONDS * 1000 },
            (error, stdout, stderr) => {
              if (error === null) return resolve(stdout)
              const late = error.killed === true ? ` took more than ${LONGEST_SECONDS} s` : ""
              reject(new Error(`slipway ${args.join(" ")}${late}: ${stdout}${stderr}`))
            }
          )
        }),
      start: async (dataDir, settings) => {
        mkdirSync(dataDir, { recursive: true })
        const env = environment(dataDir, settings)
        const service = await ServiceProcess.start({ dataDir, env, node, program, seconds: LONGEST_SECONDS })
        running.add(service)
        const { pid, url } = service
        const own = key ??= service.key ?? ""
        const call = async (address: string, body?: object): Promise<unknown> => {
          const [status, text] = await exchange(`${url}/api/public/v1/sandboxes${address}`, {
            headers: { authorization: `Bearer ${own}`, "content-type": "application/json" },
            body: body === undefined ? undefined : JSON.stringify(body)
          })
          const said: unknown = JSON.parse(text)
          if (status >= 400) throw new Error(`${address}: ${status} ${text}`)
          return said
        }
        const heard = (id: string, what: string) => follow(`${url}/api/public/v1/sandboxes/${id}/events/stream?since=0`, own, what)
        // Events that were read are not requested again: a look should cost the service as little as possible.
        const read = new Map<string, { readonly events: Array<Told>; after: string }>()
        return {
          pid,
          url,
          key: own,
          create: async (prompt, repo = "acme/shop", model) =>
            ((await call("", { repos: [{ fullName: repo }], prompt, model })) as { readonly id: string }).id,
          send: async (id, prompt) => void await call(`/${id}/messages`, { prompt }),
          status: async (id) => ((await call(`/${id}`)) as { readonly status: string }).status,
          heard: (id, type) => heard(id, `"type":"${type}"`),
          said: heard,
          publish: async (id) => {
            await call(`/${id}/pull-request`, {})
            await heard(id, `"type":"pull_request.updated"`)
          },
          terminate: async (id) => {
            await call(`/${id}/terminate`, {})
            await heard(id, `"status":"terminated"`)
          },
          events: async (id) => {
            const known = read.get(id) ?? { events: [], after: "0" }
            read.set(id, known)
            for (;;) {
              const page = (await call(`/${id}/events?after=${known.after}`)) as Page
              if (page.data.length === 0) return known.events
              known.events.push(...page.data.map(({ data, ts, type }) => ({ type, at: Date.parse(ts), data })))
              known.after = page.nextCursor
            }
          },
          stop: async (signal) => {
            await Waiting.within(LONGEST_SECONDS, () => `the end of slipway serve by ${signal}`, service.stop(signal))
            running.delete(service)
          }
        }
      }
    }
    return fleet
  })

/** Resident memory, KiB. */
export const residentOf = (pid: number): number => Number(/VmRSS:\s+(\d+)/u.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0)

const timesOf = (pid: number): ReadonlyArray<number> => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? []
  return fields.slice(11, 15).map((hundredths) => Number(hundredths) * 10)
}

/** Processor time of the process so far, milliseconds. Linux counts it in hundredths of a second. */
export const processorOf = (pid: number): number => {
  const [user = 0, system = 0] = timesOf(pid)
  return user + system
}

/** The same of processes that it started and that have ended, with what those had started. */
export const processorOfEnded = (pid: number): number => {
  const [, , user = 0, system = 0] = timesOf(pid)
  return user + system
}

/** The same of the process and all that descends from it, whether it still runs or not. */
export const processorOfAll = (pid: number): number => {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter((id) => id !== "").map(Number)
    return processorOf(pid) + processorOfEnded(pid) + children.reduce((sum, child) => sum + processorOfAll(child), 0)
  } catch {
    return 0 // Ended meanwhile: its parent has its time.
  }
}
