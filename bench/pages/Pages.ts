/**
 * Pages as a person loads them, and the largest pages of sandboxes: 10,000 events in the log and 500 files changed in the tree; a
 * conversation of Markdown; and what a hostile agent can make of names and lines. Their reply and its first byte as a program reads them,
 * all that a first visit loads, and the first paint of that in Chromium.
 */
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import * as SessionCookie from "@slipway/http/server/access/SessionCookie"
import { ConfigProvider, DateTime, Effect, Layer, Redacted, Result } from "effect"
import { existsSync } from "node:fs"
import { Agent, get, type IncomingMessage } from "node:http"
import type { Socket } from "node:net"
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
/** Rounds of a page whose reply waits for git in a box, which takes a second. */
const GIT_ROUNDS = 10
/** For a page on a busy machine. */
const LONGEST_MILLIS = 60_000
/** That are not measured. */
const FIRST_ROUNDS = 2
const EVENTS = 10_000
const FILES = 500
/** Events of one commit. */
const TOGETHER = 100

/** The highest figures that a page should have. */
interface Aims {
  readonly replyMillis?: number
  readonly firstByteMillis?: number
  readonly bytes?: number
  readonly loadBytes?: number
  readonly paintMillis?: number
}

const ORDINARY: Aims = { replyMillis: 50, loadBytes: 300_000, paintMillis: 300 }
/** Its reply waits for git in the sandbox's box, and its beginning must not. */
const BESIDE_GIT: Aims = { firstByteMillis: 150, loadBytes: 300_000, paintMillis: 300 }
const LARGEST: Aims = { replyMillis: 100, bytes: 2 ** 20, paintMillis: 300 }

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

interface Given {
  readonly name: string
  readonly url: string
  readonly aims: Aims
  /** Files that its stream lists. */
  readonly listed?: number
}

interface Measured {
  readonly given: Given
  readonly reply: ReadonlyArray<number>
  readonly firstByte: ReadonlyArray<number>
  /** Processor time of the service's process, milliseconds for one reply: other use of the machine does not change it. */
  readonly processor: number
  readonly bytes: number
  /** All that a first visit loads, on the wire. */
  readonly loadBytes: number
  /** From the beginning of a first visit; empty without Chromium. */
  readonly paint: ReadonlyArray<number>
  /** The same until all changed files are listed: they come with the page's stream. */
  readonly files: ReadonlyArray<number>
}

interface Reply {
  readonly text: string
  readonly firstByte: number
  readonly whole: number
  /** On the wire, with its head. */
  readonly wireBytes: number
}

const agent = new Agent({ keepAlive: true, maxSockets: 1 })

/** `packed`: compressed, if the server does that. */
const load = (url: string, cookie: string, packed = false) =>
  new Promise<Reply>((resolve, reject) => {
    const headers = { cookie, ...(packed ? { "accept-encoding": "br" } : {}) }
    let began = performance.now()
    let bytesBefore = 0
    let socket: Socket | undefined
    const asked = get(url, { agent, headers }, (reply: IncomingMessage) => {
      const chunks: Array<Buffer> = []
      let firstByte = Number.NaN
      reply.on("data", (chunk: Buffer) => {
        if (chunks.length === 0) firstByte = performance.now() - began
        chunks.push(chunk)
      })
      reply.on("error", reject)
      reply.on("end", () => {
        if (reply.statusCode !== 200) return reject(new Error(`${url}: ${reply.statusCode}`))
        const text = Buffer.concat(chunks).toString()
        resolve({ text, firstByte, whole: performance.now() - began, wireBytes: (socket?.bytesRead ?? 0) - bytesBefore })
      })
    })
    asked.on("socket", (used) => {
      socket = used
      bytesBefore = used.bytesRead
      began = performance.now()
    })
    asked.on("error", reject)
  })

/** Styles and scripts that a page or a script names. */
const ASSET = /(?<=")(?:\/assets\/|\.\/)([\w.-]+-[\w-]+\.(?:js|css|svg))(?=")/gu

