import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { networkInterfaces } from "node:os"
import { isPublic } from "../../src/egress/Addresses.ts"
import * as AllowList from "../../src/egress/AllowList.ts"

describe("Addresses", () => {
  it.each([
    "0.0.0.0",
    "127.0.0.1",
    "127.255.255.255",
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "100.100.100.200",
    "169.254.169.254",
    "168.63.129.16",
    "192.0.0.192",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:8.8.8.8",
    "::ffff:7f00:1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::a00:1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "3fff::1",
    "100::1",
    "5f00::1",
    "0:0:0:0:0:ffff:a00:1",
    "2002:a00:1::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "fd00::1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "",
    "localhost",
    "8.8.8",
    "0x7f.1",
    "8.8.8.8.",
    " 8.8.8.8"
  ])("keeps %s from sandboxes", (address) => {
    assert.isFalse(isPublic(address))
  })

  it.each(["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "168.63.129.17", "2606:4700::1111", "2a00:1450:4001::1"])(
    "lets sandboxes reach %s",
    (address) => {
      assert.isTrue(isPublic(address))
    }
  )

  it("keeps the machine's own addresses from sandboxes", () => {
    for (const { address } of Object.values(networkInterfaces()).flatMap((all) => all ?? [])) assert.isFalse(isPublic(address), address)
  })
})

describe("AllowList", () => {
  it("reads names with ports, in any case, between commas", () => {
    assert.deepStrictEqual(
      AllowList.parse(" registry.npmjs.org:443,PyPI.org:443 ,"),
      Result.succeed(new Set(["registry.npmjs.org:443", "pypi.org:443"]))
    )
    assert.deepStrictEqual(AllowList.parse(""), Result.succeed(new Set<string>()))
  })

  it.each([
    "registry.npmjs.org",
    "registry.npmjs.org:0",
    "registry.npmjs.org:65536",
    "registry.npmjs.org:https",
    "*.npmjs.org:443",
    "https://npmjs.org:443",
    "127.0.0.1:80",
    "127.1:80",
    "2130706433:80",
    "0x7f000001:80",
    "0x7f.1:80",
    "[::1]:80",
    "a..b:80",
    "-a.b:80",
    "a.b.:80",
    "a b:80",
    "a.b:80/",
    ":80",
    "user@a.b:80"
  ])("takes %j for no destination", (entry) => {
    assert.deepStrictEqual(AllowList.parse(`good.example:443,${entry}`), Result.fail(entry))
  })
})
