/** The command in a network whose proxy alone knows the outside, and whose certificates come from a private authority. */
import { assert, describe, it } from "@effect/vitest"
import * as CompanyNetwork from "@slipway/machine/testing/CompanyNetwork"
import { Effect } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import { generateKeyPairSync } from "node:crypto"
import { mkdirSync, writeFileSync } from "node:fs"
import type { RequestListener } from "node:http"
import path from "node:path"
import type { Finding } from "../../../src/commands/setup/Doctor.ts"
import { folder, repository, runIn, serve, until } from "../SlipwayProcess.ts"

const LONG = 300_000
const { CANARY } = CompanyNetwork
const absent = spawnSync("bwrap", ["--version"]).status === 0 ? undefined : "needs bubblewrap: apt-get install bubblewrap"

/** No text has the proxy's password, in any form. */
const hides = (...texts: ReadonlyArray<string>) => {
  const basic = Buffer.from(`slipway:${CANARY}`).toString("base64")
  for (const text of texts) for (const form of [CANARY, encodeURIComponent(CANARY), basic]) assert.notInclude(text, form)
}

const settingsOf = ({ authority, proxy }: CompanyNetwork.CompanyNetwork) => ({
  https_proxy: proxy,
  HTTP_PROXY: proxy,
  SLIPWAY_CA_FILE: authority.file
})

const nothing: RequestListener = (request, response) => {
  request.resume()
  response.writeHead(404, { "content-type": "application/json" }).end("{}")
}

/** Settings that name a source host, a provider of sign-in, a bucket and a collector, all of the outside. */
const everything = Effect.fnUntraced(function*(network: CompanyNetwork.CompanyNetwork) {
  for (const name of ["github", "oidc", "s3", "otel"]) yield* network.https(`${name}.outside.test`, nothing)
  const data = yield* folder
  const file = (name: string, content: string) => {
    const at = path.join(data, name)
    writeFileSync(at, content, { mode: 0o600 })
    return at
  }
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 })
  return {
    data,
    settings: {
      ...settingsOf(network),
      SLIPWAY_GITHUB_APP_ID: "1",
      SLIPWAY_GITHUB_PRIVATE_KEY_FILE: file("app.pem", privateKey.export({ format: "pem", type: "pkcs8" }).toString()),
      SLIPWAY_GITHUB_API_URL: "https://github.outside.test/api/v3",
      SLIPWAY_OIDC_ISSUER: "https://oidc.outside.test",
      SLIPWAY_OIDC_CLIENT_ID: "slipway",
      SLIPWAY_OIDC_CLIENT_SECRET_FILE: file("client-secret", "secret-of-the-client"),
      SLIPWAY_BLOBS: "s3://bucket/files?endpoint=https://s3.outside.test&region=us-east-1",
      AWS_ACCESS_KEY_ID: "AKIAEXAMPLE",
      AWS_SECRET_ACCESS_KEY: "secret-of-the-bucket",
      OTEL_EXPORTER_OTLP_ENDPOINT: "https://otel.outside.test"
    }
  }
})

