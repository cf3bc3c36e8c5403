/**
 * Pods that wait for sandboxes: a `SandboxWarmPool` of agent-sandbox, with the keys by which their runners let workers in. Workers make
 * it, of the same template as all machines.
 */
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as Identity from "@slipway/runner/wire/Identity"
import { Clock, Effect, Option, Schema } from "effect"
import type { Holders } from "./Holders.ts"
import type { KubernetesApi } from "./KubernetesApi.ts"
import * as Labels from "./Labels.ts"
import * as MachinePod from "./MachinePod.ts"
import { Held, type Kind, listPath, pathOf, Secret, SECRETS, TEMPLATES, WARM_POOLS, WarmPool } from "./Objects.ts"
import * as Refusal from "./Refusal.ts"

export interface Options {
  readonly template: MachinePod.Template
  /** How many wait. */
  readonly pods: number
  readonly owner: Effect.Effect<MachinePod.Owner | null, HostError>
}

/** Whether the pool is still there is asked again after so long. */
const KNOWN_MILLIS = 300_000

const MOST_TRIES = 8

const WorkerIdentity = Schema.fromJsonString(
  Schema.Struct({ privateKey: Schema.String, certificate: Schema.String, peer: Schema.String })
)
const decodeIdentity = Schema.decodeUnknownOption(WorkerIdentity)

const provision = Refusal.hostError("provision")

export const make = (api: KubernetesApi, holders: Holders, { owner, pods, template }: Options) => {
  const { installation, namespace } = template
  const name = Labels.poolNameOf(installation)

  const isOurs = ({ metadata: { labels = {} } }: Held) => labels[Labels.INSTALLATION] === installation

  const refuse = (detail: string, retryable = false) => new HostError({ operation: "provision", detail, retryable })

  /** `false`: one is there already. */
  const create = (kind: Kind, body: unknown) =>
    api.call({ method: "POST", path: listPath(kind, namespace), body }).pipe(
      Effect.as(true),
      Effect.catchIf(({ reason }) => reason === "AlreadyExists", () => Effect.succeed(false)),
      Effect.mapError(provision)
    )

  /** The worker's side of its keys, and whether they are new. The first who needs them makes them. */
  const findKeys = Effect.gen(function*() {
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      const found = yield* holders.get("provision", SECRETS, name, Secret)
      if (found !== null) {
        const text = Buffer.from(found.data?.[MachinePod.POOL_FILES.worker] ?? "", "base64").toString("utf8")
        const worker = decodeIdentity(text)
        if (isOurs(found) && Option.isSome(worker)) return { worker: worker.value, areNew: false }
        return yield* refuse(`The Secret ${name} in the namespace ${namespace} has no keys of a pool. Delete it: another one is made.`)
      }
      const minted = Identity.mint()
      if (yield* create(SECRETS, MachinePod.poolSecret(template, minted, yield* owner))) return { worker: minted.worker, areNew: true }
    }
    return yield* refuse(`The Secret ${name} goes away again and again.`, true)
  })

  const makeTemplate = Effect.fnUntraced(function*(certificate: string) {
    const body = MachinePod.poolTemplate(template, certificate, yield* owner)
    const found = yield* holders.get("provision", TEMPLATES, body.metadata.name, Held)
    if (found === null) yield* create(TEMPLATES, body)
    return body.metadata.name
  })

  const remove = (kind: Kind, object: string) => api.call({ method: "DELETE", path: pathOf(kind, namespace, object) }).pipe(Effect.ignore)

  /**
   * Makes what is not there. `isNewest`: what is there is to be as it is here. Whoever starts later has the last word, so that workers of
   * two versions do not make all pods anew in turns.
   */
  const prepare = Effect.fnUntraced(function*(certificate: string, isNewest: boolean) {
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      const found = yield* holders.get("provision", WARM_POOLS, name, WarmPool)
      const wanted = MachinePod.poolTemplate(template, certificate, null).metadata.name
      if (found === null) {
        yield* makeTemplate(certificate)
        if (yield* create(WARM_POOLS, MachinePod.pool(template, wanted, pods, yield* owner))) return
        continue
      }
      if (!isOurs(found)) return yield* refuse(`The SandboxWarmPool ${name} in the namespace ${namespace} is not of this installation.`)
      const { replicas, sandboxTemplateRef: { name: present } } = found.spec
      if (isNewest || present === wanted) yield* makeTemplate(certificate)
      if (!isNewest || present === wanted && replicas === pods) return
      const body = { spec: MachinePod.poolSpec(wanted, pods) }
      yield* Effect.mapError(api.call({ method: "PATCH", path: pathOf(WARM_POOLS, namespace, name), body }), provision)
      // Nothing is made of it any more; what was made of it has its own copy.
      if (present !== wanted && present.startsWith(`${name}-`)) yield* remove(TEMPLATES, present)
      return
    }
    return yield* refuse(`The SandboxWarmPool ${name} goes away again and again.`, true)
  })

  let isFirst = true
  let lookedAt: number | undefined

  /** The keys by which its waiting runners let this worker in, once the pool is there. */
  const keys = Effect.gen(function*() {
    const { areNew, worker } = yield* findKeys
    const now = yield* Clock.currentTimeMillis
    if (areNew || lookedAt === undefined || now - lookedAt >= KNOWN_MILLIS) {
      yield* prepare(worker.peer, areNew || isFirst)
      isFirst = false
      lookedAt = now
    }
    return worker
  })

  /** Where there is to be none: what an earlier one still has waiting ends. Its claims stay, with their pods. */
  const retire = Effect.gen(function*() {
    const found = yield* holders.get("provision", WARM_POOLS, name, WarmPool)
    if (found === null || !isOurs(found) || found.spec.replicas === 0) return
    yield* Effect.mapError(
      api.call({ method: "PATCH", path: pathOf(WARM_POOLS, namespace, name), body: { spec: { replicas: 0 } } }),
      provision
    )
  })

  /** Asks for the pool anew next time, where somebody says that it is gone. */
  const forget = () => {
    lookedAt = undefined
  }

  return { keys, retire, forget }
}

export type Pool = ReturnType<typeof make>

export type WarmPool = ReturnType<typeof make>
