/** Readers of a long log behind nginx, as `deploy/` sets it up but for TLS, that send a request and never read a byte of the answer. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { connect, type Socket } from "node:net"
import path from "node:path"
import { folder, freePort, until } from "../../commands/SlipwayProcess.ts"
import { changed, text } from "../../deploy/Deploy.ts"
import { launched } from "../../deploy/Proxy.ts"
import * as World from "./World.ts"

const READERS = 40
/** Events of the log: more than all buffers between the service and a reader hold. */
const EVENTS = 400
const EVENT_BYTES = 48_000
/** Memory that the service may hold for all of them while they hang, MiB: it is 6 (2026-11-24). */
const HELD_MIB = 24

const hasNginx = World.rootWith("nginx", ["-v"], "readers behind a proxy")

const nginx = (at: string, port: number, service: number) => {
  // The location in deploy/, without its TLS.
  const location = /location \/ \{[^}]*\}/u.exec(text("nginx/slipway.conf"))?.[0] ?? ""
  writeFileSync(
    path.join(at, "nginx.conf"),
    `daemon off; worker_processes 1; pid ${at}/pid; error_log stderr; user root;
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path ${at}/body; proxy_temp_path ${at}/proxy; fastcgi_temp_path ${at}/f; uwsgi_temp_path ${at}/u; scgi_temp_path ${at}/s;
  # A proxy that keeps a silent client for as long as it likes.
  send_timeout 1h;
  server { listen 127.0.0.1:${port}; ${changed(location, [["http://slipway", `http://127.0.0.1:${service}`]])} }
}
`
  )
  return ["nginx", "-p", at, "-c", path.join(at, "nginx.conf")] as const
}

/** Memory of the process, in MiB. `file`: as it was reported by `HELD_MEMORY`. */
const held = (pid: number, file: string) =>
  Effect.gen(function*() {
    rmSync(file, { force: true })
    process.kill(pid, "SIGUSR2")
    yield* until(Effect.sync(() => existsSync(file)), (isThere) => isThere)
    return Number(readFileSync(file, "utf8")) / 2 ** 20
  })

/** Connections that are established to the port of this machine. */
const established = (port: number) =>
  readFileSync("/proc/net/tcp", "latin1").split("\n").filter((line) => {
    const [, local = "", , state] = line.trim().split(/\s+/u)
    return state === "01" && Number.parseInt(local.split(":")[1] ?? "", 16) === port
  }).length

const silent = (port: number, address: string, key: string) =>
  Effect.acquireRelease(
    Effect.callback<Socket>((resume) => {
      const socket = connect(port, "127.0.0.1", () => {
        socket.pause()
        socket.write(`GET ${address} HTTP/1.1\r\nHost: slipway.test\r\nAuthorization: Bearer ${key}\r\n\r\n`)
        resume(Effect.succeed(socket))
      })
      socket.on("error", () => {})
    }),
    (socket) => Effect.sync(() => socket.destroy())
  )

it.live.skipIf(!hasNginx)(
  "readers behind a proxy that never read and never close: the service's memory stays bounded, they are cut, and others notice nothing",
  () =>
    Effect.gen(function*() {
      const port = yield* freePort
      const at = yield* folder
      const memory = path.join(at, "held")
      const { api, databaseUrl, server } = yield* World.service({
        SLIPWAY_TRUSTED_PROXIES: "127.0.0.1",
        NODE_OPTIONS: `--import ${path.join(import.meta.dirname, "HeldMemory.mjs")}`,
        HELD_MEMORY: memory
      })
      const service = Number(new URL(server.url).port)
      yield* launched(at, nginx(at, port, service))
      const proxied = `http://127.0.0.1:${port}`
      yield* until(
        Effect.promise(() => fetch(`${proxied}/healthz`).then(({ status }) => status, () => 0)),
        (status) => status === 200
      )
      const id = yield* api.create({ prompt: "[[say hello]]" })
      yield* api.event(id, "sandbox.checkpoint")
      const [row] = yield* World.query(
        databaseUrl,
        `WITH long AS (
          INSERT INTO sandbox_events (sandbox_id, seq, at, type, part_id, wire)
          SELECT e.sandbox_id, s.last_seq + n, e.at, e.type, e.part_id,
            replace(replace(e.wire, '"id":"' || e.seq || '"', '"id":"' || s.last_seq + n || '"'), 'hello', repeat('hello ', $2))
          FROM sandbox_events e JOIN sandboxes s ON s.id = e.sandbox_id, generate_series(1, ${EVENTS}) n
          WHERE e.sandbox_id = $1 AND e.seq = (SELECT max(seq) FROM sandbox_events WHERE sandbox_id = $1 AND type = 'message.updated')
        )
        UPDATE sandboxes SET last_seq = last_seq + ${EVENTS}, work_seq = last_seq + ${EVENTS} WHERE id = $1 RETURNING last_seq AS seq`,
        [id, EVENT_BYTES / 6]
      )
      const whole = Array.from({ length: Number(row?.["seq"]) }, (_, i) => i + 1)

      const key = server.key ?? ""
      const stream = `/api/public/v1/sandboxes/${id}/events/stream?since=0`
      /** Somebody who reads, through the same proxy: every id of the log, until the last. */
      const reader = Effect.promise(async () => {
        const reply = await fetch(proxied + stream, { headers: { authorization: `Bearer ${key}` } })
        const ids: Array<number> = []
        let rest = ""
        for await (const bytes of reply.body?.pipeThrough(new TextDecoderStream()) ?? []) {
          const blocks = (rest + bytes).split("\n\n")
          rest = blocks.pop() ?? ""
          for (const block of blocks) {
            const found = /^id: (\d+)$/mu.exec(block)?.[1]
            if (found !== undefined) ids.push(Number(found))
          }
          if (ids.length >= whole.length) break
        }
        return ids
      })
      assert.deepStrictEqual(yield* reader, whole)
      const before = yield* held(server.pid, memory)
      const idle = established(service)

      const sockets = yield* Effect.forEach(Array.from({ length: READERS }), () => silent(port, stream, key), { concurrency: "unbounded" })
      yield* until(Effect.sync(() => established(service)), (count) => count >= idle + READERS)
      // Bytes that go through it while the buffers of proxy and kernel fill are garbage soon: only the memory held while they hang counts.
      const look = Effect.all({ mib: held(server.pid, memory), count: Effect.sync(() => established(service)) })
      const hanging = yield* until(look, ({ count, mib }) => mib - before < HELD_MIB || count < idle + READERS)
      assert.isAtLeast(hanging.count, idle + READERS, "they were cut before the service held little enough for them")
      // Meanwhile: what others read is whole, and what others ask is done.
      assert.deepStrictEqual(yield* reader, whole)
      const other = yield* api.create({ prompt: "[[write path=a.txt content=a]]" })
      yield* api.event(other, "turn.completed")
      // The service lets go of them, though the proxy keeps its side open.
      yield* until(Effect.sync(() => established(service)), (count) => count < READERS / 2)
      assert.isTrue(sockets.every((socket) => !socket.destroyed))
      const after = yield* held(server.pid, memory)
      const told = [before, hanging.mib, after].map((mib) => Math.round(mib)).join(", ")
      process.stdout.write(`the service holds ${told} MiB before, while ${READERS} readers hang, and after\n`)
    }).pipe(Effect.scoped)
)
