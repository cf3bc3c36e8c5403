/** Machines as pods: of a cluster in this process whose pods really start the runner. */
import { assert, describe, it } from "@effect/vitest"
import type { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Duration, Effect, Exit, Fiber, Option, Stream } from "effect"
import { existsSync } from "node:fs"
import * as Labels from "../src/Labels.ts"
import * as PodTemplate from "../src/PodTemplate.ts"
import type { Stored } from "./ApiServer.ts"
import { cluster, nameOf, options, type Ordered, orderOf, OWNER, read, sandbox, say, type TestCluster, worker } from "./Fixture.ts"

const isRoot = process.getuid?.() === 0

const OTHER_MACHINE = "5a1c7d9e-0000-4000-8000-0123456789ab"

const podOf = ({ server }: TestCluster, order: Ordered): Stored => server.get("pods", nameOf(order)) ?? assert.fail("there is no pod")

const refusalOf = <A>(effect: Effect.Effect<A, HostError>) =>
  Effect.flip(effect).pipe(Effect.map(({ detail, ofSandbox = false, retryable }) => ({ detail, retryable, ofSandbox })))

describe("a machine of Kubernetes", () => {
  it.live("runs the processes of its worker as a user without capabilities, who cannot read the runner's key", () =>
    Effect.gen(function*() {
      const made = yield* cluster
      const machines = yield* worker(made)
      const order = orderOf("a")
      const address = yield* machines.ensure(order)
      const { code, text } = yield* say(address, order, "echo here; id -u; grep CapEff /proc/self/status; pwd; touch made")
      assert.strictEqual(code, 0)
      const [here, uid, capabilities, folder] = text.split("\n")
      assert.strictEqual(here, "here")
      assert.strictEqual(folder, made.kubelet.placeOf(nameOf(order), "/workspace"))
      if (isRoot) {
        assert.deepStrictEqual([uid, capabilities], ["1000", "CapEff:\t0000000000000000"])
        const settings = made.kubelet.placeOf(nameOf(order), "/etc/slipway-runner/settings.json")
        const state = made.kubelet.placeOf(nameOf(order), "/var/lib/slipway-runner")
        const tried = yield* say(address, order, `cat ${settings}; ls ${state}; echo over`)
        assert.strictEqual(tried.text, "over\n")
      }
    }))

  it.live("is the existing machine when it is ordered again, under a later lease too", () =>
    Effect.gen(function*() {
      const made = yield* cluster
      const machines = yield* worker(made)
      const order = orderOf("a", 4)
      const address = yield* machines.ensure(order)
      const { uid } = podOf(made, order).metadata
      yield* say(address, order, "echo kept > file")
      const later = { ...order, fence: 5 }
      assert.deepStrictEqual(yield* machines.ensure(later), address)
      assert.strictEqual(podOf(made, order).metadata.uid, uid)
      assert.strictEqual(podOf(made, order).metadata.labels?.[Labels.FENCE], "5")
      assert.strictEqual((yield* say(address, later, "cat file")).text, "kept\n")
      // By whom the lease was lost since.
      const early = yield* refusalOf(machines.ensure(order))
      assert.deepStrictEqual(early, { detail: "A later lease has a machine of this sandbox.", retryable: false, ofSandbox: false })
    }))

  it.live("replaces a machine that was created for another certificate, with all its content", () =>
    Effect.gen(function*() {
      const made = yield* cluster
      const machines = yield* worker(made)
      const order = orderOf("a")
      yield* say(yield* machines.ensure(order), order, "echo old > file")
      const { uid } = podOf(made, order).metadata
      const place = made.kubelet.placeOf(nameOf(order), "/workspace/file")
      assert.isTrue(existsSync(place))
      let isOldThere: boolean | undefined
      made.server.listeners.push((plural, type, object) => {
        if (plural === "pods" && type === "ADDED" && object.metadata.name === nameOf(order)) isOldThere = existsSync(place)
      })
      const again = { ...orderOf("a", 2) }
      const other = yield* worker(made, { machine: OTHER_MACHINE })
      const address = yield* other.ensure(again)
      assert.notStrictEqual(podOf(made, again).metadata.uid, uid)
      assert.isFalse(isOldThere)
      assert.strictEqual((yield* say(address, again, "ls")).text, "")
      // The earlier owner finds that it is another's, and leaves it.
      yield* machines.remove(order.sandboxId)
      assert.strictEqual((yield* say(address, again, "echo still")).text, "still\n")
      assert.deepStrictEqual(yield* machines.list, [])
      assert.deepStrictEqual(yield* other.list, [order.sandboxId])
    }))

  it.live("is gone once it was removed, with its key; a missing machine may be removed", () =>
    Effect.gen(function*() {
      const made = yield* cluster
      const machines = yield* worker(made)
      const order = orderOf("a")
      yield* machines.ensure(order)
      assert.deepStrictEqual(yield* machines.list, [order.sandboxId])
      const [secret] = made.server.all("secrets")
      assert.deepStrictEqual(secret?.metadata.ownerReferences?.map(({ name, uid }) => [name, uid]), [
        [nameOf(order), made.server.get("pods", nameOf(order))?.metadata.uid]
      ])
      yield* machines.remove(order.sandboxId)
      assert.deepStrictEqual(made.server.all("pods"), [])
      yield* Effect.promise(() => made.server.until(() => made.server.all("secrets").length === 0 ? true : undefined))
      yield* machines.remove(order.sandboxId)
      assert.deepStrictEqual(yield* machines.list, [])
    }))

  it.live("keeps the state of its runner when the container restarts", () =>
    Effect.gen(function*() {
      const made = yield* cluster
      const machines = yield* worker(made)
      const order = orderOf("a", 7)
      const address = yield* machines.ensure(order)
      yield* say(address, order, "umask 077 && mkdir private && echo kept > private/file")
      assert.strictEqual(yield* read(address, order, "private/file"), "kept\n")
      const { uid } = podOf(made, order).metadata
      const restarts = () => podOf(made, order).status.containerStatuses[0]
      made.kubelet.kill(nameOf(order))
      yield* Effect.promise(() => made.server.until(() => restarts().restartCount === 1 && restarts().ready === true ? true : undefined))
      assert.deepStrictEqual(yield* machines.ensure(order), address)
      assert.strictEqual(podOf(made, order).metadata.uid, uid)
      assert.strictEqual((yield* say(address, order, "cat private/file")).text, "kept\n")
      const refused = yield* Effect.exit(say(address, { ...order, fence: 6 }, "echo never"))
      assert.isTrue(Exit.isFailure(refused) && String(refused.cause).includes("fence"), String(refused))
    }))

  it.live("is reported lost at once when it is evicted, and created anew when it is ordered again", () =>
    Effect.gen(function*() {
      const made = yield* cluster
      const machines = yield* worker(made)
      const lost = yield* Effect.forkChild(Stream.runHead(machines.losses), { startImmediately: true })
      const order = orderOf("a")
      yield* machines.ensure(order)
      const { uid } = podOf(made, order).metadata
      made.kubelet.evict(nameOf(order))
      const loss = yield* Fiber.join(lost)
      assert.deepInclude(Option.getOrUndefined(loss), { sandboxId: order.sandboxId, ofSandbox: true })
      assert.include(Option.getOrUndefined(loss)?.detail, "took more disk than it may")
      const address = yield* machines.ensure(order)
      assert.notStrictEqual(podOf(made, order).metadata.uid, uid)
      assert.strictEqual((yield* say(address, order, "echo anew")).text, "anew\n")
    }))

  it.live("whose worker's machine never came back is removed once its sandbox is unused", () =>
    Effect.gen(function*() {
      const made = yield* cluster
      const gone = yield* worker(made, { machine: OTHER_MACHINE })
      const machines = yield* worker(made)
      made.server.age = 700_000
      const orders = ["a", "b", "d"].map((letter) => orderOf(letter, 3))
      yield* Effect.forEach(orders, (order) => gone.ensure(order), { concurrency: 2 })
      yield* machines.ensure(orderOf("g", 3))
      made.server.age = 0
      yield* gone.ensure(orderOf("h", 3))
      const asked: Array<ReadonlyArray<string>> = []
      // Its own, and what is too young, it does not ask about.
      const removed = yield* machines.removeAbandoned((sandboxIds) => {
        asked.push(sandboxIds)
        return Effect.succeed([sandbox("b"), sandbox("d")])
      })
      assert.deepStrictEqual(asked, [orders.map(({ sandboxId }) => sandboxId)])
      assert.deepStrictEqual(removed, [sandbox("b"), sandbox("d")])
      const left = ["a", "g", "h"].map((letter) => nameOf(orderOf(letter)))
      yield* Effect.promise(() => made.server.until(() => made.server.all("pods").length === left.length ? true : undefined))
      assert.sameMembers(made.server.all("pods").map(({ metadata }) => metadata.name), left)
    }))

  it.live("is removed with the object that owns the installation, which is read again each time", () =>
    Effect.gen(function*() {
      const made = yield* cluster
      const machines = yield* worker(made)
      const order = orderOf("a")
      yield* machines.ensure(order)
      made.server.remove("configmaps", OWNER)
      yield* Effect.promise(() => made.server.until(() => made.server.all("pods").length === 0 ? true : undefined))
      const refused = yield* refusalOf(machines.ensure(order))
      assert.include(refused.detail, "create configmap slipway")
      assert.isFalse(refused.retryable)
      const { metadata: { uid } } = made.server.put("configmaps", { apiVersion: "v1", kind: "ConfigMap", metadata: { name: OWNER } })
      yield* machines.ensure(order)
      assert.deepStrictEqual(made.server.get("pods", nameOf(order))?.metadata.ownerReferences?.map((owner) => owner.uid), [uid])
    }))
})

