import { assert, describe, layer } from "@effect/vitest"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { Members } from "@slipway/domain/access/usecases/Members"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { freePort } from "@slipway/embedded-postgres/testing/FreePort"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import { ConfigProvider, Context, Deferred, Effect, Layer } from "effect"
import { spawnSync } from "node:child_process"
import { createServer } from "node:http"
import * as Storage from "../../src/service/storage/Storage.ts"
import * as Settings from "../../src/settings/Settings.ts"
import { folder, serve, type Server } from "../commands/SlipwayProcess.ts"
import {
  ask,
  cookieOf,
  enter,
  hostOf,
  member,
  openForm,
  owner,
  repository,
  sandboxOf,
  sendRaw,
  started,
  talk,
  terminate
} from "./Previewed.ts"

class Previewed extends Context.Service<Previewed, {
  readonly server: Server
  /** Another process on the same database, without a worker. */
  readonly other: Server
  /** The sandbox, and the port of its server. */
  readonly id: string
  readonly port: number
  /** A declared port without a server. */
  readonly silent: number
  /** A declared port on which a process listens that is not the sandbox's. */
  readonly foreign: number
}>()("slipway/test/Previewed") {}

const serviceWith = (settings: Readonly<Record<string, string>>) =>
  Layer.unwrap(Effect.gen(function*() {
    const data = yield* folder
    const environment = { DATABASE_URL: yield* TestPostgres.database(Migrations.layer), ...settings }
    const server = yield* serve(data, environment)
    const other = yield* serve(yield* folder, { ...environment, SLIPWAY_ROLE: "http" })
    const known = yield* Settings.load.pipe(
      Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ ...environment, SLIPWAY_DATA_DIR: data }))),
      Effect.orDie
    )
    const [port, silent, foreign] = yield* Effect.all([freePort, freePort, freePort])
    yield* Effect.acquireRelease(
      Effect.sync(() => createServer((_, response) => response.end("a secret of the machine")).listen(foreign, "127.0.0.1")),
      (other) => Effect.sync(() => other.close())
    )
    const made = Layer.effect(
      Previewed,
      Effect.gen(function*() {
        const ports = JSON.stringify({ ports: [{ port, label: "App" }, silent, foreign] })
        yield* repository(yield* folder, "app", { ".slipway/environment.json": ports })
        const id = yield* sandboxOf(server, "app", started(`node server.mjs ${port}`))
        return { server, other, id, port, silent, foreign }
      })
    )
    return made.pipe(Layer.provideMerge(Storage.layer(known, false)))
  }))

const page = "/sandboxes"

