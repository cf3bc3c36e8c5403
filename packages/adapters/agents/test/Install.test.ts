import { assert, describe, it } from "@effect/vitest"
import { temporaryFolder } from "@slipway/machine/testing/hosts/Machine"
import { Effect, Result } from "effect"
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { brotliCompressSync } from "node:zlib"
import * as Install from "../src/Install.ts"
import type { Program } from "../src/Profile.ts"
import { profiles } from "../src/profiles/AgentRuntimeProfiles.ts"

/** A tarball as npm packs it, of these files. */
const packed = (files: Readonly<Record<string, string>>) => {
  const folder = mkdtempSync(path.join(tmpdir(), "slipway-pack-"))
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(folder, "package", name)), { recursive: true })
    writeFileSync(path.join(folder, "package", name), content, { mode: 0o755 })
  }
  execFileSync("tar", ["-czf", path.join(folder, "it.tgz"), "-C", folder, "package"])
  const bytes = readFileSync(path.join(folder, "it.tgz"))
  rmSync(folder, { recursive: true })
  return { bytes, integrity: `sha512-${createHash("sha512").update(bytes).digest("base64")}` }
}

const wrapper = packed({ "package.json": `{"version":"1.2.3","scripts":{"postinstall":"touch ran"}}` })
const build = packed({ "bin/fake": "#!/bin/sh\necho fake 1.2.3\n" })

const program: Program = {
  package: "fake-agent",
  version: "1.2.3",
  pinnedOn: "2026-11-30",
  pins: () => [
    { spec: "fake-agent@1.2.3", folder: "fake-agent", integrity: wrapper.integrity },
    { spec: "fake-agent-here@1.2.3", folder: "fake-agent-here", integrity: build.integrity }
  ],
  binaries: () => ["fake-agent-here/bin/fake"],
  license: "none"
}

/** A registry that has these under the names of the pins. */
type Registry = Readonly<Record<string, Buffer>>
const honest: Registry = { "fake-agent@1.2.3": wrapper.bytes, "fake-agent-here@1.2.3": build.bytes }

/** The steps of npm, with that registry. */
const npmOf = (registry: Registry, at: string) => {
  for (const [spec, bytes] of Object.entries(registry)) writeFileSync(path.join(at, spec), bytes)
  return `echo "$1 $2" >> "${at}/calls"
for last; do :; done
cp "${at}/$2" "$last/$2.tgz"`
}

interface Given {
  /** A shell script; `null`: there is none on the path. */
  readonly npm?: string | null
  readonly registry?: Registry
  readonly program?: Program
}

/** Installs, and tells what was said, fetched and started. */
const install = (folder: string, { npm, program: chosen = program, registry = honest }: Given = {}) =>
  Effect.gen(function*() {
    const { codex } = profiles
    if (codex === undefined) return assert.fail("no codex")
    const bin = yield* temporaryFolder
    const script = npm === undefined ? npmOf(registry, bin) : npm
    if (script !== null) writeFileSync(path.join(bin, "npm"), `#!/bin/sh\n${script}`, { mode: 0o755 })
    const before = process.env.PATH
    process.env.PATH = npm === null ? bin : `${bin}:/usr/bin:/bin`
    const steps: Array<string> = []
    const started: Array<string> = []
    const result = yield* Install.install({
      folder,
      agents: [{ name: "fake", profile: { ...codex, program: chosen }, program: chosen }],
      firstRun: (command, args) => {
        started.push(command)
        return Install.unboxed(folder)(command, args)
      },
      progress: (step) => Effect.sync(() => steps.push(step))
    }).pipe(Effect.result, Effect.ensuring(Effect.sync(() => (process.env.PATH = before))))
    const calls = existsSync(path.join(bin, "calls")) ? readFileSync(path.join(bin, "calls"), "utf8").trimEnd().split("\n") : []
    return { calls, started, steps, error: Result.isFailure(result) ? result.failure.message : null }
  })

