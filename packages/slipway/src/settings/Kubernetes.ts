/** The cluster and the pods of sandboxes with SLIPWAY_ISOLATION=kubernetes. */
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

export const settings = {
  namespace: Setting.withDefault({
    name: "SLIPWAY_KUBERNETES_NAMESPACE",
    type: Type.pattern("the name of a namespace", /^[a-z\d]([a-z\d-]{0,61}[a-z\d])?$/u),
    default: "slipway-sandboxes",
    about: "Namespace only for the machines of sandboxes, with SLIPWAY_ISOLATION=kubernetes.",
    role: "worker"
  }),
  image: Setting.optional({
    name: "SLIPWAY_KUBERNETES_IMAGE",
    type: Type.pattern("the name of an image", /^[a-z\d][\w./:-]*(?:@sha256:[\da-f]{64})?$/u),
    about: "Image of machines: the service's, or an image that adds agents and programs to it.",
    role: "worker"
  }),
  podTemplate: Setting.optional({
    name: "SLIPWAY_KUBERNETES_POD_TEMPLATE",
    type: Type.file,
    about: "File with a Pod in YAML, the template of machines, with the fields of docs/operating/machines.md.",
    role: "worker"
  }),
  userNamespaces: Setting.withDefault({
    name: "SLIPWAY_KUBERNETES_USER_NAMESPACES",
    type: Type.flag,
    default: "true",
    about: "Whether the root of a machine has no privileges on its node (hostUsers: false). It may be off only with a runtime class " +
      "that separates them.",
    role: "worker"
  }),
  owner: Setting.optional({
    name: "SLIPWAY_KUBERNETES_OWNER",
    type: Type.pattern("the name of a ConfigMap, of at most 63 characters", /^[a-z\d]([a-z\d.-]{0,61}[a-z\d])?$/u),
    about: "ConfigMap in the namespace that owns this service's machines: Kubernetes deletes them with it. Its name distinguishes " +
      "them from those of other services there. Without it machines stay, and the service is called slipway.",
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
