/** Makes the machine of a sandbox, or finds the existing one. */
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import type { Order } from "@slipway/runner/machines/Machines"
import { Effect } from "effect"
import { type KubernetesMachines, nameOf, owner, provision } from "./KubernetesMachines.ts"
import * as Labels from "./Labels.ts"
import * as MachinePod from "./MachinePod.ts"
import { type Kind, KubernetesObject, listPath, pathOf, type Pod, PODS, SECRETS } from "./ObjectSchemas.ts"
import * as PodFailure from "./PodFailure.ts"
import { ready } from "./ReadyMachine.ts"

/** How often an order starts again because the object it found was deleted meanwhile. */
const MOST_TRIES = 8

/** `false`: an object of this name exists. */
const create = ({ api, namespace }: KubernetesMachines, kind: Kind, body: unknown) =>
  api.call({ method: "POST", path: listPath(kind, namespace), body }).pipe(
    Effect.as(true),
    Effect.catchIf(({ reason }) => reason === "AlreadyExists", () => Effect.succeed(false)),
    Effect.mapError(provision)
  )

/** Makes the pod's Secret after the pod, so that it is never without its owner: a pod waits for its volumes. */
const deliver = Effect.fnUntraced(function*(state: KubernetesMachines, order: Order, { metadata: { name, uid } }: Pod) {
  const { options, resources } = state
  const secret = MachinePod.secretNameOf(options, order)
  const body = MachinePod.secret(options, order, { apiVersion: PODS.apiVersion, kind: PODS.kind, name, uid })
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    if (yield* create(state, SECRETS, body)) return
    const found = yield* resources.get("provision", SECRETS, secret, KubernetesObject)
    if (found === null) continue
    const { deletionTimestamp, ownerReferences = [] } = found.metadata
    if (deletionTimestamp === undefined && ownerReferences.some((reference) => reference.uid === uid)) return
    // It belongs to a deleted pod: Kubernetes deletes it some time later.
    yield* resources.removeSecret(found)
  }
  return yield* new HostError({ operation: "provision", detail: `The Secret ${secret} keeps coming back.`, retryable: true })
})

/** Refuses a pod of another installation or of a later lease. */
const check = ({ installation, namespace }: KubernetesMachines, pod: Pod, fence: number) => {
  const marks = Labels.marksOf(pod)
  const { labels, name } = pod.metadata
  const refuse = (detail: string) => Effect.fail(new HostError({ operation: "provision", detail, retryable: false }))
  if (marks === null || labels?.[Labels.INSTALLATION] !== installation) {
    return refuse(`There is an object ${name} in the namespace ${namespace} that is not of this installation. Delete or rename it.`)
  }
  return marks.fence > fence ? refuse("A later lease has a machine of this sandbox.") : Effect.succeed(marks)
}

/** The label tells people and `removeAbandoned` which lease used the machine last. */
const mark = ({ api, namespace }: KubernetesMachines, { metadata: { name } }: Pod, fence: number) =>
  Effect.mapError(
    api.call({
      method: "PATCH",
      path: pathOf(PODS, namespace, name),
      body: { metadata: { labels: { [Labels.FENCE]: String(fence) } } }
    }),
    provision
  )

const isUsable = (pod: Pod, order: Order): boolean => {
  const { annotations, deletionTimestamp } = pod.metadata
  return deletionTimestamp === undefined && annotations?.[Labels.CERTIFICATE] === Labels.digestOf(order.identity.certificate) &&
    PodFailure.endOf(pod) === null
}

export const ensure = Effect.fn("Machines.ensure")(function*(state: KubernetesMachines, order: Order) {
  const { namespace, options, resources } = state
  const name = nameOf(state, order.sandboxId)
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const found = yield* resources.podOf("provision", name)
    if (found === null) {
      yield* create(state, PODS, MachinePod.pod(options, order, yield* owner(state)))
      continue
    }
    const marks = yield* check(state, found, order.fence)
    if (!isUsable(found, order)) {
      yield* resources.end("provision", found)
      continue
    }
    if (marks.fence < order.fence) yield* mark(state, found, order.fence)
    yield* deliver(state, order, found)
    const address = yield* ready(state, found)
    if (address !== null) return address
  }
  return yield* new HostError({
    operation: "provision",
    detail: `The machine ${name} goes away again and again. See: kubectl --namespace ${namespace} get events`,
    retryable: true
  })
})