/** Bytes of all that the page loads: what it names, and what scripts among that import. */
const wholeLoad = async (url: string, cookie: string, page: Reply): Promise<number> => {
  const { origin } = new URL(url)
  const known = new Set<string>()
  const loadAll = async (text: string): Promise<number> => {
    let bytes = 0
    for (const [, name = ""] of text.matchAll(ASSET)) {
      if (known.has(name)) continue
      known.add(name)
      const address = `${origin}/assets/${name}`
      bytes += (await load(address, cookie, true)).wireBytes
      if (name.endsWith(".js")) bytes += await loadAll((await load(address, cookie)).text)
    }
    return bytes
  }
  return page.wireBytes + await loadAll(page.text)
}

/** First visits: the browser keeps nothing from one to the next. */
const visits = async (page: Page, { listed = 0, url }: Given, rounds: number) => {
  const paint: Array<number> = []
  const files: Array<number> = []
  const browser = await page.context().newCDPSession(page)
  for (let round = -FIRST_ROUNDS; round < rounds; round++) {
    await browser.send("Network.clearBrowserCache")
    // The rest of a page may wait for git.
    await page.goto(url, { waitUntil: "commit", timeout: LONGEST_MILLIS })
    const painted = await page.evaluate(() =>
      new Promise<number>((resolve) => {
        new PerformanceObserver((list) => {
          for (const { name, startTime } of list.getEntries()) if (name === "first-contentful-paint") resolve(startTime)
        }).observe({ type: "paint", buffered: true })
      })
    )
    if (listed > 0) await page.locator("#changes .changes li").nth(listed - 1).waitFor({ state: "attached", timeout: LONGEST_MILLIS })
    const whole = await page.evaluate(() => performance.now())
    if (round >= 0) {
      paint.push(painted)
      if (listed > 0) files.push(whole)
    }
    await page.goto("about:blank")
  }
  return { paint, files }
}

const measured = async (page: Page | null, cookie: string, pid: number, given: Given, rounds: number): Promise<Measured> => {
  const { url } = given
  const reply: Array<number> = []
  const firstByte: Array<number> = []
  let last: Reply | undefined
  let before = 0
  // First-time work is not measured.
  for (let round = -FIRST_ROUNDS; round < rounds; round++) {
    if (round === 0) before = Checkout.processorOf(pid)
    last = await load(url, cookie)
    if (round < 0) continue
    reply.push(last.whole)
    firstByte.push(last.firstByte)
  }
  if (last === undefined) throw new Error("nothing was measured")
  const processor = (Checkout.processorOf(pid) - before) / rounds
  const loadBytes = await wholeLoad(url, cookie, last)
  const seen = page === null ? { paint: [], files: [] } : await visits(page, given, rounds)
  return { given, reply, firstByte, processor, bytes: Buffer.byteLength(last.text), loadBytes, ...seen }
}

