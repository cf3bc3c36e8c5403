/**
 * A repository as large as is promised, through all that is done with one: its boots, listings, comparisons and its publication, with a
 * fifth of its files changed; and trees that are larger or deeper than that, of which an error has to say why not.
 */
import { Effect } from "effect"
import { writeFileSync } from "node:fs"
import path from "node:path"
import { columns } from "../../packages/slipway/src/commands/terminal/Output.ts"
import * as Checkout from "../fleet/Checkout.ts"
import * as Interruptible from "../Interruptible.ts"
import * as Material from "./Material.ts"

const WHOLE: Material.Size = { files: 100_000, commits: 50_000, bytes: 2 ** 30 }
const QUICK: Material.Size = { files: 5_000, commits: 2_500, bytes: 50 * 2 ** 20 }

/** Seconds, for a boot on a quiet machine. */
const READY_WITHIN = 90
/** Seconds, until a step is given up. */
const LONGEST = 600
/** Depth of nested folders: with the longest path that Linux opens, and as many as an agent's loop makes. */
const DEEP = 10_000

interface Row {
  readonly what: string
  readonly seconds: number
  /** The result. */
  readonly said: string
  readonly isGood: boolean
}

interface Answer {
  readonly status: number
  readonly text: string
}

const KiB = 1024

