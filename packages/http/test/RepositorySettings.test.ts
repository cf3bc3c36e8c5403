/** The settings that owners chose for the pull requests of repositories, over the internal API. */
import { assert, layer } from "@effect/vitest"
import { Ids } from "@slipway/domain/ids/Ids"
import { NO_SETTINGS } from "@slipway/domain/source/schema/RepoSettings"
import { Effect } from "effect"
import { ask, layer as http, mintKey } from "../testing/Harness.ts"

const PATH = "/api/internal/v1/repository-settings"
const SETTINGS = { ...NO_SETTINGS, labels: ["agent"], reviewers: ["ada", "acme/payments"], coAuthor: true }

layer(http(), { excludeTestServices: true })("settings of repositories", (it) => {
  it.effect("are of the key's grant, are replaced, and go with those of no choice", () =>
    Effect.gen(function*() {
      const keyOf = Effect.gen(function*() {
        return (yield* mintKey({ grant: yield* (yield* Ids).uuid7, scopes: ["secrets"] })).key
      })
      const [key, other] = [yield* keyOf, yield* keyOf]
      const set = (settings: unknown, repo = "acme/shop") =>
        ask(`${PATH}?${new URLSearchParams({ repo }).toString()}`, { key, method: "PUT", body: JSON.stringify(settings) })
      const list = (by: string) => Effect.map(ask(PATH, { key: by }), ({ text }) => JSON.parse(text).data)

      const answer = yield* set(SETTINGS)
      assert.deepStrictEqual([answer.status, JSON.parse(answer.text)], [200, SETTINGS])
      yield* set({ ...SETTINGS, coAuthor: false }, "Acme/SHOP")
      const [listed, ...rest] = yield* list(key)
      assert.deepInclude(listed, { repo: "Acme/SHOP", settings: { ...SETTINGS, coAuthor: false } })
      assert.deepStrictEqual([rest, yield* list(other)], [[], []])
      yield* set(NO_SETTINGS)
      assert.deepStrictEqual(yield* list(key), [])
    }))

  it.effect("are refused whole where one is wrong", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: yield* (yield* Ids).uuid7, scopes: ["secrets"] })
      const feedback = NO_SETTINGS.feedback
      for (
        const wrong of [
          { ...SETTINGS, labels: ["x".repeat(51)] },
          { ...SETTINGS, labels: [" agent"] },
          { ...SETTINGS, labels: ["agent\n"] },
          { ...SETTINGS, labels: ["agent", "Agent"] },
          { ...SETTINGS, labels: Array.from({ length: 21 }, (_, i) => `l${i}`) },
          { ...SETTINGS, reviewers: ["@ada"] },
          { ...SETTINGS, reviewers: ["../ada"] },
          { ...SETTINGS, reviewers: Array.from({ length: 16 }, (_, i) => `r${i}`) },
          { ...SETTINGS, feedback: { ...feedback, rounds: 0 } },
          { ...SETTINGS, feedback: { ...feedback, rounds: 21 } },
          { ...SETTINGS, feedback: { ...feedback, comments: "some" } },
          { ...SETTINGS, more: 1 },
          { labels: [] }
        ]
      ) {
        const { status } = yield* ask(`${PATH}?repo=acme/shop`, { key, method: "PUT", body: JSON.stringify(wrong) })
        assert.strictEqual(status, 400, JSON.stringify(wrong).slice(0, 100))
      }
      assert.strictEqual((yield* ask(`${PATH}?repo=shop`, { key, method: "PUT", body: JSON.stringify(SETTINGS) })).status, 400)
      assert.deepStrictEqual(JSON.parse((yield* ask(PATH, { key })).text).data, [])
    }))
})
