import { assert, describe, it } from "@effect/vitest"
import { header, members, opened } from "@slipway/domain/environment/rules/CachedArchive"
import type { CachePath } from "@slipway/domain/environment/rules/CachePath"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"

const paths: ReadonlyArray<CachePath> = [{ base: "tree", path: "node_modules" }, { base: "home", path: ".npm" }]
const bytesOf = (text: string) => new TextEncoder().encode(text)
const read = (...chunks: ReadonlyArray<Uint8Array>) =>
  Effect.gen(function*() {
    const { archive, paths } = yield* opened(Stream.fromIterable(chunks, { chunkSize: 1 }), (detail) => detail)
    const parts = yield* Stream.runCollect(archive)
    return { paths, archive: parts.flatMap((part) => [...part]) }
  }).pipe(Effect.scoped)

describe("a cache", () => {
  it("begins with its folders in one line", () =>
    assert.strictEqual(new TextDecoder().decode(header(paths)), "{\"format\":1,\"paths\":[\"node_modules\",\"~/.npm\"]}\n"))

  it("has the folders of the tree and of the home by different names, and none is an option of tar", () =>
    assert.deepStrictEqual(members([...paths, { base: "tree", path: "-x" }], ({ base }) => `/${base}`), [
      "-C",
      "/tree",
      "--add-file=node_modules",
      "-C",
      "/home",
      "--add-file=./.npm",
      "-C",
      "/tree",
      "--add-file=-x"
    ]))

  it.effect("is read in any pieces, and its archive may have line feeds", () =>
    Effect.gen(function*() {
      const archive = [1, 10, 2, 10, 3]
      const whole = Uint8Array.of(...header(paths), ...archive)
      const read1 = yield* read(whole)
      assert.deepStrictEqual(read1, { paths: ["node_modules", "~/.npm"], archive })
      assert.deepStrictEqual(yield* read(...Array.from(whole, (byte) => Uint8Array.of(byte))), read1)
      assert.deepStrictEqual(yield* read(header([])), { paths: [], archive: [] })
    }))

  it.effect.each(
    [
      ["{\"format\":2,\"paths\":[]}\n", "they are of another version of the service."],
      ["{\"format\":0,\"paths\":[]}\n", "they are of another version of the service."],
      ["{\"paths\":[]}\n", "they are of another version of the service."],
      ["\n", "they are of another version of the service."],
      ["{\"format\":1,\"paths\":[]}", "they are cut."],
      ["", "they are cut."]
    ] as const
  )("that begins with %j is refused: %s", ([text, problem]) =>
    Effect.gen(function*() {
      assert.strictEqual(yield* Effect.flip(read(bytesOf(text))), problem)
    }))

  it.effect("has its first line within 256 KiB", () =>
    Effect.gen(function*() {
      const problem = (size: number) => Effect.flip(read(bytesOf("x".repeat(size)), bytesOf("\n")))
      assert.strictEqual(yield* problem(262_144), "they are of another version of the service.")
      assert.strictEqual(yield* problem(262_145), "they are cut.")
    }))
})
