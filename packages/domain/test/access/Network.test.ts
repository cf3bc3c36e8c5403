import { assert, it } from "@effect/vitest"
import { networkOf } from "../../src/access/rules/Network.ts"

it.each([
  ["198.51.100.1", "198.51.100.1"],
  ["", ""],
  ["2001:db8:1:2::1", "2001:db8:1:2::/64"],
  ["2001:db8:1:2:ffff::", "2001:db8:1:2::/64"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
  ["2001:db8:1:3::1", "2001:db8:1:3::/64"],
  ["2001:db8::2:3:4:5", "2001:db8:0:0::/64"],
  ["2001::3:4:5:6:7:8", "2001:0:3:4::/64"],
  ["::2:3:4:5:6:7:8", "0:2:3:4::/64"],
  ["::1", "0:0:0:0::/64"],
  ["1::", "1:0:0:0::/64"]
])("a client of address %s counts for limits with those of %s", (address, network) => {
  assert.strictEqual(networkOf(address), network)
})
