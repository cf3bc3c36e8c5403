/** The messages about a cluster for an operator. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as PodTemplate from "../src/PodTemplate.ts"
import * as Probe from "../src/Probe.ts"
import { cluster, options, OWNER, type TestCluster } from "./Fixture.ts"

/** As the chart makes it. */
const POLICY = {
  podSelector: {},
  policyTypes: ["Ingress", "Egress"],
  ingress: [{
    ports: [{ port: 4003, protocol: "TCP" }],
    from: [{ podSelector: { matchLabels: { "app.kubernetes.io/component": "worker" } } }]
  }]
}

const policy = ({ server }: TestCluster, name: string, spec: unknown) =>
  server.put("networkpolicies", { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", metadata: { name }, spec })

const look = (made: TestCluster, change: Partial<Probe.Options & Probe.Options["template"]> = {}) => {
  const { owner, ...template } = options(made)
  return Effect.map(
    Probe.examine({ cluster: made.cluster, owner, template: { ...template, ...change }, ...change }),
    (findings) => new Map(findings.map(({ detail, state, what }) => [what, [state, detail] as const]))
  )
}

const byRuntimeClass = (runtimeClassName: string) => ({ podTemplate: { ...PodTemplate.EMPTY, spec: { runtimeClassName } } })

describe("what a cluster gives machines", () => {
  it.live("is all there where the chart was installed", () =>
    Effect.gen(function*() {
      const made = yield* cluster
      made.server.runtimeClasses.push("runc", "kata-qemu")
      policy(made, "slipway", POLICY)
      const found = yield* look(made)
      const states = [...found].filter(([, [state]]) => state !== "ok").map(([what]) => what)
      assert.deepStrictEqual(states, ["Kubernetes: kernel"])
      assert.include(found.get("Kubernetes: kernel")?.[1], "may give each its own: kata-qemu.")
      assert.include(found.get("Kubernetes")?.[1], "v1.33.1")
      assert.isTrue(found.get("Kubernetes: pods")?.[1].includes("watch"))
      assert.deepStrictEqual((yield* look(made, byRuntimeClass("kata-qemu"))).get("Kubernetes: kernel")?.[0], "ok")
    }))

  it.live("is told to be missing where it is", () =>
    Effect.gen(function*() {
      const made = yield* cluster
      made.server.runtimeClasses.push("kata")
      for (const verb of ["delete pods", "get secrets", "list events"]) made.server.forbidden.add(verb)
      made.server.remove("configmaps", OWNER)
      const found = yield* look(made, byRuntimeClass("gvisor"))
      const missing = [...found].filter(([, [state]]) => state === "missing").map(([what]) => what)
      assert.deepStrictEqual(missing, [
        "Kubernetes: pods",
        "Kubernetes: secrets",
        "Kubernetes: kernel",
        "Kubernetes: network",
        "Kubernetes: owner"
      ])
      assert.include(found.get("Kubernetes: pods")?.[1], "may not delete pods in sandboxes")
      assert.include(found.get("Kubernetes: kernel")?.[1], "There is no runtime class gvisor. Those there are: kata.")
      assert.include(found.get("Kubernetes: owner")?.[1], "create configmap slipway")
      assert.strictEqual(found.get("Kubernetes: events")?.[0], "note")
    }))

  it.live("is one line where there is no API server", () =>
    Effect.gen(function*() {
      const made = yield* cluster
      const found = yield* look(made, { cluster: { ...made.cluster, server: new URL("https://127.0.0.1:1") } })
      assert.deepStrictEqual([...found.keys()], ["Kubernetes"])
      assert.include(found.get("Kubernetes")?.[1], "cannot be reached (ECONNREFUSED)")
    }))

  for (
    const [title, policies, state, expected] of [
      ["nothing but what the chart makes", [POLICY], "ok", "nothing out, workers alone in"],
      ["no policy", [], "missing", "No network policy keeps sandboxes from the network"],
      ["one for others alone", [{ ...POLICY, podSelector: { matchLabels: { app: "other" } } }], "missing", "No network policy keeps"],
      ["a machine without news of its outgoing traffic", [{ ...POLICY, policyTypes: ["Ingress"] }], "missing", "keeps sandboxes from"],
      ["a network with a way out", [POLICY, { podSelector: {}, egress: [{}], policyTypes: ["Egress"] }], "missing", "policy-1 allows"],
      ["a network open to all clients", [{ ...POLICY, ingress: [{ ports: [{ port: 4003 }] }] }], "note", "policy-0 lets more"],
      ["a network with a way to other ports", [{ ...POLICY, ingress: [{ from: [{}], ports: [{ port: 1, endPort: 9000 }] }] }], "note",
        "lets more"],
      ["a network closed to all clients", [{ ...POLICY, ingress: [] }], "missing", "No network policy lets workers"],
      ["nothing of what comes in", [{ podSelector: {}, policyTypes: ["Egress"] }], "note", "Everybody in the cluster"]
    ] as ReadonlyArray<readonly [string, ReadonlyArray<unknown>, string, string]>
  ) {
    it.live(`says of its network what the policies say: ${title}`, () =>
      Effect.gen(function*() {
        const made = yield* cluster
        for (const [i, spec] of policies.entries()) policy(made, `policy-${i}`, spec)
        const [seen, detail] = (yield* look(made)).get("Kubernetes: network") ?? assert.fail()
        assert.include(detail, expected)
        assert.strictEqual(seen, state)
      }))
  }
})
