/**
 * Attacks that once stopped the whole service, on a served process with a database of its own. Each is bounded in count and
 * time and talks to 127.0.0.1 alone; attackers come from other addresses of the loopback than those who watch, since some
 * limits count by address. What must hold: memory never above twice what it is at rest and 200 MB, `/healthz` within 250 ms, and no
 * request by itself holds the event loop for 50 ms. Who shares the machine makes all of it slow: what the service waited for a
 * processor does not count, but where its own agents take them.
 */
import { assert, it } from "@effect/vitest"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Effect } from "effect"
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { createServer, request as httpRequest } from "node:http"
import { connect, type Socket } from "node:net"
import path from "node:path"
import { createInterface } from "node:readline"
import { setTimeout as pause } from "node:timers/promises"
import { folder, repository, run, serve } from "../../commands/SlipwayProcess.ts"

const HEALTHZ_MILLIS = 250
const GROWTH_MB = 200
/** The most that one request may hold the event loop, in the fastest of some tries. */
const HELD_MILLIS = 50
const TRIES = 6
/** A watcher that was this late itself was kept from the processor by somebody else. */
const LATE_MILLIS = 50
/** The number of sandboxes that the service works for at once. */
const SLOTS = 8
const QUEUED = 2000
/** How long another tenant's agent works meanwhile. */
const SECONDS_AT_WORK = 30
/** How long the gateway is attacked, how long another session may wait for an answer, and how busy its first thread may be. */
const GATEWAY_MILLIS = 8000
const OTHER_SESSION_MILLIS = 2500
const BUSY_PERCENT = 60
/** How many times the memory of before may be taken five seconds after it was needed: the runtime keeps some for a while. */
const LEFT = 2
/** Which attacks are made, by their names: `ABUSE=4 npm run test:reliability -- abuse/`. */
const CHOSEN = new RegExp(process.env["ABUSE"] ?? "", "u")
/** How long one attack may go on. */
const WITHIN_MILLIS = 90_000

interface Sample {
  readonly at: number
  readonly late?: number
  readonly until?: number
  readonly queued?: number
  readonly rss?: number
  readonly healthz?: number | null
  readonly tenant?: number | null
}

interface Row {
  readonly attack: string
  readonly seconds: string
  readonly "memory at rest, MB": number
  readonly "peak, MB": number
  readonly "loop held, ms": number
  readonly "healthz p50/p99/max, ms": string
  readonly "others waited, ms": number
  readonly "left out": string
  readonly "told": string
}

