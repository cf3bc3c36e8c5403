/**
 * The cost of setup at a sandbox's start, and the part that a cache saves: `npm ci` of several hundred real packages from a registry on
 * this machine, through boxes and their tunnels as in production. The agent is the offline one, which starts at once.
 */
import { Effect } from "effect"
import { writeFileSync } from "node:fs"
import path from "node:path"
import { pathToFileURL } from "node:url"
import { columns } from "../../packages/slipway/src/commands/terminal/Output.ts"
import * as Checkout from "../fleet/Checkout.ts"
import * as Interruptible from "../Interruptible.ts"
import * as Packages from "./Packages.ts"
import * as Registry from "./Registry.ts"
import * as Repository from "./Repository.ts"

const ROUNDS = 5
const QUICK_ROUNDS = 2
/** Seconds, for a boot and its turn. */
const LONGEST = 600
const REACH = `${Registry.NAME}:443`

/** A prompt that makes the agent report how many files the packages have, and whether the repository's folder is shown by an overlay. */
const LOOK = "[[shell find node_modules -type f 2>/dev/null | wc -l; grep ' /workspace/[^ ]* overlay ' /proc/self/mounts | wc -l]]"

/** One sandbox from its creation to the end of its first turn. Milliseconds. */
interface Sample {
  /** As `sandbox.boot` tells; `null`: the repository asks for none. */
  readonly setup: number | null
  readonly cache: string | null
  readonly ready: number
  /** From the creation until the agent works. */
  readonly toTurn: number
  readonly files: number
  readonly isOverlay: boolean
}

const failureOf = (events: ReadonlyArray<Checkout.Told>) =>
  events.find(({ data, type }) => type === "sandbox.status" && data["status"] === "failed")

const textsOf = (value: unknown): ReadonlyArray<string> =>
  typeof value === "string" ? [value] : typeof value === "object" && value !== null ? Object.values(value).flatMap(textsOf) : []

const sample = async (service: Checkout.Service, repo: string): Promise<Sample> => {
  const began = Date.now()
  const id = await service.create(LOOK, repo)
  const events = await Checkout.until(`a turn in ${repo}`, LONGEST, async () => {
    const events = await service.events(id)
    const failure = failureOf(events)
    if (failure !== undefined) throw new Error(`${repo}: ${JSON.stringify(failure.data)}`)
    return events.some(({ type }) => type === "turn.completed") ? events : undefined
    // Events say when they were, and looking takes time from what is measured.
  }, 200)
  await service.terminate(id)
  const boot = (stage: string) => events.find(({ data, type }) => type === "sandbox.boot" && data["stage"] === stage)?.data
  const seen = events.filter(({ type }) => type === "tool.updated").flatMap(({ data }) => textsOf(data))
    .map((text) => /^(\d+)\n(\d+)\n?$/u.exec(text)).find((found) => found !== null)
  if (seen === undefined || seen === null) throw new Error(`${repo}: the agent could not look: ${JSON.stringify(events)}`)
  const setup = boot("setup")
  return {
    setup: setup === undefined ? null : Number(setup["ms"]),
    cache: setup === undefined ? null : String(setup["cache"]),
    ready: Number(boot("ready")?.["ms"]),
    toTurn: (events.find(({ type }) => type === "turn.started")?.at ?? Number.NaN) - began,
    files: Number(seen[1]),
    isOverlay: Number(seen[2]) > 0
  }
}

const median = (values: ReadonlyArray<number>): number => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN

const summarize = (samples: ReadonlyArray<Sample>) => {
  const setups = samples.flatMap(({ setup }) => setup ?? [])
  return {
    setup: setups.length === 0 ? null : median(setups),
    ready: median(samples.map(({ ready }) => ready)),
    toTurn: median(samples.map(({ toTurn }) => toTurn)),
    cache: [...new Set(samples.flatMap(({ cache }) => cache ?? []))].join(", "),
    files: median(samples.map(({ files }) => files)),
    isOverlay: samples.every(({ isOverlay }) => isOverlay),
    samples
  }
}
type Summary = ReturnType<typeof summarize>

const seconds = (millis: number | null): string => millis === null ? "-" : `${(millis / 1000).toFixed(2)} s`

/** How `node_modules` came to be there. */
const waysOf = ({ cache, files, isOverlay }: Summary): string =>
  files === 0 ? "-" : cache !== "hit" ? "setup" : isOverlay ? "cache, as an overlay" : "cache, unpacked"

