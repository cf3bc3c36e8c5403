/** The permissions of a sandbox's pod, whatever is set. */
import { assert, describe, it } from "@effect/vitest"
import * as Identity from "@slipway/runner/wire/Identity"
import { Effect } from "effect"
import * as MachinePod from "../src/MachinePod.ts"
import { CLAIMS, PODS, SANDBOXES } from "../src/Objects.ts"
import { cluster, options, orderOf } from "./Fixture.ts"
import { complaints } from "./Schemas.ts"

// Kubernetes checks this by its schemas; tests read it as it is.
// oxlint-disable-next-line typescript/no-explicit-any
const specOf = (made: { readonly spec: object }): any =>
  "podTemplate" in made.spec ? (made.spec.podTemplate as { readonly spec: unknown }).spec : made.spec

describe("the pod of a sandbox", () => {
  it.live("is what Kubernetes knows, with all that can be set, and what is misspelt is not", () =>
    Effect.gen(function*() {
      const template = {
        ...options(yield* cluster),
        runtimeClass: "kata",
        nodeSelector: { pool: "sandboxes" },
        tolerations: ["sandboxes"],
        pullSecrets: ["registry"]
      }
      const order = orderOf("a")
      const owner = { apiVersion: "v1", kind: "ConfigMap", name: "slipway", uid: "1" }
      for (const kind of [PODS, SANDBOXES]) {
        const made = MachinePod.holder(kind, template, order, owner)
        assert.deepStrictEqual(complaints(made), [])
        const spec = specOf(made)
        assert.deepStrictEqual([spec.runtimeClassName, spec.nodeSelector, spec.imagePullSecrets], ["kata", { pool: "sandboxes" }, [{
          name: "registry"
        }]])
        assert.isNotEmpty(complaints({ ...made, spec: { ...made.spec, hostuser: false } }))
      }
      assert.deepStrictEqual(complaints(MachinePod.secret(template, order, owner)), [])
      const keys = Identity.mint()
      const inPool = MachinePod.poolTemplate(template, keys.runner.certificate, owner)
      const pool = MachinePod.pool(template, inPool.metadata.name, 3, owner)
      const claim = MachinePod.holder(CLAIMS, template, order, owner)
      for (const made of [inPool, pool, claim, MachinePod.poolSecret(template, keys, owner)]) {
        assert.deepStrictEqual(complaints(made), [])
        if ("spec" in made) assert.isNotEmpty(complaints({ ...made, spec: { ...made.spec, hostuser: false } }))
      }
    }))

  it.live("is the same in a pool, but for what it is started with", () =>
    Effect.gen(function*() {
      const template = options(yield* cluster)
      const { certificate } = Identity.mint().runner
      const own = specOf(MachinePod.holder(PODS, template, orderOf("a"), null))
      const made = MachinePod.poolTemplate(template, certificate, null)
      const pooled = specOf(made)
      const [{ command, ...container }] = own.containers
      const [{ command: other, env, ...otherContainer }] = pooled.containers
      const [, ...volumes] = own.volumes
      const [settings, ...otherVolumes] = pooled.volumes
      assert.deepStrictEqual({ ...pooled, containers: [otherContainer], volumes: otherVolumes }, {
        ...own,
        containers: [container],
        volumes
      })
      assert.deepStrictEqual(other.slice(0, command.length - 1), command.slice(0, -1))
      assert.strictEqual(other.at(-1), `$(${env[0].name})`)
      // It has only the runner's half of the pool's Secret.
      assert.deepStrictEqual(settings.secret.items.map(({ key }: { key: string }) => key), ["runner.json"])
      // The controller must not open the network for them.
      assert.strictEqual(made.spec.networkPolicyManagement, "Unmanaged")
      const names = [
        MachinePod.poolTemplate({ ...template, image: "registry.example/slipway:2" }, certificate, null),
        MachinePod.poolTemplate(template, Identity.mint().runner.certificate, null),
        made
      ].map(({ metadata }) => metadata.name)
      assert.lengthOf(new Set(names), 3)
    }))

  it.live("has no network name, no token, no root of its node, and nothing to write to but what has a bound", () =>
    Effect.gen(function*() {
      const template = options(yield* cluster)
      const spec = specOf(MachinePod.holder(PODS, template, orderOf("a"), null))
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
      for (const kind of [PODS, SANDBOXES]) assert.notInclude(JSON.stringify(MachinePod.holder(kind, template, order, null)), line)
      assert.include(JSON.stringify(MachinePod.secret(template, order, { apiVersion: "v1", kind: "Pod", name: "a", uid: "1" })), line)
    }))

  it.live("counts processes of its own alone: without a user namespace the kernel would count those of others", () =>
    Effect.gen(function*() {
      const template = options(yield* cluster)
      const command = (userNamespaces: boolean) =>
        specOf(MachinePod.holder(PODS, { ...template, userNamespaces }, orderOf("a"), null)).containers[0].command
      assert.include(command(true), "--nproc=1024")
      assert.notInclude(command(false), "--nproc=1024")
    }))
})
