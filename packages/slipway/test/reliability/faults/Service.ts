/** A service of several processes for one file of the battery: what its cases have in common. */
import { Effect } from "effect"
import { randomBytes } from "node:crypto"
import { rmSync } from "node:fs"
import path from "node:path"
import { Client } from "pg"
import type { Rows } from "../../../testing/Readers.ts"
import * as ServiceCluster from "../../../testing/ServiceCluster.ts"
import { repository } from "../../commands/SlipwayProcess.ts"
import * as Checks from "./Checks.ts"
import * as Load from "./Load.ts"

const SETTINGS = {
  SLIPWAY_ISOLATION: "none",
  SLIPWAY_RATE_LIMIT_PER_MINUTE: "100000",
  SLIPWAY_RATE_LIMIT_PER_USER: "1000000",
  SLIPWAY_RATE_LIMIT_PER_GRANT: "1000000",
  SLIPWAY_STREAMS_PER_USER: "5000",
  SLIPWAY_WEBHOOK_PRIVATE: "true",
  // The machine has other work as well.
  SLIPWAY_WORKER_SLOTS: "2"
}

export interface Options {
  /** The name of its logs, below `test-output/faults`. */
  readonly name: string
  readonly http?: number
  readonly workers?: number
  readonly settings?: Readonly<Record<string, string>>
  /** Without it, one of its own. `direct`: on a way that no fault is on. */
  readonly database?: { readonly url: string; readonly direct: string }
  /** Settings of each worker alone. */
  readonly ofWorkers?: Readonly<Record<string, string>>
}

/** Begins what people say in prompts and no log may have. */
const canary = `canary-${randomBytes(8).toString("hex")}`

export const make = Effect.fnUntraced(function*({ database, http = 1, name, ofWorkers = {}, settings = {}, workers = 1 }: Options) {
  const logs = path.resolve(import.meta.dirname, "../../../test-output/faults", name)
  rmSync(logs, { recursive: true, force: true })
  const service = yield* ServiceCluster.make(logs, { ...SETTINGS, ...settings }, database?.url)
  const [key, front, back] = yield* Effect.promise(async () => {
    const listening: Array<ServiceCluster.Process> = []
    for (let i = 0; i < http; i++) listening.push(await service.http(`http-${i}`))
    await service.command("repos", "add", "acme/shop", repository(service.home))
    const made = (await service.command("keys", "create", "--key-only", "--label", "faults", "--scopes", "sandboxes")).trim()
    const working: Array<ServiceCluster.Process> = []
    for (let i = 0; i < workers; i++) working.push(await service.worker(`worker-${i}`, ofWorkers))
    return [made, listening, working] as const
  })
  const direct = database?.direct ?? service.databaseUrl
  /** A connection for each question: faults cut them. */
  const rows: Rows = async (text) => {
    const client = new Client({ connectionString: direct, options: "-c search_path=slipway" })
    client.on("error", () => {})
    await client.connect()
    try {
      return (await client.query(text)).rows as ReadonlyArray<Record<string, unknown>>
    } finally {
      await client.end()
    }
  }
  const urls = front.map(({ url }) => url)
  const secrets = {
    "the API key": key,
    "what a prompt says": canary,
    ...database === undefined ? {} : { "the password of the database": new URL(database.url).password }
  }
  return {
    service,
    key,
    front,
    back,
    urls,
    rows,
    /** Checks acknowledged work after any fault. */
    verdict: async (load: Load.Load): Promise<Array<string>> => [
      ...load.wrong,
      ...await Checks.stored(rows, load),
      ...await Checks.answered(urls, key, load),
      ...Checks.ended([...front, ...back]),
      ...Checks.leaks(logs, secrets)
    ],
    load: (options: { readonly name: string; readonly perSecond: number; readonly terminate?: boolean }) =>
      Load.start({ urls, key, prompt: `[[say ${canary}]]`, ...options })
  }
})
export type Service = Effect.Success<ReturnType<typeof make>>

/** "412 creations acknowledged; replies 201: 412, 503: 18". */
export const summary = ({ created, replies }: Load.Load): string => {
  const counts = [...replies].sort(([a], [b]) => a.localeCompare(b)).map(([reply, n]) => `${reply}: ${n}`)
  return `${created.size} creations acknowledged; replies ${counts.join(", ")}`
}
