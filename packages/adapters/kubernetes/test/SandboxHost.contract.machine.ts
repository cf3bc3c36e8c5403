/** Hosts whose machines are pods, by the rules of every host: pods are containers here, in network namespaces of their own. */
import { assert, it } from "@effect/vitest"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as Egress from "@slipway/machine/egress/Egress"
import { freshId } from "@slipway/machine/testing/hosts/bubblewrap.fixture"
import * as Machine from "@slipway/machine/testing/hosts/Machine"
import * as Probe from "@slipway/runner/host/Probe"
import * as SandboxHostRunner from "@slipway/runner/host/SandboxHostRunner"
import { Machines } from "@slipway/runner/machines/Machines"
import * as Cable from "@slipway/runner/testing/Cable"
import { absent } from "@slipway/runner/testing/Machines.fixture"
import * as SandboxHostContract from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Context, Effect, Layer } from "effect"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { clusterOf, nameOf, type TestCluster, worker } from "./Fixture.ts"

const root = fileURLToPath(new URL("../../../..", import.meta.url))

class Cluster extends Context.Service<Cluster, TestCluster>()("test/Cluster") {}

const layer = (options: Omit<SandboxHostRunner.Options, "directory"> = {}) =>
  Layer.unwrap(Effect.gen(function*() {
    const known = yield* Machine.temporaryFolder
    const networks = yield* Effect.forEach([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], Cable.cableOf)
    const made = yield* clusterOf({ networks, sees: [...new Set([root, path.dirname(process.execPath)])] })
    const machines = yield* worker(made)
    return SandboxHostRunner.layer({ directory: known, ...options }).pipe(
      Layer.provideMerge(Layer.succeed(Machines, machines)),
      Layer.provideMerge(Egress.layer({ allow: new Set() })),
      Layer.provideMerge(Layer.succeed(Cluster, made))
    )
  }))

const fixture: SandboxHostContract.Fixture<Cluster> = {
  hasTreesInBox: true,
  workspace: (sandboxId) => Cluster.useSync(({ kubelet }) => path.join(kubelet.folderOf(nameOf({ sandboxId })), "workspace")),
  running: Machine.running
}

const reason = absent("bubblewrap") ?? Cable.noNamespaces

if (reason === undefined) register(SandboxHostContract.suite("machines of Kubernetes", layer(), fixture))
else it.skip(`SandboxHost (machines of Kubernetes) (${reason})`)

it.live.skipIf(reason !== undefined)(
  "a machine of Kubernetes keeps in what the probe looks for, but where no network policy is in force",
  () =>
    Effect.gen(function*() {
      // As a cluster's network is that does not know policies.
      const { missing } = yield* Effect.flip(Probe.run({ host: yield* SandboxHost, hidden: [] }))
      assert.lengthOf(missing, 1)
      assert.match(missing[0], /reaches the worker's own network: 198\.1[89]\.\d+\.\d+/u)
    }).pipe(Effect.provide(layer()))
)

it.live.skipIf(reason !== undefined)(
  "what runs in a machine that Kubernetes evicts has ended, also for a worker that would wait for hours to hear of it",
  () =>
    Effect.gen(function*() {
      const { kubelet } = yield* Cluster
      const sandboxId = freshId()
      const box = yield* SandboxHost.use((host) => host.provision({ sandboxId, fence: 1 }))
      const process = yield* box.spawn({ command: "cat", args: [], env: {} })
      kubelet.evict(nameOf({ sandboxId }))
      assert.deepStrictEqual(yield* process.exited, { code: null, signal: "SIGKILL" })
    }).pipe(Effect.scoped, Effect.provide(layer({ timing: { patience: "10 hours" } })))
)