const child = (script: string, args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
  SpawnedProgram.scoped(process.execPath, [path.join(import.meta.dirname, script), ...args], { env: { PATH: process.env["PATH"], ...env } })

const linesOf = ({ child }: SpawnedProgram.SpawnedProgram, on: (line: string) => void) =>
  createInterface({ input: child.stdout }).on("line", on)

const watching = (pid: number, address: string, key = "") =>
  Effect.map(child("Watch.ts", [String(pid), address, key]), (made) => {
    const samples: Array<Sample> = []
    linesOf(made, (line) => samples.push(JSON.parse(line)))
    return samples
  })

/** Two seconds after the first sample. */
const sampled = async (samples: ReadonlyArray<Sample>) => {
  while (samples.length === 0) await pause(100)
  await pause(2000)
}

const quantile = (sorted: ReadonlyArray<number>, q: number) =>
  Math.round(sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? 0)

/** Requests of an attacker, from an address of the loopback of its own. */
const call = (
  url: string,
  { body, from, headers = {}, method = "GET" }: {
    readonly from: string
    readonly method?: string
    readonly body?: string | Buffer
    readonly headers?: Readonly<Record<string, string>>
  }
) =>
  new Promise<{
    readonly status: number
    readonly bytes: number
    readonly text: string
    readonly cookie: string
    readonly millis: number
  }>((resolve) => {
    const start = performance.now()
    const lost = { status: 0, bytes: 0, text: "", cookie: "" }
    const request = httpRequest(url, { method, localAddress: from, headers, agent: false, timeout: WITHIN_MILLIS }, (response) => {
      const chunks: Array<Buffer> = []
      response.on("data", (chunk: Buffer) => chunks.push(chunk))
      const end = () => {
        const all = Buffer.concat(chunks)
        resolve({
          status: response.statusCode ?? 0,
          bytes: all.length,
          text: all.toString("utf8"),
          cookie: (response.headers["set-cookie"]?.[0] ?? "").split(";")[0] ?? "",
          millis: performance.now() - start
        })
      }
      response.on("end", end).on("error", end)
    })
    request.on("timeout", () => request.destroy())
    request.on("error", () => resolve({ ...lost, millis: performance.now() - start }))
    request.end(body)
  })

/** A connection that sends something and takes nothing. */
const mute = (host: string, port: number, from: string, bytes: string, sockets: Array<Socket>) => {
  const socket = connect({ host, port, localAddress: from })
  socket.on("error", () => {})
  socket.pause()
  socket.on("connect", () => socket.write(bytes))
  sockets.push(socket)
}

/** Columns of one width each; what was told comes last. */
const table = (rows: ReadonlyArray<Row>): string => {
  const names = Object.keys(rows[0] ?? {})
  const cells = [names, ...rows.map((row) => Object.values(row).map(String))]
  const widths = names.map((_, i) => Math.max(...cells.map((line) => line[i]?.length ?? 0)))
  return cells.map((line) => line.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join("  ").trimEnd()).join("\n")
}

/** Does it with each, four at a time. */
const inFours = async <A, B>(all: ReadonlyArray<A>, each: (value: A) => Promise<B>): Promise<ReadonlyArray<B>> => {
  const done: Array<B> = []
  const left = [...all]
  await Promise.all(
    times(4).map(async () => {
      for (let next = left.shift(); next !== undefined; next = left.shift()) done.push(await each(next))
    })
  )
  return done
}

const times = (many: number) => Array.from({ length: many }, (_, i) => i)

const linux = process.platform === "linux" ? it.live : it.live.skip
linux("no agent, repository, tenant or stranger takes the service from others", () =>
  Effect.gen(function*() {
    const data = yield* folder
    const delays = path.join(data, "loop-delays")
    mkdirSync(delays)
    const secret = path.join(data, "client-secret")
    writeFileSync(secret, "0123456789abcdef".repeat(2), { mode: 0o600 })
    // An identity provider without users: an answer to every code.
    const provider = createServer((_, response) => response.writeHead(400, { "content-type": "application/json" }).end("{}"))
    yield* Effect.promise(() => new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve)))
    yield* Effect.addFinalizer(() => Effect.sync(() => provider.close()))
    const bound = provider.address()
    assert(typeof bound === "object" && bound !== null)

    const loopDelay = {
      NODE_OPTIONS: `--import=${path.join(import.meta.dirname, "LoopDelay.mjs")} ${process.env["NODE_OPTIONS"] ?? ""}`,
      ABUSE_LOOP_DELAYS: delays
    }
    const server = yield* serve(data, {
      ...loopDelay,
      SLIPWAY_TRUSTED_PROXIES: "127.0.0.7",
      SLIPWAY_GITHUB_CLIENT_ID: "Iv1.aaaaaaaaaaaaaaaa",
      SLIPWAY_GITHUB_CLIENT_SECRET_FILE: secret,
      SLIPWAY_GITHUB_API_URL: `http://127.0.0.1:${bound.port}`
    })
    const { hostname, port } = new URL(server.url)
    const added = yield* run(data, ["repos", "add", "acme/shop", repository(data)])
    const keyOf = (grant: string) =>
      Effect.map(run(data, ["keys", "create", "--grant", grant, "--json"]), ({ stderr, stdout }) => {
        assert.isTrue(stdout.startsWith("{"), stdout + stderr)
        return String(JSON.parse(stdout).key)
      })
    const tenant = yield* keyOf("tenant")
    const hostile = yield* keyOf("hostile")
    const samples = yield* watching(server.pid, server.url, tenant)
    const api = `${server.url}/api/public/v1`
    const as = (key: string) => ({ authorization: `Bearer ${key}`, "content-type": "application/json" })

    const asJson = (text: string) => text.startsWith("{") ? JSON.parse(text) : {}
    /** The sandboxes that the attack at hand made. */
    let made: Array<string> = []
    const create = async (prompt: string, from: string) => {
      const body = JSON.stringify({ repos: [{ fullName: "acme/shop" }], prompt })
      const created = await call(`${api}/sandboxes`, { from, method: "POST", headers: as(hostile), body })
      if (created.status !== 201) throw new Error(`no sandbox: ${created.status} ${created.text} ${added.stdout} ${added.stderr}`)
      const id = String(asJson(created.text).id)
      made.push(id)
      return id
    }
    const terminate = (id: string) => call(`${api}/sandboxes/${id}/terminate`, { from: "127.0.0.6", method: "POST", headers: as(hostile) })
    /** Ends what the attack at hand made, so that the next one has the worker's slots. */
    const endMade = async () => {
      const until = Date.now() + WITHIN_MILLIS
      const ending = made
      made = []
      await inFours(ending, terminate)
      for (const id of ending) {
        for (;;) {
          const { status } = asJson((await call(`${api}/sandboxes/${id}`, { from: "127.0.0.6", headers: as(hostile) })).text)
          if (status === "terminated") break
          if (Date.now() > until) throw new Error(`${id} is still ${status}`)
          await pause(250)
        }
      }
    }
    const say = (id: string, prompt: string, from: string) =>
      call(`${api}/sandboxes/${id}/messages`, { from, method: "POST", headers: as(hostile), body: JSON.stringify({ prompt }) })
    /** Waits for the end of the sandbox's turn, and tells it. */
    const turnEnd = async (id: string, from: string, after = 0, key = hostile) => {
      const until = Date.now() + WITHIN_MILLIS
      for (let cursor = after; Date.now() < until; await pause(250)) {
        for (;;) {
          const page = asJson((await call(`${api}/sandboxes/${id}/events?after=${cursor}`, { from, headers: as(key) })).text)
          if (page.data === undefined || page.data.length === 0) break
          cursor = Number(page.nextCursor)
          const end = page.data.find((event: { readonly type: string }) => event.type === "turn.completed")
          if (end !== undefined) return { cursor: Number(end.id), state: `${end.data.state} ${end.data.reason ?? ""}`.trim() }
        }
      }
      return { cursor: 0, state: "did not end" }
    }

    const rssNow = () => Math.round(samples.findLast(({ rss }) => rss !== undefined)?.rss ?? 0)

    const rows: Array<Row> = []
    const broken: Array<string> = []
    /** The longest time that the process's event loop was held meanwhile. */
    const heldIn = (pid: number, from: number, to: number): number => {
      const written = readdirSync(delays).filter((name) => name === String(pid)).flatMap((name) =>
        readFileSync(path.join(delays, name), "utf8").split("\n").map((line) => line.split(" ").map(Number))
      )
      return Math.max(0, ...written.flatMap(([at = 0, millis = 0]) => at >= from && at <= to ? [millis] : []))
    }

    /** `takesProcessors`: from the service, too. */
    const measure = (
      attack: string,
      pid: number,
      all: ReadonlyArray<Sample>,
      idle: number,
      body: () => Promise<string>,
      takesProcessors = false
    ) =>
      Effect.promise(async () => {
        if (!CHOSEN.test(attack)) return
        const from = Date.now()
        const told = await body().finally(endMade).catch((error: unknown) => `the attack broke: ${String(error)}`)
        // Requests during the attack are answered, or fail.
        await pause(2000)
        const to = Date.now()
        const during = all.filter(({ at, until = at }) => until >= from && at <= to)
        const sound = during.filter(({ late = 0 }) => late < LATE_MILLIS)
        const own = (waited: number | null, queued = 0) => waited === null ? 30_000 : Math.max(0, waited - (takesProcessors ? 0 : queued))
        const healthz = sound.flatMap(({ healthz, queued }) => healthz === undefined ? [] : [own(healthz, queued)]).sort((a, b) => a - b)
        const waited = sound.flatMap(({ queued, tenant }) => tenant === undefined ? [] : [own(tenant, queued)])
        const peak = Math.round(Math.max(0, ...during.flatMap(({ rss }) => rss ?? [])))
        const worst = Math.round(healthz.at(-1) ?? 0)
        rows.push({
          attack,
          seconds: ((to - from) / 1000).toFixed(1),
          "memory at rest, MB": Math.round(idle),
          "peak, MB": peak,
          "loop held, ms": heldIn(pid, from, to),
          "healthz p50/p99/max, ms": `${quantile(healthz, 0.5)}/${quantile(healthz, 0.99)}/${worst}`,
          "others waited, ms": Math.round(Math.max(0, ...waited)),
          "left out": `${during.length - sound.length} of ${during.length}`,
          told
        })
        process.stdout.write(`${attack}: ${((to - from) / 1000).toFixed(0)} s, ${peak} MB, /healthz ${worst} ms. ${told}\n`)
        if (peak > 2 * idle + GROWTH_MB) broken.push(`${attack}: memory ${peak} MB, ${Math.round(idle)} MB at rest`)
        if (worst > HEALTHZ_MILLIS) broken.push(`${attack}: /healthz took ${worst} ms`)
        if (told.startsWith("the attack broke") || told.startsWith("BROKEN")) broken.push(`${attack}: ${told}`)
      })

    // At rest, after everything was in use once.
    yield* Effect.promise(async () => {
      await turnEnd(await create("[[say hello]]", "127.0.0.2"), "127.0.0.2")
      for (const page of ["/docs", "/openapi.json", "/sign-in"]) await call(server.url + page, { from: "127.0.0.2" })
      await pause(1000)
      await sampled(samples)
    })
    const idle = samples.slice(-10).flatMap(({ rss }) => rss ?? []).at(-1) ?? 0
    assert.isTrue(idle > 0, "no sample of the memory")
    const attack = (name: string, body: () => Promise<string>, takesProcessors = false) =>
      measure(name, server.pid, samples, idle, body, takesProcessors)

    yield* attack("nothing", async () => {
      await pause(5000)
      return ""
    })

    yield* attack(`${QUEUED} queued sandboxes of one grant that are terminated at once`, async () => {
      const from = "127.0.0.8"
      const before = rssNow()
      const theirs = asJson(
        (await call(`${api}/sandboxes`, {
          from,
          method: "POST",
          headers: as(tenant),
          body: JSON.stringify({ repos: [{ fullName: "acme/shop" }], prompt: `[[slow ${10 * SECONDS_AT_WORK} 100]]` })
        })).text
      ).id
      // Later callers wait behind these in the queue.
      await Promise.all(times(SLOTS).map(() => create("[[hang]]", from)))
      await inFours(times(QUEUED), () => create("[[hang]]", from))
      const statuses = await inFours(made.splice(SLOTS), async (id) => (await terminate(id)).status)
      const end = await turnEnd(theirs, from, 0, tenant)
      await pause(5000)
      const after = rssNow()
      const terminated = statuses.filter((status) => status === 200).length
      const told = `${terminated} terminated; the other tenant's turn ${end.state}; ${before} MB before, ${after} MB after`
      return end.state !== "succeeded" || after > LEFT * before ? `BROKEN ${told}` : told
    })

    const lines = "$HOME/.slipway-offline/sessions"
    const plant = (bytes: number) =>
      `[[shell f=$(echo ${lines}/*); { printf '"'; head -c ${bytes} /dev/zero | tr '\\0' x; printf '"\\n'; } >> $f; kill -9 $PPID]]`
    for (const [bytes, recalls] of [[7_000_000, 12], [12_000_000, 1]] as const) {
      yield* attack(`1 a text of ${bytes / 1_000_000} MB recalled ${recalls} times`, async () => {
        const from = "127.0.0.2"
        const id = await create(plant(bytes), from)
        const first = await turnEnd(id, from)
        let sent = await say(id, "[[recall]]".repeat(recalls), from)
        for (let i = 0; sent.status === 409 && i < 40; i++) {
          await pause(250)
          sent = await say(id, "[[recall]]".repeat(recalls), from)
        }
        const second = await turnEnd(id, from, first.cursor)
        const page = await call(`${api}/sandboxes/${id}/events?limit=100&after=${first.cursor}`, { from, headers: as(hostile) })
        const told = `${first.state}; ${second.state}; page of ${(page.bytes / 2 ** 20).toFixed(1)} MiB`
        return page.bytes > 2 * 2 ** 20 ? `BROKEN ${told}` : told
      })
    }

    yield* attack("1 floods of 6,600 messages in each of 6 sandboxes", async () => {
      const from = "127.0.0.2"
      const ids = await Promise.all(times(6).map(() => create("[[say x]]".repeat(6600), from)))
      const ends = await Promise.all(ids.map((id) => turnEnd(id, from)))
      const told = ends.map(({ cursor, state }) => `${state} after ${cursor} events`).join(", ")
      return ends.some(({ cursor, state }) => state === "did not end" || cursor < 6000) ? `BROKEN ${told}` : told
    })

    yield* attack("1 six agents that burn all processors", async () => {
      const from = "127.0.0.2"
      const burn = "[[shell for i in 1 2 3 4; do timeout 8 sh -c 'while :; do :; done' & done; wait]]"
      const ids = await Promise.all(times(6).map(() => create(burn, from)))
      return (await Promise.all(ids.map((id) => turnEnd(id, from)))).map(({ state }) => state).join(", ")
    }, true)

    yield* attack("2 400 readers of /docs that never read", async () => {
      const sockets: Array<Socket> = []
      for (const i of times(400)) {
        mute(hostname, Number(port), `127.0.1.${1 + i % 4}`, "GET /docs HTTP/1.1\r\nHost: x\r\n\r\n".repeat(8), sockets)
      }
      await pause(15_000)
      const open = sockets.filter(({ closed, destroyed }) => !closed && !destroyed).length
      for (const socket of sockets) {
        socket.destroy()
      }
      return `${open} still open after 15 s`
    })

    yield* attack("3 30 bodies of 38,000 repositories", async () => {
      const body = JSON.stringify({ prompt: "x", repos: times(38_000).map((i) => ({ fullName: `a/b${i}` })) })
      const replies = await Promise.all(
        times(30).map(() => call(`${api}/sandboxes`, { from: "127.0.0.3", method: "POST", headers: as(hostile), body }))
      )
      const statuses = [...new Set(replies.map(({ status }) => status))]
      return `${(body.length / 1000).toFixed(0)} kB, answered ${statuses.join(", ")}`
    })

    yield* attack("4 40 listings of 20,000 files under 60,000 patterns", async () => {
      const from = "127.0.0.4"
      const patterns = `awk 'BEGIN{for(i=0;i<60000;i++) print "pattern" i "*x"}' > .gitignore`
      const files = `mkdir d; cd d; awk 'BEGIN{for(i=0;i<20000;i++) print "f" i}' | xargs touch`
      const id = await create(`[[shell ${patterns}; ${files}]]`, from)
      const end = await turnEnd(id, from)
      const replies = await Promise.all(
        times(40).map(() => call(`${api}/sandboxes/${id}/files/tree?directory=d`, { from, headers: as(hostile) }))
      )
      const statuses = replies.reduce<Record<string, number>>((all, { status }) => ({ ...all, [status]: (all[status] ?? 0) + 1 }), {})
      const seconds = (Math.max(...replies.map(({ millis }) => millis)) / 1000).toFixed(1)
      return `${end.state}; answered ${JSON.stringify(statuses)}, the last after ${seconds} s`
    })

    yield* Effect.gen(function*() {
      const made = yield* child("Gateway.ts", [], loopDelay)
      const { address, other, token } = yield* Effect.promise(() =>
        new Promise<{ readonly address: string; readonly token: string; readonly other: string }>((resolve) =>
          linesOf(made, (line) => {
            // Its log begins with something else.
            if (line.startsWith("{")) resolve(JSON.parse(line))
          })
        )
      )
      const gateway = new URL(address)
      const inGateway = yield* watching(made.pid, server.url)
      yield* Effect.promise(() => sampled(inGateway))
      const idle = inGateway.flatMap(({ rss }) => rss ?? []).at(-1) ?? 0
      yield* measure("5 120 stalled bodies to the gateway", made.pid, inGateway, idle, async () => {
        const sockets: Array<Socket> = []
        const most = 20 * 2 ** 20
        const head = [
          `POST ${gateway.pathname.replace(/\/$/u, "")}/v1/chat/completions HTTP/1.1`,
          "Host: x",
          `Authorization: Bearer ${token}`,
          "Content-Type: application/json",
          `Content-Length: ${most}`,
          "",
          `{"model":"the-model","messages":"`
        ].join("\r\n")
        const piece = "x".repeat(1024 * 1024)
        for (const _ of times(120)) mute(gateway.hostname, Number(gateway.port), "127.0.0.5", head, sockets)
        // Nearly all of each body, and then nothing more.
        for (const _ of times(19)) {
          for (const socket of sockets) if (!socket.destroyed && socket.writableLength < 2 ** 20) socket.write(piece)
          await pause(300)
        }
        await pause(5000)
        const open = sockets.filter(({ closed, destroyed }) => !closed && !destroyed).length
        for (const socket of sockets) socket.destroy()
        return `${open} still open`
      })

      const toGateway = (bearer: string, body: string | Buffer) =>
        call(`${address}/v1/chat/completions`, {
          from: "127.0.0.5",
          method: "POST",
          headers: { authorization: `Bearer ${bearer}`, "content-type": "application/json" },
          body
        })
      const small = JSON.stringify({ messages: [{ role: "user", content: "hello" }] })
      /** How long another session waits while one does its worst, at most. */
      const whileItGoesOn = async (attackers: ReadonlyArray<() => Promise<unknown>>) => {
        const until = Date.now() + GATEWAY_MILLIS
        const waited: Array<number> = []
        const large = JSON.stringify({ messages: [{ role: "user", content: "x".repeat(300_000) }] })
        const honest = async () => {
          while (Date.now() < until) {
            for (const body of [small, large]) waited.push((await toGateway(other, body)).millis)
            await pause(100)
          }
        }
        await Promise.all([
          honest(),
          ...attackers.map(async (attacker) => {
            while (Date.now() < until) await attacker()
          })
        ])
        return Math.round(Math.max(...waited))
      }
      const cpu = () => {
        const fields = readFileSync(`/proc/${made.pid}/task/${made.pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? []
        return (Number(fields[11]) + Number(fields[12])) * 10
      }

      yield* measure("5 32 connections of one session with the dearest requests", made.pid, inGateway, idle, async () => {
        const dear = `{"messages":[${"{},".repeat(120_000)}{}]}`
        const waited = await whileItGoesOn(times(32).map(() => () => toGateway(token, dear)))
        const told = `another session waits for ${waited} ms`
        return waited > OTHER_SESSION_MILLIS ? `BROKEN ${told}` : told
      })

      yield* measure("5 requests of one session that are refused", made.pid, inGateway, idle, async () => {
        await pause(10_000)
        const bad = Buffer.from(`{"messages":[${"{},".repeat(5_000_000)}{}]}`)
        const begin = cpu()
        const from = Date.now()
        let refused = 0
        const waited = await whileItGoesOn(
          times(16).map(() => async () => {
            const { status } = await toGateway(token, bad)
            if (status !== 0) refused++
            await pause(10)
          })
        )
        const share = Math.round((cpu() - begin) / (Date.now() - from) * 100)
        const told = `${refused} refused, the first thread was at work for ${share} % of the time; another session waits for ${waited} ms`
        return waited > OTHER_SESSION_MILLIS || share > BUSY_PERCENT ? `BROKEN ${told}` : told
      })
    }).pipe(Effect.scoped)

    const keys = yield* Effect.forEach(times(8), () => keyOf("hostile"), { concurrency: 2 })
    yield* attack("6 eight keys of one grant that try to take all streams", async () => {
      const from = (i: number) => `127.0.2.${1 + i % 8}`
      const id = await create("[[hang]]", "127.0.2.1")
      const sockets: Array<Socket> = []
      let opened = 0
      for (const [i, key] of keys.entries()) {
        for (const _ of times(110)) {
          const socket = connect({ host: hostname, port: Number(port), localAddress: from(i) })
          socket.on("error", () => {})
          socket.once("data", (bytes: Buffer) => {
            if (bytes.toString("latin1").startsWith("HTTP/1.1 200")) opened++
          })
          socket.on(
            "connect",
            () =>
              socket.write(`GET /api/public/v1/sandboxes/${id}/events/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`)
          )
          sockets.push(socket)
        }
        await pause(500)
      }
      await pause(3000)
      const other = await call(`${api}/sandboxes?limit=1`, { from: "127.0.0.1", headers: as(tenant) })
      for (const socket of sockets) socket.destroy()
      const told = `${opened} streams of 880, another tenant is answered ${other.status}`
      return opened >= 700 || other.status !== 200 ? `BROKEN ${told}` : told
    })

    yield* attack("7 made-up sign-in callbacks behind a proxy", async () => {
      const back = (client: string) =>
        call(`${server.url}/sign-in/github/callback?code=x&state=s`, {
          from: "127.0.0.7",
          headers: { cookie: "__Host-slipway_oauth=s%20v%20", "x-forwarded-for": client }
        })
      const statuses: Array<number> = []
      for (const _ of times(10)) {
        statuses.push(...(await Promise.all(times(12).map(() => back("198.51.100.1")))).map(({ status }) => status))
      }
      const stopped = statuses.filter((status) => status === 429).length
      const other = await back("198.51.100.2")
      const told = `${stopped} of 120 refused, somebody else is answered ${other.status}`
      return stopped === 0 || other.status === 429 ? `BROKEN ${told}` : told
    })

    const login = yield* run(data, ["sign-in-link"])
    const cookie = yield* Effect.promise(async () => {
      const code = /sign-in#(\w+)/u.exec(login.stdout)?.[1] ?? ""
      const headers = { "content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin" }
      return (await call(`${server.url}/sign-in`, { from: "127.0.0.9", method: "POST", headers, body: `code=${code}` })).cookie
    })
    assert.notStrictEqual(cookie, "", login.stdout + login.stderr)
    const visit = (path: string) => call(server.url + path, { from: "127.0.0.9", headers: { cookie } })

    const own = as(server.key ?? "")
    const ofOwn = async (prompt: string, from: string) => {
      const body = JSON.stringify({ repos: [{ fullName: "acme/shop" }], prompt })
      const created = await call(`${api}/sandboxes`, { from, method: "POST", headers: own, body })
      if (created.status !== 201) throw new Error(`no sandbox: ${created.status} ${created.text}`)
      return String(asJson(created.text).id)
    }
    const endOwn = (id: string, from: string) => call(`${api}/sandboxes/${id}/terminate`, { from, method: "POST", headers: own })
    const countOf = (answers: ReadonlyArray<{ readonly status: number }>) =>
      JSON.stringify(
        answers.reduce<Record<string, number>>((all, { status }) => ({ ...all, [status]: (all[status] ?? 0) + 1 }), {})
      )
    const isFailure = ({ status }: { readonly status: number }) => status === 0 || status >= 500

    const hidden = String.raw`printf '\342\200\254%.0s'`
    const writeHostile = `name=$(${hidden} $(seq 60)); line=$(${hidden} $(seq 380)); ` +
      `for i in $(seq 300); do { yes "$line" | head -n 20; echo "$i"; } > "$name-$i.ts"; done; yes "" | head -c 1000000 > lines.ts; ` +
      `head -c 1000000 /dev/zero | tr '\\0' "'" > line.ts; seq 19000 > many.ts; ` +
      String.raw`{ printf '\211PNG\r\n\032\n'; head -c 5000000 /dev/zero; } > large.png`
    const hostileTexts = ["**a** ", "1. a\n", "> a\n\n", "<http://a.b> "].map((text) =>
      `[[say ${text.repeat(Math.floor(14_000 / text.length))}]]`
    )
    /** A sandbox of the person who visits, in which all of it is. */
    const makeHostile = async (from: string) => {
      const id = await ofOwn(`[[shell ${writeHostile}]] ${hostileTexts.join(" ")}`, from)
      return { id, end: await turnEnd(id, from, 0, server.key ?? "") }
    }
    const places = ["", "?view=changes", "/changes", "/changes?path=lines.ts", "/files", "/files?path=line.ts", "/files?path=lines.ts",
      "/files/picture?path=large.png"]

    yield* attack("8 many openers of pages whose names, lines, texts and pictures are hostile", async () => {
      const from = "127.0.0.9"
      const { end, id } = await makeHostile(from)
      const answers = (await Promise.all(
        times(3).map(() =>
          inFours(times(5).flatMap(() => places), async (place) => ({ place, ...await visit(`/sandboxes/${id}${place}`) }))
        )
      )).flat()
      await endOwn(id, from)
      const pages = answers.filter(({ place, status }) => status === 200 && !place.includes("picture"))
      const most = Math.max(0, ...pages.map(({ bytes }) => bytes))
      const failed = answers.filter(isFailure).length
      const told = `turn ${end.state}, ${pages.length} pages, the largest of ${most} bytes, ${failed} of ${answers.length} not answered`
      return end.state !== "succeeded" || pages.length === 0 || most > 2 ** 20 || failed > 0 ? `BROKEN ${told}` : told
    })

    const oauth = (path: string, body: string, from: string) =>
      call(`${server.url}/oauth/${path}`, { from, method: "POST", headers: { "content-type": "application/x-www-form-urlencoded" }, body })
    const wish = (machine: string) => new URLSearchParams({ client_id: "slipway", machine }).toString()
    const fetching = (code: string) =>
      new URLSearchParams({
        client_id: "slipway",
        grant_type: "urn:ietf:params:oauth:grant-type:device_code",
        device_code: code
      }).toString()
    /** Requests that strangers can send to sign a machine in. */
    const strange: Readonly<Record<string, readonly [path: string, body: string]>> = {
      "a machine's long name": ["device_authorization", wish("x".repeat(60_000))],
      "a machine's hidden name": ["device_authorization", wish("\u202e".repeat(5_000))],
      "a scope of many": ["device_authorization", `${wish("a")}&scope=${"sandboxes+".repeat(6_000)}`],
      "many fields": ["device_authorization", times(9_000).map((i) => `f${i}=v`).join("&")],
      "empty fields": ["token", "&".repeat(64_000)],
      "a long code": ["token", fetching("x".repeat(60_000))],
      "a code of escapes": ["token", `${fetching("")}${"%f0%9f%9a%80".repeat(5_000)}`],
      "a code with a NUL": ["token", fetching("a\0b")],
      "a long token": ["revoke", new URLSearchParams({ client_id: "slipway", token: "x".repeat(60_000) }).toString()],
      "no form": ["token", "\ufffd".repeat(20_000)],
      "a body of 20 MB": ["token", "x".repeat(20_000_000)]
    }

    yield* attack("9 floods of device logins, of wrong codes, and of bodies of 20 MB, some of which stall", async () => {
      const sockets: Array<Socket> = []
      const stalled = [
        "POST /oauth/token HTTP/1.1",
        "Host: x",
        "Content-Type: application/x-www-form-urlencoded",
        "Content-Length: 60000",
        "",
        "device_code="
      ].join("\r\n")
      for (const i of times(120)) mute(hostname, Number(port), `127.0.4.${1 + i % 4}`, stalled, sockets)
      const begun = await inFours(times(600), (i) => oauth("device_authorization", wish("a machine"), `127.0.3.${1 + i % 20}`))
      const guessed = await inFours(times(600), (i) => oauth("token", fetching(`sbx_device_${i}`), "127.0.0.10"))
      const sent = await inFours(times(10).flatMap(() => Object.values(strange)), ([path, body]) => oauth(path, body, "127.0.0.11"))
      const other = await oauth("device_authorization", wish("a machine"), "127.0.0.12")
      const asked = await oauth("token", fetching(String(asJson(other.text).device_code)), "127.0.0.12")
      for (const socket of sockets) socket.destroy()
      const told = `begun ${countOf(begun)}, guessed ${countOf(guessed)}, sent ${countOf(sent)}; somebody else is answered ` +
        `${other.status} and ${asJson(asked.text).error}`
      const refused = (answers: typeof begun) => answers.some(({ status }) => status === 429)
      const isBroken = !refused(begun) || !refused(guessed) || [...begun, ...guessed].some(isFailure) || other.status !== 200 ||
        // A client above the limit may find the connection closed.
        sent.some(({ status }) => status >= 500) || asJson(asked.text).error !== "authorization_pending"
      return isBroken ? `BROKEN ${told}` : told
    })

    const searches: Readonly<Record<string, string>> = {
      "a pattern that goes back and forth": `${"(a+)+".repeat(40)}$`,
      "a pattern of SQL": "%_".repeat(100),
      "quotes": "'\"\\;--".repeat(30),
      "a NUL": "a\0b",
      "emoji": "\u{1f680}".repeat(101),
      "as long as an address may be": "a".repeat(14_000),
      "longer than an address may be": "a".repeat(60_000)
    }
    const searchOf = (text: string) => visit(`/new/repositories?search=${encodeURIComponent(text)}`)

    yield* attack("10 searches for repositories that are patterns, and as long as an address may be", async () => {
      const answers = await Promise.all(times(4).map(() => inFours(times(20).flatMap(() => Object.values(searches)), searchOf)))
      const told = `answered ${countOf(answers.flat())}`
      return answers.flat().some(isFailure) ? `BROKEN ${told}` : told
    })

    const pieces = (id: string, since: number) =>
      `GET /sandboxes/${id}/pieces?since=${since}&back HTTP/1.1\r\nHost: x\r\nCookie: ${cookie}\r\nAccept: text/event-stream\r\n\r\n`

    yield* attack("11 40 streams of a page of which 20 never read, while its agent writes without end", async () => {
      const from = "127.0.0.9"
      const text = "- **a** `b` [c](http://d.e)\n".repeat(100)
      const id = await ofOwn(`[[say ${text}]]`.repeat(10) + "[[say x]]".repeat(3_000), from)
      const sockets: Array<Socket> = []
      let bytes = 0
      for (const i of times(40)) {
        mute(hostname, Number(port), `127.0.5.${1 + i % 8}`, pieces(id, 0), sockets)
        if (i % 2 === 0) sockets.at(-1)?.on("data", (chunk: Buffer) => void (bytes += chunk.length)).resume()
      }
      const end = await turnEnd(id, from, 0, server.key ?? "")
      await pause(2000)
      const page = await visit(`/sandboxes/${id}`)
      for (const socket of sockets) socket.destroy()
      await endOwn(id, from)
      const told = `turn ${end.state} after ${end.cursor} events, ${(bytes / 2 ** 20).toFixed(0)} MiB read; its page is answered ` +
        `${page.status} after ${page.millis.toFixed(0)} ms`
      return end.state !== "succeeded" || bytes === 0 || page.status !== 200 ? `BROKEN ${told}` : told
    })

    yield* attack("12 each of these requests by itself", async () => {
      const from = "127.0.0.9"
      const { end, id } = await makeHostile(from)
      const opening = async () => {
        const sockets: Array<Socket> = []
        mute(hostname, Number(port), from, pieces(id, 0), sockets)
        sockets[0]?.resume()
        await pause(1000)
        sockets[0]?.destroy()
      }
      const prompted = async (prompt: string) => {
        const one = await ofOwn(prompt, from)
        await turnEnd(one, from, 0, server.key ?? "")
        await visit(`/sandboxes/${one}`)
        await endOwn(one, from)
      }
      const requests: Readonly<Record<string, () => Promise<unknown>>> = {
        ...Object.fromEntries(
          [...places, "/changes?path=many.ts", "?view=log"].map((place) =>
            [`/sandboxes/ID${place}`, () => visit(`/sandboxes/${id}${place}`)] as const
          )
        ),
        "a stream of its pieces": opening,
        "a form whose type has many blanks": () =>
          call(`${server.url}/sign-in`, {
            from: "127.0.0.14",
            method: "POST",
            headers: { "sec-fetch-site": "same-origin", "content-type": `application/x-www-form-urlencoded${" ".repeat(12_000)}x` },
            body: "a=b"
          }),
        "a prompt of blanks": () => prompted(`[[shell true${" ".repeat(55_000)}; true]]`),
        "a prompt of dots": () => prompted(`[[write path="a${". ".repeat(27_000)}b" content=x]]`),
        "a prompt of line feeds": () => prompted(`[[shell yes '' | head -n 7900; echo x]]`),
        ...Object.fromEntries(Object.entries(searches).map(([name, text]) => [`a search: ${name}`, () => searchOf(text)] as const)),
        ...Object.fromEntries(
          Object.entries(strange).map(([name, [path, body]]) => [`/oauth/${path}: ${name}`, () => oauth(path, body, "127.0.0.13")] as const)
        )
      }
      const held: Array<readonly [name: string, millis: number]> = []
      for (const [name, request] of Object.entries(requests)) {
        let least = Infinity
        for (let i = 0; i < TRIES && least >= HELD_MILLIS; i++) {
          await pause(200)
          const begin = Date.now()
          await request()
          await pause(200)
          least = Math.min(least, heldIn(server.pid, begin, Date.now()))
        }
        held.push([name, least])
      }
      await endOwn(id, from)
      const [worst = ["", 0]] = held.toSorted(([, a], [, b]) => b - a)
      const slow = held.filter(([, millis]) => millis >= HELD_MILLIS).map(([name, millis]) => `${name} (${millis} ms)`)
      if (slow.length > 0) return `BROKEN these hold the loop: ${slow.join(", ")}`
      const told = `turn ${end.state}; of ${held.length} requests the worst holds the loop for ${worst[1]} ms: ${worst[0]}`
      return end.state === "succeeded" ? told : `BROKEN ${told}`
    })

    process.stdout.write(`\n${table(rows)}\n`)
    process.stdout.write("Left out are samples for which the watcher itself was late.\n")
    assert.deepStrictEqual(broken, [])
  }).pipe(Effect.scoped), 900_000)
