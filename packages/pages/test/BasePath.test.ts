/** The service beneath a path of its host, behind a real nginx that passes the path on, or strips it. */
import { assert, describe, layer } from "@effect/vitest"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { Context, Effect, Layer, Redacted } from "effect"
import { HttpServer } from "effect/http"
import { spawn, spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { request as nodeRequest } from "node:http"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import path from "node:path"
import { addressOf } from "../src/assets/Assets.ts"
import { ask, creation, json, layer as http, mintKey, SANDBOXES } from "../testing/Harness.ts"

const BASE = "/tools/slipway"
const PUBLIC_URL = `https://host.test${BASE}`

const withoutNginx = spawnSync("nginx", ["-v"]).status !== 0
if (withoutNginx) process.stderr.write("SKIPPED: nginx is not installed, so the service is not tested behind it (apt-get install nginx)\n")

const freePort = Effect.promise(() =>
  new Promise<number>((resolve) => {
    const server = createServer()
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0))
    })
  })
)

/** Where nginx listens. */
class Nginx extends Context.Service<Nginx, { readonly port: number }>()("test/Nginx") {}

/** `strips`: what it passes on begins after the path of the location. */
const nginx = ({ strips }: { readonly strips: boolean }) =>
  Layer.effect(
    Nginx,
    Effect.gen(function*() {
      const { address } = yield* HttpServer.HttpServer
      assert("port" in address)
      const port = yield* freePort
      const folder = mkdtempSync(path.join(tmpdir(), "slipway-nginx-"))
      const file = path.join(folder, "nginx.conf")
      writeFileSync(
        file,
        `daemon off; worker_processes 1; pid ${folder}/pid; error_log stderr; user root;
events { worker_connections 64; }
http {
  access_log off;
  client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/f; uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s;
  server {
    listen 127.0.0.1:${port};
    location ${BASE}/ {
      proxy_pass http://127.0.0.1:${address.port}${strips ? "/" : ""};
      proxy_http_version 1.1;
      proxy_set_header Host $host;
      proxy_set_header Connection "";
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    }
  }
}
`
      )
      yield* Effect.acquireRelease(
        Effect.sync(() => spawn("nginx", ["-p", folder, "-c", file], { stdio: "ignore" })),
        (child) =>
          Effect.promise(() =>
            new Promise<void>((resolve) => {
              child.once("exit", () => resolve())
              child.kill("SIGTERM")
            })
          ).pipe(Effect.andThen(Effect.sync(() => rmSync(folder, { recursive: true, force: true }))))
      )
      yield* Effect.repeat(
        Effect.promise(() =>
          new Promise<boolean>((resolve) => {
            const asked = nodeRequest({ host: "127.0.0.1", port, path: `${BASE}/healthz` }, (response) => {
              response.resume()
              resolve(response.statusCode === 200)
            })
            asked.on("error", () => setTimeout(() => resolve(false), 20))
            asked.end()
          })
        ),
        { until: (isUp) => isUp }
      )
      return { port }
    })
  )

/** As `ask`, of nginx. */
const through = (where: string, asked: Parameters<typeof ask>[1] = {}) =>
  Effect.flatMap(Nginx, ({ port }) => ask(where, { ...asked, port }))

const links = (page: string) =>
  Array.from(page.matchAll(/ (?:href|src|action|formaction|data-then)="([^"]*)"/gu), ([, address = ""]) => address)

