/** The fields that are read of Kubernetes objects, and the paths of the API. */
import { Schema } from "effect"

const Texts = Schema.Record(Schema.String, Schema.String)

const OwnerReference = Schema.Struct({ uid: Schema.String })

const Metadata = Schema.Struct({
  name: Schema.String,
  uid: Schema.String,
  resourceVersion: Schema.String,
  labels: Schema.optionalKey(Texts),
  annotations: Schema.optionalKey(Texts),
  ownerReferences: Schema.optionalKey(Schema.Array(OwnerReference)),
  creationTimestamp: Schema.optionalKey(Schema.String),
  finalizers: Schema.optionalKey(Schema.Array(Schema.String)),
  /** Set: it is being deleted. */
  deletionTimestamp: Schema.optionalKey(Schema.String)
})

const Condition = Schema.Struct({
  type: Schema.String,
  status: Schema.String,
  reason: Schema.optionalKey(Schema.String),
  message: Schema.optionalKey(Schema.String)
})

/** Any object. */
export const KubernetesObject = Schema.Struct({ metadata: Metadata })
export type KubernetesObject = typeof KubernetesObject.Type

const ContainerStatus = Schema.Struct({
  ready: Schema.optionalKey(Schema.Boolean),
  restartCount: Schema.optionalKey(Schema.Int),
  state: Schema.optionalKey(Schema.Struct({
    waiting: Schema.optionalKey(Schema.Struct({
      reason: Schema.optionalKey(Schema.String),
      message: Schema.optionalKey(Schema.String)
    })),
    running: Schema.optionalKey(Schema.Struct({}))
  })),
  lastState: Schema.optionalKey(Schema.Struct({
    terminated: Schema.optionalKey(Schema.Struct({
      exitCode: Schema.optionalKey(Schema.Int),
      reason: Schema.optionalKey(Schema.String),
      message: Schema.optionalKey(Schema.String)
    }))
  }))
})

export const Pod = Schema.Struct({
  metadata: Metadata,
  status: Schema.optionalKey(Schema.Struct({
    phase: Schema.optionalKey(Schema.String),
    reason: Schema.optionalKey(Schema.String),
    message: Schema.optionalKey(Schema.String),
    podIP: Schema.optionalKey(Schema.String),
    conditions: Schema.optionalKey(Schema.Array(Condition)),
    containerStatuses: Schema.optionalKey(Schema.Array(ContainerStatus))
  }))
})
export type Pod = typeof Pod.Type

/** A warning about an object. */
export const WarningEvent = Schema.Struct({
  type: Schema.optionalKey(Schema.String),
  reason: Schema.optionalKey(Schema.String),
  message: Schema.optionalKey(Schema.String)
})

/** Any object whose name alone counts. */
export const Named = Schema.Struct({ metadata: Schema.Struct({ name: Schema.String }) })

/** The API server's answer about its version. */
export const ServerVersion = Schema.Struct({ gitVersion: Schema.String })

/** The answer about a permission of ours. */
export const AccessReview = Schema.Struct({ status: Schema.Struct({ allowed: Schema.Boolean }) })

const Selector = Schema.Struct({
  matchLabels: Schema.optionalKey(Texts),
  matchExpressions: Schema.optionalKey(Schema.Array(Schema.Unknown))
})

export const NetworkPolicy = Schema.Struct({
  metadata: Schema.Struct({ name: Schema.String }),
  spec: Schema.Struct({
    podSelector: Selector,
    policyTypes: Schema.optionalKey(Schema.Array(Schema.String)),
    ingress: Schema.optionalKey(Schema.Array(Schema.Struct({
      from: Schema.optionalKey(Schema.Array(Schema.Unknown)),
      ports: Schema.optionalKey(Schema.Array(Schema.Struct({
        port: Schema.optionalKey(Schema.Union([Schema.Int, Schema.String])),
        endPort: Schema.optionalKey(Schema.Int)
      })))
    }))),
    egress: Schema.optionalKey(Schema.Array(Schema.Unknown))
  })
})
export type NetworkPolicy = typeof NetworkPolicy.Type

/** A page of a list. Items are decoded one by one, so that a damaged one does not hide the others. */
export const Page = Schema.Struct({
  metadata: Schema.Struct({ resourceVersion: Schema.optionalKey(Schema.String), continue: Schema.optionalKey(Schema.String) }),
  items: Schema.Array(Schema.Unknown)
})

/** A kind of object, and its place in the API. */
export interface Kind {
  readonly apiVersion: string
  readonly kind: string
  readonly plural: string
}

export const PODS: Kind = { apiVersion: "v1", kind: "Pod", plural: "pods" }
export const SECRETS: Kind = { apiVersion: "v1", kind: "Secret", plural: "secrets" }
export const CONFIG_MAPS: Kind = { apiVersion: "v1", kind: "ConfigMap", plural: "configmaps" }
export const EVENTS: Kind = { apiVersion: "v1", kind: "Event", plural: "events" }
export const NETWORK_POLICIES: Kind = { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", plural: "networkpolicies" }

const versionPath = ({ apiVersion }: Kind): string => apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`

export const listPath = (kind: Kind, namespace: string): string =>
  `${versionPath(kind)}/namespaces/${encodeURIComponent(namespace)}/${kind.plural}`

export const pathOf = (kind: Kind, namespace: string, name: string): string => `${listPath(kind, namespace)}/${encodeURIComponent(name)}`
