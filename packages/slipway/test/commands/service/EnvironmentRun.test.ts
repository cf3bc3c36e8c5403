import { assert, describe, it } from "@effect/vitest"
import * as Mounts from "@slipway/machine/testing/Mounts"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Effect } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { readdir, readFile } from "node:fs/promises"
import path from "node:path"
import { command, environment, folder, processesOf, repository, runIn } from "../SlipwayProcess.ts"

const LONG = 300_000
const CANARY = "canary-9f2Kq-7Qm2-registry-token"
const FILE = ".slipway/environment.json"

const git = (at: string, ...args: ReadonlyArray<string>) =>
  execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=ada@shop.invalid", ...args], { cwd: at, encoding: "utf8" })

const say = (at: string, more: object) => {
  mkdirSync(path.join(at, ".slipway"), { recursive: true })
  writeFileSync(path.join(at, FILE), JSON.stringify(more))
}

/** A repository that says this in a commit, and a folder for what the command makes for itself. */
const shop = Effect.fnUntraced(function*(more: object) {
  const data = yield* folder
  const at = repository(data)
  say(at, more)
  writeFileSync(path.join(at, ".gitignore"), "node_modules\n")
  git(at, "add", "--all")
  git(at, "commit", "--quiet", "--message", "Say what sandboxes need")
  const temporary = path.join(data, "temporary")
  mkdirSync(temporary)
  const settings = { TMPDIR: temporary }
  const tried = (args: ReadonlyArray<string> = [], env: Readonly<Record<string, string>> = {}) =>
    runIn(data, ["env", "run", at, ...args], { ...settings, ...env })
  /** The rest of it. */
  const left = Effect.gen(function*() {
    return {
      files: readdirSync(temporary),
      processes: yield* processesOf(temporary),
      mounts: Mounts.below(temporary),
      users: yield* claimsOf(temporary)
    }
  })
  return { data, at, settings, tried, left }
})

/** Users of boxes that are not free again: each is in a file that names the folder of its owner. */
const claimsOf = (inside: string) =>
  Effect.promise(async () => {
    const registry = "/var/lib/slipway/uids"
    const claims = await readdir(registry).catch(() => [])
    const texts = await Promise.all(claims.map((name) => readFile(path.join(registry, name), "utf8").catch(() => "")))
    return texts.filter((text) => text.includes(inside))
  })

const NOTHING = { files: [], processes: [], mounts: [], users: [] }

const absent = spawnSync("bwrap", ["--version"]).status === 0 ? undefined : "needs bubblewrap: apt-get install bubblewrap"

