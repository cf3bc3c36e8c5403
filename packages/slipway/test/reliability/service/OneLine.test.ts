/** Errors of a new user are one line that says what to do. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { chmodSync, chownSync, mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from "node:fs"
import path from "node:path"
import manifest from "../../../package.json" with { type: "json" }
import { folder, processesOf, runIn, serve, until } from "../../commands/SlipwayProcess.ts"

const LONG = 300_000

describe("one line", () => {
  it.live("a mistyped command, subcommand or flag is named, with what was meant, and without the help", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const lines: ReadonlyArray<readonly [ReadonlyArray<string>, RegExp]> = [
        [["kyes"], /^slipway: [^\n]*"kyes"[^\n]* Did you mean slipway keys\? See: slipway --help\n$/u],
        [["keys", "creat"], /^slipway: [^\n]*"creat"[^\n]* Did you mean create\? See: slipway keys --help\n$/u],
        [["keys", "create", "--grnt", "x"], /^slipway: [^\n]*--grnt[^\n]* Did you mean --grant\? See: slipway keys create --help\n$/u],
        [["keys", "revoke"], /^slipway: [^\n]*id[^\n]*See: slipway keys revoke --help\n$/u],
        [["pulls", "show", "acme/shop", "one"], /^slipway: [^\n]*one[^\n]*See: slipway pulls show --help\n$/u],
        [["repos", "add", "acme/shop"], /^slipway: [^\n]*--sample[^\n]*\n$/u]
      ]
      yield* Effect.forEach(lines, ([args, line]) =>
        Effect.map(runIn(data, args), (ended) => {
          assert.deepStrictEqual([ended.code, ended.stdout], [1, ""], args.join(" "))
          assert.match(ended.stderr, line)
        }), { concurrency: 2 })
    }).pipe(Effect.scoped), LONG)

  it.live("the version is said before anything of the service is loaded", () =>
    Effect.gen(function*() {
      const data = yield* folder
      // Loading any module of the packages would fail here.
      const hook = path.join(data, "refuse.mjs")
      writeFileSync(
        hook,
        `import { registerHooks } from "node:module"
        registerHooks({
          resolve(specifier, context, next) {
            if (/^(?:effect|@slipway|@effect)/.test(specifier)) throw new Error(specifier)
            return next(specifier, context)
          }
        })`
      )
      for (const flag of ["--version", "-v"]) {
        const ended = yield* runIn(data, [flag], {}, { nodeArgs: ["--import", hook] })
        assert.deepStrictEqual(ended, { code: 0, stdout: `slipway v${manifest.version}\n`, stderr: "" })
      }
    }).pipe(Effect.scoped), LONG)

  it.live("without git, whatever needs it says so at once", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const bin = path.join(data, "bin")
      mkdirSync(bin)
      for (const program of ["sh", "id", "useradd", "rm", "rmdir"]) symlinkSync(`/usr/bin/${program}`, path.join(bin, program))
      for (const args of [["serve"], ["demo"], ["repos", "add", "acme/shop", data], ["repos", "add", "--sample"]]) {
        const ended = yield* runIn(data, args, { PATH: bin })
        assert.deepStrictEqual([ended.code, ended.stderr], [1,
          "slipway: git is not installed, or not on PATH. Install it: apt-get install git\n"], args.join(" "))
      }
      assert.deepStrictEqual(yield* processesOf(data), [])
    }).pipe(Effect.scoped), LONG)

  it.live("a temporary folder that is missing or cannot be written to is named", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const file = path.join(data, "file")
      writeFileSync(file, "")
      for (const [place, reason] of [[path.join(data, "missing"), "it is not there"], [file, "ENOTDIR"]] as const) {
        for (const args of [["serve"], ["demo"]]) {
          const ended = yield* runIn(data, args, { TMPDIR: place })
          assert.strictEqual(ended.code, 1)
          assert.match(ended.stderr, new RegExp(`^slipway: Temporary files cannot be put into ${place}: [^\\n]*${reason}[^\\n]*\\n$`, "u"))
        }
      }
    }).pipe(Effect.scoped), LONG)

  it.live.skipIf(process.getuid?.() !== 0)(
    "a user that the system does not know is told what the embedded database needs, with and without a home (needs root)",
    () =>
      Effect.gen(function*() {
        const data = yield* folder
        const unknown = path.join(data, "unknown.mjs")
        writeFileSync(unknown, "process.setgroups([0]); process.setgid(0); process.setuid(1001230000)")
        for (const [name, HOME] of [["a", ""], ["b", data]] as const) {
          const own = path.join(data, name)
          mkdirSync(own)
          chownSync(own, 1_001_230_000, 0)
          chmodSync(data, 0o711)
          const ended = yield* runIn(own, ["serve"], { HOME, SLIPWAY_ISOLATION: "none" }, { nodeArgs: ["--import", unknown] })
          assert.strictEqual(ended.code, 1)
          assert.match(ended.stderr, /^slipway: [^\n]*does not know the user 1001230000[^\n]*Postgres of your own[^\n]*\n$/u)
        }
      }).pipe(Effect.scoped),
    LONG
  )

  it.live("a database that cannot be reached is named, without its password", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const ended = yield* runIn(data, ["keys", "list"], { DATABASE_URL: "postgres://ada:secret@127.0.0.1:1/shop" })
      assert.deepStrictEqual([ended.code, ended.stdout], [1, ""])
      assert.match(ended.stderr, /^slipway: [^\n]*127\.0\.0\.1:1[^\n]*DATABASE_URL[^\n]*\n$/u)
      assert.notInclude(ended.stderr, "secret")
    }).pipe(Effect.scoped), LONG)

  it.live(
    "a variable that is no setting is told, with the setting that was meant; a vanished data folder ends the service, said once",
    () =>
      Effect.gen(function*() {
        const home = yield* folder
        const data = path.join(home, "data")
        mkdirSync(data)
        const server = yield* serve(data, { SLIPWAY_PROT: "1", SLIPWAY_API_KEY: "x", XDG_STATE_HOME: home, SLIPWAY_LOG_FORMAT: "pretty" })
        const told = server.logs().split("\n").filter((line) => line.includes("SLIPWAY_"))
        assert.lengthOf(told, 1)
        assert.include(told[0], "SLIPWAY_PROT is set, but there is no such setting: it does nothing. Did you mean SLIPWAY_PORT?")

        const before = server.logs().length
        renameSync(data, path.join(home, "elsewhere"))
        const { code } = yield* server.ended
        assert.strictEqual(code, 1)
        const said = server.logs().slice(before)
        assert.lengthOf(said.split("\n").filter((line) => line.includes("was removed or replaced")), 1, said)
        assert.match(said, new RegExp(`^slipway: The data folder ${data} was removed or replaced\\. [^\\n]*\\n`, "mu"))
        assert.isBelow(said.split("\n").length, 20, said)
        yield* until(processesOf(home), (left) => left.length === 0)
      }).pipe(Effect.scoped),
    LONG
  )

  it("npm is told not to warn of each package that needs a newer Node than npm's own, and to show errors", () => {
    const npmrc = readFileSync(path.resolve(import.meta.dirname, "../../../../../.npmrc"), "utf8")
    assert.match(npmrc, /^loglevel=error$/mu)
  })
})
