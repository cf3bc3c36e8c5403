/** The differences between versions of a tree over HTTP (docs/decisions/16). */
import { assert, layer } from "@effect/vitest"
import type { CheckpointTrees } from "@slipway/domain/files/ports/RemoteTrees"
import {
  type DiffQuery,
  FileTooLarge,
  OnBehalfOf,
  TreesUnavailable,
  UnknownCommit,
  type WorkingTrees
} from "@slipway/domain/files/ports/WorkingTrees"
import { CheckpointNotFound } from "@slipway/domain/sandbox/ports/Checkpoints"
import { Effect } from "effect"
import { checkpointed, shaOf } from "../testing/Checkpointed.ts"
import { ask, create, layer as http, mintKey, refused, SANDBOXES } from "../testing/Harness.ts"

const PATCH = "diff --git a/src/main.ts b/src/main.ts\n--- a/src/main.ts\n+++ b/src/main.ts\n@@ -1 +1 @@\n-a\n+\u00e9\n" +
  "# Protected file modified: .env\n"

const asked: Array<{ readonly repo: string; readonly for: string; readonly query: DiffQuery }> = []
/** The checkpoints of other machines that the trees have learned. */
const learned = new Set<string>()
/** The name of the path says what becomes of it. */
const trees: Partial<WorkingTrees["Service"]> = {
  has: () => Effect.succeed(true),
  diff: Effect.fnUntraced(function*({ repo }, query) {
    asked.push({ repo, for: yield* OnBehalfOf, query })
    if (query.path === "huge") return yield* new FileTooLarge({ maximumBytes: query.maximumBytes })
    if (query.path === "busy") return yield* new TreesUnavailable({ detail: "Git did not get its turn.", retryable: true })
    if (query.path === "elsewhere" && !learned.has(query.from)) return yield* new UnknownCommit({ commits: [query.from] })
    return new TextEncoder().encode(query.path === "same" ? "" : PATCH)
  })
}

const diff = (key: string, id: string, query = "") => ask(`${SANDBOXES}/${id}/files/diff${query}`, { key })

/** The first checkpoint can be read, the second one no more. */
const restored: Partial<CheckpointTrees["Service"]> = {
  learn: (_of, _tree, commits) =>
    commits.includes(shaOf(2))
      ? new CheckpointNotFound()
      : Effect.sync(() => commits.forEach((commit) => learned.add(commit)))
}

layer(http({ trees, restored }), { excludeTestServices: true })("what differs", (it) => {
  it.effect("is a patch as the trees tell it, from where the sandbox started to what is there now", () =>
    Effect.gen(function*() {
      const { grant, key } = yield* mintKey()
      const { id } = yield* checkpointed(key, 0)
      asked.length = 0
      const reply = yield* diff(key, id)
      assert.deepStrictEqual([reply.status, reply.headers["content-type"], reply.text], [200, "text/x-diff; charset=utf-8", PATCH])
      const maximumBytes = 10 * 2 ** 20
      assert.deepStrictEqual(asked, [{
        repo: "acme/shop",
        for: grant.id,
        query: { from: "base", to: "working", maximumBytes, isWhole: true }
      }])
      const same = yield* diff(key, id, "?path=./src/../same&repo=ACME/Shop")
      assert.deepStrictEqual([same.status, same.headers["content-type"], same.text], [200, "text/x-diff; charset=utf-8", ""])
      assert.deepStrictEqual(asked[1]?.query, { from: "base", to: "working", path: "same", maximumBytes, isWhole: true })
    }))

  it.effect("is told of checkpoints by the commits that they have", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* checkpointed(key)
      asked.length = 0
      for (const query of ["?from=1", "?from=1&to=2", "?from=working&to=base"]) {
        assert.strictEqual((yield* diff(key, id, query)).status, 200, query)
      }
      assert.deepStrictEqual(asked.map(({ query: { from, to } }) => [from, to]), [
        [shaOf(1), "working"],
        [shaOf(1), shaOf(2)],
        ["working", "base"]
      ])
      for (const query of ["?from=0", "?to=3", "?from=1&to=9007199254740991"]) refused(yield* diff(key, id, query), 404, "not_found")
    }))

  it.effect("says that git is what is not available, and not the store", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* checkpointed(key)
      const reply = yield* diff(key, id, "?path=busy")
      refused(reply, 503, "unavailable")
      assert.strictEqual(JSON.parse(reply.text).error.message, "Git did not get its turn.")
      assert.match(reply.headers["retry-after"] ?? "", /^\d+$/u)
    }))

  it.effect("is no larger than 10 MiB", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* checkpointed(key)
      refused(yield* diff(key, id, "?path=huge"), 413, "file_too_large")
    }))

  it.effect("is told of checkpoints of other machines too, and not of an unreadable one", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* checkpointed(key)
      const reply = yield* diff(key, id, "?from=1&to=2&path=elsewhere")
      assert.deepStrictEqual([reply.status, reply.text], [200, PATCH])
      refused(yield* diff(key, id, "?from=2&path=elsewhere"), 404, "not_found")
    }))

  it.effect("is for those who may see the sandbox, while it has trees", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* checkpointed(key)
      const { key: other } = yield* mintKey({ grant: "other" })
      asked.length = 0
      for (const query of ["", "?from=1", "?from=7"]) refused(yield* diff(other, id, query), 404, "not_found")
      refused(yield* diff(key, yield* create(key)), 409, "sandbox_not_running")
      yield* ask(`${SANDBOXES}/${id}/terminate`, { key, method: "POST" })
      for (const query of ["", "?from=1", "?from=1&to=2"]) refused(yield* diff(key, id, query), 409, "sandbox_not_running")
      assert.deepStrictEqual(asked, [])
    }))
})

layer(http({ trees }), { excludeTestServices: true })("the difference, where checkpoints cannot be read", (it) => {
  it.effect("is to be asked for again where the trees have not what the checkpoint has", () =>
    Effect.gen(function*() {
      learned.clear()
      const { key } = yield* mintKey()
      const { id } = yield* checkpointed(key)
      const reply = yield* diff(key, id, "?from=1&path=elsewhere")
      refused(reply, 409, "agent_disconnected")
      assert.strictEqual(reply.headers["retry-after"], "1")
    }))
})

layer(http(), { excludeTestServices: true })("checkpoints", (it) => {
  it.effect("are at most a hundred on a page, which is also the default", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* checkpointed(key, 101)
      for (const query of ["", "?limit=100"]) {
        const { data, nextCursor } = JSON.parse((yield* ask(`${SANDBOXES}/${id}/checkpoints${query}`, { key })).text)
        assert.deepStrictEqual([data.length, nextCursor], [100, "100"], query)
      }
    }))
})
