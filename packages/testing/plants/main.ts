/**
 * Plants small faults into adapters, rules and the worker, one at a time, and looks whether the suites of their port, or their tests,
 * notice: `npm run plants`.
 * Nothing is written to the sources. A fault is planted as its module is loaded, and everything beside it is loaded anew.
 */
import { readdirSync, readFileSync } from "node:fs"
import { registerHooks } from "node:module"
import path from "node:path"
import { pathToFileURL } from "node:url"
import { parseArgs } from "node:util"
import { createVitest } from "vitest/node"
import type { Suite } from "../src/suite/Suite.ts"
import type { Plant, Plants } from "./Plant.ts"

const HELP = `Usage: npm run plants -- [PORT]... [--only TEXT] [--list] [--verbose]

  PORT         only the faults of this port, such as SandboxStore
  --only TEXT  of these only faults whose name has this in it
  --list       names the faults and plants none
  --verbose    says of each fault which rule noticed it, and how

Exits with 1 if a fault is missed, if a suite fails without one, or if a fault no longer fits its module.
`
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { only: { type: "string", default: "" }, list: { type: "boolean" }, verbose: { type: "boolean" }, help: { type: "boolean" } }
})
if (values.help) {
  process.stdout.write(HELP)
  process.exit()
}

const root = path.join(import.meta.dirname, "../../..")
/** Some rules are laws of random lives, and a rare life may not come up the first time. */
const TRIES = 3
/** Longer than rules take by default. A rule that hangs has noticed the fault. Milliseconds. */
const PATIENCE = 5_000

// ---------------------------------------------------------------------------------------------------------------
// Loading with a fault

/** The folders that are loaded again: those of the faulty module, of the subject, and of the adapters between them. */
let planted: { readonly id: number; readonly plant: Plant | null; readonly folders: ReadonlyArray<string> } | null = null

const QUERY = "?plant="

registerHooks({
  resolve: (specifier, context, next) => {
    const found = next(specifier, context)
    const isFresh = planted?.folders.some((folder) => found.url.startsWith(folder)) === true && !found.url.includes("/node_modules/")
    return isFresh ? { ...found, url: `${found.url.split(QUERY)[0]}${QUERY}${planted?.id}` } : found
  },
  load: (url, context, next) => {
    const [file = url, id] = url.split(QUERY)
    const loaded = next(file, context)
    if (id === undefined || planted?.plant == null || file !== pathToFileURL(path.join(root, planted.plant.file)).href) return loaded
    return { ...loaded, source: faulty(Buffer.from(loaded.source as Uint8Array).toString(), planted.plant) }
  }
})

class Misfit extends Error {}

/** The module with the fault. */
const faulty = (source: string, { file, find, replace }: Plant): string => {
  if (source.split(find).length !== 2) throw new Misfit(`${file} does not have ${JSON.stringify(find)} exactly once`)
  return source.replace(find, () => replace)
}

const folderOf = (file: string) => new URL(".", pathToFileURL(path.join(root, file))).href

let loads = 0
const suitesOf = async (anew: ReadonlyArray<string>, subject: string, plant: Plant | null): Promise<ReadonlyArray<Suite>> => {
  const files = [subject, "packages/domain/memory/", plant?.file ?? subject, ...anew]
  planted = { id: ++loads, plant, folders: files.map(folderOf) }
  const { suites }: { readonly suites: () => ReadonlyArray<Suite> } = await import(pathToFileURL(path.join(root, subject)).href)
  return suites()
}

// ---------------------------------------------------------------------------------------------------------------
// Judging

interface Noticed {
  readonly rule: string
  readonly says: string
}

/** The first rule that fails; `null`: all hold. */
const judge = async (suites: ReadonlyArray<Suite>): Promise<Noticed | null> => {
  for (const { close, name, rules } of suites) {
    try {
      for (const rule of rules) {
        const patience = new AbortController()
        const timer = setTimeout(() => patience.abort(), rule.timeout ?? PATIENCE)
        try {
          await rule.run(patience.signal)
        } catch (error) {
          if (isReference(error)) throw error
          const says = patience.signal.aborted
            ? `not over after ${(rule.timeout ?? PATIENCE) / 1000} s`
            : error instanceof Error
            ? error.message
            : String(error)
          return { rule: `${name} › ${rule.name}`, says }
        } finally {
          clearTimeout(timer)
        }
      }
    } finally {
      await close().catch(() => {})
    }
  }
  return null
}

