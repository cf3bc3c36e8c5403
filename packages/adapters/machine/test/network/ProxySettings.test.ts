import { assert, describe, it } from "@effect/vitest"
import { addressOf, authorization, InvalidProxy, parse, proxyFor, secretsOf, shown, variables } from "../../src/network/ProxySettings.ts"

const HTTPS = "http://proxy.example:3128"
const HTTP = "http://plain.example:8080"

/** The proxy for the address, by its host; `null`: it is reached directly. */
const chosen = (url: string, noProxy = "", more: Readonly<Record<string, string>> = {}) =>
  proxyFor(parse({ HTTPS_PROXY: HTTPS, HTTP_PROXY: HTTP, NO_PROXY: noProxy, ...more }), new URL(url))?.host ?? null

describe("the proxy of a request", () => {
  it("depends on the scheme of the address", () => {
    assert.strictEqual(chosen("https://api.example"), "proxy.example:3128")
    assert.strictEqual(chosen("http://api.example"), "plain.example:8080")
    assert.strictEqual(proxyFor(parse({ HTTP_PROXY: HTTP }), new URL("https://api.example")), undefined)
    assert.strictEqual(proxyFor(parse({}), new URL("https://api.example")), undefined)
  })

  it("is that of the lower case where both are set, and an empty variable is not set", () => {
    assert.strictEqual(chosen("https://api.example", "", { https_proxy: "http://lower.example:1" }), "lower.example:1")
    assert.strictEqual(chosen("https://api.example", "", { https_proxy: " " }), "proxy.example:3128")
    assert.strictEqual(chosen("https://api.example", "api.example", { no_proxy: "other.example" }), "proxy.example:3128")
    assert.strictEqual(chosen("https://api.example", "other.example", { no_proxy: "api.example" }), null)
  })

  it("is not used for this machine and for the metadata of clouds, also if nothing says so", () => {
    const direct = ["localhost", "a.localhost", "127.0.0.1", "127.8.8.8", "[::1]", "169.254.169.254", "169.254.170.2", "[fe80::1]",
      "[fd00:ec2::254]", "metadata.google.internal"]
    for (const host of direct) {
      assert.strictEqual(chosen(`http://${host}/`), null, host)
      assert.strictEqual(chosen(`https://${host}/`), null, host)
    }
    assert.notStrictEqual(chosen("http://localhost.example"), null)
    assert.notStrictEqual(chosen("http://10.0.0.1"), null)
  })

  it("is not used for names of NO_PROXY and all below them", () => {
    for (const entry of ["corp.example", ".corp.example", "*.corp.example", "CORP.example", "other, corp.example", "other corp.example"]) {
      for (const host of ["corp.example", "git.corp.example", "git.corp.example.", "GIT.corp.example"]) {
        assert.strictEqual(chosen(`https://${host}`, entry), null, `${entry} ${host}`)
      }
      for (const host of ["notcorp.example", "corp.example.evil"]) {
        assert.strictEqual(chosen(`https://${host}`, entry), "proxy.example:3128", `${entry} ${host}`)
      }
    }
    assert.strictEqual(chosen("https://anything.example", "*"), null)
    assert.notStrictEqual(chosen("https://anything.example", "."), null)
  })

  it("is not used for addresses and networks of NO_PROXY", () => {
    assert.strictEqual(chosen("https://10.1.2.3", "10.0.0.0/8"), null)
    assert.notStrictEqual(chosen("https://11.1.2.3", "10.0.0.0/8"), null)
    assert.strictEqual(chosen("https://10.1.2.3", "10.1.2.3"), null)
    assert.notStrictEqual(chosen("https://10.1.2.30", "10.1.2.3"), null)
    assert.strictEqual(chosen("https://[2001:db8::5]", "2001:db8::/32"), null)
    assert.strictEqual(chosen("https://[2001:db8::5]", "[2001:db8::5]"), null)
    assert.notStrictEqual(chosen("https://[2001:db9::5]", "2001:db8::/32"), null)
    assert.notStrictEqual(chosen("https://10.1.2.3", "10.0.0.0/99"), null)
    // A name is not resolved for this.
    assert.notStrictEqual(chosen("https://ten.example", "10.0.0.0/8"), null)
  })

  it("is not used for a port of NO_PROXY, but for other ports of that name", () => {
    assert.strictEqual(chosen("https://git.example", "git.example:443"), null)
    assert.notStrictEqual(chosen("https://git.example:8443", "git.example:443"), null)
    assert.strictEqual(chosen("https://git.example:8443", "git.example:8443"), null)
    assert.strictEqual(chosen("https://[2001:db8::5]:8443", "[2001:db8::5]:8443"), null)
  })
})

describe("the address of a proxy", () => {
  it("has a host, and may have a user, a password and no scheme", () => {
    assert.strictEqual(addressOf("proxy.example:3128")?.href, "http://proxy.example:3128/")
    assert.strictEqual(addressOf("https://proxy.example")?.href, "https://proxy.example/")
    assert.strictEqual(authorization(new URL("http://anna:a%40b%3Ac@proxy.example")), `Basic ${btoa("anna:a@b:c")}`)
    assert.strictEqual(authorization(new URL("http://proxy.example")), undefined)
  })

  it("is refused by the name of its variable, without its value", () => {
    const texts = ["socks5://canary:canary@proxy:1080", "http://", "http://proxy.example/canary", "http://proxy.example/?canary", "::::",
      "http://canary%zz@proxy.example", `http://${"canary".repeat(500)}`]
    for (const text of texts) {
      assert.strictEqual(addressOf(text), null, text)
      for (const name of ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"]) {
        try {
          parse({ [name]: text })
          assert.fail(`${name}=${text} was taken`)
        } catch (error) {
          assert.instanceOf(error, InvalidProxy)
          assert.include(error.message, `${name} must be the address of an HTTP proxy`)
          assert.notInclude(error.message, "canary")
        }
      }
    }
  })

  it("is shown without its user and password, which count as secrets in every form", () => {
    const settings = parse({ HTTPS_PROXY: "http://anna:a%40canary@proxy.example:3128" })
    assert.strictEqual(settings.https === undefined ? "" : shown(settings.https), "http://proxy.example:3128")
    assert.deepStrictEqual(secretsOf(settings), ["a%40canary", "a@canary", btoa("anna:a@canary")])
    assert.deepStrictEqual(secretsOf(parse({ HTTPS_PROXY: HTTPS })), [])
  })
})

describe("the variables of child processes", () => {
  it("are the same in both cases, and keep the metadata of clouds away from the proxy", () => {
    const given = variables(parse({ https_proxy: "proxy.example:3128", HTTPS_PROXY: "other.example", NO_PROXY: "corp.example" }))
    assert.deepStrictEqual(Object.keys(given).toSorted(), ["HTTPS_PROXY", "NO_PROXY", "https_proxy", "no_proxy"])
    assert.strictEqual(given["HTTPS_PROXY"], "http://proxy.example:3128/")
    assert.strictEqual(given["https_proxy"], given["HTTPS_PROXY"])
    assert.include(given["NO_PROXY"], "corp.example,localhost,127.0.0.1,::1,169.254.169.254")
  })

  it("are absent without a proxy", () => {
    assert.deepStrictEqual(variables(parse({ NO_PROXY: "corp.example" })), {})
  })
})
