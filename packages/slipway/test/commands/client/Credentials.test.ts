import { assert, describe, it } from "@effect/vitest"
import { Effect, Option, Redacted } from "effect"
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { beforeEach, onTestFinished } from "vitest"
import * as Credentials from "../../../src/commands/client/Credentials.ts"

const SERVER = "https://slipway.example"
const key = Redacted.make("sbx_live_one")

let home = ""
const folder = () => path.join(home, "slipway")
const file = () => path.join(folder(), "credentials.json")
/** A file with that content, as another program would leave it. */
const put = (content: string, mode = 0o600) => {
  mkdirSync(folder(), { recursive: true, mode: 0o700 })
  writeFileSync(file(), content)
  chmodSync(file(), mode)
}
const STORED = JSON.stringify({ servers: { [SERVER]: { key: "sbx_live_one" } } })
const refusal = <A>(effect: Effect.Effect<A, Credentials.UnusableCredentials>) => Effect.map(Effect.flip(effect), ({ message }) => message)
const found = (server = SERVER) => Effect.map(Credentials.find(server), Option.map(Redacted.value))

describe("Credentials", () => {
  beforeEach(() => {
    home = mkdtempSync(path.join(tmpdir(), "slipway-credentials-"))
    const before = process.env["XDG_CONFIG_HOME"]
    process.env["XDG_CONFIG_HOME"] = home
    onTestFinished(() => {
      if (before === undefined) delete process.env["XDG_CONFIG_HOME"]
      else process.env["XDG_CONFIG_HOME"] = before
      rmSync(home, { recursive: true, force: true })
    })
  })

  it.effect("finds the key that was kept for a server, and none for another", () =>
    Effect.gen(function*() {
      assert.isTrue(Option.isNone(yield* found()))
      yield* Credentials.keep(SERVER, key)
      yield* Credentials.keep("http://localhost:4000", Redacted.make("sbx_live_two"))
      assert.deepStrictEqual(yield* found(), Option.some("sbx_live_one"))
      assert.deepStrictEqual(yield* found("http://localhost:4000"), Option.some("sbx_live_two"))
      assert.isTrue(Option.isNone(yield* found("constructor")))
      assert.deepStrictEqual(yield* Credentials.servers, ["http://localhost:4000", SERVER])
      assert.deepStrictEqual(JSON.parse(readFileSync(file(), "utf8")), {
        servers: { [SERVER]: { key: "sbx_live_one" }, "http://localhost:4000": { key: "sbx_live_two" } }
      })
    }))

  it.effect("replaces a server's key, and forgets one of several", () =>
    Effect.gen(function*() {
      yield* Credentials.keep(SERVER, key)
      yield* Credentials.keep(SERVER, Redacted.make("sbx_live_new"))
      yield* Credentials.keep("http://localhost:4000", key)
      assert.deepStrictEqual(yield* found(), Option.some("sbx_live_new"))
      assert.isTrue(yield* Credentials.forget(SERVER))
      assert.isFalse(yield* Credentials.forget(SERVER))
      assert.deepStrictEqual(yield* Credentials.servers, ["http://localhost:4000"])
    }))

  it.effect("lets no other user read the file or look into its folder, whatever the umask, and leaves nothing beside it", () =>
    Effect.gen(function*() {
      for (const umask of [0o000, 0o777]) {
        // A folder that its own user may not enter is useless: the umask of 777 is for the file.
        if (umask === 0o777) rmSync(file())
        const before = process.umask(umask)
        yield* Effect.ensuring(Credentials.keep(SERVER, key), Effect.sync(() => process.umask(before)))
        assert.strictEqual(statSync(file()).mode & 0o777, 0o600)
        assert.strictEqual(statSync(folder()).mode & 0o777, 0o700)
        assert.deepStrictEqual(readdirSync(folder()), ["credentials.json"])
      }
    }))

  it.effect("uses no file that others can read, and says how to mend it", () =>
    Effect.gen(function*() {
      for (const mode of [0o640, 0o604, 0o620, 0o602, 0o666]) {
        put(STORED, mode)
        for (const attempt of [Credentials.find(SERVER), Credentials.keep(SERVER, key), Credentials.forget(SERVER)]) {
          const message = yield* refusal<unknown>(attempt)
          assert.include(message, `chmod 600 ${file()}`)
          assert.notInclude(message, "sbx_live_one")
        }
      }
      chmodSync(file(), 0o600)
      assert.deepStrictEqual(yield* found(), Option.some("sbx_live_one"))
    }))

  it.effect("uses no folder that others can write to", () =>
    Effect.gen(function*() {
      put(STORED)
      chmodSync(folder(), 0o777)
      assert.include(yield* refusal(Credentials.find(SERVER)), `chmod 700 ${folder()}`)
      assert.include(yield* refusal(Credentials.keep(SERVER, key)), `chmod 700 ${folder()}`)
    }))

  it.effect("follows no link: neither for the file, nor its folder, nor what it writes first", () =>
    Effect.gen(function*() {
      const elsewhere = path.join(home, "elsewhere.json")
      writeFileSync(elsewhere, STORED, { mode: 0o600 })
      mkdirSync(folder(), { mode: 0o700 })
      symlinkSync(elsewhere, file())
      assert.include(yield* refusal(Credentials.find(SERVER)), "is a link")
      assert.include(yield* refusal(Credentials.keep(SERVER, Redacted.make("sbx_live_new"))), "is a link")
      rmSync(file())

      symlinkSync(elsewhere, `${file()}.lock`)
      assert.include(yield* refusal(Credentials.keep(SERVER, Redacted.make("sbx_live_new"))), `remove ${file()}.lock`)
      assert.strictEqual(readFileSync(elsewhere, "utf8"), STORED)
      rmSync(folder(), { recursive: true })

      const other = path.join(home, "other")
      mkdirSync(other, { mode: 0o700 })
      symlinkSync(other, folder())
      assert.include(yield* refusal(Credentials.keep(SERVER, key)), "link")
      assert.deepStrictEqual(readdirSync(other), [])
    }))

  it.effect("writes nothing while another command does, and leaves its file alone", () =>
    Effect.gen(function*() {
      put(STORED)
      writeFileSync(`${file()}.lock`, "theirs")
      assert.include(yield* refusal(Credentials.keep(SERVER, Redacted.make("sbx_live_new"))), `remove ${file()}.lock`)
      assert.strictEqual(readFileSync(`${file()}.lock`, "utf8"), "theirs")
      assert.deepStrictEqual(yield* found(), Option.some("sbx_live_one"))
    }))

  it.effect("refuses what it did not write, and does not replace it", () =>
    Effect.gen(function*() {
      for (const content of ["", "no JSON", "[]", `{"servers":{"${SERVER}":"sbx_live_one"}}`, `{"servers":{}}${" ".repeat(2 ** 20)}`]) {
        put(content)
        assert.include(yield* refusal(Credentials.find(SERVER)), "Remove it")
        assert.include(yield* refusal(Credentials.keep(SERVER, key)), "Remove it")
        assert.strictEqual(readFileSync(file(), "utf8"), content)
        assert.isFalse(existsSync(`${file()}.lock`))
      }
    }))

  it("takes one spelling of an address, and none that is more than a server's", () => {
    for (
      const [given, server] of [
        ["https://Slipway.example/", SERVER],
        ["https://slipway.example:443", SERVER],
        ["http://localhost:4000//", "http://localhost:4000"],
        ["https://example.com/slipway/", "https://example.com/slipway"]
      ] as const
    ) {
      assert.strictEqual(Credentials.serverOf(given), server)
    }
    for (
      const given of ["", "localhost:4000", "ftp://slipway.example", `https://ada:secret@slipway.example`, `${SERVER}/?a=b`, `${SERVER}/#a`]
    ) {
      assert.isNull(Credentials.serverOf(given), given)
    }
  })
})