/** The first test that fails; `null`: none does. */
const judgeTests = async (files: ReadonlyArray<string>, plant: Plant | null): Promise<Noticed | null> => {
  const file = plant === null ? null : path.join(root, plant.file)
  const source = plant === null || file === null ? null : faulty(readFileSync(file, "utf8"), plant)
  const vitest = await createVitest("test", {
    root,
    config: false,
    watch: false,
    bail: 1,
    fsModuleCache: false,
    testTimeout: 12 * PATIENCE,
    reporters: [{}]
  }, { plugins: [{ name: "plant", enforce: "pre", load: (id) => id === file ? source : null }] })
  try {
    const asked = files.map((test) => vitest.getRootProject().createSpecification(path.join(root, test)))
    const { testModules } = await vitest.runTestSpecifications(asked)
    for (const module of testModules) {
      const [failed] = module.children.allTests("failed")
      const [error] = failed?.result().errors ?? module.errors()
      // A test may fail with a value that is no error, such as an empty list.
      if (failed !== undefined || error !== undefined) {
        return { rule: failed?.fullName ?? module.relativeModuleId, says: error?.message ?? "" }
      }
    }
    return null
  } finally {
    await vitest.close()
  }
}

const found = ({ anew = [], subject }: Plants, plant: Plant | null): Promise<Noticed | null> =>
  typeof subject === "string" ? suitesOf(anew, subject, plant).then(judge) : judgeTests(subject, plant)

/** A fault with a name that is nowhere is no fault of an adapter. */
const isReference = (error: unknown) => error instanceof Error && error.name === "ReferenceError"

const firstLine = (text: string) => text.split("\n")[0]?.slice(0, 160)

// A fault may leave a rejected promise without a handler.
process.on("unhandledRejection", () => {})

const files = readdirSync(import.meta.dirname).filter((file) => file.endsWith(".ts") && !["main.ts", "Plant.ts"].includes(file)).sort()
const ports = (await Promise.all(files.map((file) => import(pathToFileURL(path.join(import.meta.dirname, file)).href))))
  .map((module: { readonly plants: Plants }) => module.plants)
const unknown = positionals.filter((name) => !ports.some(({ port }) => port === name))
if (unknown.length > 0) {
  process.stderr.write(`There are no faults of ${unknown.join(", ")}. There are some of ${ports.map(({ port }) => port).join(", ")}.\n`)
  process.exit(2)
}

const table: Array<readonly [port: string, planted: number, caught: number]> = []
const troubles: Array<string> = []
for (const port of ports.filter(({ port }) => positionals.length === 0 || positionals.includes(port))) {
  if (values.list) {
    process.stdout.write(`${port.port}\n${port.plants.map(({ does }) => `  ${does}\n`).join("")}`)
    continue
  }
  const sound = await found(port, null)
  if (sound !== null) {
    troubles.push(`${port.port}: without a fault "${sound.rule}" fails: ${firstLine(sound.says)}`)
    continue
  }
  let caught = 0
  const plants = port.plants.filter(({ does }) => does.includes(values.only))
  for (const plant of plants) {
    let noticed: Noticed | null = null
    try {
      for (let tries = 0; noticed === null && tries < TRIES; tries++) noticed = await found(port, plant)
    } catch (error) {
      troubles.push(`${port.port}: "${plant.does}" cannot be planted: ${error instanceof Error ? error.message : String(error)}`)
      continue
    }
    if (noticed === null) troubles.push(`${port.port}: missed: ${plant.does}`)
    else caught++
    if (values.verbose || noticed === null) {
      process.stdout.write(`${noticed === null ? "missed" : "caught"}  ${port.port}: ${plant.does}\n`)
      if (noticed !== null) process.stdout.write(`        by "${noticed.rule}"\n        ${firstLine(noticed.says)}\n`)
    }
  }
  table.push([port.port, plants.length, caught])
}

if (!values.list) {
  const width = Math.max(4, ...table.map(([port]) => port.length))
  const line = (port: string, ...counts: ReadonlyArray<string | number>) =>
    `${port.padEnd(width)}${counts.map((count) => String(count).padStart(9)).join("")}\n`
  const sum = (column: 1 | 2) => table.reduce((sum, row) => sum + row[column], 0)
  process.stdout.write(`\n${line("port", "planted", "caught", "missed")}`)
  for (const [port, planted, caught] of table) process.stdout.write(line(port, planted, caught, planted - caught))
  process.stdout.write(line("all", sum(1), sum(2), sum(1) - sum(2)))
  for (const trouble of troubles) process.stderr.write(`${trouble}\n`)
  process.exit(troubles.length === 0 ? 0 : 1)
}