/** Runs `use` with a page of Chromium that is signed in, if there is Chromium. */
const withChromium = async <A>(link: string, use: (page: Page | null) => Promise<A>): Promise<A> => {
  if (!existsSync(EXECUTABLE)) {
    process.stdout.write(`Without first paints: there is no Chromium at ${EXECUTABLE} (SLIPWAY_CHROMIUM).\n\n`)
    return use(null)
  }
  const browser = await chromium.launch({ executablePath: EXECUTABLE, args: ["--no-sandbox", "--disable-gpu"] })
  try {
    const page = await browser.newPage()
    await page.goto(link)
    await page.getByRole("button", { name: "Sign in", exact: true }).click()
    await page.getByRole("navigation", { name: "Main" }).waitFor()
    return await use(page)
  } finally {
    await browser.close()
  }
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
    /** The event of this type comes when the files are written. */
    const worked = async (command: string, after = "", written = "turn.completed") => {
      const id = await service.create(`[[shell ${command}]] [[say All written.]]${after}`)
      await service.heard(id, written)
      return SandboxId.make(id)
    }
    const ordinary = yield* Effect.promise(() => worked(WRITE))
    yield* Effect.promise(() => service.publish(ordinary))
    const written = yield* Effect.promise(() => worked("true"))
    const hostile = yield* Effect.promise(() => worked(WRITE_HOSTILE))
    const atWork = yield* Effect.promise(() => worked(WRITE, "[[hang]]", "message.updated"))
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
      const sessions = yield* Sessions
      const link = `${service.url}/sign-in#${Redacted.value(yield* sessions.makeLink(userId))}`
      const { token } = yield* sessions.signIn(userId, null)
      const cookie = `${SessionCookie.named("session", "")}=${Redacted.value(token)}`
      const of = (id: SandboxId, query = "") => `${service.url}/sandboxes/${id}${query}`
      const all: ReadonlyArray<Given> = [
        { name: "sandbox", url: of(ordinary), aims: ORDINARY, listed: FILES },
        { name: "list", url: `${service.url}/sandboxes`, aims: ORDINARY },
        { name: "pull request", url: `${service.url}/local/acme/shop/pulls/1`, aims: { ...ORDINARY, ...BESIDE_GIT } },
        { name: "settings", url: `${service.url}/settings`, aims: ORDINARY },
        { name: "changes at work", url: of(atWork, "/changes"), aims: BESIDE_GIT },
        { name: "changes at rest", url: of(ordinary, "/changes"), aims: { ...ORDINARY, ...BESIDE_GIT } },
        { name: "changes view", url: of(ordinary, "?view=changes"), aims: LARGEST, listed: FILES },
        { name: "Markdown", url: of(written), aims: LARGEST },
        { name: "hostile names", url: of(hostile, "?view=changes"), aims: LARGEST },
        // The first request waits for git in the sandbox's box.
        { name: "hostile diff", url: of(hostile, "/changes"), aims: LARGEST }
      ]
      return yield* Effect.promise(() =>
        withChromium(link, async (page) => {
          const rows: Array<Measured> = []
          for (const given of all) {
            const few = given.aims === BESIDE_GIT ? Math.min(GIT_ROUNDS, rounds) : rounds
            process.stderr.write(`${given.name}\n`)
            rows.push(await measured(page, cookie, service.pid, given, few))
          }
          return rows
        })
      )
    }).pipe(Effect.provide(Layer.orDie(Storage.layer(known, false))))
  }).pipe(Effect.scoped, Interruptible.run)

/** A figure beside its aim, and whether it misses that. */
interface Figure {
  readonly shown: string
  readonly misses: boolean
}

/** Nothing is shown of what was not measured. */
const figure = (value: number, unit: "ms" | "kB", most?: number): Figure => {
  if (!Number.isFinite(value)) return { shown: "", misses: false }
  const by = unit === "ms" ? 1 : 1000
  const text = `${(value / by).toFixed(0)} ${unit}`
  const misses = most !== undefined && value > most
  return { shown: most === undefined ? text : `${text} (${misses ? "misses" : "of"} ${(most / by).toFixed(0)})`, misses }
}

const figuresOf = ({ bytes, files, firstByte, given: { aims }, loadBytes, paint, processor, reply }: Measured): ReadonlyArray<Figure> => [
  figure(median(reply), "ms", aims.replyMillis),
  figure(worst(reply), "ms"),
  figure(processor, "ms"),
  figure(median(firstByte), "ms", aims.firstByteMillis),
  figure(bytes, "kB", aims.bytes),
  figure(loadBytes, "kB", aims.loadBytes),
  figure(median(paint), "ms", aims.paintMillis),
  figure(worst(paint), "ms"),
  figure(median(files), "ms")
]

const tableOf = (rows: ReadonlyArray<Measured>) =>
  columns([
    ["", "REPLY", "WORST", "PROCESSOR", "FIRST BYTE", "HTML", "FIRST VISIT", "FIRST PAINT", "WORST", "FILES LISTED"],
    ...rows.map((row) => [row.given.name, ...figuresOf(row).map(({ shown }) => shown)])
  ])

/** `before`: a checkout to put beside this one. */
export const run = async ({ before, quick }: { readonly quick: boolean; readonly before: string | null }): Promise<void> => {
  const rounds = quick ? QUICK_ROUNDS : ROUNDS
  process.stdout.write(
    `${EVENTS} events, ${FILES} files changed. Medians of ${rounds} loads, beside what they should reach; processor: the service's own ` +
      "time for a reply; first visit: the page and its styles and scripts, on the wire.\n\n"
  )
  if (before !== null) process.stdout.write(`Before:\n\n${tableOf(await measure(rounds, path.resolve(before)))}\n\n`)
  const rows = await measure(rounds, path.resolve(import.meta.dirname, "../.."))
  process.stdout.write(`${tableOf(rows)}\n`)
  if (rows.some((row) => figuresOf(row).some(({ misses }) => misses))) process.exitCode = 1
}
