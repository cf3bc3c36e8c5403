/** A cluster of one node, and workers' machines that order pods of it. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { defaults } from "@slipway/machine/host/Limits"
import { temporaryFolder } from "@slipway/machine/testing/hosts/Machine"
import * as RunnerClient from "@slipway/runner/client/RunnerClient"
import type { Order } from "@slipway/runner/machines/Machines"
import { program, shell, textOf } from "@slipway/runner/testing/Fixture"
import * as Identity from "@slipway/runner/wire/Identity"
import type { Address } from "@slipway/runner/wire/RunnerSettings"
import { Duration, Effect, Redacted, type Scope } from "effect"
import { execFile } from "node:child_process"
import { chmod, readFile, writeFile } from "node:fs/promises"
import path from "node:path"
import { promisify } from "node:util"
import type { Cluster } from "../src/Cluster.ts"
import * as Labels from "../src/Labels.ts"
import * as MachinesKubernetes from "../src/MachinesKubernetes.ts"
import * as PodTemplate from "../src/PodTemplate.ts"
import { ApiServer } from "./ApiServer.ts"
import { Kubelet, type Options as KubeletOptions } from "./Kubelet.ts"

export const NAMESPACE = "sandboxes"
export const OWNER = "slipway"

/** For 127.0.0.1 alone. */
export const certificate = Effect.gen(function*() {
  const folder = yield* temporaryFolder
  const [key, cert] = [path.join(folder, "key.pem"), path.join(folder, "cert.pem")]
  return yield* Effect.promise(async () => {
    await promisify(execFile)("openssl", [
      ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"],
      ...["-keyout", key, "-out", cert, "-subj", "/CN=kubernetes", "-addext", "subjectAltName=IP:127.0.0.1"]
    ])
    return { key: await readFile(key, "utf8"), cert: await readFile(cert, "utf8"), folder }
  })
})

export interface TestCluster {
  readonly server: ApiServer
  readonly kubelet: Kubelet
  readonly cluster: Cluster
  readonly port: number
  readonly ca: string
  readonly folder: string
}

export const TOKEN = "token-of-the-worker"

export const clusterAt = (port: number, ca: string): Cluster => ({
  server: new URL(`https://127.0.0.1:${port}`),
  ca,
  servername: null,
  certificate: null,
  token: () => Effect.succeed(Redacted.make(TOKEN)),
  namespace: NAMESPACE
})

/** `node`: with network namespaces, pods are containers. */
export const clusterOf = Effect.fnUntraced(function*(
  node: Omit<KubeletOptions, "folder"> = {}
): Effect.fn.Return<TestCluster, never, Scope.Scope> {
  const { cert, folder, key } = yield* certificate
  const server = yield* Effect.acquireRelease(
    Effect.sync(() => new ApiServer({ cert, key })),
    (server) => Effect.sync(() => server.close())
  )
  const pods = yield* temporaryFolder
  // All users of processes of a container pass through here.
  yield* Effect.promise(() => chmod(pods, 0o755))
  const kubelet = yield* Effect.acquireRelease(
    Effect.sync(() => new Kubelet(server, { folder: pods, ...node })),
    (kubelet) => Effect.sync(() => kubelet.close())
  )
  const port = yield* Effect.promise(() => server.listen())
  server.tokens.add(TOKEN)
  server.put("configmaps", { apiVersion: "v1", kind: "ConfigMap", metadata: { name: OWNER } })
  return { server, kubelet, port, ca: cert, folder, cluster: clusterAt(port, cert) }
})

export const cluster = Effect.suspend(() => clusterOf())

export const options = ({ cluster }: TestCluster): MachinesKubernetes.Options => ({
  cluster,
  namespace: NAMESPACE,
  installation: "one",
  machine: "3d0f8bb5-6b43-4d0e-9f0f-0123456789ab",
  owner: OWNER,
  image: "registry.example/slipway:1",
  runner: program,
  podTemplate: PodTemplate.EMPTY,
  userNamespaces: true,
  limits: { ...defaults, memoryBytes: 2 ** 30, diskBytes: 2 ** 30 },
  times: { start: Duration.seconds(60), leave: Duration.seconds(30), look: Duration.seconds(1) }
})

/** A worker's machine. */
export const worker = (made: TestCluster, change: Partial<MachinesKubernetes.Options> = {}) =>
  MachinesKubernetes.make({ ...options(made), ...change })

export const sandbox = (letter: string) => SandboxId.make(`c_${letter.repeat(12)}`)

export const nameOf = (order: Pick<Order, "sandboxId">) => Labels.nameOf("one", order.sandboxId)

export interface Ordered extends Order {
  readonly worker: Identity.Identity
}

export const orderOf = (letter: string, fence = 1): Ordered => {
  const { runner, worker } = Identity.mint()
  return { sandboxId: sandbox(letter), fence, identity: runner, ways: [], worker }
}

/** The output of a shell in the machine, under the order's fence. */
export const say = (address: Address, { fence, worker }: Ordered, script: string) =>
  Effect.scoped(Effect.gen(function*() {
    const connection = yield* RunnerClient.connect({ address, identity: worker, fence })
    const process = yield* connection.spawn(shell(script))
    yield* process.endInput
    const text = yield* textOf(process.stdout)
    const { code } = yield* process.exited
    return { text, code }
  }))

/** The content of a file in the tree that its runner reads. */
export const read = (address: Address, { fence, worker }: Ordered, file: string) =>
  Effect.scoped(Effect.gen(function*() {
    const connection = yield* RunnerClient.connect({ address, identity: worker, fence })
    const { bytes } = yield* connection.readFile(Buffer.from(file), { maximumBytes: 1000 })
    return yield* textOf(bytes)
  }))

export const writeText = (folder: string, name: string, text: string) =>
  Effect.promise(async () => {
    const file = path.join(folder, name)
    await writeFile(file, text)
    return file
  })
