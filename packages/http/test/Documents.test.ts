/** The pages that people read first. */
import { assert, describe, it } from "@effect/vitest"
import { existsSync, globSync, readFileSync, statSync } from "node:fs"
import path from "node:path"

const root = path.resolve(import.meta.dirname, "../../..")
const pages = globSync(["*.md", "docs/**/*.md", "examples/*/README.md", "packages/*/README.md"], {
  cwd: root,
  exclude: ["**/node_modules"]
})

describe("documents", () => {
  it("the README fits into 5,000 bytes", () => {
    assert.isAtMost(statSync(path.join(root, "README.md")).size, 5_000)
  })

  it("every link to a file of this repository leads to one", () => {
    const broken = pages.flatMap((page) =>
      [...readFileSync(path.join(root, page), "utf8").matchAll(/\]\((?!https?:|#)([^)\s#]+)/gu)].flatMap(([, link = ""]) =>
        existsSync(path.resolve(root, path.dirname(page), link)) ? [] : [`${page}: ${link}`]
      )
    )
    assert.deepStrictEqual(broken, [])
    assert.isAbove(pages.length, 10)
  })
})
