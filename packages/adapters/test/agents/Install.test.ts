import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { writeFile } from "node:fs/promises"
import path from "node:path"
import { profiles } from "@slipway/adapters/agents/AgentRuntimeProfiles"
import * as Install from "@slipway/adapters/agents/Install"
import type { Program } from "@slipway/adapters/agents/Profile"
import { temporaryFolder } from "../hosts/Machine.ts"

const program: Program = {
  package: "fake-agent",
  version: "1.2.3",
  installScript: true,
  binaries: () => ["fake-agent/bin/fake"],
  license: "none"
}

/** Does what npm would do: the package at `install`, its program at `rebuild`. */
const working = `
echo "$@" >> "$PWD/calls"
[ "$1" = install ] && mkdir -p node_modules/fake-agent/bin && echo '{"version":"1.2.3"}' > node_modules/fake-agent/package.json
[ "$1" = rebuild ] && printf '#!/bin/sh\\necho fake 1.2.3\\n' > node_modules/fake-agent/bin/fake && chmod +x node_modules/fake-agent/bin/fake
[ -n "$GROK_HOME" ] && mkdir -p "$GROK_HOME" && touch "$GROK_HOME/left"
exit 0`

/** Installs with `npm` on the path, which may be none. */
const install = (npm: string | null, folder: string, chosen: Program = program) =>
  Effect.gen(function*() {
    const { codex } = profiles
    if (codex === undefined) return assert.fail("no codex")
    const bin = yield* temporaryFolder
    if (npm !== null) yield* Effect.promise(() => writeFile(path.join(bin, "npm"), `#!/bin/sh\n${npm}`, { mode: 0o755 }))
    const before = process.env.PATH
    process.env.PATH = npm === null ? bin : `${bin}:/usr/bin:/bin`
    const steps: Array<string> = []
    yield* Install.install({
      folder,
      agents: [{ name: "fake", profile: { ...codex, program: chosen }, program: chosen }],
      progress: (step) => Effect.sync(() => steps.push(step))
    }).pipe(Effect.ensuring(Effect.sync(() => (process.env.PATH = before))))
    return steps
  })

describe("Install", () => {
  it.live("fetches the pinned version, runs its script where it must, and leaves nothing else", () =>
    Effect.gen(function*() {
      const folder = path.join(yield* temporaryFolder, "agents")
      const steps = yield* install(working, folder)
      assert.deepStrictEqual(steps.at(-1), "fake 1.2.3 is ready")
      const calls = readFileSync(path.join(folder, "calls"), "utf8").trimEnd().split("\n")
      assert.deepStrictEqual(calls, [
        "install --save-exact --no-audit --no-fund --ignore-scripts fake-agent@1.2.3",
        "rebuild --foreground-scripts fake-agent"
      ])
      assert.deepStrictEqual(readdirSync(folder).sort(), ["calls", "node_modules", "package.json"])
    })
  )

  it.live("does nothing when it is there, and goes on when it is there in part", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const calls = () => readFileSync(path.join(folder, "calls"), "utf8").trimEnd().split("\n").length
      yield* Effect.result(install(working.replace(`[ "$1" = rebuild ]`, "false"), folder))
      assert.strictEqual(calls(), 2)
      assert.isFalse(existsSync(path.join(folder, "node_modules/fake-agent/bin/fake")))
      yield* install(working, folder)
      assert.strictEqual(calls(), 4)
      assert.deepStrictEqual(yield* install(working, folder), ["fake 1.2.3 is there"])
      assert.strictEqual(calls(), 4)
    })
  )

  it.live.each([
    { what: "there is no npm", npm: null, says: "npm was not found" },
    { what: "there is no network", npm: "echo 'npm error code ENOTFOUND' >&2; exit 1", says: "registry cannot be reached" },
    { what: "npm fails", npm: "echo 'npm error No space left' >&2; exit 1", says: "npm install failed: No space left" },
    { what: "the program does not start", npm: working.replace("echo fake 1.2.3", "exit 127"), says: "does not work here" },
    { what: "the program is another one", npm: working.replace("fake 1.2.3", "fake 9.9.9"), says: "does not work here" }
  ])("says so when $what", ({ npm, says }) =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(install(npm, yield* temporaryFolder))
      assert.strictEqual(error._tag, "InstallFailed")
      assert.include(error.message, says)
    })
  )
})
