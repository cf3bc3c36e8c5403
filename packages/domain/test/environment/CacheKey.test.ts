import { assert, describe, it } from "@effect/vitest"
import { cacheKeyOf, keyFiles } from "@slipway/domain/environment/rules/CacheKey"
import type { SetupCommand } from "@slipway/domain/environment/rules/Environment"
import * as Arbitrary from "effect/Arbitrary"
import * as Schema from "effect/Schema"

const tree = ["README.md", "package-lock.json", "docs/package-lock.json.md", "server/Cargo.lock", "b/go.sum", "a/go.sum"]

describe("the files of a cache's key", () => {
  it("are the lock files of the tree, wherever they lie, in the order of their paths", () => {
    assert.deepStrictEqual(keyFiles({ cacheKey: null }, tree), ["a/go.sum", "b/go.sum", "package-lock.json", "server/Cargo.lock"])
  })

  it("are those that the file names and the tree has, when it names any, or none", () => {
    assert.deepStrictEqual(keyFiles({ cacheKey: ["README.md", "none", "b/go.sum"] }, tree), ["README.md", "b/go.sum"])
    assert.deepStrictEqual(keyFiles({ cacheKey: [] }, tree), [])
  })

  it("are known for every package manager that the contract names", () => {
    const names = ["package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "uv.lock", "requirements.txt", "poetry.lock",
      "Cargo.lock", "go.sum", "Gemfile.lock", "composer.lock", "pom.xml", "gradle.lockfile", "build.gradle", "build.gradle.kts",
      "libs.versions.toml", "gradle-wrapper.properties"]
    assert.lengthOf(keyFiles({ cacheKey: null }, names), names.length)
  })
})

const word = Arbitrary.schema(Schema.String.check(Schema.isMaxLength(6)))
const files = Arbitrary.map(Arbitrary.array(Arbitrary.all([word, word]), { maxLength: 5 }), (entries) => new Map(entries))
const commands: Arbitrary.Arbitrary<ReadonlyArray<ReadonlyArray<SetupCommand>>> = Arbitrary.array(
  Arbitrary.array(Arbitrary.map(Arbitrary.array(word, { maxLength: 2 }), (args): SetupCommand => ({ key: "k", argv: ["sh", ...args] })), {
    maxLength: 2
  }),
  { maxLength: 3 }
)
const cache = Arbitrary.map(
  Arbitrary.array(Arbitrary.schema(Schema.Literals(["a", "b", "c"])), { maxLength: 3 }),
  (paths) => Array.from(new Set(paths), (path) => ({ base: "tree" as const, path }))
)
const env = Arbitrary.map(Arbitrary.array(Arbitrary.all([word, word]), { maxLength: 3 }), (entries) => Object.fromEntries(entries))
const parts = Arbitrary.all({ setup: commands, cache, env, image: word, folder: word, files })

describe("the key of a cache", () => {
  it("stays the same from one version to the next", () => {
    const key = cacheKeyOf({
      setup: [[{ key: "setup[0]", argv: ["/bin/sh", "-c", "npm ci"] }]],
      cache: [{ base: "tree", path: "node_modules" }, { base: "home", path: ".npm" }],
      env: { CI: "true" },
      image: "linux-x64",
      folder: "shop",
      files: new Map([["package-lock.json", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"]])
    })
    assert.strictEqual(key, "ea8b3445ea4ad57e9a7fa52e9bd8d4bbf7add33e66f96666e2aec1590b2ef5bc")
  })

  it.prop("does not depend on the order of files or caches, nor on what commands are called", [parts], ([given]) => {
    assert.strictEqual(
      cacheKeyOf({
        ...given,
        setup: given.setup.map((step) => step.map((command) => ({ ...command, key: "another" }))),
        cache: given.cache.toReversed(),
        env: Object.fromEntries(Object.entries(given.env).reverse()),
        files: new Map(Array.from(given.files).reverse())
      }),
      cacheKeyOf(given)
    )
  })

  it.prop("changes with each file, its name and its content", [parts, word], ([given, name]) => {
    const key = cacheKeyOf(given)
    const content = given.files.get(name)
    assert.notStrictEqual(cacheKeyOf({ ...given, files: new Map([...given.files, [name, `${content ?? ""}x`]]) }), key)
    for (const [path, id] of given.files) {
      const without = new Map([...given.files].filter(([other]) => other !== path))
      assert.notStrictEqual(cacheKeyOf({ ...given, files: without }), key)
      if (!given.files.has(`${path}x`)) assert.notStrictEqual(cacheKeyOf({ ...given, files: without.set(`${path}x`, id) }), key)
    }
  })

  it.prop(
    "changes with the image, with a folder, a variable, where the tree is, each command and the order of commands",
    [parts],
    ([given]) => {
      const { cache, env, folder, image, setup } = given
      const key = cacheKeyOf(given)
      const command: SetupCommand = { key: "k", argv: ["sh"] }
      assert.notStrictEqual(cacheKeyOf({ ...given, image: `${image}x` }), key)
      assert.notStrictEqual(cacheKeyOf({ ...given, folder: `${folder}x` }), key)
      assert.notStrictEqual(cacheKeyOf({ ...given, env: { ...env, CI: `${env["CI"] ?? ""}x` } }), key)
      assert.notStrictEqual(cacheKeyOf({ ...given, cache: [...cache, { base: "home", path: "a" }] }), key)
      assert.notStrictEqual(cacheKeyOf({ ...given, setup: [...setup, [command]] }), key)
      for (const [i, step] of setup.entries()) {
        assert.notStrictEqual(cacheKeyOf({ ...given, setup: setup.with(i, [...step, command]) }), key)
        for (const [j, { argv }] of step.entries()) {
          assert.notStrictEqual(cacheKeyOf({ ...given, setup: setup.with(i, step.with(j, { key: "k", argv: [...argv, ""] })) }), key)
        }
      }
      const turned = setup.toReversed()
      assert.strictEqual(cacheKeyOf({ ...given, setup: turned }) === key, JSON.stringify(turned) === JSON.stringify(setup))
    }
  )

  it.prop("is never the same for different things", [parts, parts], ([a, b]) => {
    const sorted = (entries: Iterable<unknown>) => Array.from(entries, (entry) => JSON.stringify(entry)).sort()
    const canonical = ({ cache, env, files, folder, image, setup }: typeof a) =>
      JSON.stringify([setup, sorted(Object.entries(env)), cache.map(({ path }) => path).sort(), image, folder, sorted(files)])
    assert.strictEqual(cacheKeyOf(a) === cacheKeyOf(b), canonical(a) === canonical(b))
  })
})
