import { assert, describe, it } from "@effect/vitest"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Effect } from "effect"
import { existsSync, mkdirSync } from "node:fs"
import { readdir, readFile, rm, stat, writeFile } from "node:fs/promises"
import path from "node:path"
import { command, environment, folder, run, runIn, serve } from "../SlipwayProcess.ts"

const CANARY = "canary-9f2Kq-'\"$HOME-7Qm2"

/** The files beneath the folder that hold the text: the database's own are among them. */
const filesWith = (inside: string, text: string) =>
  Effect.promise(async () => {
    const found: Array<string> = []
    let read = 0
    for (const entry of await readdir(inside, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue
      const file = path.join(entry.parentPath, entry.name)
      // A process that is gone by now holds nothing.
      const bytes = await readFile(file).catch(() => Buffer.alloc(0))
      if (bytes.includes(text)) found.push(file)
      read++
    }
    assert.isAbove(read, 500)
    return found
  })

/** The command lines and environments of commands on this data folder, sampled all the time while `use` runs. */
const commandLines = <A, E>(dataDir: string, use: Effect.Effect<A, E>) =>
  Effect.gen(function*() {
    const seen: Array<string> = []
    const look = Effect.promise(async () => {
      for (const pid of await readdir("/proc")) {
        if (!/^\d+$/u.test(pid)) continue
        const read = (file: string) => readFile(`/proc/${pid}/${file}`, "utf8").catch(() => "")
        seen.push(await read("cmdline") + await read("environ"))
      }
    })
    yield* Effect.forkChild(Effect.forever(Effect.delay(look, "20 millis")))
    const result = yield* use
    return { result, seen: seen.filter((text) => text.includes("NPM_TOKEN") && text.includes(dataDir)) }
  })

describe("slipway secrets", () => {
  it.live(
    "sets what standard input says, tells everything but that, and leaves it nowhere as it is",
    () =>
      Effect.gen(function*() {
        const data = yield* folder
        const server = yield* serve(data)
        // From the first start on, for its account alone.
        assert.strictEqual((yield* Effect.promise(() => stat(path.join(data, "secrets.key")))).mode & 0o777, 0o600)
        yield* run(data, ["grants", "create", "acme"])
        const where = ["--grant", "acme", "--repo", "acme/shop"]
        const set = (name: string, input: string | Uint8Array, ...more: ReadonlyArray<string>) =>
          runIn(data, ["secrets", "set", name, ...where, ...more], environment(data, {}), { input })

        const { result: first, seen } = yield* commandLines(data, set("NPM_TOKEN", `${CANARY}\n`))
        assert.deepStrictEqual(first, {
          code: 0,
          stdout: "Sandboxes of acme/shop in grant acme that boot from now on have this NPM_TOKEN for their setup.\n",
          stderr: ""
        })
        assert.isAbove(seen.length, 0)
        assert.notInclude(seen.join("\n"), "7Qm2")
        const json = yield* set("NPM_TOKEN", CANARY, "--json")
        assert.deepStrictEqual([json.code, json.stderr], [0, ""])
        assert.hasAllKeys(JSON.parse(json.stdout), ["repo", "name", "createdAt", "setAt"])
        assert.include((yield* set("PIN", "1234")).stdout, "fewer than 8 characters")

        const listed = yield* run(data, ["secrets", "list", ...where, "--json"])
        assert.deepStrictEqual(
          JSON.parse(listed.stdout).map(({ name, repo }: Record<string, unknown>) => [repo, name]),
          [["acme/shop", "NPM_TOKEN"], ["acme/shop", "PIN"]]
        )
        const table = yield* run(data, ["secrets", "list", "--grant", "acme"])
        assert.match(table.stdout, /^REPOSITORY +NAME +SET +FIRST SET\nacme\/shop +NPM_TOKEN +\S+Z +\S+Z\n/u)

        const audit = yield* run(data, ["audit", "--json", "--action", "secret.set"])
        assert.deepStrictEqual(
          JSON.parse(audit.stdout).map((
            { actor, subjects }: Record<string, Record<string, string>>
          ) => [actor?.["_tag"], subjects?.["secret"]]),
          [["Operator", "NPM_TOKEN"], ["Operator", "NPM_TOKEN"], ["Operator", "PIN"]]
        )
        for (const { stderr, stdout } of [json, listed, table, audit, { stdout: server.output(), stderr: server.logs() }]) {
          assert.notInclude(stdout + stderr, "7Qm2")
        }
        assert.deepStrictEqual(yield* filesWith(data, "7Qm2"), [])

        const removed = yield* run(data, ["secrets", "remove", "NPM_TOKEN", ...where])
        assert.deepStrictEqual([removed.code, removed.stderr], [0, ""])
        assert.include(removed.stdout, "NPM_TOKEN of acme/shop is removed.")
        const refused: ReadonlyArray<readonly [refused: Effect.Effect<{ readonly stderr: string }>, told: RegExp]> = [
          [run(data, ["secrets", "remove", "NPM_TOKEN", ...where]), /^slipway: There is no such secret\.\n$/u],
          [run(data, ["secrets", "list", "--grant", "unknown"]), /^slipway: There is no grant unknown\.\n$/u],
          [set("npm_token", CANARY), /^slipway: name: a name of capital letters.* expected\n$/u],
          [set("PATH", CANARY), /^slipway: name: a name that the service does not set itself expected\n$/u],
          [set("NPM_TOKEN", ""), /^slipway: standard input is empty: .*\n$/u],
          [set("NPM_TOKEN", "\n"), /^slipway: value: 1 byte to 64 KiB of UTF-8 without NUL expected\n$/u],
          [set("NPM_TOKEN", "7Qm2".repeat(20_000)), /^slipway: value: 1 byte to 64 KiB of UTF-8 without NUL expected\n$/u],
          [set("NPM_TOKEN", "7Qm2\0"), /^slipway: value: .* without NUL expected\n$/u],
          [set("NPM_TOKEN", Buffer.from("7Qm2\xff", "latin1")), /^slipway: the value on standard input is no UTF-8\n$/u]
        ]
        for (const [ended, told] of refused) assert.match((yield* ended).stderr, told)
        // A value is not accepted as an argument: each attempt sets no secret.
        for (const value of [[CANARY], [`--${CANARY}`], [`-${CANARY}`], ["--value", CANARY], [`--value=${CANARY}`], ["--", CANARY]]) {
          const argued = yield* runIn(data, ["secrets", "set", "NPM_TOKEN", ...where, ...value], environment(data, {}), { input: "" })
          assert.deepStrictEqual([argued.code, argued.stdout], [1, ""])
          assert.match(argued.stderr, /The value of a secret is read from standard input\. See: slipway secrets set --help\n$/u)
          assert.notMatch(argued.stderr, /canary|9f2Kq|7Qm2/u)
        }
        // Nor are the flags that it has, the command's name, or what stands before either.
        const mistyped: ReadonlyArray<readonly [args: ReadonlyArray<string>, told: RegExp]> = [
          [["secrets", "set", "NPM_TOKEN", ...where, `--json=${CANARY}`], /^slipway: --json cannot be what was given\./u],
          [["secrets", "set", "NPM_TOKEN", "--grant", "acme", "--repo", CANARY], /^slipway: --repo cannot be what was given\./u],
          [["secrets", "set", "NPM_TOKEN", ...where, `--completions=${CANARY}`], /^slipway: --completions cannot be what was given\./u],
          [["secrets", `--json=${CANARY}`, "set", "NPM_TOKEN", ...where], /^slipway: /u],
          [["secrets", CANARY], /^slipway: A command that it does not know\./u],
          [[`--value=${CANARY}`, "secrets", "set", "NPM_TOKEN", ...where], /^slipway: A flag that it does not know\./u],
          [["secrets", "list", "--grant", "acme", `--json=${CANARY}`], /^slipway: --json cannot be what was given\./u]
        ]
        for (const [args, told] of mistyped) {
          const ended = yield* runIn(data, args, environment(data, {}), { input: "" })
          assert.deepStrictEqual([ended.code, ended.stdout], [1, ""], ended.stderr)
          assert.match(ended.stderr, told)
          assert.notMatch(ended.stderr, /canary|9f2Kq|7Qm2/u)
        }
        assert.deepStrictEqual(JSON.parse((yield* run(data, ["secrets", "list", ...where, "--json"])).stdout).length, 1)

        assert.match(
          (yield* run(data, ["secrets", "trust", "release/*", ...where])).stdout,
          /^Setups of commits on release\/\* of acme\/shop/u
        )
        yield* run(data, ["secrets", "trust", "develop", ...where])
        const refs = JSON.parse((yield* run(data, ["secrets", "refs", "--grant", "acme", "--json"])).stdout)
        assert.deepStrictEqual(refs.map(({ ref, repo }: Record<string, unknown>) => [repo, ref]), [
          ["acme/shop", "develop"],
          ["acme/shop", "release/*"]
        ])
        assert.strictEqual((yield* run(data, ["secrets", "distrust", "develop", ...where])).code, 0)
        assert.match(
          (yield* run(data, ["secrets", "refs", ...where])).stdout,
          /^REPOSITORY +REF +LISTED\nacme\/shop +release\/\* +\S+Z\n$/u
        )
        assert.strictEqual((yield* run(data, ["secrets", "distrust", "develop", ...where])).stderr, "slipway: The ref is not listed.\n")
        assert.match(
          (yield* run(data, ["secrets", "trust", "slipway/c_bbbbbbbbbbbb", ...where])).stderr,
          /^slipway: ref: .*sandboxes push to/u
        )
      }).pipe(Effect.scoped)
  )

  it.live.skipIf(!existsSync("/usr/bin/script"))(
    "asks at a terminal, and shows nothing of what is typed (needs script: bsdutils)",
    () =>
      Effect.gen(function*() {
        const data = yield* folder
        yield* run(data, ["grants", "create", "acme"])
        const line = `${process.execPath} ${command} secrets set NPM_TOKEN --grant acme --repo acme/shop`
        const terminal = yield* SpawnedProgram.scoped("/usr/bin/script", ["-qec", line, "/dev/null"], {
          env: environment(data, { TERM: "xterm" }),
          cwd: data
        })
        yield* Effect.promise(() => terminal.says((shown) => /Value of NPM_TOKEN/u.exec(shown)))
        terminal.child.stdin.write(`${CANARY}\r`)
        yield* Effect.promise(() => terminal.closed)
        const shown = terminal.stdout()
        assert.include(shown, "have this NPM_TOKEN for their setup.")
        assert.notInclude(shown, "7Qm2")
        assert.notInclude(shown, "canary")
        assert.include((yield* run(data, ["secrets", "list", "--grant", "acme"])).stdout, "NPM_TOKEN")
      }).pipe(Effect.scoped)
  )

  it.live(
    "replaces the key of the data folder: what was stored is encrypted anew when the service starts with both",
    () =>
      Effect.gen(function*() {
        const home = yield* folder
        const data = path.join(home, ".slipway")
        const below = path.join(home, "src/shop")
        for (const made of [data, below]) mkdirSync(made, { recursive: true })
        yield* run(data, ["grants", "create", "acme"])
        // From a folder below, which finds the data folder and with it the key.
        const set = (name: string) =>
          runIn(
            data,
            ["secrets", "set", name, "--grant", "acme", "--repo", "acme/shop"],
            { ...environment(data, {}), SLIPWAY_DATA_DIR: undefined },
            { input: CANARY, at: below }
          )
        assert.strictEqual((yield* set("NPM_TOKEN")).code, 0)
        const file = path.join(data, "secrets.key")
        const old = yield* Effect.promise(() => readFile(file, "utf8"))
        const next = `${Buffer.alloc(32, 9).toString("base64")}\n`
        const keys = (text: string) => Effect.promise(() => writeFile(file, text))
        yield* keys(next)
        assert.match((yield* set("NPM_TOKEN")).stderr, /encrypted with another key\. .*SLIPWAY_SECRETS_KEY_FILE/u)
        yield* keys(next + old)
        yield* (yield* serve(data)).stop("SIGTERM")
        yield* keys(next)
        assert.strictEqual((yield* set("NPM_TOKEN")).code, 0)
        yield* keys(old)
        assert.match((yield* set("NPM_TOKEN")).stderr, /encrypted with another key/u)
      }).pipe(Effect.scoped)
  )

  it.live(
    "takes the key from a command, replaces it beside a running service, and has it in no output, log or backup",
    () =>
      Effect.gen(function*() {
        const home = yield* folder
        const [data, printed, program] = ["data", "printed", "vault"].map((name) => path.join(home, name))
        if (data === undefined || printed === undefined || program === undefined) return
        mkdirSync(data)
        // It fails with Slipway's own variables in its environment, and prints the key of its argument.
        yield* Effect.promise(() =>
          writeFile(program, "#!/bin/sh\nenv | grep -q ^SLIPWAY_ && exit 9\n[ -f \"$1\" ] || { echo denied >&2; exit 2; }\ncat \"$1\"\n", {
            mode: 0o700
          })
        )
        const [a, b, lost] = [7, 8, 9].map((byte) => Buffer.alloc(32, byte).toString("base64"))
        const prints = (...keys: ReadonlyArray<string | undefined>) => Effect.promise(() => writeFile(printed, `${keys.join("\n")}\n`))
        const settings = { SLIPWAY_SECRETS_KEY_COMMAND: `${program} ${printed}` }
        const outputs: Array<string> = []
        const slipway = (args: ReadonlyArray<string>, input = "") =>
          Effect.map(runIn(data, args, { ...environment(data, {}), ...settings }, { input }), (ended) => {
            outputs.push(ended.stdout, ended.stderr)
            return ended
          })
        const where = ["--grant", "acme", "--repo", "acme/shop"]
        const set = (name: string) => slipway(["secrets", "set", name, ...where], CANARY)

        yield* prints(a)
        const server = yield* serve(data, settings)
        assert.strictEqual((yield* slipway(["grants", "create", "acme"])).code, 0)
        assert.strictEqual((yield* set("ONE")).code, 0)
        assert.isFalse(existsSync(path.join(data, "secrets.key")), "the command's key is the only one")
        // A value of a key that is gone.
        yield* prints(lost, a)
        assert.strictEqual((yield* set("LOST")).code, 0)
        yield* prints(b, a)
        const first = yield* slipway(["secrets", "rekey"])
        assert.deepStrictEqual([first.code, first.stdout], [1, "Encrypted anew with the first key: 1 secrets of repositories.\n"])
        assert.match(
          first.stderr,
          /^slipway: No key decrypts 1 secrets of repositories \(LOST of acme\/shop in grant \S+\)\. Add the line .*\n$/u
        )
        yield* slipway(["secrets", "remove", "LOST", ...where])
        const second = yield* slipway(["secrets", "rekey"])
        assert.deepStrictEqual([second.code, second.stderr], [0, ""])
        assert.match(second.stdout, /^Nothing was to be encrypted anew\.\nAll stored secrets are encrypted with the first key\. .*\n$/u)
        yield* prints(b)
        assert.strictEqual((yield* set("TWO")).code, 0)
        const json = yield* slipway(["secrets", "rekey", "--json"])
        assert.deepStrictEqual(
          JSON.parse(json.stdout).map(({ anew, closedCount }: Record<string, number>) => [anew, closedCount]),
          Array.from({ length: 8 }, () => [0, 0])
        )
        yield* server.stop("SIGTERM")
        outputs.push(server.output(), server.logs())

        const backup = yield* slipway(["backup", path.join(home, "backup")])
        assert.strictEqual(backup.code, 0, backup.stderr)
        assert.match(
          backup.stdout,
          /The key of stored secrets is not in it: keep what \S+\/vault prints \(SLIPWAY_SECRETS_KEY_COMMAND\) elsewhere/u
        )
        assert.isFalse(existsSync(path.join(home, "backup/secrets.key")))

        yield* prints(a)
        assert.match((yield* set("TWO")).stderr, /another key\. .*SLIPWAY_SECRETS_KEY_COMMAND/u)
        yield* Effect.promise(() => rm(printed))
        const denied = yield* slipway(["secrets", "rekey"])
        assert.strictEqual(denied.code, 1)
        assert.match(denied.stderr, /^slipway: .*\/vault cannot be used: the program ended with exit code 2\. It printed: denied\. /u)
        assert.match(denied.stderr, /Run the command of SLIPWAY_SECRETS_KEY_COMMAND as the service's account, and repair it\..*\n$/u)
        for (const key of [a, b, lost]) assert.notInclude(outputs.join("\n"), key?.slice(0, 20) ?? "")
        for (const key of [a, b, lost]) assert.deepStrictEqual(yield* filesWith(home, key ?? ""), [])
      }).pipe(Effect.scoped)
  )
})
