import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import path from "node:path"
import { folder, repository, run, runHere } from "../SlipwayProcess.ts"

const LONG = 300_000

const write = (at: string, files: Readonly<Record<string, string>>) => {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(at, name)), { recursive: true })
    writeFileSync(path.join(at, name), text)
  }
}

const commit = (at: string) => {
  const git = (...args: ReadonlyArray<string>) =>
    execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=ada@shop.invalid", ...args], { cwd: at, encoding: "utf8" })
  git("add", "--all")
  git("commit", "--quiet", "--allow-empty", "--message", "Change")
  return git("rev-parse", "HEAD").trim()
}

const ENVIRONMENT = ".slipway/environment.json"

/** A repository with these files committed. */
const shop = Effect.fnUntraced(function*(files: Readonly<Record<string, string>>) {
  const data = yield* folder
  const at = repository(data)
  write(at, files)
  const head = commit(at)
  const check = (...args: ReadonlyArray<string>) =>
    runHere(data, ["env", "check", at, ...args], { SLIPWAY_EGRESS_ALLOW: "registry.npmjs.org:443" })
  return { data, at, head, check }
})

describe("slipway env check", () => {
  it.live(
    "shows what the commit says: commands, caches and their key, names of secrets, what may be reached",
    () =>
      Effect.gen(function*() {
        const { check, head } = yield* shop({
          ".gitignore": "node_modules/\n:odd*name/\n",
          "package-lock.json": "{}",
          "server/package-lock.json": "{}",
          [ENVIRONMENT]: JSON.stringify({
            setup: ["npm ci", "npm run build\nnpm test"],
            cache: ["node_modules", ":odd[name", "~/.npm"],
            env: { NODE_ENV: "test" },
            secrets: ["NPM_TOKEN"],
            egress: ["Registry.npmjs.org:443", "pypi.org:443"],
            timeoutMinutes: 5
          })
        })
        const told = yield* check("--json")
        assert.deepStrictEqual([told.code, told.stderr], [0, ""])
        assert.deepStrictEqual(JSON.parse(told.stdout), {
          file: ENVIRONMENT,
          commit: head,
          setup: [
            [{ key: "setup[0]", argv: ["/bin/sh", "-c", "npm ci"] }],
            [{ key: "setup[1]", argv: ["/bin/sh", "-c", "npm run build\nnpm test"] }]
          ],
          cache: ["node_modules", ":odd[name", "~/.npm"],
          cacheKey: { files: ["package-lock.json", "server/package-lock.json"], missing: [] },
          env: { NODE_ENV: "test" },
          secrets: ["NPM_TOKEN"],
          egress: [{ name: "registry.npmjs.org:443", allowed: true }, { name: "pypi.org:443", allowed: false }],
          ports: [],
          timeoutMinutes: 5,
          onFailure: "continue",
          image: null,
          ignored: []
        })
        const { stdout } = yield* check()
        assert.match(stdout, /^setup +setup\[0\] +npm ci$/mu)
        assert.match(stdout, /^ +setup\[1\] +npm run build ⏎ npm test$/mu)
        assert.match(stdout, /^cache key +package-lock\.json$/mu)
        assert.match(stdout, /pypi\.org:443 +not on SLIPWAY_EGRESS_ALLOW$/mu)
      }).pipe(Effect.scoped),
    LONG
  )

  it.live("reads the commit and not the folder, unless it is told to", () =>
    Effect.gen(function*() {
      const { at, check, head } = yield* shop({ [ENVIRONMENT]: "{\"setup\":[\"old\"]}" })
      write(at, { [ENVIRONMENT]: "{\"setup\":[\"new\"],\"cacheKey\":[\"new.lock\",\"none.lock\"]}", "new.lock": "" })
      const parsed = (...args: ReadonlyArray<string>) => Effect.map(check("--json", ...args), ({ stdout }) => JSON.parse(stdout))
      const old = yield* parsed()
      assert.deepStrictEqual([old.commit, old.setup[0][0].argv[2]], [head, "old"])
      const now = yield* parsed("--working")
      assert.deepStrictEqual([now.commit, now.setup[0][0].argv[2]], [null, "new"])
      assert.deepStrictEqual(now.cacheKey, { files: ["new.lock"], missing: ["none.lock"] })
    }).pipe(Effect.scoped), LONG)

  it.live("reads a devcontainer.json where that is all there is, and a bare repository as well", () =>
    Effect.gen(function*() {
      const { at, data } = yield* shop({
        ".devcontainer/devcontainer.json": `{
          // Ours
          "image": "node:24", "features": {},
          "postCreateCommand": { "a": ["npm", "ci", "it's"], "b": "cd \${containerWorkspaceFolder}" },
        }`
      })
      const bare = path.join(data, "bare.git")
      execFileSync("git", ["clone", "--quiet", "--bare", at, bare])
      const { stderr, stdout } = yield* run(data, ["env", "check", bare])
      assert.strictEqual(stderr, "")
      assert.match(stdout, /^file +\.devcontainer\/devcontainer\.json$/mu)
      assert.include(stdout, String.raw`npm ci 'it'\''s'`)
      assert.include(stdout, "cd ${containerWorkspaceFolder}")
      assert.match(stdout, /^image +node:24$/mu)
      assert.match(stdout, /^ignored +features$/mu)
    }).pipe(Effect.scoped), LONG)

  it.live("says when a repository says nothing", () =>
    Effect.gen(function*() {
      const { check, head } = yield* shop({})
      const { stdout } = yield* check()
      assert.match(stdout, /^No environment file: the repository has no \.slipway\/environment\.json, /u)
      assert.include(stdout, `write .slipway/environment.json, for example {"setup": ["npm ci"]}`)
      assert.deepStrictEqual(JSON.parse((yield* check("--json")).stdout), { file: null, commit: head, unread: [] })
    }).pipe(Effect.scoped), LONG)

  it.live(
    "names devcontainer.json files that are not read, because a person would have to choose among them",
    () =>
      Effect.gen(function*() {
        const named = ".devcontainer/python/devcontainer.json"
        const { check, head } = yield* shop({ [named]: "{}", ".devcontainer/a/b/devcontainer.json": "{}" })
        const { stdout } = yield* check()
        const reason = "because there is no way to choose among several"
        assert.include(stdout, `Not read, ${reason}: ${named}. Move one to .devcontainer/devcontainer.json`)
        assert.deepStrictEqual(JSON.parse((yield* check("--json")).stdout), { file: null, commit: head, unread: [named] })
      }).pipe(Effect.scoped),
    LONG
  )

  it.live("ends with 1 and one line that names the key, or the file, that is wrong", () =>
    Effect.gen(function*() {
      const { at, check } = yield* shop({ ".gitignore": "ignored/\nbuild/*\n!build/keep\n", "build/keep": "", "tracked/a": "" })
      const wrong: ReadonlyArray<readonly [text: string, said: string]> = [
        ["{\"setpu\":[]}", "setpu: is not known. Did you mean setup?"],
        ["{\"cache\":[\"ignored\",\"../a\"]}", "cache[1]: climbs out of the tree"],
        ["{\"cache\":[\"ignored\",\"tracked\"]}", "cache[1]: holds tracked/a, which git does not ignore"],
        ["{\"cache\":[\"build\"]}", "cache[0]: holds build/keep, which git does not ignore"],
        ["{\"cache\":[\"~/.npm\",\"other\"]}", "cache[1]: is not ignored by git: add it to .gitignore"],
        [`{}${" ".repeat(65_536)}`, "is larger than 64 KiB"]
      ]
      for (const [text, said] of wrong) {
        write(at, { [ENVIRONMENT]: text })
        commit(at)
        for (const which of [[], ["--working"], ["--json"]]) {
          const ended = yield* check(...which)
          assert.deepStrictEqual([ended.code, ended.stdout, ended.stderr], [1, "", `slipway: ${ENVIRONMENT}: ${said}\n`])
        }
      }
      write(at, { [ENVIRONMENT]: "{\"cache\":[\"ignored\"]}" })
      assert.strictEqual((yield* check("--working")).code, 0)
    }).pipe(Effect.scoped), LONG)

  it.live("follows no link to what a repository says", () =>
    Effect.gen(function*() {
      const { at, check } = yield* shop({ "other.json": "{}" })
      mkdirSync(path.join(at, ".slipway"))
      symlinkSync("../other.json", path.join(at, ENVIRONMENT))
      commit(at)
      for (const which of [[], ["--working"]]) {
        const { code, stderr } = yield* check(...which)
        assert.deepStrictEqual([code, stderr], [1, `slipway: ${ENVIRONMENT}: is no plain file\n`])
      }
    }).pipe(Effect.scoped), LONG)

  it.live("needs a repository with a commit, and a checkout for what is not committed", () =>
    Effect.gen(function*() {
      const { at, data } = yield* shop({})
      const bare = path.join(data, "bare.git")
      execFileSync("git", ["clone", "--quiet", "--bare", at, bare])
      const said = (...args: ReadonlyArray<string>) =>
        Effect.map(runHere(data, ["env", "check", ...args]), ({ code, stderr }) => {
          assert.strictEqual(code, 1)
          return stderr
        })
      assert.match(yield* said(data), /^slipway: .* is no git repository, or has no commit yet\.\n$/u)
      assert.match(yield* said(bare, "--working"), /^slipway: .* is no checkout of a git repository\.\n$/u)
      assert.match(yield* said(path.join(data, "nowhere")), /nowhere/u)
    }).pipe(Effect.scoped), LONG)
})
