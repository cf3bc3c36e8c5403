/** The service behind nginx and Caddy, as `deploy/` sets them up. Only names of files, ports and certificates are others. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { writeFileSync } from "node:fs"
import { createServer, request as plain, type Server as HttpServer } from "node:http"
import path from "node:path"
import { folder, freePort, repository, run, type Server, serve, until } from "../commands/SlipwayProcess.ts"
import { changed, has, text } from "./Deploy.ts"
import { asking, caddy, certify, launched, type Ports, upgrading } from "./Proxy.ts"

const LONG = 300_000
/** One more than refused keys of an address in a minute that are answered as such. */
const GUESSES = 61

const withoutNginx = !has("nginx", ["-v"])
const withoutCaddy = !has("caddy", ["version"])

/** How one of the files is run. */
interface Proxy {
  readonly name: string
  readonly isMissing: boolean
  readonly publicUrl: string
  /** Answers the command, after the files it needs are written to the folder. */
  readonly configure: (
    folder: string,
    ports: Ports & { readonly service: number }
  ) => readonly [program: string, ...args: ReadonlyArray<string>]
}

const nginx = (at: string, servers: string) => {
  writeFileSync(
    path.join(at, "nginx.conf"),
    `daemon off; worker_processes 1; pid ${at}/pid; error_log stderr; user root;
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path ${at}/body; proxy_temp_path ${at}/proxy; fastcgi_temp_path ${at}/f; uwsgi_temp_path ${at}/u; scgi_temp_path ${at}/s;
  ${servers}
}
`
  )
  return ["nginx", "-p", at, "-c", path.join(at, "nginx.conf")] as const
}

const proxies: ReadonlyArray<Proxy> = [{
  name: "nginx/slipway.conf",
  isMissing: withoutNginx,
  publicUrl: "https://slipway.example.com",
  configure: (at, { plain, secure, service }) =>
    nginx(
      at,
      changed(text("nginx/slipway.conf"), [
        ["listen 80;", `listen 127.0.0.1:${plain};`],
        ["listen [::]:80;", ""],
        ["listen 443", `listen 127.0.0.1:${secure}`],
        ["listen [::]:443 ssl http2;", ""],
        ["127.0.0.1:4000", `127.0.0.1:${service}`],
        ["/etc/ssl/slipway/fullchain.pem", `${at}/cert.pem`],
        ["/etc/ssl/slipway/privkey.pem", `${at}/key.pem`]
      ])
    )
}, {
  name: "nginx/slipway-path.conf",
  isMissing: withoutNginx,
  publicUrl: "https://tools.example.com/slipway",
  configure: (at, { secure, service }) =>
    nginx(
      at,
      [
        `server { listen 127.0.0.1:${secure} ssl; server_name tools.example.com;`,
        `ssl_certificate ${at}/cert.pem; ssl_certificate_key ${at}/key.pem;`,
        changed(text("nginx/slipway-path.conf"), [["127.0.0.1:4000", `127.0.0.1:${service}`]]),
        "}"
      ].join("\n")
    )
}, {
  name: "caddy/Caddyfile",
  isMissing: withoutCaddy,
  publicUrl: "https://slipway.example.com",
  configure: (at, ports) =>
    caddy(
      at,
      ports,
      changed(text("caddy/Caddyfile"), [
        ["{$SITE:slipway.example.com} {", `slipway.example.com {\n\ttls ${at}/cert.pem ${at}/key.pem`],
        ["127.0.0.1:4000", `127.0.0.1:${ports.service}`]
      ])
    )
}, {
  name: "caddy/slipway-path.caddy",
  isMissing: withoutCaddy,
  publicUrl: "https://tools.example.com/slipway",
  configure: (at, ports) =>
    caddy(
      at,
      ports,
      [
        `tools.example.com {`,
        `tls ${at}/cert.pem ${at}/key.pem`,
        changed(text("caddy/slipway-path.caddy"), [["127.0.0.1:4000", `127.0.0.1:${ports.service}`]]),
        "}\n"
      ].join("\n")
    )
}]

/** The answer to a client that came without TLS. */
const redirect = (port: number, host: string, path: string) =>
  new Promise<{ readonly status: number | undefined; readonly location: string | undefined }>((resolve, reject) => {
    const asked = plain({ host: "127.0.0.1", port, path, headers: { host } }, (response) => {
      response.resume()
      resolve({ status: response.statusCode, location: response.headers.location })
    })
    asked.on("error", reject)
    asked.end()
  })

/** A service with that public address, and the proxy in front of it. */
const behind = Effect.fnUntraced(function*({ configure, publicUrl }: Proxy) {
  const home = yield* folder
  const at = yield* folder
  yield* run(home, ["repos", "add", "acme/shop", repository(home)])
  const ports = { plain: yield* freePort, secure: yield* freePort, service: yield* freePort }
  certify(at, publicUrl)
  const server: Server = yield* serve(home, {
    SLIPWAY_PORT: `${ports.service}`,
    SLIPWAY_PUBLIC_URL: publicUrl,
    SLIPWAY_TRUSTED_PROXIES: "127.0.0.1"
  })
  yield* launched(at, configure(at, ports))
  const ask = asking(publicUrl, ports.secure)
  yield* until(ask("/healthz"), ({ status }) => status === 200)
  return { ask, key: server.key ?? "", ports }
})

