/** Checks what a cluster gives machines, before the first one is ordered. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Effect, Option, Schema, type Scope } from "effect"
import type { Cluster } from "./Cluster.ts"
import * as KubernetesApi from "./KubernetesApi.ts"
import * as MachinePod from "./MachinePod.ts"
import {
  AccessReview,
  CONFIG_MAPS,
  EVENTS,
  type Kind,
  listPath,
  Named,
  NETWORK_POLICIES,
  NetworkPolicy,
  Page,
  pathOf,
  PODS,
  SECRETS,
  ServerVersion
} from "./ObjectSchemas.ts"

export interface Finding {
  readonly what: string
  /** `missing`: no machine can be made. `note`: worth knowing. */
  readonly state: "ok" | "note" | "missing"
  readonly detail: string
}

export interface Options {
  readonly cluster: Cluster
  readonly template: MachinePod.Template
  readonly owner: string | null
}

/** The verbs that the service uses, by kind. The Role of the chart allows them. */
export const VERBS: ReadonlyArray<readonly [kind: Kind, verbs: ReadonlyArray<string>, isNeeded: boolean]> = [
  [PODS, ["create", "get", "list", "watch", "patch", "delete"], true],
  [SECRETS, ["create", "get", "delete"], true],
  [CONFIG_MAPS, ["get"], true],
  [NETWORK_POLICIES, ["list"], false],
  [EVENTS, ["list"], false]
]

/** Whether the policy applies to pods with these labels. An expression that we do not evaluate counts as a match. */
const concerns = ({ spec: { podSelector } }: NetworkPolicy, labels: Readonly<Record<string, string>>): boolean =>
  Object.entries(podSelector.matchLabels ?? {}).every(([name, value]) => labels[name] === value)

const typesOf = ({ spec }: NetworkPolicy): ReadonlyArray<string> =>
  spec.policyTypes ?? ["Ingress", ...(spec.egress === undefined ? [] : ["Egress"])]

/** Policies add up: traffic passes if one of them allows it. */
const judge = (policies: ReadonlyArray<NetworkPolicy>): Omit<Finding, "what"> => {
  const named = (some: ReadonlyArray<NetworkPolicy>) => some.map(({ metadata: { name } }) => name).join(", ")
  const help = "Install the chart with kubernetes.enabled, which makes the right one."
  const leaving = policies.filter(({ spec: { egress = [] } }) => egress.length > 0)
  const closes = (type: string) => policies.some((policy) => typesOf(policy).includes(type))
  if (!closes("Egress")) return { state: "missing", detail: `No network policy keeps sandboxes from the network. ${help}` }
  if (leaving.length > 0) return { state: "missing", detail: `Sandboxes reach what ${named(leaving)} allows: they are to reach nothing.` }
  if (!closes("Ingress")) return { state: "note", detail: `Everybody in the cluster reaches the runners of sandboxes. ${help}` }
  const wide = policies.filter(({ spec: { ingress = [] } }) =>
    ingress.some(({ from = [], ports = [] }) =>
      from.length === 0 || ports.length === 0 ||
      ports.some(({ endPort, port }) => endPort !== undefined || port !== MachinePod.PORT && port !== "runner")
    )
  )
  if (wide.length > 0) return { state: "note", detail: `${named(wide)} lets more to sandboxes than workers to port ${MachinePod.PORT}.` }
  if (!policies.some(({ spec: { ingress = [] } }) => ingress.length > 0)) {
    return { state: "missing", detail: `No network policy lets workers to port ${MachinePod.PORT} of sandboxes. ${help}` }
  }
  return {
    state: "ok",
    detail: `${named(policies)}: nothing out, workers alone in, where the cluster's network keeps to policies`
  }
}

const RUNTIMES = /gvisor|runsc|kata|firecracker|cloud-?hypervisor|nabla|edera/iu

const groupOf = ({ apiVersion }: Kind): string => apiVersion.includes("/") ? apiVersion.slice(0, apiVersion.indexOf("/")) : ""

/** An id for labels alone. */
const SOME = SandboxId.make("c_aaaaaaaaaaaa")

const may = (api: KubernetesApi.KubernetesApi, namespace: string, resource: string, group: string, verb: string) =>
  api.call({
    method: "POST",
    path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    body: {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec: { resourceAttributes: { namespace, resource, group, verb } }
    }
  }).pipe(
    Effect.flatMap(Schema.decodeUnknownEffect(AccessReview)),
    Effect.map(({ status }) => status.allowed),
    Effect.orElseSucceed(() => false)
  )

const rights = (api: KubernetesApi.KubernetesApi, namespace: string, kind: Kind, verbs: ReadonlyArray<string>, isNeeded: boolean) =>
  Effect.map(
    Effect.filter(verbs, (verb) => Effect.map(may(api, namespace, kind.plural, groupOf(kind), verb), (allowed) => !allowed), {
      concurrency: 4
    }),
    (refused): Finding => ({
      what: `Kubernetes: ${kind.plural}`,
      state: refused.length === 0 ? "ok" : isNeeded ? "missing" : "note",
      detail: refused.length === 0
        ? verbs.join(", ")
        : `The service may not ${refused.join(", ")} ${kind.plural} in ${namespace}. Give its account the Role of the chart.`
    })
  )

