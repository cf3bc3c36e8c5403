import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import { readdirSync } from "node:fs"
import path from "node:path"
import type { Finding } from "../../src/cli/Doctor.ts"
import { folder, processesOf, run } from "./SlipwayProcess.ts"

const LONG = 90_000

const absent = spawnSync("bwrap", ["--version"]).status === 0 ? undefined : "bubblewrap is not installed (apt-get install bubblewrap)"

const examined = Effect.fnUntraced(function*(settings: Record<string, string>) {
  const data = yield* folder
  const ended = yield* run(data, ["doctor", "--json"], settings)
  const findings: ReadonlyArray<Finding> = JSON.parse(ended.stdout)
  return { ...ended, data, found: new Map(findings.map((finding) => [finding.what, finding])) }
})

describe("slipway doctor", () => {
  it.live.skipIf(absent !== undefined)(`finds what agents need, starts nothing that stays, and ends with 0${absent === undefined ? "" : ` (${absent})`}`, () =>
    Effect.gen(function*() {
      const { code, data, found, stderr } = yield* examined({ SLIPWAY_EGRESS_ALLOW: "pypi.org:443" })
      assert.deepStrictEqual([code, stderr], [0, ""])
      for (const what of ["Node", "git", "Postgres", "isolation", "box: namespaces", "box: system calls", "box: network", "agent offline"]) {
        assert.strictEqual(found.get(what)?.state, "ok", what)
      }
      assert.include(found.get("box: way out")?.detail, "pypi.org:443")
      assert.deepInclude(found.get("agent codex"), { state: "note", detail: "codex is not installed. Run: slipway agents install codex" })
      assert.deepStrictEqual(readdirSync(path.join(data, "boxes")), ["filter.bpf"])
      assert.deepStrictEqual(yield* processesOf(data), [])
    }).pipe(Effect.scoped), LONG)

  it.live("ends with 1 and one line when something is missing that agents cannot do without", () =>
    Effect.gen(function*() {
      const { code, found, stderr } = yield* examined({ DATABASE_URL: "postgres://nobody@127.0.0.1:1/none", SLIPWAY_ISOLATION: "none" })
      assert.strictEqual(code, 1)
      assert.strictEqual(found.get("Postgres")?.state, "missing")
      assert.deepInclude(found.get("isolation"), { state: "note", detail: "SLIPWAY_ISOLATION is none: agents run as this user, kept in by nothing" })
      assert.match(stderr, /^slipway: agents cannot run here: Postgres\.[^\n]*\n$/u)
    }).pipe(Effect.scoped), LONG)
})
