/** The objects that we send and read, by the schemas of each version of Kubernetes. No real cluster is asked. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import * as MachinePod from "../src/MachinePod.ts"
import * as ObjectSchemas from "../src/ObjectSchemas.ts"
import { cluster, options, orderOf } from "./Fixture.ts"
import { complaints, unknownFields, VERSIONS } from "./Schemas.ts"

/** The schemas by which answers are read, and the kinds of the answers. */
const READ: ReadonlyArray<readonly [schema: Schema.Top, kind: string]> = [
  [ObjectSchemas.Pod, "v1 Pod"],
  [ObjectSchemas.KubernetesObject, "v1 Secret"],
  [ObjectSchemas.KubernetesObject, "v1 ConfigMap"],
  [ObjectSchemas.Named, "v1 Pod"],
  [ObjectSchemas.Page, "v1 PodList"],
  [ObjectSchemas.WarningEvent, "v1 Event"],
  [ObjectSchemas.NetworkPolicy, "networking.k8s.io/v1 NetworkPolicy"],
  [ObjectSchemas.AccessReview, "authorization.k8s.io/v1 SelfSubjectAccessReview"]
]

describe.each(VERSIONS)("Kubernetes %s", (version) => {
  it.live("knows every field of the objects that we make, with its type", () =>
    Effect.gen(function*() {
      const template = options(yield* cluster)
      const owner = { apiVersion: "v1", kind: "ConfigMap", name: "slipway", uid: "1" }
      const pod = MachinePod.pod(template, orderOf("a"), owner)
      assert.deepStrictEqual(complaints(pod, [version]), [])
      assert.deepStrictEqual(complaints(MachinePod.secret(template, orderOf("a"), owner), [version]), [])
      assert.match(complaints({ ...pod, spec: { ...pod.spec, hostUser: false } }, [version]).join(), /hostUser/u)
      assert.match(complaints({ ...pod, spec: { ...pod.spec, hostUsers: "false" } }, [version]).join(), /hostUsers must be boolean/u)
      assert.match(complaints({ ...pod, spec: {} }, [version]).join(), /required property 'containers'/u)
    }))

  it("has every field that we read, with its type", () => {
    for (const [schema, kind] of READ) assert.deepStrictEqual(unknownFields(schema, kind, version), [], kind)
    const wrong = Schema.Struct({ status: Schema.Struct({ phase: Schema.Int, podIp: Schema.String }) })
    assert.deepStrictEqual(unknownFields(wrong, "v1 Pod", version), ["v1 Pod.status.phase is no integer",
      "v1 Pod.status.podIp is not there"])
    const item = Schema.Struct({ items: Schema.Array(Schema.Struct({ spec: Schema.Struct({ node: Schema.String }) })) })
    assert.deepStrictEqual(unknownFields(item, "v1 PodList", version), ["v1 PodList.items[].spec.node is not there"])
  })
})
