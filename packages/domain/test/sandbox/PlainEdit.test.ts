import { assert, describe, it } from "@effect/vitest"
import { coveredKind, isPlainEdit } from "@slipway/domain/sandbox/rules/Approval"
import { isProtected } from "@slipway/domain/source/rules/FileRules"
import * as Schema from "effect/Schema"

const folders = ["shop", "docs"]
const edit = (...paths: ReadonlyArray<string>) => isPlainEdit({ kind: "edit", removes: false, paths }, folders)

const Piece = Schema.Literals(["shop", "docs", ".git", ".env", "..", ".", "", "a.txt", "src", ".Git", "hooks", "x.env", "\u200d.git"])
const Path = Schema.Array(Piece).check(Schema.isMaxLength(4))
const Paths = Schema.Array(Path).check(Schema.isMaxLength(2))

describe("a plain edit", () => {
  it.each(["shop/README.md", "shop/src/a b/ä.ts", "docs/.github/workflows/ci.yml", "shop/.env.example", "shop/...", "shop/AGENTS.md"])(
    "changes a file of a tree, such as %s",
    (path) => assert.isTrue(edit(path))
  )

  it.each([
    // Protected names, however they are spelled.
    "shop/.git/hooks/pre-commit",
    "shop/.GIT/config",
    "shop/.gi\u200bt/config",
    "shop/vendor/.git",
    "shop/.env",
    "shop/deep/.env.production",
    "shop/.npmrc",
    "shop/.claude/settings.json",
    "shop/opencode.json",
    "shop/.mcp.json",
    "shop/.codex/config.toml",
    // Outside the trees.
    "/etc/passwd",
    "/sandbox/home/.bashrc",
    "~/.bashrc",
    "notes.txt",
    "shopping/a.txt",
    "shop",
    "shop/",
    "",
    // Names that lead elsewhere, or may.
    "shop/../.bashrc",
    "shop/src/../a.txt",
    "docs/../../etc/passwd",
    "shop/./a.txt",
    "./shop/a.txt",
    "shop//a.txt",
    "shop/a\0.txt",
    "shop/\ud800"
  ])("does not change %j", (path) => {
    assert.isFalse(edit(path))
    assert.isFalse(edit("shop/README.md", path), "one such file is enough")
  })

  it("deletes and moves nothing, and says so", () => {
    const paths = ["shop/README.md"]
    assert.isFalse(isPlainEdit({ kind: "edit", removes: true, paths }, folders))
    assert.isFalse(isPlainEdit({ kind: "edit", paths }, folders), "the agent does not say")
  })

  it("names its files", () => {
    assert.isFalse(edit())
    assert.isFalse(isPlainEdit({ kind: "edit", removes: false }, folders))
    assert.isFalse(isPlainEdit({ kind: "edit", removes: false, paths: ["shop/a"] }, []), "in a tree that there is")
  })

  it("is an edit", () => {
    for (const kind of ["command", "network", "other", undefined] as const) {
      assert.isFalse(isPlainEdit({ kind, removes: false, paths: ["shop/a"] }, folders))
    }
  })

  it.prop("has only unprotected names below a tree, whatever its names are made of", [Paths, Schema.Boolean], ([paths, removes]) => {
    const named = paths.map((pieces) => pieces.join("/"))
    const plain = isPlainEdit({ kind: "edit", removes, paths: named }, folders)
    const isGood = (pieces: ReadonlyArray<string>) =>
      pieces.length > 1 && folders.includes(pieces[0] ?? "") && pieces.every((piece) => !["", ".", ".."].includes(piece)) &&
      !isProtected(pieces.join("/"))
    assert.strictEqual(plain, !removes && paths.length > 0 && paths.every(isGood))
    // No order and no repetition of files makes an edit plain.
    assert.strictEqual(isPlainEdit({ kind: "edit", removes, paths: [...named, ...named].reverse() }, folders), plain)
    if (plain) { for (const path of named) assert.isTrue(edit(path), "each file alone is plain too") }
  }, { arbitrary: { runs: 1000 } })
})

describe("an approval for the rest of a turn", () => {
  it.each(
    [
      [{ kind: "edit", plain: true }, "edit"],
      [{ kind: "edit" }, null],
      [{ kind: "command" }, "command"],
      [{ kind: "network" }, "network"],
      [{ kind: "other" }, null],
      [{}, null]
    ] as const
  )("covers, with a request like %j, those of the kind %s", (request, kind) => assert.strictEqual(coveredKind(request), kind))
})