describe("slipway in a company's network", () => {
  it.live(
    "asks the source host, sign-in and the bucket through the proxy, which the doctor names without its password",
    () =>
      Effect.gen(function*() {
        const network = yield* CompanyNetwork.start
        const { data, settings } = yield* everything(network)
        const { stderr, stdout } = yield* runIn(data, ["doctor", "--json"], settings)
        const findings: ReadonlyArray<Finding> = JSON.parse(stdout)
        const found = (what: string) => findings.filter((finding) => finding.what === what)
        assert.deepStrictEqual(found("proxy"), [{
          what: "proxy",
          state: "ok",
          detail: `http://${network.proxyHost}, with a user, connects to github.outside.test`
        }])
        for (const name of ["github", "oidc", "s3"]) assert.include(network.asked, `CONNECT ${name}.outside.test:443`)
        // They answered: the certificate was trusted.
        assert.match(found("source host")[0]?.detail ?? "", /404|not found|App/u)
        hides(stdout, stderr)
      }).pipe(Effect.scoped),
    LONG
  )

  it.live("says what is wrong with the proxy", () =>
    Effect.gen(function*() {
      const network = yield* CompanyNetwork.start
      const { data, settings } = yield* everything(network)
      network.behave(407)
      const { code, stderr, stdout } = yield* runIn(data, ["doctor", "--json"], settings)
      assert.strictEqual(code, 1)
      const findings: ReadonlyArray<Finding> = JSON.parse(stdout)
      assert.deepStrictEqual(findings.find(({ what }) => what === "proxy"), {
        what: "proxy",
        state: "missing",
        detail: `The proxy http://${network.proxyHost} refuses the user and the password of its variable, or lacks them (status 407). ` +
          "Check HTTPS_PROXY, HTTP_PROXY and NO_PROXY (docs/operating/networks.md)"
      })
      hides(stdout, stderr)
    }).pipe(Effect.scoped), LONG)

  it.live(
    "starts with neither a variable that is no proxy nor a file that has no certificate, and says so in one line",
    () =>
      Effect.gen(function*() {
        const data = yield* folder
        const proxy = yield* runIn(data, ["doctor"], { HTTPS_PROXY: `socks5://slipway:${encodeURIComponent(CANARY)}@proxy:1080` })
        assert.strictEqual(proxy.code, 1)
        assert.match(proxy.stderr, /^slipway: HTTPS_PROXY must be the address of an HTTP proxy, such as .*\n$/u)
        hides(proxy.stderr, proxy.stdout)
        const authorities = yield* runIn(data, ["doctor"], { SLIPWAY_CA_FILE: "/etc/passwd" })
        assert.strictEqual(authorities.code, 1)
        assert.match(authorities.stderr, /^slipway: SLIPWAY_CA_FILE must be .*, but \/etc\/passwd has no certificate\.\n$/u)
      }).pipe(Effect.scoped),
    LONG
  )

  it.live("reaches a service with a certificate of the private authority, directly where NO_PROXY names it", () =>
    Effect.gen(function*() {
      const network = yield* CompanyNetwork.start
      const data = yield* folder
      yield* network.https("slipway.outside.test", nothing)
      const ps = (settings: Readonly<Record<string, string>>) =>
        runIn(data, ["ps", "--url", "https://slipway.outside.test"], {
          SLIPWAY_API_KEY: "sbx_live_x",
          https_proxy: network.proxy,
          ...settings
        })
      const trusted = yield* ps({ SLIPWAY_CA_FILE: network.authority.file })
      assert.deepStrictEqual([...new Set(network.asked)], ["CONNECT slipway.outside.test:443"])
      assert.match(trusted.stderr, /404|not a Slipway|does not answer as/iu)
      const untrusted = yield* ps({})
      assert.strictEqual(
        untrusted.stderr,
        "slipway: the certificate of https://slipway.outside.test is not trusted (UNABLE_TO_VERIFY_LEAF_SIGNATURE). " +
          "Name the file of your certificate authority in SLIPWAY_CA_FILE.\n"
      )
      const asked = network.asked.length
      const direct = yield* ps({ SLIPWAY_CA_FILE: network.authority.file, NO_PROXY: "outside.test" })
      assert.match(direct.stderr, /nothing answers/u)
      assert.strictEqual(network.asked.length, asked)
      network.behave(502)
      const refused = yield* ps({ SLIPWAY_CA_FILE: network.authority.file })
      assert.strictEqual(
        refused.stderr,
        `slipway: https://slipway.outside.test is not reached. The proxy http://${network.proxyHost} does not reach the destination ` +
          "(status 502).\n"
      )
      hides(trusted.stderr, untrusted.stderr, direct.stderr, refused.stderr)
    }).pipe(Effect.scoped), LONG)

  it.live("sends traces through the proxy, and the service says which proxy it uses", () =>
    Effect.gen(function*() {
      const network = yield* CompanyNetwork.start
      const data = yield* folder
      yield* network.https("otel.outside.test", (request, response) => {
        request.resume()
        response.end("{}")
      })
      const server = yield* serve(data, {
        ...settingsOf(network),
        SLIPWAY_ISOLATION: "none",
        OTEL_EXPORTER_OTLP_ENDPOINT: "https://otel.outside.test"
      })
      yield* Effect.promise(() => fetch(`${server.url}/api/v1/models`, { headers: { authorization: `Bearer ${server.key}` } }))
      yield* until(Effect.sync(() => network.asked), (asked) => asked.includes("CONNECT otel.outside.test:443"))
      assert.include(server.logs(), `http://${network.proxyHost}`)
      hides(server.output(), server.logs())
      yield* server.stop("SIGTERM")
    }).pipe(Effect.scoped), LONG)

  it.live.skipIf(absent !== undefined)(
    `lets a box reach an allowed name through both proxies and hides the company's from it${absent === undefined ? "" : ` (${absent})`}`,
    () =>
      Effect.gen(function*() {
        const network = yield* CompanyNetwork.start
        const data = yield* folder
        yield* network.https("mirror.outside.test", (_, response) => void response.end("from the mirror\n"))
        const at = repository(data)
        mkdirSync(path.join(at, ".slipway"))
        const url = "https://mirror.outside.test/"
        writeFileSync(
          path.join(at, ".slipway/environment.json"),
          JSON.stringify({
            setup: [
              "env | sort",
              "cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'",
              `${process.execPath} -e 'fetch("${url}").then((a) => a.text()).then((t) => console.log("node " + t))'`,
              `curl -sS ${url} | sed 's/^/curl /'`,
              `git ls-remote ${url} 2>&1 | sed 's/^/git /' | head -1; touch "$SSL_CERT_FILE" 2>&1 | sed 's/^/touch /'`
            ],
            egress: ["mirror.outside.test:443"]
          })
        )
        const git = (...args: ReadonlyArray<string>) =>
          execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=ada@shop.invalid", ...args], { cwd: at })
        git("add", "--all")
        git("commit", "--quiet", "--message", "Say what sandboxes need")
        const { code, stderr, stdout } = yield* runIn(data, ["env", "run", at], {
          ...settingsOf(network),
          SLIPWAY_EGRESS_ALLOW: "mirror.outside.test:443"
        })
        assert.strictEqual(code, 0, stdout + stderr)
        assert.include(stdout, "node from the mirror")
        assert.include(stdout, "curl from the mirror")
        assert.match(stdout, /git fatal: .*mirror\.outside\.test/u)
        assert.notMatch(stdout, /git .*certificate/u)
        assert.match(stdout, /touch .*(?:Read-only|Permission denied)/u)
        assert.include(network.asked, "CONNECT mirror.outside.test:443")
        assert.notInclude(stdout, network.proxyHost)
        hides(stdout, stderr)
      }).pipe(Effect.scoped),
    LONG
  )
})