describe("machines of Kubernetes", () => {
  it.live("are listed page by page, also when the server forgets a list that it began", () =>
    Effect.gen(function*() {
      const made = yield* cluster
      const machines = yield* worker(made)
      made.kubelet.treatment = "stuck"
      const { machine } = options(made)
      const labels = (letter: string, more = {}) => ({
        [Labels.INSTALLATION]: "one",
        [Labels.MACHINE]: machine,
        [Labels.SANDBOX]: sandbox(letter),
        [Labels.FENCE]: "1",
        ...more
      })
      const pod = (name: string, marks: Record<string, string>) =>
        made.server.put("pods", {
          apiVersion: "v1",
          kind: "Pod",
          metadata: { name, labels: marks },
          spec: { containers: [{ volumeMounts: [] }], volumes: [] }
        })
      const letters = ["a", "b", "d", "e", "f"]
      for (const letter of letters) pod(`pod-${letter}`, labels(letter))
      pod("other-installation", labels("g", { [Labels.INSTALLATION]: "two" }))
      pod("other-machine", labels("h", { [Labels.MACHINE]: OTHER_MACHINE }))
      pod("no-sandbox", labels("k", { [Labels.SANDBOX]: "me" }))
      made.server.page = 2
      // One for the watch, which lists too.
      made.server.expire = 2
      assert.deepStrictEqual(yield* machines.list, letters.map(sandbox))
    }))

  it.live("are those of one installation: other objects of the same name stay", () =>
    Effect.gen(function*() {
      const made = yield* cluster
      const machines = yield* worker(made)
      made.kubelet.treatment = "stuck"
      const order = orderOf("a")
      made.server.put("pods", {
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name: nameOf(order) },
        spec: { containers: [{ volumeMounts: [] }], volumes: [] }
      })
      const refused = yield* refusalOf(machines.ensure(order))
      assert.include(refused.detail, "not of this installation")
      assert.isFalse(refused.retryable)
      yield* machines.remove(order.sandboxId)
      assert.lengthOf(made.server.all("pods"), 1)
    }))

  it.live("get their own key while the Secret of an earlier machine still exists", () =>
    Effect.gen(function*() {
      const made = yield* cluster
      const machines = yield* worker(made)
      const order = orderOf("a")
      yield* machines.ensure(order)
      // It is there still when the next pod is, as while Kubernetes' collector of garbage has much to do.
      const left = made.server.all("secrets")[0] ?? assert.fail()
      yield* machines.remove(order.sandboxId)
      const { name, ownerReferences = [] } = left.metadata
      made.server.put("secrets", { ...left, metadata: { name, ownerReferences } })
      assert.strictEqual((yield* say(yield* machines.ensure(order), order, "echo mine")).text, "mine\n")
      const { uid } = podOf(made, order).metadata
      assert.deepStrictEqual(made.server.all("secrets").map(({ metadata }) => metadata.ownerReferences?.[0]?.uid), [uid])
      // A machine of another worker would have another name.
      const other = orderOf("a", 2)
      yield* machines.ensure(other)
      assert.notStrictEqual(made.server.all("secrets").at(-1)?.metadata.name, name)
    }))

  for (
    const { change = {}, expected, ofSandbox = false, prepare, retryable, title } of [
      {
        title: "there is no quota left",
        prepare: ({ server }: TestCluster) => void (server.quota = 0),
        expected: ["no quota left", "exceeded quota"],
        retryable: true
      },
      {
        title: "no node has room",
        prepare: ({ kubelet }: TestCluster) => void (kubelet.treatment = "no node"),
        expected: ["No node has room", "Insufficient memory"],
        retryable: true
      },
      {
        title: "the image cannot be pulled",
        prepare: ({ kubelet }: TestCluster) => void (kubelet.treatment = "no image"),
        expected: ["image of sandboxes cannot be pulled", "not found"],
        retryable: false
      },
      {
        title: "the runner ends at once",
        prepare: ({ kubelet }: TestCluster) => void (kubelet.treatment = "crash"),
        expected: ["ends whenever it is started", "exit code 1", "the settings are no JSON"],
        retryable: false
      },
      {
        title: "the container does not start",
        prepare: ({ kubelet, server }: TestCluster) => {
          kubelet.treatment = "stuck"
          server.listeners.push((plural, type, { metadata: { name, uid } }) => {
            if (plural !== "pods" || type !== "ADDED") return
            server.put("events", {
              apiVersion: "v1",
              kind: "Event",
              metadata: { name: "warning" },
              involvedObject: { kind: "Pod", name, uid },
              type: "Warning",
              reason: "FailedCreatePodSandBox",
              message: "user namespaces are not supported by the runtime"
            })
          })
        },
        expected: ["did not start within 2 seconds", "FailedCreatePodSandBox: user namespaces are not supported"],
        retryable: true
      },
      {
        title: "the service may not make pods",
        prepare: ({ server }: TestCluster) => void server.forbidden.add("create pods"),
        expected: ["Give the service account the Role of the chart", "cannot create"],
        retryable: false
      },
      {
        title: "the cluster does not have the runtime class",
        prepare: () => {},
        change: { podTemplate: { ...PodTemplate.EMPTY, spec: { runtimeClassName: "kata" } } },
        expected: ["does not have the runtime class", "\"kata\" not found"],
        retryable: false
      },
      {
        title: "the namespace is not there",
        prepare: () => {},
        change: { namespace: "nowhere", owner: null },
        expected: ["Is the namespace of sandboxes there?"],
        retryable: false
      }
    ] as ReadonlyArray<{
      readonly title: string
      readonly prepare: (made: TestCluster) => void
      readonly change?: Parameters<typeof worker>[1]
      readonly expected: ReadonlyArray<string>
      readonly retryable: boolean
      readonly ofSandbox?: boolean
    }>
  ) {
    it.live(`say what is in their way where ${title}`, () =>
      Effect.gen(function*() {
        const made = yield* cluster
        prepare(made)
        const times = { start: Duration.seconds(2), leave: Duration.seconds(2), look: Duration.millis(200) }
        const machines = yield* worker(made, { times, ...change })
        const refused = yield* refusalOf(machines.ensure(orderOf("a")))
        for (const part of expected) assert.include(refused.detail, part)
        assert.deepStrictEqual([refused.retryable, refused.ofSandbox], [retryable, ofSandbox])
      }))
  }

  it.live("are created once the obstacle is gone", () =>
    Effect.gen(function*() {
      const made = yield* cluster
      made.kubelet.treatment = "no image"
      const machines = yield* worker(made)
      const order = orderOf("a")
      assert.isFalse((yield* refusalOf(machines.ensure(order))).retryable)
      made.kubelet.treatment = "run"
      assert.strictEqual((yield* say(yield* machines.ensure(order), order, "echo now")).text, "now\n")
    }))

  it.live("are awaited until they are gone, and deleted by force when their node does not answer", () =>
    Effect.gen(function*() {
      const made = yield* cluster
      const machines = yield* worker(made, { times: { leave: Duration.seconds(2), look: Duration.millis(200) } })
      const order = orderOf("a")
      yield* machines.ensure(order)
      made.kubelet.isLost = true
      yield* machines.remove(order.sandboxId)
      assert.deepStrictEqual(made.server.all("pods"), [])
      const graces = made.server.sent.filter(({ method }) => method === "DELETE").map(({ body }) =>
        (body as { gracePeriodSeconds?: number }).gracePeriodSeconds
      )
      assert.deepStrictEqual(graces, [undefined, 0])
    }))

  it.live("kept by another program's finalizer are named", () =>
    Effect.gen(function*() {
      const made = yield* cluster
      const machines = yield* worker(made, { times: { leave: Duration.seconds(1), look: Duration.millis(200) } })
      const order = orderOf("a")
      yield* machines.ensure(order)
      made.server.change("pods", nameOf(order), { metadata: { finalizers: ["example.com/keep"] } })
      const refused = yield* refusalOf(machines.remove(order.sandboxId))
      assert.include(refused.detail, "finalizers are example.com/keep")
      assert.isTrue(refused.retryable)
    }))
})

