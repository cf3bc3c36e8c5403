/** The pages that people read first. */
import { assert, describe, it } from "@effect/vitest"
import { readEnvironment } from "@slipway/domain/environment/rules/Environment"
import { Result } from "effect"
import { existsSync, globSync, readFileSync, statSync } from "node:fs"
import path from "node:path"

const root = path.resolve(import.meta.dirname, "../../..")
const pages = globSync(["*.md", "docs/**/*.md", "examples/*/README.md", "packages/{*,adapters/*}/README.md"], {
  cwd: root,
  exclude: ["**/node_modules"]
})

describe("documents", () => {
  it("the README fits into 5,000 bytes", () => {
    assert.isAtMost(statSync(path.join(root, "README.md")).size, 5_000)
  })

  it("every example of an environment is valid", () => {
    const text = readFileSync(path.join(root, "docs/environments.md"), "utf8")
    // Some have the file that they are as a title.
    const examples = [...text.matchAll(/^```json(?! output)[^\n]*\n(.*?)^```/gmsu)].map(([, example = ""]) => example)
    assert.isAtLeast(examples.length, 5)
    for (const example of examples) Result.getOrThrow(readEnvironment("docs/environments.md", example))
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
