/**
 * The pod of a machine, as it is asked for: a container whose first process starts the runner as root of the pod's own user namespace,
 * and processes of the sandbox as another user, who has no capability. It reaches nothing, and sees no file of the node.
 */
import type { Limits } from "@slipway/machine/host/Limits"
import { type Order, PLACES, settingsOf } from "@slipway/runner/machines/Machines"
import type { Identity } from "@slipway/runner/wire/Identity"
import type { Waiting } from "@slipway/runner/wire/RunnerSettings"
import * as Labels from "./Labels.ts"
import { CLAIMS, type Kind, PODS, SANDBOXES, TEMPLATES, WARM_POOLS } from "./Objects.ts"

/** Of the runner, in every pod: the network policy names it. */
export const PORT = 4003

/** Where the service's own image has it. */
export const RUNNER = "/opt/slipway/node_modules/slipway/dist/runner/RunnerProgram.js"

const SETTINGS_FOLDER = "/etc/slipway-runner"
const SETTINGS_FILE = "settings.json"
const CONTAINER = "runner"

/** How long the runner may take to end its processes when it is asked to end. */
export const GRACE_SECONDS = 10

/** For the runner's state and for what it logs, beside the sandbox's disk. */
const OWN_DISK_BYTES = 64 * 2 ** 20

/** What every machine of an installation is like. */
export interface Template {
  readonly namespace: string
  /** Of the installation: who shares a database has the same. */
  readonly installation: string
  /** Of the worker's data folder, and no other's. */
  readonly machine: string
  /** With Node, git and the runner. */
  readonly image: string
  /** In the image. */
  readonly runner: string
  /** `null`: the cluster's usual one. */
  readonly runtimeClass: string | null
  /** Root of the container is nobody on the node. Where it is off, the runtime class has to be what keeps the two apart. */
  readonly userNamespaces: boolean
  readonly limits: Limits
  /** What a node has to have free, in percent of the limits. */
  readonly requestPercent: number
  readonly nodeSelector: Readonly<Record<string, string>>
  /** Taints that pods may be put on regardless, by key. */
  readonly tolerations: ReadonlyArray<string>
  /** Names of Secrets in the namespace. */
  readonly pullSecrets: ReadonlyArray<string>
}

/** An object that takes others with it when it goes. Of the same namespace. */
export interface Owner {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  readonly uid: string
}

/**
 * What a container is left with, all of it within the level baseline of Pod Security. The runner starts processes as another user
 * (SETUID, SETGID), ends them (KILL), reads and writes that user's files (DAC_OVERRIDE) and gives them to it (CHOWN, FOWNER). What it
 * starts has none of them, and nothing to get them by.
 */
const CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"]

/**
 * Everybody may write to the folders that a pod begins with. Arguments: the runner's state, the folder for temporary files, limits, `--`,
 * the command.
 */
const SCRIPT = `set -e
chmod 0700 "$1"
chmod 1777 "$2"
shift 2
while [ "$1" != -- ]; do
  prlimit --pid $$ "$1" || echo "runner: the limit $1 is not in force" >&2
  shift
done
shift
if command -v tini > /dev/null; then set -- tini -- "$@"; fi
exec "$@"`

const limitsOf = ({ limits, userNamespaces }: Template): ReadonlyArray<string> => [
  "--core=0",
  `--nofile=${limits.openFiles}`,
  `--fsize=${limits.fileBytes}`,
  // Without a user namespace the kernel would count those of all sandboxes of a node together.
  ...(userNamespaces ? [`--nproc=${limits.processes}`] : [])
]

/** What a runner is started with: a file of a Secret, and what it calls its machine. */
interface Told {
  readonly secret: { readonly secretName: string; readonly items?: ReadonlyArray<{ readonly key: string; readonly path: string }> }
  readonly file: string
  readonly env: ReadonlyArray<unknown>
  readonly machine: ReadonlyArray<string>
}

