/** The operator's pod template: allowed fields, and the message about a refused one. */
import { assert, describe, it } from "@effect/vitest"
import { temporaryFolder } from "@slipway/machine/testing/hosts/Machine"
import { Effect } from "effect"
import * as PodTemplate from "../src/PodTemplate.ts"
import { writeText } from "./Fixture.ts"

const read = (text: string) =>
  Effect.gen(function*() {
    return yield* PodTemplate.read(yield* writeText(yield* temporaryFolder, "pod.yaml", text))
  })

describe("a pod template", () => {
  it.live("says on which nodes and by which runtime class pods run", () =>
    Effect.gen(function*() {
      const template = yield* read(`
apiVersion: v1
kind: Pod
metadata: { labels: { team: tools } }
spec:
  runtimeClassName: kata
  nodeSelector: { pool: sandboxes }
  tolerations: [{ key: sandboxes, operator: Exists }]
  imagePullSecrets: [{ name: registry }]
`)
      assert.deepStrictEqual(template, {
        labels: { team: "tools" },
        annotations: {},
        spec: {
          runtimeClassName: "kata",
          nodeSelector: { pool: "sandboxes" },
          tolerations: [{ key: "sandboxes", operator: "Exists" }],
          imagePullSecrets: [{ name: "registry" }]
        }
      })
      assert.deepStrictEqual(yield* read("{}"), PodTemplate.EMPTY)
    }))

  for (
    const [title, text, expected] of [
      ["fields of ours", "spec: { containers: [], hostNetwork: true }\nmetadata: { name: a }",
        "metadata.name, spec.containers, spec.hostNetwork."],
      ["an unknown field", "specs: {}", "does not allow: specs."],
      ["another kind", "kind: Deployment", "is no Pod"],
      ["a value of another type", "spec: { nodeSelector: [] }", "is no Pod"],
      ["invalid YAML", "a: [", "is invalid YAML"]
    ] as const
  ) {
    it.live(`is refused with ${title}`, () =>
      Effect.gen(function*() {
        const { message } = yield* Effect.flip(read(text))
        assert.include(message, expected)
      }))
  }
})