describe("behind a proxy", () => {
  for (const proxy of proxies) {
    it.live.skipIf(proxy.isMissing)(
      `deploy/${proxy.name} passes on requests, streams and the address of the client (needs ${proxy.name.split("/")[0]})`,
      () =>
        Effect.gen(function*() {
          const { ask, key, ports } = yield* behind(proxy)
          const headers = { authorization: `Bearer ${key}` }
          const sandboxes = "/api/public/v1/sandboxes"

          const creation = JSON.stringify({ repos: [{ fullName: "acme/shop" }], prompt: "Hello" })
          const made = yield* ask(sandboxes, { headers, body: creation })
          assert.strictEqual(made.status, 201, made.body)
          const { id, links } = JSON.parse(made.body)
          assert.strictEqual(links.self, `${proxy.publicUrl}${sandboxes}/${id}`)

          // The stream stays open, so all of it comes before its end: the turn's end too, which is not there yet.
          const stream = yield* ask(`${sandboxes}/${id}/events/stream`, { headers, until: "turn.completed" })
          assert.strictEqual(stream.status, 200)
          assert.match(String(stream.headers["content-type"]), /^text\/event-stream/u)
          assert.isUndefined(stream.headers["content-encoding"])

          // A terminal is a WebSocket.
          const terminal = `${sandboxes}/${id}/terminal`
          const opened = yield* upgrading(proxy.publicUrl, ports.secure, headers)(terminal)
          assert.strictEqual(opened.status, 101)
          assert.match(opened.text, /"type":"(?:attached|refused)"/u)
          const closed = yield* ask(terminal, { headers })
          assert.deepStrictEqual([closed.status, JSON.parse(closed.body).error.code], [426, "upgrade_required"])

          // Slipway refuses what is too large, not the proxy: with its own body.
          const large = yield* ask(sandboxes, { headers, body: JSON.stringify({ prompt: "x".repeat(1_500_000) }) })
          assert.deepStrictEqual([large.status, JSON.parse(large.body).error.code], [413, "payload_too_large"])

          // Clients count apart, and each as where it comes from, whatever it writes into the header.
          const guess = (localAddress: string, n: number) =>
            ask(sandboxes, { localAddress, headers: { authorization: `Bearer sbx_live_${n}`, "x-forwarded-for": `198.51.100.${n}` } })
          const statuses = yield* Effect.forEach(Array.from({ length: GUESSES }, (_, n) => n), (n) => guess("127.0.0.2", n))
          assert.deepStrictEqual(statuses.map(({ status }) => status), [...Array.from({ length: GUESSES - 1 }, () => 401), 429])
          assert.strictEqual((yield* guess("127.0.0.3", 1)).status, 401)

          const page = yield* ask("/sign-in")
          assert.strictEqual(page.status, 200)
          assert.include(page.body, new URL(proxy.publicUrl).pathname === "/" ? "\"/" : "\"/slipway/")

          if (text(proxy.name).includes("listen 80") || proxy.name === "caddy/Caddyfile") {
            const { location, status } = yield* Effect.promise(() => redirect(ports.plain, "slipway.example.com", "/keys?a=b"))
            assert.deepStrictEqual([status, location?.replace(`:${ports.secure}`, "")], [308, "https://slipway.example.com/keys?a=b"])
          }
        }).pipe(Effect.scoped),
      LONG
    )
  }

  for (const [name, missing] of [["nginx/slipway-previews.conf", withoutNginx], ["caddy/slipway-previews.caddy", withoutCaddy]] as const) {
    it.live.skipIf(missing)(
      `deploy/${name} passes on hosts of previews and WebSockets (needs ${name.split("/")[0]})`,
      () =>
        Effect.gen(function*() {
          const at = yield* folder
          const host = "3000-abcdefgh2345.preview.example.com"
          const seen: Array<unknown> = []
          // In place of the service, so that all it gets is known.
          const server = yield* Effect.acquireRelease(
            Effect.callback<{ readonly made: HttpServer; readonly port: number }>((resume) => {
              const made = createServer(({ headers }, response) => {
                seen.push([headers.host, headers.connection, headers.upgrade])
                response.end("page")
              }).on("upgrade", ({ headers }, socket) => {
                seen.push([headers.host, headers.connection?.toLowerCase(), headers.upgrade])
                socket.end("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello")
              }).listen(0, "127.0.0.1", () => {
                const address = made.address()
                resume(Effect.succeed({ made, port: typeof address === "object" && address !== null ? address.port : 0 }))
              })
            }),
            ({ made }) => Effect.sync(() => made.close())
          )
          const ports = { plain: yield* freePort, secure: yield* freePort }
          const publicUrl = `https://${host}`
          certify(at, publicUrl)
          const own = changed(text(name), [
            ["127.0.0.1:4000", `127.0.0.1:${server.port}`],
            ["/etc/ssl/slipway-previews/fullchain.pem", `${at}/cert.pem`],
            ["/etc/ssl/slipway-previews/privkey.pem", `${at}/key.pem`]
          ])
          yield* launched(
            at,
            name.startsWith("caddy")
              ? caddy(at, ports, own)
              : nginx(at, changed(own, [["listen 443", `listen 127.0.0.1:${ports.secure}`], ["listen [::]:443 ssl http2;", ""]]))
          )
          const ask = asking(publicUrl, ports.secure)
          yield* until(ask("/"), ({ status }) => status === 200)
          const opened = yield* upgrading(publicUrl, ports.secure, {})("/hot-reload")
          assert.deepStrictEqual(opened, { status: 101, text: "hello" })
          assert.deepStrictEqual(seen.at(-1), [host, "upgrade", "websocket"])
          // A request without an upgrade asks for none.
          assert.deepStrictEqual(seen[0], [host, name.startsWith("nginx") ? undefined : "keep-alive", undefined])
        }).pipe(Effect.scoped),
      LONG
    )
  }
})