const specOf = (template: Template, told: Told) => {
  const { limits, requestPercent } = template
  const limited = {
    memory: limits.memoryBytes,
    "ephemeral-storage": limits.diskBytes + OWN_DISK_BYTES
  }
  const milliCpus = Math.round(limits.cpus * 1000)
  const part = (whole: number) => Math.max(1, Math.ceil(whole * requestPercent / 100))
  const disk = { emptyDir: { sizeLimit: String(limits.diskBytes) } }
  const memory = { emptyDir: { medium: "Memory", sizeLimit: String(limits.memoryFilesBytes) } }
  return {
    restartPolicy: "Always",
    terminationGracePeriodSeconds: GRACE_SECONDS,
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    hostname: "sandbox",
    // A server has to be named; nothing listens there.
    dnsPolicy: "None",
    dnsConfig: { nameservers: ["127.0.0.1"] },
    ...(template.userNamespaces ? { hostUsers: false } : {}),
    ...(template.runtimeClass === null ? {} : { runtimeClassName: template.runtimeClass }),
    ...(Object.keys(template.nodeSelector).length === 0 ? {} : { nodeSelector: template.nodeSelector }),
    ...(template.tolerations.length === 0 ? {} : { tolerations: template.tolerations.map((key) => ({ key, operator: "Exists" })) }),
    ...(template.pullSecrets.length === 0 ? {} : { imagePullSecrets: template.pullSecrets.map((name) => ({ name })) }),
    securityContext: { runAsUser: 0, runAsGroup: 0, seccompProfile: { type: "RuntimeDefault" } },
    containers: [{
      name: CONTAINER,
      image: template.image,
      command: [
        "/bin/sh",
        "-c",
        SCRIPT,
        CONTAINER,
        PLACES.state,
        "/tmp",
        ...limitsOf(template),
        "--",
        "node",
        template.runner,
        `${SETTINGS_FOLDER}/${told.file}`,
        ...told.machine
      ],
      ...(told.env.length === 0 ? {} : { env: told.env }),
      workingDir: "/",
      ports: [{ name: "runner", containerPort: PORT, protocol: "TCP" }],
      // Once it listens it is not asked again: each time would be one of the few connections that a runner lets in at once.
      startupProbe: { tcpSocket: { port: PORT }, periodSeconds: 1, failureThreshold: 60 },
      // The runner says why it ends in one line.
      terminationMessagePolicy: "FallbackToLogsOnError",
      resources: {
        limits: {
          cpu: `${milliCpus}m`,
          memory: String(limited.memory),
          "ephemeral-storage": String(limited["ephemeral-storage"])
        },
        requests: {
          cpu: `${part(milliCpus)}m`,
          memory: String(part(limited.memory)),
          "ephemeral-storage": String(part(limited["ephemeral-storage"]))
        }
      },
      securityContext: {
        privileged: false,
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"], add: CAPABILITIES }
      },
      volumeMounts: [
        { name: "settings", mountPath: SETTINGS_FOLDER, readOnly: true },
        { name: "state", mountPath: PLACES.state },
        { name: "workspace", mountPath: PLACES.workspace },
        { name: "home", mountPath: PLACES.home },
        { name: "repositories", mountPath: PLACES.repositories },
        { name: "tmp", mountPath: "/tmp" },
        { name: "shm", mountPath: "/dev/shm" }
      ]
    }],
    volumes: [
      // 0400: root's alone. A group that may read would be what the runner refuses to start with.
      { name: "settings", secret: { ...told.secret, defaultMode: 0o400 } },
      { name: "state", emptyDir: { sizeLimit: String(OWN_DISK_BYTES / 2) } },
      { name: "workspace", ...disk },
      { name: "home", ...disk },
      { name: "repositories", ...disk },
      { name: "tmp", ...memory },
      { name: "shm", ...memory }
    ]
  }
}

/** Of every machine, also of one that waits for its sandbox. */
const commonLabels = ({ installation }: Pick<Template, "installation">) => ({
  "app.kubernetes.io/name": "slipway",
  [Labels.COMPONENT]: Labels.COMPONENT_NAME,
  [Labels.INSTALLATION]: installation
})

/** What is in it is nowhere else until a checkpoint is taken. */
const STAYS = {
  "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
  "karpenter.sh/do-not-disrupt": "true"
}

export const labelsOf = (template: Template, order: Pick<Order, "sandboxId" | "fence">): Readonly<Record<string, string>> => ({
  ...commonLabels(template),
  [Labels.MACHINE]: template.machine,
  [Labels.SANDBOX]: order.sandboxId,
  [Labels.FENCE]: String(order.fence)
})

const settingsText = (order: Order): string => JSON.stringify({ ...settingsOf(order), listen: { host: "0.0.0.0", port: PORT } })

/** Of what is in it: a pod must not find what an earlier one was told, which stays until Kubernetes comes to deleting it. */
export const secretNameOf = ({ installation }: Pick<Template, "installation">, order: Order): string =>
  `${Labels.nameOf(installation, order.sandboxId)}-${Labels.digestOf(settingsText(order)).slice(0, 16)}`

const ownedBy = (owner: Owner | null) => owner === null ? {} : { ownerReferences: [owner] }

