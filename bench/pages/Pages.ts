/**
 * The largest pages of sandboxes: 10,000 events in the log and 500 files changed in the tree; a conversation of Markdown; and what a
 * hostile agent can make of names and lines. Their reply as a program reads it, and their first paint in Chromium after its first byte.
 */
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { ConfigProvider, DateTime, Effect, Layer, Redacted, Result } from "effect"
import path from "node:path"
import { chromium, type Page } from "playwright-core"
import { columns } from "../../packages/slipway/src/commands/terminal/Output.ts"
import * as Storage from "../../packages/slipway/src/service/storage/Storage.ts"
import * as Settings from "../../packages/slipway/src/settings/Settings.ts"
import * as Checkout from "../fleet/Checkout.ts"
import * as Interruptible from "../Interruptible.ts"

const EXECUTABLE = process.env["SLIPWAY_CHROMIUM"] ?? "/usr/bin/chromium"
const ROUNDS = 40
const QUICK_ROUNDS = 10
/** That are not measured. */
const FIRST_ROUNDS = 2
const EVENTS = 10_000
const FILES = 500
/** Events of one commit. */
const TOGETHER = 100
/** Seconds for a boot and a turn that writes the files. */
const LONGEST = 120

const REACH = { replyMillis: 100, bytes: 2 ** 20, paintMillis: 300 }

const WRITE = `mkdir -p generated; for i in $(seq ${FILES}); do echo "export const value = $i" > generated/file-$i.ts; done`

/** The character that becomes longest on a page: it is shown by its name, in long names and in long lines. */
const HIDDEN = String.raw`printf '\342\200\254%.0s'`
const WRITE_HOSTILE = `name=$(${HIDDEN} $(seq 60)); line=$(${HIDDEN} $(seq 380)); for i in $(seq 300); do ` +
  `{ yes "$line" | head -n 20; echo "$i"; } > "$name-$i.ts"; done`

/** Texts that are read as Markdown: the last 128 of them are on the page. */
const MARKDOWN_EVENTS = 1_000
const markdownOf = (i: number): string =>
  Array.from({ length: 12 }, (_, part) =>
    [
      `## Step ${i}.${part}`,
      "",
      `- [ ] **Read** \`src/part-${part}.ts\`, see [the docs](https://example.org/${i}/${part})`,
      "- *Change* it, and ~~not~~ its tests",
      "",
      "| Thing | Price |",
      "|-------|------:|",
      `| Lamp ${part} | ${i} |`,
      "",
      "```ts",
      `export const price = async (name: string): Promise<number> => name === "lamp" ? ${i} : prices.get(name) ?? 0 // ${part}`,
      "```",
      "",
      "The price of a chair is in `src/prices.js`, and the shop **reads** it once. ".repeat(3)
    ].join("\n")).join("\n\n")

const markdownEvent = (i: number) => ({
  type: "message.updated" as const,
  data: { part_id: `d${i}:text`, message_id: `d${i}`, kind: "text" as const, text: markdownOf(i) }
})

/** An agent's events: text that grows, and commands with their output. */
const eventOf = (i: number): Extract<SandboxEvent, { readonly type: "message.updated" | "tool.updated" }> => {
  const part = Math.floor(i / 5)
  return part % 2 === 0
    ? {
      type: "message.updated",
      data: {
        part_id: `m${part}:text`,
        message_id: `m${part}`,
        kind: "text",
        text: `## Step ${part}\n\n${"The price of a chair is in `src/prices.js`, and the shop **reads** it once. ".repeat(1 + (i % 5) * 3)}`
      }
    }
    : {
      type: "tool.updated",
      data: {
        part_id: `tool:${part}`,
        message_id: `t${part}`,
        call_id: `c${part}`,
        tool: `npm test -- part-${part}`,
        status: i % 5 === 4 ? "completed" : "running",
        detail: { command: `npm test -- part-${part}`, output: `ok ${i} <passes> & "goes on"\n`.repeat(1 + (i % 5) * 10) }
      }
    }
}

const median = (values: ReadonlyArray<number>): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
const worst = (values: ReadonlyArray<number>): number => Math.max(...values)

interface Measured {
  readonly name: string
  readonly reply: ReadonlyArray<number>
  /** Processor time of the service's processes, milliseconds for one reply: other use of the machine does not change it. */
  readonly processor: number
  readonly bytes: number
  readonly paint: ReadonlyArray<number>
  /** From the beginning of the navigation until all changed files are listed: they come with the page's stream. */
  readonly files: ReadonlyArray<number>
}

interface Given {
  readonly name: string
  readonly url: string
  /** Files that its stream lists. */
  readonly listed?: number
}

