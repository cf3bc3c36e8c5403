/** Measures the rows that are wanted, prints them as one table, and says which fell or are over a limit. */
import { readFileSync } from "node:fs"
import { writeFile } from "node:fs/promises"
import os from "node:os"
import { columns } from "../packages/slipway/src/commands/terminal/Output.ts"
import * as Interruptible from "./Interruptible.ts"
import { judge, type Kept, keptOf } from "./Judge.ts"
import type { Measurement } from "./Measurement.ts"
import { groups } from "./Rows.ts"
import { median, number } from "./Statistics.ts"

const RATIOS = new URL("ratios.json", import.meta.url)

/** By the id of its row. All are of quick rounds, as they are compared with those. */
export const readKept = (): Readonly<Record<string, Kept>> => JSON.parse(readFileSync(RATIOS, "utf8"))

export interface Options {
  /** A group's name; `null`: all of them. */
  readonly group: string | null
  readonly quick: boolean
  /** Ids of rows; empty: all. */
  readonly only: ReadonlyArray<string>
  readonly profile: string | null
  /** File for every sample. */
  readonly json: string | null
  /** Measures quick rounds and keeps their ratios. */
  readonly keep: boolean
}

/** In a few words. */
export const machine = (): string => {
  const cpus = os.cpus()
  return `${cpus.length} × ${cpus[0]?.model.trim() ?? "?"}, ${number(os.totalmem() / 1024 ** 3)} GB, Node ${process.versions.node}`
}

/** For `--help`. */
export const listed = (): string =>
  columns(
    groups.flatMap(({ name, rows }) => rows.map(({ id, quick, what }) => [`  ${name}`, id, `${what}${quick ? "" : " (not with --quick)"}`]))
  )

const reachOf = ({ reach: { least, most, times }, unit }: Measurement) =>
  [
    ...times === undefined ? [] : [`≥ ${times.toFixed(2)} ×`],
    ...least === undefined ? [] : [`≥ ${number(least)} ${unit}`],
    ...most === undefined ? [] : [`≤ ${number(most)} ${unit}`]
  ].join(", ")

const table = (
  measured: ReadonlyArray<Measurement>,
  kept: Readonly<Record<string, Kept>> | null,
  leftOut: ReadonlyArray<{ readonly what: string; readonly reason: string }>
) =>
  columns([
    ["", "", "ours", "theirs", "", "ratio", ...kept === null ? [] : ["kept"], "reach", "", ""],
    ...measured.map((row) => {
      const { ratio, reached } = judge(row, undefined)
      const known = kept?.[row.id]
      return [
        row.what,
        row.unit,
        number(median(row.ours.samples)),
        row.theirs === null ? "" : number(median(row.theirs.samples)),
        row.theirs?.name ?? "",
        ratio === null ? "" : `${ratio.toFixed(2)} ×`,
        ...kept === null ? [] : [known === undefined ? ratio === null ? "" : "none" : `${known.ratio} - ${known.noise}`],
        reachOf(row),
        reached === null ? "" : reached ? "reached" : "missed",
        Object.entries(row.notes ?? {}).map(([name, value]) => `${name} ${value}`).join("; ")
      ]
    }),
    ...leftOut.map(({ reason, what }) => [what, "", "", "", "", "", ...kept === null ? [] : [""], "", "left out", reason])
  ])

