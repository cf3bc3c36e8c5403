import { assert, describe, it } from "@effect/vitest"
import { FILES, findEnvironment, unread } from "@slipway/domain/environment/rules/FindEnvironment"
import * as Effect from "effect/Effect"

const surroundings = { workspaceFolder: "/work/shop", env: new Map<string, string>() }
const find = (tree: Readonly<Record<string, string>>) => {
  const asked: Array<string> = []
  return Effect.map(
    findEnvironment((path) =>
      Effect.sync(() => {
        asked.push(path)
        return tree[path] ?? null
      }), surroundings),
    (found) => ({ asked, file: found?.file ?? null, source: found?.environment.source ?? null })
  )
}

describe("the environment of a tree", () => {
  it.effect("is said by the first file of the order, and no other is read", () =>
    Effect.gen(function*() {
      const tree = { ".slipway/environment.json": "{}", ".devcontainer/devcontainer.json": "{", ".devcontainer.json": "{" }
      assert.deepStrictEqual(yield* find(tree), { asked: [FILES[0]], file: FILES[0], source: "slipway" })
    }))

  it.effect("may be a devcontainer.json, in its folder before the one beside it", () =>
    Effect.gen(function*() {
      const both = yield* find({ ".devcontainer.json": "{", ".devcontainer/devcontainer.json": "{} // here" })
      assert.deepStrictEqual([both.file, both.source], [FILES[1], "devcontainer"])
      const one = yield* find({ ".devcontainer.json": "{}" })
      assert.deepStrictEqual([one.file, one.source], [FILES[2], "devcontainer"])
    }))

  it.effect("is nothing when no file says it", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* find({ "package.json": "{}" }), { asked: [...FILES], file: null, source: null })
    }))

  it.effect("cannot be used when the first file cannot, whatever the others say", () =>
    Effect.gen(function*() {
      const { file } = yield* Effect.flip(find({ ".slipway/environment.json": "{", ".devcontainer.json": "{}" }))
      assert.strictEqual(file, FILES[0])
    }))
})

it("names the files that other tools offer for choice, twenty at most", () => {
  const offered = Array.from({ length: 25 }, (_, i) => `.devcontainer/${i}/devcontainer.json`)
  const others = ["a/.devcontainer/x/devcontainer.json", ".devcontainer/devcontainer.json", ".devcontainer/a/b/devcontainer.json",
    ".devcontainer//devcontainer.json", ".devcontainer/x/devcontainer.jsonc"]
  assert.deepStrictEqual(unread([...others, ...offered]), offered.slice(0, 20))
})
