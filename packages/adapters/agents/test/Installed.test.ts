import { assert, describe, it } from "@effect/vitest"
import { temporaryFolder } from "@slipway/machine/testing/hosts/Machine"
import { Effect } from "effect"
import { chmod, mkdir, writeFile } from "node:fs/promises"
import path from "node:path"
import * as Installed from "../src/Installed.ts"
import type { Platform, Profile } from "../src/Profile.ts"
import { profiles } from "../src/profiles/AgentRuntimeProfiles.ts"

const here: Platform = { os: "linux", arch: "x64", avx2: true }

const put = (folder: string, file: string, content: string, mode = 0o644) =>
  Effect.promise(async () => {
    const target = path.join(folder, "node_modules", file)
    await mkdir(path.dirname(target), { recursive: true })
    await writeFile(target, content)
    await chmod(target, mode)
  })

const programs = Object.entries(profiles).flatMap(([name, profile]) =>
  profile.program === null ? [] : [{ name, profile, program: profile.program }]
)

const unusable = (name: string, profile: Profile, folder: string | null, platform = here) =>
  Effect.map(Installed.inspect(name, profile, folder, platform), (found) => found.state === "unusable" ? found : assert.fail("usable"))

describe("Installed", () => {
  it.live("says of each agent that is not there which command helps", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      for (const { name, profile } of programs) {
        for (const where of [folder, path.join(folder, "not-there"), null]) {
          const { reason, version } = yield* unusable(name, profile, where)
          assert.strictEqual(reason, `${name} is not installed. Run: slipway agents install ${name}`)
          assert.isNull(version)
        }
      }
    }))

  it.live("wants the version that was tried, and names both", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      for (const { name, profile, program } of programs) {
        yield* put(folder, `${program.package}/package.json`, `{"version":"0.0.1"}`)
        const { reason, version } = yield* unusable(name, profile, folder)
        assert.strictEqual(version, "0.0.1")
        assert.include(reason, program.version)
        assert.include(reason, "slipway agents install")
      }
    }))

  it.live("wants a program that can be started", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      for (const { name, profile, program } of programs) {
        yield* put(folder, `${program.package}/package.json`, JSON.stringify({ version: program.version }))
        assert.include((yield* unusable(name, profile, folder)).reason, "without its program")
        const [binary = ""] = program.binaries(here)
        yield* put(folder, binary, "")
        assert.include((yield* unusable(name, profile, folder)).reason, "without its program")
        yield* put(folder, binary, "", 0o755)
        assert.deepStrictEqual(yield* Installed.inspect(name, profile, folder, here), {
          state: "ready",
          version: program.version,
          command: path.join(folder, "node_modules", binary)
        })
      }
    }))

  it.live("says that there is no build for this machine, and suggests no command", () =>
    Effect.gen(function*() {
      for (const { name, profile } of programs) {
        const { reason } = yield* unusable(name, profile, null, { os: "sunos", arch: "sparc", avx2: false })
        assert.strictEqual(reason, `${name} has no build for sunos on sparc.`)
      }
    }))

  it.live("has what is a part of Slipway", () =>
    Effect.gen(function*() {
      const { offline } = profiles
      assert.isDefined(offline)
      if (offline !== undefined) assert.strictEqual((yield* Installed.inspect("offline", offline, null)).state, "ready")
    }))

  it("pins every program exactly", () => {
    for (const { program } of programs) assert.match(program.version, /^\d+\.\d+\.\d+$/u)
  })
})
