/** Recordings of what agents and drivers said to each other: one frame a line, as sent, but for what differs each time. */
import { readFileSync } from "node:fs"
import { clientInfo } from "../src/ClientInfo.ts"

export interface Line {
  /** `out`: to the agent. */
  readonly dir: "in" | "out"
  readonly frame: unknown
}

/** Recordings outlive releases, so the driver's version is left out. */
const ours = JSON.stringify(clientInfo)
const recorded = JSON.stringify({ ...clientInfo, version: "0.0.0" })

export const fileOf = (runtime: string, scenario: string) => new URL(`./transcripts/${runtime}.${scenario}.jsonl`, import.meta.url)

export const read = (runtime: string, scenario: string): ReadonlyArray<Line> =>
  readFileSync(fileOf(runtime, scenario), "utf8").trimEnd().split("\n").map((line): Line => JSON.parse(line.replace(recorded, ours)))

const MAX_CHARACTERS = 400
/** Menus of the agent: tools, commands, skills, models. One entry shows what they look like. */
const MAX_ENTRIES = 3
/** Fields of the machine it was recorded on. */
const PRIVATE = new Set(["installationId", "serverName", "account", "userAgent", "hostname", "pid"])

const shorten = (key: string, value: unknown): unknown => {
  if (PRIVATE.has(key)) return "redacted"
  if (typeof value === "string" && value.length > MAX_CHARACTERS) return `${value.slice(0, MAX_CHARACTERS)}…`
  // Blocks of a message are told one by one; only menus are long.
  if (Array.isArray(value) && value.length > MAX_ENTRIES && key !== "options") return value.slice(0, MAX_ENTRIES)
  return value
}

/** As agents name folders after paths. */
const slug = (path: string) => path.replaceAll(/[^A-Za-z0-9]/gu, "-")

/** Text of a recording. `folders` are replaced by what they stand for, `out` frames are kept whole. */
export const render = (lines: ReadonlyArray<Line>, replaced: ReadonlyArray<readonly [found: string, name: string]>): string =>
  lines
    .map(({ dir, frame }) => {
      const text = JSON.stringify({ dir, frame: JSON.parse(JSON.stringify(frame, dir === "in" ? shorten : undefined)) })
      return replaced.reduce(
        (line, [found, name]) => [String, encodeURIComponent, slug].reduce((so, as) => so.replaceAll(as(found), as(name)), line),
        text.replace(ours, recorded)
      )
    })
    .join("\n")
    .concat("\n")