/** What is asked for: the pod itself, a `Sandbox` whose controller makes the pod, or a claim to one of the pool's. */
export const holder = (kind: Kind, template: Template, order: Order, owner: Owner | null) => {
  const { apiVersion } = kind
  const name = Labels.nameOf(template.installation, order.sandboxId)
  const certificate = { [Labels.CERTIFICATE]: Labels.digestOf(order.identity.certificate) }
  const annotations = { ...certificate, ...STAYS }
  const labels = labelsOf(template, order)
  const metadata = { name, namespace: template.namespace, labels, annotations, ...ownedBy(owner) }
  if (kind === CLAIMS) {
    // Labels of pods are those of domains that the controller was told alone: whoever made the claim puts ours on them.
    const spec = { warmPoolRef: { name: Labels.poolNameOf(template.installation) }, additionalPodMetadata: { annotations: STAYS } }
    return { apiVersion, kind: kind.kind, metadata: { ...metadata, annotations: certificate }, spec }
  }
  const spec = specOf(template, { secret: { secretName: secretNameOf(template, order) }, file: SETTINGS_FILE, env: [], machine: [] })
  return kind === SANDBOXES
    ? { apiVersion, kind: kind.kind, metadata, spec: { podTemplate: { metadata: { labels, annotations }, spec }, service: false } }
    : { apiVersion, kind: PODS.kind, metadata, spec }
}

/** With the runner's key. It goes with its owner, the pod or the `Sandbox`. */
export const secret = (template: Template, order: Order, owner: Owner) => ({
  apiVersion: "v1",
  kind: "Secret",
  type: "Opaque",
  immutable: true,
  metadata: {
    name: secretNameOf(template, order),
    namespace: template.namespace,
    labels: labelsOf(template, order),
    ownerReferences: [owner]
  },
  stringData: { [SETTINGS_FILE]: settingsText(order) }
})

/** Files of a pool's Secret. Pods have the first alone. */
export const POOL_FILES = { runner: "runner.json", worker: "worker.json" } as const

const MACHINE_VARIABLE = "RUNNER_MACHINE"

/** With the keys of the pool: a pod is given the runner's half. It has its owner's life. */
export const poolSecret = (template: Template, keys: { readonly worker: Identity; readonly runner: Identity }, owner: Owner | null) => {
  const waiting: Waiting = { listen: { host: "0.0.0.0", port: PORT }, state: PLACES.state, identity: keys.runner }
  return {
    apiVersion: "v1",
    kind: "Secret",
    type: "Opaque",
    immutable: true,
    metadata: {
      name: Labels.poolNameOf(template.installation),
      namespace: template.namespace,
      labels: commonLabels(template),
      ...ownedBy(owner)
    },
    stringData: {
      [POOL_FILES.runner]: JSON.stringify({ waits: true, ...waiting }),
      [POOL_FILES.worker]: JSON.stringify(keys.worker)
    }
  }
}

/**
 * What pods of the pool are made of: the same as every machine, but for whom they are. Its name says what is in it, so that one is never
 * changed; `certificate` is the runner's of the pool: with other keys it is another template.
 */
export const poolTemplate = (template: Template, certificate: string, owner: Owner | null) => {
  const pool = Labels.poolNameOf(template.installation)
  const file = `${Labels.digestOf(certificate).slice(0, 16)}.json`
  const spec = {
    podTemplate: {
      metadata: { labels: commonLabels(template) },
      spec: specOf(template, {
        secret: { secretName: pool, items: [{ key: POOL_FILES.runner, path: file }] },
        file,
        env: [{ name: MACHINE_VARIABLE, valueFrom: { fieldRef: { fieldPath: "metadata.uid" } } }],
        machine: [`$(${MACHINE_VARIABLE})`]
      })
    },
    service: false,
    // The namespace's own are what keeps pods from the network, those of no pool too.
    networkPolicyManagement: "Unmanaged"
  }
  const name = `${pool}-${Labels.digestOf(JSON.stringify(spec)).slice(0, 12)}`
  return {
    apiVersion: TEMPLATES.apiVersion,
    kind: TEMPLATES.kind,
    metadata: { name, namespace: template.namespace, labels: commonLabels(template), ...ownedBy(owner) },
    spec
  }
}

/** What changes of a pool. */
export const poolSpec = (templateName: string, pods: number) => ({ replicas: pods, sandboxTemplateRef: { name: templateName } })

export const pool = (template: Template, templateName: string, pods: number, owner: Owner | null) => ({
  apiVersion: WARM_POOLS.apiVersion,
  kind: WARM_POOLS.kind,
  metadata: {
    name: Labels.poolNameOf(template.installation),
    namespace: template.namespace,
    labels: commonLabels(template),
    ...ownedBy(owner)
  },
  // Those that wait as the last version's are made anew, rather than handed out.
  spec: { ...poolSpec(templateName, pods), updateStrategy: { type: "Recreate" } }
})