/** Whether nothing fell and no limit was passed. Progress goes to standard error. */
export const run = async ({ group, json, keep, only, profile, quick }: Options): Promise<boolean> => {
  const isShort = quick || keep
  const asked = groups.filter(({ name }) => group === null || name === group)
  const known = asked.flatMap(({ rows }) => rows)
  const stranger = only.find((id) => !known.some((row) => row.id === id))
  if (stranger !== undefined) {
    process.stderr.write(`bench: there is no row ${stranger}: npm run bench -- --help\n`)
    return false
  }
  const wanted = known.filter(({ id }) => only.length === 0 || only.includes(id))
  const measured: Array<Measurement> = []
  const failures: Array<string> = []
  const skipped = new Map<string, string>()
  const began = performance.now()
  const [busy = 0] = os.loadavg()
  if (busy > os.cpus().length / 2) process.stderr.write(`bench: the machine is not quiet, its load is ${number(busy)}: ratios say little\n`)
  const say = (line: string) => process.stderr.write(`${((performance.now() - began) / 1000).toFixed(0).padStart(5)} s  ${line}\n`)
  for (const { load, minutes, name, rows } of asked) {
    const ids = new Set(rows.flatMap((row) => wanted.includes(row) && (row.quick || !isShort) ? [row.id] : []))
    if (ids.size === 0) continue
    try {
      const module = await load()
      let last = "its start"
      const options = {
        quick: isShort,
        only: ids,
        profile,
        say: (line: string) => {
          last = line
          say(`${name}: ${line}`)
        },
        skip: (id: string, reason: string) => void skipped.set(id, reason)
      }
      measured.push(...await Interruptible.within(minutes * 60, () => `all rows; the last was ${last}`, () => module.measure(options)))
    } catch (error) {
      failures.push(`${name}: ${error instanceof Error ? error.stack ?? error.message : String(error)}`)
    }
    for (const id of ids) {
      if (!skipped.has(id) && !measured.some((row) => row.id === id)) failures.push(`${id}: nothing was measured`)
    }
  }

  const kept = isShort ? readKept() : null
  const at = new Date().toISOString()
  const judged = measured.map((row) => ({ row, judgement: judge(row, keep ? undefined : kept?.[row.id]) }))
  failures.push(...judged.flatMap(({ judgement }) => judgement.failures))
  const rounds = isShort ? "quick rounds" : "full rounds"
  process.stdout.write(`${machine()}, ${at.slice(0, 10)}, ${rounds}, ${((performance.now() - began) / 1000).toFixed(0)} s\n\n`)
  const leftOut = wanted.flatMap(({ id, quick, what }) => {
    const reason = skipped.get(id) ?? (isShort && !quick ? `nothing to say in short: --only ${id}` : undefined)
    return reason === undefined ? [] : [{ what, reason }]
  })
  process.stdout.write(`${table(measured, kept, leftOut)}\n`)
  if (json !== null) {
    const rows = judged.map(({ judgement, row }) => ({
      ...row,
      ratio: judgement.ratio,
      reached: judgement.reached,
      kept: kept?.[row.id] ?? null
    }))
    await writeFile(json, `${JSON.stringify({ machine: machine(), at, quick: isShort, rows, failures }, null, 2)}\n`)
  }
  if (keep && kept !== null) {
    const next = known.flatMap(({ id }) => {
      const row = measured.find((one) => one.id === id)
      const measuredNow = row === undefined ? null : keptOf(row, at.slice(0, 10), machine())
      // Nothing could fall below it.
      const isNoise = measuredNow !== null && !(measuredNow.noise < measuredNow.ratio)
      if (isNoise) failures.push(`${id}: its rounds are too far apart to keep a ratio of them`)
      const value = measuredNow === null || isNoise ? kept[id] : measuredNow
      return value === undefined ? [] : [[id, value] as const]
    })
    // Rows of groups that were not asked for stay as they are; what is no row any more goes.
    const others = groups.filter((one) => !asked.includes(one)).flatMap(({ rows }) =>
      rows.flatMap(({ id }) => kept[id] === undefined ? [] : [[id, kept[id]] as const])
    )
    await writeFile(RATIOS, `${JSON.stringify(Object.fromEntries([...next, ...others]), null, 2)}\n`)
  }
  if (failures.length > 0) process.stderr.write(`\n${failures.map((failure) => `bench: ${failure}\n`).join("")}`)
  return failures.length === 0
}