describe("Install", () => {
  it.live("fetches the pinned packages, runs no script of theirs, and leaves nothing else", () =>
    Effect.gen(function*() {
      const folder = path.join(yield* temporaryFolder, "agents")
      const { calls, error, started, steps } = yield* install(folder)
      assert.isNull(error)
      assert.strictEqual(steps.at(-1), "fake 1.2.3 is ready")
      assert.deepStrictEqual(calls, ["pack fake-agent@1.2.3", "pack fake-agent-here@1.2.3"])
      assert.deepStrictEqual(started, [path.join(folder, "node_modules/fake-agent-here/bin/fake")])
      assert.deepStrictEqual(readdirSync(folder), ["node_modules"])
      assert.deepStrictEqual(readdirSync(path.join(folder, "node_modules/fake-agent")), ["package.json"])
      assert.deepStrictEqual((yield* install(folder)).steps, ["fake 1.2.3 is there"])
    }))

  it.live("unpacks and runs nothing when the registry gives another package under a pinned name", () =>
    Effect.gen(function*() {
      const trace = path.join(yield* temporaryFolder, "ran")
      const evil = packed({ "package.json": `{"version":"1.2.3"}`, "bin/fake": `#!/bin/sh\ntouch ${trace}\necho fake 1.2.3\n` })
      for (const spec of Object.keys(honest)) {
        const folder = yield* temporaryFolder
        const { error, started } = yield* install(folder, { registry: { ...honest, [spec]: evil.bytes } })
        assert.include(error, `What the registry gives for ${spec} is not what Slipway was tried with`)
        assert.deepStrictEqual(started, [])
        assert.deepStrictEqual(readdirSync(folder), [])
      }
      assert.isFalse(existsSync(trace))
    }))

  it.live("installs nothing for a platform whose build it could not tell from another", () =>
    Effect.gen(function*() {
      const { calls, error } = yield* install(yield* temporaryFolder, { program: { ...program, pins: () => [] } })
      assert.include(error, "does not know the digest of fake 1.2.3")
      assert.deepStrictEqual(calls, [])
    }))

  it.live("unpacks a binary that the package holds compressed", () =>
    Effect.gen(function*() {
      const folder = path.join(yield* temporaryFolder, "agents")
      const compressed = brotliCompressSync("#!/bin/sh\necho fake 1.2.3\n")
      const folderOf = yield* temporaryFolder
      mkdirSync(path.join(folderOf, "package/bin"), { recursive: true })
      writeFileSync(path.join(folderOf, "package/bin/fake.br"), compressed)
      execFileSync("tar", ["-czf", path.join(folderOf, "it.tgz"), "-C", folderOf, "package"])
      const bytes = readFileSync(path.join(folderOf, "it.tgz"))
      const pins = () => [
        { spec: "fake-agent@1.2.3", folder: "fake-agent", integrity: wrapper.integrity },
        {
          spec: "fake-agent-here@1.2.3",
          folder: "fake-agent-here",
          integrity: `sha512-${createHash("sha512").update(bytes).digest("base64")}`
        }
      ]
      const { error, steps } = yield* install(folder, {
        program: { ...program, pins, compressed: () => "fake-agent-here/bin/fake.br", binaries: () => ["fake-agent/fake-native"] },
        registry: { ...honest, "fake-agent-here@1.2.3": bytes }
      })
      assert.isNull(error)
      assert.strictEqual(steps.at(-1), "fake 1.2.3 is ready")
    }))

  it.live("goes on when it is there in part", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      assert.isNotNull((yield* install(folder, { registry: { "fake-agent@1.2.3": wrapper.bytes } })).error)
      assert.isNull((yield* install(folder)).error)
    }))

  it.live.each([
    { what: "there is no npm", given: { npm: null }, says: "npm was not found" },
    { what: "there is no network", given: { npm: "echo 'npm error code ENOTFOUND' >&2; exit 1" }, says: "registry cannot be reached" },
    { what: "npm fails", given: { npm: "echo 'npm error No space left' >&2; exit 1" }, says: "npm pack failed: No space left" },
    { what: "the program is another one", given: { program: { ...program, version: "9.9.9" } }, says: "does not work here" }
  ])("says so when $what", ({ given, says }) =>
    Effect.gen(function*() {
      assert.include((yield* install(yield* temporaryFolder, given)).error, says)
    }))

  it("pins every package of every program for this kind of machine by its SHA-512", () => {
    for (const [name, { program }] of Object.entries(profiles)) {
      if (program === null) continue
      const pins = program.pins({ os: "linux", arch: "x64", avx2: true })
      assert.isAbove(pins.length, 1, name)
      for (const { integrity, spec } of pins) {
        assert.match(integrity, /^sha512-[A-Za-z0-9+/]{86}==$/u)
        assert.include(spec, program.version)
      }
    }
  })
})
