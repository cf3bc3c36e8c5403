/** `npm run soak`: a service of several processes at work, of which something breaks every few seconds. */
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import path from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { parseArgs } from "node:util"
import { Client } from "pg"
import * as Partner from "../../packages/slipway/testing/Partner.ts"
import * as Random from "../../packages/slipway/testing/Random.ts"
import * as Readers from "../../packages/slipway/testing/Readers.ts"
import * as ServiceCluster from "../../packages/slipway/testing/ServiceCluster.ts"
import * as Interruptible from "../Interruptible.ts"
import * as Faults from "./Faults.ts"
import * as People from "./People.ts"
import * as Verdict from "./Verdict.ts"
import * as Watch from "./Watch.ts"

const HELP = `npm run soak -- [--minutes 10] [--seed N] [--isolation none] [--logs FOLDER]

Two http processes, three workers and one Postgres; 8 people who create, approve, write, download, publish and terminate; 200 readers of
event streams; a partner with a webhook. Every few seconds something is killed, frozen, drained, cut, or lost with its disk. In the end:
everything that was acknowledged is true, each log is gapless and what readers saw, each published sandbox has one pull request, and
nothing is left: no process, mount, folder or lease. Memory and descriptors of one http process and one worker are watched.

Exits with 1 when something is not so. --seed repeats the order of the faults, not their moments.
`

const PEOPLE = 8
const READERS = 200
/** So long after the last fault everything has to be over: a lease, a lost machine, the longest freeze, and what was begun. */
const SETTLE_MINUTES = 6

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    seed: { type: "string" },
    isolation: { type: "string", default: "auto" },
    logs: { type: "string", default: path.resolve(import.meta.dirname, "../../test-output/soak") },
    help: { type: "boolean", short: "h", default: false }
  }
})

const say = (line: string) => process.stdout.write(`${line}\n`)

const makeRepository = (folder: string) => {
  mkdirSync(folder, { recursive: true })
  const git = (...args: ReadonlyArray<string>) =>
    execFileSync("git", ["-c", "user.name=A", "-c", "user.email=a@example.com", ...args], { cwd: folder, stdio: "pipe" }).toString()
  git("init", "--quiet", "--initial-branch=main")
  for (let i = 0; i < 50; i++) writeFileSync(path.join(folder, `file-${i}.txt`), `${i}\n`.repeat(40))
  git("add", "--all")
  git("commit", "--quiet", "--message", "First")
  return { folder, branches: () => git("for-each-ref", "--format=%(refname:short)", "refs/heads/slipway/").split("\n").filter(Boolean) }
}