const measure = (size: Material.Size, progress: (what: string) => void) =>
  Effect.gen(function*() {
    const home = yield* Checkout.temporaryFolder
    const fleet = yield* Checkout.make(path.resolve(import.meta.dirname, "../.."))
    const machine = path.join(home, "machine")
    return yield* Effect.promise(async () => {
      const rows: Array<Row> = []
      progress(`making a repository of ${size.files} files, ${size.commits} commits and ${size.bytes} bytes`)
      const folder = await Material.make(path.join(home, "large.git"), size)
      const service = await fleet.start(machine)
      await fleet.command(machine, "repos", "add", "acme/large", folder)

      const ask = async (address: string, body?: object): Promise<Answer> => {
        const reply = await fetch(`${service.url}/api/public/v1/sandboxes/${address}`, {
          method: body === undefined ? "GET" : "POST",
          headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json" },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
          signal: AbortSignal.timeout(LONGEST * 1000)
        })
        return { status: reply.status, text: await reply.text() }
      }
      const step = async (what: string, work: () => Promise<Omit<Row, "seconds" | "what">>, within = LONGEST) => {
        progress(what)
        const began = performance.now()
        const result = await work().catch((error: unknown) => ({ said: String(error).slice(0, 200), isGood: false }))
        const seconds = (performance.now() - began) / 1000
        if (!process.stderr.isTTY) process.stderr.write(`${what}: ${seconds.toFixed(1)} s, ${result.said}\n`)
        rows.push({ what, seconds, ...result, isGood: result.isGood && seconds <= within })
      }
      const ended = (id: string, turn: number) =>
        Checkout.until(`turn ${turn}`, LONGEST, async () => {
          const events = await service.events(id)
          const failure = events.find(({ data, type }) => type === "sandbox.status" && data["status"] === "failed")
          if (failure !== undefined) throw new Error(JSON.stringify(events.map(({ data }) => data).slice(-3)))
          return events.filter(({ type }) => type === "turn.completed").length >= turn ? true : undefined
        }, 100)
      const listed = async (id: string, directory: string) => {
        const { status, text } = await ask(`${id}/files/tree?directory=${directory}`)
        if (status !== 200) return { said: `${status} ${text.slice(0, 200)}`, isGood: false }
        const { entries, partialWarnings } = JSON.parse(text) as {
          readonly entries: ReadonlyArray<{ readonly status: string | null }>
          readonly partialWarnings: ReadonlyArray<string>
        }
        const changed = entries.filter((entry) => entry.status !== null).length
        return {
          said: `${entries.length} entries, ${changed} changed${partialWarnings.map((warning) => `, ${warning}`).join("")}`,
          isGood: partialWarnings.length === 0,
          changed
        }
      }
      const compared = async (id: string, query: string) => {
        const { status, text } = await ask(`${id}/files/diff${query}`)
        return status === 200
          ? { said: `${text.match(/^diff --git /gmu)?.length ?? 0} files, ${Math.round(text.length / KiB)} KiB`, isGood: text !== "" }
          : { said: `${status} ${text.slice(0, 200)}`, isGood: false }
      }
      const published = async (id: string) => {
        let answer = await ask(`${id}/pull-request`, {})
        const isUnderWay = ({ text }: Answer) => /"actionState":"(?:publishing|updating)"/u.test(text)
        for (let i = 0; i < LONGEST && isUnderWay(answer); i++) {
          await new Promise((resolve) => setTimeout(resolve, 1000))
          answer = await ask(`${id}/pull-request`)
        }
        const isGood = answer.status === 200 && /"number":\d/u.test(answer.text)
        return { said: isGood ? "a pull request" : `${answer.status} ${answer.text.slice(0, 200)}`, isGood }
      }

      let id = ""
      const boot = (prompt: string) => async () => {
        id = await service.create(prompt, "acme/large")
        await ended(id, 1)
        return { said: "ready, and a turn", isGood: true }
      }
      const message = (prompt: string, turn: number) => async () => {
        await service.send(id, prompt)
        await ended(id, turn)
        return { said: "done", isGood: true }
      }
      const some = Math.floor(size.files / 5)
      await step("first boot", boot("[[say hello]]"), READY_WITHIN)
      await step("boot beside it", boot("[[say hello]]"), READY_WITHIN)
      await step("list the root", () => listed(id, ""))
      await step("list a folder again", () => listed(id, "src/part-0"))
      const change = `find src -name '*.txt' | sort | head -n ${some} | while read -r file; do echo changed >> "$file"; done`
      await step(`the agent changes ${some} files`, message(`[[shell ${change}]]`, 2))
      await step("list a folder with changes", async () => {
        const { changed = 0, isGood, said } = await listed(id, "src/part-0")
        return { said, isGood: isGood && changed === Material.PER_FOLDER }
      })
      await step("compare a folder", () => compared(id, "?path=src/part-0"))
      await step("compare all", () => compared(id, ""))
      await step("publish", () => published(id))
      await step("compare all after it", () => compared(id, ""))
      await step(`the agent makes ${DEEP} folders in each other`, async () => {
        // A shell looks up where it is after each step, which takes longer with each.
        const nest = `for (1..${DEEP}) { mkdir "d"; chdir "d" or die } open F, ">", "file"; print F "deep\\n"`
        await service.send(id, `[[shell perl -e '${nest}']]`)
        await ended(id, 3)
        return { said: "done", isGood: true }
      })
      await step("list the root of a deep tree", () => listed(id, ""))
      // An unreadable file is left out, or named; readable files are unaffected.
      const names = ({ said, isGood }: { readonly said: string; readonly isGood: boolean }) => ({
        said,
        isGood: isGood || /git|limit|more than|deep/iu.test(said)
      })
      await step("compare a deep tree", async () => names(await compared(id, "")))
      await step("publish a deep tree", async () => names(await published(id)))
      await service.stop("SIGTERM")
      return rows
    })
  }).pipe(Effect.scoped, Interruptible.run)

/** `false`: something failed, or took longer than it may. */
export const run = async (options: { readonly quick: boolean; readonly json: string | null }): Promise<boolean> => {
  const progress = (what: string) => process.stderr.isTTY && process.stderr.write(`\r\u001b[2K${what}`)
  const size = options.quick ? QUICK : WHOLE
  const rows = await measure(size, progress)
  progress("")
  if (options.json !== null) writeFileSync(options.json, `${JSON.stringify({ size, rows }, null, 2)}\n`)
  const table = columns([
    ["WHAT", "TIME", "", "RESULT"],
    ...rows.map(({ isGood, said, seconds, what }) => [what, `${seconds.toFixed(1)} s`, isGood ? "" : "FAILS", said])
  ])
  process.stdout.write(`${size.files} files, ${size.commits} commits, ${Math.round(size.bytes / 2 ** 20)} MiB.\n\n${table}\n`)
  return rows.every(({ isGood }) => isGood)
}