describe.skipIf(withoutNginx)("behind nginx (needs nginx: apt-get install nginx)", () => {
  for (const strips of [false, true]) {
    const service = http({ settings: { publicUrl: PUBLIC_URL, trustedProxies: (address) => address === "127.0.0.1" } })
    layer(nginx({ strips }).pipe(Layer.provideMerge(service)), { excludeTestServices: true })(
      `that ${strips ? "strips" : "passes on"} the path of the service`,
      (it) => {
        it.effect("the API works, and its links lead to where clients are", () =>
          Effect.gen(function*() {
            const { key } = yield* mintKey()
            const made = yield* through(`${BASE}${SANDBOXES}`, { key, body: JSON.stringify(creation) })
            assert.strictEqual(made.status, 201, made.text)
            const { id, links } = json(made)
            const self = `${PUBLIC_URL}${SANDBOXES}/${id}`
            assert.deepStrictEqual([made.headers.location, links.self, links.events], [self, self, `${self}/events`])
            assert.strictEqual(json(yield* through(new URL(links.self).pathname, { key })).id, id)
            const reply = yield* through(`${BASE}/nothing`)
            assert.deepStrictEqual([reply.status, json(reply).error.code], [404, "not_found"])
            assert.strictEqual((yield* through(`${BASE}${SANDBOXES}`)).status, 401)
            // Checks of health ask the service itself.
            assert.strictEqual((yield* ask("/healthz")).status, 200)
          }))

        it.effect("the description names the path, and its page finds its script", () =>
          Effect.gen(function*() {
            assert.deepStrictEqual(json(yield* through(`${BASE}/openapi.json`)).servers, [{ url: BASE, description: "This server" }])
            const script = links((yield* through(`${BASE}/docs`)).text).find((link) => link.endsWith(".js")) ?? ""
            const reply = yield* through(script)
            assert.strictEqual(reply.status, 200, script)
            assert.include(reply.text, `"url":"${BASE}/openapi.json"`)
          }))

        it.effect("a person signs in, and every link, form and redirect stays beneath the path", () =>
          Effect.gen(function*() {
            yield* (yield* Access).createGrant("acme")
            const code = yield* (yield* Sessions).makeLink((yield* (yield* MemberStore).owner).userId)
            const welcome = yield* through(`${BASE}/`, { headers: { accept: "text/html" } })
            assert.include(links(welcome.text), `${BASE}/sign-in`)
            const away = yield* through(`${BASE}/sandboxes`)
            assert.strictEqual(away.headers.location, `${BASE}/sign-in?next=%2Fsandboxes`)
            const signIn = yield* through(String(away.headers.location))
            assert.strictEqual(signIn.status, 200)
            const form = { "content-type": "application/x-www-form-urlencoded", origin: "https://host.test" }
            const signedIn = yield* through(`${BASE}/sign-in`, {
              method: "POST",
              body: `code=${Redacted.value(code)}&next=%2Fkeys`,
              headers: form
            })
            assert.deepStrictEqual([signedIn.status, signedIn.headers.location], [303, `${BASE}/keys`])
            const [set = ""] = signedIn.headers["set-cookie"] ?? []
            assert.match(
              set,
              /^__Secure-slipway_session=[0-9A-Za-z]{43}; Max-Age=\d+; Path=\/tools\/slipway; (?=.*HttpOnly)(?=.*Secure)(?=.*SameSite=Lax)/u
            )
            const [cookie = ""] = set.split(";")
            const home = yield* through(`${BASE}/`, { headers: { accept: "text/html", cookie } })
            assert.deepStrictEqual([home.status, home.headers.location], [303, `${BASE}/sandboxes`])
            for (const page of ["/keys", "/settings", "/sandboxes", "/pulls", "/new", "/webhooks", "/grant"]) {
              const reply = yield* through(BASE + page, { headers: { cookie } })
              assert.strictEqual(reply.status, 200, page)
              assert.include(reply.text, `<html data-base="${BASE}" lang="en">`)
              const own = links(reply.text).filter((address) => !address.startsWith("#"))
              assert.isAbove(own.length, 5)
              for (const address of own) {
                assert.isTrue(address.startsWith(`${BASE}/`) && !address.startsWith(`${BASE}${BASE}`), `${page}: ${address}`)
              }
              const head = yield* through(BASE + page, { method: "HEAD", headers: { cookie } })
              assert.strictEqual(head.headers["content-length"], String(Buffer.byteLength(reply.text)))
            }
            assert.strictEqual((yield* through(BASE + addressOf("style.css"))).status, 200)
            const [, csrf = ""] = /name="csrf" value="([^"]+)"/u.exec((yield* through(`${BASE}/keys`, { headers: { cookie } })).text) ?? []
            const out = yield* through(`${BASE}/sign-out`, { method: "POST", body: `csrf=${csrf}`, headers: { ...form, cookie } })
            assert.deepStrictEqual([out.status, out.headers.location], [303, `${BASE}/sign-in`])
            assert.match(String(out.headers["set-cookie"]), /^__Secure-slipway_session=; Max-Age=0; (?=.*Path=\/tools\/slipway)/u)
          }))
      }
    )
  }
})