const soak = Effect.fnUntraced(function*(minutes: number, seed: number) {
  const random = Random.make(seed)
  const service = yield* ServiceCluster.make(values.logs, {
    SLIPWAY_ISOLATION: values.isolation,
    SLIPWAY_RATE_LIMIT_PER_MINUTE: "100000",
    SLIPWAY_RATE_LIMIT_PER_USER: "1000000",
    SLIPWAY_RATE_LIMIT_PER_GRANT: "1000000",
    SLIPWAY_STREAMS_PER_USER: "5000",
    SLIPWAY_MACHINE_LOST_SECONDS: "10",
    SLIPWAY_WEBHOOK_PRIVATE: "true"
  })
  const fault = (error: unknown) => new Error(error instanceof Error ? error.stack : String(error))
  return yield* Effect.tryPromise({
    catch: fault,
    try: async () => {
      const repository = makeRepository(path.join(service.home, "repositories/shop"))
      const [steady, other] = [await service.http("http-0"), await service.http("http-1")]
      await service.command("repos", "add", "acme/shop", repository.folder)
      const apiKey = (await service.command("keys", "create", "--key-only", "--label", "soak", "--scopes", "sandboxes")).trim()
      const workers = [await service.worker("worker-0"), await service.worker("worker-1"), await service.worker("worker-2")]
      const database = new Client({ connectionString: service.databaseUrl, options: "-c search_path=slipway" })
      // Cut with all others now and then.
      database.on("error", () => {})
      await database.connect()
      const rows = async (text: string) => (await database.query(text)).rows as ReadonlyArray<Record<string, unknown>>
      const [user] = await rows("SELECT user_id FROM api_keys WHERE label = 'soak'")
      const urls = [steady.url, other.url]
      const partner = await Partner.make(
        service,
        apiKey,
        String(user?.["user_id"]),
        async () => random.next() < 0.03 ? 503 : 204
      )

      let [isOver, areReadersOver] = [false, false]
      const people = People.make(urls, apiKey, () => isOver, random)
      const keys = [apiKey]
      for (let i = 1; i < 4; i++) {
        keys.push((await service.command("keys", "create", "--key-only", "--label", `reader-${i}`, "--scopes", "sandboxes")).trim())
      }
      const readers = keys.map((key) => Readers.make(urls, key, people.ids, () => areReadersOver, random))
      const watch = Watch.make([steady, workers[0]!])
      const working = Promise.all(Array.from({ length: PEOPLE }, (_, i) => people.work(`person-${i}`)))
      const reading = Promise.all(readers.flatMap((some) => Array.from({ length: READERS / readers.length }, () => some.follow())))

      const faults = Faults.all(other, workers.slice(1), database, random)
      const done = new Map<string, number>()
      const underWay = new Set<Promise<void>>()
      const broken: Array<string> = []
      const began = Date.now()
      const wrong = () => [...broken, ...people.wrong, ...readers.flatMap((some) => some.wrong)]
      for (const end = began + minutes * 60_000; Date.now() < end && wrong().length === 0;) {
        await sleep(2_000 + random.below(3_000))
        const { do: act, name } = random.pick(faults)
        done.set(name, (done.get(name) ?? 0) + 1)
        const one = act().catch((error: unknown) => void broken.push(`${name}: ${String(error)}`)).finally(() => underWay.delete(one))
        underWay.add(one)
        if (process.stderr.isTTY) {
          const open = readers.reduce((sum, some) => sum + some.open(), 0)
          const minute = ((Date.now() - began) / 60_000).toFixed(1)
          process.stderr.write(`\r\u001b[2K${minute} min, ${people.ids.length} sandboxes, ${open} readers, ${name}`)
        }
      }
      await Promise.all(underWay)
      const slopes = watch.stop()
      isOver = true
      const settled = await Promise.race([
        working.then(() => true),
        sleep(SETTLE_MINUTES * 60_000, false, { ref: false })
      ])
      if (!settled) broken.push(`what people had begun was not over after ${SETTLE_MINUTES} minutes`)

      // The only sandboxes left are those whose client never learned of their creation.
      for (const end = Date.now() + SETTLE_MINUTES * 60_000; (await Verdict.live(rows)).length > 0 && Date.now() < end;) await sleep(500)
      broken.push(...await Verdict.live(rows))

      // Readers have what was told last, and webhooks as well.
      const feed = await partner.feed(steady.url, apiKey)
      for (const end = Date.now() + 60_000; partner.taken.length < feed.length && Date.now() < end;) {
        // An attempt that failed twice would be made again after 5 minutes.
        await partner.hurry()
        await sleep(2_000)
      }
      await sleep(2_000)
      areReadersOver = true
      await other.stop()
      await steady.stop()
      await reading

      const published = [...people.acknowledged.values()].filter((sandbox) => sandbox.published)
      const seen = readers.flatMap((some) => some.seen)
      broken.push(
        ...await Verdict.acknowledged(rows, people.acknowledged.values()),
        ...await Readers.logs(rows, seen),
        ...await Verdict.pulls(rows, published, repository.branches()),
        ...await Verdict.told(rows, feed, partner.taken)
      )
      for (const worker of workers) await worker.stop()
      broken.push(...await Verdict.left(rows, path.join(service.home, "machines")))
      await database.end()
      partner.close()
      // In less time caches are still being filled.
      if (minutes >= 5) broken.push(...Verdict.grown(slopes))

      const acknowledged = [...people.acknowledged.values()]
      const line = (count: number | string, what: string) => say(`  ${String(count).padStart(6)}  ${what}`)
      const sum = (of: (one: People.Acknowledged) => number) => acknowledged.reduce((all, one) => all + of(one), 0)
      const frames = seen.reduce((all, { events }) => all + events.size, 0)
      const resumed = readers.reduce((all, some) => all + some.resumed(), 0)
      const replies = [...people.statuses].sort(([a], [b]) => a - b).map(([status, n]) => `${status === 0 ? "none" : status} ${n}`)
      say(`\nSoak of ${minutes} minutes, seed ${seed}, isolation ${values.isolation}`)
      for (const [name, n] of done) line(n, name)
      line(acknowledged.length, "creations were acknowledged")
      line(sum(({ turns }) => turns.size), "further turns")
      line(sum(({ approvals }) => approvals.size), "decisions on tool calls")
      line(published.length, "publications")
      line(people.downloads(), "downloads")
      line(seen.length, `logs were read live, ${frames} frames, resumed ${resumed} times`)
      line(feed.length, `events of the feed, each by webhook; ${partner.refused()} refused, ${partner.repeats()} came again`)
      line("", `replies by status: ${replies.join(", ")}`)
      for (const { descriptors, mebibytes, name, perMinute } of slopes) {
        const [memory, open] = [mebibytes.map((value) => value.toFixed(0)).join(" → "), descriptors.join(" → ")]
        line("", `${name}: ${memory} MiB (${perMinute.toFixed(2)} MiB a minute), ${open} descriptors`)
      }
      return wrong()
    }
  })
})

if (values.help) process.stdout.write(HELP)
else {
  const seed = values.seed === undefined ? Date.now() % 1_000_000 : Number(values.seed)
  const wrong = await Interruptible.run(Effect.scoped(soak(Number(values.minutes), seed)))
  for (const line of wrong.slice(0, 40)) say(`WRONG  ${line}`)
  say(wrong.length === 0 ? "Nothing was lost, and nothing is left." : `${wrong.length} things are wrong; logs are in ${values.logs}`)
  process.exitCode = wrong.length === 0 ? 0 : 1
}