layer(serviceWith({ SLIPWAY_ISOLATION: "none" }), { excludeTestServices: true })("a preview of a server in a sandbox", (it) => {
  it.effect("is opened from the sandbox's page by a ticket that counts once, and leads to a clean address with a cookie", () =>
    Effect.gen(function*() {
      const { foreign, id, port, server } = yield* Previewed
      const person = yield* owner
      const shown = yield* ask(server, `${page}/${id}/preview`, { headers: { cookie: person.cookie } })
      assert.include(shown.text, `Open App (port ${port})`)
      assert.include(shown.text, `Open Port ${foreign}`)

      const form = yield* openForm(server, person, id, port)
      assert.strictEqual(form.status, 303, form.text)
      const host = hostOf(server, id, port)
      const address = new URL(form.headers.location ?? "")
      assert.strictEqual(address.host, host)
      const first = yield* ask(server, address.pathname + address.search, { host })
      assert.deepStrictEqual([first.status, first.headers.location], [303, "/"])
      assert.match(
        first.headers["set-cookie"]?.[0] ?? "",
        /^__Host-slipway_preview=[^;]+; Path=\/; Secure; HttpOnly; SameSite=Lax; Max-Age=\d+$/u
      )
      const cookie = cookieOf(first)
      const told = JSON.parse((yield* ask(server, "/a?b=1", { host, headers: { cookie: `${cookie}; own=2` } })).text)
      assert.deepInclude(told, { method: "GET", url: "/a?b=1" })
      assert.deepInclude(told.headers, { cookie: "own=2", host: `localhost:${port}`, "x-forwarded-host": host })

      assert.strictEqual((yield* ask(server, address.pathname + address.search, { host })).status, 401)
    }))

  it.effect("is opened by one of many who try a ticket at once in several processes, and the audit log has it once", () =>
    Effect.gen(function*() {
      const { id, other, port, server } = yield* Previewed
      const [person, audit] = [yield* owner, yield* AuditLog]
      const opened = Effect.map(
        audit.list({ since: null, limit: 1000 }),
        (entries) => entries.filter(({ action }) => action === "preview.opened")
      )
      const before = yield* opened
      const { headers } = yield* openForm(server, person, id, port)
      const { pathname, search } = new URL(headers.location ?? "")
      assert.deepStrictEqual(yield* opened, before)
      const tried = yield* Effect.forEach(
        [server, other, server, other],
        (one) => ask(one, pathname + search, { host: hostOf(one, id, port) }),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(tried.map(({ status }) => status).sort(), [303, 401, 401, 401])
      const [entry, ...more] = (yield* opened).slice(before.length)
      assert.deepStrictEqual(more, [])
      assert.deepInclude(entry, {
        actor: { _tag: "User", userId: person.userId },
        subjects: { sandboxId: id, grantId: person.place, port: String(port) }
      })
      assert.strictEqual(entry?.origin?.address, "127.0.0.1")
      assert.notInclude(JSON.stringify(entry), search.slice("?ticket=".length, 60))
      const cookie = tried.map(cookieOf).find((one) => one !== "") ?? ""
      assert.strictEqual((yield* ask(other, "/a", { host: hostOf(other, id, port), headers: { cookie } })).status, 200)
    }))

  it.effect("ends, with its WebSockets and open requests, when its member becomes a viewer or leaves, and its cookie counts no more", () =>
    Effect.gen(function*() {
      const { id, port, server } = yield* Previewed
      const members = yield* Members
      const host = hostOf(server, id, port)
      const losses = [
        ["demoted", (login: string) => members.add(null, login, "viewer")],
        ["removed", (login: string) => members.remove(null, login)]
      ] as const
      for (const [login, lose] of losses) {
        const person = yield* member(login)
        const cookie = yield* enter(server, person, id, port)
        const { headers } = yield* openForm(server, person, id, port)
        const unused = new URL(headers.location ?? "")
        const opened = yield* Deferred.make<void>()
        const streaming = yield* Deferred.make<void>()
        const [said, stream, waiting] = yield* Effect.all([
          talk(server, host, cookie, `http://${host}`, () => Effect.runSync(Deferred.succeed(opened, undefined))),
          ask(server, "/stream", { host, headers: { cookie } }, () => Effect.runSync(Deferred.succeed(streaming, undefined))),
          ask(server, "/wait", { host, headers: { cookie } }),
          Effect.andThen(Effect.all([Deferred.await(opened), Deferred.await(streaming)]), lose(login))
        ], { concurrency: "unbounded" })
        assert.match(said, /^HTTP\/1\.1 101 /u)
        assert.deepInclude(stream, { status: 200, text: "half", isCut: true })
        assert.strictEqual(waiting.status, 401)
        const again = yield* ask(server, "/", { host, headers: { cookie } })
        assert.strictEqual(again.status, 401)
        assert.notInclude(again.text, "\"method\"")
        assert.strictEqual((yield* ask(server, unused.pathname + unused.search, { host })).status, 401)
        assert.isAtLeast((yield* openForm(server, person, id, port)).status, 403)
      }
    }))

  it.effect("has a link to share for each port, to which its own address leads without a cookie", () =>
    Effect.gen(function*() {
      const { id, port, server, silent } = yield* Previewed
      const { cookie } = yield* owner
      const shown = (query: string) => Effect.map(ask(server, `${page}/${id}/preview${query}`, { headers: { cookie } }), ({ text }) => text)
      const link = `/sandboxes/${id}/preview?port=${port}`
      const all = yield* shown("")
      for (const one of [port, silent]) assert.include(all, `href="/sandboxes/${id}/preview?port=${one}"`)
      const one = yield* shown(`?port=${port}`)
      assert.include(one, `<button autofocus>Open App (port ${port})`)
      assert.notInclude(one, String(silent))
      assert.include(one, `href="/sandboxes/${id}/preview"`)
      for (const unknown of ["1", `${port}0`, "<b>", ""]) {
        const text = yield* shown(`?port=${encodeURIComponent(unknown)}`)
        assert.include(text, "The port of this link has no preview")
        assert.include(text, `Open Port ${silent}`)
        assert.notInclude(text, "<b>")
      }
      const bare = yield* ask(server, "/deep?a=1", { host: hostOf(server, id, port) })
      assert.strictEqual(bare.status, 401)
      assert.include(bare.text, `<a href="${server.url}${link}">Open port ${port} of the sandbox</a>`)
      // The person signs in first, and comes back to the port.
      const first = yield* ask(server, link)
      assert.strictEqual(first.headers.location, `/sign-in?next=${encodeURIComponent(link)}`)
    }))

  it.effect("has no port that the file of the start commit does not name", () =>
    Effect.gen(function*() {
      const { id, server } = yield* Previewed
      const form = yield* openForm(server, yield* owner, id, Number(new URL(server.url).port))
      assert.deepStrictEqual([form.status, form.headers.location], [400, undefined])
    }))

  it.effect("passes bodies, and hides the cookies of the service and what acts on other hosts", () =>
    Effect.gen(function*() {
      const { id, port, server } = yield* Previewed
      const person = yield* owner
      const host = hostOf(server, id, port)
      const cookie = yield* enter(server, person, id, port)
      const told = JSON.parse(
        (yield* ask(server, "/post", {
          host,
          method: "POST",
          headers: { cookie: `${person.cookie}; ${cookie}; own=1`, connection: "x-secret", "x-secret": "1", "x-forwarded-for": "1.2.3.4" },
          body: "hello"
        })).text
      )
      assert.deepInclude(told, { method: "POST", body: "hello" })
      assert.strictEqual(told.headers.cookie, "own=1")
      assert.notProperty(told.headers, "x-secret")
      assert.notProperty(told.headers, "x-forwarded-for")

      const { headers, status } = yield* ask(server, "/cookies", { host, headers: { cookie } })
      assert.strictEqual(status, 302)
      assert.deepStrictEqual(headers["set-cookie"], ["own=1; Path=/", "wide=1; Path=/"])
      assert.strictEqual(headers.location, "/there?a=1")
      assert.notProperty(headers, "clear-site-data")
    }))

  it.effect("tells of a server that is missing, and of an answer that breaks off", () =>
    Effect.gen(function*() {
      const { id, port, server, silent } = yield* Previewed
      const person = yield* owner
      const closed = yield* ask(server, "/", {
        host: hostOf(server, id, silent),
        headers: { cookie: yield* enter(server, person, id, silent) }
      })
      assert.strictEqual(closed.status, 502)
      assert.include(closed.text, `No server on port ${silent}`)
      const cut = yield* ask(server, "/cut", {
        host: hostOf(server, id, port),
        headers: { cookie: yield* enter(server, person, id, port) }
      })
      assert.isTrue(cut.isCut)
    }))

  it.effect("takes 64 KiB of headers of an answer", () =>
    Effect.gen(function*() {
      const { id, port, server } = yield* Previewed
      const host = hostOf(server, id, port)
      const headers = { cookie: yield* enter(server, yield* owner, id, port) }
      // The test's own client takes 16 KiB.
      const most = yield* sendRaw(
        server,
        `GET /headers/60000 HTTP/1.1\r\nHost: ${host}\r\nCookie: ${headers.cookie}\r\nConnection: close\r\n\r\n`
      )
      assert.match(most, /^HTTP\/1\.1 200 /u)
      const more = yield* ask(server, "/headers/70000", { host, headers })
      assert.strictEqual(more.status, 502)
      assert.include(more.text, "The server did not answer")
    }))

  it.effect("does not reach a process of the machine that is not the sandbox's", () =>
    Effect.gen(function*() {
      const { foreign, id, server } = yield* Previewed
      const cookie = yield* enter(server, yield* owner, id, foreign)
      const answer = yield* ask(server, "/", { host: hostOf(server, id, foreign), headers: { cookie } })
      assert.strictEqual(answer.status, 502)
      assert.notInclude(answer.text, "secret")
    }))

  it.effect("is closed to a cookie of another port or sandbox, to a changed one, and after the person signed out", () =>
    Effect.gen(function*() {
      const { id, port, server, silent } = yield* Previewed
      const person = yield* owner
      const cookie = yield* enter(server, person, id, port)
      const status = (host: string, given = cookie) =>
        Effect.map(ask(server, "/", { host, headers: { cookie: given } }), (answer) => answer.status)
      const host = hostOf(server, id, port)
      assert.strictEqual(yield* status(host), 200)
      assert.strictEqual(yield* status(hostOf(server, id, silent)), 401)
      assert.strictEqual(yield* status(hostOf(server, "c_aaaaaaaaaaaa", port)), 401)
      assert.strictEqual(yield* status(host, `${cookie}0`), 401)
      assert.strictEqual(yield* status(host, person.cookie), 401)
      const { headers } = yield* openForm(server, person, id, port)
      const ticket = new URL(headers.location ?? "").searchParams.get("ticket")
      assert.strictEqual(yield* status(host, `__Host-slipway_preview=${ticket}`), 401)

      yield* (yield* Sessions).signOut(person.token)
      // An answer about a session is believed for a second.
      let last = yield* status(host)
      while (last === 200) last = yield* Effect.delay(status(host), "50 millis")
      assert.strictEqual(last, 401)
    }))

  it.effect("is not used by pages of other origins, which may only lead there", () =>
    Effect.gen(function*() {
      const { id, port, server } = yield* Previewed
      const host = hostOf(server, id, port)
      const cookie = yield* enter(server, yield* owner, id, port)
      const status = (headers: Readonly<Record<string, string>>, method = "GET") =>
        Effect.map(ask(server, "/", { host, method, headers: { cookie, ...headers } }), (answer) => answer.status)
      const link = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" }
      assert.strictEqual(yield* status(link), 200)
      assert.strictEqual(yield* status({ "sec-fetch-site": "same-origin", origin: `http://${host}` }, "POST"), 200)
      assert.strictEqual(yield* status({ ...link, "sec-fetch-dest": "iframe" }), 403)
      assert.strictEqual(yield* status(link, "POST"), 403)
      for (const site of ["cross-site", "same-site"]) {
        assert.strictEqual(yield* status({ "sec-fetch-site": site, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script" }), 403)
      }
      assert.strictEqual(yield* status({ origin: `http://${hostOf(server, "c_bbbbbbbbbbbb", port)}` }), 403)
    }))

  it.effect("gives no script to a service worker, not from a browser's cache either", () =>
    Effect.gen(function*() {
      const { id, port, server } = yield* Previewed
      const host = hostOf(server, id, port)
      const cookie = yield* enter(server, yield* owner, id, port)
      const script = (headers: Readonly<Record<string, string>>) => ask(server, "/worker.js", { host, headers: { cookie, ...headers } })
      const plain = yield* script({})
      assert.deepStrictEqual([plain.status, plain.headers.vary], [200, "service-worker"])
      assert.notProperty(plain.headers, "service-worker-allowed")
      assert.strictEqual((yield* script({ "service-worker": "script" })).status, 403)
      assert.strictEqual((yield* script({ "service-worker": "script", "if-none-match": "\"1\"" })).status, 403)
      assert.strictEqual((yield* script({ "sec-fetch-site": "same-origin", "sec-fetch-dest": "serviceworker" })).status, 403)
    }))

  it.effect("never answers for the service, nor the service for it", () =>
    Effect.gen(function*() {
      const { id, port, server } = yield* Previewed
      const person = yield* owner
      const own = new URL(server.url)
      const cookie = yield* enter(server, person, id, port)
      const host = hostOf(server, id, port)
      for (const address of ["/", "/sign-in", "/api/public/v1/sandboxes", "/healthz", "/metrics"]) {
        for (const strange of [`x.localhost:${own.port}`, `22-${id.slice(2)}.localhost:${own.port}`, `a.${host}`, `LOCALHOST.localhost`]) {
          const answer = yield* ask(server, address, { host: strange, headers: { cookie: `${person.cookie}; ${cookie}` } })
          assert.strictEqual(answer.status, 404, `${strange}${address}`)
        }
        const told = yield* ask(server, address, { host, headers: { cookie: `${person.cookie}; ${cookie}` } })
        assert.strictEqual(JSON.parse(told.text).url, address)
      }
      const key = { authorization: `Bearer ${server.key}`, accept: "application/json" }
      assert.strictEqual((yield* ask(server, "/api/public/v1/sandboxes", { host, headers: key })).status, 401)
      // The pages of the service take no form of a preview.
      for (const from of [{ "sec-fetch-site": "same-site" }, { "sec-fetch-site": "cross-site" }, { origin: `http://${host}` }]) {
        assert.strictEqual((yield* openForm(server, person, id, port, from)).status, 403)
      }
    }))

  it.effect("cannot be made to ask another host, port or protocol", () =>
    Effect.gen(function*() {
      const { foreign, id, port, server } = yield* Previewed
      const host = hostOf(server, id, port)
      const cookie = yield* enter(server, yield* owner, id, port)
      const send = (head: string, body = "") => sendRaw(server, `${head}\r\nCookie: ${cookie}\r\nConnection: close\r\n\r\n${body}`)
      const statusOf = (answer: string) => Number(/^HTTP\/1\.1 (\d+)/u.exec(answer)?.[1])
      const at = `Host: ${host}`
      assert.strictEqual(statusOf(yield* send(`GET http://127.0.0.1:${foreign}/ HTTP/1.1\r\n${at}`)), 400)
      assert.strictEqual(statusOf(yield* send(`GET http://${host}/ HTTP/1.1\r\n${at}`)), 400)
      assert.strictEqual(statusOf(yield* send(`CONNECT 127.0.0.1:${foreign} HTTP/1.1\r\n${at}`)), 404)
      assert.strictEqual(statusOf(yield* send(`GET / HTTP/1.1\r\n${at}\r\nHost: ${hostOf(server, id, foreign)}`)), 400)
      assert.strictEqual(statusOf(yield* send(`GET / HTTP/1.1\r\nHost: ${port}-${id.slice(2)}.localhost:${foreign}@evil`)), 400)
      const smuggled = "0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n"
      assert.strictEqual(
        statusOf(yield* send(`POST / HTTP/1.1\r\n${at}\r\nContent-Length: ${smuggled.length}\r\nTransfer-Encoding: chunked`, smuggled)),
        400
      )
      const dots = yield* send(`GET /../../x HTTP/1.1\r\n${at}`)
      assert.include(dots, "\"url\":\"/../../x\"")
      // Another protocol is not spoken: the request is an ordinary one.
      const upgraded = yield* sendRaw(
        server,
        `GET /h2c HTTP/1.1\r\n${at}\r\nCookie: ${cookie}\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n`
      )
      assert.strictEqual(statusOf(upgraded), 200)
      assert.notInclude(upgraded, "\"upgrade\"")
    }))

  it.effect("passes a WebSocket of its own pages alone, and ends it when the person signs out", () =>
    Effect.gen(function*() {
      const { id, port, server } = yield* Previewed
      const person = yield* owner
      const cookie = yield* enter(server, person, id, port)
      const host = hostOf(server, id, port)
      assert.match(yield* talk(server, host, cookie, "http://evil.example"), /^HTTP\/1\.1 403 /u)
      assert.match(yield* talk(server, host, "", `http://${host}`), /^HTTP\/1\.1 401 /u)

      const echoed = yield* Deferred.make<void>()
      const talking = talk(server, host, cookie, `http://${host}`, () => Effect.runSync(Deferred.succeed(echoed, undefined)))
      const signOut = Effect.andThen(Deferred.await(echoed), (yield* Sessions).signOut(person.token))
      const [answer] = yield* Effect.all([talking, signOut], { concurrency: 2 })
      assert.match(answer, /^HTTP\/1\.1 101 /u)
    }))

  it.effect("says that the sandbox does not run, and does not start it", () =>
    Effect.gen(function*() {
      const { id, port, server } = yield* Previewed
      const cookie = yield* enter(server, yield* owner, id, port)
      yield* terminate(server, id)
      const host = hostOf(server, id, port)
      const look = ask(server, "/", { host, headers: { cookie } })
      let answer = yield* look
      while (answer.status === 200 || answer.status === 502) answer = yield* Effect.delay(look, "50 millis")
      assert.strictEqual(answer.status, 503, answer.text)
      assert.include(answer.text, "The sandbox is not running")
    }))
})

const hasBoxes = spawnSync("bwrap", ["--version"]).status === 0
const boxed = serviceWith({ SLIPWAY_ISOLATION: "bubblewrap", SLIPWAY_EGRESS_ALLOW: "registry.npmjs.org:443" })
const NEEDS = "needs bubblewrap: apt-get install bubblewrap"

describe.skipIf(!hasBoxes)(`a preview of a server in a box with a network of its own (${NEEDS})`, () => {
  layer(boxed, { excludeTestServices: true })((it) => {
    it.effect("reaches the loopback interface of the box, and not the machine's", () =>
      Effect.gen(function*() {
        const { foreign, id, port, server } = yield* Previewed
        const person = yield* owner
        const told = yield* ask(server, "/a", {
          host: hostOf(server, id, port),
          method: "POST",
          headers: { cookie: yield* enter(server, person, id, port) },
          body: "x".repeat(300_000)
        })
        assert.strictEqual(told.status, 200, told.text)
        assert.strictEqual(JSON.parse(told.text).body.length, 300_000)
        const other = yield* ask(server, "/", {
          host: hostOf(server, id, foreign),
          headers: { cookie: yield* enter(server, person, id, foreign) }
        })
        assert.strictEqual(other.status, 502)
        assert.include(other.text, `No server on port ${foreign}`)
      }))

    it.effect("breaks off with the sandbox, and says that it does not run", () =>
      Effect.gen(function*() {
        const { id, port, server } = yield* Previewed
        const cookie = yield* enter(server, yield* owner, id, port)
        const host = hostOf(server, id, port)
        const [answer] = yield* Effect.all([
          ask(server, "/wait", { host, headers: { cookie } }),
          terminate(server, id)
        ], { concurrency: 2 })
        assert.isTrue(answer.isCut || answer.status >= 502, answer.text)
      }))
  })
})
