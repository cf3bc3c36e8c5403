import { assert, it } from "@effect/vitest"
import { nearest } from "../../src/text/EditDistance.ts"

it.each([
  ["a swapped pair", "prot", "port"],
  ["a missing letter", "pot", "port"],
  ["an extra letter", "poort", "port"],
  ["another letter", "pork", "port"],
  ["two missing letters", "pt", "port"],
  ["two extra letters", "poorrt", "port"],
  ["an extra letter and another one", "aacad", "abcd"],
  ["two letters before it", "xyport", "port"],
  ["two letters after it", "portxy", "port"],
  ["two swapped pairs", "badc", "abcd"],
  ["nothing, and two letters are missing", "", "ab"],
  ["two errors in a short name", "abxy", "abcd"],
  ["three errors in a name of 12 letters", "abcdefghixyz", "abcdefghijkl"],
  ["a swapped pair beside another letter", "abdcexgh", "abcdefgh"]
])("suggests a name for %s", (_, given, meant) => {
  assert.strictEqual(nearest(given, [meant]), meant)
})

it.each([
  ["three errors in a short name", "axyz", "abcd"],
  ["three missing letters", "p", "port"],
  ["three extra letters", "poxyrzt", "port"],
  ["three swapped pairs", "badcfe", "abcdef"],
  ["a letter that moved forward, whose neighbour did not move back", "xaq", "ayz"],
  ["a letter that moved back, whose neighbour did not move forward", "axq", "yaz"],
  ["three errors in a name of 11 letters", "abcdefghxyz", "abcdefghijk"],
  ["four errors in a name of 12 letters", "abcdefghwxyz", "abcdefghijkl"],
  ["letters moved further than to the next place", "cdab", "abcdef"],
  ["an empty name", "", "abc"]
])("suggests nothing for %s", (_, given, name) => {
  assert.isNull(nearest(given, [name]))
})

it("suggests the nearest name, of equally near ones the first", () => {
  assert.strictEqual(nearest("host", ["most", "hosts", "host"]), "host")
  assert.strictEqual(nearest("host", ["ghosts", "most", "hosts"]), "most")
  assert.strictEqual(nearest("prot", ["parrot", "port"]), "port")
  assert.isNull(nearest("host", []))
})
