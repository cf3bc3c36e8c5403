/** The permissions of a sandbox's pod, whatever is set. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Labels from "../src/Labels.ts"
import * as MachinePod from "../src/MachinePod.ts"
import { cluster, options, orderOf } from "./Fixture.ts"
import { complaints } from "./Schemas.ts"

// Kubernetes checks this by its schemas; tests read it as it is.
// oxlint-disable-next-line typescript/no-explicit-any
const specOf = (made: { readonly spec: object }): any => made.spec

describe("the pod of a sandbox", () => {
  it.live("matches the schema of Kubernetes with a pod template, whose labels and annotations do not replace ours", () =>
    Effect.gen(function*() {
      const template = {
        ...options(yield* cluster),
        podTemplate: {
          labels: { team: "tools", [Labels.SANDBOX]: "other" },
          annotations: { note: "kept", [Labels.CERTIFICATE]: "other" },
          spec: {
            runtimeClassName: "kata",
            nodeSelector: { pool: "sandboxes" },
            tolerations: [{ key: "sandboxes", operator: "Exists" }],
            imagePullSecrets: [{ name: "registry" }]
          }
        }
      }
      const order = orderOf("a")
      const owner = { apiVersion: "v1", kind: "ConfigMap", name: "slipway", uid: "1" }
      const made = MachinePod.pod(template, order, owner)
      assert.deepStrictEqual(complaints(made), [])
      assert.deepInclude(specOf(made), template.podTemplate.spec)
      assert.deepInclude(made.metadata.labels, { team: "tools", [Labels.SANDBOX]: order.sandboxId })
      const annotations: Readonly<Record<string, string>> = made.metadata.annotations
      assert.deepInclude(annotations, { note: "kept", [Labels.CERTIFICATE]: Labels.digestOf(order.identity.certificate) })
      assert.isNotEmpty(complaints({ ...made, spec: { ...made.spec, hostuser: false } }))
      assert.deepStrictEqual(complaints(MachinePod.secret(template, order, owner)), [])
    }))

  it.live("has no network name, no token, no root of its node, and nothing to write to but what has a bound", () =>
    Effect.gen(function*() {
      const template = options(yield* cluster)
      const spec = specOf(MachinePod.pod(template, orderOf("a"), null))
      assert.deepInclude(spec, {
        hostUsers: false,
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        dnsPolicy: "None",
        restartPolicy: "Always"
      })
      assert.isUndefined(spec.hostNetwork ?? spec.hostPID ?? spec.hostIPC ?? spec.serviceAccountName)
      assert.deepStrictEqual(spec.securityContext.seccompProfile, { type: "RuntimeDefault" })
      const [container, ...others] = spec.containers
      assert.deepStrictEqual([others, spec.initContainers], [[], undefined])
      assert.deepInclude(container.securityContext, {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        privileged: false
      })
      assert.deepStrictEqual(container.securityContext.capabilities.drop, ["ALL"])
      assert.deepStrictEqual([container.env, container.envFrom], [undefined, undefined])
      for (const { emptyDir, name, secret } of spec.volumes) {
        if (secret === undefined) assert.isAbove(Number(emptyDir.sizeLimit), 0, name)
        else assert.strictEqual(secret.defaultMode, 0o400)
      }
      const { limits, requests } = container.resources
      assert.deepStrictEqual(Object.keys(limits), Object.keys(requests))
      assert.deepStrictEqual([limits.cpu, requests.cpu, limits.memory, requests.memory], ["2000m", "500m", String(2 ** 30),
        String(2 ** 28)])
      assert.isAbove(Number(limits["ephemeral-storage"]), template.limits.diskBytes)
    }))

  it.live("has its key in no field but its Secret", () =>
    Effect.gen(function*() {
      const template = options(yield* cluster)
      const order = orderOf("a")
      const line = order.identity.privateKey.split("\n")[1] ?? assert.fail()
      assert.notInclude(JSON.stringify(MachinePod.pod(template, order, null)), line)
      assert.include(JSON.stringify(MachinePod.secret(template, order, { apiVersion: "v1", kind: "Pod", name: "a", uid: "1" })), line)
    }))

  it.live("counts processes of its own alone: without a user namespace the kernel would count those of others", () =>
    Effect.gen(function*() {
      const template = options(yield* cluster)
      const command = (userNamespaces: boolean) =>
        specOf(MachinePod.pod({ ...template, userNamespaces }, orderOf("a"), null)).containers[0].command
      assert.include(command(true), "--nproc=1024")
      assert.notInclude(command(false), "--nproc=1024")
    }))
})