const measured = async (
  page: Page,
  pid: number,
  { listed = 0, name, url }: Given,
  rounds: number
): Promise<Measured> => {
  const cookie = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`).join("; ")
  const reply: Array<number> = []
  const paint: Array<number> = []
  const files: Array<number> = []
  let bytes = 0
  let before = 0
  // First-time work is not measured.
  for (let round = -FIRST_ROUNDS; round < rounds; round++) {
    if (round === 0) before = Checkout.processorOf(pid)
    const began = performance.now()
    const response = await fetch(url, { headers: { cookie } })
    const body = await response.arrayBuffer()
    if (round >= 0) reply.push(performance.now() - began)
    if (response.status !== 200) throw new Error(`${url}: ${response.status}`)
    bytes = body.byteLength
  }
  const processor = (Checkout.processorOf(pid) - before) / rounds
  for (let round = -FIRST_ROUNDS; round < rounds; round++) {
    await page.goto(url)
    const painted = await page.evaluate(() =>
      new Promise<number>((resolve) => {
        const [navigation] = performance.getEntriesByType("navigation")
        const firstByte = navigation instanceof PerformanceNavigationTiming ? navigation.responseStart : Number.NaN
        new PerformanceObserver((list) => {
          for (const { name, startTime } of list.getEntries()) if (name === "first-contentful-paint") resolve(startTime - firstByte)
        }).observe({ type: "paint", buffered: true })
      })
    )
    if (listed > 0) await page.locator("#changes .changes li").nth(listed - 1).waitFor({ state: "attached" })
    const whole = await page.evaluate(() => performance.now())
    if (round >= 0) {
      paint.push(painted)
      if (listed > 0) files.push(whole)
    }
    await page.goto("about:blank")
  }
  return { name, reply, processor, bytes, paint, files }
}

/** `checkout`: whose service it is. */
const measure = (rounds: number, checkout: string) =>
  Effect.gen(function*() {
    const fleet = yield* Checkout.make(checkout)
    const folder = yield* Checkout.temporaryFolder
    const dataDir = path.join(folder, "data")
    const shop = Checkout.makeRepository(path.join(folder, "shop"), 10)
    yield* Effect.promise(() => fleet.command(dataDir, "repos", "add", "acme/shop", shop))
    const service = yield* Effect.promise(() => fleet.start(dataDir))
    const known = yield* Settings.load.pipe(Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({
      DATABASE_URL: fleet.databaseUrl,
      SLIPWAY_DATA_DIR: dataDir
    }))))
    const worked = async (command: string) => {
      const id = await service.create(`[[shell ${command}]] [[say All written.]]`)
      await Checkout.until("the files", LONGEST, async () =>
        (await service.events(id)).some(({ type }) => type === "turn.completed")
          ? true
          : undefined)
      return SandboxId.make(id)
    }
    const ordinary = yield* Effect.promise(() => worked(WRITE))
    const written = yield* Effect.promise(() => worked("true"))
    const hostile = yield* Effect.promise(() => worked(WRITE_HOSTILE))
    return yield* Effect.gen(function*() {
      const store = yield* SandboxStore
      const tell = Effect.fnUntraced(function*(id: SandboxId, count: number, event: (i: number) => SandboxEvent) {
        for (let first = 0; first < count; first += TOGETHER) {
          const events = Array.from({ length: TOGETHER }, (_, i) => event(first + i))
          yield* store.change(id, "policy", () => Result.succeed(events), yield* DateTime.now)
        }
      })
      yield* tell(ordinary, EVENTS, eventOf)
      yield* tell(written, MARKDOWN_EVENTS, markdownEvent)
      const { userId } = yield* (yield* MemberStore).owner
      const link = `${service.url}/sign-in#${Redacted.value(yield* (yield* Sessions).makeLink(userId))}`
      return yield* Effect.promise(async () => {
        const browser = await chromium.launch({ executablePath: EXECUTABLE, args: ["--no-sandbox", "--disable-gpu"] })
        try {
          const page = await browser.newPage()
          await page.goto(link)
          await page.getByRole("button", { name: "Sign in", exact: true }).click()
          await page.getByRole("navigation", { name: "Main" }).waitFor()
          const of = (id: SandboxId, query = "") => `${service.url}/sandboxes/${id}${query}`
          const all: ReadonlyArray<Given> = [
            { name: "conversation", url: of(ordinary), listed: FILES },
            { name: "changes", url: of(ordinary, "?view=changes"), listed: FILES },
            { name: "Markdown", url: of(written) },
            { name: "hostile names", url: of(hostile, "?view=changes") },
            // The first request waits for git in the sandbox's box.
            { name: "hostile diff", url: of(hostile, "/changes") }
          ]
          const rows: Array<Measured> = []
          for (const given of all) rows.push(await measured(page, service.pid, given, rounds))
          return rows
        } finally {
          await browser.close()
        }
      })
    }).pipe(Effect.provide(Layer.orDie(Storage.layer(known, false))))
  }).pipe(Effect.scoped, Interruptible.run)

const millis = (value: number) => Number.isNaN(value) ? "" : `${value.toFixed(0)} ms`

const row = ({ bytes, files, name, paint, processor, reply }: Measured) => [
  name,
  millis(median(reply)),
  millis(worst(reply)),
  millis(processor),
  String(bytes),
  millis(median(paint)),
  millis(worst(paint)),
  millis(median(files))
]

const tableOf = (rows: ReadonlyArray<Measured>) =>
  columns([
    ["", "REPLY", "WORST", "PROCESSOR", "BYTES", "FIRST PAINT", "WORST", "FILES LISTED"],
    ...rows.map(row),
    ["reach", `<= ${REACH.replyMillis} ms`, "", "", `<= ${REACH.bytes}`, `<= ${REACH.paintMillis} ms`, "", ""]
  ])

const isWithin = ({ bytes, paint, reply }: Measured): boolean =>
  median(reply) <= REACH.replyMillis && bytes <= REACH.bytes && median(paint) <= REACH.paintMillis

/** `before`: a checkout to put beside this one. */
export const run = async ({ before, quick }: { readonly quick: boolean; readonly before: string | null }): Promise<void> => {
  const rounds = quick ? QUICK_ROUNDS : ROUNDS
  process.stdout.write(
    `${EVENTS} events, ${FILES} files changed. Medians of ${rounds} loads; processor: the service's own time for a reply.\n\n`
  )
  if (before !== null) process.stdout.write(`Before:\n\n${tableOf(await measure(rounds, path.resolve(before)))}\n\n`)
  const rows = await measure(rounds, path.resolve(import.meta.dirname, "../.."))
  process.stdout.write(`${tableOf(rows)}\n`)
  if (!rows.every(isWithin)) process.exitCode = 1
}