const kernelFinding = Effect.fnUntraced(function*(api: KubernetesApi.KubernetesApi, { podTemplate, userNamespaces }: MachinePod.Template) {
  const { runtimeClassName: runtimeClass } = podTemplate.spec
  const classes = yield* api.call({ method: "GET", path: "/apis/node.k8s.io/v1/runtimeclasses", query: { limit: 500 } }).pipe(
    Effect.flatMap(Schema.decodeUnknownEffect(Page)),
    Effect.map(({ items }) =>
      Option.some(items.flatMap((item) => {
        const decoded = Schema.decodeUnknownOption(Named)(item)
        return Option.isSome(decoded) ? [decoded.value.metadata.name] : []
      }))
    ),
    Effect.orElseSucceed(() => Option.none<ReadonlyArray<string>>())
  )
  const offered = Option.getOrElse(classes, (): ReadonlyArray<string> => [])
  const own = offered.filter((name) => RUNTIMES.test(name))
  const kernel: Finding = {
    what: "Kubernetes: kernel",
    ...(runtimeClass === undefined
      ? {
        state: "note" as const,
        detail: "Sandboxes share the kernel of their node, in user namespaces. " +
          (Option.isNone(classes)
            ? "Which runtime classes there are, the service may not see."
            : own.length > 0
            ? `The cluster has runtime classes that may give each its own: ${own.join(", ")}.`
            : `The cluster has no runtime class that looks as if it gave each its own (${offered.join(", ") || "it has none"}).`)
      }
      : Option.isSome(classes) && !offered.includes(runtimeClass)
      ? {
        state: "missing" as const,
        detail: `There is no runtime class ${runtimeClass}. Those there are: ${offered.join(", ") || "none"}.`
      }
      : { state: "ok" as const, detail: `runtime class ${runtimeClass}${userNamespaces ? ", in a user namespace" : ""}` })
  }
  return kernel
})

const networkFinding = (api: KubernetesApi.KubernetesApi, template: MachinePod.Template): Effect.Effect<Finding> => {
  const { namespace } = template
  const labels = MachinePod.podLabelsOf(template, { sandboxId: SOME, fence: 0 })
  return api.call({ method: "GET", path: listPath(NETWORK_POLICIES, namespace), query: { limit: 500 } }).pipe(
    Effect.flatMap(Schema.decodeUnknownEffect(Page)),
    Effect.flatMap(({ items }) => Effect.forEach(items, (item) => Schema.decodeUnknownEffect(NetworkPolicy)(item))),
    Effect.map((policies): Finding => ({ what: "Kubernetes: network", ...judge(policies.filter((one) => concerns(one, labels))) })),
    Effect.orElseSucceed((): Finding => ({
      what: "Kubernetes: network",
      state: "note",
      detail: `The network policies of ${namespace} cannot be read, and sandboxes must reach nothing. ` +
        `See: kubectl --namespace ${namespace} get networkpolicies`
    }))
  )
}

const ownerFinding = (api: KubernetesApi.KubernetesApi, namespace: string, owner: string | null): Effect.Effect<Finding> =>
  owner === null
    ? Effect.succeed<Finding>({
      what: "Kubernetes: owner",
      state: "note",
      detail: "none: uninstalling the service leaves the machines, which have to be deleted by hand"
    })
    : api.call({ method: "GET", path: pathOf(CONFIG_MAPS, namespace, owner) }).pipe(
      Effect.as<Finding>({ what: "Kubernetes: owner", state: "ok", detail: `ConfigMap ${owner}: machines go when it goes` }),
      Effect.catch(({ detail, status }) =>
        Effect.succeed<Finding>({
          what: "Kubernetes: owner",
          state: "missing",
          detail: status === 404
            ? `There is no ConfigMap ${owner} in ${namespace}. Make it: kubectl --namespace ${namespace} create configmap ${owner}`
            : detail
        })
      )
    )

/** Examines the cluster without changing it. Never fails: an unreadable part is a finding. */
export const examine = Effect.fn("KubernetesProbe.examine")(function*(
  { cluster, owner, template }: Options
): Effect.fn.Return<ReadonlyArray<Finding>, never, Scope.Scope> {
  const { namespace } = template
  const api = yield* KubernetesApi.make(cluster)
  const version = yield* api.call({ method: "GET", path: "/version" }).pipe(
    Effect.flatMap(Schema.decodeUnknownEffect(ServerVersion)),
    Effect.result
  )
  if (version._tag === "Failure") {
    const { failure } = version
    const detail = failure._tag === "KubernetesFailed" ? failure.detail : `What answers at ${api.host} is no API server of Kubernetes.`
    return [{ what: "Kubernetes", state: "missing", detail }]
  }

  const kernel = yield* kernelFinding(api, template)
  const network = yield* networkFinding(api, template)
  const installation = yield* ownerFinding(api, namespace, owner)
  const allowed = yield* Effect.forEach(VERBS, ([kind, verbs, isNeeded]) => rights(api, namespace, kind, verbs, isNeeded))
  return [
    { what: "Kubernetes", state: "ok", detail: `${version.success.gitVersion} at ${api.host}, namespace ${namespace}` },
    ...allowed,
    kernel,
    network,
    installation
  ]
})