describe("slipway env run", () => {
  it.live.skipIf(absent !== undefined)(
    `runs the setup of the commit in a box, and says what it filled, changed and left${absent === undefined ? "" : ` (${absent})`}`,
    () =>
      Effect.gen(function*() {
        const { at, left, tried } = yield* shop({
          setup: [
            "pwd; printf 'a\\033[2Jb\\n'; cat /proc/net/dev | grep -c : ; echo $CI",
            "mkdir -p node_modules ~/.npm; head -c 5000 /dev/zero > node_modules/x; echo more >> README.md; echo token > ~/.npmrc"
          ],
          cache: ["node_modules", "~/.npm", "~/.cache/pip"],
          env: { CI: "yes" },
          egress: ["registry.npmjs.org:443", "pypi.org:443"]
        })
        say(at, { setup: ["exit 9"] })
        const allowed = { SLIPWAY_EGRESS_ALLOW: "pypi.org:443" }
        const { code, stderr, stdout } = yield* tried([], allowed)
        assert.deepStrictEqual([code, stderr], [0, ""])
        assert.match(stdout, /in a box/u)
        assert.include(stdout, "\n/workspace/shop\nab\n1\nyes\n")
        assert.match(stdout, /^setup +succeeded after [\d.]+ s$/mu)
        assert.match(stdout, /^kept +node_modules +\d+\.\d KiB$/mu)
        assert.match(stdout, /^ +~\/\.cache\/pip +is not there$/mu)
        assert.match(stdout, /^changed +README\.md +modified$/mu)
        assert.match(stdout, /^removed +~\/\.npmrc /mu)
        assert.match(stdout, /^egress +registry\.npmjs\.org:443 +not on SLIPWAY_EGRESS_ALLOW$/mu)
        assert.notMatch(stdout, /pypi/u)
        assert.strictEqual(readFileSync(path.join(at, "README.md"), "utf8"), "shop\n")
        assert.isFalse(existsSync(path.join(at, "node_modules")))
        assert.deepStrictEqual(yield* left, NOTHING)
      }).pipe(Effect.scoped),
    LONG
  )

  it.live("runs what is not committed when it is told to, on all files that git does not ignore", () =>
    Effect.gen(function*() {
      const { at, left, tried } = yield* shop({ setup: ["exit 9"] })
      say(at, { setup: ["cat README.md new.txt; ls node_modules secret.txt; git status --short; git log --format=%s; exit 4"] })
      writeFileSync(path.join(at, "README.md"), "changed\n")
      writeFileSync(path.join(at, "new.txt"), "new\n")
      mkdirSync(path.join(at, "node_modules"))
      const before = git(at, "status", "--short")
      const { code, stdout } = yield* tried(["--working"], { SLIPWAY_ISOLATION: "none" })
      assert.strictEqual(code, 1)
      assert.match(
        stdout,
        /^changed\nnew\n.*node_modules.*\n.*secret\.txt.*\nFiles that are not committed\nSay what sandboxes need\nStart\n/mu
      )
      assert.strictEqual(git(at, "status", "--short"), before)
      assert.deepStrictEqual(yield* left, NOTHING)
    }).pipe(Effect.scoped), LONG)

  it.live("ends with 1 and the command that failed, and prints one JSON value with the output beside it", () =>
    Effect.gen(function*() {
      const { left, tried } = yield* shop({
        setup: ["echo one", "echo two; exit 3", "echo three"],
        cache: ["node_modules"],
        onFailure: "fail"
      })
      const { code, stderr, stdout } = yield* tried(["--json"], { SLIPWAY_ISOLATION: "none" })
      assert.strictEqual(code, 1)
      const { ms, totalMs, ...report } = JSON.parse(stdout)
      assert.isNumber(ms)
      assert.isNumber(totalMs)
      assert.deepInclude(report, {
        file: FILE,
        state: "failed",
        problem: "setup[1], `echo two; exit 3`, ended with exit code 3.",
        exitCode: 3,
        cache: [{ path: "node_modules", bytes: null, problem: "is not there" }]
      })
      assert.match(stderr, /\none\n\$ echo two; exit 3\ntwo\nslipway: the setup failed: setup\[1\], /u)
      assert.notInclude(stderr, "three")
      assert.deepStrictEqual(yield* left, NOTHING)
    }).pipe(Effect.scoped), LONG)

  it.live("gives secrets of the environment and of a file to the setup, and shows none", () =>
    Effect.gen(function*() {
      const { data, tried } = yield* shop({
        setup: ["echo got $NPM_TOKEN $OTHER | tee seen; printf %s $OTHER | base64"],
        secrets: ["NPM_TOKEN", "OTHER"]
      })
      const file = path.join(data, "secrets")
      writeFileSync(file, `# ours\n\nOTHER=other=${CANARY}\r\nUNUSED=${CANARY}\n`)
      const none = { SLIPWAY_ISOLATION: "none" }
      const { code, stderr, stdout } = yield* tried(["--secret", "NPM_TOKEN", "--secrets-file", file], { NPM_TOKEN: CANARY, ...none })
      assert.deepStrictEqual([code, stderr], [0, ""])
      assert.include(stdout, "\ngot [redacted] [redacted]\n[redacted]")
      assert.match(stdout, /^secrets +UNUSED +given, and the file does not name it$/mu)
      assert.notMatch(stdout, /7Qm2/u)

      const lacking = yield* tried(["--secret", "OTHER"], { OTHER: CANARY, ...none })
      assert.deepStrictEqual([lacking.code, lacking.stdout], [1, ""])
      assert.match(lacking.stderr, /^slipway: the setup gets NPM_TOKEN, which was not given: /u)
      const refused: ReadonlyArray<readonly [args: ReadonlyArray<string>, lines: string, told: RegExp]> = [
        [["--secret", `NPM_TOKEN=${CANARY}`], "", /^slipway: --secret takes names of capital letters/u],
        [["--secret", "NPM_TOKEN"], "", /^slipway: --secret names the environment variable NPM_TOKEN, which is not set\n$/u],
        [["--secrets-file", file], CANARY, /^slipway: line 1 of .* is not NAME=value\n$/u],
        [["--secrets-file", file], `A=1\nPATH=${CANARY}`, /^slipway: line 2 of .* takes names of capital letters/u],
        [["--secrets-file", file], `NPM_TOKEN=${CANARY}\0`, /^slipway: line 1 of .* takes values of 1 byte to 64 KiB/u]
      ]
      for (const [args, lines, told] of refused) {
        writeFileSync(file, lines)
        const ended = yield* tried(args, none)
        assert.deepStrictEqual([ended.code, ended.stdout], [1, ""])
        assert.match(ended.stderr, told)
        assert.notMatch(ended.stderr, /canary|7Qm2/u)
      }
    }).pipe(Effect.scoped), LONG)

  it.live("leaves no process, file or mount when it is interrupted, and ends with 130", () =>
    Effect.gen(function*() {
      const { at, data, left, settings } = yield* shop({
        setup: ["mkdir a; touch a/b; chmod 0 a; setsid sleep 1000 & echo started; sleep 1000"]
      })
      const setup = yield* SpawnedProgram.scoped(process.execPath, [command, "env", "run", at], {
        env: { ...environment(data, absent === undefined ? {} : { SLIPWAY_ISOLATION: "none" }), ...settings },
        cwd: data
      })
      yield* Effect.promise(() => setup.says(() => /^started$/mu.exec(setup.stdout())))
      const { code } = yield* Effect.promise(() => (setup.child.kill("SIGINT"), setup.closed))
      const ended = [code, setup.stderr()]
      assert.deepStrictEqual(ended, [130, "slipway: interrupted. Nothing of the sandbox is left.\n"])
      assert.deepStrictEqual(yield* left, NOTHING)
    }).pipe(Effect.scoped), LONG)

  it.live("runs nothing where there is no box, nor where there is nothing to run", () =>
    Effect.gen(function*() {
      const { data, settings, tried } = yield* shop({ setup: ["true"] })
      const without = yield* tried([], { SLIPWAY_ISOLATION: "docker", SLIPWAY_DOCKER_SOCKET: path.join(data, "none.sock") })
      assert.deepStrictEqual([without.code, without.stdout], [1, ""])
      assert.match(without.stderr, /^slipway: There is no box for the setup, so nothing was run\. /u)
      const bare = path.join(data, "other")
      mkdirSync(bare)
      git(bare, "init", "--quiet")
      git(bare, "commit", "--quiet", "--allow-empty", "--message", "Start")
      const nothing = yield* runIn(data, ["env", "run", bare], settings)
      assert.deepStrictEqual([nothing.code, nothing.stderr], [0, ""])
      assert.match(nothing.stdout, /^No environment file: /u)
    }).pipe(Effect.scoped), LONG)
})
