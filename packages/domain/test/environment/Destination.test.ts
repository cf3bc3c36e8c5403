import { assert, describe, it } from "@effect/vitest"
import { destination } from "@slipway/domain/environment/rules/Destination"

const longest = `${"a".repeat(63)}.${"b".repeat(63)}.${"c".repeat(63)}.${"d".repeat(61)}`

describe("a destination", () => {
  it.each<readonly [text: string, host: string, port: number]>([
    ["registry.npmjs.org:443", "registry.npmjs.org", 443],
    ["PyPI.org:80", "pypi.org", 80],
    ["a:1", "a", 1],
    ["a0x.a0x:443", "a0x.a0x", 443],
    ["a.0xb.c:443", "a.0xb.c", 443],
    ["1.2a:65535", "1.2a", 65_535],
    ["a-b.c-0:00443", "a-b.c-0", 443],
    [`${longest}:443`, longest, 443]
  ])("is a name and a port: %s", (text, host, port) => assert.deepStrictEqual(destination(text), { host, port }))

  it.each([
    "",
    ":443",
    "a",
    "a:",
    "a:0",
    "a:65536",
    "a:000443",
    "a:443/",
    " a:443",
    "a:b:443",
    "a b:443",
    "a_b:443",
    "-a:443",
    "a-:443",
    "a..b:443",
    "a.:443",
    "*.a:443",
    "10.0.0.1:443",
    "127.1:443",
    "0x7f.1:443",
    "1.0x7f:443",
    "[::1]:443",
    `${"a".repeat(64)}:443`,
    `${longest}d:443`
  ])("is not %j", (text) => assert.isUndefined(destination(text)))
})
