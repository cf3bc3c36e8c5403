import { assert, describe, it } from "@effect/vitest"
import * as CachePath from "@slipway/domain/environment/rules/CachePath"
import { AGENTS, CREDENTIALS } from "@slipway/domain/environment/rules/PrivatePaths"
import { isGitPath, isProtected } from "@slipway/domain/source/rules/FileRules"
import { path } from "@slipway/testing/histories/Arbitraries"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

const problem = (text: string) => Result.match(CachePath.parse(text), { onFailure: (said) => said, onSuccess: () => "none" })

describe("a folder that is cached", () => {
  it.each<readonly [text: string, base: "tree" | "home", path: string]>([
    ["node_modules", "tree", "node_modules"],
    ["./packages//a/./node_modules/", "tree", "packages/a/node_modules"],
    ["a/../b", "tree", "b"],
    ["a/~/b", "tree", "a/~/b"],
    ["~/.npm", "home", ".npm"],
    ["~/.cache/pip/", "home", ".cache/pip"],
    ["~/.cargo/registry", "home", ".cargo/registry"],
    ["~/.m2/repository", "home", ".m2/repository"],
    ["~/.gradle/caches", "home", ".gradle/caches"]
  ])("may be %s", (text, base, path) => assert.deepStrictEqual(CachePath.parse(text), Result.succeed({ base, path })))

  it.each([
    ["../a", "climbs out of the tree"],
    ["a/../..", "climbs out of the tree"],
    ["~/..", "climbs out of the home"],
    ["~/a/../../b", "climbs out of the home"],
    ["", "is the whole of the tree"],
    ["./a/..", "is the whole of the tree"],
    ["~", "is the whole home"],
    ["~/", "is the whole of the home"],
    ["~root/.npm", "is in another user's home"],
    ["/tmp/a", "starts with /: name a path in the tree, or ~/ and a path below the home"],
    ["~//etc", "starts with /: name a path in the tree, or ~/ and a path below the home"],
    ["packages/*/node_modules", "is a pattern: name each folder"],
    [".git", "is git's own"],
    ["a/.GIT/objects", "is git's own"],
    [".env.local", "is a protected file or folder"],
    [".claude/skills", "is a protected file or folder"],
    ["~/.claude", "is a protected file or folder"],
    ["~/.codex/sessions", "is a protected file or folder"],
    ["~/.grok", "is a protected file or folder"],
    ["~/.npmrc", "is a protected file or folder"],
    ["~/.git-credentials", "is a protected file or folder"],
    ["~/.ssh/keys", "is where an agent or a tool keeps what is private"],
    ["~/.local/share/opencode", "is where an agent or a tool keeps what is private"],
    ["~/.local", "holds ~/.local/share/opencode, which is private: name a folder in it"],
    ["~/.cache", "holds ~/.cache/opencode, which is private: name a folder in it"],
    ["~/.cargo", "holds ~/.cargo/config, which is private: name a folder in it"],
    ["~/.config/./x/..", "holds ~/.config/opencode, which is private: name a folder in it"]
  ])("is never %j: it %s", (text, said) => assert.strictEqual(problem(text), said))

  it.each([...AGENTS, ...CREDENTIALS].filter((path) => !isProtected(path)))("is never %s of the home", (path) => {
    assert.strictEqual(problem(`~/${path}`), "is where an agent or a tool keeps what is private")
    assert.strictEqual(problem(path), "none")
  })

  it("is never what is private, of which no path lies in another, and all are plain words of a shell", () => {
    const all = [...AGENTS, ...CREDENTIALS]
    for (const path of all) {
      assert.match(path, /^\.[\w./-]+$/u)
      assert.isTrue(Result.isFailure(CachePath.parse(`~/${path}`)), path)
      assert.isTrue(Result.isFailure(CachePath.parse(`~/${path}/x`)), path)
      assert.deepStrictEqual(all.filter((other) => other === path || path.startsWith(`${other}/`)), [path])
    }
  })

  it("may be in the tree what is private below the home", () => assert.strictEqual(problem(".cache"), "none"))

  it("overlaps with itself, with what it holds and with what holds it, on its own side alone", () => {
    const overlap = (a: string, b: string) =>
      CachePath.overlap(Result.getOrThrow(CachePath.parse(a)), Result.getOrThrow(CachePath.parse(b)))
    assert.isTrue(overlap("a", "a") && overlap("a/b", "a") && overlap("a", "a/b"))
    assert.isFalse(overlap("a", "ab") || overlap("a", "~/a") || overlap("a/b", "a/c"))
  })

  it.prop("stays where it is, whatever was written, and is written the same way again", [path, Schema.Boolean], ([text, isHome]) => {
    const parsed = CachePath.parse(isHome ? `~/${text}` : text)
    if (Result.isFailure(parsed)) return
    const { path } = parsed.success
    assert.isFalse(path.startsWith("/") || path.split("/").some((segment) => ["", ".", ".."].includes(segment)), path)
    assert.isFalse(isGitPath(path) || isProtected(path), path)
    assert.deepStrictEqual(CachePath.parse(CachePath.show(parsed.success)), parsed)
  }, { arbitrary: { runs: 300 } })
})
