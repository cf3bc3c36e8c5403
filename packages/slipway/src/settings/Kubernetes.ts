/** Where machines of sandboxes are made with SLIPWAY_ISOLATION=kubernetes, and of what. */
import { Effect } from "effect"
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

const NAME = /^[a-z\d]([a-z\d-]{0,61}[a-z\d])?$/u
const SUBDOMAIN = /^[a-z\d]([a-z\d.-]{0,251}[a-z\d])?$/u
const LABEL_NAME = /^([a-z\d]([a-z\d.-]{0,250}[a-z\d])?\/)?[A-Za-z\d]([\w.-]{0,61}[A-Za-z\d])?$/u
const LABEL_VALUE = /^([A-Za-z\d]([\w.-]{0,61}[A-Za-z\d])?)?$/u

const wordsOf = (text: string): ReadonlyArray<string> => text.split(",").map((word) => word.trim()).filter((word) => word !== "")

const pairsOf = (text: string): ReadonlyArray<readonly [name: string, value: string | undefined]> =>
  wordsOf(text).map((word) => {
    const at = word.indexOf("=")
    return at < 0 ? [word, undefined] : [word.slice(0, at), word.slice(at + 1)]
  })

export const settings = {
  namespace: Setting.withDefault({
    name: "SLIPWAY_KUBERNETES_NAMESPACE",
    type: Type.pattern("the name of a namespace", NAME),
    default: "slipway-sandboxes",
    about: "Where the machines of sandboxes are made, and nothing else is, with SLIPWAY_ISOLATION=kubernetes.",
    role: "worker"
  }),
  image: Setting.optional({
    name: "SLIPWAY_KUBERNETES_IMAGE",
    type: Type.pattern("the name of an image", /^[a-z\d][\w./:-]*(?:@sha256:[\da-f]{64})?$/u),
    about: "What machines are made of: the service's own image, or one that adds agents and programs to it.",
    role: "worker"
  }),
  installation: Setting.withDefault({
    name: "SLIPWAY_KUBERNETES_INSTALLATION",
    type: Type.pattern("a label of Kubernetes", /^[A-Za-z\d]([\w.-]{0,61}[A-Za-z\d])?$/u),
    default: "slipway",
    about: "Tells machines of this service from those of others in the namespace. All processes of a service say the same.",
    role: "worker"
  }),
  runtimeClass: Setting.optional({
    name: "SLIPWAY_KUBERNETES_RUNTIME_CLASS",
    type: Type.pattern("the name of a runtime class", SUBDOMAIN),
    about: "The runtime class of machines, such as gvisor or kata: a kernel for each sandbox. Without it they share that of their node.",
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
  mode: Setting.withDefault({
    name: "SLIPWAY_KUBERNETES_MACHINES",
    type: Type.oneOf(["auto", "pods", "agent-sandbox"]),
    default: "auto",
    about: "What machines are made as: pods, or Sandbox objects of kubernetes-sigs/agent-sandbox. " +
      "auto: agent-sandbox where the cluster has it.",
    role: "worker"
  }),
  warmPods: Setting.withDefault({
    name: "SLIPWAY_KUBERNETES_WARM_PODS",
    type: Type.integer(0, 1000),
    default: "0",
    about: "How many machines wait for sandboxes, started already, in a pool of agent-sandbox that all workers share. " +
      "It needs the extensions of agent-sandbox in the cluster.",
    role: "worker"
  }),
  owner: Setting.optional({
    name: "SLIPWAY_KUBERNETES_OWNER",
    type: Type.pattern("the name of a ConfigMap", SUBDOMAIN),
    about: "A ConfigMap in the namespace that stands for this service: when it is deleted, Kubernetes deletes all machines. " +
      "Without it they stay.",
    role: "worker"
  }),
  kubeconfig: Setting.optional({
    name: "SLIPWAY_KUBERNETES_KUBECONFIG",
    type: Type.file,
    about:
      "Which cluster, and as whom: by a token, a file of one or a client certificate. Without it, the cluster of the service's own pod.",
    role: "worker"
  }),
  context: Setting.optional({
    name: "SLIPWAY_KUBERNETES_CONTEXT",
    type: Type.text("the name of a context"),
    about: "Of that file. Without it, its current one.",
    role: "worker"
  }),
  requestPercent: Setting.withDefault({
    name: "SLIPWAY_KUBERNETES_REQUEST_PERCENT",
    type: Type.integer(1, 100),
    default: "25",
    about: "What a node has to have free for a machine, in percent of what a sandbox may take.",
    role: "worker"
  }),
  nodeSelector: Setting.optional({
    name: "SLIPWAY_KUBERNETES_NODE_SELECTOR",
    type: Type.parsed(
      "name=value of labels between commas",
      (value) => pairsOf(value).every(([name, value]) => LABEL_NAME.test(name) && value !== undefined && LABEL_VALUE.test(value))
    ),
    about: "Labels of the nodes that machines are put on, such as pool=sandboxes.",
    role: "worker"
  }),
  tolerations: Setting.optional({
    name: "SLIPWAY_KUBERNETES_TOLERATIONS",
    type: Type.parsed("keys of taints between commas", (value) => wordsOf(value).every((key) => LABEL_NAME.test(key))),
    about: "Taints of nodes that machines are put on nevertheless.",
    role: "worker"
  }),
  pullSecrets: Setting.optional({
    name: "SLIPWAY_KUBERNETES_PULL_SECRETS",
    type: Type.parsed("names of Secrets between commas", (value) => wordsOf(value).every((name) => SUBDOMAIN.test(name))),
    about: "Secrets in the namespace, for the registry of the image.",
    role: "worker"
  })
}

export const load = Effect.map(Setting.values(settings), ({ nodeSelector, pullSecrets, tolerations, ...loaded }) => ({
  ...loaded,
  nodeSelector: Object.fromEntries(pairsOf(nodeSelector ?? "").map(([name, value]) => [name, value ?? ""])),
  tolerations: wordsOf(tolerations ?? ""),
  pullSecrets: wordsOf(pullSecrets ?? "")
}))
