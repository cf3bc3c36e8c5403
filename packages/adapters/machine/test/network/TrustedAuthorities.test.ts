import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { X509Certificate } from "node:crypto"
import { readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { rootCertificates } from "node:tls"
import * as ProcessEnvironment from "../../src/box/ProcessEnvironment.ts"
import * as TrustedAuthorities from "../../src/network/TrustedAuthorities.ts"
import { authority } from "../../testing/Authority.ts"
import * as CompanyNetwork from "../../testing/CompanyNetwork.ts"
import { temporaryFolder } from "../../testing/hosts/Machine.ts"

const asked = (url: string) => Effect.tryPromise(() => fetch(url).then((answer) => answer.text()))

describe("the operator's certificate authorities", () => {
  it.live("are trusted by this process, beside those of Node", () =>
    Effect.gen(function*() {
      const network = yield* CompanyNetwork.start
      yield* CompanyNetwork.withVariables({ HTTPS_PROXY: network.proxy })
      yield* CompanyNetwork.fetching
      yield* network.https("api.outside.test", (_, response) => void response.end("secure"))
      yield* Effect.flip(asked("https://api.outside.test/"))
      yield* CompanyNetwork.trusting(network.authority.file)
      assert.strictEqual(yield* asked("https://api.outside.test/"), "secure")
    }))

  it.live("are in one file with all others, which every user may read and which is made again", () =>
    Effect.gen(function*() {
      const { ca, file } = yield* authority("DNS:a.example")
      assert.isNull(TrustedAuthorities.bundle())
      yield* CompanyNetwork.trusting(file)
      const folder = join(yield* temporaryFolder, "authorities")
      TrustedAuthorities.keepIn(folder)
      const bundle = TrustedAuthorities.bundle() ?? assert.fail("there is no bundle")
      assert.strictEqual(bundle, join(folder, "ca-bundle.pem"))
      assert.strictEqual(statSync(bundle).mode & 0o777, 0o644)
      assert.strictEqual(statSync(folder).mode & 0o777, 0o755)
      const text = readFileSync(bundle, "utf8")
      const prints = (pems: ReadonlyArray<string>) => pems.map((pem) => new X509Certificate(pem).fingerprint256)
      assert.includeMembers(prints(TrustedAuthorities.read(bundle)), prints([ca, ...rootCertificates]))
      for (const change of [() => rmSync(bundle), () => writeFileSync(bundle, "earlier")]) {
        change()
        TrustedAuthorities.bundle()
        assert.strictEqual(readFileSync(bundle, "utf8"), text)
      }
    }))

  it.live("are refused with the problem of their file", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = join(folder, "ca.pem")
      const refused = (problem: RegExp) => assert.throws(() => TrustedAuthorities.read(file), problem)
      refused(/^SLIPWAY_CA_FILE must be a file of CA certificates in PEM, but .*ca\.pem cannot be read \(ENOENT/u)
      writeFileSync(file, "nothing")
      refused(/ca\.pem has no certificate\.$/u)
      const { ca } = yield* authority("DNS:a.example")
      writeFileSync(file, `${ca}\n-----BEGIN CERTIFICATE-----\nZGFtYWdlZA==\n-----END CERTIFICATE-----\n`)
      refused(/certificate 2 of .*ca\.pem is damaged\.$/u)
      writeFileSync(file, Buffer.alloc(4 * 2 ** 20 + 1))
      refused(/has more than 4194304 bytes/u)
      writeFileSync(file, `Subject: CN=Acme\n${ca}`)
      assert.deepStrictEqual(TrustedAuthorities.read(file), [ca.trim()])
    }))
})

describe("a box with the operator's certificate authorities", () => {
  const box = { path: "/usr/bin", home: "/home/agent", scratch: "/tmp", hasWayOut: true }

  it("names their file to its programs, and a repository may name another", () => {
    const environment = ProcessEnvironment.of({ env: { PIP_CERT: "/workspace/own.pem" } }, { ...box, authorities: "/data/ca-bundle.pem" })
    for (const name of ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"]) {
      assert.strictEqual(environment[name], "/data/ca-bundle.pem", name)
    }
    assert.strictEqual(environment["PIP_CERT"], "/workspace/own.pem")
    assert.notProperty(ProcessEnvironment.of({ env: {} }, box), "SSL_CERT_FILE")
  })
})
