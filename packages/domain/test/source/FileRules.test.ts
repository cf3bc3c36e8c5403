import { assert, describe, it } from "@effect/vitest"
import { FileProtected } from "@slipway/domain/files/ports/WorkingTrees"
import {
  InvalidPath,
  isEnvironmentFile,
  isGitPath,
  isProtected,
  MAX_CONTENT_BYTES,
  MAX_DIFF_BYTES,
  MAX_DOWNLOAD_BYTES,
  normalizePath
} from "@slipway/domain/source/rules/FileRules"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

const protectedPaths = [
  ".git",
  ".git/config",
  "a/.git",
  "nested/.git/HEAD",
  ".env",
  ".env.local",
  ".env.production.local",
  ".env.example.local",
  ".env..example",
  "config/.env",
  "app.env",
  "prod/app.env",
  ".envrc",
  ".direnv/bin/x",
  ".dev.vars",
  ".npmrc",
  "packages/a/.npmrc",
  ".netrc",
  ".git-credentials",
  "opencode.json",
  "opencode.jsonc",
  "tui.json",
  "tui.jsonc",
  ".opencode/agent/x.md",
  ".codex/config.toml",
  ".agents/skills/x",
  ".codex-plugin/plugin.json",
  ".claude/settings.json",
  ".claude.json",
  ".mcp.json",
  "CLAUDE.local.md",
  ".claude-plugin/x",
  ".worktreeinclude",
  ".grok/x",
  ".grok-plugin/x",
  ".lsp.json",
  ".cursor/hooks.json",
  "a/.cursor/mcp.json"
]
const content = [
  "",
  "README.md",
  ".gitmodules",
  ".gitignore",
  ".gitattributes",
  ".github/workflows/ci.yml",
  "git",
  "x.git",
  ".git2",
  "AGENTS.md",
  "AGENTS.override.md",
  "CLAUDE.md",
  "a/CLAUDE.md",
  ".env.example",
  ".env.sample",
  ".env.template",
  ".env.dist",
  ".env.local.example",
  "env",
  "environment.ts",
  "dotenv",
  ".cursor/rules/x.mdc",
  ".cursor",
  "hooks.json",
  "mcp.json",
  "a/hooks.json",
  "claude.json",
  "package.json",
  "npmrc"
]
const aliases = [
  ".GIT",
  ".gIt/config",
  ".ENV",
  ".Env.Local",
  "Claude.LOCAL.md",
  ".MCP.JSON",
  ".CURSOR/Hooks.json",
  "git~1",
  "GIT~1/config",
  ".git.",
  ".git ",
  ".git. .",
  ".env.",
  ".env ",
  ".npmrc..",
  ".git::$INDEX_ALLOCATION/config",
  ".env:stream",
  ".git:",
  ".g\u200cit",
  "\ufeff.git",
  ".gi\u00adt",
  ".e\u2060nv",
  ".env\ufe0f",
  ".\u{e0100}git",
  "\uff0egit",
  "\uff0e\uff27\uff29\uff34",
  ".\u{1d41e}nv",
  ".npmr\u24d2",
  "\u2024env"
]

describe("isProtected", () => {
  it.each(protectedPaths)("protects %s", (path) => assert.isTrue(isProtected(path)))
  it.each(content)("serves %s", (path) => assert.isFalse(isProtected(path)))
  it.each(aliases)("takes %j for the protected name it stands for", (path) => assert.isTrue(isProtected(path)))

  it.prop(
    "no folder above and no file below changes the refusal",
    [Schema.String, Schema.Literals(protectedPaths), Schema.String],
    ([above, path, below]) => {
      assert.isTrue(isProtected(`${above}/${path}/${below}`))
    }
  )
  it.prop("the case of letters makes no difference", [Schema.String], ([path]) => {
    assert.strictEqual(isProtected(path.toUpperCase().toLowerCase()), isProtected(path.toUpperCase()))
  })
})

describe("a file", () => {
  it("may be 100 MiB to be downloaded and 1 MiB to be shown, a patch 10 MiB", () => {
    assert.deepStrictEqual([MAX_DOWNLOAD_BYTES, MAX_CONTENT_BYTES, MAX_DIFF_BYTES], [100, 1, 10].map((mebibytes) => mebibytes * 1_048_576))
  })

  it("that is refused is so with a sentence", () => {
    assert.strictEqual(new FileProtected()._tag, "FileProtected")
    for (const error of [new FileProtected(), new InvalidPath()]) assert.match(error.message, /^[A-Z].*\.$/u)
  })
})

it("a name is checked up to 1,024 characters, far more than file systems allow", () => {
  assert.isTrue(isProtected(`${"x".repeat(1_020)}.env`))
  assert.isFalse(isProtected(`${"x".repeat(1_021)}.env`))
})

describe("isEnvironmentFile", () => {
  it.each([".env", ".env.local", "a/b/.ENV", "app.env", ".envrc", ".dev.vars", ".npmrc", ".netrc", ".git-credentials", ".direnv/x",
    ".env/x"])(
      "%s stays out of commits",
      (path) => assert.isTrue(isEnvironmentFile(path))
    )
  it.each([".env.example", ".env.local.sample", "src/env.ts", ".mcp.json", ".claude/settings.json", "AGENTS.md", ".git/x"])(
    "%s may be committed",
    (path) => assert.isFalse(isEnvironmentFile(path))
  )
})

describe("isGitPath", () => {
  it.each([".git", ".GIT/x", "a/git~1", ".g\u200cit/x", ".git /x"])("%j is git's", (path) => assert.isTrue(isGitPath(path)))
  it.each([".gitmodules", ".env", "x.git", ""])("%j is not", (path) => assert.isFalse(isGitPath(path)))
})

describe("normalizePath", () => {
  it.each([
    ["", ""],
    [".", ""],
    ["./", ""],
    ["a", "a"],
    ["a/", "a"],
    ["a//b", "a/b"],
    ["./a/./b", "a/b"],
    ["a/../b", "b"],
    ["a/..", ""],
    ["a/b/../c", "a/c"],
    ["a/b/../../c", "c"],
    ["...", "..."],
    ["a\\..\\b", "a\\..\\b"],
    [" a ", " a "],
    ["%2e%2e/x", "%2e%2e/x"],
    ["日本/é", "日本/é"]
  ])("%j becomes %j", (path, expected) => assert.deepStrictEqual(normalizePath(path), Result.succeed(expected)))

  it.each(["/", "/etc/passwd", "//a", "..", "../a", "a/../..", "a/../../b", "./..", "a\0b", "\0", "a\ud800"])("refuses %j", (path) => {
    const refused = Result.flip(normalizePath(path))
    assert.isTrue(Result.isSuccess(refused) && refused.success._tag === "InvalidPath")
  })

  it.each([["./.env"], ["a/../.env"], ["a//.git/config"], [".//.git"]])("protection holds for %s once it is normalised", (path) => {
    assert.isTrue(isProtected(Result.getOrThrow(normalizePath(path))))
  })

  const Segments = Schema.Array(Schema.Literals(["a", "b.c", ".", "..", "", "é", "-rf"]))
  it.prop("what it gives is relative, inside, and normal already", [Segments], ([segments]) => {
    const result = normalizePath(segments.join("/"))
    if (Result.isFailure(result)) return
    assert.isFalse(result.success.split("/").some((segment) => segment === "." || segment === ".."))
    assert.isFalse(result.success.startsWith("/") || result.success.endsWith("/") || result.success.includes("//"))
    assert.deepStrictEqual(normalizePath(result.success), result)
  }, { arbitrary: { runs: 300 } })
})
