import { assert, it } from "@effect/vitest"
import { modelOf, profileTakesImages, refusalOfFiles } from "@slipway/domain/models/rules/Images"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"

const files = [{ name: "a.txt", mediaType: "text/plain" }, { name: "b.svg", mediaType: "image/svg+xml" }]
const picture = { name: "c.png", mediaType: "image/png" }

it("refuses images to a model that takes none, by its catalogue or else by its runtime, and never other files", () => {
  for (const profile of ["claude", "codex", "opencode", "offline", "grok", "unknown"]) {
    for (const images of [undefined, true, false]) {
      const model = { id: "m", profile, ...(images === undefined ? {} : { images }) }
      assert.isNull(refusalOfFiles(model, files))
      const refusal = refusalOfFiles(model, [...files, picture])
      assert.strictEqual(refusal === null, images ?? !["grok", "unknown"].includes(profile))
      assert.match(refusal?.message ?? "m c.png", /m.*c\.png/u)
    }
  }
})

it("judges a model that is no longer offered by the runtime of its sandbox", () => {
  const catalogue = { default: null, models: [{ ...offlineDemo, images: false }] }
  assert.deepInclude(modelOf(catalogue, { model: offlineDemo.id, agentRuntime: "opencode" }), { images: false, profile: "offline" })
  assert.deepStrictEqual(modelOf(catalogue, { model: "old", agentRuntime: "grok" }), { id: "old", profile: "grok" })
  assert.isFalse(profileTakesImages("grok"))
})
