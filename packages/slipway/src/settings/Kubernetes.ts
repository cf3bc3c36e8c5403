/** The cluster and the pods of sandboxes with SLIPWAY_ISOLATION=kubernetes. */
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

export const settings = {
  namespace: Setting.withDefault({
    name: "SLIPWAY_KUBERNETES_NAMESPACE",
    type: Type.pattern("the name of a namespace", /^[a-z\d]([a-z\d-]{0,61}[a-z\d])?$/u),
    default: "slipway-sandboxes",
    about: "The namespace for the machines of sandboxes, and for nothing else, with SLIPWAY_ISOLATION=kubernetes.",
    role: "worker"
  }),
  image: Setting.optional({
    name: "SLIPWAY_KUBERNETES_IMAGE",
    type: Type.pattern("the name of an image", /^[a-z\d][\w./:-]*(?:@sha256:[\da-f]{64})?$/u),
    about: "The image of machines: the service's own image, or an image that adds agents and programs to it.",
    role: "worker"
  }),
  podTemplate: Setting.optional({
    name: "SLIPWAY_KUBERNETES_POD_TEMPLATE",
    type: Type.file,
    about:
      "A file with a Pod in YAML, whose labels, annotations, nodes, tolerations, pull secrets, priority and runtime class machines have. " +
      "Its allowed fields are in docs/operating/machines.md.",
    role: "worker"
  }),
  userNamespaces: Setting.withDefault({
    name: "SLIPWAY_KUBERNETES_USER_NAMESPACES",
    type: Type.flag,
    default: "true",
    about: "Whether the root of a machine has no privileges on its node (hostUsers: false). " +
      "It may be off only where a runtime class keeps the two apart.",
    role: "worker"
  }),
  owner: Setting.optional({
    name: "SLIPWAY_KUBERNETES_OWNER",
    type: Type.pattern("the name of a ConfigMap, of at most 63 characters", /^[a-z\d]([a-z\d.-]{0,61}[a-z\d])?$/u),
    about: "A ConfigMap in the namespace that stands for this service: when it is deleted, Kubernetes deletes all machines. " +
      "Its name also tells machines of this service from those of another service in the namespace. " +
      "Without it machines stay, and the service is called slipway.",
    role: "worker"
  }),
  kubeconfig: Setting.optional({
    name: "SLIPWAY_KUBERNETES_KUBECONFIG",
    type: Type.file,
    about: "The cluster and the account: a token, a file with a token, or a client certificate, by the file's current context. " +
      "Without it, the cluster of the service's own pod.",
    role: "worker"
  })
}

export const load = Setting.values(settings)
