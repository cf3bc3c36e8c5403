import { assert, describe, it } from "@effect/vitest"
import * as ProcessEnvironment from "@slipway/machine/box/ProcessEnvironment"
import * as Egress from "@slipway/machine/egress/Egress"
import { dirname } from "node:path"

const box = { path: "/usr/bin:/bin", home: "/home/agent", scratch: "/tmp", hasWayOut: true }
const programs = { id: "id", image: null, isRefused: false }
const node = dirname(process.execPath)
const everywhere = (value: string) =>
  Object.fromEntries(
    [...Object.keys({ ...Egress.runtimes, ...Egress.environment }), "PATH", "HOME", "TMPDIR", "LANG", "TERM", "SLIPWAY_ARTIFACTS", "OWN"]
      .map(
        (name) => [name, value]
      )
  )

describe("the environment of a process in a box", () => {
  const fixed = { HOME: "/home/agent", TMPDIR: "/tmp", LANG: "C.UTF-8", TERM: "dumb", SLIPWAY_ARTIFACTS: "/home/agent/artifacts" }
  const PATH = `/usr/bin:/bin:${node}`

  it.each([
    { name: "has the box's values alone", given: { env: {} }, hasWayOut: false, expected: { ...fixed, PATH } },
    {
      name: "has the proxy where the box has egress",
      given: { env: {} },
      hasWayOut: true,
      expected: { ...Egress.runtimes, ...Egress.environment, ...fixed, PATH }
    },
    {
      name: "finds the programs' folders first and Node's last",
      given: { env: {}, programs: { ...programs, path: ["/opt/a", "/opt/b"], env: {} } },
      hasWayOut: false,
      expected: { ...fixed, PATH: `/opt/a:/opt/b:${PATH}` }
    },
    {
      name: "has the programs' variables, except those that the box sets",
      given: { env: {}, programs: { ...programs, path: [], env: everywhere("programs") } },
      hasWayOut: true,
      expected: { ...everywhere("programs"), ...Egress.environment, ...fixed, PATH }
    },
    {
      name: "has the command's variables over the programs', except those that the box sets",
      given: { env: everywhere("command"), programs: { ...programs, path: [], env: everywhere("programs") } },
      hasWayOut: true,
      expected: { ...everywhere("command"), ...Egress.environment, ...fixed, PATH }
    },
    {
      name: "lets the command set proxy variables where the box has no egress",
      given: { env: everywhere("command") },
      hasWayOut: false,
      expected: { ...everywhere("command"), ...fixed, PATH }
    }
  ])("$name", ({ expected, given, hasWayOut }) => {
    assert.deepStrictEqual(ProcessEnvironment.of(given, { ...box, hasWayOut }), expected)
  })
})