describe("the watch of machines", () => {
  const lossOf = (made: TestCluster, order: Ordered, between: (made: TestCluster) => Effect.Effect<void>) =>
    Effect.gen(function*() {
      const machines = yield* worker(made)
      const told: Array<string> = []
      const lost = yield* Effect.forkChild(
        machines.losses.pipe(Stream.tap(({ sandboxId }) => Effect.sync(() => void told.push(sandboxId))), Stream.runHead),
        { startImmediately: true }
      )
      const removed = orderOf("z")
      yield* machines.ensure(removed)
      yield* machines.ensure(order)
      yield* between(made)
      // The caller is not told of it.
      yield* machines.remove(removed.sandboxId)
      made.server.delete("pods", nameOf(order))
      const loss = yield* Fiber.join(lost)
      assert.deepStrictEqual(told, [order.sandboxId])
      return Option.getOrUndefined(loss)?.detail
    })

  it.live("reports a machine that others deleted, and none that the worker removed", () =>
    Effect.gen(function*() {
      const made = yield* cluster
      assert.strictEqual(yield* lossOf(made, orderOf("a"), () => Effect.void), "The machine is being deleted. Somebody deleted it.")
    }))

  it.live("continues after its connection broke", () =>
    Effect.gen(function*() {
      const made = yield* cluster
      yield* lossOf(made, orderOf("a"), ({ server }) => Effect.sync(() => server.cutWatches()))
      assert.isAtLeast(made.server.sent.filter(({ query }) => query.get("watch") === "true").length, 2)
    }))

  it.live("continues from a bookmark, and lists again when the server forgot the events since", () =>
    Effect.gen(function*() {
      const made = yield* cluster
      const froms = () =>
        made.server.sent.filter(({ query }) => query.get("watch") === "true").map(({ query }) => query.get("resourceVersion"))
      const lists = () => made.server.sent.filter(({ path, query }) => path.endsWith("/pods") && !query.has("watch")).length
      yield* lossOf(made, orderOf("a"), ({ server }) =>
        Effect.promise(async () => {
          await server.until(() => server.watches > 0 ? true : undefined)
          server.put("configmaps", { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "unseen" } })
          server.bookmark()
          const { resourceVersion } = server.get("configmaps", "unseen")?.metadata ?? assert.fail()
          server.endWatches()
          await server.until(() => froms().at(-1) === resourceVersion ? true : undefined)
          const before = lists()
          server.put("configmaps", { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "later" } })
          server.forget()
          server.endWatches()
          await server.until(() => lists() > before ? true : undefined)
        }))
    }))
})
