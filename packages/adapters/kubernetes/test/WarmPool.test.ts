/** Machines that wait in a pool of agent-sandbox before their sandboxes are known. Pods are containers here, of one network. */
import { assert, describe, it } from "@effect/vitest"
import type { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as Adopting from "@slipway/runner/client/Adopting"
import { settingsOf } from "@slipway/runner/machines/Machines"
import { absent } from "@slipway/runner/testing/Machines.fixture"
import * as Identity from "@slipway/runner/wire/Identity"
import { Duration, Effect, Exit, Fiber, Option, Stream } from "effect"
import path from "node:path"
import { fileURLToPath } from "node:url"
import * as Labels from "../src/Labels.ts"
import type { Stored } from "./ApiServer.ts"
import { clusterOf, nameOf, options, type Ordered, orderOf, OWNER, sandbox, say, type TestCluster, worker } from "./Fixture.ts"

const root = fileURLToPath(new URL("../../../..", import.meta.url))
const reason = absent("bubblewrap") ?? (process.getuid?.() === 0 ? undefined : "needs root")

const OTHER_MACHINE = "5a1c7d9e-0000-4000-8000-0123456789ab"
const POOL = Labels.poolNameOf("one")

const there = Effect.tap(
  Effect.suspend(() => clusterOf({ contains: true, sees: [...new Set([root, path.dirname(process.execPath)])] })),
  ({ server }) =>
    Effect.sync(() => {
      server.hasSandboxes = true
      server.hasExtensions = true
    })
)

const pooled = (made: TestCluster, change: Parameters<typeof worker>[1] = {}) => worker(made, { warmPods: 1, ...change })

const claimOf = ({ server }: TestCluster, order: Ordered): Stored => server.get("sandboxclaims", nameOf(order)) ?? assert.fail("no claim")
const boxNameOf = (made: TestCluster, order: Ordered): string => claimOf(made, order).status.sandbox.name
const podOf = (made: TestCluster, order: Ordered): Stored => made.server.get("pods", boxNameOf(made, order)) ?? assert.fail("no pod")

const isReady = ({ metadata: { deletionTimestamp }, status }: Stored) =>
  deletionTimestamp === undefined && status?.containerStatuses?.[0]?.ready === true

/** Pods that wait, once so many are ready. */
const waiting = ({ server }: TestCluster, count = 1) =>
  Effect.promise(() =>
    server.until(() => {
      const found = server.all("pods").filter((pod) => isReady(pod) && pod.metadata.labels?.[Labels.SANDBOX] === undefined)
      const [pool] = server.all("sandboxwarmpools")
      return found.length === count && pool?.status?.readyReplicas === count ? found : undefined
    })
  )

const refusalOf = <A>(effect: Effect.Effect<A, HostError>) =>
  Effect.map(Effect.flip(effect), ({ detail, retryable }) => ({ detail, retryable }))

const poolKeys = ({ server }: TestCluster): Identity.Identity =>
  JSON.parse(Buffer.from(server.get("secrets", POOL)?.["data"]["worker.json"], "base64").toString())

describe.skipIf(reason !== undefined)(`a machine of a pool${reason === undefined ? "" : ` (${reason})`}`, () => {
  it.live("is a machine that was there before its sandbox, and another one waits in its place", () =>
    Effect.gen(function*() {
      const made = yield* there
      const machines = yield* pooled(made)
      const [warm = assert.fail()] = yield* waiting(made)
      const order = orderOf("a")
      const address = yield* machines.ensure(order)
      assert.strictEqual(podOf(made, order).metadata.uid, warm.metadata.uid)
      assert.strictEqual(podOf(made, order).status.containerStatuses[0].restartCount, 0)
      assert.deepStrictEqual(
        [Labels.SANDBOX, Labels.MACHINE, Labels.FENCE].map((label) => podOf(made, order).metadata.labels?.[label]),
        [order.sandboxId, options(made).machine, "1"]
      )
      const { code, text } = yield* say(address, order, "pwd; id -u; grep CapEff /proc/self/status")
      assert.deepStrictEqual([code, text], [0, "/workspace\n1000\nCapEff:\t0000000000000000\n"])
      const [next] = yield* waiting(made)
      assert.notStrictEqual(next?.metadata.uid, warm.metadata.uid)
      // The ready machine is asked for again: it is the same.
      assert.deepStrictEqual(yield* machines.ensure(order), address)
      assert.deepStrictEqual(yield* machines.list, [order.sandboxId])
    }))

  it.live(
    "has the half of the pool's keys that admits no client, and no process of its sandbox reads it or the sandbox's",
    () =>
      Effect.gen(function*() {
        const made = yield* there
        const machines = yield* pooled(made)
        const order = orderOf("a")
        const address = yield* machines.ensure(order)
        const name = boxNameOf(made, order)
        const { text } = yield* say(
          address,
          order,
          "ls /etc/slipway-runner; cat /etc/slipway-runner/*; ls /var/lib/slipway-runner; echo over"
        )
        assert.notInclude(text, "PRIVATE KEY")
        assert.include(text, "over\n")
        const [volume] = made.server.get("pods", name)?.spec.volumes ?? []
        assert.deepStrictEqual(volume.secret.items.map(({ key }: { key: string }) => key), ["runner.json"])
        assert.strictEqual(volume.secret.defaultMode, 0o400)
        const template = JSON.stringify(made.server.all("sandboxtemplates"))
        assert.notInclude(template, "PRIVATE KEY")
        assert.notInclude(JSON.stringify(made.server.all("sandboxclaims")), "PRIVATE KEY")
      })
  )

  it.live("is made when its sandbox boots where none waits", () =>
    Effect.gen(function*() {
      const made = yield* there
      const machines = yield* pooled(made)
      yield* waiting(made)
      const [one, two] = [orderOf("a"), orderOf("b")]
      // The waiting machine goes to a single sandbox.
      const addresses = yield* Effect.all([machines.ensure(one), machines.ensure(two)], { concurrency: 2 })
      assert.notDeepEqual(addresses[0], addresses[1])
      for (const [i, order] of [one, two].entries()) {
        const address = addresses[i] ?? assert.fail()
        assert.strictEqual((yield* say(address, order, `echo ${i}`)).text, `${i}\n`)
      }
      assert.notStrictEqual(podOf(made, one).metadata.uid, podOf(made, two).metadata.uid)
    }))

  it.live("is told whose it is again where the worker died between its claim and that", () =>
    Effect.gen(function*() {
      const made = yield* there
      const machines = yield* pooled(made)
      yield* waiting(made)
      const order = orderOf("a", 3)
      // As it is left by a worker that did no more than claim it.
      made.server.forbidden.add("patch pods")
      assert.isFalse((yield* refusalOf(machines.ensure(order))).retryable)
      made.server.forbidden.clear()
      const { uid } = claimOf(made, order).metadata
      const again = yield* pooled(made)
      assert.strictEqual((yield* say(yield* again.ensure(order), order, "echo here")).text, "here\n")
      assert.strictEqual(claimOf(made, order).metadata.uid, uid)
    }))

  it.live(
    "the found machine is marked as a sandbox's, and not another that has its name by then",
    () =>
      Effect.gen(function*() {
        const made = yield* there
        const machines = yield* pooled(made)
        const order = orderOf("a")
        yield* waiting(made)
        yield* machines.ensure(order)
        const { name, uid } = podOf(made, order).metadata
        made.server.change("pods", name, { metadata: { labels: { [Labels.FENCE]: "0" } } })
        // It is made anew between the worker's look and its mark.
        const marked: Array<string> = []
        made.server.hear = ({ body, method, path }) => {
          if (method !== "PATCH" || !path.endsWith(`/pods/${name}`)) return
          marked.push((body as Stored).metadata.uid)
          if (marked.length === 1) made.server.delete("pods", name, 0)
        }
        const address = yield* machines.ensure(order)
        const { uid: next } = podOf(made, order).metadata
        assert.notStrictEqual(next, uid)
        assert.deepStrictEqual(marked, [uid, next])
        assert.strictEqual((yield* say(address, order, "echo here")).text, "here\n")
      })
  )

  it.live("goes on with its sandbox's keys and files when its container starts again", () =>
    Effect.gen(function*() {
      const made = yield* there
      const machines = yield* pooled(made)
      const order = orderOf("a", 7)
      const address = yield* machines.ensure(order)
      yield* say(address, order, "echo kept > file")
      const { uid } = podOf(made, order).metadata
      const status = () => podOf(made, order).status.containerStatuses[0]
      made.kubelet.kill(boxNameOf(made, order))
      yield* Effect.promise(() => made.server.until(() => status().restartCount === 1 && status().ready === true ? true : undefined))
      assert.deepStrictEqual(yield* machines.ensure(order), address)
      assert.strictEqual(podOf(made, order).metadata.uid, uid)
      assert.strictEqual((yield* say(address, order, "cat file")).text, "kept\n")
      const refused = yield* Effect.exit(say(address, { ...order, fence: 6 }, "echo never"))
      assert.isTrue(Exit.isFailure(refused) && String(refused.cause).includes("fence"), String(refused))
    }))

  it.live("is adopted once, by who has the pool's key, and for the pod that is meant", () =>
    Effect.gen(function*() {
      const made = yield* there
      const machines = yield* pooled(made)
      const [warm = assert.fail()] = yield* waiting(made)
      const address = { host: String(warm.status.podIP), port: 4003 }
      const [order, other] = [orderOf("a"), orderOf("b")]
      const adoption = { machine: warm.metadata.uid, fence: 1, settings: settingsOf(other) }
      const stranger = { ...Identity.mint().worker, peer: poolKeys(made).peer }
      assert.isTrue(Exit.isFailure(yield* Effect.exit(Adopting.adopt({ address, pool: stranger, adoption }))))
      const mistaken = Adopting.adopt({ address, pool: poolKeys(made), adoption: { ...adoption, machine: "another" } })
      assert.include((yield* Effect.flip(mistaken)).detail, "another machine is meant")
      const place = yield* machines.ensure(order)
      assert.strictEqual(podOf(made, order).metadata.uid, warm.metadata.uid)
      assert.strictEqual(yield* Adopting.adopt({ address, pool: poolKeys(made), adoption }), "another")
      assert.strictEqual((yield* say(place, order, "echo still")).text, "still\n")
    }))

  it.live("that somebody else was told of is given up, and another one claimed", () =>
    Effect.gen(function*() {
      const made = yield* there
      const machines = yield* pooled(made)
      const [warm = assert.fail()] = yield* waiting(made)
      const adoption = { machine: warm.metadata.uid, fence: 1, settings: settingsOf(orderOf("b")) }
      yield* Adopting.adopt({ address: { host: String(warm.status.podIP), port: 4003 }, pool: poolKeys(made), adoption })
      const order = orderOf("a")
      assert.strictEqual((yield* say(yield* machines.ensure(order), order, "echo mine")).text, "mine\n")
      assert.notStrictEqual(podOf(made, order).metadata.uid, warm.metadata.uid)
      assert.isUndefined(made.server.get("pods", warm.metadata.name))
    }))

  it.live(
    "is not a machine that was made for another certificate: that one is gone before; an older lease has no say",
    () =>
      Effect.gen(function*() {
        const made = yield* there
        const machines = yield* pooled(made)
        const order = orderOf("a", 4)
        yield* say(yield* machines.ensure(order), order, "echo old > file")
        const { name, uid } = podOf(made, order).metadata
        const again = orderOf("a", 5)
        const other = yield* pooled(made, { machine: OTHER_MACHINE })
        let isOldThere: boolean | undefined
        made.server.listeners.push((plural, type, object) => {
          if (plural === "sandboxclaims" && type === "ADDED" && object.metadata.name === nameOf(order)) {
            isOldThere = made.server.get("pods", name) !== undefined
          }
        })
        const address = yield* other.ensure(again)
        assert.isFalse(isOldThere)
        assert.notStrictEqual(podOf(made, again).metadata.uid, uid)
        assert.strictEqual((yield* say(address, again, "ls")).text, "")
        assert.deepStrictEqual(yield* refusalOf(machines.ensure(order)), {
          detail: "A later lease has a machine of this sandbox.",
          retryable: false
        })
        // It is another's by now.
        yield* machines.remove(order.sandboxId)
        assert.deepStrictEqual([yield* machines.list, yield* other.list], [[], [order.sandboxId]])
        const later = { ...again, fence: 6 }
        assert.deepStrictEqual(yield* other.ensure(later), address)
        assert.strictEqual(claimOf(made, order).metadata.labels?.[Labels.FENCE], "6")
        assert.strictEqual(podOf(made, order).metadata.labels?.[Labels.FENCE], "6")
      })
  )

  it.live("is gone once it was removed, with its claim, and its loss is not reported", () =>
    Effect.gen(function*() {
      const made = yield* there
      const machines = yield* pooled(made)
      const [removed, lost] = [orderOf("a"), orderOf("b")]
      const told = yield* Effect.forkChild(Stream.runHead(machines.losses), { startImmediately: true })
      yield* machines.ensure(removed)
      yield* machines.ensure(lost)
      const name = boxNameOf(made, removed)
      yield* machines.remove(removed.sandboxId)
      assert.deepStrictEqual(["pods", "sandboxes"].map((plural) => made.server.get(plural, name)), [undefined, undefined])
      assert.isUndefined(made.server.get("sandboxclaims", nameOf(removed)))
      yield* machines.remove(removed.sandboxId)
      assert.deepStrictEqual(yield* machines.list, [lost.sandboxId])
      const { uid } = podOf(made, lost).metadata
      made.kubelet.evict(boxNameOf(made, lost))
      assert.deepInclude(Option.getOrUndefined(yield* Fiber.join(told)), { sandboxId: lost.sandboxId, ofSandbox: true })
      const address = yield* machines.ensure(lost)
      assert.notStrictEqual(podOf(made, lost).metadata.uid, uid)
      assert.strictEqual((yield* say(address, lost, "echo anew")).text, "anew\n")
    }))

  it.live("whose pod somebody deleted has another one, which is told whose it is as the first was", () =>
    Effect.gen(function*() {
      const made = yield* there
      const machines = yield* pooled(made)
      const order = orderOf("a")
      yield* machines.ensure(order)
      const { name, uid } = podOf(made, order).metadata
      made.server.delete("pods", name)
      yield* Effect.promise(() =>
        made.server.until(() => {
          const pod = made.server.get("pods", name)
          return pod !== undefined && pod.metadata.uid !== uid ? pod : undefined
        })
      )
      assert.strictEqual((yield* say(yield* machines.ensure(order), order, "echo anew")).text, "anew\n")
      assert.strictEqual(podOf(made, order).metadata.labels?.[Labels.SANDBOX], order.sandboxId)
    }))

  it.live("whose worker's machine never came back is removed once its sandbox is unused", () =>
    Effect.gen(function*() {
      const made = yield* there
      const gone = yield* pooled(made, { machine: OTHER_MACHINE })
      const machines = yield* pooled(made)
      made.server.age = 700_000
      const order = orderOf("a", 3)
      yield* gone.ensure(order)
      const name = boxNameOf(made, order)
      const asked: Array<ReadonlyArray<string>> = []
      assert.deepStrictEqual(
        yield* machines.removeAbandoned((sandboxIds) => {
          asked.push(sandboxIds)
          return Effect.succeed([sandbox("a")])
        }),
        [sandbox("a")]
      )
      assert.deepStrictEqual(asked, [[sandbox("a")]])
      yield* Effect.promise(() => made.server.until(() => made.server.get("pods", name) === undefined ? true : undefined))
    }))
})

/** Whose pods need not run. */
describe("a pool of machines", () => {
  const bare = Effect.tap(clusterOf(), ({ kubelet, server }) =>
    Effect.sync(() => {
      kubelet.treatment = "stuck"
      server.hasSandboxes = true
      server.hasExtensions = true
    }))

  const pool = ({ server }: TestCluster) => server.get("sandboxwarmpools", POOL)
  const until = <A>({ server }: TestCluster, find: () => A | undefined) => Effect.promise(() => server.until(find))

  it.live("is made by the first worker, and goes with what stands for the installation", () =>
    Effect.gen(function*() {
      const made = yield* bare
      yield* pooled(made, { warmPods: 3 })
      yield* pooled(made, { warmPods: 3, machine: OTHER_MACHINE })
      yield* until(made, () => made.server.all("pods").length === 3 ? true : undefined)
      assert.lengthOf(made.server.all("sandboxtemplates"), 1)
      assert.lengthOf(made.server.all("secrets"), 1)
      made.server.remove("configmaps", OWNER)
      yield* until(made, () => ["pods", "secrets", "sandboxtemplates"].every((plural) => made.server.all(plural).length === 0) || undefined)
    }))

  it.live("is of what the worker that started last is told, and of that alone", () =>
    Effect.gen(function*() {
      const made = yield* bare
      yield* pooled(made)
      yield* until(made, () => made.server.all("pods").length === 1 ? true : undefined)
      const [old] = made.server.all("sandboxtemplates")
      yield* pooled(made, { warmPods: 2, image: "registry.example/slipway:2" })
      const image = (pod: Stored) => pod.spec.containers[0].image
      yield* until(
        made,
        () => made.server.all("pods").filter((pod) => image(pod) === "registry.example/slipway:2").length === 2 ? true : undefined
      )
      yield* until(made, () => made.server.all("sandboxtemplates").length === 1 ? true : undefined)
      assert.notStrictEqual(made.server.all("sandboxtemplates")[0]?.metadata.name, old?.metadata.name)
      // Without one, none waits any more.
      yield* worker(made)
      yield* until(made, () => made.server.all("pods").every(({ metadata }) => metadata.deletionTimestamp !== undefined) || undefined)
      assert.strictEqual(pool(made)?.spec.replicas, 0)
    }))

  it.live("is made of other pods where its keys were deleted", () =>
    Effect.gen(function*() {
      const made = yield* bare
      const times = { start: Duration.millis(300), look: Duration.millis(50) }
      const machines = yield* pooled(made, { times })
      const [template] = yield* until(made, () => {
        const found = made.server.all("sandboxtemplates")
        return pool(made) === undefined ? undefined : found
      })
      made.server.remove("secrets", POOL)
      assert.isTrue((yield* refusalOf(machines.ensure(orderOf("a")))).retryable)
      const [next] = made.server.all("sandboxtemplates")
      assert.notStrictEqual(next?.metadata.name, template?.metadata.name)
      assert.strictEqual(pool(made)?.spec.sandboxTemplateRef.name, next?.metadata.name)
    }))

  it.live("is made again where somebody deleted it", () =>
    Effect.gen(function*() {
      const made = yield* bare
      const times = { start: Duration.millis(500), look: Duration.millis(50) }
      const machines = yield* pooled(made, { times })
      yield* until(made, () => pool(made))
      made.server.remove("sandboxwarmpools", POOL)
      const { detail } = yield* refusalOf(machines.ensure(orderOf("a")))
      assert.include(detail, "did not start")
      yield* refusalOf(machines.ensure(orderOf("a")))
      assert.isDefined(pool(made))
    }))

  it.live.each(
    [
      {
        title: "the extensions are not in the cluster",
        prepare: ({ server }: TestCluster) => void (server.hasExtensions = false),
        expected: "Install its extensions, or have no warm pods"
      },
      { title: "machines are to be pods", change: { mode: "pods" as const }, expected: "do not say that machines are pods" },
      {
        title: "the service may not make claims",
        prepare: ({ server }: TestCluster) => void server.forbidden.add("create sandboxclaims"),
        expected: "Give the service account the Role of the chart"
      },
      {
        title: "the Secret of that name is another's",
        prepare: ({ server }: TestCluster) =>
          void server.put("secrets", { apiVersion: "v1", kind: "Secret", metadata: { name: POOL }, data: {} }),
        expected: "has no keys of a pool"
      }
    ] as ReadonlyArray<{
      readonly title: string
      readonly prepare?: (made: TestCluster) => void
      readonly change?: Parameters<typeof worker>[1]
      readonly expected: string
    }>
  )("says what is in its way where $title", ({ change, expected, prepare }) =>
    Effect.gen(function*() {
      const made = yield* bare
      prepare?.(made)
      const machines = yield* pooled(made, change)
      const { detail, retryable } = yield* refusalOf(machines.ensure(orderOf("a")))
      assert.include(detail, expected)
      assert.isFalse(retryable)
    }))

  it.live("is no business of who has none, also where it may not see claims", () =>
    Effect.gen(function*() {
      const made = yield* bare
      for (const verb of ["list", "get", "create"]) made.server.forbidden.add(`${verb} sandboxclaims`)
      const machines = yield* worker(made, { times: { start: Duration.millis(300), look: Duration.millis(50) } })
      assert.include((yield* refusalOf(machines.ensure(orderOf("a")))).detail, "did not start")
      assert.lengthOf(made.server.all("sandboxes"), 1)
    }))
})
