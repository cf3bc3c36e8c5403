/** Makes the machine of a sandbox, or finds the one that it has. */
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import type { Order } from "@slipway/runner/machines/Machines"
import { Effect } from "effect"
import * as Holders from "./Holders.ts"
import { type KubernetesMachines, nameOf, owner, provision } from "./KubernetesMachines.ts"
import * as Labels from "./Labels.ts"
import * as MachinePod from "./MachinePod.ts"
import { CLAIMS, Held, type Kind, listPath, pathOf, PODS, SANDBOXES, SECRETS } from "./Objects.ts"
import * as PodTrouble from "./PodTrouble.ts"
import { ready } from "./ReadyMachine.ts"

/** How often an order begins anew because what it found went away under it. */
const MOST_TRIES = 8

/** `false`: one is there already. */
const create = Effect.fnUntraced(function*(state: KubernetesMachines, kind: Kind, order: Order) {
  const { api, namespace, options } = state
  const body = MachinePod.holder(kind, options, order, yield* owner(state))
  return yield* api.call({ method: "POST", path: listPath(kind, namespace), body }).pipe(
    Effect.asVoid,
    Effect.as(true),
    Effect.catchIf(({ reason }) => reason === "AlreadyExists", () => Effect.succeed(false)),
    Effect.mapError(provision)
  )
})

/** After its owner, so that it never is without: a pod waits for its volumes. */
const deliver = Effect.fnUntraced(
  function*({ api, holders, namespace, options }: KubernetesMachines, order: Order, { held, kind }: Holders.Holder) {
    const { name, uid } = held.metadata
    const secret = MachinePod.secretNameOf(options, order)
    const body = MachinePod.secret(options, order, { apiVersion: kind.apiVersion, kind: kind.kind, name, uid })
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      const made = yield* api.call({ method: "POST", path: listPath(SECRETS, namespace), body }).pipe(
        Effect.as(true),
        Effect.catchIf(({ reason }) => reason === "AlreadyExists", () => Effect.succeed(false)),
        Effect.mapError(provision)
      )
      if (made) return
      const found = yield* holders.get("provision", SECRETS, secret, Held)
      if (found === null) continue
      const { deletionTimestamp, ownerReferences = [] } = found.metadata
      if (deletionTimestamp === undefined && ownerReferences.some((reference) => reference.uid === uid)) return
      // Of a pod that is gone: Kubernetes would delete it when it comes to it.
      yield* holders.removeSecret(found)
    }
    return yield* new HostError({ operation: "provision", detail: `The Secret ${secret} keeps coming back.`, retryable: true })
  }
)

/** Refuses what is not ours to use or to end. */
const check = (
  { installation, namespace }: KubernetesMachines,
  operation: HostError["operation"],
  { held }: Holders.Holder,
  fence: number
) => {
  const marks = Labels.marksOf(held)
  const { name } = held.metadata
  if (marks === null || held.metadata.labels?.[Labels.INSTALLATION] !== installation) {
    const detail = `There is an object ${name} in the namespace ${namespace} that is not of this installation. Delete or rename it.`
    return Effect.fail(new HostError({ operation, detail, retryable: false }))
  }
  return marks.fence > fence
    ? Effect.fail(new HostError({ operation, detail: "A later lease has a machine of this sandbox.", retryable: false }))
    : Effect.succeed(marks)
}

/** Whoever looks, and `removeAbandoned`, see how old the use of a machine is. */
const mark = ({ api, namespace }: KubernetesMachines, { held, kind }: Holders.Holder, fence: number) => {
  const labels = { [Labels.FENCE]: String(fence) }
  const body = {
    metadata: { labels },
    ...(kind === SANDBOXES ? { spec: { podTemplate: { metadata: { labels } } } } : {})
  }
  return Effect.mapError(
    api.call({ method: "PATCH", path: pathOf(kind, namespace, held.metadata.name), body }),
    provision
  )
}

const isUsable = Effect.fnUntraced(function*({ holders }: KubernetesMachines, { held, kind }: Holders.Holder, order: Order) {
  const { annotations, deletionTimestamp } = held.metadata
  if (deletionTimestamp !== undefined) return false
  if (annotations?.[Labels.CERTIFICATE] !== Labels.digestOf(order.identity.certificate)) return false
  // A pod without its `Sandbox`, which Kubernetes is about to delete.
  if (kind === PODS && Holders.isControlled(held)) return false
  const pod = yield* holders.podOfHolder("provision", { held, kind })
  return pod === null || PodTrouble.endOf(pod) === null
})

/** What a claim that is gone had, until Kubernetes deletes it. It is called as the claim was where no pod was waiting. */
const isLeftOver = ({ installation }: KubernetesMachines, { held, kind }: Holders.Holder) =>
  kind === SANDBOXES && Holders.isClaimed(held) ||
  kind === PODS && Holders.isControlled(held) && held.metadata.labels?.[Labels.INSTALLATION] === installation &&
    Labels.marksOf(held) === null

export const ensure = Effect.fn("Machines.ensure")(function*(state: KubernetesMachines, order: Order) {
  const { holders, namespace, pool } = state
  const name = nameOf(state, order.sandboxId)
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const kind = yield* holders.kindOfNew
    const found = yield* holders.find("provision", name)
    if (found === null) {
      if (kind === CLAIMS) yield* pool.keys
      yield* create(state, kind, order)
      continue
    }
    if (isLeftOver(state, found)) {
      yield* holders.end("provision", found)
      continue
    }
    const marks = yield* check(state, "provision", found, order.fence)
    if (!(yield* isUsable(state, found, order))) {
      yield* holders.end("provision", found)
      continue
    }
    if (marks.fence < order.fence) yield* mark(state, found, order.fence)
    if (found.kind !== CLAIMS) yield* deliver(state, order, found)
    const address = yield* ready(state, found, order)
    if (address !== null) return address
  }
  return yield* new HostError({
    operation: "provision",
    detail: `The machine ${name} goes away again and again. See: kubectl --namespace ${namespace} get events`,
    retryable: true
  })
})