const measure = (rounds: number, progress: (what: string) => void) =>
  Effect.gen(function*() {
    const checkout = path.resolve(import.meta.dirname, "../..")
    const home = yield* Checkout.temporaryFolder
    const fleet = yield* Checkout.make(checkout)
    progress("packing packages")
    const packages = yield* Effect.promise(() => Packages.pack(checkout, path.join(home, "tarballs")))
    const registry = yield* Registry.serve(packages, home)
    const makeRepository = (name: string, environment: object | null) =>
      Repository.make(path.join(home, "repositories", name), packages, registry, environment)
    const needs = { setup: ["npm ci"], egress: [REACH], timeoutMinutes: 30, onFailure: "fail" }
    const machine = path.join(home, "machine")
    return yield* Effect.promise(async () => {
      progress("making repositories")
      const bare = await makeRepository("bare", null)
      const uncached = await makeRepository("uncached", needs)
      const cached = await makeRepository("cached", { ...needs, cache: ["node_modules"] })
      const service = await fleet.start(machine, {
        SLIPWAY_ISOLATION: "bubblewrap",
        SLIPWAY_EGRESS_ALLOW: REACH,
        NODE_OPTIONS: `--import=${pathToFileURL(path.join(import.meta.dirname, "Road.mjs")).href}`,
        BENCH_ROAD: `${Registry.NAME}=${registry.tlsPort}`
      })
      const add = (repo: string, folder: string) => fleet.command(machine, "repos", "add", repo, folder)
      await add("acme/bare", bare)
      await add("acme/uncached", uncached)
      const found: Record<"bare" | "cold" | "uncached" | "warm", Array<Sample>> = { bare: [], cold: [], uncached: [], warm: [] }
      // One-time work of a process belongs to no sample.
      progress("first boots")
      await sample(service, "acme/bare")
      await sample(service, "acme/uncached")
      for (let round = 1; round <= rounds; round++) {
        progress(`${round}/${rounds}`)
        // No repository uses another one's cache.
        const fresh = `acme/cached-${round}`
        await add(fresh, cached)
        found.bare.push(await sample(service, "acme/bare"))
        found.cold.push(await sample(service, fresh))
        found.uncached.push(await sample(service, "acme/uncached"))
        found.warm.push(await sample(service, fresh))
      }
      await service.stop("SIGTERM")
      return {
        packages: {
          count: packages.length,
          files: packages.reduce((sum, { files }) => sum + files, 0),
          bytes: packages.reduce((sum, { bytes }) => sum + bytes, 0)
        },
        rounds,
        bare: summarize(found.bare),
        cold: summarize(found.cold),
        uncached: summarize(found.uncached),
        warm: summarize(found.warm)
      }
    })
  }).pipe(Effect.scoped, Interruptible.run)

export const run = async (options: { readonly quick: boolean; readonly json: string | null }): Promise<void> => {
  const progress = (what: string) => process.stderr.isTTY && process.stderr.write(`\r\u001b[2K${what}`)
  const figures = await measure(options.quick ? QUICK_ROUNDS : ROUNDS, progress)
  progress("")
  const { bare, cold, packages, rounds, uncached, warm } = figures
  const verdicts = {
    warmSetupOfCold: (warm.setup ?? Number.NaN) / (cold.setup ?? Number.NaN),
    warmSetupOfUncached: (warm.setup ?? Number.NaN) / (uncached.setup ?? Number.NaN),
    warmBeyondBare: warm.ready - bare.ready,
    ways: waysOf(warm)
  }
  if (options.json !== null) writeFileSync(options.json, `${JSON.stringify({ ...figures, verdicts }, null, 2)}\n`)
  const row = (name: string, summary: Summary) => [
    name,
    summary.cache === "" ? "-" : summary.cache,
    seconds(summary.setup),
    seconds(summary.ready),
    seconds(summary.toTurn),
    waysOf(summary)
  ]
  const table = columns([
    ["BOOT", "CACHE", "SETUP", "READY", "CREATED TO TURN", "NODE_MODULES BY"],
    row("bare: no environment", bare),
    row("cold: nothing kept yet", cold),
    row("environment without cache", uncached),
    row("warm: kept by another sandbox", warm)
  ])
  const verdict = columns([
    ["WHAT", "NOW", "REACH"],
    ["warm setup / cold setup", verdicts.warmSetupOfCold.toFixed(3), "<= 0.100"],
    ["warm setup / setup without cache", verdicts.warmSetupOfUncached.toFixed(3), ""],
    ["warm boot beyond a bare one", seconds(verdicts.warmBeyondBare), "<= 1.00 s"]
  ])
  const mebibytes = (packages.bytes / 2 ** 20).toFixed(0)
  process.stdout.write(
    `npm ci of ${packages.count} packages, ${packages.files} files, ${mebibytes} MiB. Medians of ${rounds} boots each.\n\n` +
      `${table}\n\n${verdict}\n`
  )
}
